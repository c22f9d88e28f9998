"""What to do next so that the next request fits."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import apply_step
from infold.core.cut import Cut, head_size
from infold.core.entries import Checkpoint, Handle, MessageEntry, Pin, Pruning
from infold.core.gauge import PlanInputs, Rates, gauge
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Finish, Message, MessageId, ToolMessage, ToolResultPart, Usage
from infold.core.plan import Fits, Fold, NextStep, Prune, Shorten, Stuck, Summarise, next_step
from infold.core.policy import INFOLD, PRESETS, Policy, TailPolicy, preset, share, tokens
from infold.core.tokens import estimate_tokens
from infold.testing.builders import calls, log_of, numbered, replies, result, session, tokens_of_text, user

WINDOW = Window(200_000)
DOCUMENTS = sorted(set(PRESETS) - {"infold"})
SENTENCE = "The build went through and every test passed on the second try. "


def prose(amount: int) -> str:
    """Running text of about that many tokens by our own estimate."""
    return SENTENCE * (amount * 100 // estimate_tokens(SENTENCE * 100) + 1)


def step(
    log: Log,
    policy: Policy,
    window: Window = WINDOW,
    *,
    overhead: int = 0,
    manual: bool = False,
    summariser: bool = False,
) -> NextStep:
    """The next step under a policy in a window."""
    budget = budget_for(window, policy)
    return next_step(log, PlanInputs(policy, budget, overhead_tokens=overhead, manual=manual, summariser=summariser))


def reported(tokens_in_use: int, policy: Policy, *before: Message) -> Log:
    """A session whose last reply reported that usage."""
    return session(*before, user(), replies(usage=Usage(input=tokens_in_use)), policy=policy)


def turns(number: int, tokens_each: int) -> list[Message]:
    """Turns of that many tokens by the documents' rule."""
    half = tokens_of_text(tokens_each // 2)
    return [draft for _ in range(number) for draft in (user(half), replies(half))]


# Overflow.


@pytest.mark.parametrize(
    ("name", "most", "cut"),
    [
        ("opencode-1.1.23", 168_000, Cut(4, None)),
        ("opencode-1.1.57", 179_999, Cut(2, 2)),
        ("proactive", 179_999, Cut(4, None)),
        ("opencode-1.18", 167_999, Cut(4, None)),
    ],
)
def test_overflow_of_the_last_reply_folds(name: str, most: int, cut: Cut) -> None:
    """S5.1, S1.4, S1.5, S1.6, S1.9: one token over what the preset allows, and the head is folded by its tail rule."""
    policy = preset(name)
    fits = step(reported(most, policy, user(), replies()), policy)
    folds = step(reported(most + 1, policy, user(), replies()), policy)

    assert isinstance(fits, Fits)
    assert fits.gauge.count_tokens == most
    assert isinstance(folds, Fold)
    assert (folds.cut, folds.reason) == (cut, "trigger")


@pytest.mark.parametrize(("tokens_each", "expected"), [(6_856, Fits), (6_858, Fold), (8_000, Fold)])
def test_turn_window_acts_on_its_estimate(tokens_each: int, expected: type[NextStep]) -> None:
    """S1.7: 7 turns are compacted once their estimate is 48,000; turn 1 is the old part."""
    policy = preset("turn-window")
    found = step(session(*turns(7, tokens_each), policy=policy), policy)

    assert isinstance(found, expected)
    if isinstance(found, Fold):
        assert found.cut == Cut(2, 2)


@pytest.mark.parametrize("name", PRESETS)
def test_a_model_is_asked_where_there_is_one(name: str) -> None:
    """S3.4, B10: the same head is summarised by a model or folded by code, in the same room."""
    policy = preset(name)
    log = session(*turns(8, 40_000), replies(usage=Usage(input=190_000)), policy=policy)
    asked, folded = (step(log, policy, summariser=able) for able in (True, False))

    assert isinstance(asked, Summarise)
    assert isinstance(folded, Fold)
    assert (asked.cut, asked.budget_tokens, asked.reason) == (folded.cut, folded.budget_tokens, folded.reason)


@pytest.mark.parametrize("name", PRESETS)
def test_auto_off_means_off(name: str) -> None:
    """S1.1, B19: without `auto` nothing happens by itself; a person may still ask."""
    policy = replace(preset(name), auto=False)
    log = session(*turns(8, 40_000), replies(usage=Usage(input=190_000), finish="length"), policy=policy)

    assert isinstance(step(log, policy), Fits)
    asked = step(log, policy, manual=True)
    assert isinstance(asked, Fold)
    assert asked.reason == "manual"


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"turn-window"}))
def test_a_window_without_a_limit_never_overflows(name: str) -> None:
    """S1.2: nothing is done about a window that was declared to have no limit."""
    log = session(*turns(8, 400_000), replies(usage=Usage(input=900_000), finish="length"), policy=preset(name))

    assert isinstance(step(log, preset(name), Window(0)), Fits)


