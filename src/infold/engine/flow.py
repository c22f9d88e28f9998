"""prepare and record, as generators of effects: next step, do it, append, until the view fits.

The flow has no policy of its own: `core` decides, this carries out. Every change is appended before it counts, so that a crash
between two effects leaves a session whose next prompt is answered (B13). Where another writer was faster the flow ends with
`Outrun`: whoever drives it reads the session again and begins anew (B14).
"""

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.core.compact import carry_out
from infold.core.cut import Cut, cut_before
from infold.core.entries import Amendment, MessageEntry
from infold.core.events import Event, Exceeded, StubRepeated, SummariserPaused
from infold.core.gauge import Gauge, Situation, gauge
from infold.core.log import Log
from infold.core.logged_message import repeats_stub
from infold.core.messages import CompactionPart, Message, UserMessage
from infold.core.plan import Fits, Fold, NextStep, Prune, Shorten, Stuck, Summarise, fold_at, next_step
from infold.core.view import view
from infold.engine.ahead import step_ahead
from infold.engine.call import Call, Flow, Outrun, append
from infold.engine.committing import Done, Left
from infold.engine.effects import Hold, Load, Publish, Release
from infold.engine.folding import fold, plan_for
from infold.engine.summarising import SummaryPlan
from infold.errors import StoreConflict, UsageError, WindowExceeded


class Prepared(Struct, frozen=True):
    """A session ready to be sent: its log, the messages to send, how full the window is, and what was done.

    `wanted` is the summary that should be written in the background now; `anew`: others wrote to the session meanwhile, and
    what they wrote is in it.
    """

    log: Log
    view: tuple[Message, ...]
    gauge: Gauge
    events: tuple[Event, ...] = ()
    wanted: SummaryPlan | None = None
    anew: bool = False


def prepare(log: Log, call: Call) -> Flow[Prepared | Outrun]:
    """Append what is new and compact until the next request fits; raises `WindowExceeded` where none can."""
    try:
        log = yield from take_in(log, call.messages, amended=call.amended)
    except StoreConflict:
        return Outrun()
    return (yield from compact(log, call))


def take_in(log: Log, messages: Sequence[Message], *, amended: int | None = None) -> Flow[Log]:
    """Append what a caller brought, after what the caller took back; raises `StoreConflict` where another was faster.

    After an amendment the session is read again: what the messages that were taken back had taught goes with them.
    """
    entries = tuple(MessageEntry(message) for message in messages)
    if amended is None:
        return (yield from append(log, entries))
    yield from append(log, (Amendment(amended), *entries))
    read = yield Load()
    assert isinstance(read, Log)
    return read


def compact(log: Log, call: Call) -> Flow[Prepared | Outrun]:
    """Compact until the next request fits."""
    try:
        return (yield from _compact(log, call))
    except StoreConflict:
        return Outrun()


def record(log: Log, messages: Sequence[Message]) -> Flow[Log | Outrun]:
    """Append a reply and what followed; a reply that repeats a stub's text is reported (B24)."""
    try:
        log = yield from append(log, tuple(MessageEntry(message) for message in messages))
    except StoreConflict:
        return Outrun()
    repeated = tuple(
        StubRepeated(log.session_id, message.id)
        for message in messages
        if any(repeats_stub(part, log.rendering) for part in message.parts)
    )
    if repeated:
        yield Publish(repeated)
    return log


