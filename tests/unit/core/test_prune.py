"""Which old tool results become stubs."""

import json
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, MessageEntry, Pin, Pruning
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    ResultStatus,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolResultPart,
    results_of,
)
from infold.core.policy import INFOLD, Policy, PrunePolicy, preset, share, tokens
from infold.core.prune import NOTHING_TO_PRUNE, PrunePlan, plan_prune
from infold.core.tokens import estimate
from infold.core.view import view
from infold.testing.builders import (
    calls,
    numbered,
    replies,
    requests_compaction,
    result,
    session,
    summary,
    tokens_of_text,
    user,
)

PRUNING = [preset(name) for name in ("opencode-1.1.23", "opencode-1.1.57", "proactive")]
OLD = preset("opencode-1.1.23")
SPARING = INFOLD.but(prune=INFOLD.prune.but(spare_turns=2))
"""`infold` with the last two turns spared, as the documents have it."""
TWO_TURNS = (user("second"), replies(), user("third"))


def planned(log: Log, policy: Policy = OLD) -> PrunePlan:
    """The plan for a usable window of 168,000, which a document's numbers do not depend on."""
    return plan_prune(log, policy.prune, usable_tokens=168_000)


def one_turn(*sizes: int, tool: str = "bash") -> list[Message]:
    """A turn with results of these sizes, oldest first."""
    return [user(), *(message for size in sizes for message in (calls(tool), result(size))), replies()]


def behind_two_turns(*sizes: int, policy: Policy = OLD, tool: str = "bash") -> Log:
    """Results of these sizes, oldest first, all older than the last two turns."""
    return session(*one_turn(*sizes, tool=tool), *TWO_TURNS, policy=policy)


def turns_of(sizes: Iterable[int], policy: Policy = OLD) -> Log:
    """One result per turn."""
    return session(*(message for size in sizes for message in one_turn(size)), policy=policy)


def outputs(log: Log, targets: Iterable[str]) -> list[int]:
    """The sizes of the targeted results, by the documents' rule."""
    found = (log.find(handle) for handle in targets)
    return [estimate(result.output, "round") for logged in found if logged for result in results_of(logged.message)]


# The worked cases of the documents.


@pytest.mark.parametrize("policy", PRUNING)
def test_the_worked_example(policy: Policy) -> None:
    """S2.2, S2.6: of turns 3 to 10 with 30, 25, 20, 15, 12, 8, 5, 3k, turns 3, 4, 5 go: 75k freed, 43k left."""
    log = turns_of((30_000, 25_000, 20_000, 15_000, 12_000, 8_000, 5_000, 3_000), policy)

    plan = planned(log, policy)

    assert outputs(log, plan.targets) == [20_000, 25_000, 30_000]
    assert plan.freed_tokens == 75_000
    left = sum(estimate(result.output, "round") for logged in log.live for result in logged.results) - plan.freed_tokens
    assert left == 43_000


@pytest.mark.parametrize("policy", PRUNING)
@pytest.mark.parametrize(("results", "freed"), [(0, 0), (39, 0), (40, 0), (60, 0), (61, 21_000), (100, 60_000)])
def test_results_of_a_thousand(policy: Policy, results: int, freed: int) -> None:
    """S2.6, S2.7: 39k free nothing, 60k nothing (exactly 20k would go), 61k free 21k, 100k free 60k."""
    plan = planned(behind_two_turns(*[1_000] * results, policy=policy), policy)

    assert plan.freed_tokens == freed
    assert len(plan.targets) == freed // 1_000


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("size", [1_000, 100_000, 1_000_000])
def test_the_last_two_turns_are_never_touched(turns: int, size: int) -> None:
    """S2.2: with one or two turns nothing goes, whatever the amount."""
    assert planned(turns_of([size] * turns)) == NOTHING_TO_PRUNE


def test_the_last_two_turns_are_not_counted() -> None:
    """S2.2: results of the spared turns leave the 40,000 kept ones to older results."""
    log = turns_of((30_000, 40_000, 1_000_000, 1_000_000))

    assert outputs(log, planned(log).targets) == [30_000]


def test_one_later_user_message_spares_everything() -> None:
    """S2.2: a result with a single user message after its own is in the last two turns."""
    assert planned(session(*one_turn(200_000), user("second"))) == NOTHING_TO_PRUNE


