"""Write sessions in another format, and files that are never half written."""

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from infold.cli.render import to_json
from infold.core.messages import SystemMessage, text_of
from infold.transcripts.infold_log import to_log
from infold.transcripts.record import RecordedSession
from infold.transcripts.write import to_anthropic, to_markdown, to_openai_chat
from infold.transcripts.write_opencode import to_opencode

OUTPUT_FORMATS = ("openai", "anthropic", "markdown", "jsonl", "opencode")


def encode_sessions(output_format: str, sessions: Sequence[RecordedSession]) -> bytes:
    """Return sessions in a format; a request holds the first of them."""
    match output_format:
        case "openai":
            return to_json({"messages": to_openai_chat(sessions[0])})
        case "anthropic":
            return to_json(to_anthropic(_with_system_apart(sessions[0])))
        case "markdown":
            return "\n".join(to_markdown(session) for session in sessions).encode()
        case "opencode":
            return to_json(to_opencode(sessions[0]))
        case _:
            return to_log(sessions)


def write_output(content: bytes, output: Path | None, *, source: Path, force: bool) -> None:
    """Write to a file and say so on stderr, or to stdout if none is named or it is `-`."""
    if output is None or str(output) == "-":
        click.echo(content, nl=False)
        return
    write_file(output, content, source=source, force=force)
    click.echo(f"written to {output}", err=True)


def write_file(path: Path, content: bytes, *, source: Path, force: bool) -> None:
    """Write a file whole or not at all: under another name first, which is then replaced. Devices are written directly.

    Never overwrite the `source`, and another file only with `force`; raise `ClickException` otherwise.
    """
    place = path.resolve()
    if path.exists() and not place.is_file() and not place.is_dir():  # /dev/null, /dev/stdout, a pipe
        path.write_bytes(content)
        return
    _check_overwrite(path, place, source, force=force)
    partial = place.with_name(f".{place.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if place.exists():
            partial.chmod(stat.S_IMODE(place.stat().st_mode))
        partial.replace(place)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}; choose another place with -o") from error
    finally:
        partial.unlink(missing_ok=True)


def _check_overwrite(path: Path, place: Path, source: Path, *, force: bool) -> None:
    if not place.exists():
        return
    if place.samefile(source):
        raise click.ClickException(f"{path} is the input file and is never overwritten; name another with -o")
    if not place.is_file():
        raise click.ClickException(f"{path} is a folder; name a file with -o")
    if not force:
        raise click.ClickException(f"{path} exists; add --force to overwrite it, or name another file with -o")


def _with_system_apart(session: RecordedSession) -> RecordedSession:
    """Move system messages at the start of a session into its system prompt, where Anthropic expects them."""
    messages = session.messages
    count = next((n for n, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    texts = [session.system, *map(text_of, messages[:count])]
    return replace(session, system="\n\n".join(text for text in texts if text), messages=messages[count:])
