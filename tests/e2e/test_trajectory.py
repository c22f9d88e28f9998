"""`fit` before every request of a long coding run: 150 steps, some 223,000 tokens, a window of 60,000.

A second counter judges: an o200k tokeniser over what the request holds, not infold's own figures.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from msgspec import Struct
from tests.support.provider_rules import problems
from tests.support.trajectory import TRAJECTORY_RULE, trajectory

from infold import fit
from infold.formats.registry import OPENAI_CHAT

pytestmark = pytest.mark.slow

WINDOW = 60_000
FRAME_TOKENS = 4
"""What a message costs beside its text."""
MOST_BREAKS = 6
MOST_READ_AGAIN = 0.015
"""Of all tokens that are sent: what stands behind the beginning that a request shares with the one before, where that breaks."""


class Run(Struct, frozen=True):
    """Every request of the run, and each one's size by the tokeniser."""

    requests: tuple[list[Any], ...]
    sizes: tuple[int, ...]


@pytest.fixture(scope="module")
def run() -> Run:
    """`fit` over each beginning of the trajectory that a request was made with."""
    pytest.importorskip("splintr", reason="the `tokens` extra is not installed")
    messages, count = trajectory(), counter()
    points = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    requests = tuple(fit(messages[:point], window=WINDOW).messages for point in (*points, len(messages)))
    return Run(requests, tuple(sum(map(count, request)) for request in requests))


def counter() -> Callable[[Any], int]:
    """Tokens of a chat message: content, names and arguments, and its frame."""
    tokeniser = import_module("splintr").Tokenizer.from_pretrained("o200k_base")
    tokens = cache(lambda text: len(tokeniser.encode(text)))

    def count(message: Any) -> int:
        functions = [call["function"] for call in message.get("tool_calls", ())]
        said = [message["content"] or "", *(function[key] for function in functions for key in ("name", "arguments"))]
        return FRAME_TOKENS + sum(map(tokens, said))

    return count


def breaks(requests: tuple[list[Any], ...]) -> int:
    """How many requests do not begin with the whole of the one before."""
    return sum(later[: len(earlier)] != earlier for earlier, later in pairwise(requests))


def read_again(requests: tuple[list[Any], ...]) -> int:
    """How many tokens stand behind what a request shares with the one before, where it does not begin with the whole of that."""
    count, again = counter(), 0
    for earlier, later in pairwise(requests):
        shared = next((n for n, (one, other) in enumerate(zip(earlier, later, strict=False)) if one != other), None)
        again += 0 if shared is None else sum(map(count, later[shared:]))
    return again


def test_the_trajectory_is_as_long_as_it_should_be() -> None:
    """The run is far larger than the window, so that there is something to do."""
    pytest.importorskip("splintr", reason="the `tokens` extra is not installed")
    messages = trajectory()
    tokens = sum(map(counter(), messages))
    print(f"\n{len(messages)} messages, {tokens:,} o200k tokens, window {WINDOW:,}")

    assert 215_000 < tokens < 230_000


def test_no_request_is_over_the_window(run: Run) -> None:
    """B8: by an exact count none of the requests is larger than the window."""
    over = [size for size in run.sizes if size > WINDOW]
    print(f"\n{len(run.sizes)} requests, {len(over)} over the window, largest {max(run.sizes):,} tokens")

    assert over == []


def test_no_request_has_a_broken_pair(run: Run) -> None:
    """B12: every call has its result and every result its call, in every request."""
    broken = [problem for request in run.requests for problem in problems(OPENAI_CHAT, request)]
    print(f"\n{len(broken)} broken pairs or other refusals")

    assert broken == []


def test_the_rule_is_in_every_request(run: Run) -> None:
    """B2: what the opening message laid down is sent word for word, to the end."""
    without = [request for request in run.requests if not any(TRAJECTORY_RULE in str(m["content"]) for m in request)]
    print(f"\n{len(run.requests) - len(without)} of {len(run.requests)} requests hold the rule")

    assert without == []


def test_the_prefix_breaks_seldom(run: Run) -> None:
    """B16, B29: the provider's cache is broken at most six times in the whole run, and little has to be read again for it."""
    broken, again = breaks(run.requests), read_again(run.requests)
    print(f"\n{broken} prefix breaks in {len(run.requests)} requests, {again:,} tokens behind them")

    assert 0 < broken <= MOST_BREAKS
    assert again <= MOST_READ_AGAIN * sum(run.sizes)
