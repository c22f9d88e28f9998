"""What each provider would refuse in a list of messages, as sentences.

These are the rules of pairing and order that a request breaks with an HTTP 400. Types and fields are left to the SDKs.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

from infold.formats.codec import Item, as_dict, id_field, text_field
from infold.formats.registry import WireFormat
from infold.testing.anthropic_rules import PairingStep, anthropic_problems, repeated, unpaired
from infold.testing.converse_rules import converse_problems


def problems(wire: WireFormat, items: Sequence[object]) -> tuple[str, ...]:
    """Return what the provider would refuse in these items; empty if they may be sent."""
    return _PROBLEMS[wire.name](items)


def _blocks(value: object) -> list[Item]:
    """Return content as blocks; text is one block of text."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    blocks = value if isinstance(value, list | tuple) else ()
    return [{"type": "text", "text": block} if isinstance(block, str) else as_dict(block) for block in blocks]


# OpenAI Chat Completions.


def chat_problems(items: Sequence[object]) -> tuple[str, ...]:
    """Return what Chat Completions would refuse."""
    plains = [as_dict(item) for item in items]
    steps = [_chat_step(list(run)) for _, run in groupby(enumerate(plains), key=_chat_group)]
    empties = (f"item {place}: it is empty" for place, item in enumerate(plains) if _is_chat_empty(item))
    repeats = (text for step in steps for text in repeated(step.calls, f"item {step.place}: call id"))
    return (*_none_at_all(plains), *empties, *unpaired(steps), *repeats)


def _none_at_all(items: Sequence[object]) -> tuple[str, ...]:
    return () if items else ("there is no message",)


def _chat_group(one: tuple[int, Item]) -> int:
    """Group neighbouring results as one step; anything else is a step of its own."""
    place, item = one
    return -1 if item.get("role") in ("tool", "function") else place


def _chat_step(run: list[tuple[int, Item]]) -> PairingStep:
    place, first = run[0]
    if first.get("role") in ("tool", "function"):
        return PairingStep(place, results=tuple(id_field(item, "tool_call_id", "name") for _, item in run))
    calls = [as_dict(call) for call in first.get("tool_calls") or ()]
    legacy = [as_dict(first["function_call"])] if first.get("function_call") else []
    return PairingStep(place, tuple(id_field(call, "id", "name") for call in [*calls, *legacy]))


def _is_chat_empty(item: Item) -> bool:
    if item.get("role") == "assistant":
        return not any(item.get(field) for field in ("content", "refusal", "tool_calls", "function_call", "audio"))
    return item.get("content") is None or item["content"] == []


# OpenAI Responses.


def responses_problems(items: Sequence[object]) -> tuple[str, ...]:
    """Return what Responses would refuse; results may stand anywhere after their call."""
    plains = [as_dict(item) for item in items]
    item_ids = (text_field(item, "id") for item in plains if _kind(item) != "item_reference")
    outputs = [_answered(item) for item in plains if _is_output(item)]
    return (
        *_none_at_all(plains),
        *_responses_unpaired(plains),
        *repeated(outputs, "the output of call"),
        *repeated(filter(None, item_ids), "item id"),
        *_lonely_reasoning(plains),
    )


def _kind(item: Item) -> str:
    return text_field(item, "type") or "message"


def _is_output(item: Item) -> bool:
    return _kind(item).endswith("_output") and bool(_answered(item))


def _is_call(item: Item) -> bool:
    """Return whether the caller has to answer it; calls the provider ran itself carry no call id."""
    return _kind(item).endswith(("_call", "program")) and bool(id_field(item, "call_id"))


def _answered(item: Item) -> str:
    return id_field(item, "call_id", "id")


def _responses_unpaired(items: Sequence[Item]) -> Iterator[str]:
    waiting: dict[str, int] = {}
    has_references = any(_kind(item) == "item_reference" for item in items)
    for place, item in enumerate(items):
        if _is_call(item):
            waiting[id_field(item, "call_id")] = place
        elif _is_output(item) and waiting.pop(_answered(item), None) is None and not has_references:
            yield f"item {place}: result {_answered(item)!r} does not follow its call"
    yield from (f"item {place}: call {call!r} has no result after it" for call, place in waiting.items())


def _lonely_reasoning(items: Sequence[Item]) -> Iterator[str]:
    """Yield reasoning that is not followed by the item it led to."""
    for place, (item, following) in enumerate(pairwise([*items, {"role": "user"}])):
        is_models = following.get("role") == "assistant" or not (following.get("role") or _is_output(following))
        if _kind(item) == "reasoning" and not is_models:
            yield f"item {place}: reasoning is not followed by what it led to"


# Gemini.


def gemini_problems(items: Sequence[object]) -> tuple[str, ...]:
    """Return what generateContent would refuse; responses are counted by name, in the item after the calls."""
    plains = [as_dict(item) for item in items]
    first_role = plains[0].get("role") if plains else "user"
    return (
        *_none_at_all(plains),
        *(["the first item is not the user's"] if first_role == "model" else []),
        *(f"item {place}: it has no parts" for place, item in enumerate(plains) if not item.get("parts")),
        *unpaired(_gemini_step(place, item) for place, item in enumerate(plains)),
    )


def signature_problems(items: Sequence[object]) -> tuple[str, ...]:
    """Return what Gemini 3 would refuse: in the turn under way, a step whose first call has no signature."""
    plains = [as_dict(item) for item in items]
    asked = [
        place for place, item in enumerate(plains) if item.get("role") != "model" and not _gemini_step(0, item).results
    ]
    begin = asked[-1] if asked else 0
    return tuple(
        f"item {place}: function call {_called(parts[0])!r} is missing a thought_signature"
        for place, item in enumerate(plains[begin:], begin)
        if (parts := [part for part in _blocks(item.get("parts")) if _called(part)])
        and not (parts[0].get("thoughtSignature") or parts[0].get("thought_signature"))
    )


def _called(part: Item) -> str:
    call = part.get("functionCall") or part.get("function_call")
    return text_field(as_dict(call), "name") if call else ""


def _gemini_step(place: int, item: Item) -> PairingStep:
    parts = _blocks(item.get("parts"))
    calls = [part.get("functionCall") or part.get("function_call") for part in parts]
    answers = [part.get("functionResponse") or part.get("function_response") for part in parts]
    return PairingStep(
        place,
        tuple(text_field(as_dict(call), "name") for call in calls if call),
        tuple(text_field(as_dict(answer), "name") for answer in answers if answer),
    )


_PROBLEMS: dict[str, Callable[[Sequence[object]], tuple[str, ...]]] = {
    "openai-chat": chat_problems,
    "openai-responses": responses_problems,
    "anthropic-messages": anthropic_problems,
    "gemini": gemini_problems,
    "bedrock-converse": converse_problems,
}
