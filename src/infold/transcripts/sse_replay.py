"""DeerFlow replays: server-sent events, in which messages and tool calls arrive in pieces.

Pieces of one id are put together. A result names its call; calls without an id take the id of the result that follows them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from infold.core.messages import AssistantMessage, MessageId, ReasoningPart, ToolCallPart, ToolMessage, ToolResultPart
from infold.formats.codec import finish_named
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import items, mapping, reply_parts, string, to_json, user_parts


class _Event(NamedTuple):
    kind: str
    data: dict[str, Any]


def recognises(head: Head) -> bool:
    """Return whether the text has `event:` and `data:` lines, with DeerFlow's kinds of events."""
    lines = head.text.lstrip().split("\n", 40)
    return any(line.startswith("event:") for line in lines[:2]) and any(
        line.startswith("data:") and '"thread_id"' in line for line in lines
    )


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of a replay."""
    reader = _Reader(source.issues)
    for event in _events(source):
        reader.take(event)
    reader.end()
    return reader.draft.sessions()


def _events(source: Source) -> Iterator[_Event]:
    kind = ""
    for number, line in source.text_lines():
        if line.startswith("event:"):
            kind = line.removeprefix("event:").strip()
        elif line.startswith("data:"):
            try:
                yield _Event(kind, mapping(msgspec.json.decode(line.removeprefix("data:").strip())))
            except (ValueError, RecursionError):
                source.issues.skip("an event's data is not JSON (cut off, or not part of the record)", number)
        elif line.strip():
            source.issues.skip("a line is neither event nor data", number)


class _Growing:
    """A message whose pieces are still arriving."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.id = string(first, "id")
        self.role = string(first, "role")
        self.agent = string(first, "agent")
        self.finish: Any = None
        self.said: list[str] = []
        self.thought: list[str] = []
        self.calls: list[dict[str, Any]] = []

    def grow(self, data: dict[str, Any]) -> None:
        self.said.append(string(data, "content"))
        self.thought.append(string(data, "reasoning_content"))
        self.finish = data.get("finish_reason") or self.finish
        for piece in map(mapping, items(data, "tool_call_chunks")):
            self._grow_call(piece)
        if not data.get("tool_call_chunks"):
            self.calls += [{**mapping(call), "pieces": []} for call in items(data, "tool_calls")]

    def _grow_call(self, piece: dict[str, Any]) -> None:
        """Add a piece to its call; one with an index of its own, or with another id, begins a call."""
        index, call_id = piece.get("index"), string(piece, "id")
        open_call = next((call for call in reversed(self.calls) if call.get("index") == index), None)
        if open_call is None or (call_id and open_call.get("id") and call_id != open_call["id"]):
            open_call = {"index": index, "pieces": []}
            self.calls.append(open_call)
        open_call["id"] = open_call.get("id") or call_id
        open_call["name"] = open_call.get("name") or string(piece, "name")
        open_call["pieces"].append(string(piece, "args"))

    def message(self) -> AssistantMessage:
        thought = "".join(self.thought)
        parts = (
            *((ReasoningPart(thought),) if thought else ()),
            *reply_parts("".join(self.said)),
            *map(_call, self.calls),
        )
        return AssistantMessage(MessageId(self.id), parts, agent=self.agent, finish=finish_named(self.finish))


def _call(call: dict[str, Any]) -> ToolCallPart:
    arguments = "".join(call["pieces"]) or to_json(call.get("args"))
    return ToolCallPart(string(call, "id"), string(call, "name"), arguments)


class _Reader:
    """Keeps the order of messages; events of several ids may overlap, so each waits until all have arrived."""

    def __init__(self, issues: Issues) -> None:
        self.draft = SessionDraft("", issues)
        self._order: list[_Growing | ToolMessage] = []
        self._growing: dict[str, _Growing] = {}

    def take(self, event: _Event) -> None:
        kind, data = event
        self.draft.id = self.draft.id or string(data, "thread_id")
        if kind == "tool_call_result":
            self._take_result(data)
            return
        name = string(data, "id")
        if name not in self._growing:
            self._growing[name] = _Growing(data)
            self._order.append(self._growing[name])
        self._growing[name].grow(data)

    def _take_result(self, data: dict[str, Any]) -> None:
        call_id = string(data, "tool_call_id")
        nameless = next((c for g in self._growing.values() for c in g.calls if not c.get("id")), None)
        known = any(c.get("id") == call_id for g in self._growing.values() for c in g.calls)
        if nameless is not None and not known:
            nameless["id"] = call_id
        part = ToolResultPart(call_id, "", string(data, "content"))
        self._order.append(ToolMessage(MessageId(string(data, "id")), (part,)))

    def end(self) -> None:
        for entry in self._order:
            if isinstance(entry, ToolMessage):
                self.draft.add(entry)
            elif entry.role == "user":
                self.draft.add_user(user_parts("".join(entry.said)), entry.id)
            elif (message := entry.message()).parts:
                self.draft.add(message)