@pytest.mark.parametrize(("size", "freed"), [(40_000, 0), (40_001, 40_001)])
def test_exactly_the_kept_amount_stays(size: int, freed: int) -> None:
    """S2.6: a sum of exactly 40,000 keeps everything; the result that takes it over is chosen whole."""
    assert planned(behind_two_turns(size)).freed_tokens == freed


@pytest.mark.parametrize(("size", "freed"), [(20_000, 0), (20_001, 20_001)])
def test_exactly_the_minimum_does_nothing(size: int, freed: int) -> None:
    """S2.7: freeing exactly 20,000 is not worth it, 20,001 is."""
    assert planned(behind_two_turns(size, 40_000)).freed_tokens == freed


def test_everything_older_than_the_crossing_result_goes() -> None:
    """S2.1, S2.6: once the sum is over 40,000 every older result is chosen, however small, newest first."""
    log = behind_two_turns(5, 30_000, 7, 30_000, 15_000)

    assert outputs(log, planned(log).targets) == [30_000, 7, 30_000, 5]


def test_parts_are_walked_last_to_first() -> None:
    """S2.1: of parallel results in one message the last are the newest."""
    sizes = (25_000, 40_000)
    both = ToolMessage(MessageId(""), tuple(ToolResultPart("", "", tokens_of_text(size)) for size in sizes))
    log = session(user(), calls("bash", "bash"), both, replies(), *TWO_TURNS, policy=OLD)

    assert planned(log).targets == (Handle("2.0"),)


def test_opencodes_own_case() -> None:
    """S2.6, S2.8: a bash output of 200,000 characters, then users `second` and `third`: that result goes."""
    log = session(user("first"), calls("bash"), result(output="x" * 200_000), user("second"), user("third"), policy=OLD)

    assert planned(log) == PrunePlan((Handle("2.0"),), 50_000)


# What is passed over and what ends the walk.


def test_a_protected_tool_is_skipped_and_not_counted() -> None:
    """S2.4: `skill` results stay, and leave the 40,000 kept ones to others."""
    log = session(*one_turn(30_000, 40_000), *one_turn(500_000, tool="skill"), *TWO_TURNS, policy=OLD)

    assert outputs(log, planned(log).targets) == [30_000]
    assert planned(behind_two_turns(200_000, tool="skill")) == NOTHING_TO_PRUNE


def test_the_protected_set_can_be_changed() -> None:
    """S2.4: `skill` is only the default."""
    prune = replace(OLD.prune, protected_tools=frozenset({"bash"}))

    assert plan_prune(behind_two_turns(200_000), prune, usable_tokens=168_000) == NOTHING_TO_PRUNE
    assert plan_prune(behind_two_turns(200_000, tool="skill"), prune, usable_tokens=168_000).freed_tokens == 200_000


@pytest.mark.parametrize("status", ["error", "interrupted"])
def test_failed_results_are_not_counted(status: ResultStatus) -> None:
    """S2.4: only completed results count and only they are chosen."""
    failed = result(500_000, status=status)
    log = session(*one_turn(30_000), user(), calls("bash"), failed, *one_turn(40_000), *TWO_TURNS, policy=OLD)

    assert outputs(log, planned(log).targets) == [30_000]


def test_an_already_pruned_result_stops_the_walk() -> None:
    """S2.5: what is older than a pruned result is not looked at again, even if it was left visible."""
    log = behind_two_turns(90_000, 10, 40_000).append(Pruning((Handle("4.0"),), 10))

    assert planned(log) == NOTHING_TO_PRUNE


def test_what_is_newer_than_a_pruned_result_is_still_chosen() -> None:
    """S2.5: the walk ends at the pruned result with what it has."""
    log = behind_two_turns(90_000, 30_000, 40_000).append(Pruning((Handle("2.0"),), 90_000))

    assert outputs(log, planned(log).targets) == [30_000]


def test_a_summary_stops_the_walk() -> None:
    """S2.3: nothing behind a summary is looked at."""
    folded = (*one_turn(90_000), requests_compaction(), summary())
    log = session(*folded, *one_turn(90_000), *TWO_TURNS, policy=OLD)

    assert planned(log).freed_tokens == 90_000
    assert planned(session(*folded, *TWO_TURNS, policy=OLD)) == NOTHING_TO_PRUNE


