"""Compact what a file holds: a request through `infold.fit`, a transcript played through the core as if it were lived.

Both end in the same report. A transcript's recorded usage is left out: it tells what another policy's requests measured.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from infold.api.fit import fit
from infold.api.report import Report
from infold.catalogue import Known, Lookup, lookup
from infold.cli.opening import Recording
from infold.core.budget import budget_for
from infold.core.compact import Rehearsal, carry_on, compact
from infold.core.gauge import Situation, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import AssistantMessage, Message, SessionId, text_of
from infold.core.plan import Stuck
from infold.core.policy import Policy, preset
from infold.core.view import view
from infold.engine.counting import Counting, counting_for
from infold.engine.terms import divided, overhead_of, rates_of, window_of
from infold.errors import UsageError, WindowExceeded
from infold.transcripts.record import RecordedSession


class Aim(Struct, frozen=True):
    """What is asked for: a window or a model that has one, and a preset."""

    window_tokens: int | None
    model: str | None
    policy: str


class Outcome(Struct, frozen=True):
    """What was done: the report, the session before and as it would be sent, and a request in its own shape if it was one."""

    report: Report
    before: RecordedSession
    session: RecordedSession
    body: Any = None


def compacted(recording: Recording, session: RecordedSession, aim: Aim) -> Outcome:
    """Compact a session into the window aimed at.

    Raises `WindowExceeded` when even the smallest view does not fit, `UsageError` when no window is known.
    """
    model = aim.model or _recorded_model(session)
    if model is None and aim.window_tokens is None:
        raise UsageError("no window is known for this session; give --window TOKENS or --model NAME")
    if recording.request is None:
        return _played(session, aim, None if model is None else lookup(model))
    request = recording.request
    fitted = fit(
        list(request.items),
        model=model,
        window=aim.window_tokens,
        system=session.system,
        tools=session.tools,
        policy=aim.policy,
        format=request.wire.name,
        environ={},  # a person asked for this compaction
    )
    sent = replace(session, messages=fitted.report.sent)
    return Outcome(fitted.report, session, sent, request.with_items(fitted.messages))


def checkpoint_of(report: Report) -> str:
    """The text that stands for what was folded; empty if nothing was."""
    return next((text_of(message) for message in report.sent if message.id.startswith(("checkpoint-", "summary-"))), "")


def _recorded_model(session: RecordedSession) -> str | None:
    known = None if session.model is None else lookup(session.model.id)
    return known.matched if isinstance(known, Known) else None


# Playing a transcript.


def _played(session: RecordedSession, aim: Aim, known: Lookup | None) -> Outcome:
    policy = preset(aim.policy)
    exact = policy.estimate == "features"
    counting = counting_for(known.entry.family if known else "o200k", exact=exact, scaled=exact)
    history = tuple(_without_usage(message) for message in session.messages)
    opening = len(divided(history)[0])
    situation = _situation(session, aim, policy, counting, known)
    ruler = counting.ruler if exact else policy.estimate
    start = Rehearsal(Log(SessionId(session.id), Rendering(ruler, policy.stub)))
    played = carry_on(start, history[opening:], situation)
    final = compact(played.log, situation)
    if isinstance(final.final, Stuck):
        stuck = final.final
        raise WindowExceeded(
            floor_tokens=stuck.floor_tokens, usable_tokens=stuck.usable_tokens, overhead_tokens=stuck.overhead_tokens
        )
    sent = (*history[:opening], *view(final.log, policy.summary))
    report = Report(
        format="transcript",
        policy=policy.name,
        budget=situation.budget,
        tokens_after=estimated_tokens(final.log, situation),
        upper_tokens=gauge(final.log, situation).upper_tokens,
        overhead_tokens=situation.overhead_tokens,
        counting=counting,
        events=(*played.events, *final.events),
        model=known,
        history=history,
        sent=sent,
        sequences=(*(-1 for _ in range(opening)), *played.sequences),
    )
    return Outcome(report, session, replace(session, messages=sent, compactions=()))


def _situation(
    session: RecordedSession, aim: Aim, policy: Policy, counting: Counting, known: Lookup | None
) -> Situation:
    opening = divided(session.messages)[0]
    return Situation(
        policy,
        budget_for(window_of(aim.window_tokens, known), policy),
        overhead_tokens=overhead_of(opening, session.system, session.tools, counting.ruler).tokens,
        bound=counting.margin,
        wide_bound=counting.wide_margin,
        rates=rates_of(known),
        reports_usage=False,
    )


def _without_usage(message: Message) -> Message:
    return replace(message, usage=None) if isinstance(message, AssistantMessage) else message
