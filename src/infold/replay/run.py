"""From transcript files to outcomes: read, calibrate, replay every policy at every window.

A file that cannot be replayed becomes a `Broken` with its reason, so that the others still are.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from infold.catalogue import Assumed, Lookup, lookup
from infold.core.messages import ModelRef
from infold.core.policy import Ruler
from infold.errors import InfoldError
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
from infold.replay.simulate import Billing, Refetch, simulate
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_transcript


def calibrate(stage: ReplaySetup, meter: Billing) -> RunCalibration | None:
    """The recorded run beside its simulation, over the calls that report usage; none where no call does.

    Simulated twice: from time and content alone, and with the misses that neither explains.
    """
    recording = stage.recording
    told = [call for call in recording.calls if call.usage is not None]
    if not told:
        return None
    pure, corrected = (_simulate_recorded(stage, each, told) for each in (replace(meter, misses={}), meter))
    recorded = sum(_prompt(call) for call in told)
    billed = sum(recording.reply_to(call).cost for call in told)
    return RunCalibration(
        calls=len(told),
        recorded_input=recorded,
        simulated_input=sum(call.prompt_tokens for call in pure),
        recorded_hit_ratio=sum(_read(call) for call in told) / recorded,
        simulated_hit_ratio=_hit_ratio(pure),
        corrected_hit_ratio=_hit_ratio(corrected),
        recorded_dollars=billed or _recorded_spend(told, pure, meter).dollars,
        simulated_dollars=_simulated_spend(pure, meter).dollars,
        corrected_dollars=_simulated_spend(corrected, meter).dollars,
        billed=billed > 0,
        misses=len(meter.misses),
        unrecorded_shrinks=sum(call.prunings for call in pure),
    )


def _simulate_recorded(stage: ReplaySetup, meter: Billing, told: Sequence[RecordedCall]) -> tuple[CallOutcome, ...]:
    series = simulate(AS_RECORDED, RecordedRunner(stage), stage, meter).series
    return tuple(series[call.number] for call in told)


def _recorded_spend(told: Sequence[RecordedCall], calls: Sequence[CallOutcome], meter: Billing) -> Spend:
    """The recorded usage at list prices, with the output that the simulation takes too: records often cut it short."""
    spend = Spend()
    for call, outcome in zip(told, calls, strict=True):
        spend += meter.tariff.bill(_prompt(call), _read(call), outcome.output_tokens)
    return spend


def _simulated_spend(calls: Sequence[CallOutcome], meter: Billing) -> Spend:
    spend = Spend()
    for call in calls:
        spend += meter.tariff.bill(call.prompt_tokens, call.read_tokens, call.output_tokens)
    return spend


def _prompt(call: RecordedCall) -> int:
    return 0 if call.usage is None else call.usage.prompt


def _read(call: RecordedCall) -> int:
    return 0 if call.usage is None else call.usage.cache_read


def _hit_ratio(calls: Sequence[CallOutcome]) -> float:
    prompts = sum(call.prompt_tokens for call in calls)
    return sum(call.read_tokens for call in calls) / prompts if prompts else 0.0


RefetchFor: TypeAlias = Callable[[RecordedRun], Refetch]
"""What charges a session's lost facts, made once for each session."""


def replay_file(
    path: Path, plan: ReplayPlan, ruler: Ruler, *, refetch_for: RefetchFor | None = None
) -> FileOutcome | BrokenFile:
    """Replay every session of a transcript; never raises for what is in the file."""
    try:
        transcript = read_transcript(path)
        sessions = tuple(
            replay_session(session, plan, ruler, refetch_for=refetch_for) for session in transcript.sessions
        )
    except (InfoldError, OSError) as error:
        return BrokenFile(str(path), str(error))
    except Exception as error:  # the one place: a transcript that trips us must not cost the other files their report
        return BrokenFile(str(path), f"{type(error).__name__}: {error}")
    replayed = tuple(session for session in sessions if session.calls)
    if not replayed:
        return BrokenFile(str(path), "no call to a model is recorded in it; give a transcript with replies")
    return FileOutcome(str(path), transcript.format, replayed)