@pytest.mark.parametrize("name", PRESETS)
def test_an_empty_session_fits(name: str) -> None:
    """S4.5: there is nothing to compact in nothing, even when asked to."""
    assert isinstance(step(session(), preset(name)), Fits)
    assert isinstance(step(session(), preset(name), manual=True), Fits)


def test_without_reports_a_document_goes_by_the_estimate() -> None:
    """S7.2: where a provider never tells usage, a rule on usage is given our estimate."""
    policy = preset("opencode-1.1.23")
    log = session(user(prose(170_000)), replies(), policy=policy)

    assert isinstance(step(log, policy), Fits)
    assert isinstance(next_step(log, PlanInputs(policy, budget_for(WINDOW, policy), reports_usage=False)), Fold)


# Pruning first.


@pytest.mark.parametrize("name", ["opencode-1.1.23", "opencode-1.1.57", "proactive"])
def test_documents_prune_before_every_request(name: str) -> None:
    """S1.6, S5.4: old results are pruned first, however empty the window is."""
    policy = preset(name)
    log = reported(1_000, policy, user(), calls("bash"), result(90_000), user())
    found = step(log, policy)

    assert isinstance(found, Prune)
    assert found.plan.targets == (Handle("2.0"),)


@pytest.mark.parametrize(
    ("name", "expected"), [("opencode-1.1.23", Fold), ("opencode-1.1.57", Fits), ("proactive", Fits)]
)
def test_what_pruning_freed_decides(name: str, expected: type[NextStep]) -> None:
    """S5.4: 190,000 reported less 90,000 freed is enough for 1.1.57 and `proactive`, and nothing to 1.1.23."""
    policy = preset(name)
    log = reported(190_000, policy, user(), calls("bash"), result(90_000), user())

    assert isinstance(step(log.append(Pruning((Handle("2.0"),), 90_000)), policy), expected)


def test_summarising_waits_for_overflow() -> None:
    """S1.6: after pruning, `proactive` summarises only if it is still over."""
    policy = preset("proactive")
    log = reported(280_000, policy, user(), calls("bash"), result(90_000), user()).append(
        Pruning((Handle("2.0"),), 90_000)
    )

    assert isinstance(step(log, policy), Fold)


# Forced, and how often.


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("finish", ["length", "stop"])
def test_a_reply_cut_off_forces_a_compaction(name: str, finish: Finish) -> None:
    """S5.3: `length` forces one in `turn-window` and `infold`, far below their triggers."""
    policy = preset(name)
    last = replies(finish=finish, usage=Usage(input=20_000))
    drafts = [draft for _ in range(8) for draft in (user(prose(2_000)), replies(prose(2_000)))]
    found = step(session(*drafts[:-1], last, policy=policy), policy, Window(60_000))

    if finish == "length" and policy.force_on_length:
        assert isinstance(found, Fold)
        assert found.reason == "forced"
    else:
        assert isinstance(found, Fits)


@pytest.mark.parametrize("fill", [5, 10, 40, 70, 90])
@pytest.mark.parametrize("window", [8_000, 64_000, 200_000])
def test_a_reply_cut_off_forces_infold_while_there_is_room(window: int, fill: int) -> None:
    """S5.3: under `infold` a cut-off reply with the last word is answered by one fold, however empty the window is."""
    policy = preset("infold")
    size = budget_for(Window(window), policy).usable_tokens * fill // 1_200
    read = [draft for _ in range(12) for draft in (user(prose(60)), calls("read"), result(size), replies(prose(40)))]
    log = session(*read, user("go"), replies("half", finish="length"), policy=policy)
    found = step(log, policy, Window(window))

    assert isinstance(found, Fold)
    assert found.reason == "forced"
    assert found.budget_tokens < head_size(log, found.cut).measure


