"""OpenCode session exports: `{info, messages: [{info, parts}]}` in one JSON document.

A tool part holds call and result at once; the results of a step follow its message in a tool message. A
message of several steps (older versions) is taken apart at each step, since a call must be answered before the
model goes on.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, get_args

from msgspec.structs import replace

from infold.core.entries import MessageEntry
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    Message,
    MessageId,
    ModelRef,
    Part,
    ResultStatus,
    SessionId,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    WorkPath,
)
from infold.core.view import filter_compacted as messages_after_fold
from infold.errors import BrokenInput, kind_of
from infold.formats.codec import as_dict, finish_named
from infold.transcripts.record import Issues, RecordedSession, SessionDraft
from infold.transcripts.source import Head, Source
from infold.transcripts.values import (
    call_part,
    dig,
    exit_code,
    file_part,
    integer,
    items,
    mapping,
    model_ref,
    number,
    plain_text,
    reasoning_part,
    string,
    time_ms,
    user_blocks,
)

Item = TypeVar("Item")


def recognises(head: Head) -> bool:
    """Return whether an object has session info and messages that have info and parts."""
    messages = dig(head.document, "messages")
    return (
        isinstance(dig(head.document, "info"), dict)
        and isinstance(messages, list)
        and all("info" in mapping(message) and "parts" in message for message in messages[:3])
    )


def read(source: Source) -> list[RecordedSession]:
    """Return the one session of an export; a sub-agent's export names its parent."""
    document = source.document()
    info = mapping(document, "info")
    draft = SessionDraft(string(info, "id"), source.issues, parent=string(info, "parentID") or None)
    messages = items(document, "messages")
    titles: dict[MessageId, str] = {}
    for message in messages:
        about = mapping(message, "info")
        take = _take_reply if about.get("role") == "assistant" else _take_user
        take(draft, about, [mapping(part) for part in items(message, "parts")])
        title = dig(about, "summary", "title")
        if isinstance(title, str) and title:
            titles[MessageId(string(about, "id"))] = title
    return [replace(session, title=string(info, "title"), titles=titles) for session in draft.sessions()]


def filter_compacted(messages: Iterable[Item]) -> list[Item]:
    """Return what a compaction that is written as messages has left to send: from its request on, and the tail that it kept.

    `messages` are infold's own (`infold.core.messages`) or as OpenCode exports them (`{info, parts}`), oldest first; the given
    objects are returned. A request counts once an assistant message with `summary` has answered it and ended without an error.
    Without one, all are returned. Raise `BrokenInput` for other values.
    """
    if not isinstance(messages, Iterable):
        raise BrokenInput("opencode", f"the messages are {kind_of(messages)}", remedy="give a list of messages")
    given = list(messages)
    own = [item for item in given if isinstance(item, get_args(Message))]
    read = own if len(own) == len(given) else read_messages(given)
    ids = [item.id for item in own] if read is own else [str(as_dict(item)["info"]["id"]) for item in given]
    items = dict(zip(ids, given, strict=True))
    log = Log(SessionId("filter")).extend(MessageEntry(message) for message in read)
    kept = dict.fromkeys(message.id.removesuffix("-results") for message in messages_after_fold(log))
    return [items[name] for name in kept if name in items]


def read_messages(messages: Sequence[object]) -> tuple[Message, ...]:
    """Return the messages of an export, given without the session around them; raise `BrokenInput` for other values."""
    draft = SessionDraft("", Issues())
    for index, message in enumerate(messages):
        about = mapping(message, "info")
        if not about.get("id"):
            problem = f"message {index} has no info with an id"
            raise BrokenInput("opencode", problem, remedy="give messages as OpenCode exports them: {info, parts}")
        take = _take_reply if about.get("role") == "assistant" else _take_user
        take(draft, about, [mapping(part) for part in items(message, "parts")])
    return draft.session().messages


