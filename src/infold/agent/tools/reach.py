"""What the words of a command reach: files outside the project, files of secrets, files that run later.

Every word that names a path is resolved where the command runs, links followed, and globs, braces, `~` and variables replaced as
the shell does. What a program builds by itself is not seen.
"""

import os
import re
from collections.abc import Iterable, Iterator
from glob import iglob
from itertools import islice
from pathlib import Path

from msgspec import Struct

from infold.agent.tools.commands import Simple, Word, simple_commands, taken_apart, words_in
from infold.agent.tools.globs import MOST_GLOBS, without_braces
from infold.agent.tools.paths import is_inside, is_run_later, located, named
from infold.agent.tools.secret_files import is_secret
from infold.agent.tools.tool import ToolFailed, Workplace

SHELLS_OWN = frozenset({"0", "_", "OLDPWD", "BASH", "BASH_SOURCE", "BASH_ARGV0", "DIRSTACK"})
"""Variables with paths that only the shell knows."""

HARMLESS = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")
MOST_FOLDERS, MOST_MATCHES, LONGEST_WORD = 8, 2_000, 4_096

READERS = frozenset(
    {
        *(
            "cat",
            "head",
            "tail",
            "less",
            "more",
            "wc",
            "ls",
            "stat",
            "file",
            "diff",
            "cmp",
            "grep",
            "egrep",
            "fgrep",
            "rg",
        ),
        *("nl", "od", "xxd", "tree", "du", "test", "[", "cd", "source", ".", "echo", "md5sum", "sha256sum", "basename"),
        *("dirname", "realpath", "readlink", "jq", "yq", "cut", "column", "bat", "git", "shellcheck", "actionlint"),
    }
)
"""Programs that do not change the files they are given, unless their output goes to one; git refuses to write into `.git`."""

_GLOB = re.compile(r"[*?\[]")
_VARIABLE = re.compile(r"\$(\w+)")
_RANGE = re.compile(r"\{[^{}]*\.\.[^{}]*\}")
_PARTS = re.compile(r"[=:@]")


class Reach(Struct, frozen=True):
    """What a command reaches: something outside the project, a file of secrets, a file that runs later and that it may change."""

    outside: bool = False
    secret: bool = False
    later: bool = False


def reach_of(command: str, folder: Path, workplace: Workplace) -> Reach:
    """Return what a command that is run in a folder reaches."""
    simple = simple_commands(command)
    folders = _folders(simple, folder, workplace)
    is_plain = taken_apart(command).plain
    reached = [
        _reached(word, one, base, workplace, reads=is_plain and one.program in READERS)
        for one in simple
        for word in one.words
        for base in folders
    ]
    goes_home = any(one.program in ("cd", "pushd") and not one.words for one in simple)
    by_sight = any(_leads_out(word, folder, workplace) for word in words_in(command))
    return Reach(
        outside=goes_home or by_sight or any(one.outside for one in reached),
        secret=any(one.secret for one in reached),
        later=any(one.later for one in reached),
    )


def _folders(simple: Iterable[Simple], folder: Path, workplace: Workplace) -> list[Path]:
    """Where the pieces of a command may run: in its folder, and in those that it changes to."""
    found = [folder]
    for word in (word for one in simple if one.program in ("cd", "pushd") for word in one.words):
        for base in tuple(found):
            place = _located(word.text, base, workplace)
            if place is not None and place not in found and place.is_dir() and len(found) < MOST_FOLDERS:
                found.append(place)
    return found


def _reached(word: Word, of: Simple, folder: Path, workplace: Workplace, *, reads: bool) -> Reach:
    if _is_unknown(word, moves=of.program in ("cd", "pushd")):
        return Reach(outside=True)
    texts = list(_texts(word, folder))
    if any(_leads_out(text, folder, workplace) for text in texts):
        return Reach(outside=True)
    places = {place for text in texts for place in _places(text, folder, workplace, word)}
    inside = [place for place in places if is_inside(place, workplace)]
    return Reach(
        outside=len(inside) < len(places),
        secret=any(is_secret(named(place, workplace)) and os.path.lexists(place) for place in inside),
        later=not reads and any(is_run_later(place, workplace) for place in inside),
    )


def _is_unknown(word: Word, *, moves: bool) -> bool:
    """Whether only the shell knows where a word leads: an earlier folder, a variable of its own, another user's home, a range, or
    more choices than are worth trying."""
    text = word.text
    if len(text) > LONGEST_WORD or (moves and text == "-"):
        return True
    if not word.live:
        return False
    every = without_braces(text)
    own = (moves or "/" in text) and any(name in SHELLS_OWN for one in every for name in _VARIABLE.findall(one))
    parts = (part for one in every for part in _PARTS.split(one))
    elsewhere = any(part.startswith("~") and part[1:2] not in ("", "/") for part in parts)
    return own or elsewhere or len(every) == MOST_GLOBS or _RANGE.search(text) is not None


def _texts(word: Word, folder: Path) -> Iterator[str]:
    """The paths that a word may hold: itself, what stands behind `=`, `:` or `@`, and the value joined to an option.

    As in a shell, braces come before variables, and a variable that is not set is empty.
    """
    known = {**os.environ, "PWD": str(folder)}
    for choice in without_braces(word.text) if word.live else (word.text,):
        text = _VARIABLE.sub(lambda found: known.get(found[1], ""), choice) if word.live else choice
        parts = (text, *_PARTS.split(text)) if _PARTS.search(text) else (text,)
        joined = (text[text.index("/") :],) if text.startswith("-") and "/" in text else ()
        yield from (part for part in (*parts, *joined) if part and "\0" not in part)


def _places(text: str, folder: Path, workplace: Workplace, word: Word) -> Iterator[Path]:
    """Where a text leads, links followed; every match of a glob, as far as its fixed beginning is inside the project."""
    if text in HARMLESS:
        return
    glob = _GLOB.search(text) if word.live else None
    if glob is None:
        place = _located(text, folder, workplace)
        if place is not None and (is_inside(place, workplace) or not text.startswith(("/", "~"))):
            yield place
        return
    fixed = text[: glob.start()].rpartition("/")[0] or ("/" if text.startswith("/") else "")
    base = _located(fixed, folder, workplace)
    if base is None or not base.exists():
        return
    yield base
    if is_inside(base, workplace):
        matches = iglob(text, root_dir=folder)  # noqa: PTH207 (a shell's rules: `*` matches no leading dot)
        yield from (Path(os.path.realpath(folder / match)) for match in islice(matches, MOST_MATCHES))


def _located(text: str, folder: Path, workplace: Workplace) -> Path | None:
    try:
        return located(str(folder / Path(text).expanduser()), workplace)
    except (ToolFailed, RuntimeError, OSError, ValueError):
        return None


def _leads_out(text: str, folder: Path, workplace: Workplace) -> bool:
    """Whether a text is spelt as a path outside the project, and something is there; what only looks like one is let be."""
    if not (text.startswith(("/", "~")) or ".." in text) or text in HARMLESS or len(text) > LONGEST_WORD:
        return False
    place = _located(text, folder, workplace)
    if place is None or is_inside(place, workplace):
        return False
    beside = place.parent
    return os.path.lexists(place) or (beside != Path(beside.anchor) and os.path.lexists(beside))