def test_infold_forces_once_in_a_row() -> None:
    """S5.3, B9: a second cut-off reply to the same prompt forces nothing; a person's next message gives a new attempt."""
    policy = preset("infold")
    cut_off = (MessageEntry(replace(replies(prose(400), finish="length"), id=MessageId(f"cut-{n}"))) for n in range(4))
    first = session(*turns(12, 2_000), policy=policy).append(next(cut_off))
    found = step(first, policy)
    assert isinstance(found, Fold)
    folded = first.append(Checkpoint("text", first_kept=found.cut.first_kept, reason="forced")).append(next(cut_off))

    assert isinstance(step(folded, policy), Fits)
    by_trigger = first.append(Checkpoint("text", first_kept=found.cut.first_kept)).append(next(cut_off))
    assert isinstance(step(by_trigger, policy), Fold)
    asked = folded.append(MessageEntry(replace(user("next prompt"), id=MessageId("next")))).append(next(cut_off))
    assert isinstance(step(asked, policy), Fold)


@pytest.mark.parametrize("after", [(), (user("Go on."),)])
def test_a_prompt_alone_is_not_folded_for_its_own_reply(after: tuple[Message, ...]) -> None:
    """S5.3, B2: the only prompt of a session stays when its reply is cut off, since there is nothing else to fold."""
    policy = preset("infold")
    log = session(user(prose(3_000)), replies(prose(9_000), finish="length"), *after, policy=policy)

    assert isinstance(step(log, policy), Fits)


def test_a_cut_off_call_that_was_answered_forces_no_fold_while_there_is_room() -> None:
    """S5.3, B16: where the work goes on by itself, a cut-off reply folds no more than what is worth it."""
    policy = preset("infold")
    cut = replace(calls("write"), finish="length")
    log = session(*turns(12, 500), cut, result(400), policy=policy)

    assert isinstance(step(log, policy), Fits)


def test_an_empty_old_part_is_not_compacted_even_when_forced() -> None:
    """S4.5: six turns and a reply cut off: nothing is old, so nothing is done."""
    policy = preset("turn-window")

    assert isinstance(step(session(*turns(6, 9_000), replies(finish="length"), policy=policy), policy), Fits)


def test_attempts_are_counted_per_user_prompt() -> None:
    """S1.7, S5.3: after two compactions the third waits for the user to speak."""
    policy = preset("turn-window")
    log = session(*turns(12, 8_000), policy=policy)
    cut_off = (MessageEntry(replace(replies(finish="length"), id=MessageId(f"cut-{n}"))) for n in range(3))

    for attempt in range(2):
        found = step(log.append(next(cut_off)), policy)
        assert isinstance(found, Fold)
        log = log.append(Checkpoint("text", first_kept=found.cut.first_kept))
        assert log.attempts == attempt + 1
        log = log.extend(
            MessageEntry(replace(user("on", synthetic=True), id=MessageId(f"on-{attempt}-{n}"))) for n in range(2)
        )

    waits = log.append(next(cut_off))
    assert isinstance(step(waits, policy), Fits)
    again = waits.append(MessageEntry(replace(user("next prompt"), id=MessageId("next"))))
    assert again.attempts == 0
    assert isinstance(step(again, policy), Fold)


# Always fit.


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_kept_silent_is_made_to_fit(name: str) -> None:
    """S1.0, B8: a request the provider would refuse is folded for safety, and the reason says so."""
    policy = preset(name)
    log = session(*(user(prose(30_000)) for _ in range(10)), policy=policy)
    found = step(log, replace(policy, trigger=tokens(900_000), target=None))

    assert isinstance(found, Fold)
    assert found.reason == "safety"


def test_overhead_alone_over_the_window_is_stuck() -> None:
    """B9: with 9,000 tokens of system prompt and tools in a window of 8,000 nothing helps, and the numbers say why."""
    found = step(session(user("hi")), INFOLD, Window(8_000), overhead=9_000)

    assert isinstance(found, Stuck)
    assert found == Stuck(floor_tokens=9_000, usable_tokens=6_800, overhead_tokens=9_000)


def test_nothing_said_and_still_too_large_is_stuck() -> None:
    """B9: an empty session under too large a system prompt has no last resort either."""
    assert isinstance(step(session(), INFOLD, Window(8_000), overhead=9_000), Stuck)


