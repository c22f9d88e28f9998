"""A recorded session as `opencode import` takes it: `{info, messages: [{info, parts}]}`, the shape of `opencode export`.

There a call and its result are one part, and the marks of a step stand around its text. Ids are new unless all are
OpenCode's own: ascending, because it orders by them, and with the session in them, because all sessions share one table. A
compaction becomes its request and its summary, so that OpenCode folds the same messages.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any, TypeGuard

import msgspec
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    Message,
    MessageId,
    ModelRef,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
    calls_of,
    is_compaction_request,
    results_of,
    text_of,
)
from infold.transcripts.record import RecordedCompaction, RecordedSession
from infold.transcripts.write import arguments_of, file_note

ABORTED = "Tool execution aborted"
"""OpenCode's text for an interrupted tool; it is read back as that."""


UNKNOWN = "unknown"


REACHABLE = ("http://", "https://", "data:", "file://")


_NAMED_ERROR = re.compile(
    r"(UnknownError|MessageAbortedError|ContextOverflowError|ContentFilterError): (.*)", re.DOTALL
)


AGENT, COMPACTION = "build", "compaction"


def to_opencode(session: RecordedSession, diffs: Mapping[MessageId, Sequence[Any]] | None = None) -> dict[str, Any]:
    """Return the session as one document of OpenCode's; `diffs` are the files that turns changed, by their user messages."""
    writer = _Writer(session, _with_compactions(session), diffs or {})
    messages = list(writer.write_messages())
    times = [message["info"]["time"]["created"] for message in messages] or [0]
    parent = session.parent or ""
    info = {
        "id": writer.id,
        "slug": f"infold-{writer.hash[:8].lower()}",
        "projectID": "global",
        "directory": writer.directory,
        **({"parentID": parent} if parent.startswith("ses_") else {}),
        "title": session.title or f"Session {session.id}",
        "version": "infold",
        **_total_cost(session),
        "time": {"created": times[0], "updated": times[-1]},
    }
    return {"info": info, "messages": messages}


def _total_cost(session: RecordedSession) -> dict[str, Any]:
    """Return the cost and tokens of all replies of a session."""
    replies = [message for message in session.messages if isinstance(message, AssistantMessage)]
    usage = Usage()
    for reply in replies:
        usage = usage.plus(reply.usage)
    return {"cost": sum(reply.cost for reply in replies), "tokens": _tokens(replace(usage, total=None))}


# Compactions as messages.


def _with_compactions(session: RecordedSession) -> list[Message]:
    """Return the messages of a session with its compactions among them."""
    messages: list[Message] = []
    folds = {fold.position: fold for fold in session.compactions if fold.summary}
    answered = {message.parent_id for message in session.messages if _is_summary(message)}
    for position in range(len(session.messages) + 1):
        fold = folds.get(position)
        at = session.messages[position : position + 1]
        is_there = bool(at) and (is_compaction_request(at[0]) or _is_summary(at[0]))
        if fold is not None and not is_there:
            asked = _take_request(messages, answered) or UserMessage(MessageId(f"{len(messages)}-request"), ())
            messages += _request_and_summary(fold, session, asked)
            at = () if at and text_of(at[0]).strip() == fold.summary.strip() else at
        messages += at
    return messages


def _is_summary(message: Message) -> TypeGuard[AssistantMessage]:
    return isinstance(message, AssistantMessage) and message.summary


