"""What tools did, in short: results folded to a line or two, and the lines that an edit changed."""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from infold.agent.events import Answered, Called
from infold.cli.render import counted, legible, one_line
from infold.transcripts.source import is_database_in_use

MOST_CHANGES = 12
"""Lines of a difference that are shown of one edit."""

MOST_COMPARED = 200_000
"""Characters of a text that is compared with another."""

MOST_KEPT = 200
"""Results of a chat that can be shown again by their number; all are in the session."""


class Done(Struct, frozen=True):
    """A call and its result; `number` counts the results of this chat."""

    number: int
    called: Called
    answered: Answered
    before: str = ""


class Results:
    """The results of this chat, the newest of them by number."""

    def __init__(self) -> None:
        self._calls: dict[str, Called] = {}
        self._before: dict[str, str] = {}
        self._kept: dict[int, Done] = {}
        self._count = 0

    def call(self, called: Called, before: str = "") -> None:
        """A tool is about to be run; `before` is the file it may change."""
        self._calls[called.call_id] = called
        self._before[called.call_id] = before

    def answer(self, answered: Answered) -> Done:
        """A tool has answered."""
        self._count += 1
        unknown = Called(answered.call_id, answered.tool, "", "")
        called = self._calls.pop(answered.call_id, unknown)
        done = Done(self._count, called, answered, self._before.pop(answered.call_id, ""))
        self._kept[done.number] = done
        self._kept.pop(done.number - MOST_KEPT, None)
        return done

    def find(self, number: int | None = None) -> Done | None:
        """The result of that number, or the newest."""
        return self._kept.get(self._count if number is None else number)


def folded(done: Done, width: int) -> tuple[str, ...]:
    """A result in a line or two: how it begins, how much more there is, and what opens it."""
    answered = done.answered
    lines = [line for line in answered.output.splitlines() if line.strip()]
    first = one_line(lines[0], width) if lines else "(nothing)"
    status = f"exit status {answered.exit_status}" if answered.exit_status else ""
    took = f"{answered.duration_ms / 1000:.1f} s" if answered.duration_ms >= 1_000 else ""
    more = counted(len(lines) - 1, "more line") if len(lines) > 1 else ""
    is_cut = bool(lines) and len(" ".join(lines[0].split())) > width
    opens = f"/show {done.number}" if more or is_cut else ""
    second = ", ".join(filter(None, (more, status, took, opens)))
    return (first, second) if second else (first,)


def replaced_by(called: Called, root: Path) -> str:
    """The file that a call replaces, as it is now; empty where it is not there or no text."""
    path = path_in(called) if called.tool == "write" else ""
    try:
        place = root / path
        is_small = bool(path) and place.is_file() and place.stat().st_size <= MOST_COMPARED
        return place.read_text("utf-8") if is_small and not is_database_in_use(place) else ""
    except (OSError, ValueError):
        return ""


def path_in(called: Called) -> str:
    """The file that a call would change; empty where it changes none that can be told."""
    return _field(called, "path") if called.tool in ("edit", "write") else ""


def changes_in(done: Done) -> tuple[str, ...]:
    """The lines that an edit changed, marked `+`, `-` or with a space; the numbers are left out where they are not known."""
    if done.answered.status != "completed":
        return ()
    match done.called.tool:
        case "edit":
            return tuple(_difference(_field(done.called, "old"), _field(done.called, "new")))
        case "write":
            return tuple(_difference(done.before, _field(done.called, "content")))
        case _:
            return ()


def _difference(before: str, after: str) -> Iterator[str]:
    """Two texts beside each other, line by line, without the heading of a patch."""
    if max(len(before), len(after)) > MOST_COMPARED:
        return
    lines: Sequence[str] = list(unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))
    for line in islice(lines, 2, None):
        if not line.startswith("@@"):
            yield legible(line[:1] + line[1:].expandtabs(4))


def _field(called: Called, name: str) -> str:
    """A text among a call's arguments; empty where there is none."""
    try:
        arguments = msgspec.json.decode(called.arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return ""
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else ""