# The ladder of `infold`.


def test_pruning_alone_will_do() -> None:
    """B16: where stubs alone reach the target nothing is folded."""
    sizes = (75_000, 70_000, 15_000)
    drafts = [draft for size in sizes for draft in (user(), calls("bash"), result(output=prose(size)), replies())]
    found = step(session(*drafts, user(), replies(), user()), INFOLD)

    assert isinstance(found, Prune)
    assert (found.plan.targets, found.reason) == ((Handle("6.0"), Handle("2.0")), "trigger")


def test_pruning_that_falls_short_is_left_out() -> None:
    """B9, B16: where stubs alone would not reach the target, the head is folded at once."""
    turn = (user(), calls("bash"), result(output=prose(40_000)), replies())
    found = step(session(*(user(prose(15_000)) for _ in range(8)), *turn, user(), replies(), user()), INFOLD)

    assert isinstance(found, Fold)
    assert found.reason == "trigger"


def test_what_cannot_be_folded_is_clipped() -> None:
    """B9: a single message too large for the window is shortened."""
    found = step(session(user(prose(300_000))), INFOLD)

    assert isinstance(found, Shorten)
    assert [clip.handle for clip in found.clips] == ["0.0"]


def test_what_cannot_be_clipped_is_folded_whole() -> None:
    """B9, B24: where the newest step is too large for its call arguments, it is folded as the last resort."""
    log = session(user("write it"), calls("write", arguments='{"content": "' + prose(300_000) + '"}'), result(5))
    found = step(log, INFOLD)

    assert isinstance(found, Fold)
    assert found.cut == Cut(3, None)


def test_old_results_go_before_anything_is_clipped() -> None:
    """B9: where nothing can be folded, whatever can be pruned is pruned first, below the usual minimum too."""
    nine_turns = TailPolicy(rule="turns", turns=9, whole_head=False)
    policy = replace(INFOLD, tail=nine_turns, prune=replace(INFOLD.prune, minimum=share(1.0)))
    log = session(user(), calls("bash"), result(output=prose(60_000)), replies(), user(), replies(), user())
    found = step(log, policy, Window(64_000))

    assert isinstance(found, Prune)
    assert found.plan.targets == (Handle("2.0"),)


def test_pinned_and_too_large_is_stuck() -> None:
    """B9, B20: what a person pinned is not shortened; the step says how large the view stays."""
    log = session(user(prose(300_000))).append(Pin(Handle("0.0")))
    policy = replace(INFOLD, clip=False)
    found = step(log, policy)

    assert isinstance(found, Stuck)
    assert found.floor_tokens > found.usable_tokens == 170_000


@pytest.mark.parametrize(("head_tokens", "expected"), [(1_000, Fits), (18_000, Fits), (19_000, Fold)])
def test_a_fold_that_frees_too_little_is_left(head_tokens: int, expected: type[NextStep]) -> None:
    """B9, B16: a head that a summary of 9,740 shortens by less than 5 % of 170,000 does not break the cache."""
    log = session(user(prose(head_tokens)), user(prose(18_000)), replies(usage=Usage(input=162_000)))

    assert isinstance(step(log, INFOLD), expected)


def test_a_person_may_ask_for_little() -> None:
    """B20: the guard against small gains does not hold for what a person asks."""
    log = session(user(prose(500)), replies(prose(500)), user(prose(60_000)))

    assert isinstance(step(log, INFOLD), Fits)
    assert isinstance(step(log, INFOLD, manual=True), Fold)


# Prune or fold.


def steps_of(number: int, size: int) -> list[Message]:
    """So many calls with results of that many tokens."""
    return [draft for _ in range(number) for draft in (calls("bash"), result(output=prose(size)))]


BEFORE = session(user(prose(12_000)), *steps_of(20, 2_000))
"""Old results behind much that stays as it is, and stays cached."""

BEHIND = session(user(), *steps_of(20, 2_000), replies(prose(12_000)), user(), *steps_of(2, 500))
"""The same with the old results first, so that all behind them would be read afresh."""

FAST = session(user(), *steps_of(6, 4_400), *(draft for _ in range(3) for draft in (replies(prose(8_500)), user())))
"""A few results at the very beginning, in a view that a few replies have filled."""

FEW = session(user(prose(16_000)), *steps_of(10, 3_600))
"""A few large results behind much that stays as it is."""

