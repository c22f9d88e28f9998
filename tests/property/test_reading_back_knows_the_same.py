"""Law: a session read from its store knows what the one that grew knew: its view and sizes, and what it was taught."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import histories, situations, titles

from infold.core.compact import compact
from infold.core.entries import (
    Amendment,
    Checkpoint,
    Entry,
    MessageEntry,
    Pin,
    Rejection,
    decode_entry,
    encode_entry,
    handle_of,
)
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    Message,
    MessageId,
    SessionId,
    TextPart,
    Usage,
    UserMessage,
    results_of,
)
from infold.core.view import filter_compacted, view
from infold.testing.builders import log_of

SESSION = SessionId("session")
SMALL_TOKENS = 60
"""What is pinned is carried word for word; so much fits any window."""

factors = st.sampled_from((0.8, 1.0, 1.3, 1.9))


@given(histories(), situations(), factors, st.data())
def test_a_session_read_back_is_taught_alike(
    history: tuple[Message, ...], inputs: PlanInputs, factor: float, data: st.DataObject
) -> None:
    """B11, B15: calibration, limits, sizes and view are those of the log that grew, through folds, stubs and refusals."""
    log, entries = Log(SESSION, log_of((), policy=inputs.policy).rendering), list[Entry]()
    for message in history:
        log = grown(log, entries, (MessageEntry(reported(message, log, factor)),))
        if data.draw(st.integers(0, 7)) == 0:
            log = grown(log, entries, (data.draw(rejections),))
        if data.draw(st.integers(0, 7)) == 0:
            log = grown(log, entries, (data.draw(titles),))
        log = grown(log, entries, compact(log, inputs).entries)
    read = read_back(entries, log)

    assert view(read, inputs.policy.summary) == view(log, inputs.policy.summary)
    assert (read.size, read.measured, read.checkpoint_size) == (log.size, log.measured, log.checkpoint_size)
    assert (read.calibration, read.limits) == (log.calibration, log.limits)
    assert (read.baseline, read.is_rejected, read.calls, read.carried) == (
        log.baseline,
        log.is_rejected,
        log.calls,
        log.carried,
    )


@given(histories(), situations(), st.data())
def test_an_amended_session_read_back_is_the_session(
    history: tuple[Message, ...], inputs: PlanInputs, data: st.DataObject
) -> None:
    """B1, B13: whatever was taken back, pinned, hidden and folded in whatever order, view, sizes and numbers are the same."""
    log, entries = Log(SESSION, log_of((), policy=inputs.policy).rendering), list[Entry]()
    for message in history:
        if not may_follow(message, log):
            continue
        log = grown(log, entries, (MessageEntry(replace(message, id=MessageId(f"n{log.next_sequence}"))),))
        log = grown(log, entries, compact(log, inputs).entries)
        if data.draw(st.integers(0, 5)) == 0:
            log = grown(log, entries, (data.draw(titles),))
        small = [logged.sequence for logged in log.live if logged.size.measure < SMALL_TOKENS]
        if small and data.draw(st.integers(0, 3)) == 0:
            log = grown(log, entries, (Pin(handle_of(data.draw(st.sampled_from(small)), 0)),))
        if log.live and data.draw(st.integers(0, 3)) == 0:
            logged = data.draw(st.sampled_from(list(log.live)))
            log = grown(log, entries, (Amendment(logged.sequence), spoken(log.next_sequence + 1)))
    read = read_back(entries, log)

    assert filter_compacted(read) == filter_compacted(log)
    assert view(read, inputs.policy.summary) == view(log, inputs.policy.summary)
    assert (read.size, read.measured, read.next_sequence) == (log.size, log.measured, log.next_sequence)
    assert (read.altered, read.run, read.limits, read.carried) == (log.altered, log.run, log.limits, log.carried)


@given(
    st.lists(st.sampled_from(("user", "reply", "pair", "pair", "asked", "checkpoint")), min_size=4, max_size=14),
    st.data(),
)
def test_imported_compactions_read_back_are_the_same(kinds: list[str], data: st.DataObject) -> None:
    """S4.1, B13: whatever tails imported compactions keep, among checkpoints of infold's own, the same messages stand."""
    log, entries = Log(SESSION), list[Entry]()
    for kind in kinds:
        number, live = log.next_sequence, [logged.message.id for logged in log.live]
        tail = data.draw(st.sampled_from([*live[-6:], None, MessageId("n2"), MessageId("unknown")]))
        request = UserMessage(MessageId(f"n{number}"), (CompactionPart("part", auto=True, first_kept_id=tail),))
        answer = AssistantMessage(
            MessageId(f"n{number + 1}"), (TextPart("S"),), parent_id=request.id, summary=True, finish="stop"
        )
        cuttable = [logged.sequence for logged in log.live if logged.cuttable]
        more: dict[str, tuple[Entry, ...]] = {
            "user": (spoken(number),),
            "reply": (MessageEntry(AssistantMessage(MessageId(f"n{number}"), (TextPart("so"),), finish="stop")),),
            "pair": (MessageEntry(request), MessageEntry(answer)),
            "asked": (MessageEntry(request),),
            "checkpoint": (Checkpoint("own", first_kept=data.draw(st.sampled_from([None, *cuttable]))),),
        }
        log = grown(log, entries, more[kind])
    read = read_back(entries, log)

    assert filter_compacted(read) == filter_compacted(log)
    assert (read.size, read.next_sequence, read.pending) == (log.size, log.next_sequence, log.pending)


def may_follow(message: Message, log: Log) -> bool:
    """Whether every call that a message answers is still there."""
    waiting = log.open_calls | log.writable_index().unanswered | log.carried
    return all(result.call_id in waiting for result in results_of(message))


def reported(message: Message, log: Log, factor: float) -> Message:
    """A reply with the usage that a provider would report who counts so much more than we do."""
    if not isinstance(message, AssistantMessage):
        return message
    sent = log.size.plus(log.checkpoint_size).measure + 500
    return replace(message, usage=Usage(input=int(factor * sent), output=7))


rejections = st.builds(
    Rejection,
    estimated_tokens=st.integers(40_000, 90_000),
    reported_tokens=st.sampled_from((None, 60_000, 120_000)),
    limit_tokens=st.sampled_from((None, 32_000, 64_000)),
    over_bytes=st.sampled_from((None, None, 9_000)),
)


def spoken(number: int) -> MessageEntry:
    """What is said instead."""
    return MessageEntry(UserMessage(MessageId(f"n{number}"), (TextPart(f"instead, {number}"),)))


def grown(log: Log, entries: list[Entry], more: tuple[Entry, ...]) -> Log:
    """The log with more entries, which are noted."""
    log = log.extend(more)
    entries += more
    return log


def read_back(entries: list[Entry], log: Log) -> Log:
    """The session as a new process reads it from what was stored."""
    stored = [(number, decode_entry(encode_entry(entry))) for number, entry in enumerate(entries)]
    return load(SESSION, reversed(stored), log.rendering)
