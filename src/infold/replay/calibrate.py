"""How far a simulation of the recorded run is from what the record reports: the measure of every other number here."""

from collections.abc import Sequence

from msgspec.structs import replace

from infold.replay.calls import Call
from infold.replay.outcome import Calibration, CallOutcome, Spend
from infold.replay.policies import AS_RECORDED
from infold.replay.recorded import RecordedPlayer
from infold.replay.simulate import Meter, simulate
from infold.replay.stage import Stage


def calibrated(stage: Stage, meter: Meter) -> Calibration | None:
    """The recorded run beside its simulation, over the calls that report usage; none where no call does.

    Simulated twice: from time and content alone, and with the misses that neither explains.
    """
    recording = stage.recording
    told = [call for call in recording.calls if call.usage is not None]
    if not told:
        return None
    pure, corrected = (_played(stage, each, told) for each in (replace(meter, misses={}), meter))
    recorded = sum(_prompt(call) for call in told)
    billed = sum(recording.reply_to(call).cost for call in told)
    return Calibration(
        calls=len(told),
        recorded_input=recorded,
        simulated_input=sum(call.prompt_tokens for call in pure),
        recorded_hit_ratio=sum(_read(call) for call in told) / recorded,
        simulated_hit_ratio=_hit_ratio(pure),
        corrected_hit_ratio=_hit_ratio(corrected),
        recorded_dollars=billed or _recorded(told, pure, meter).dollars,
        simulated_dollars=_simulated(pure, meter).dollars,
        corrected_dollars=_simulated(corrected, meter).dollars,
        billed=billed > 0,
        misses=len(meter.misses),
        unrecorded_shrinks=sum(call.prunings for call in pure),
    )


def _played(stage: Stage, meter: Meter, told: Sequence[Call]) -> tuple[CallOutcome, ...]:
    series = simulate(AS_RECORDED, RecordedPlayer(stage), stage, meter).series
    return tuple(series[call.number] for call in told)


def _recorded(told: Sequence[Call], calls: Sequence[CallOutcome], meter: Meter) -> Spend:
    """The recorded usage at list prices, with the output that the simulation takes too: records often cut it short."""
    spend = Spend()
    for call, outcome in zip(told, calls, strict=True):
        spend += meter.tariff.bill(_prompt(call), _read(call), outcome.output_tokens)
    return spend


def _simulated(calls: Sequence[CallOutcome], meter: Meter) -> Spend:
    spend = Spend()
    for call in calls:
        spend += meter.tariff.bill(call.prompt_tokens, call.read_tokens, call.output_tokens)
    return spend


def _prompt(call: Call) -> int:
    return 0 if call.usage is None else call.usage.prompt


def _read(call: Call) -> int:
    return 0 if call.usage is None else call.usage.cache_read


def _hit_ratio(calls: Sequence[CallOutcome]) -> float:
    prompts = sum(call.prompt_tokens for call in calls)
    return sum(call.read_tokens for call in calls) / prompts if prompts else 0.0
