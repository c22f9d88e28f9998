"""Write what a verb made: in one of five shapes, and to a file that is never half written."""

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from infold.core.messages import SystemMessage, text_of
from infold.transcripts.infold_log import to_log
from infold.transcripts.record import RecordedSession
from infold.transcripts.write import to_anthropic, to_markdown, to_openai_chat
from infold.transcripts.write_opencode import to_opencode

SHAPES = ("openai", "anthropic", "markdown", "jsonl", "opencode")


def in_shape(shape: str, sessions: Sequence[RecordedSession]) -> bytes:
    """Sessions in the shape asked for; a request holds one, so it is made of the first."""
    match shape:
        case "openai":
            return json_bytes({"messages": to_openai_chat(sessions[0])})
        case "anthropic":
            return json_bytes(to_anthropic(_with_system_apart(sessions[0])))
        case "markdown":
            return "\n".join(to_markdown(session) for session in sessions).encode()
        case "opencode":
            return json_bytes(to_opencode(sessions[0]))
        case _:
            return to_log(sessions)


def json_bytes(value: Any) -> bytes:
    """A value as JSON for people and programs, with a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def write_file(path: Path, content: bytes, *, source: Path, force: bool) -> None:
    """Put content at a path, whole or not at all: it is written to another file and then moved into place.

    A device or a pipe is written to as it is.

    Never over the file that was read; over another only if `force` says so. Raises a `ClickException` that says why not.
    """
    place = path.resolve()
    if path.exists() and not place.is_file() and not place.is_dir():  # /dev/null, /dev/stdout, a pipe
        path.write_bytes(content)
        return
    _refuse(path, place, source, force=force)
    beside = place.with_name(f".{place.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if place.exists():
            beside.chmod(stat.S_IMODE(place.stat().st_mode))
        beside.replace(place)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}; choose another place with -o") from error
    finally:
        beside.unlink(missing_ok=True)


def _refuse(path: Path, place: Path, source: Path, *, force: bool) -> None:
    if not place.exists():
        return
    if place.samefile(source):
        raise click.ClickException(f"{path} is the file that was read and is never overwritten; name another with -o")
    if not place.is_file():
        raise click.ClickException(f"{path} is a folder; name a file with -o")
    if not force:
        raise click.ClickException(f"{path} exists; add --force to overwrite it, or name another file with -o")


def _with_system_apart(session: RecordedSession) -> RecordedSession:
    """System messages that open the session go into its system prompt, where Anthropic wants them."""
    messages = session.messages
    count = next((n for n, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    texts = [session.system, *map(text_of, messages[:count])]
    return replace(session, system="\n\n".join(text for text in texts if text), messages=messages[count:])