MANY = session(user(prose(16_000)), *steps_of(40, 900))
"""Many small results behind much that stays as it is."""

RATES = Rates(fresh=1.25, cached=0.1, output=5.0)
USUAL, PAID = replace(RATES, output=0.0), replace(RATES, output=25.0)


def at_trigger(log: Log, **changes: object) -> NextStep:
    """The next step of `infold` for a session just over the trigger of a window of 64k."""
    inputs = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD), bound=1.0)
    assert 1 <= gauge(log, inputs).count_tokens / inputs.budget.trigger_tokens < 1.1
    return next_step(log, replace(inputs, **changes))


@pytest.mark.parametrize(
    ("log", "expected"), [(BEFORE, Prune), (FEW, Prune), (MANY, Fold), (BEHIND, Fold), (FAST, Fold)]
)
def test_at_the_trigger_the_cheaper_way_is_taken(log: Log, expected: type[NextStep]) -> None:
    """B16: old results become stubs where that costs about as little as a fold, not where nearly all would be read afresh."""
    found = at_trigger(log)

    assert isinstance(found, expected)
    assert getattr(found, "reason", "") == "trigger"


@pytest.mark.parametrize("log", [BEFORE, FEW, MANY, BEHIND, FAST])
def test_a_fold_that_a_model_must_be_paid_for_is_dearer(log: Log) -> None:
    """B16: what code would fold is pruned where a model would write the summary at a high price."""
    assert isinstance(at_trigger(log, rates=PAID, summariser=True), Prune)
    assert type(at_trigger(log, rates=PAID)) is type(at_trigger(log))


@pytest.mark.parametrize("log", [BEFORE, FEW, MANY, BEHIND, FAST])
def test_at_unknown_prices_the_usual_ratios_decide(log: Log) -> None:
    """B16: without prices the decision is that at the usual ratios, in any currency, and not that of a model without a cache."""
    cents = Rates(fresh=USUAL.fresh * 100, cached=USUAL.cached * 100)

    assert at_trigger(log) == at_trigger(log, rates=USUAL) == at_trigger(log, rates=cents)
    assert isinstance(at_trigger(log, rates=Rates(fresh=1.0, cached=1.0)), Fold)


def test_an_expired_cache_has_no_beginning_to_save() -> None:
    """B16: where all is read afresh in any case, what stands before the oldest stub is no reason to prune."""
    assert isinstance(at_trigger(FEW), Prune)
    assert isinstance(at_trigger(FEW, is_cold=True), Fold)


@pytest.mark.parametrize("is_cold", [False, True])
def test_stubs_that_leave_less_than_a_fold_are_chosen(is_cold: bool) -> None:
    """B16: where stubs leave a smaller request than a fold would, results are pruned, whether the cache has expired or not."""
    log = session(user("Port it."), *steps_of(8, 6_589))
    found = at_trigger(log, is_cold=is_cold)
    inputs = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD), bound=1.0)
    usable = inputs.budget.usable_tokens

    assert isinstance(found, Prune)
    left = gauge(apply_step(log, found, inputs).log, inputs).upper_tokens
    assert left < INFOLD.summary.budget_tokens(usable) + INFOLD.tail.budget_tokens(usable)


def test_a_person_who_asks_is_answered_by_what_is_cheaper_up_to_the_trigger() -> None:
    """B16, B20: what a person asks for below the trigger is compared up to it, what the price asks for up to the size of now."""
    budget = budget_for(Window(400_000), INFOLD)
    inputs = PlanInputs(INFOLD, budget, 3_000, bound=1.0, rates=RATES, summariser=True)
    log = session(user(prose(20_000)), *(draft for _ in range(100) for draft in (calls("bash"), result(5_000))))
    priced, asked = next_step(log, inputs), next_step(log, replace(inputs, manual=True))

    assert isinstance(priced, Prune)
    assert priced.reason == "price"
    assert isinstance(asked, Summarise)
    assert asked.reason == "manual"


@pytest.mark.parametrize("log", [BEFORE, FEW, MANY, BEHIND, FAST])
def test_a_history_that_arrived_grew_as_fast(log: Log) -> None:
    """B16: replies that came with a history count like recorded ones for how the view grows and how long the work goes on."""
    messages = [logged.message for logged in log.live]
    arrived = log_of(replace(one, finish=None) if isinstance(one, AssistantMessage) else one for one in messages)

    assert (log.calls, arrived.calls) == (sum(isinstance(one, AssistantMessage) for one in messages), 0)
    assert type(at_trigger(arrived)) is type(at_trigger(log))


