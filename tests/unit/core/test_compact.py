"""The plan carried out by code: decide, append, repeat."""

from collections.abc import Callable
from functools import cache

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.budget import Window, budget_for
from infold.core.checkpoint_text import OPENING
from infold.core.compact import CONTINUE_TEXT, CompactionResult, apply_step, checkpoint_for, compact
from infold.core.cut import Cut
from infold.core.entries import NARRATIVE, Checkpoint, Handle, MessageEntry, Pin
from infold.core.events import Clipped, Compacted, Exceeded, InstructionStubbed, Pruned
from infold.core.gauge import PlanInputs, estimated_tokens, gauge
from infold.core.ledger import MOST_QUOTES
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    Message,
    MessageId,
    ModelRef,
    TextPart,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
    results_of,
    text_of,
)
from infold.core.plan import Fits, Fold, Prune, Shorten, Stuck, Summarise
from infold.core.policy import INFOLD, PRESETS, Policy, preset
from infold.core.tokens import estimate_tokens
from infold.core.view import view
from infold.errors import WindowExceeded
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, session, user

NOW_MS = 1_700_000_000_000
SENTENCE = "The build went through and every test passed on the second try. "


def prose(amount: int) -> str:
    """Running text of about that many tokens by our own estimate."""
    return SENTENCE * (amount * 100 // estimate_tokens(SENTENCE * 100) + 1)


def inputs(policy: Policy, window: Window, *, overhead: int = 0, manual: bool = False) -> PlanInputs:
    """A policy in a window."""
    return PlanInputs(policy, budget_for(window, policy), overhead_tokens=overhead, manual=manual)


def compacted(
    log: Log, policy: Policy, context: int = 64_000, *, overhead: int = 0, manual: bool = False
) -> CompactionResult:
    """A log compacted in a window of that size."""
    return compact(log, inputs(policy, Window(context), overhead=overhead, manual=manual), now_ms=NOW_MS)


@cache
def overflowing(policy: Policy) -> Log:
    """A session over every preset's trigger in a window of 64,000."""
    drafts = [draft for n in range(8) for draft in (user(f"request {n}: " + prose(5_000)), replies(prose(500)))]
    return session(*drafts, replies(usage=Usage(input=60_000)), policy=policy)


def kinds(compaction: CompactionResult) -> list[type]:
    """What was done, in order."""
    return [type(step) for step in compaction.steps]


# Nothing to do.


@pytest.mark.parametrize("name", PRESETS)
def test_what_fits_is_left_alone(name: str) -> None:
    """S4.5, B9: a short or empty session is given back as the very log it was."""
    for log in (session(policy=preset(name)), session(user(), replies(), policy=preset(name))):
        done = compacted(log, preset(name))

        assert done.log is log
        assert isinstance(done.final, Fits)
        assert (done.steps, done.events) == ((), ())


# After a compaction.


@pytest.mark.parametrize("name", PRESETS)
def test_a_compaction_ends_within_the_limit(name: str) -> None:
    """B8, B9: whatever was done, the next request fits, and no further step is due."""
    policy = preset(name)
    done = compacted(overflowing(policy), policy, overhead=3_000)
    where = inputs(policy, Window(64_000), overhead=3_000)

    assert isinstance(done.final, Fits)
    assert gauge(done.log, where).upper_tokens <= where.budget.limit_tokens
    assert compact(done.log, where).log is done.log


def test_infold_reaches_its_target() -> None:
    """B9: the view is at or below 45 % of the usable window after one fold."""
    done = compacted(overflowing(INFOLD), INFOLD)

    assert kinds(done) == [Fold]
    assert gauge(done.log, inputs(INFOLD, Window(64_000))).upper_tokens <= 24_480


@pytest.mark.parametrize("name", PRESETS)
def test_documents_append_a_continue_message_to_a_reply(name: str) -> None:
    """S3.8: after an automatic compaction behind a reply a document's preset asks to go on; `infold` does not."""
    policy = preset(name)
    last = compacted(overflowing(policy), policy).log.live[-1].message

    if name == "infold":
        assert text_of(last) != CONTINUE_TEXT
    else:
        assert isinstance(last, UserMessage)
        assert last.parts == (TextPart(CONTINUE_TEXT, synthetic=True),)
        assert last.created_ms == NOW_MS


@pytest.mark.parametrize("name", PRESETS)
def test_only_opencode_continues_behind_a_prompt(name: str) -> None:
    """S3.8: OpenCode asks to go on after each automatic compaction, and no other preset where the user has the last word."""
    policy = preset(name)
    log = overflowing(policy).append(MessageEntry(replace(user("and now?"), id=MessageId("now"))))
    last = compacted(log, policy).log.live[-1].message

    assert (text_of(last) == CONTINUE_TEXT) is name.startswith("opencode-")


TURNS: list[Message] = [user(prose(7_000)), replies(prose(200), usage=Usage(input=60_000))] * 8


@pytest.mark.parametrize("name", ["proactive", "turn-window"])
@pytest.mark.parametrize(
    ("newest", "goes_on"),
    [
        ([user("and now?")], False),
        ([calls("bash"), result()], False),
        ([calls("bash")], False),
        ([replies("so far", finish="length")], True),
    ],
    ids=["prompt", "result", "open call", "cut off"],
)
def test_a_view_that_ends_with_a_reply_is_continued(name: str, newest: list[Message], goes_on: bool) -> None:
    """S3.8: under documents 002 and 003 the view is the summary and the newest turns; behind a reply, one more asks to go on."""
    policy = preset(name)
    newest = [replace(one, usage=Usage(input=60_000)) if isinstance(one, AssistantMessage) else one for one in newest]
    done = compacted(session(*TURNS, *newest, policy=policy), policy)

    assert Fold in kinds(done)
    assert any(text_of(logged.message) == CONTINUE_TEXT for logged in done.log.live) is goes_on


def test_a_view_of_the_summary_alone_is_continued() -> None:
    """S3.8: where `proactive` keeps nothing, the model's own summary would be the last word, so a message asks to go on."""
    policy = preset("proactive")
    done = compacted(
        session(user(), calls("bash"), result(), replies(usage=Usage(input=60_000)), policy=policy), policy
    )
    (logged,) = done.log.live

    assert text_of(logged.message) == CONTINUE_TEXT


def test_proactive_keeps_the_last_turn_where_two_are_beyond_the_window() -> None:
    """S1.0, B8: of two turns that the provider would refuse, the older one is folded; the prompt stays."""
    policy = preset("proactive")
    first, second = replies("the " * 50_000), replies("the " * 30_000)
    done = compacted(session(user("first"), first, user("second"), second, policy=policy), policy)

    assert [step.reason for step in done.steps if isinstance(step, Fold)] == ["safety"]
    assert isinstance(done.final, Fits)
    assert text_of(done.log.live[0].message) == "second"


def test_a_continue_message_is_put_as_the_last_user_message_was() -> None:
    """S3.1, S3.3: agent, model and system text are the last user message's, whoever made that and wherever it is by now."""
    policy, model = preset("opencode-1.1.23"), ModelRef("anthropic", "claude")
    asked = replace(user("go"), agent="build", model=model, system="Be brief.")
    log = session(asked, calls("bash"), result(), replies(usage=Usage(input=60_000)), policy=policy)
    log = log.append(MessageEntry(replace(requests_compaction(), id=MessageId("asked"))))
    for _ in range(2):
        log = compacted(log, policy).log
        (logged,) = log.live
        last = logged.message
        assert isinstance(last, UserMessage)
        assert (last.agent, last.model, last.system) == ("build", model, "Be brief.")
        assert last.parts == (TextPart(CONTINUE_TEXT, synthetic=True),)
        more = numbered([calls("bash"), result(), replies(usage=Usage(input=60_000))], prefix="later")
        log = log.extend(map(MessageEntry, more))


def test_where_nobody_asked_the_continue_message_is_for_nobody() -> None:
    """S3.8: a session that begins with a reply has no user message to follow."""
    policy = preset("opencode-1.1.23")
    (logged,) = compacted(session(replies(usage=Usage(input=60_000)), policy=policy), policy).log.live

    assert isinstance(logged.message, UserMessage)
    assert (logged.message.agent, logged.message.model) == ("", None)


def test_a_manual_compaction_of_little_keeps_the_rules() -> None:
    """B2, I5: in a window with room, what the user laid down stands word for word however small the folded head is."""
    rules = [f"Never touch folder {n} below third_party, and always run make check-{n} for it." * 2 for n in range(6)]
    drafts = [draft for rule in rules for draft in (user(rule), replies("That is done now. " * 12))]
    done = compacted(session(*drafts, user("And now?")), INFOLD, manual=True)

    assert kinds(done) == [Fold]
    assert done.log.size.plus(done.log.checkpoint_size).measure < 800
    assert not any(isinstance(event, InstructionStubbed) for event in done.events)
    assert all(rule in "".join(map(text_of, view(done.log, INFOLD.summary))) for rule in rules)
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.budget_tokens >= done.log.checkpoint_size.measure


@pytest.mark.parametrize("name", PRESETS)
def test_a_manual_compaction_is_not_continued(name: str) -> None:
    """S3.8, B20, B21: what a person asked for is one fold, and nobody is told to go on."""
    policy = preset(name)
    log = session(*(user(prose(900)) for _ in range(60)), policy=policy)
    done = compacted(log, policy, manual=True)

    assert kinds(done) == [Fold]
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.reason == "manual"
    assert all(text_of(logged.message) != CONTINUE_TEXT for logged in done.log.live)


@pytest.mark.parametrize("name", ["opencode-1.1.23", "opencode-1.1.57", "proactive"])
def test_a_manual_compaction_is_not_used_up_by_pruning(name: str) -> None:
    """B20, S5.4: a pruning that was due anyway does not stand for the compaction a person asked for."""
    policy = preset(name)
    log = session(user(), calls("bash"), result(90_000), user(), replies(), user(), replies(), policy=policy)

    assert kinds(compacted(log, policy, manual=True)) == [Prune, Fold]


def test_a_pending_request_is_carried_out_and_kept() -> None:
    """S3.1, S5.1: the checkpoint holds the request it answers, and nothing is pending after it."""
    policy = preset("opencode-1.1.23")
    asked = MessageEntry(replace(requests_compaction(auto=False), id=MessageId("request")))
    log = overflowing(policy).append(asked)
    done = compacted(log, policy, manual=True)

    assert log.pending is not None
    assert done.log.pending is None
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.request is asked.message
    assert isinstance(asked.message.parts[0], CompactionPart)
    assert view(done.log, policy.summary)[0].id == "request"


def test_usage_from_before_does_not_compact_again() -> None:
    """B9, S5.1: right after a compaction the old report triggers nothing."""
    policy = preset("opencode-1.1.23")
    done = compacted(overflowing(policy), policy)

    assert kinds(compacted(done.log, policy)) == []


# Pruning.


@pytest.mark.parametrize(
    ("name", "expected"),
    [("opencode-1.1.23", [Prune, Fold]), ("opencode-1.1.57", [Prune]), ("proactive", [Prune])],
)
def test_prune_then_summarise_if_still_short(name: str, expected: list[type]) -> None:
    """S5.4: 190,000 reported, 90,000 pruned: only 1.1.23 summarises all the same."""
    policy = preset(name)
    log = session(
        *(user(), calls("bash"), result(90_000), user(), replies(), user(), replies(usage=Usage(input=190_000))),
        policy=policy,
    )
    done = compacted(log, policy, 200_000)

    assert kinds(done) == expected
    assert isinstance(done.final, Fits)


def test_a_pruning_is_recorded_and_told() -> None:
    """S2.8, B22: the event names what was pruned, gross tokens, and the view before and after."""
    policy = preset("proactive")
    log = session(user(), calls("bash"), result(90_000), user(), replies(), user(), policy=policy)
    done = compacted(log, policy)
    (event,) = done.events

    assert isinstance(event, Pruned)
    assert (event.targets, event.freed_tokens, event.reason) == ((Handle("2.0"),), 90_000, "trigger")
    assert event.tokens_before == log.size.measure
    assert event.tokens_after == done.log.size.measure < event.tokens_before
    assert event.freed_tokens < event.counted_tokens  # the same measure


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_an_event_has_what_a_preset_compares_with_its_trigger(name: str) -> None:
    """B22: a preset that counts characters names the count it acted on; `infold` counts the tokens that it reports."""
    policy = preset(name)
    log = overflowing(policy)
    event = next(event for event in compacted(log, policy).events if isinstance(event, Compacted))
    by_characters = gauge(log, inputs(replace(policy, count="estimate"), Window(64_000))).count_tokens

    assert event.tokens_before == estimated_tokens(log, inputs(policy, Window(64_000)))
    assert event.counted_tokens == (0 if policy.estimate == "features" else by_characters)


# The ladder.


def test_the_ladder_in_order() -> None:
    """B9: prune where that is enough, else fold, then clip what is left too large."""
    turn = (user(), calls("bash"), result(output=prose(20_000)), replies())
    pruned = compacted(session(*turn, *turn, *turn, user(), replies(), user()), INFOLD)
    clipped = compacted(session(user("Go."), replies(prose(30_000)), user(prose(80_000))), INFOLD)

    assert kinds(pruned) == [Prune]
    assert kinds(clipped) == [Fold, Shorten]
    assert isinstance(clipped.final, Fits)
    assert [type(event) for event in clipped.events] == [Compacted, Clipped]


def test_a_clipping_is_told() -> None:
    """B22: the event names the part and the view before and after."""
    (event,) = compacted(session(user(prose(80_000))), INFOLD).events

    assert isinstance(event, Clipped)
    assert event.targets == (Handle("0.0"),)
    assert event.tokens_after < 54_400 < event.tokens_before


def test_stuck_has_its_numbers() -> None:
    """B9: where overhead alone exceeds the window the outcome says so, and the error made of it names the remedy."""
    done = compacted(session(user("hi")), INFOLD, 8_000, overhead=9_000)

    assert isinstance(done.final, Stuck)
    assert done.events == (Exceeded("session", done.final.floor_tokens, 6_800),)
    error = WindowExceeded(
        floor_tokens=done.final.floor_tokens,
        usable_tokens=done.final.usable_tokens,
        overhead_tokens=done.final.overhead_tokens,
    )
    assert "the system prompt and tools alone are 9,000 tokens, the usable window is 6,800" in str(error)
    assert str(error).endswith("or choose a larger model")


@pytest.mark.parametrize(
    "context", [4_096, 8_192, 64_000, *(pytest.param(large, marks=pytest.mark.slow) for large in (200_000, 1_000_000))]
)
def test_every_window_ends_within_it(context: int) -> None:
    """B8, B11: a session of one and a half windows fits after compaction, overhead counted, from 4k to 1M."""
    drafts: list[Message] = [user("Build the parser. Never touch the lexer.")]
    for _ in range(30):
        drafts += [calls("bash"), result(output=prose(context // 40)), replies(prose(context // 40))]
    overhead = context // 10
    done = compacted(session(*drafts, user("Now the tests.")), INFOLD, context, overhead=overhead)
    where = inputs(INFOLD, Window(context), overhead=overhead)

    assert isinstance(done.final, Fits)
    assert gauge(done.log, where).upper_tokens <= where.budget.usable_tokens
    assert "Never touch the lexer." in "".join(text_of(message) for message in view(done.log, INFOLD.summary))


def test_a_smaller_window_gets_a_smaller_checkpoint() -> None:
    """B9, B11: a session folded for 200k and then sent to a model of 8k has its checkpoint written anew and smaller."""
    files = [
        draft
        for n in range(400)
        for draft in (
            calls("write", arguments=f'{{"path": "src/module_{n}.py", "content": "{SENTENCE * 20}"}}'),
            result(5),
        )
    ]
    large = compacted(session(user("Write the modules."), *files, user("on"), replies()), INFOLD, 100_000)
    small = compacted(large.log, INFOLD, 8_000)

    assert large.log.checkpoint is not None
    assert small.log.checkpoint is not None
    assert estimate_tokens(large.log.checkpoint.text) > 1_500
    assert estimate_tokens(small.log.checkpoint.text) <= INFOLD.summary.budget_tokens(6_800)
    assert isinstance(small.final, Fits)


# Checkpoints.


def test_a_checkpoint_tells_before_and_after() -> None:
    """S3.7, B22: the checkpoint and its event have the tokens before and after, and the ratio."""
    log = overflowing(INFOLD)
    done = compacted(log, INFOLD, overhead=1_000)
    event = done.events[0]
    checkpoint = done.log.checkpoint

    assert isinstance(event, Compacted)
    assert checkpoint is not None
    where = inputs(INFOLD, Window(64_000), overhead=1_000)
    assert event.tokens_before == checkpoint.tokens_before == estimated_tokens(log, where)
    assert event.tokens_after == checkpoint.tokens_after == estimated_tokens(done.log, where)
    assert event.ratio == pytest.approx(event.tokens_after / event.tokens_before)
    assert event.folded_messages == len(log.live) - len(done.log.live)
    assert checkpoint.created_ms == NOW_MS


def test_what_is_left_has_the_answers_to_open_calls() -> None:
    """B22: what a compaction leaves is counted as the next request will be, with a stand-in for each result that is missing."""
    log = overflowing(INFOLD).extend([MessageEntry(replace(calls("bash"), id=MessageId("open")))])
    done = compacted(log, INFOLD)
    event = done.events[0]

    assert isinstance(event, Compacted)
    assert log.open_calls
    assert event.tokens_after == estimated_tokens(done.log, inputs(INFOLD, Window(64_000)))


def test_the_log_before_is_as_it_was() -> None:
    """B1, B25: a compaction gives a new log; the old one still has its view."""
    log = overflowing(INFOLD)
    before = view(log, INFOLD.summary)
    compacted(log, INFOLD)

    assert view(log, INFOLD.summary) == before
    assert log.checkpoint is None


def summarised(policy: Policy, narrative: str) -> Checkpoint:
    """The checkpoint made of a model's words."""
    log = session(user("Never touch the lexer."), replies(prose(900)), user("on"), policy=policy)
    step = Summarise(cut=fold_cut(log), budget_tokens=2_000, reason="trigger")
    checkpoint, events = checkpoint_for(log, step, inputs(policy, Window(200_000)), narrative=narrative)
    assert events == ()
    return checkpoint


def fold_cut(log: Log) -> Cut:
    """The cut before the last message."""
    return Cut.at(log, len(log.live) - 1)


@pytest.mark.parametrize(
    ("name", "narrative", "expected"),
    [
        ("opencode-1.1.23", "Done: nothing.", "Done: nothing."),
        ("proactive", "Done: nothing.", "[Conversation Summary]\nDone: nothing."),
        ("turn-window", "Done: nothing.", "[COMPACTED_CONTEXT]\nDone: nothing."),
        ("turn-window", "[COMPACTED_CONTEXT] Done: nothing.", "[COMPACTED_CONTEXT] Done: nothing."),
    ],
)
def test_a_models_words_stand_alone_in_a_document(name: str, narrative: str, expected: str) -> None:
    """S1.0, S1.6, S1.7: no ledger beside them, and the document's prefix added if absent."""
    assert summarised(preset(name), narrative).text == expected


def test_a_models_words_stand_beside_the_ledger_in_infold() -> None:
    """B2, B4: what the model wrote comes first, marked as a model's, then what code took from the head."""
    text = summarised(INFOLD, "The lexer is fine.").text

    assert "Never touch the lexer." in text
    assert text.startswith(f"{OPENING}\n\n{NARRATIVE}\nThe lexer is fine.\n\n")


def test_without_a_model_the_fold_speaks() -> None:
    """B10: a summary that nobody wrote is replaced by the deterministic fold, with the document's prefix."""
    log = session(user("Never touch the lexer."), replies(prose(900)), user("on"), policy=preset("proactive"))
    step = Summarise(fold_cut(log), 2_000, "trigger")
    carried = apply_step(log, step, inputs(preset("proactive"), Window(200_000)))

    assert carried.log.checkpoint is not None
    assert carried.log.checkpoint.text.startswith("[Conversation Summary]\n")
    assert "Never touch the lexer." in carried.log.checkpoint.text


def test_an_instruction_that_finds_no_room_is_told() -> None:
    """B2: an instruction too long for its share becomes a stub, and an event says which."""
    done = compacted(session(user(prose(30_000)), replies(prose(2_000)), user("on")), INFOLD, 32_000)
    stubbed = [event for event in done.events if isinstance(event, InstructionStubbed)]

    assert [event.handles for event in stubbed] == [("0.0",)]


def test_an_instruction_that_a_ledger_has_no_place_for_is_told() -> None:
    """B2: of more rules than a ledger carries, each stands in the checkpoint, in a few words at least, or is told."""
    rules = [user(f"Never touch folder number {number}.") for number in range(MOST_QUOTES + 20)]
    done = compacted(session(*rules, replies(prose(180_000)), user("on")), INFOLD)
    told = {handle for event in done.events if isinstance(event, InstructionStubbed) for handle in event.handles}

    assert done.log.checkpoint is not None
    for number in range(MOST_QUOTES + 20):
        assert f"{number}.0" in told or f"Never touch folder number {number}." in done.log.checkpoint.text
    assert "1.0" in told


def test_a_wordy_model_does_not_push_instructions_out() -> None:
    """B2: where a model's words fill the room of a summary, the user's rules still get their share beside them."""
    rules = " ".join(f"Never touch folder number {number}." for number in range(40))
    log = session(user("Port it."), replies("ok"), user(rules), replies(prose(900)), user("on"))
    step = Summarise(Cut.at(log, 4), 1_600, "trigger")
    checkpoint, events = checkpoint_for(log, step, inputs(INFOLD, Window(16_000)), narrative=prose(1_600))

    assert all(f"Never touch folder number {number}." in checkpoint.text for number in range(40))
    assert events == ()


def test_what_an_older_checkpoint_knew_is_carried_on() -> None:
    """B3: a checkpoint over a checkpoint keeps the ledger of the first."""
    log = compacted(overflowing(INFOLD), INFOLD).log
    more = (MessageEntry(message) for message in numbered((user(prose(8_000)) for _ in range(6)), prefix="more"))
    again = compacted(log.extend(more), INFOLD).log

    assert log.checkpoint is not None
    assert again.checkpoint is not None
    assert again.checkpoint.ledger.first_request == log.checkpoint.ledger.first_request is not None


def test_a_pinned_part_outlives_the_fold() -> None:
    """B20: a pinned result is folded into the checkpoint word for word."""
    drafts = [user(prose(7_000)) for _ in range(9)]
    log = session(user(), calls("bash"), result(output="the token is 4711"), *drafts).append(Pin(Handle("2.0")))
    done = compacted(log, INFOLD)

    assert done.log.checkpoint is not None
    assert "the token is 4711" in done.log.checkpoint.text


def test_pairs_stay_pairs() -> None:
    """B12: after any compaction every result in the view follows its call."""
    turn = (user(), calls("bash", "read"), result(output=prose(3_000)), result(output=prose(3_000)), replies())
    done = compacted(session(*turn * 10), INFOLD)
    asked: set[str] = set()
    for message in view(done.log, INFOLD.summary):
        asked |= {part.call_id for part in message.parts if isinstance(part, ToolCallPart)}
        assert {part.call_id for part in results_of(message)} <= asked


# What earlier summaries said.


def test_a_fold_by_code_carries_on_what_a_model_said() -> None:
    """B3: words that only the checkpoint knew, a model's or a foreign agent's, stand in the next one made by code."""
    told = Checkpoint("The port is 4711.", narrative="The port is 4711.")
    log = session(user("Start the server.")).append(told)
    later = (user("on"), *(draft for _ in range(40) for draft in (calls("bash"), result(4_000))))
    log = log.extend(MessageEntry(message) for message in numbered(later, prefix="later"))

    once = compacted(log, FOLDS, 64_000)

    assert once.log.checkpoint is not None
    assert once.log.checkpoint_sequence > 1
    assert "The port is 4711." in once.log.checkpoint.text
    assert [quote.text for quote in once.log.checkpoint.ledger.narratives] == ["The port is 4711."]


def test_a_models_summary_replaces_the_one_before() -> None:
    """B3: a model that was given the old summary speaks for it; its words are not carried on twice."""
    log = session(user("Start."), replies("Started."), user("on")).append(
        Checkpoint("Old words.", narrative="Old words.", first_kept=2)
    )
    inputs = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD), summariser=True, manual=True)
    step = Summarise(Cut.at(log, 0), 2_000, "manual")

    checkpoint, _ = checkpoint_for(log, step, inputs, narrative="New words, old ones merged.")

    assert checkpoint.narrative == "New words, old ones merged."
    assert checkpoint.ledger.narratives == ()
    assert "New words" in checkpoint.text
    assert "Old words." not in checkpoint.text


@pytest.mark.parametrize("bound", [1.05, 1.65, 1.96])
@pytest.mark.parametrize("amount", [40_000, 90_000, 400_000])
@pytest.mark.parametrize("said", [user, lambda text: result(output=text)], ids=["a person", "a tool"])
def test_a_part_larger_than_the_window_fills_it(said: Callable[[str], Message], amount: int, bound: float) -> None:
    """B8: however large it is and however uncertain our count, what is left of it uses the room there is."""
    before = (user("Look at this."), calls("bash")) if isinstance(said(""), ToolMessage) else ()
    uncertain = replace(inputs(INFOLD, Window(32_000)), bound=bound)
    done = compact(session(*before, said(prose(amount))), uncertain, now_ms=NOW_MS)

    assert kinds(done) == [Shorten]
    assert isinstance(done.final, Fits)
    assert 0.9 < done.final.gauge.upper_tokens / uncertain.budget.limit_tokens <= 1