def _take_request(messages: list[Message], answered: Set[MessageId | None]) -> UserMessage | None:
    """Take the newest request for a compaction that no summary answers yet: the one this fold was made for."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if _is_summary(message):
            return None
        if isinstance(message, UserMessage) and is_compaction_request(message) and message.id not in answered:
            del messages[at]
            return message
    return None


def _request_and_summary(
    fold: RecordedCompaction, session: RecordedSession, asked: UserMessage
) -> tuple[Message, Message]:
    """Return the request for a compaction, complete, and the summary that answers it."""
    kept = None if fold.first_kept is None else session.messages[fold.first_kept : fold.position]
    first = _owner(session.messages[: fold.first_kept], kept[0]) if kept and fold.first_kept is not None else None
    made = next((part for part in asked.parts if isinstance(part, CompactionPart)), CompactionPart("", auto=True))
    request = replace(made, first_kept_id=None if first is None else first.id)
    times = [message.created_ms for message in session.messages[: fold.position] if message.created_ms is not None]
    said = max(times, default=None)
    summary = AssistantMessage(
        MessageId(f"{asked.id}-summary"),
        (TextPart(fold.summary),),
        said,
        parent_id=asked.id,
        agent=COMPACTION,
        mode=COMPACTION,
        model=session.model,
        summary=True,
        finish="stop",
    )
    return replace(asked, parts=(request,), created_ms=asked.created_ms or said), summary


def _owner(before: Sequence[Message], first: Message) -> Message | None:
    """Return the message under which OpenCode has this one: results stand in the reply that called for them."""
    if not isinstance(first, ToolMessage):
        return first
    return next((message for message in reversed(before) if isinstance(message, AssistantMessage)), None)


# Messages.


class _Writer:
    """Writes one session: the ids it gets, the results of its calls, and the time reached."""

    def __init__(
        self, session: RecordedSession, messages: Sequence[Message], diffs: Mapping[MessageId, Sequence[Any]]
    ) -> None:
        self._session = session
        self._messages = messages
        self._diffs = diffs
        self.hash = sha256(session.id.encode()).hexdigest().upper()
        self.id = session.id if session.id.startswith("ses_") else f"ses_{0:012x}{self.hash[:14]}"
        self._ids = self._named()
        self._results = {part.call_id: part for message in messages for part in results_of(message)}
        self._ends = _ends_by_reply(messages)
        self._asked = ""
        self._reached_ms = 0

    @property
    def directory(self) -> str:
        """The agent's working directory; the place of import replaces it."""
        paths = (m.path.cwd for m in self._messages if isinstance(m, AssistantMessage) and m.path is not None)
        return next(paths, "/")

    def write_messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that OpenCode has; those of tools are part of the replies before them."""
        for message in self._messages:
            if isinstance(message, ToolMessage):
                continue
            self._reached_ms = max(self._reached_ms, message.created_ms or 0)
            if isinstance(message, AssistantMessage):
                parts = _in_order((*message.parts, *self._ends.get(message.id, ())))
                yield self._written(self._reply(message), map(self._reply_part, parts))
            else:
                written = [self._user_part(part, is_users=isinstance(message, UserMessage)) for part in message.parts]
                if any(written):
                    self._asked = self._ids[message.id]
                    yield self._written(self._asking(message), written)

    def _named(self) -> dict[str, str]:
        """Return an id for each message; their own if OpenCode gave them."""
        if all(message.id.startswith("msg_") for message in self._messages):
            return {message.id: message.id for message in self._messages}
        return {m.id: f"msg_{at:012x}{self.hash[:14]}" for at, m in enumerate(self._messages, 1)}

    def _asking(self, message: Message) -> dict[str, Any]:
        user = message if isinstance(message, UserMessage) else UserMessage(message.id, ())
        title, diffs = self._session.titles.get(message.id, ""), self._diffs.get(message.id, ())
        return {
            "id": self._ids[message.id],
            "sessionID": self.id,
            "role": "user",
            "time": {"created": self._reached_ms},
            "agent": user.agent or AGENT,
            "model": _model(user.model or self._session.model),
            **({"system": user.system} if user.system else {}),
            **({"summary": {**({"title": title} if title else {}), "diffs": [*diffs]}} if title or diffs else {}),
        }

    def _reply(self, reply: AssistantMessage) -> dict[str, Any]:
        identity, agent = self._ids[reply.id], reply.agent or AGENT
        return {
            "id": identity,
            "sessionID": self.id,
            "role": "assistant",
            "time": {"created": self._reached_ms, "completed": self._completed(reply)},
            **_error(reply),
            "parentID": self._ids.get(reply.parent_id or "", self._asked or identity),
            **_model(reply.model or self._session.model),
            "mode": reply.mode or agent,
            "agent": agent,
            "path": {"cwd": reply.path.cwd, "root": reply.path.root} if reply.path else {"cwd": "", "root": ""},
            **({"summary": True} if reply.summary else {}),
            "cost": reply.cost,
            "tokens": _tokens(reply.usage),
            **({"finish": reply.finish} if reply.finish not in (None, "abort") else {}),
        }

    def _user_part(self, part: Part, *, is_users: bool) -> dict[str, Any] | None:
        """Return a part of a user message, `None` for kinds that stand elsewhere; all but the user's own text is synthetic."""
        match part:
            case TextPart():
                return _text(part.text, synthetic=part.synthetic or not is_users, ignored=part.ignored)
            case FilePart():
                return _file(part)
            case CompactionPart():
                kept = self._ids.get(part.first_kept_id or "")
                flags = {"overflow": True} if part.overflow else {}
                return {"type": "compaction", "auto": part.auto, **flags, **({"tail_start_id": kept} if kept else {})}
            case _:
                return None

    def _reply_part(self, part: Part) -> dict[str, Any] | None:
        """Return a part of a reply, a call with its result; `None` for kinds that no reply has."""
        match part:
            case TextPart() | FilePart():
                return self._user_part(part, is_users=True)
            case ReasoningPart():
                time = {"start": self._reached_ms, "end": self._reached_ms}
                return {"type": "reasoning", "text": part.text, "time": time, **_metadata(part.provider_data)}
            case ToolCallPart():
                called = {"type": "tool", "callID": part.call_id, "tool": part.tool}
                return {**called, "state": self._state(part), **_metadata(part.provider_data)}
            case StepStartPart():
                return {"type": "step-start", **_snapshot(part)}
            case StepFinishPart():
                spent = {"cost": part.cost, "tokens": _tokens(part.usage)}
                return {"type": "step-finish", "reason": part.reason, **_snapshot(part), **spent}
            case _:
                return None

    def _state(self, call: ToolCallPart) -> dict[str, Any]:
        """Return the state of a call; one without a result counts as still running."""
        given, result = {"input": arguments_of(call)}, self._results.get(call.call_id)
        if result is None:
            return {"status": "running", **given, "time": {"start": self._reached_ms}}
        start = result.started_ms or self._reached_ms
        time = {"start": start, "end": max(start, result.finished_ms or 0)}
        metadata: dict[str, Any] = {} if result.exit_status is None else {"exit": result.exit_status}
        output = "\n".join(piece for piece in (result.output, *map(file_note, result.files)) if piece)
        if result.status == "completed":
            done = {"status": "completed", **given, "output": output, "title": call.tool}
            return {**done, "metadata": metadata, "time": time}
        if result.status == "interrupted":
            metadata, output = {**metadata, "output": output}, ABORTED
        return {"status": "error", **given, "error": output, "metadata": metadata, "time": time}

    def _completed(self, reply: AssistantMessage) -> int:
        """Return when the last of its tools had answered."""
        results = (self._results[call.call_id] for call in calls_of(reply) if call.call_id in self._results)
        return max([self._reached_ms, *(result.finished_ms or 0 for result in results)])

    def _written(self, info: dict[str, Any], parts: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
        """Return a message with its parts, whose ids ascend."""
        identity = info["id"]
        stem = sha256(f"{self.id} {identity}".encode()).hexdigest()[:14].upper()
        of = {"sessionID": self.id, "messageID": identity}
        numbered = enumerate((part for part in parts if part is not None), 1)
        return {"info": info, "parts": [{"id": f"prt_{at:012x}{stem}", **of, **part} for at, part in numbered]}


def _model(model: ModelRef | None) -> dict[str, str]:
    known = model or ModelRef("", "")
    return {"providerID": known.provider or UNKNOWN, "modelID": known.id or UNKNOWN}


def _tokens(usage: Usage | None) -> dict[str, Any]:
    """Return usage in OpenCode's fields; zeros if none was reported."""
    used = usage or Usage()
    total = {"total": used.total} if used.total is not None else {}
    cache = {"read": used.cache_read, "write": used.cache_write}
    return {**total, "input": used.input, "output": used.output, "reasoning": used.reasoning, "cache": cache}


def _error(reply: AssistantMessage) -> dict[str, Any]:
    """Return the error of a reply under one of OpenCode's names; empty if it succeeded."""
    error = reply.error or ("MessageAbortedError: aborted" if reply.finish == "abort" else "")
    if not error:
        return {}
    named = _NAMED_ERROR.fullmatch(error)
    name, problem = named.groups() if named else ("UnknownError", error)
    return {"error": {"name": name, "data": {"message": problem}}}


def _snapshot(part: StepStartPart | StepFinishPart) -> dict[str, str]:
    return {"snapshot": part.snapshot} if part.snapshot else {}


def _text(text: str, *, synthetic: bool, ignored: bool) -> dict[str, Any]:
    marks = {"synthetic": synthetic, "ignored": ignored}
    return {"type": "text", "text": text, **{name: True for name, is_set in marks.items() if is_set}}


def _file(file: FilePart) -> dict[str, Any]:
    """Return a medium by its address, or a label if that is unknown."""
    if not file.reference.startswith(REACHABLE):
        return _text(file_note(file), synthetic=True, ignored=False)
    named = {"filename": file.name} if file.name else {}
    return {"type": "file", "mime": file.media_type, **named, "url": file.reference}


def _metadata(provider_data: str) -> dict[str, Any]:
    """Return provider data in OpenCode's own shape, by provider; any other is meant for its own provider alone."""
    try:
        found = msgspec.json.decode(provider_data) if provider_data else None
    except (ValueError, RecursionError):
        return {}
    by_provider = isinstance(found, dict) and bool(found) and all(isinstance(value, dict) for value in found.values())
    return {"metadata": found} if by_provider else {}


def _ends_by_reply(messages: Sequence[Message]) -> Mapping[str, tuple[StepFinishPart, ...]]:
    """Return the ends of steps that stand among results, by the reply whose calls were answered."""
    ends: dict[str, tuple[StepFinishPart, ...]] = {}
    newest = ""
    for message in messages:
        if isinstance(message, AssistantMessage):
            newest = message.id
        elif isinstance(message, ToolMessage):
            found = tuple(part for part in message.parts if isinstance(part, StepFinishPart))
            ends[newest] = (*ends.get(newest, ()), *found)
    return ends


def _in_order(parts: Sequence[Part]) -> list[Part]:
    """Put a step's start before its text and its end after it; several steps in one message stay as they were."""
    starts = [part for part in parts if isinstance(part, StepStartPart)]
    ends = [part for part in parts if isinstance(part, StepFinishPart)]
    if len(starts) > 1 or len(ends) > 1:
        return list(parts)
    return [*starts, *(part for part in parts if not isinstance(part, StepStartPart | StepFinishPart)), *ends]
