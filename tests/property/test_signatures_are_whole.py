"""Law: encrypted reasoning and thought signatures go back as they came, each with the items that its provider wants with it."""

from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.provider_rules import problems, signature_problems

from infold import Session, SessionSettings, open_store
from infold.formats.registry import GEMINI, OPENAI_RESPONSES

Item: TypeAlias = dict[str, Any]

WINDOW = 3_000
WORDS = "the harbour of Husum has four berths and a crane that is out of order "


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.integers(1, 30)),
    min_size=8,
    max_size=24,
)
"""Of each step: how many calls it makes (none ends the turn), whether it says something too, and how much its results bring."""


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_a_view_has_the_signatures_that_gemini_wants(steps: list[tuple[int, bool, int]]) -> None:
    """B32: after any fold or pruning the first call of each step of the turn under way has its own signature, as it came."""
    check_gemini(steps)


def check_gemini(steps: list[tuple[int, bool, int]]) -> bool:
    """Work through these steps; return whether infold changed a request."""
    session = Session(open_store("memory"), "s", SessionSettings(window=WINDOW, format="gemini"))
    items: list[Item] = [{"role": "user", "parts": [{"text": "Count the ships."}]}]
    signed: dict[str, str] = {}
    shrunk = False
    for number, (calls, speaks, size) in enumerate(steps):
        view = session.prepare(items).messages
        shrunk = shrunk or view != items
        assert problems(GEMINI, view) == ()
        assert signature_problems(view) == ()
        assert all(signed[name] == signature for name, signature in _signatures(view))
        reply = _gemini_reply(number, calls, speaks=speaks)
        signed.update(_signatures([reply]))
        session.record({"candidates": [{"content": reply, "finishReason": "STOP"}]})
        items += [reply, _gemini_results(number, calls, size)]
    return shrunk


def _gemini_reply(number: int, calls: int, *, speaks: bool) -> Item:
    text = [{"text": f"Step {number}.", **({} if calls else {"thoughtSignature": f"text-{number}"})}]
    made: list[Item] = [{"functionCall": {"name": f"f{number}_{n}", "args": {"file": WORDS * 3}}} for n in range(calls)]
    if made:
        made[0]["thoughtSignature"] = f"signed-{number}"
    return {"role": "model", "parts": [*(text if speaks or not calls else []), *made]}


def _gemini_results(number: int, calls: int, size: int) -> Item:
    if not calls:
        return {"role": "user", "parts": [{"text": f"Go on with part {number}."}]}
    brought = {"output": WORDS * size}
    parts = [{"functionResponse": {"name": f"f{number}_{n}", "response": brought}} for n in range(calls)]
    return {"role": "user", "parts": parts}


def _signatures(items: list[Item]) -> list[tuple[str, str]]:
    parts = [part for item in items for part in item["parts"] if "functionCall" in part]
    return [(part["functionCall"]["name"], part["thoughtSignature"]) for part in parts if "thoughtSignature" in part]


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_a_view_has_the_reasoning_that_openai_wants(steps: list[tuple[int, bool, int]]) -> None:
    """B32: after any fold or pruning encrypted reasoning is as it came, with all that it led to, and nothing lacks its own."""
    check_responses(steps)


def check_responses(steps: list[tuple[int, bool, int]]) -> bool:
    """The same with OpenAI's items."""
    session = Session(open_store("memory"), "s", SessionSettings(window=WINDOW, format="openai-responses"))
    items: list[Item] = [{"role": "user", "content": "Count the ships."}]
    outputs: list[list[Item]] = []
    shrunk = False
    for number, (calls, speaks, size) in enumerate(steps):
        view = session.prepare(items).messages
        shrunk = shrunk or view != items
        assert problems(OPENAI_RESPONSES, view) == ()
        for output in outputs:
            kept = [item for item in output if any(item.get("id") == shown.get("id") for shown in view)]
            assert kept in ([], output)
            assert not kept or output[0] in view
        output = _responses_output(number, calls, speaks=speaks)
        session.record({"output": output, "status": "completed"})
        outputs.append(output)
        items += [*output, *_responses_results(number, calls, size)]
    return shrunk


def test_the_laws_are_put_to_the_test() -> None:
    """Long steps are folded and pruned in both formats, in the middle of a turn and between turns."""
    for steps in ([(2, True, 20)] * 24, [(2, False, 9), (0, True, 9)] * 12, [(3, False, 30)] * 8):
        assert check_gemini(steps)
        assert check_responses(steps)


def _responses_output(number: int, calls: int, *, speaks: bool) -> list[Item]:
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"gAAA{number}"}
    text = {"type": "output_text", "text": f"Step {number}.", "annotations": []}
    said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
    made = [
        {"type": "function_call", "id": f"fc_{number}_{n}", "call_id": f"c{number}_{n}", "name": "f", "arguments": "{}"}
        for n in range(calls)
    ]
    return [thought, *([said] if speaks or not calls else []), *made]


def _responses_results(number: int, calls: int, size: int) -> list[Item]:
    if not calls:
        return [{"role": "user", "content": f"Go on with part {number}."}]
    return [{"type": "function_call_output", "call_id": f"c{number}_{n}", "output": WORDS * size} for n in range(calls)]
