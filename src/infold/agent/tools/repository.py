"""What git knows of a folder: whether it is in a repository, and which of its files are ignored.

Where there is no git, or no repository, nothing is ignored but `.git` itself.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from infold.agent.git import GitFailed, reading_git

MOST_ASKED = 500
"""Names that git is asked about at once, since a command line has only so much room."""

MOST_WALKED = 100_000
"""Files that are looked at where there is no repository."""

BROKEN = 128
"""The exit status of git for what it cannot read, such as an index with parts that are kept elsewhere."""

_FREE = re.compile(r"::\t|[^\t]*:\d+:!")
"""How git begins a line about a path that is not ignored: no rule is about it, or the last one takes it in again."""


def is_ignored(folder: Path) -> bool:
    """Whether git ignores a folder as a whole."""
    return _git(folder, "check-ignore", "-q", "--", ".") is not None


def ignored_among(names: Sequence[str], folder: Path) -> frozenset[str]:
    """Those of a folder's names that git ignores; none where it ignores the folder itself."""
    if not names or is_ignored(folder):
        return frozenset()
    found: set[str] = set()
    for at in range(0, len(names), MOST_ASKED):
        asked = names[at : at + MOST_ASKED]
        said = _git(folder, "check-ignore", "--verbose", "--non-matching", "--", *(f"./{name}" for name in asked))
        lines = (said or "").splitlines()
        found.update(name for name, line in zip(asked, lines, strict=False) if not _FREE.match(line))
    return frozenset(found)


def files_below(folder: Path) -> Iterator[str]:
    """The files below a folder, as paths from it, in order; those that git ignores are left out, unless it ignores the folder."""
    said = None if is_ignored(folder) else _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if said is None:
        yield from _walked(folder)
    else:
        yield from sorted({path for path in said.split("\0") if path})


def _git(folder: Path, *words: str) -> str | None:
    """What git says of a folder; none where it fails or there is no repository.

    Without the project's index where git cannot read that: then files that are tracked and ignored count as ignored.
    """
    for with_index in (True, False):
        with reading_git(folder, with_index=with_index) as git:
            if git is None:
                return None
            try:
                return git.run(*words).decode("utf-8", "replace")
            except GitFailed as error:
                if error.status != BROKEN:
                    return None
    return None


def _walked(folder: Path) -> Iterator[str]:
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            seen += 1
            if seen > MOST_WALKED:
                return
            yield os.path.relpath(Path(place) / name, folder)
