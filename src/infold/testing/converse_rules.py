"""What Bedrock's Converse refuses, and a script that refuses it: order and pairs of messages, and reasoning that is bound.

Reasoning is signed over all that stands before it, as Claude's newest models do, if the rules are to bind it. Types and fields
are left to the SDK.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from infold.formats.codec import Item, as_dict, dict_or_empty, dicts_in, id_field, json_text
from infold.formats.registry import CONVERSE
from infold.testing.anthropic_rules import PairingStep, repeated, unpaired
from infold.testing.script import Fail, Say, Script, ScriptedAnswer, ScriptedRequest

MOST_CACHE_POINTS = 4
"""Cache points of a request, those of its tools and system prompt included."""

BOUND = "Invalid `signature` in `thinking` block. The block is bound to a different conversation"


class ConverseRules:
    """A script that refuses what Converse refuses and leaves all else to another; `binds`: reasoning is bound to its prefix."""

    def __init__(self, answer: Script, *, binds: bool = False) -> None:
        self.refusals: list[str] = []
        self._answer = answer
        self._binds = binds

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """Answer a request; one of another format is refused too."""
        messages = dicts_in(request.body.get("messages"))
        problems = converse_problems(messages) if request.format == CONVERSE.name else ("this is not Converse",)
        problem = next(iter((*problems, *_request_problems(request.body), *self._unbound(request.body))), "")
        if problem:
            self.refusals.append(problem)
            return Fail(400, {"__type": "ValidationException", "message": problem})
        answer = self._answer(request)
        if self._binds and isinstance(answer, Say):
            answer = replace(answer, signature=_signature(request.body, messages))
        return answer

    def _unbound(self, body: Item) -> Iterator[str]:
        """Yield reasoning whose signature is not the one of what stands before it."""
        messages = dicts_in(body.get("messages"))
        for place, message in enumerate(messages if self._binds else ()):
            for block in _blocks(message):
                thought = dict_or_empty(dict_or_empty(block.get("reasoningContent")).get("reasoningText"))
                if thought and thought.get("signature") != _signature(body, messages[:place]):
                    yield f"messages.{place}: {BOUND}"


def converse_problems(items: Sequence[object]) -> tuple[str, ...]:
    """Return what Converse would refuse in these messages; empty if they may be sent."""
    plains = [as_dict(item) for item in items]
    roles = [item.get("role") for item in plains]
    steps = [_step(place, item) for place, item in enumerate(plains) if item.get("role") != "system"]
    return (
        *(() if plains else ("there is no message",)),
        *(["the conversation does not start with a user message"] if roles[:1] == ["assistant"] else []),
        *(
            f"item {place}: roles do not alternate"
            for place, (one, other) in enumerate(pairwise(roles), 1)
            if one == other
        ),
        *(problem for place, item in enumerate(plains) for problem in _blanks(place, item)),
        *unpaired(steps),
        *repeated((call for step in steps for call in step.calls), "toolUseId"),
    )


def _request_problems(body: Item) -> Iterator[str]:
    """Yield what is wrong with all of a request: too many cache points, calls without tools."""
    config = dict_or_empty(body.get("toolConfig"))
    blocks = [block for message in dicts_in(body.get("messages")) for block in _blocks(message)]
    points = [
        block for block in (*blocks, *dicts_in(body.get("system")), *dicts_in(config.get("tools"))) if _is_point(block)
    ]
    if len(points) > MOST_CACHE_POINTS:
        yield f"{len(points)} cache points; at most {MOST_CACHE_POINTS} are allowed"
    if not config and any("toolUse" in block or "toolResult" in block for block in blocks):
        yield "The toolConfig field must be defined when using toolUse and toolResult content blocks."


def _step(place: int, item: Item) -> PairingStep:
    blocks = _blocks(item)
    calls = (id_field(dict_or_empty(block.get("toolUse")), "toolUseId") for block in blocks)
    results = (id_field(dict_or_empty(block.get("toolResult")), "toolUseId") for block in blocks)
    return PairingStep(place, tuple(filter(None, calls)), tuple(filter(None, results)))


def _blanks(place: int, item: Item) -> Iterator[str]:
    blocks = _blocks(item)
    if all(map(_is_point, blocks)):
        yield f"item {place}: it is empty"
    elif _is_point(blocks[0]):
        yield f"item {place}: a cache point comes first"
    if any(isinstance(block.get("text"), str) and not block["text"].strip() for block in blocks):
        yield f"item {place}: a text is blank"


def _blocks(message: Item) -> list[Item]:
    """Return the blocks of a message, without those of tools that the provider runs; a plain text is refused by its type."""
    blocks = dicts_in(message.get("content"))
    return [
        block
        for block in blocks
        if not any("type" in dict_or_empty(block.get(name)) for name in ("toolUse", "toolResult"))
    ]


def _is_point(block: Item) -> bool:
    return "cachePoint" in block


def _signature(body: Item, messages: Sequence[Item]) -> str:
    head = [body.get("system"), dict_or_empty(body.get("toolConfig")).get("tools")]
    said = [
        [message.get("role"), [block for block in _blocks(message) if not _is_point(block)]] for message in messages
    ]
    return hashlib.blake2b(json_text([head, said]).encode(), digest_size=12).hexdigest()