def test_what_was_hidden_counts_as_growth() -> None:
    """B16: results that are hidden by now made the view grow, and with faster growth fewer requests bear what is rewritten."""
    inputs = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD), bound=1.0)
    log = session(user(prose(16_000)), *steps_of(20, 2_000))
    pruning = at_trigger(log, rates=PAID, summariser=True)
    assert isinstance(pruning, Prune)
    log = apply_step(log, pruning, inputs).log
    log = log.extend(MessageEntry(message) for message in numbered(steps_of(8, 4_000), prefix="n"))

    assert sum(log.freed.values()) > 20_000
    assert isinstance(at_trigger(log), Prune)
    assert isinstance(at_trigger(replace(log, freed={})), Fold)


def test_a_session_goes_on_for_about_as_long_as_it_has() -> None:
    """B16: what many requests to come would bear is too dear in a session that has had few calls, and not in a long one."""
    log = session(user(prose(16_000)), *steps_of(20, 2_000))
    found = [step(replace(log, calls=made), INFOLD, Window(200_000), manual=True) for made in (20, 100, 10_000)]

    assert [type(one) for one in found] == [Fold, Prune, Prune]


def test_in_a_small_window_the_newest_results_stay() -> None:
    """B16: as much of the newest results stays at the trigger as a tail has at least, a quarter of a small window."""
    log = session(user("Port it."), *steps_of(8, 1_686))
    found = step(log, INFOLD, Window(16_384))

    assert isinstance(found, Prune)
    assert INFOLD.prune.keep.of(13_926) < 2 * 1_686 < 13_926 // 4 < 3 * 1_686
    assert found.plan.targets == tuple(Handle(f"{number}.0") for number in range(12, 0, -2))


# Checkpoints.


def test_nothing_from_before_a_checkpoint_triggers_another() -> None:
    """B9: a tail over the trigger is left until something is said or done after its checkpoint."""
    log = session(user(prose(26_000)), user(prose(26_500))).append(Checkpoint("text", first_kept=0))
    answered = log.append(MessageEntry(replace(replies(), id=MessageId("reply"))))
    inputs = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD), bound=1.0)

    assert isinstance(next_step(log, inputs), Fits)
    assert isinstance(next_step(answered, inputs), Fold)


def test_a_smaller_window_rewrites_the_checkpoint() -> None:
    """B9, B11: after a change to a smaller window the checkpoint itself is written anew and smaller."""
    log = session(user(), user("on")).append(Checkpoint(prose(8_000), first_kept=1))

    assert isinstance(step(log, INFOLD), Fits)
    found = step(log, INFOLD, Window(8_000))
    assert isinstance(found, Fold)
    assert found.cut == Cut(0, 1)
    assert found.budget_tokens == INFOLD.summary.budget_tokens(6_800)


def test_a_checkpoint_before_a_late_result_is_not_rewritten_there() -> None:
    """B12: a view cannot begin with a result, so no cut falls there."""
    late = ToolMessage(MessageId("late"), (ToolResultPart("m1-call0", "bash", "at last"),))
    log = session(user(), calls("bash")).append(Checkpoint(prose(8_000))).append(MessageEntry(late))
    found = step(log, INFOLD, Window(8_000))

    assert isinstance(found, Fold)
    assert found.cut == Cut(1, None)


@pytest.mark.parametrize("context", [4_096, 8_192, 64_000, 200_000, 1_000_000])
def test_the_ladder_stands_in_every_window(context: int) -> None:
    """B11, S1.8: from 4k to 1M a session just over the trigger is folded, one just under is left."""
    window = Window(context)
    budget = budget_for(window, INFOLD)
    drafts = [user(prose(context // 100)) for _ in range(60)]

    under = session(*drafts, replies(usage=Usage(input=budget.trigger_tokens - 1)))
    over = session(*drafts, replies(usage=Usage(input=budget.trigger_tokens)))
    assert isinstance(step(under, INFOLD, window), Fits)
    found = step(over, INFOLD, window)
    assert isinstance(found, Fold)
    assert 0 < found.cut.index < 60
