"""What of a session can be found again: its parts as documents for recall, each under its handle.

Decides how a part reads when it is brought back: arguments decoded, a result under the call that it answers and with how it
ended, so that a command's words find its output. What the harness injected is findable like the rest.
"""

from collections.abc import Iterable, Iterator

from infold.core.messages import FilePart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from infold.core.recall import Document
from infold.core.toolfacts import arguments_of, exit_status_of

LONGEST_TITLE = 300
"""Characters of a call that stand above its result."""


LONGEST_NAME = 120
"""Characters of a name or an address that a line shows."""

_UNITS = (("MB", 1_000_000), ("kB", 1_000), ("bytes", 1))


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
                    yield Document(handle, part.text, title=getattr(part, "document", None) or "")
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
    text = "\n".join((part.output, *map(attached, part.files))) if part.files else part.output
    if call is None:
        yield Document(handle, text, title=f"{part.tool}{_ended(part)}")
        return
    title = " ".join((call.title, *call.text.split()))
    if len(title) > LONGEST_TITLE:
        yield call
    yield Document(handle, text, title=f"{title[:LONGEST_TITLE]}{_ended(part)}")


def attached(part: FilePart) -> str:
    """Return the line that stands for a medium where it is no longer shown."""
    size = f" ({_size(part.byte_size)}{', not stored' if _is_lost(part) else ''})" if part.byte_size else ""
    reference = f" {_one_line(part.reference)}" if part.reference else ""
    return f"[attached: {_one_line(part.media_type)}{_title(part.name)}{reference}{size}]"


def _is_lost(part: FilePart) -> bool:
    """Whether neither the bytes nor an address of a medium are kept."""
    return not part.digest and not part.reference


def attached_text(part: TextPart) -> str:
    """Return a text document as it is quoted: under a line that says what it is."""
    return f"[attached: text{_title(part.document or '')}]\n{part.text.strip()}"


def _title(name: str) -> str:
    return f' "{_one_line(name)}"' if name.strip() else ""


def _one_line(text: str) -> str:
    """A name as part of a line, whatever its sender put in it."""
    return " ".join(text.split())[:LONGEST_NAME].replace('"', "'")


def _size(count: int) -> str:
    unit, divisor = next((unit, divisor) for unit, divisor in _UNITS if count >= divisor)
    return f"{count / divisor:.{1 if divisor > 1_000 else 0}f} {unit}"


def _described(part: FilePart) -> str:
    """A medium by what is known of it; its bytes are not in the log."""
    kept = "bytes, which were not stored" if _is_lost(part) else "bytes"
    known = (part.name, part.media_type, f"{part.byte_size:,} {kept}" if part.byte_size else "", part.reference)
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
