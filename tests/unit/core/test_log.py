"""The log: appending, cutting and adopting, as values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, MessageEntry, Pin, Pruning, Restoration
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    Finish,
    Message,
    MessageId,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    text_of,
)
from infold.core.policy import PRESETS, SummaryPolicy
from infold.core.tokens import NO_SIZE, measure_message, size_of
from infold.core.view import filter_compacted, view
from infold.errors import DuplicateId, IllegalCut, LogError, OrphanResult, UnknownReference
from infold.testing.builders import (
    calls,
    log_of,
    numbered,
    replies,
    requests_compaction,
    result,
    session,
    summary,
    user,
)

SENT = SummaryPolicy(shape="marked")


def said(log: Log, *drafts: Message) -> Log:
    """The log with more messages, numbered on from it."""
    return log.extend(MessageEntry(message) for message in numbered(drafts, prefix=f"x{log.next_sequence}-"))


def answer(call_id: str, output: str = "late", *, name: str = "late") -> MessageEntry:
    """A tool's answer to one call."""
    return MessageEntry(ToolMessage(MessageId(name), (ToolResultPart(call_id, "bash", output),)))


def ids(log: Log) -> list[str]:
    """The ids of the live messages."""
    return [logged.message.id for logged in log.live]


# Values.


def test_an_older_log_is_unchanged_by_appending() -> None:
    """B1: a log that was appended to still holds what it held, and nothing more."""
    old = session(user(), calls("bash"), result(100))
    measured, size, live = old.measured, old.size, list(old.live)
    new = said(old, replies(), user()).append(Pruning((Handle("2.0"),), 100)).append(Checkpoint("all"))

    assert (old.measured, old.size, list(old.live), old.altered, old.checkpoint) == (measured, size, live, {}, None)
    assert (old.next_sequence, new.next_sequence, list(new.live)) == (3, 7, [])


def test_two_branches_of_one_log_are_independent() -> None:
    """B1: what is appended on one branch is on no other, whichever came first."""
    stem = session(user(), replies())
    left, right = said(stem, user("left"), replies()), said(stem, user("right"))
    left = said(left, user("more left"))

    assert [text_of(logged.message) for logged in left.live] == ["go on", "done", "left", "done", "more left"]
    assert [text_of(logged.message) for logged in right.live] == ["go on", "done", "right"]
    assert ids(stem) == ["m0", "m1"]


@pytest.mark.parametrize("entry", [Pin(Handle("0.0")), Pruning((Handle("2.0"),), 5), Clipping(())])
def test_branches_part_at_any_entry(entry: Pin | Pruning | Clipping) -> None:
    """B1: a branch taken before a pin or a pruning does not know of it, and grows by itself."""
    stem = session(user(), calls("bash"), result())
    marked, plain = stem.append(entry), said(stem, replies())
    marked = said(marked, user("marked"))

    assert (ids(plain)[-1], len(plain.live), len(marked.live)) == ("x3-0", 4, 4)
    assert (plain.pins, plain.altered) == (frozenset(), {})


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["user", "step", "prune", "pin", "clip"]), max_size=12))
def test_appending_never_changes_what_stands_before(kinds: list[str]) -> None:
    """B1: whatever is appended, earlier messages are the same objects at the same numbers, and sums are of what is shown."""
    log = session(user(), calls("bash"), result(300))
    for kind in kinds:
        before = list(log.live)
        match kind:
            case "user":
                log = said(log, user())
            case "step":
                log = said(log, calls("bash", "read"), result(200), result(9))
            case "prune":
                log = log.append(Pruning((Handle("2.0"),), 300))
            case "clip":
                log = log.append(Clipping((Clip(Handle("0.0"), 1, 1), Clip(Handle("2.0"), 9, 9))))
            case _:
                log = log.append(Pin(Handle("0.0")))
        assert all(new is old for new, old in zip(log.live, before, strict=False))
        assert_sums(log)


def assert_sums(log: Log) -> None:
    """The kept sums are those of the messages as shown."""
    rule, size = log.rendering.estimate, NO_SIZE
    for logged in log.live:
        size = size.plus(size_of(log.shown(logged), measure_message(log.shown(logged), "features")))
    assert log.measured == sum(sum(measure_message(log.shown(logged), rule)) for logged in log.live)
    assert log.size == size


