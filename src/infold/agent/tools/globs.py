"""Globs as models write them: `*.py` for any depth, `src/**/*.ts` from a folder, `*.{js,ts}` for either, `!*.md` for others."""

import re
from collections.abc import Sequence
from fnmatch import translate

_BRACES = re.compile(r"\{([^{}]*)\}")
_ANY = re.compile(".", re.DOTALL)
LONGEST_GLOB = 1_000
"""Characters of a glob; a longer one is a mistake."""

MOST_GLOBS = 64
"""Globs that one with braces may stand for."""


def without_braces(glob: str) -> tuple[str, ...]:
    """The globs that a glob with braces stands for."""
    made = [glob]
    while len(made) < MOST_GLOBS and (found := next(filter(None, map(_BRACES.search, made)), None)):
        at = made.index(found.string)
        made[at : at + 1] = [
            found.string[: found.start()] + choice + found.string[found.end() :] for choice in found.group(1).split(",")
        ]
    return tuple(made[:MOST_GLOBS])


def placed(glob: str) -> str:
    """A glob from the folder that is searched: one without a slash means names at any depth."""
    return glob.removeprefix("./").lstrip("/") if "/" in glob else f"**/{glob}"


def left_out(glob: str) -> tuple[str, ...]:
    """The globs of all that a glob with an exclamation mark leaves out: a folder goes with everything in it."""
    every = [placed(one.rstrip("/")) for one in without_braces(glob.removeprefix("!")) if one.rstrip("/")]
    return tuple(meant for one in every for meant in (one, f"{one}/**"))


class Glob:
    """What a glob means: the paths below a folder that it matches, or all but those.

    Paths are matched folder by folder, so that no glob takes longer than its length times that of the path: a regular expression
    with many `.*` would, and models write such globs.
    """

    def __init__(self, glob: str) -> None:
        self._is_without = glob.startswith("!")
        every = left_out(glob) if self._is_without else map(placed, without_braces(glob))
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
