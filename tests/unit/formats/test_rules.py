"""What providers refuse."""

from typing import Any

import pytest
from tests.support.provider_rules import chat_problems, gemini_problems, responses_problems, signature_problems

from infold.testing.anthropic_rules import anthropic_problems

USER = {"role": "user", "content": "hi"}


def called(*ids: str) -> dict[str, Any]:
    """A chat reply that calls."""
    return {
        "role": "assistant",
        "tool_calls": [{"id": one, "function": {"name": "f", "arguments": "{}"}} for one in ids],
    }


def result(call_id: str) -> dict[str, Any]:
    """A chat result."""
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([], "there is no message"),
        ([USER, called("a")], "item 1: call 'a' has no result right after it"),
        ([called("a", "b"), result("a")], "item 0: call 'b' has no result right after it"),
        ([called("a"), USER, result("a")], "item 0: call 'a' has no result right after it"),
        ([USER, result("a")], "item 1: result 'a' does not follow its call"),
        ([called("a"), result("a"), result("a")], "item 1: result 'a' does not follow its call"),
        ([called("a", "a"), result("a"), result("a")], "item 0: call id 'a' is used 2 times"),
        ([{"role": "assistant", "content": ""}], "item 0: it is empty"),
        ([{"role": "user", "content": None}], "item 0: it is empty"),
    ],
)
def test_chat_refuses(items: list[Any], problem: str) -> None:
    """Chat wants each call answered at once, each result asked for, and no empty message."""
    assert problem in chat_problems(items)


def test_chat_accepts() -> None:
    """Parallel results in any order, legacy functions and a final reply are fine."""
    legacy = [{"role": "assistant", "function_call": {"name": "f"}}, {"role": "function", "name": "f", "content": "x"}]
    assert (
        chat_problems(
            [USER, called("a", "b"), result("b"), result("a"), *legacy, {"role": "assistant", "content": "x"}]
        )
        == ()
    )


CALL = {"type": "function_call", "call_id": "a"}
OUTPUT = {"type": "function_call_output", "call_id": "a"}
THOUGHT = {"type": "reasoning", "id": "rs"}


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([], "there is no message"),
        ([CALL], "item 0: call 'a' has no result after it"),
        ([OUTPUT], "item 0: result 'a' does not follow its call"),
        ([CALL, OUTPUT, OUTPUT], "the output of call 'a' is used 2 times"),
        ([THOUGHT, USER], "item 0: reasoning is not followed by what it led to"),
        ([USER, THOUGHT], "item 1: reasoning is not followed by what it led to"),
        ([{"role": "user", "id": "x"}, {"role": "user", "id": "x"}], "item id 'x' is used 2 times"),
    ],
)
def test_responses_refuses(items: list[Any], problem: str) -> None:
    """Responses wants calls answered somewhere after them, and reasoning followed by what it led to."""
    assert problem in responses_problems(items)


def test_responses_accepts() -> None:
    """Results may come late; calls the provider ran need none; referenced items are unknown."""
    search = [{"type": "tool_search_call", "call_id": "s"}, {"type": "tool_search_output", "call_id": "s"}]
    assert responses_problems([USER, THOUGHT, CALL, {"type": "web_search_call"}, USER, OUTPUT, *search]) == ()
    assert responses_problems([{"type": "item_reference", "id": "x"}, OUTPUT]) == ()
    assert responses_problems([THOUGHT, {"role": "assistant", "content": "x"}]) == ()


def used(*ids: str, before: tuple[Any, ...] = ()) -> dict[str, Any]:
    """An Anthropic reply that uses tools."""
    return {"role": "assistant", "content": [*before, *({"type": "tool_use", "id": one} for one in ids)]}


def brought(*ids: str, before: tuple[Any, ...] = ()) -> dict[str, Any]:
    """A user item with results."""
    return {"role": "user", "content": [*before, *({"type": "tool_result", "tool_use_id": one} for one in ids)]}


TEXT = {"type": "text", "text": "x"}
THINKING = {"type": "thinking", "thinking": "x"}


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([], "there is no message"),
        ([{"role": "assistant", "content": "x"}], "the first message is not the user's"),
        ([USER, used("a")], "item 1: call 'a' has no result right after it"),
        ([USER, brought("a")], "item 0: result 'a' does not follow its call"),
        ([USER, used("a"), brought("a", before=(TEXT,))], "item 2: something stands before a tool_result"),
        ([USER, used("a"), brought("a"), used("a"), brought("a")], "tool_use id 'a' is used 2 times"),
        ([{"role": "user", "content": []}], "item 0: it is empty"),
        ([{"role": "user", "content": " "}], "item 0: a text is blank"),
        ([USER, {"role": "assistant", "content": [TEXT, THINKING, TEXT]}], "item 1: thinking does not come first"),
        ([USER, {"role": "assistant", "content": [THINKING]}], "item 1: thinking comes last"),
    ],
)
def test_anthropic_refuses(items: list[Any], problem: str) -> None:
    """Messages wants results first in the next user turn, thinking first in a reply, and no blank text."""
    assert problem in anthropic_problems(items)


def test_anthropic_accepts() -> None:
    """Neighbours of one role are one turn, so results may stand in several items."""
    thought = {"role": "assistant", "content": [THINKING]}
    items = [USER, USER, thought, used("a", "b", before=("bare",)), brought("a"), brought("b"), USER]
    assert anthropic_problems(items) == ()


def spoke(role: str, **kinds: str) -> dict[str, Any]:
    """A Gemini item with one part."""
    return {"role": role, "parts": [{kind: {"name": name}} for kind, name in kinds.items()]}


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([], "there is no message"),
        ([spoke("model", text="x")], "the first item is not the user's"),
        ([{"role": "user", "parts": []}], "item 0: it has no parts"),
        ([spoke("user", functionResponse="f")], "item 0: result 'f' does not follow its call"),
        ([spoke("model", functionCall="f")], "item 0: call 'f' has no result right after it"),
        (
            [spoke("model", functionCall="f"), spoke("user", function_response="g")],
            "item 0: call 'f' has no result right after it",
        ),
    ],
)
def test_gemini_refuses(items: list[Any], problem: str) -> None:
    """Gemini wants as many responses as calls, of the same names, in the very next item."""
    assert problem in gemini_problems(items)


def test_gemini_accepts() -> None:
    """Both spellings pair, and neighbouring users are fine."""
    items = [
        spoke("user", text="x"),
        spoke("user", text="y"),
        spoke("model", function_call="f"),
        spoke("user", functionResponse="f"),
    ]
    assert gemini_problems(items) == ()


def test_gemini_wants_signatures_in_the_turn_under_way() -> None:
    """Of each step of the turn under way the first call has one; of parallel calls and earlier turns none is wanted."""
    bare, signed = ({"functionCall": {"name": "f"}, **more} for more in ({}, {"thoughtSignature": "s"}))
    asked, answered = (
        {"role": "user", "parts": [part]} for part in ({"text": "x"}, {"functionResponse": {"name": "f"}})
    )
    step, parallel, unsigned = (
        {"role": "model", "parts": parts} for parts in ([signed], [signed, bare], [bare, signed])
    )
    missing = "item 3: function call 'f' is missing a thought_signature"

    assert signature_problems([asked, step, answered, parallel, answered]) == ()
    assert signature_problems([asked, unsigned, answered, asked, step]) == ()
    assert signature_problems([asked, step, answered, unsigned]) == (missing,)
    assert signature_problems([step]) == ()
