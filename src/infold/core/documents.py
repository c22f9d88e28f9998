"""What of a session can be found again: its parts as documents for recall, each under its handle.

Decides how a part reads when it is brought back: arguments decoded, a result under the call that it answers and with how it
ended, so that a command's words find its output. What the harness injected is findable like the rest.
"""

from collections.abc import Iterable, Iterator

from infold.core.messages import FilePart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from infold.core.recall import Document
from infold.core.toolfacts import arguments_of, exit_status_of

__all__ = ["documents_of"]

LONGEST_TITLE = 300
"""Characters of a call that stand above its result."""


def documents_of(messages: Iterable[tuple[int, Message]]) -> Iterator[Document]:
    """The parts that hold text, oldest first; each message is given with its number in the log.

    A call short enough to stand whole above its result is no document of its own, unless it was never answered.
    """
    calls: dict[str, Document] = {}
    for sequence, message in messages:
        for index, part in enumerate(message.parts):
            handle = f"{sequence}.{index}"
            match part:
                case TextPart() | ReasoningPart() if part.text.strip():
                    yield Document(handle, part.text)
                case ToolCallPart():
                    calls[part.call_id] = _call(handle, part)
                case ToolResultPart():
                    yield from _answered(handle, part, calls.pop(part.call_id, None))
                case FilePart():
                    yield Document(handle, _described(part))
                case _:
                    pass
    yield from calls.values()


def _call(handle: str, part: ToolCallPart) -> Document:
    written = tuple(_written(arguments_of(part))) or (part.arguments,)
    return Document(handle, "\n".join(written), title=part.tool)


def _answered(handle: str, part: ToolResultPart, call: Document | None) -> Iterator[Document]:
    if call is None:
        yield Document(handle, part.output, title=f"{part.tool}{_ended(part)}")
        return
    title = " ".join((call.title, *call.text.split()))
    if len(title) > LONGEST_TITLE:
        yield call
    yield Document(handle, part.output, title=f"{title[:LONGEST_TITLE]}{_ended(part)}")


def _described(part: FilePart) -> str:
    """A medium by what is known of it; its bytes are the caller's and are not in the log."""
    known = (part.name, part.media_type, f"{part.byte_size:,} bytes" if part.byte_size else "", part.reference)
    return ", ".join(filter(None, known))


def _ended(part: ToolResultPart) -> str:
    status = exit_status_of(part)
    if status is not None:
        return f" → exit {status}"
    return "" if part.status == "completed" else f" → {part.status}"


def _written(value: object) -> Iterator[str]:
    """Decoded arguments as lines, strings as they were meant; short names first on their line."""
    match value:
        case dict():
            for key, inner in value.items():
                for line in _written(inner):
                    yield f"{key}: {line}"
        case list():
            for inner in value:
                yield from _written(inner)
        case None:
            pass
        case _:
            yield str(value)