@pytest.mark.parametrize("name", ["infold", "opencode-1.1.57"])
def test_sums_are_of_what_is_shown_after_every_kind_of_entry(name: str) -> None:
    """B17: the kept sums equal recomputed ones after messages, prunings, clippings, restorations and checkpoints."""
    log = session(user("a"), calls("bash"), result(500), replies(), user("b"), replies("c" * 999), policy=PRESETS[name])
    for entry in (
        Pruning((Handle("2.0"),), 500),
        Clipping((Clip(Handle("5.0"), 40, 40),)),
        Restoration(6),
        Pruning((Handle("2.0"),), 500),
        Checkpoint("head", first_kept=4),
        Restoration(7),
    ):
        log = log.append(entry)
        assert_sums(log)

    assert log.checkpoint_measured == (4 if name == "opencode-1.1.57" else 1)
    assert log.checkpoint_size.measure == 5


@pytest.mark.parametrize("name", ["infold", "opencode-1.1.57"])
def test_cleaned_reasoning_counts_for_nothing(name: str) -> None:
    """S4.5: after a cleaning checkpoint the kept reasoning leaves the sums; what is said later keeps its own."""
    policy, words = PRESETS[name], (user("b"), calls("bash"), result(50), replies("c", reasoning="hm " * 90))
    log = session(user("a"), *words, policy=policy).append(Checkpoint("", first_kept=1, cleaned=True))
    plain = session(user("a"), *words[:3], replies("c"), policy=policy).append(Checkpoint("", first_kept=1))
    hidden = Pruning((Handle("3.0"),), 50)

    assert (log.measured, log.size) == (plain.measured, plain.size)
    assert log.append(hidden).size == plain.append(hidden).size
    assert said(log, words[3]).measured == log.measured + session(words[3], policy=policy).measured


# What cannot follow.


def test_an_id_is_given_once() -> None:
    """A second message of one id is refused, and the log goes on as before."""
    log = session(user(), replies())
    with pytest.raises(DuplicateId, match="message with id 'm0'"):
        log.append(MessageEntry(numbered([user()])[0]))

    assert ids(said(log, user())) == ["m0", "m1", "x2-0"]


def test_a_result_needs_its_call() -> None:
    """B12: a result that no call asked for is refused."""
    with pytest.raises(OrphanResult):
        session(user()).append(answer("nobody"))


def test_a_call_is_answered_once() -> None:
    """B12: a second answer to a call is refused, in the same step and later."""
    log = session(user(), calls("bash"), result())
    for later in (log, said(log, replies(), user())):
        with pytest.raises(OrphanResult, match="no earlier message leaves open"):
            later.append(answer("m1-call0"))


def test_a_call_id_may_be_used_again_in_a_later_step() -> None:
    """Providers that count calls from 1 in every reply are understood: each result answers the newest call."""
    step = (AssistantMessage(MessageId("a"), (ToolCallPart("1", "bash", "{}"),)), answer("1", "one", name="b").message)
    again = tuple(replace(message, id=MessageId(message.id + "2")) for message in step)
    log = log_of((*step, *again))

    assert [logged.late for logged in log.live] == [(), (), (), ()]
    assert [message.id for message in view(log, SENT)] == ["a", "b", "a2", "b2"]


@pytest.mark.parametrize(
    "entry",
    [
        Pruning((Handle("9.0"),), 1),
        Pruning((Handle("2.5"),), 1),
        Pruning((Handle("2.0"), Handle("x")), 1),
        Clipping((Clip(Handle("9.0"), 1, 1),)),
        Pin(Handle("9.0")),
        Checkpoint("t", first_kept=9),
        Restoration(0),
        Restoration(77),
    ],
)
def test_what_is_not_there_cannot_be_named(entry: Pruning | Clipping | Pin | Checkpoint | Restoration) -> None:
    """An entry that names something unknown raises a typed error whose end says how to name it, and changes nothing."""
    log = session(user(), calls("bash"), result())
    with pytest.raises(UnknownReference, match=r"; (name|pin) ") as caught:
        log.append(entry)

    assert isinstance(caught.value, LogError)
    assert (len(log.live), log.next_sequence, log.altered, log.pins) == (3, 3, {}, frozenset())


# Checkpoints.


