"""Globs as models write them: `*.py` for any depth, `src/**/*.ts` from a folder, `*.{js,ts}` for either, `!*.md` for others."""

import re

__all__ = ["MOST_GLOBS", "glob_pattern", "left_out", "placed", "without_braces"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_PIECE = re.compile(r"(?P<deep>\*\*/?)|(?P<any>\*)|(?P<one>\?)|(?P<of>\[!?[^\]/]+\])|(?P<plain>.)", re.DOTALL)
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


def glob_pattern(glob: str) -> re.Pattern[str]:
    """What matches the paths below a folder that a glob means, or all but those."""
    is_without = glob.startswith("!")
    every = left_out(glob) if is_without else map(placed, without_braces(glob))
    meant = "|".join("".join(map(_translated, _PIECE.finditer(one))) for one in every)
    return re.compile(f"(?!(?:{meant})$).+" if is_without else meant, re.DOTALL)


def _translated(piece: re.Match[str]) -> str:
    text = piece.group()
    match piece.lastgroup:
        case "deep":
            return "(?:.*/)?" if text.endswith("/") else ".*"
        case "any":
            return "[^/]*"
        case "one":
            return "[^/]"
        case "of":
            return _class_of(text[1:-1])
        case _:
            return re.escape(text)


def _class_of(inside: str) -> str:
    """A class of characters; ranges stay ranges."""
    escaped = re.escape(inside.removeprefix("!")).replace("\\-", "-")
    return f"[{'^' if inside.startswith('!') else ''}{escaped}]"
