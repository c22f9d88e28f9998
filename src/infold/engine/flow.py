"""prepare and record, as generators of effects: next step, do it, append, until the view fits.

The flow has no policy of its own: `core` decides, this carries out. Every change is appended before it counts, so that a crash
between two effects leaves a session whose next prompt is answered (B13). A summary that fails in any way gives way to the
deterministic fold (B10).
"""

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.core.compact import carry_out, checkpoint_for, entries_for
from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.events import Compacted, Event, Exceeded, StubRepeated
from infold.core.gauge import Gauge, Situation
from infold.core.log import Log
from infold.core.messages import AssistantMessage, CompactionPart, Message, MessageId, TextPart, UserMessage
from infold.core.plan import Fits, Fold, Prune, Shorten, Stuck, Summarise, next_step
from infold.core.stubs import repeats_stub
from infold.core.summary import COMPACTION_AGENT, Additions
from infold.core.view import view
from infold.engine.effects import Append, Effect, Publish
from infold.engine.summarising import Notes, SummaryPlan, ask_for_notes
from infold.errors import WindowExceeded

__all__ = ["Call", "Flow", "Prepared", "prepare", "record"]

Outcome = TypeVar("Outcome")
Flow: TypeAlias = Generator[Effect, object, Outcome]


class Call(Struct, frozen=True):
    """What a caller is about to send: the messages that are new, and the situation they are sent in.

    `system` is the ordinary request's system prompt, for a summary that shares its prefix; `summariser_tokens` is the window
    of the model that summarises, 0 where it is the session's own.
    """

    messages: tuple[Message, ...]
    situation: Situation
    system: str = ""
    additions: Additions = Additions()
    summariser_tokens: int = 0
    now_ms: int | None = None


class Prepared(Struct, frozen=True):
    """A session ready to be sent: its log, the messages to send, how full the window is, and what was done."""

    log: Log
    view: tuple[Message, ...]
    gauge: Gauge
    events: tuple[Event, ...] = ()


def prepare(log: Log, call: Call) -> Flow[Prepared]:
    """Append what is new and compact until the next request fits; raises `WindowExceeded` where none can."""
    log = yield from _append(log, tuple(MessageEntry(message) for message in call.messages))
    situation = replace(call.situation, manual=call.situation.manual or log.pending is not None)
    events: list[Event] = []
    while True:
        step = next_step(log, situation)
        match step:
            case Fits():
                return Prepared(log, view(log, situation.policy.summary), step.gauge, tuple(events))
            case Stuck():
                yield Publish((Exceeded(log.session_id, step.floor_tokens, step.usable_tokens),))
                raise _exceeded(step)
            case Prune() | Shorten() | Fold():
                done = yield from _carry_out(log, step, situation, call)
            case Summarise():
                done = yield from _summarise(log, step, situation, call)
            case _:
                assert_never(step)
        log = done.log
        events += done.events
        if step.reason == "manual":
            situation = replace(situation, manual=False)


def record(log: Log, messages: Sequence[Message]) -> Flow[Log]:
    """Append a reply and what followed; a reply that repeats a stub's text is reported (B24)."""
    log = yield from _append(log, tuple(MessageEntry(message) for message in messages))
    repeated = tuple(
        StubRepeated(log.session_id, message.id)
        for message in messages
        if any(repeats_stub(part, log.rendering) for part in message.parts)
    )
    if repeated:
        yield Publish(repeated)
    return log


class _Done(Struct, frozen=True):
    log: Log
    events: tuple[Event, ...]


def _append(log: Log, entries: tuple[Entry, ...]) -> Flow[Log]:
    """The log checks first, so that nothing is stored that could not follow; then the store takes it, all or none."""
    if not entries:
        return log
    grown = log.extend(entries)
    yield Append(entries, expected=log.next_sequence)
    return grown


def _carry_out(log: Log, step: Prune | Shorten | Fold, situation: Situation, call: Call) -> Flow[_Done]:
    carried = carry_out(log, step, situation, now_ms=call.now_ms)
    after = yield from _append(log, carried.entries)
    yield Publish(carried.events)
    return _Done(after, carried.events)


def _summarise(log: Log, step: Summarise, situation: Situation, call: Call) -> Flow[_Done]:
    """Request durably, ask, judge, commit with one append (S3.1, B5, B25)."""
    if log.pending is None:
        log = yield from _append(log, (MessageEntry(_request(log, step, call)),))
    plan = SummaryPlan(step, situation, call.system, call.additions, call.summariser_tokens)
    notes = yield from ask_for_notes(log, plan)
    checkpoint, stubbed = checkpoint_for(log, step, situation, narrative=notes.text, now_ms=call.now_ms)
    checkpoint = _told(checkpoint, notes, situation)
    after = yield from _append(log, tuple(entries_for(checkpoint, log, situation)))
    events = (_compacted(log, checkpoint), *notes.events, *stubbed)
    yield Publish(events)
    return _Done(after, events)


def _request(log: Log, step: Summarise, call: Call) -> UserMessage:
    """The durable request, with the last user message's agent and model (S3.1)."""
    asked = next((placed.message for placed in reversed(log.live) if isinstance(placed.message, UserMessage)), None)
    kept = None if step.cut.first_kept is None else log.live[step.cut.index].message.id
    part = CompactionPart(f"part-{log.next_sequence}", auto=step.reason != "manual", first_kept_id=kept)
    return UserMessage(
        MessageId(f"compact-{log.next_sequence}"),
        (part,),
        created_ms=call.now_ms,
        agent="" if asked is None else asked.agent,
        model=None if asked is None else asked.model,
    )


def _told(checkpoint: Checkpoint, notes: Notes, situation: Situation) -> Checkpoint:
    """The checkpoint with what is known of its summary; a document's shape has the summary as a message (S3.6)."""
    documents = situation.policy.summary.shape != "marked" and bool(checkpoint.text)
    return replace(
        checkpoint,
        summary=_summary_message(checkpoint, notes) if documents else None,
        verdict=notes.verdict,
        summariser=notes.model if notes.text else "",
        cost=notes.cost,
        duration_ms=notes.duration_ms,
    )


def _summary_message(checkpoint: Checkpoint, notes: Notes) -> AssistantMessage:
    request = checkpoint.request
    assert request is not None
    return AssistantMessage(
        MessageId(f"summary-of-{request.id}"),
        (TextPart(checkpoint.text),),
        created_ms=checkpoint.created_ms,
        parent_id=request.id,
        agent=COMPACTION_AGENT.name,
        mode=COMPACTION_AGENT.name,
        model=request.model,
        path=notes.path,
        summary=True,
        usage=notes.usage,
        cost=notes.cost,
        finish="stop",
    )


def _compacted(log: Log, checkpoint: Checkpoint) -> Compacted:
    kept = None if checkpoint.first_kept is None else log.index_of(checkpoint.first_kept)
    return Compacted(
        log.session_id,
        log.length if kept is None else kept,
        checkpoint.tokens_before,
        checkpoint.tokens_after,
        checkpoint.reason,
        checkpoint.summariser,
        checkpoint.cost,
        checkpoint.duration_ms,
    )


def _exceeded(stuck: Stuck) -> WindowExceeded:
    return WindowExceeded(
        floor_tokens=stuck.floor_tokens, usable_tokens=stuck.usable_tokens, overhead_tokens=stuck.overhead_tokens
    )