def test_a_checkpoint_leaves_what_it_keeps() -> None:
    """A checkpoint's tail is the very messages from its first kept one on, pins and all."""
    log = session(user(), replies(), user("b"), replies("c")).append(Pin(Handle("2.0")))
    folded = log.append(Checkpoint("head", first_kept=2))

    assert list(folded.live) == list(log.live[2:])
    assert (folded.checkpoint_sequence, folded.at(0), folded.index_of(3)) == (5, None, 1)
    assert folded.pins == {"2.0"}


def test_a_cut_never_parts_call_and_result() -> None:
    """B12: a tail cannot begin at a result; the error says where it may."""
    log = session(user(), calls("bash"), result(), replies())
    with pytest.raises(IllegalCut, match="cut at a user message") as caught:
        log.append(Checkpoint("head", first_kept=2))

    assert (caught.value.sequence, caught.value.message_id) == (2, "m2")
    assert log.append(Checkpoint("head", first_kept=1)).length == 3


def test_a_sealed_loop_is_not_cut_inside() -> None:
    """B12: a loop opened by signed reasoning is cut only where a message has reasoning of its own."""
    seal = ReasoningPart("", '"sealed"')
    step = AssistantMessage(MessageId(""), (seal, ToolCallPart("", "bash", "{}")))
    log = session(user(), step, result(), calls("bash"), result(), step, result(), replies())

    assert [logged.sequence for logged in log.live if logged.cuttable] == [0, 1, 5]
    with pytest.raises(IllegalCut):
        log.append(Checkpoint("head", first_kept=3))


def test_a_checkpoint_forgets_what_it_folded() -> None:
    """B9: usage, freed tokens and the cut-off mark from before a checkpoint count for nothing after it."""
    log = session(user(), calls("bash"), result(900), replies(usage=Usage(input=9), finish="length"))
    folded = log.append(Pruning((Handle("2.0"),), 900)).append(Checkpoint("head"))

    assert (log.cut_off, folded.cut_off, folded.baseline, folded.freed, folded.altered) == (True, False, None, {}, {})
    assert folded.has_news is False


def test_attempts_count_until_somebody_speaks() -> None:
    """S1.7: compactions are counted per user prompt; only a person's message begins anew."""
    log = session(user(), replies()).append(Checkpoint("a")).append(Checkpoint("b"))

    assert (log.attempts, said(log, user(synthetic=True)).attempts, said(log, user()).attempts) == (2, 2, 0)


def test_news_is_what_was_said_or_done() -> None:
    """Since a checkpoint, a program's own word is no news; a reply, a result or a person's word is."""
    log = session(user()).append(Checkpoint("a"))

    assert [said(log, draft).has_news for draft in (user(synthetic=True), replies(), user())] == [False, True, True]


# A compaction carried out by messages.


def test_a_request_and_its_summary_are_a_checkpoint() -> None:
    """S4.1: a finished summary whose parent is a request folds everything before it, the request included."""
    log = session(user("old"), replies(), requests_compaction(), summary("told"), user("new"))

    assert log.checkpoint is not None
    assert (log.checkpoint.text, log.checkpoint.reason, log.checkpoint.first_kept) == ("told", "import", None)
    assert [message.id for message in filter_compacted(log)] == ["m2", "m3", "m4"]
    assert (log.pending, log.next_sequence) == (None, 5)


def test_a_request_is_pending_until_it_is_met() -> None:
    """S3.1: a request without its summary is durable and waits."""
    log = session(user(), replies(), requests_compaction())

    assert log.pending == log.live[-1].message
    assert said(log, summary(finish="error")).pending is not None


@pytest.mark.parametrize(("finish", "error"), [(None, ""), ("error", ""), ("stop", "overloaded")])
def test_a_failed_summary_is_no_boundary(finish: Finish | None, error: str) -> None:
    """S4.2: an unfinished or failed summary folds nothing and is not shown."""
    log = session(user(), replies(), requests_compaction(), summary(finish=finish, error=error))

    assert (log.checkpoint, len(log.live)) == (None, 4)
    assert [message.id for message in view(log, SENT)] == ["m0", "m1"]


