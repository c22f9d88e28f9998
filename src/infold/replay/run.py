"""From transcript files to results: read, calibrate, and replay every policy at every window.

A file that cannot be replayed becomes a `BrokenFile` with its reason, and the others go on.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from infold.catalogue import Assumed, Lookup, lookup
from infold.core.messages import ModelRef
from infold.core.policy import Ruler
from infold.errors import InfoldError, UnknownFormat
from infold.replay.calls import RecordedCall, RecordedRun, find_calls
from infold.replay.outcome import (
    BrokenFile,
    CallOutcome,
    FileOutcome,
    PolicyOutcome,
    ReplayPlan,
    RunCalibration,
    SessionOutcome,
    Spend,
)
from infold.replay.policies import AS_RECORDED, RecordedRunner, ReplaySetup, make_runner
from infold.replay.prices import HOUR_SECONDS, Tariff, cache_rules
from infold.replay.scale import (
    MessageCounter,
    RequestOverhead,
    learn_lifetime,
    learn_overhead,
    learn_scale,
    unexplained_misses,
)
from infold.replay.simulate import Billing, Refetch, make_refetch, simulate
from infold.session.counting import counting_for
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript


def calibrate(setup: ReplaySetup, billing: Billing) -> RunCalibration | None:
    """Compare the recorded run with its simulation, over the calls that report usage; `None` if no call does.

    It is simulated twice: from time and content alone, and with the misses that these do not explain.
    """
    recording = setup.recording
    told = [call for call in recording.calls if call.usage is not None]
    usages = [call.usage for call in told if call.usage is not None]
    if not told:
        return None
    pure, corrected = (_simulate_recorded(setup, each, told) for each in (replace(billing, misses={}), billing))
    recorded = sum(usage.prompt for usage in usages)
    billed = sum(recording.reply_to(call).cost for call in told)
    # Records often cut the output short, so that the simulated one stands with the recorded input.
    outputs = (call.output_tokens for call in pure)
    listed = ((usage.prompt, usage.cache_read, output) for usage, output in zip(usages, outputs, strict=True))
    return RunCalibration(
        calls=len(told),
        recorded_input=recorded,
        simulated_input=sum(call.prompt_tokens for call in pure),
        recorded_hit_ratio=sum(usage.cache_read for usage in usages) / recorded,
        simulated_hit_ratio=_hit_ratio(pure),
        corrected_hit_ratio=_hit_ratio(corrected),
        recorded_dollars=billed or _cost(billing, listed),
        simulated_dollars=_simulated_cost(billing, pure),
        corrected_dollars=_simulated_cost(billing, corrected),
        billed=billed > 0,
        misses=len(billing.misses),
        unrecorded_shrinks=sum(call.prunings for call in pure),
    )


def _simulate_recorded(setup: ReplaySetup, billing: Billing, told: Sequence[RecordedCall]) -> tuple[CallOutcome, ...]:
    series = simulate(AS_RECORDED, RecordedRunner(setup), setup, billing).series
    return tuple(series[call.number] for call in told)


def _simulated_cost(billing: Billing, calls: Sequence[CallOutcome]) -> float:
    return _cost(billing, ((call.prompt_tokens, call.read_tokens, call.output_tokens) for call in calls))


def _cost(billing: Billing, calls: Iterable[tuple[int, int, int]]) -> float:
    """Return what calls cost, each given by its prompt, its cached part and its output."""
    return sum((billing.tariff.bill(*call) for call in calls), Spend()).dollars


def _hit_ratio(calls: Sequence[CallOutcome]) -> float:
    prompts = sum(call.prompt_tokens for call in calls)
    return sum(call.read_tokens for call in calls) / prompts if prompts else 0.0


RefetchFor: TypeAlias = Callable[[RecordedRun], Refetch]
"""Makes the charge for a session's lost content."""


def replay_counted(path: Path, *, plan: ReplayPlan, refetch: bool) -> FileOutcome | BrokenFile:
    """Replay a transcript with the best token counts there are; with `refetch`, charge what was lost and then needed."""
    ruler = counting_for("o200k").ruler
    return replay_file(path, plan, ruler, refetch_for=partial(make_refetch, ruler=ruler) if refetch else None)


