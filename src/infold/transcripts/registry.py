"""The transcript formats: how one is recognised, and how a transcript is read.

Content decides; the file's name is only a hint if content does not. `read_transcript` is the one function of this
package that opens a file.
"""

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from infold.errors import BrokenInput, UnknownFormat
from infold.transcripts import (
    aider,
    claude_code,
    codex,
    copilot_cli,
    gemini_cli,
    infold_log,
    inspect_log,
    langgraph,
    mini_swe_agent,
    opencode,
    openhands,
    pi,
    specstory,
    sse_replay,
    swe_agent,
    tau,
)
from infold.transcripts.record import RecordedSession, Transcript, import_session
from infold.transcripts.source import BOUNDS, Bounds, Head, Progress, Source, open_file

Read: TypeAlias = Callable[[Source], list[RecordedSession]]


class _Format(NamedTuple):
    name: str
    recognises: Callable[[Head], bool]
    read: Read
    file_names: tuple[str, ...] = ()


OWN = "infold"
"""The format whose records need no import: their summaries are marked in fields already."""


LINES = (
    _Format(OWN, infold_log.recognises, infold_log.read),
    _Format("claude-code", claude_code.recognises, claude_code.read),
    _Format("codex", codex.recognises, codex.read, ("rollout-*.jsonl",)),
    _Format("copilot-cli", copilot_cli.recognises, copilot_cli.read),
    _Format("pi", pi.recognises, pi.read),
    _Format("openhands-events", openhands.recognises_lines, openhands.read_lines),
    _Format("gemini-cli", gemini_cli.recognises_lines, gemini_cli.read_lines),
    _Format("aider", aider.recognises, aider.read, ("*.aider.chat.history.md", "*.chat.md")),
    _Format("specstory", specstory.recognises, specstory.read, ("*.specstory*.md",)),
    _Format("sse-replay", sse_replay.recognises, sse_replay.read),
)
"""Read line by line: only the first lines are needed to recognise them."""


DOCUMENTS = (
    _Format("opencode", opencode.recognises, opencode.read),
    _Format("gemini-cli", gemini_cli.recognises, gemini_cli.read),
    _Format("tau", tau.recognises, tau.read),
    _Format("tau2", tau.recognises_simulations, tau.read_simulations),
    _Format("openhands-completion", openhands.recognises_completion, openhands.read_completion),
    _Format("openhands-events", openhands.recognises, openhands.read),
    _Format("mini-swe-agent", mini_swe_agent.recognises, mini_swe_agent.read, ("*.traj.json",)),
    _Format("swe-agent", swe_agent.recognises, swe_agent.read, ("*.traj",)),
    _Format("inspect", inspect_log.recognises, inspect_log.read),
    _Format("langgraph", langgraph.recognises, langgraph.read),
)
"""One JSON document, recognised by its keys, so the whole is decoded first."""


FORMAT_NAMES: tuple[str, ...] = tuple(dict.fromkeys(form.name for form in (*LINES, *DOCUMENTS)))


def read_transcript(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002 - the word users say
    progress: Progress | None = None,
    bounds: Bounds = BOUNDS,
) -> Transcript:
    """Read a recorded session file, gzip-compressed or not; lines are streamed, never held all at once.

    Raise `UnknownFormat` if no format recognises it, `BrokenInput` if nothing in it can be read.
    """
    with open_file(path) as stream:
        size = path.stat().st_size
        return _read(Source(stream, name=path.name, total_bytes=size, bounds=bounds, progress=progress), format)


def read_bytes(data: bytes, *, name: str, format: str | None = None, bounds: Bounds = BOUNDS) -> Transcript:  # noqa: A002
    """Read a transcript from bytes; `name` is used in messages, and as a hint if the content is not recognised."""
    return _read(Source(io.BytesIO(data), name=name, total_bytes=len(data), bounds=bounds), format)


def _read(source: Source, asked: str | None) -> Transcript:
    head = source.head()
    form = _recognise(head) if asked is None else _format_named(asked, head)
    sessions = form.read(source)
    if not sessions:
        raise BrokenInput(
            form.name, f"{source.name} holds no message", remedy="check the file, or name another --format"
        )
    if form.name != OWN:
        sessions = [import_session(session) for session in sessions]
    return Transcript(form.name, _with_unique_ids(sessions), source.issues.skipped())


def _with_unique_ids(sessions: list[RecordedSession]) -> tuple[RecordedSession, ...]:
    """Return the sessions with a number appended to an id that occurs again."""
    seen: Counter[str] = Counter()
    own: list[RecordedSession] = []
    for session in sessions:
        seen[session.id] += 1
        again = seen[session.id]
        own.append(session if again == 1 else replace(session, id=f"{session.id}#{again}"))
    return tuple(own)


def _recognise(head: Head) -> _Format:
    for form in LINES:
        if form.recognises(head):
            return form
    hinted = _by_name(head)
    try:
        found = next((form for form in DOCUMENTS if form.recognises(head)), None)
    except BrokenInput:
        if head.begins_with_record and hinted is None:  # JSON lines, and not of an agent that is known
            raise _unknown(head) from None
        raise
    if found or hinted:
        return found or hinted  # type: ignore[return-value]  # one of the two is a format
    raise _unknown(head)


def _by_name(head: Head) -> _Format | None:
    name = Path(head.name.removesuffix(".gz"))
    return next((form for form in (*LINES, *DOCUMENTS) if any(map(name.match, form.file_names))), None)


def _format_named(asked: str, head: Head) -> _Format:
    """Return the format of that name; of two shapes, the one that recognises the input."""
    shapes = [form for form in (*LINES, *DOCUMENTS) if form.name == asked]
    if not shapes:
        raise UnknownFormat(f"{asked!r}", tried=FORMAT_NAMES, remedy="name one of these with --format NAME")
    lines = [form for form in shapes if form in LINES]
    fitting = [form for form in lines if form.recognises(head)]
    return (fitting or [form for form in shapes if form in DOCUMENTS] or shapes)[0]


def _unknown(head: Head) -> UnknownFormat:
    return UnknownFormat(
        head.name, tried=FORMAT_NAMES, remedy="say which it is with --format NAME, or convert it to one of these"
    )
