"""What a plugin is told before a fold, and what it may decide."""

from typing import assert_never

import pytest

from infold.core.messages import SessionId
from infold.ports import CompactionContext, Decision, KeepFrom, Supply, Veto
from infold.testing.builders import numbered, replies, user

HEAD = numbered((user("Port the parser."), replies()))


def test_an_occasion_says_enough_to_decide_by() -> None:
    """S3.5: which session, why, what would be folded and how full the window is; nothing presses unless it is said."""
    occasion = CompactionContext(SessionId("s"), "trigger", HEAD, 2, tokens_before=9_000, usable_tokens=10_000)

    assert (occasion.head, occasion.first_kept) == (HEAD, 2)
    assert occasion.tokens_before < occasion.usable_tokens
    assert (occasion.is_urgent, occasion.focus) == (False, "")


def told(decision: Decision) -> str:
    """A decision in words; a kind that is not known here fails the type check."""
    match decision:
        case Veto():
            return f"not now: {decision.why}"
        case Supply():
            return f"use {decision.summary}"
        case KeepFrom():
            return f"keep from {decision.sequence}"
        case _:
            assert_never(decision)


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Veto("a deploy runs"), "not now: a deploy runs"),
        (Supply("my notes"), "use my notes"),
        (KeepFrom(7), "keep from 7"),
    ],
)
def test_there_are_three_decisions(decision: Decision, words: str) -> None:
    """S3.5: a plugin vetoes, brings a summary or moves the cut, and each is told apart by its type."""
    assert told(decision) == words