def test_a_foreign_summary_stops_the_walk_and_is_sent() -> None:
    """S2.3, B26: a summary of another program ends the walk and stays where it is, as its caller sends it."""
    foreign = replace(replies("So it went."), foreign_summary=True)
    log = session(*one_turn(90_000), foreign, *TWO_TURNS, policy=OLD)

    assert planned(log) == NOTHING_TO_PRUNE
    assert len(view(log, OLD.summary)) == log.length


def test_a_result_cleared_elsewhere_stops_the_walk() -> None:
    """S2.5, B26: a result that another program cleared counts as pruned already."""
    first, call, answer = one_turn(10)[:3]
    cleared = replace(answer, parts=(replace(results_of(answer)[0], cleared=True),))
    log = session(*one_turn(90_000), first, call, cleared, *one_turn(40_000), *TWO_TURNS, policy=OLD)

    assert planned(log) == NOTHING_TO_PRUNE


def test_the_kept_tail_lies_behind_its_summary() -> None:
    """S2.3: a checkpoint stands before the walk reaches the tail it kept."""
    log = behind_two_turns(90_000).append(Checkpoint("summary", first_kept=0))

    assert planned(log) == NOTHING_TO_PRUNE
    assert planned(session(*one_turn(90_000), policy=OLD).append(Checkpoint("s", first_kept=0))) == NOTHING_TO_PRUNE


@pytest.mark.parametrize("later", [(), (user("second"),), (user("second"), user("third"))])
def test_a_failed_summary_stops_the_walk_wherever_it_stands(later: tuple[Message, ...]) -> None:
    """S2.3: a summary that failed is still a summary to the walk, among the last two turns as before them."""
    log = session(*one_turn(90_000), user(), requests_compaction(), summary(error="too long"), *later, policy=OLD)

    assert planned(log) == NOTHING_TO_PRUNE


def test_a_pinned_result_is_passed_over() -> None:
    """B20, S2.4: a pin protects like a protected tool: skipped and not counted."""
    log = behind_two_turns(30_000, 500_000, 40_000).append(Pin(Handle("4.0")))

    assert outputs(log, planned(log).targets) == [30_000]


def test_late_results_are_not_pruned() -> None:
    """B12: a result that came after its step had closed is text in the view, and text is not pruned."""
    log = session(user(), calls("bash"), user(), result(90_000), *TWO_TURNS, replies(), policy=OLD)

    assert log.live[3].late == (0,)
    assert planned(log) == NOTHING_TO_PRUNE


# Turns.


def test_documents_count_every_user_message_as_a_turn() -> None:
    """S2.2: the compaction request and the continue message are turns to a document, not to `infold`."""
    drafts = (*one_turn(90_000), requests_compaction(), summary(finish=None), user("go on", synthetic=True))
    spoken = (*one_turn(90_000), user("go on", synthetic=True), user("and on", synthetic=True))

    assert planned(session(*spoken, policy=OLD)).freed_tokens == 90_000
    assert planned(session(*spoken), SPARING) == NOTHING_TO_PRUNE
    assert planned(session(*one_turn(90_000), requests_compaction(), user(), policy=OLD)).freed_tokens == 90_000
    assert planned(session(*drafts), SPARING) == NOTHING_TO_PRUNE


def test_infold_counts_genuine_turns() -> None:
    """S2.2: where `infold` spares turns, two messages of a person make a result old."""
    log = session(*one_turn(90_000), *TWO_TURNS)

    assert planned(log, SPARING).targets == (Handle("2.0"),)


# What pruning leaves.


@pytest.mark.parametrize("policy", PRUNING)
def test_the_stored_output_is_untouched(policy: Policy) -> None:
    """S2.8, S4.3: the view shows the preset's stub, the log keeps the output, the entry keeps the time."""
    log = behind_two_turns(50_000, policy=policy)
    plan = planned(log, policy)
    entry = Pruning(plan.targets, plan.freed_tokens, pruned_ms=1_700_000_000_000)
    pruned = log.append(entry)

    (stored,) = results_of(pruned.live[2].message)
    (shown,) = results_of(view(pruned, policy.summary)[2])
    assert stored.output == tokens_of_text(50_000)
    assert shown.output == policy.stub
    assert (shown.call_id, shown.tool) == (stored.call_id, stored.tool)
    assert entry.pruned_ms == 1_700_000_000_000
    assert log.append(entry).live[2].message is log.live[2].message


