"""The recorded run against its simulation."""

import pytest
from msgspec.structs import replace

from infold.core.messages import AssistantMessage, Usage
from infold.replay.calls import find_calls
from infold.replay.policies import ReplaySetup
from infold.replay.run import calibrate
from infold.replay.scale import MessageCounter, learn_overhead, learn_scale, unexplained_misses

from .recorded import ENTRY, RULER, billing, session, setup, with_usage, work


def learned(messages: object) -> ReplaySetup:
    """A setup whose scale and overhead come from the record."""
    assert isinstance(messages, tuple | list)
    recording = find_calls(session(messages))
    counter = MessageCounter(RULER, learn_scale(recording, RULER))
    return ReplaySetup(recording, counter, learn_overhead(recording, counter), ENTRY)


def test_recorded_run_is_reproduced() -> None:
    """A provider that counts by a factor and caches by the rules is met within one per cent."""
    found = calibrate(learned(with_usage(work(steps=20))), billing())

    assert found is not None
    assert abs(found.input_error) < 0.01
    assert found.simulated_hit_ratio == pytest.approx(found.recorded_hit_ratio, rel=0.01)
    assert abs(found.dollar_error) < 0.01
    assert (found.calls, found.misses, found.unrecorded_shrinks, found.billed) == (21, 0, 0, False)


def test_miss_is_told_and_corrected() -> None:
    """What time and content do not explain is an error of the plain simulation and none of the corrected one."""
    told = list(with_usage(work(steps=20)))
    reply = told[21]
    assert isinstance(reply, AssistantMessage)
    assert reply.usage is not None
    told[21] = replace(reply, usage=Usage(cache_read=0, cache_write=reply.usage.prompt))
    on = learned(told)
    found = calibrate(on, replace(billing(), misses=unexplained_misses(on.recording, 300)))

    assert found is not None
    assert found.misses == 1
    assert found.simulated_hit_ratio > found.recorded_hit_ratio + 0.02
    assert found.corrected_hit_ratio == pytest.approx(found.recorded_hit_ratio, abs=0.005)
    assert abs(found.corrected_dollar_error) < 0.01 < abs(found.dollar_error)


def test_what_was_billed_counts_before_list_prices() -> None:
    """Where the record holds its cost, that is what the simulation is held against."""
    told = [replace(m, cost=0.5) if isinstance(m, AssistantMessage) else m for m in with_usage(work(steps=5))]
    found = calibrate(learned(told), billing())

    assert found is not None
    assert found.billed
    assert found.recorded_dollars == pytest.approx(0.5 * 6)


def test_prompt_that_shrank_is_told() -> None:
    """A smaller prompt without a recorded compaction is followed, and counted."""
    whole, short = with_usage(work(steps=12)), with_usage(work(steps=12), overhead=500)
    found = calibrate(learned((*whole[:15], *short[15:])), billing())

    assert found is not None
    assert found.unrecorded_shrinks == 1
    assert abs(found.input_error) < 0.02


def test_record_without_usage_is_not_calibrated() -> None:
    """There is nothing to compare with."""
    assert calibrate(setup(work()), billing()) is None