def test_a_summary_of_nothing_asked_is_no_boundary() -> None:
    """S4.1: a summary without a parent, or whose parent is no request or not held, folds nothing."""
    stray = replace(summary(), parent_id=MessageId("m0"))

    assert session(user(), summary()).checkpoint is None
    assert session(user(), stray).checkpoint is None
    assert session(user(), replace(summary(), parent_id=MessageId("gone"))).checkpoint is None


def test_a_foreign_tail_begins_where_it_says_or_at_a_legal_cut() -> None:
    """S1.9: an imported compaction keeps its tail from the message it names, or from the next legal cut."""
    head = (user("a"), calls("bash"), result(), replies(), user("b"))

    def kept(first: str) -> list[str]:
        return ids(session(*head, requests_compaction(first_kept_id=first), summary()))

    assert (kept("m1"), kept("m2"), kept("gone")) == (["m1", "m2", "m3", "m4"], ["m3", "m4"], [])


def test_only_the_newest_pair_speaks() -> None:
    """B3: requests and summaries of earlier attempts leave the tail when a checkpoint keeps it."""
    log = session(user(), requests_compaction(), summary(error="x"), user("b"), requests_compaction(first_kept_id="m0"))
    done = said(log, replace(summary("told"), parent_id=MessageId("m4")))

    assert ids(done) == ["m0", "m3"]
    assert [message.id for message in filter_compacted(done)] == ["m4", "x5-0", "m0", "m3"]


def test_a_request_beside_words_is_still_a_request() -> None:
    """B26: a compaction request is recognised by its part even where a person's words stand beside it."""
    asked = UserMessage(MessageId(""), (TextPart("/compact"), CompactionPart("c", auto=False)))

    assert session(user(), asked, summary("told"), user()).checkpoint is not None


# What is told of replies and parts.


def test_an_anchor_is_the_newest_report() -> None:
    """S7.2: a finished reply with usage anchors the count; one without, or with an empty one, leaves the last."""
    log = session(user(), replies(usage=Usage(input=50, output=5)), user(), replies(), replies(usage=Usage()))

    assert log.baseline is not None
    assert (log.baseline.usage.prompt, log.baseline.sequence) == (50, 1)
    assert log.baseline.size == session(user(), replies()).size


def test_growth_between_reports_calibrates() -> None:
    """B15: two reports correct the estimate by what came between, unless something was hidden meanwhile."""
    first = session(user("x" * 400), calls("bash", usage=Usage(input=100)), result(800))
    second = replies(usage=Usage(input=1_300))
    hidden = said(first.append(Pruning((Handle("2.0"),), 400)), second)

    assert said(first, second).calibration.reports == 1
    assert said(first, second).calibration.material > 1
    assert hidden.calibration.reports == first.calibration.reports == 0


def test_a_reply_cut_off_is_marked_until_the_next() -> None:
    """S5.3: a reply that ended for length marks the log; the next finished reply lifts the mark."""
    log = session(user(), replies(finish="length"))

    assert (log.cut_off, said(log, user()).cut_off, said(log, user(), replies()).cut_off) == (True, True, False)


def test_freed_tokens_are_told_since_an_entry() -> None:
    """S5.4: what prunings freed is summed from a given entry on."""
    log = session(user(), calls("bash", "read"), result(9), result(9))
    log = log.append(Pruning((Handle("2.0"),), 300)).append(Pruning((Handle("3.0"),), 50))

    assert (log.freed_since(3), log.freed_since(4), log.freed_since(5), log.altered_at) == (350, 50, 0, 5)


def test_pins_are_set_and_released() -> None:
    """A pin marks a part until it is released, even after its message was folded."""
    log = session(user(), replies()).append(Pin(Handle("0.0"))).append(Checkpoint("head", first_kept=1))

    assert log.pins == {"0.0"}
    assert log.append(Pin(Handle("0.0"), pinned=False)).pins == frozenset()
    assert log.find("1.0") is not None
    assert (log.find("0.0"), log.find("1.1"), log.find("no")) == (None, None, None)


def test_media_in_results_are_measured() -> None:
    """B8: a picture that a tool returned counts until it is hidden."""
    seen = ToolResultPart("", "", "ok", files=(FilePart("image/png", 1_500),))
    log = session(user(), calls("view"), ToolMessage(MessageId(""), (seen,)))

    assert log.size.measure > 1_500 > log.append(Pruning((Handle("2.0"),), 1_500)).size.measure