def replay_session(
    session: RecordedSession, plan: ReplayPlan, ruler: Ruler, *, refetch_for: RefetchFor | None = None
) -> SessionOutcome:
    """One session under every policy at every window, and as it was recorded."""
    recording = find_calls(session)
    known = lookup(plan.model or _model_name(session.model))
    stage = _set_up(recording, known, plan, ruler)
    meter = _billing_for(stage, plan, refetch_for(recording) if refetch_for else None)
    stage = replace(stage, rates=meter.tariff.rates(cached=plan.caching), lifetime_ms=meter.rules.lifetime_ms)
    calibration = calibrate(stage, meter)
    return SessionOutcome(
        id=session.id,
        model=known.entry.name,
        priced=meter.tariff.is_priced,
        calls=len(recording.calls),
        factor=stage.weigher.scale.factor,
        call_tokens=stage.weigher.scale.call_tokens,
        overhead_tokens=stage.overhead.tokens,
        outcomes=tuple(_outcomes(stage, meter, plan)),
        calibration=calibration,
        notes=tuple(_notes(stage, known, plan, meter)),
        parent=session.parent,
    )


def _set_up(recording: RecordedRun, known: Lookup, plan: ReplayPlan, ruler: Ruler) -> ReplaySetup:
    scale = learn_scale(recording, ruler)
    weigher = MessageCounter(ruler, scale, opening=recording.opening)
    overhead = learn_overhead(recording, weigher)
    if plan.overhead_tokens is not None:
        overhead = RequestOverhead(plan.overhead_tokens, known=True)
    return ReplaySetup(recording, weigher, overhead, known.entry)


def _billing_for(stage: ReplaySetup, plan: ReplayPlan, refetch: Refetch | None) -> Billing:
    stated = cache_rules(stage.entry)
    seconds = (stated.lifetime_ms or 0) // 1_000
    lived = learn_lifetime(stage.recording, seconds)
    rules = cache_rules(stage.entry, lifetime_seconds=lived)
    tariff = Tariff(stage.entry, hourly=lived >= HOUR_SECONDS > seconds)
    misses = unexplained_misses(stage.recording, lived)
    return Billing(tariff, replace(rules, enabled=plan.caching), misses=misses, refetch=refetch)


def _outcomes(stage: ReplaySetup, meter: Billing, plan: ReplayPlan) -> Iterator[PolicyOutcome]:
    for window in plan.windows:
        held = replace(meter, window_tokens=window or stage.entry.input_limit_tokens)
        for name in plan.policies:
            # The recorded course holds whatever had to be fetched again under the recorded policy.
            meter_of = replace(held, refetch=None) if name == "as-recorded" else held
            yield simulate(name, make_runner(name, stage, window), stage, meter_of, label_tokens=window)


def _notes(stage: ReplaySetup, known: Lookup, plan: ReplayPlan, meter: Billing) -> Iterator[str]:
    """What a reader must know to judge the numbers."""
    if stage.recording.session.model is None and plan.model is None:
        yield "no model is named in the record; give --model to price it and know its window"
    elif isinstance(known, Assumed):
        yield f"{known.entry.name} is not in the catalogue, so that no price is known; give --model to price it as another"
    elif not meter.tariff.is_priced:
        yield f"no price is known for {known.entry.name}; give --model to price it as another"
    if not stage.weigher.scale.steps:
        yield "too little usage is recorded to learn the provider's count; tokens are our own"
    if not stage.overhead.known:
        yield "neither usage nor a system prompt is recorded; the system prompt and tools count as nothing"
    if all(call.sent_ms is None for call in stage.recording.calls):
        yield "no times are recorded; nothing expires from the cache"
    if meter.tariff.hourly:
        yield "the recorded cache outlived pauses of more than five minutes; an hour is assumed, and its price"
    small = [window for window in plan.windows if window and window <= stage.constant_tokens]
    if small:
        yield f"the system prompt and tools alone ({stage.constant_tokens:,} tokens) fill a window of {min(small):,}"


def _model_name(model: ModelRef | None) -> str:
    if model is None:
        return "unknown"
    return f"{model.provider}/{model.id}" if model.provider else model.id
