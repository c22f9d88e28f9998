"""Calls replayed and billed."""

import pytest
from msgspec.structs import replace

from infold.replay.outcome import PolicyOutcome
from infold.replay.policies import ReplaySetup, make_runner
from infold.replay.prices import CacheRules
from infold.replay.simulate import SUMMARY_TOKENS, Billing, simulate
from infold.testing.builders import numbered, replies, user

from .recorded import OPENING, billing, setup, timed, words, work


def outcome(name: str, on: ReplaySetup, by: Billing) -> PolicyOutcome:
    """A policy over a session."""
    return simulate(name, make_runner(name, on, by.window_tokens), on, by)


def test_growing_history_is_read_from_the_cache() -> None:
    """Nothing breaks, each request is served as far as the one before went, and the bill is the sum of its parts."""
    on = setup(work(), overhead=2_000)
    found = outcome("none", on, billing(200_000))
    prompts = [call.prompt_tokens for call in found.series]

    assert [call.read_tokens for call in found.series] == [0, *prompts[:-1]]
    assert (found.prefix_breaks, found.overruns, found.broken_pairs, found.without_opening) == (0, 0, 0, 0)
    assert found.spend.read == pytest.approx(sum(prompts[:-1]) * 0.1e-6)
    assert found.spend.fresh == pytest.approx(prompts[-1] * 1.25e-6)
    assert found.uncached_dollars == pytest.approx((sum(prompts) + 10 * found.output_tokens) * 1e-6)
    assert (found.peak_tokens, found.mean_tokens) == (prompts[-1], round(sum(prompts) / len(prompts)))


def test_pause_beyond_the_lifetime_costs_the_whole_prompt() -> None:
    """After the entry's lifetime everything is fresh again."""
    messages = work(steps=6)
    late = [replace(message, created_ms=(message.created_ms or 0) + 400_000) for message in messages[8:]]
    found = outcome("none", setup([*messages[:8], *late]), billing(200_000))

    cold = [number for number, call in enumerate(found.series) if call.prompt_tokens > 1_100 and not call.read_tokens]

    assert cold == [2, 4]


def test_known_miss_takes_the_cache_away() -> None:
    """A miss of the recorded run meets every policy at the same call."""
    by = replace(billing(200_000), misses={5: 0})
    found = outcome("none", setup(work()), by)

    assert found.series[5].read_tokens == 0
    assert found.series[6].read_tokens == found.series[5].prompt_tokens


def test_warm_beginning_is_served_at_the_first_call() -> None:
    """What another session had sent shortly before is read, not written."""
    on = setup(work(), overhead=2_000)
    warm = replace(on, overhead=replace(on.overhead, warm=True))

    assert outcome("none", warm, billing()).series[0].read_tokens == 2_000


def test_summary_is_a_call_that_reads_everything() -> None:
    """Each summary is charged its prompt, from the cache where it can be, and a text of usual size."""
    turns = [part for turn in range(30) for part in (user(f"turn {turn}"), replies(words(700, f"t{turn}w")))]
    found = outcome("opencode-1.1.57", setup(timed(numbered([user(OPENING), *turns]))), billing())

    assert found.summary_calls == found.compactions > 0
    assert found.spend.summary > found.summary_calls * SUMMARY_TOKENS * 10e-6
    assert found.input_tokens > found.prompt_tokens
    assert found.dollars == pytest.approx(
        found.spend.read + found.spend.fresh + found.spend.output + found.spend.summary
    )


def test_faults_are_counted_from_outside() -> None:
    """Calls over the window, breaks of the prefix and lost openings are seen in the requests themselves."""
    on = setup(work(steps=20))

    assert outcome("none", on, billing()).overruns > 5
    newest = outcome("last-n", on, billing())
    assert newest.prefix_breaks > 5
    assert newest.without_opening > 5
    assert newest.overruns == 0


def test_words_not_said_yet_are_not_lost() -> None:
    """Calls before the user's first words are no fault, and neither is a session nobody opened."""
    late = numbered([user("wake up", synthetic=True), replies("ready"), user(OPENING), replies("done")])
    nobody = numbered([user("wake up", synthetic=True), replies("ready")])

    assert outcome("none", setup(late), billing()).without_opening == 0
    assert outcome("none", setup(nobody), billing()).without_opening == 0


def test_infold_has_no_fault() -> None:
    """The deterministic fold keeps the window, the pairs and the opening, and its breaks are its own compactions."""
    found = outcome("infold", setup(work(steps=40), overhead=1_000), billing())

    assert (found.overruns, found.broken_pairs, found.without_opening, found.summary_calls) == (0, 0, 0, 0)
    assert 0 < found.prefix_breaks <= found.compactions + found.prunings


def test_what_was_lost_is_charged_as_a_fetch() -> None:
    """Tokens that somebody says were lost cost a call and themselves, and stand apart from the rest of the bill."""
    on = setup(work())
    free = outcome("none", on, billing())
    lossy = outcome("none", on, replace(billing(), refetch=lambda call, _: 500 if call.number == 3 else 0))

    assert lossy.refetch_tokens == 500
    assert lossy.dollars == free.dollars
    assert lossy.dollars_with_refetch > free.dollars + 500 * 1.25e-6


def test_without_a_cache_everything_is_input() -> None:
    """With caching off the bill is the uncached one."""
    by = replace(billing(), rules=CacheRules(enabled=False))
    found = outcome("infold", setup(work(steps=20)), by)

    assert found.read_tokens == 0
    assert found.dollars == pytest.approx(found.uncached_dollars)