def _compact(log: Log, call: Call) -> Flow[Prepared | Outrun]:
    resumed = log.pending is not None and not call.situation.manual and (yield from _is_left_over())
    situation = replace(call.situation, manual=call.situation.manual or resumed)
    events: list[Event] = []
    anew = False
    while True:
        step = _next(log, situation, call)
        asked = not isinstance(step, Fits | Stuck) and step.reason == "manual"
        if asked and resumed and _is_automatic(log.pending):
            step = replace(step, reason="trigger")
        if resumed and isinstance(step, Fold | Summarise):
            step = replace(step, cut=_before_what_came_since(log, step.cut))
        match step:
            case Fits():
                wanted = _wanted(log, situation, call)
                return replace(_prepared(log, situation, events, wanted, brought=call.brought), anew=anew)
            case Stuck():
                yield Publish((Exceeded(log.session_id, step.floor_tokens, step.usable_tokens),))
                raise _exceeded(step)
            case Prune() | Shorten():
                done: Done | Left | Outrun = yield from _hide(log, step, situation, call)
            case Fold() | Summarise():
                done = yield from fold(log, step, situation, call)
            case _:
                assert_never(step)
        if isinstance(done, Outrun):
            return done
        events += done.events
        if isinstance(done, Left):
            log = done.log or log
            if not asked or situation.budget.excess_tokens(gauge(log, situation).upper_tokens) == 0:
                return replace(_prepared(log, situation, events, done.wanted, brought=call.brought), anew=anew)
            situation = replace(situation, manual=False)  # that does not help; what must fit still must
            continue
        log, anew = done.log, anew or done.anew
        situation = _after(done, situation, asked=asked)


def _after(done: Done, situation: Situation, *, asked: bool) -> Situation:
    """Return the situation after a step: what a person asked for is done, and a summariser that just failed is asked no more."""
    fails = any(isinstance(event, SummariserPaused) for event in done.events)
    return replace(situation, manual=situation.manual and not asked, summariser=situation.summariser and not fails)


def _is_left_over() -> Flow[bool]:
    """Whether nobody is carrying out the compaction that was asked for: whoever does holds the session's lock."""
    taken = yield Hold()
    if taken:
        yield Release()
    return bool(taken)


def _is_automatic(request: UserMessage | None) -> bool:
    """Whether a request that was left over was made by a policy and not by a person."""
    return request is not None and any(isinstance(part, CompactionPart) and part.auto for part in request.parts)


def _before_what_came_since(log: Log, cut: Cut) -> Cut:
    """A cut that does not fold what was said after a compaction was asked for: nobody has answered it yet."""
    asked = next((n for n, placed in enumerate(log.live) if placed.message is log.pending), log.length)
    later = next((n for n in range(asked + 1, log.length) if log.live[n].cuttable), log.length)
    return cut if cut.index <= later else Cut.at(log, later)


def _next(log: Log, situation: Situation, call: Call) -> NextStep:
    """What to do now; a person who says up to where wants a fold there and nothing else."""
    if not situation.manual or (call.up_to is None and not call.additions.focus):
        return next_step(log, situation)
    if call.up_to is None:  # what a summary is to give room to is not served by pruning
        policy = situation.policy
        return next_step(log, replace(situation, policy=replace(policy, prune=replace(policy.prune, enabled=False))))
    cut = cut_before(log, call.up_to)
    if cut is None:
        raise UsageError(
            f"nothing can be folded before message {call.up_to}; give the number of a later message, such as "
            "the one in its handle, or leave it out"
        )
    return fold_at(log, cut, situation, "manual")


def _hide(log: Log, step: Prune | Shorten, situation: Situation, call: Call) -> Flow[Done]:
    carried = carry_out(log, step, situation, now_ms=call.now_ms)
    after = yield from append(log, carried.entries)
    yield Publish(carried.events)
    return Done(after, carried.events)


def _prepared(
    log: Log, situation: Situation, events: Sequence[Event], wanted: SummaryPlan | None, *, brought: bool
) -> Prepared:
    shown = view(log, situation.policy.summary, brought=brought)
    return Prepared(log, shown, gauge(log, situation), tuple(events), wanted)


def _wanted(log: Log, situation: Situation, call: Call) -> SummaryPlan | None:
    """The summary to begin now, though nothing needs doing yet."""
    step = step_ahead(log, situation) if call.defers and situation.summariser else None
    return None if step is None else plan_for(step, situation, call)


def _exceeded(stuck: Stuck) -> WindowExceeded:
    return WindowExceeded(
        floor_tokens=stuck.floor_tokens, usable_tokens=stuck.usable_tokens, overhead_tokens=stuck.overhead_tokens
    )
