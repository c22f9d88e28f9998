"""What the demo plays: a window, the session that goes through it, and each message as Anthropic's interface has it.

The session is scripted (`infold.cli.demo_session`); a window too small for it gets the same session with shorter results, as
an agent that knows its window would have had it.
"""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from infold.cli.demo_session import AGENTS_TEXT, SYSTEM_TEXT, coding_session
from infold.core.budget import Budget, Window, budget_for
from infold.core.messages import (
    AssistantMessage,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from infold.core.policy import Policy

Item: TypeAlias = dict[str, Any]

FORMAT = "anthropic-messages"

SMALL_WINDOW = 32_000
"""Below this the session is scaled down: no AGENTS.md, short results."""

SMALL_RESULT_SHARE = 1 / 16
LARGEST_RESULT = 50_000


class Scene(Struct, frozen=True):
    """One window with the session that is played through it, and what is sent beside its messages."""

    window: Window
    policy: Policy
    budget: Budget
    history: tuple[Message, ...]
    system: str


class Step(Struct, frozen=True):
    """One request: the messages that are new, the reply it gets, and how many messages of the session precede that."""

    new: tuple[Message, ...]
    reply: AssistantMessage
    end: int


def scene_for(window_tokens: int, policy: Policy) -> Scene:
    """The scene of a window."""
    window = Window(window_tokens, output_tokens=window_tokens // 4)
    small = window_tokens < SMALL_WINDOW
    largest = int(window_tokens * SMALL_RESULT_SHARE) if small else LARGEST_RESULT
    return Scene(
        window=window,
        policy=policy,
        budget=budget_for(window, policy),
        history=coding_session(largest_result_tokens=largest),
        system=SYSTEM_TEXT if small else f"{SYSTEM_TEXT}\n\n{AGENTS_TEXT}",
    )


def steps_of(history: tuple[Message, ...]) -> Iterator[Step]:
    """The requests of a session that ends with a reply."""
    begun = 0
    for place, message in enumerate(history):
        if isinstance(message, AssistantMessage):
            yield Step(history[begun:place], message, place)
            begun = place + 1


def item_of(message: Message) -> Item:
    """A message as the wire has it."""
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    return {"role": role, "content": [_block(part) for part in message.parts]}


def reply_body(reply: AssistantMessage, *, input_tokens: int, output_tokens: int) -> Item:
    """A provider's reply, with the usage it reports."""
    finish = "tool_use" if reply.finish == "tool-calls" else "end_turn"
    usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return {**item_of(reply), "type": "message", "id": reply.id, "stop_reason": finish, "usage": usage}


def _block(part: Part) -> Item:
    match part:
        case ReasoningPart():
            return {"type": "thinking", "thinking": part.text, "signature": f"signed-{len(part.text)}"}
        case ToolCallPart():
            return {"type": "tool_use", "id": part.call_id, "name": part.tool, "input": json.loads(part.arguments)}
        case ToolResultPart():
            return {"type": "tool_result", "tool_use_id": part.call_id, "content": _output(part)}
        case _:
            assert isinstance(part, TextPart)
            return {"type": "text", "text": part.text}


def _output(part: ToolResultPart) -> str:
    """A result as a shell tool gives it: what was printed, then how the command ended."""
    return part.output if part.exit_status is None else f"{part.output}\n[exit status {part.exit_status}]"
