"""The ceiling on what the engine costs in JSON round trips."""

import pytest
from benchmarks.engine import CEILINGS, JsonProvider, Ratio, cpu_of_requests, excesses, steps_of
from tests.support.trajectory import trajectory

from infold import SessionSettings
from infold.stores.memory import MemoryStore

MEAN, LONGEST = CEILINGS["mean"], CEILINGS["longest"]


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (Ratio(MEAN, LONGEST), []),
        (Ratio(MEAN * 1.01, LONGEST), ["mean"]),
        (Ratio(MEAN, LONGEST * 1.01), ["longest"]),
        (Ratio(MEAN * 2, LONGEST * 2), ["mean", "longest"]),
    ],
)
def test_each_figure_has_its_ceiling(found: Ratio, names: list[str]) -> None:
    """What is above its ceiling is named, with the figure and the ceiling."""
    faults = excesses(found)

    assert len(faults) == len(names)
    assert all(f"the {name} of" in fault for name, fault in zip(names, faults, strict=True))


def test_every_request_goes_through_json() -> None:
    """Both sides of the ratio are of the same requests."""
    provider = JsonProvider()
    spent = cpu_of_requests(
        MemoryStore(), SessionSettings(window=60_000), steps_of("openai-chat", trajectory(steps=1)), provider
    )

    assert len(spent) == len(provider.round_trips) > 1
    assert min(provider.round_trips) > 0
