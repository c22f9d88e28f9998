"""The steps that a text takes grow with its size and not faster, whatever it says; `make timing` measures seconds."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import pytest
from benchmarks.text_kinds import KINDS

from infold import fit, prune
from infold.core.checkpoint_text import TextRoom, render_checkpoint
from infold.core.events import Compacted
from infold.core.extract import extract
from infold.core.judge import Answer, judge
from infold.core.ledger import EMPTY_LEDGER, merge
from infold.core.messages import Message
from infold.formats.registry import OPENAI_CHAT

SIZES = (20_000, 40_000)
FITTED_SIZES, WINDOW = (32_000, 64_000), 4_096
MOST_GROWTH = 2.5
SUMMARY = (
    "The user wants all of it read. Nothing was changed so far, and the tests were not run.\n- Next: go on reading."
)


def fold(messages: Sequence[Message]) -> None:
    """Everything that reads a text while it is folded once: the ledger, its text, and the judge of a summary."""
    ledger = merge(EMPTY_LEDGER, extract(enumerate(messages)))
    again = merge(ledger, extract([], before=ledger))
    render_checkpoint(again, TextRoom(2_000, 1_200), rule="features", recall=True)
    judge(Answer(SUMMARY, "stop"), messages, replaced_tokens=9_000, answer_tokens=90)


def steps(work: Callable[[], object]) -> int:
    """How many functions are called, in Python or not: the same number in each run."""
    count = 0

    def see(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_steps_grow_with_the_text(kind: str) -> None:
    """B56: twice the text takes at most two and a half times the steps."""
    texts = [OPENAI_CHAT.decode(KINDS[kind](size, run)).messages for run, size in enumerate(SIZES)]
    first, second = (steps(partial(fold, messages)) for messages in texts)

    assert second <= MOST_GROWTH * first


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_a_fold_do_not_grow_with_what_was_folded_before(kind: str) -> None:
    """B56: a text in a small window takes steps in proportion to its size or, where it is folded again and again, its folds."""
    texts = [KINDS[kind](size, run) for run, size in enumerate(FITTED_SIZES, len(SIZES))]
    folds: list[int] = []

    def fit_it(messages: list[dict[str, Any]]) -> None:
        events = fit(messages, window=WINDOW, exact=False).report.events
        folds.append(sum(isinstance(event, Compacted) for event in events))

    first, second = (steps(partial(fit_it, text)) for text in texts)

    assert min(folds) > 0
    assert second <= MOST_GROWTH / 2 * first * max(2, folds[1] / folds[0])


def test_steps_of_prune_grow_with_the_turns() -> None:
    """S2.1: the stateless call reads each message once, however many turns there are."""
    few, many = (steps(partial(prune, turns(count), window=32_000)) for count in (30, 60))

    assert many <= MOST_GROWTH * few


def turns(count: int) -> list[dict[str, Any]]:
    """A chat in which each turn runs one command."""
    return [
        message
        for number in range(count)
        for message in (
            {"role": "user", "content": f"Look at file {number}."},
            {"role": "assistant", "content": None, "tool_calls": [call(number)]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "a line of the file\n" * 200},
        )
    ]


def call(number: int) -> dict[str, Any]:
    """A call that reads a file."""
    return {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "bash", "arguments": f'{{"command": "cat {number}"}}'},
    }
