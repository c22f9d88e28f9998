"""SWE-agent trajectories: a history of chat messages, in which actions are text or, since 1.0, tool calls.

With the text protocol the action is a call of the tool `bash` with that command, and the user message after it is
the result. The demonstration is the program's; the task is genuine.
"""

from typing import Any

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, ToolCallPart, ToolMessage, ToolResultPart
from infold.transcripts.record import RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    add_chat_message,
    chat_message,
    dig,
    items,
    mapping,
    model_ref,
    plain_text,
    reply_parts,
    result_part,
    string,
    to_json,
    user_blocks,
)


def recognises(head: Head) -> bool:
    """Return whether an object has a trajectory of steps."""
    steps = [mapping(step) for step in items(head.document, "trajectory")[:3]]
    return isinstance(dig(head.document, "trajectory"), list) and (
        isinstance(dig(head.document, "history"), list)
        or (bool(steps) and all("action" in step and "observation" in step for step in steps))
    )


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of a run: its history, or its steps if the record has no history."""
    document = mapping(source.document())
    draft = SessionDraft(string(document, "instance_id") or source.name, source.issues)
    draft.model = model_ref(dig(document, "replay_config", "agent", "model", "name"))
    reader = _Reader(draft)
    for message in items(document, "history") or _history(items(document, "trajectory")):
        reader.take(mapping(message))
    return draft.sessions()


def _history(steps: list[Any]) -> list[dict[str, Any]]:
    """Return the messages that a list of steps stands for."""
    return [
        message
        for step in map(mapping, steps)
        for message in (
            {"role": "assistant", "content": step.get("response") or step.get("thought"), "action": step.get("action")},
            {"role": "user", "content": step.get("observation")},
        )
    ]


class _Reader:
    def __init__(self, draft: SessionDraft) -> None:
        self.draft = draft
        self._asked = ""

    def take(self, value: dict[str, Any]) -> None:
        role = value.get("role")
        if value.get("is_demo"):
            self.draft.add_user(user_blocks(value.get("content"), synthetic=True))
        elif role == "assistant":
            self._take_reply(value)
        elif role == "user" and self._asked:
            self._answer(value)
        elif role == "tool":
            self._take_result(value)
        else:
            add_chat_message(self.draft, value)

    def _take_reply(self, value: dict[str, Any]) -> None:
        message = chat_message(value, self.draft.new_id())
        assert isinstance(message, AssistantMessage)
        action = string(value, "action").rstrip("\n")
        self._asked = ""
        if action and not items(value, "tool_calls"):
            self._asked = f"action-{len(self.draft.messages) + 1}"
            call = ToolCallPart(self._asked, "bash", to_json({"command": action}))
            message = replace(message, parts=(*message.parts, call))
        self.draft.add(replace(message, agent=string(value, "agent"), model=self.draft.model))

    def _answer(self, value: dict[str, Any]) -> None:
        output = plain_text(reply_parts(value.get("content")))
        self.draft.add_result(ToolResultPart(self._asked, "bash", output))
        self._asked = ""

    def _take_result(self, value: dict[str, Any]) -> None:
        """Add a result; since 1.0 it names its call in a list, and several names mean one text for all of them."""
        names = [string(name) for name in items(value, "tool_call_ids")] or [string(value, "tool_call_id")]
        rest = (ToolResultPart(name, "", "(see the first result)") for name in names[1:])
        self.draft.add(ToolMessage(self.draft.new_id(), (result_part(names[0], value), *rest)))
