"""What git knows of a folder: whether it is in a repository, and which of its files are ignored.

Where there is no git, or no repository, nothing is ignored but `.git` itself.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which

from infold.agent.tools.processes import Ran, run_process

__all__ = ["GIT", "files_below", "ignored_among", "is_ignored", "is_in_repository"]

GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
"""How git is called: without the program that a repository's own settings may name."""

LIMIT_SECONDS = 30
MOST_ASKED = 500
"""Names that git is asked about at once, since a command line has only so much room."""

MOST_WALKED = 100_000
"""Files that are looked at where there is no repository."""

_FREE = re.compile(r"::\t|[^\t]*:\d+:!")
"""How git begins a line about a path that is not ignored: no rule is about it, or the last one takes it in again."""


def is_in_repository(folder: Path) -> bool:
    """Whether git can speak for a folder."""
    return which("git") is not None and any((place / ".git").exists() for place in (folder, *folder.parents))


def is_ignored(folder: Path) -> bool:
    """Whether git ignores a folder as a whole."""
    return is_in_repository(folder) and _git(("check-ignore", "-q", "--", "."), folder).exit_status == 0


def ignored_among(names: Sequence[str], folder: Path) -> frozenset[str]:
    """Those of a folder's names that git ignores; none where it ignores the folder itself."""
    if not names or not is_in_repository(folder) or is_ignored(folder):
        return frozenset()
    found: set[str] = set()
    for at in range(0, len(names), MOST_ASKED):
        asked = names[at : at + MOST_ASKED]
        ran = _git(("check-ignore", "--verbose", "--non-matching", "--", *(f"./{name}" for name in asked)), folder)
        lines = ran.output.splitlines()
        found.update(name for name, line in zip(asked, lines, strict=False) if not _FREE.match(line))
    return frozenset(found)


def files_below(folder: Path) -> Iterator[str]:
    """The files below a folder, as paths from it, in order; those that git ignores are left out, unless it ignores the folder."""
    if is_in_repository(folder) and not is_ignored(folder):
        ran = _git(("ls-files", "-z", "--cached", "--others", "--exclude-standard"), folder)
        if ran.exit_status == 0:
            yield from sorted({path for path in ran.output.split("\0") if path})
            return
    yield from _walked(folder)


def _git(arguments: Sequence[str], folder: Path) -> Ran:
    return run_process((*GIT, *arguments), folder, limit_seconds=LIMIT_SECONDS, stderr=subprocess.DEVNULL)


def _walked(folder: Path) -> Iterator[str]:
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            seen += 1
            if seen > MOST_WALKED:
                return
            yield os.path.relpath(Path(place) / name, folder)
