"""JSON and text from bytes that may be damaged, with every repair noted."""

import json
from typing import Any

import msgspec

from infold.errors import BrokenInput
from infold.formats.transcripts.record import Notes

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def decode_document(data: bytes, name: str, notes: Notes) -> Any:
    """The one JSON value that `data` is; BrokenInput if it is none, or nested too deep."""
    try:
        return decode_line(data, notes, 0)
    except RecursionError as error:
        raise BrokenInput(name, "JSON nested too deep", remedy="this is no transcript that an agent writes") from error
    except ValueError as error:
        raise BrokenInput(
            name, f"not a whole JSON document ({error})", remedy="export the transcript again; it may be cut off"
        ) from error


def peek(line: bytes, notes: Notes) -> dict[str, Any] | None:
    """A line's JSON object, or nothing; damage that a reader will repair is no reason not to know the format."""
    data = line.removeprefix(BYTE_ORDER_MARK).rstrip()
    if not data.endswith(b"}"):
        return None
    try:
        value = decode_line(data, notes, 0)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def decode_line(data: bytes, notes: Notes, line: int) -> Any:
    """A JSON value; the slower decoder takes what the strict one refuses: NaN, lone surrogates, bad UTF-8."""
    try:
        return msgspec.json.decode(data)
    except ValueError:
        return _without_surrogates(json.loads(utf8(data, notes, line), strict=False), notes, line)


def utf8(data: bytes, notes: Notes, line: int) -> str:
    """The text, with U+FFFD for what is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        notes.repair("bytes that are not UTF-8 were replaced by U+FFFD", line)
        return data.decode("utf-8", "replace")


def _without_surrogates(value: Any, notes: Notes, line: int) -> Any:
    if isinstance(value, str):
        return _whole(value, notes, line)
    if isinstance(value, list):
        return [_without_surrogates(item, notes, line) for item in value]
    if isinstance(value, dict):
        return {_whole(key, notes, line): _without_surrogates(item, notes, line) for key, item in value.items()}
    return value


def _whole(text: str, notes: Notes, line: int) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        notes.repair("lone surrogates were replaced by U+FFFD", line)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