def test_pruning_twice_is_pruning_once() -> None:
    """S2.10: after a pruning the same log has nothing left to prune."""
    log = behind_two_turns(*[1_000] * 100)
    plan = planned(log)

    assert planned(log.append(Pruning(plan.targets, plan.freed_tokens))) == NOTHING_TO_PRUNE


@pytest.mark.parametrize("policy", [*PRUNING, INFOLD])
def test_prune_off_is_off(policy: Policy) -> None:
    """S2.9: nothing is chosen where pruning is switched off."""
    off = replace(policy, prune=replace(policy.prune, enabled=False))

    assert planned(behind_two_turns(500_000), off) == NOTHING_TO_PRUNE


@pytest.mark.parametrize("name", ["turn-window", "opencode-1.18"])
def test_presets_without_pruning(name: str) -> None:
    """S1.7, S1.9, S2.9: two presets do not prune."""
    assert planned(behind_two_turns(500_000, policy=preset(name)), preset(name)) == NOTHING_TO_PRUNE


def test_nothing_in_nothing_to_prune() -> None:
    """S2.9: an empty log, and one without results, have nothing to prune."""
    instructions = SystemMessage(MessageId(""), (TextPart("be brief"),))

    assert planned(session()) == NOTHING_TO_PRUNE
    assert planned(session(instructions, user(), replies(), *TWO_TURNS)) == NOTHING_TO_PRUNE


def test_amounts_may_be_shares() -> None:
    """B19: what is kept and what is worth it may be shares of the usable window."""
    prune = PrunePolicy(keep=share(0.1), minimum=share(0.05))
    log = behind_two_turns(1_000, 9_000)

    assert plan_prune(log, prune, usable_tokens=90_000).freed_tokens == 0
    assert plan_prune(log, prune, usable_tokens=10_000).freed_tokens == 10_000
    assert plan_prune(log, replace(prune, minimum=tokens(10_000)), usable_tokens=10_000) == NOTHING_TO_PRUNE


def test_the_minimum_can_be_waived() -> None:
    """B9: where the request would not fit, anything that can be freed counts."""
    log = behind_two_turns(100, 40_000)

    assert plan_prune(log, OLD.prune, usable_tokens=168_000, minimum_tokens=0).freed_tokens == 100


def test_no_turns_spared() -> None:
    """S2.2: the number of spared turns is a setting, and 0 spares none."""
    log = session(*one_turn(90_000), policy=OLD)

    assert plan_prune(log, replace(OLD.prune, spare_turns=0), usable_tokens=168_000).freed_tokens == 90_000


# What the model has not seen.


NONE_SPARED = OLD.but(prune=OLD.prune.but(spare_turns=0))


@pytest.mark.parametrize("policy", [NONE_SPARED, INFOLD], ids=["document", "infold"])
@pytest.mark.parametrize("behind", [(), (user("And quickly."),)], ids=["results", "a person's words"])
def test_what_the_model_has_not_seen_is_never_chosen(policy: Policy, behind: tuple[Message, ...]) -> None:
    """B16: where no turn is spared, results behind the newest reply stay whole, however large; a reply to them makes them old."""
    read = (user(), calls("bash"), result(90_000), calls("bash", "read"), result(90_000), result(90_000), *behind)

    assert planned(session(*read, policy=policy), policy).targets == (Handle("2.0"),)
    answered = session(*read, replies(), policy=policy)
    assert planned(answered, policy).targets == (Handle("5.0"), Handle("4.0"), Handle("2.0"))


def test_the_newest_call_is_never_chosen() -> None:
    """B16: where no turn is spared, the long arguments of the newest reply stay, and go once another reply follows."""
    wrote = calls("write", arguments=json.dumps({"path": "a.py", "content": tokens_of_text(90_000)}))
    drafts = (user(), wrote, result(output="done"))

    assert planned(session(*drafts), INFOLD) == NOTHING_TO_PRUNE
    assert planned(session(*drafts, replies()), INFOLD).targets == (Handle("1.0"),)


def test_what_the_model_has_not_seen_counts_towards_what_is_kept() -> None:
    """B16, S2.6: an unseen result takes the room of older ones, of which otherwise none would go."""
    first = (user(), calls("bash"), result(30_000))

    assert planned(session(*first, replies(), policy=OLD), NONE_SPARED) == NOTHING_TO_PRUNE
    unseen = session(*first, calls("bash"), result(20_000), policy=OLD)
    assert planned(unseen, NONE_SPARED) == PrunePlan((Handle("2.0"),), 30_000)


