"""List a project's files: globs, and what git ignores.

Without git or a repository, only `.git` itself is ignored.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from itertools import islice
from pathlib import Path

from infold.agent.git import GitFailed, open_read_only

# Globs.

_BRACES = re.compile(r"\{([^{}]*)\}")
_ANY = re.compile(".", re.DOTALL)

LONGEST_GLOB = 1_000
"""Characters of a glob; a longer one is a mistake."""

MOST_GLOBS = 64
"""Globs that a glob with braces may expand to."""


def expand_braces(glob: str) -> tuple[str, ...]:
    """Return the globs that a glob with braces expands to."""
    globs = [glob]
    while len(globs) < MOST_GLOBS and (found := next(filter(None, map(_BRACES.search, globs)), None)):
        at, before, after = globs.index(found.string), found.string[: found.start()], found.string[found.end() :]
        globs[at : at + 1] = [before + choice + after for choice in found.group(1).split(",")]
    return tuple(globs[:MOST_GLOBS])


def anchor_glob(glob: str) -> str:
    """Return a glob from the folder that is searched: one without a slash matches names at any depth."""
    return glob.removeprefix("./").lstrip("/") if "/" in glob else f"**/{glob}"


def exclusion_globs(glob: str) -> tuple[str, ...]:
    """Return the globs of what a glob with an exclamation mark excludes: a folder with everything in it."""
    every = [anchor_glob(one.rstrip("/")) for one in expand_braces(glob.removeprefix("!")) if one.rstrip("/")]
    return tuple(meant for one in every for meant in (one, f"{one}/**"))


class Glob:
    """Match paths below a folder; a glob that begins with `!` matches all others.

    Paths are matched folder by folder, so that no glob takes longer than its length times that of the path: a regular expression
    with many `.*` would, and models write such globs.
    """

    def __init__(self, glob: str) -> None:
        self._is_negated = glob.startswith("!")
        globs = exclusion_globs(glob) if self._is_negated else map(anchor_glob, expand_braces(glob))
        self._patterns = [_compile(one) for one in globs]

    def matches(self, path: str) -> bool:
        """Return whether a path matches; all ways to match it are followed at once."""
        parts = path.split("/")
        return any(_matches(parts, steps) for steps in self._patterns) is not self._is_negated


def _compile(glob: str) -> list[re.Pattern[str] | None]:
    """Return one expression for each folder on the way; `None` stands for any number of folders."""
    steps = [None if piece == "**" else re.compile(translate(piece)) for piece in glob.split("/")]
    return [*steps, _ANY] if steps[-1] is None else steps  # what is in a folder, not the folder itself


def _matches(parts: Sequence[str], steps: Sequence[re.Pattern[str] | None]) -> bool:
    at = _skip_folders({0}, steps)
    for part in parts:
        taken = {step for step in at if step < len(steps) and steps[step] is None}
        taken |= {step + 1 for step in at if step < len(steps) and (one := steps[step]) is not None and one.match(part)}
        at = _skip_folders(taken, steps)
    return len(steps) in at


def _skip_folders(at: set[int], steps: Sequence[re.Pattern[str] | None]) -> set[int]:
    """Return the steps that can be next: any number of folders may be zero."""
    found = set(at)
    for step in range(len(steps)):
        if step in found and steps[step] is None:
            found.add(step + 1)
    return found


# What git ignores.

MOST_WALKED = 100_000
"""Files that are listed without a repository."""

BROKEN = 128
"""The exit status of git for what it cannot read, such as an index that is stored in parts."""


def is_ignored(folder: Path) -> bool:
    """Return whether git ignores a folder as a whole."""
    return _git(folder, "check-ignore", "-q", "--", ".") is not None


def ignored_names(names: Sequence[str], folder: Path) -> frozenset[str]:
    """Return those of a folder's names that git ignores; none if it ignores the folder itself."""
    if not names or is_ignored(folder):
        return frozenset()
    given = os.fsencode("\0".join(f"./{name}" for name in names))
    found = os.fsdecode(_git(folder, "check-ignore", "-z", "--stdin", given=given) or b"")
    return frozenset(path.removeprefix("./") for path in found.split("\0") if path)


def list_files(folder: Path) -> Iterator[str]:
    """Yield the files below a folder, as paths from it, in order, without those that git ignores unless it ignores the folder."""
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    output = None if is_ignored(folder) else _git(folder, *listing)
    if output is None:
        yield from islice(_walk(folder), MOST_WALKED)
    else:
        yield from sorted({path for path in os.fsdecode(output).split("\0") if path})


def _git(folder: Path, *words: str, given: bytes = b"") -> bytes | None:
    """Return what git prints about a folder, with `given` on its standard input; `None` if it fails or without a repository.

    If git cannot read the project's index, it runs without: then files that are tracked and ignored count as ignored.
    """
    for with_index in (True, False):
        with open_read_only(folder, with_index=with_index) as git:
            if git is None:
                return None
            try:
                return git.run(*words, given=given)
            except GitFailed as error:
                if error.status != BROKEN:
                    return None
    return None


def _walk(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        yield from (os.path.relpath(Path(place) / name, folder) for name in sorted(names))
