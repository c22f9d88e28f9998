"""The provider's prompt cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.replay.prices import Block, CacheRules, Prompt, PromptCache, shared_blocks

RULES = CacheRules(minimum_tokens=100, lifetime_ms=1_000)


def prompt(*ids: int, tokens: int = 100) -> Prompt:
    """A request of blocks of equal size."""
    return Prompt.of([Block(each, tokens) for each in ids])


def test_longest_shared_beginning_is_served() -> None:
    """A request is served as far as it begins like one before, in whole blocks."""
    cache = PromptCache(RULES)

    assert cache.send(prompt(1, 2, 3), sent_ms=0) == 0
    assert cache.send(prompt(1, 2, 3, 4), sent_ms=1) == 300
    assert cache.send(prompt(1, 2, 9), sent_ms=2) == 200
    assert cache.send(prompt(1, 2, 3, 4, 5), sent_ms=3) == 400
    assert cache.send(prompt(9, 2, 3), sent_ms=4) == 0


def test_entry_lives_from_its_last_use() -> None:
    """Each use begins the lifetime anew; after it nothing is served."""
    cache = PromptCache(RULES)
    cache.send(prompt(1), sent_ms=0, answered_ms=500)

    assert cache.send(prompt(1, 2), sent_ms=1_400) == 100
    assert cache.send(prompt(1, 2), sent_ms=2_400) == 200
    assert cache.send(prompt(1, 2), sent_ms=3_401) == 0


def test_time_does_not_run_backwards() -> None:
    """A line out of order does not revive what has expired, and a missing time changes nothing."""
    cache = PromptCache(RULES)
    cache.send(prompt(1), sent_ms=0)
    cache.send(prompt(9), sent_ms=5_000)

    assert cache.send(prompt(1), sent_ms=500) == 0
    assert cache.send(prompt(9), sent_ms=None) == 100


def test_small_requests_are_not_cached() -> None:
    """Below the provider's minimum nothing is written and nothing is served."""
    cache = PromptCache(RULES)
    cache.send(prompt(1, tokens=60), sent_ms=0)

    assert cache.send(prompt(1, 2, tokens=60), sent_ms=1) == 0
    assert cache.send(prompt(1, 3, tokens=60), sent_ms=2) == 0
    assert cache.send(prompt(1, 3, 4, tokens=60), sent_ms=3) == 120


def test_nothing_is_served_without_a_cache_or_after_it_forgot() -> None:
    """A provider without a cache serves nothing; one that forgot serves what it kept."""
    off, on = PromptCache(CacheRules(enabled=False)), PromptCache(RULES)
    for cache in (off, on):
        cache.send(prompt(1, 2, 3), sent_ms=0)
    on.forget(beyond_tokens=150)

    assert off.send(prompt(1, 2, 3), sent_ms=1) == 0
    assert on.send(prompt(1, 2, 3), sent_ms=1) == 100


@pytest.mark.parametrize(("one", "other", "shared"), [((), (1,), 0), ((1, 2), (1, 2, 3), 2), ((1, 2, 4), (1, 2, 3), 2)])
def test_shared_blocks_are_counted_from_the_beginning(
    one: tuple[int, ...], other: tuple[int, ...], shared: int
) -> None:
    """Blocks after the first difference do not count."""
    assert shared_blocks(one, other) == shared


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_shared_blocks_are_those_that_agree(one: list[int], other: list[int]) -> None:
    """The count is that of a walk from the beginning."""
    walked = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

    assert shared_blocks(tuple(one), tuple(other)) == walked


def test_empty_blocks_do_not_count() -> None:
    """A block without tokens is no part of a request."""
    assert Prompt.of([Block(1, 0), Block(2, 5)]) == Prompt((2,), (5,))
    assert Prompt.of([]).tokens == 0
