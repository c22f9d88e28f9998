"""What git knows of a folder: whether it is in a repository, and which of its files are ignored.

Where there is no git, or no repository, nothing is ignored but `.git` itself.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from pathlib import Path

from infold.agent.git import GitFailed, open_read_only

_BRACES = re.compile(r"\{([^{}]*)\}")


_ANY = re.compile(".", re.DOTALL)


LONGEST_GLOB = 1_000
"""Characters of a glob; a longer one is a mistake."""


MOST_GLOBS = 64
"""Globs that one with braces may stand for."""


def expand_braces(glob: str) -> tuple[str, ...]:
    """The globs that a glob with braces stands for."""
    made = [glob]
    while len(made) < MOST_GLOBS and (found := next(filter(None, map(_BRACES.search, made)), None)):
        at = made.index(found.string)
        made[at : at + 1] = [
            found.string[: found.start()] + choice + found.string[found.end() :] for choice in found.group(1).split(",")
        ]
    return tuple(made[:MOST_GLOBS])


def anchor_glob(glob: str) -> str:
    """A glob from the folder that is searched: one without a slash means names at any depth."""
    return glob.removeprefix("./").lstrip("/") if "/" in glob else f"**/{glob}"


def exclusion_globs(glob: str) -> tuple[str, ...]:
    """The globs of all that a glob with an exclamation mark leaves out: a folder goes with everything in it."""
    every = [anchor_glob(one.rstrip("/")) for one in expand_braces(glob.removeprefix("!")) if one.rstrip("/")]
    return tuple(meant for one in every for meant in (one, f"{one}/**"))


class Glob:
    """What a glob means: the paths below a folder that it matches, or all but those.

    Paths are matched folder by folder, so that no glob takes longer than its length times that of the path: a regular expression
    with many `.*` would, and models write such globs.
    """

    def __init__(self, glob: str) -> None:
        self._is_without = glob.startswith("!")
        every = exclusion_globs(glob) if self._is_without else map(anchor_glob, expand_braces(glob))
        self._meant = [_steps(one) for one in every]

    def matches(self, path: str) -> bool:
        """Whether a path is meant."""
        parts = path.split("/")
        return any(_fits(parts, steps) for steps in self._meant) is not self._is_without


def _steps(glob: str) -> list[re.Pattern[str] | None]:
    """A glob as one expression for each folder on the way; `None` stands for any number of folders."""
    steps = [None if piece == "**" else re.compile(translate(piece)) for piece in glob.split("/")]
    return [*steps, _ANY] if steps[-1] is None else steps  # what is in a folder, not the folder itself


def _fits(parts: Sequence[str], steps: Sequence[re.Pattern[str] | None]) -> bool:
    """Whether the parts of a path take all steps; all ways to do so are followed at once."""
    at = _onwards({0}, steps)
    for part in parts:
        taken = {step for step in at if step < len(steps) and steps[step] is None}
        taken |= {step + 1 for step in at if step < len(steps) and (one := steps[step]) is not None and one.match(part)}
        at = _onwards(taken, steps)
    return len(steps) in at


def _onwards(at: set[int], steps: Sequence[re.Pattern[str] | None]) -> set[int]:
    """The steps that can be next: any number of folders may be none."""
    found = set(at)
    for step in range(len(steps)):
        if step in found and steps[step] is None:
            found.add(step + 1)
    return found


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


def ignored_names(names: Sequence[str], folder: Path) -> frozenset[str]:
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


def list_files(folder: Path) -> Iterator[str]:
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
        with open_read_only(folder, with_index=with_index) as git:
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