def test_without_a_reply_nothing_is_chosen() -> None:
    """B16: where there is no reply at all, nothing is chosen although no turn is spared."""
    asked = session(user(), calls("bash"), policy=OLD).append(Checkpoint("so far"))
    late = asked.append(MessageEntry(replace(numbered([result(90_000)])[0], id=MessageId("late"), parts=LATE)))

    for log in (session(policy=OLD), session(user(tokens_of_text(90_000)), policy=OLD), late):
        plan = plan_prune(log, NONE_SPARED.prune, usable_tokens=168_000, minimum_tokens=0)
        assert plan == NOTHING_TO_PRUNE


LATE = (ToolResultPart("m1-call0", "bash", tokens_of_text(90_000)),)
"""The answer to a call that was folded before it came."""


@pytest.mark.parametrize(
    "failed",
    [replace(replies(""), finish=None, error="overloaded"), replies("", finish="error")],
    ids=["with an error", "that ended in one"],
)
def test_a_failed_reply_has_seen_nothing(failed: AssistantMessage) -> None:
    """B16: an empty reply that ended in an error does not make the results before it old, since the view leaves it out."""
    log = session(user(), calls("bash"), result(90_000), calls("bash"), result(90_000), failed)

    assert view(log, INFOLD.summary)[-1] == log.live[4].message
    assert planned(log, INFOLD).targets == (Handle("2.0"),)


def test_the_beginning_of_a_reply_has_seen_nothing() -> None:
    """B16: a reply that the caller began, for the model to go on with, does not make the results before it old."""
    drafts = (user(), calls("bash"), result(90_000), calls("bash"), result(90_000))
    begun = session(*drafts, replace(replies("So far: "), finish=None))
    ended = session(*drafts, replies("So it is."))

    assert planned(begun, INFOLD).targets == (Handle("2.0"),)
    assert planned(ended, INFOLD).targets == (Handle("4.0"), Handle("2.0"))


@pytest.mark.parametrize(("least", "freed"), [(0, 60_000), (40_000, 60_000), (55_000, 30_000), (95_000, 0)])
def test_more_than_the_policys_share_may_be_kept(least: int, freed: int) -> None:
    """B16, S2.6: whoever asks may have more of the newest results kept than the policy's amount, and never fewer."""
    log = behind_two_turns(30_000, 30_000, 25_000)

    assert plan_prune(log, OLD.prune, usable_tokens=168_000, least_kept_tokens=least).freed_tokens == freed


def test_what_was_clipped_counts_as_it_is_shown() -> None:
    """S2.6, S2.7: a result of which the view shows a part frees that part, beside others of the same message that are whole."""
    log = session(*one_turn(30_000, 30_000, 30_000), *TWO_TURNS, policy=OLD)
    clipped = log.append(Clipping((Clip(Handle("2.0"), 4_000, 4_000), Clip(Handle("4.0"), 4_000, 4_000))))
    shown = [estimate(part.output, "round") for message in view(clipped, OLD.summary) for part in results_of(message)]

    assert planned(log).freed_tokens == 60_000
    assert planned(clipped) == NOTHING_TO_PRUNE
    assert shown[0] < 2_100
    waived = plan_prune(clipped, replace(OLD.prune, keep=tokens(0)), usable_tokens=168_000, minimum_tokens=0)
    assert waived.freed_tokens == sum(shown)


def test_a_clip_of_another_part_leaves_a_result_whole() -> None:
    """S2.6: what is clipped beside it in the same message changes nothing for a result."""
    log = session(user(), calls("bash", "bash"), ToolMessage(MessageId(""), two_results()), *TWO_TURNS, policy=OLD)
    clipped = log.append(Clipping((Clip(Handle("2.1"), 400, 400),)))

    assert planned(log).freed_tokens == 60_000
    assert planned(clipped).freed_tokens == 60_000


def two_results() -> tuple[ToolResultPart, ...]:
    """A long result and one that takes the sum over what is kept, newest last."""
    return ToolResultPart("", "bash", tokens_of_text(60_000)), ToolResultPart("", "bash", tokens_of_text(1_000))