def replay_file(
    path: Path, plan: ReplayPlan, ruler: Ruler, *, refetch_for: RefetchFor | None = None
) -> FileOutcome | BrokenFile:
    """Replay every session of a transcript; never raise for the file's content."""
    name = os.fsencode(path).decode("utf-8", "backslashreplace")  # a file's name need not be text
    try:
        transcript = read_transcript(path)
        sessions = tuple(
            replay_session(session, plan, ruler, refetch_for=refetch_for) for session in transcript.sessions
        )
    except OSError as error:
        return BrokenFile(name, f"it cannot be read ({error.strerror}); check the path")
    except UnknownFormat:
        return BrokenFile(
            name, "it is not a transcript of an agent that infold reads; remove it, or convert it to a request"
        )
    except InfoldError as error:
        return BrokenFile(name, str(error))
    except Exception as error:  # the one place: a transcript that trips us must not cost the other files their report
        return BrokenFile(name, f"{type(error).__name__}: {error}")
    replayed = tuple(session for session in sessions if session.calls)
    if not replayed:
        return BrokenFile(name, "no call to a model is recorded in it; give a transcript with replies")
    return FileOutcome(name, transcript.format, replayed)


def replay_session(
    session: RecordedSession, plan: ReplayPlan, ruler: Ruler, *, refetch_for: RefetchFor | None = None
) -> SessionOutcome:
    """Replay one session under every policy at every window, and as recorded."""
    recording = find_calls(session)
    known = lookup(plan.model or _model_name(session.model))
    setup = _set_up(recording, known, plan, ruler)
    billing = _billing_for(setup, plan, refetch_for(recording) if refetch_for else None)
    setup = replace(setup, rates=billing.tariff.rates(cached=plan.caching), lifetime_ms=billing.rules.lifetime_ms)
    calibration = calibrate(setup, billing)
    return SessionOutcome(
        id=session.id,
        model=known.entry.name,
        priced=billing.tariff.is_priced,
        calls=len(recording.calls),
        factor=setup.counter.scale.factor,
        call_tokens=setup.counter.scale.call_tokens,
        overhead_tokens=setup.overhead.tokens,
        outcomes=tuple(_outcomes(setup, billing, plan)),
        calibration=calibration,
        notes=tuple(_notes(setup, known, plan, billing)),
        parent=session.parent,
    )


def _set_up(recording: RecordedRun, known: Lookup, plan: ReplayPlan, ruler: Ruler) -> ReplaySetup:
    scale = learn_scale(recording, ruler)
    counter = MessageCounter(ruler, scale, opening=recording.opening)
    overhead = learn_overhead(recording, counter)
    if plan.overhead_tokens is not None:
        overhead = RequestOverhead(plan.overhead_tokens, known=True)
    return ReplaySetup(recording, counter, overhead, known.entry)


def _billing_for(setup: ReplaySetup, plan: ReplayPlan, refetch: Refetch | None) -> Billing:
    stated = cache_rules(setup.entry)
    seconds = (stated.lifetime_ms or 0) // 1_000
    lived = learn_lifetime(setup.recording, seconds)
    rules = cache_rules(setup.entry, lifetime_seconds=lived)
    tariff = Tariff(setup.entry, hourly=lived >= HOUR_SECONDS > seconds)
    misses = unexplained_misses(setup.recording, lived)
    return Billing(tariff, replace(rules, enabled=plan.caching), misses=misses, refetch=refetch)


def _outcomes(setup: ReplaySetup, billing: Billing, plan: ReplayPlan) -> Iterator[PolicyOutcome]:
    for window in plan.windows:
        windowed = replace(billing, window_tokens=window or setup.entry.input_limit_tokens)
        for name in plan.policies:
            # The recorded course holds whatever had to be fetched again under the recorded policy.
            own_billing = replace(windowed, refetch=None) if name == "as-recorded" else windowed
            yield simulate(name, make_runner(name, setup, window), setup, own_billing, label_tokens=window)


def _notes(setup: ReplaySetup, known: Lookup, plan: ReplayPlan, billing: Billing) -> Iterator[str]:
    """Yield what a reader must know to judge the numbers."""
    if setup.recording.session.model is None and plan.model is None:
        yield "no model is named in the record; give --model to price it and know its window"
    elif isinstance(known, Assumed):
        yield f"{known.entry.name} is not in the catalogue, so that no price is known; give --model to price it as another"
    elif not billing.tariff.is_priced:
        yield f"no price is known for {known.entry.name}; give --model to price it as another"
    if not setup.counter.scale.steps:
        yield "too little usage is recorded to learn the provider's count; tokens are our own"
    if not setup.overhead.known:
        yield "neither usage nor a system prompt is recorded; the system prompt and tools count as nothing"
    if all(call.sent_ms is None for call in setup.recording.calls):
        yield "no times are recorded; nothing expires from the cache"
    if billing.tariff.hourly:
        yield "the recorded cache outlived pauses of more than five minutes; an hour is assumed, and its price"
    small = [window for window in plan.windows if window and window <= setup.constant_tokens]
    if small:
        yield f"the system prompt and tools alone ({setup.constant_tokens:,} tokens) fill a window of {min(small):,}"


def _model_name(model: ModelRef | None) -> str:
    if model is None:
        return "unknown"
    return f"{model.provider}/{model.id}" if model.provider else model.id