def _take_user(draft: SessionDraft, info: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    read_parts = tuple(part for value in parts for part in _user_part(value, draft.issues))
    request = next((part for part in read_parts if isinstance(part, CompactionPart)), None)
    if request is not None:
        # The summary is the reply to the request, so its text is filled in when that reply comes.
        kept = next((i for i, m in enumerate(draft.messages) if m.id == request.first_kept_id), None)
        used = next((m.usage for m in reversed(draft.messages) if isinstance(m, AssistantMessage) and m.usage), None)
        draft.add_compaction(tokens_before=used.context if used else None, first_kept=kept)
    if read_parts:
        draft.add(
            UserMessage(
                id=MessageId(string(info, "id")),
                parts=read_parts,
                created_ms=time_ms(info, "time", "created"),
                agent=string(info, "agent"),
                model=_model(mapping(info, "model") or info),
                system=string(info, "system"),
            )
        )


def _user_part(value: dict[str, Any], issues: Issues) -> tuple[Part, ...]:
    match value.get("type"):
        case "text":
            said = string(value, "text")
            if value.get("ignored"):
                return (TextPart(said, synthetic=bool(value.get("synthetic")), ignored=True),)
            return user_blocks(said, synthetic=bool(value.get("synthetic")))
        case "file":
            return (_file(value),)
        case "compaction":
            return (_compaction(value),)
        case "subtask":
            return (TextPart(string(value, "prompt")),)
        case other:
            issues.skip(f"bookkeeping: {other} part")
            return ()


def _compaction(value: dict[str, Any]) -> CompactionPart:
    tail = string(value.get("tail_start_id") or value.get("tailStartID"))
    return CompactionPart(
        id=string(value, "id"),
        auto=bool(value.get("auto")),
        overflow=bool(value.get("overflow")),
        first_kept_id=MessageId(tail) if tail else None,
    )


def _take_reply(draft: SessionDraft, info: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    steps = _steps(parts)
    for step in steps:
        read_parts = tuple(part for value in step for part in _reply_part(value, draft.issues))
        said = tuple(part for part in read_parts if not isinstance(part, ToolResultPart))
        answers = tuple(part for part in read_parts if isinstance(part, ToolResultPart))
        reply = _reply(info, said, alone=len(steps) == 1)
        draft.add(reply)
        if reply.summary:
            draft.set_summary(plain_text(said))
        if answers:
            draft.add(ToolMessage(MessageId(f"{reply.id}-results"), answers, answers[-1].finished_ms))


def _steps(parts: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the parts of each step; a step without calls does not become a message of its own."""
    steps: list[list[dict[str, Any]]] = [[]]
    for part in parts:
        called = any(earlier.get("type") == "tool" for earlier in steps[-1])
        if part.get("type") == "step-start" and called:
            steps.append([])
        steps[-1].append(part)
    return steps


def _reply(info: dict[str, Any], parts: tuple[Part, ...], *, alone: bool) -> AssistantMessage:
    """Return one step's message; `alone` means the message's own usage and cost are this step's."""
    end = next((part for part in reversed(parts) if isinstance(part, StepFinishPart)), None)
    parent, cwd = string(info, "parentID"), string(info, "path", "cwd")
    return AssistantMessage(
        id=MessageId(string(info, "id")),
        parts=parts,
        created_ms=time_ms(info, "time", "created"),
        parent_id=MessageId(parent) if parent else None,
        agent=string(info, "agent"),
        mode=string(info, "mode"),
        model=_model(info),
        path=WorkPath(cwd=cwd, root=string(info, "path", "root")) if cwd else None,
        summary=info.get("summary") is True,
        usage=_usage(info.get("tokens")) if alone or end is None else end.usage,
        cost=number(info, "cost") if alone or end is None else end.cost,
        finish=finish_named(info.get("finish")) or (end.reason if end else None),
        error=": ".join(filter(None, (string(info, "error", "name"), string(info, "error", "data", "message")))),
    )


def _reply_part(value: dict[str, Any], issues: Issues) -> tuple[Part, ...]:
    match value.get("type"):
        case "text":
            return (TextPart(string(value, "text"), synthetic=bool(value.get("synthetic"))),)
        case "reasoning":
            return (reasoning_part(string(value, "text"), value.get("metadata")),)
        case "tool":
            return _tool(value)
        case "file":
            return (_file(value),)
        case "step-start" | "step-finish":
            return (_step(value),)
        case other:
            issues.skip(f"bookkeeping: {other} part")
            return ()


def _tool(value: dict[str, Any]) -> tuple[Part, ...]:
    """Return the call, and its result unless the record ends before there was one."""
    state = mapping(value, "state")
    call = call_part(string(value, "callID"), string(value, "tool"), state.get("input"), value.get("metadata"))
    status: ResultStatus
    match state.get("status"):
        case "completed":
            status, output = "completed", string(state, "output")
        case "error":
            output = string(state, "error")
            status = "interrupted" if output == "Tool execution aborted" else "error"
        case _:
            return (call,)
    result = ToolResultPart(
        call_id=call.call_id,
        tool=call.tool,
        output=output,
        status=status,
        exit_status=exit_code(state, "metadata", "exit"),
        started_ms=time_ms(state, "time", "start"),
        finished_ms=time_ms(state, "time", "end"),
        files=tuple(_file(mapping(file)) for file in items(state, "attachments")),
    )
    return (call, result)


def _step(value: dict[str, Any]) -> StepStartPart | StepFinishPart:
    if value.get("type") == "step-start":
        return StepStartPart(string(value, "snapshot"))
    return StepFinishPart(
        reason=finish_named(value.get("reason")) or "other",
        snapshot=string(value, "snapshot"),
        usage=_usage(value.get("tokens")) or Usage(),
        cost=number(value, "cost"),
    )


def _usage(tokens: Any) -> Usage | None:
    """Return usage: OpenCode counts input without the cache, and writes zeros where the provider reported nothing."""
    found = Usage(
        input=integer(tokens, "input"),
        output=integer(tokens, "output"),
        reasoning=integer(tokens, "reasoning"),
        cache_read=integer(tokens, "cache", "read"),
        cache_write=integer(tokens, "cache", "write"),
        total=integer(tokens, "total") or None,
    )
    return found if found.context else None


def _file(value: dict[str, Any]) -> FilePart:
    return file_part({**value, "type": "file", "mimeType": value.get("mime")})


def _model(value: dict[str, Any]) -> ModelRef | None:
    return model_ref(value.get("modelID"), value.get("providerID"))
