"""Parse shell commands for permissions: the simple commands in a line, and the files they reach.

This is not a shell parser. It understands `;`, `&&`, `||`, `|`, `&`, line breaks, plain quotes and escapes, and calls everything
else not plain: substitutions, groups, redirections to files, here-documents, comments, joined lines, assignments, `${…}`,
`$'…'`, quotes that do not end. A rule may trust the pieces of a plain command only. The pieces of another are a best guess, good
enough to refuse by.
"""

import os
import re
from collections.abc import Iterable, Iterator
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from infold.agent.tools.files import display_path, is_inside, is_run_later, is_secret, resolve_path
from infold.agent.tools.project_files import MOST_GLOBS, expand_braces
from infold.agent.tools.tool import ToolFailed, Workspace

_TOKEN = re.compile(
    r"""
      (?P<quiet>(?:(?<=[ \t])[0-9])?>(?:&[0-9]|>?[ \t]*/dev/null)(?![^ \t\n;&|]))
    | (?P<joined>\\\n)
    | (?P<literal>\\.|'[^']*'|"(?:[^"\\$`]|\\.|\$(?![({\[]))*")
    | (?P<between>[;&|\n]+)
    | (?P<nested>\$\(|[()`])
    | (?P<unsure>\$['"{\[]|[<>\#'"\\])
    | (?P<rest>(?:[^\\'";&|\n()`$<>\#0-9]|[0-9](?!>))+|.)
    """,
    re.VERBOSE | re.DOTALL,
)


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[|\+?=)")
"""How a piece begins that sets a variable before it names its program: `git= rm x` does not run git."""


_WORD = re.compile(r"[^\s;&|<>()'\"`=]+")


class ParsedCommand(NamedTuple):
    """The simple commands of a line; `plain`: it runs these and nothing else."""

    pieces: tuple[str, ...]
    plain: bool


def parse_command(command: str) -> ParsedCommand:
    """Return the simple commands of a line, in order, without redirections to `/dev/null`."""
    pieces, plain = [""], True
    for token in _TOKEN.finditer(command):
        kind = token.lastgroup
        if kind in ("between", "nested"):
            pieces.append("")
        elif kind in ("literal", "rest", "unsure"):
            pieces[-1] += token.group()
        plain = plain and kind not in ("nested", "unsure", "joined")
    simple = tuple(piece for piece in (piece.strip(" \t") for piece in pieces) if piece)
    return ParsedCommand(simple, plain and not any(map(_ASSIGNMENT.match, simple)))


class ShellWord(NamedTuple):
    """A word without quotes and escapes; `live`: the shell still expands a glob, brace, `~` or `$` in it."""

    text: str
    live: bool


class SimpleCommand(NamedTuple):
    """One simple command: its program and the words after it, including the files of redirections."""

    program: str
    words: tuple[ShellWord, ...]


def simple_commands(command: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a line with their words; a best guess if the line is not plain."""
    found: list[list[ShellWord]] = [[]]
    text, live, has_word, quote, is_escaped = "", False, False, "", False
    for character in f"{command}\n":
        if is_escaped:
            text, has_word, is_escaped = text + character, True, False
        elif character == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            quote = "" if character == quote else quote
            text, live = (text + character if quote else text), live or (character == "$" and quote == '"')
        elif character in "'\"":
            quote, has_word = character, True
        elif character in " \t\n;&|<>()`":
            if has_word:
                found[-1].append(ShellWord(text, live))
                text, live, has_word = "", False, False
            if character in "\n;&|()`" and found[-1]:
                found.append([])
        else:
            text, live, has_word = text + character, live or character in "*?[{~$", True
    return tuple(SimpleCommand(words[0].text, tuple(words[1:])) for words in found if words)


def split_words(command: str) -> tuple[str, ...]:
    """Return the words of a command, without quotes, operators and what stands before a `=`."""
    return tuple(_WORD.findall(command))


SHELL_VARIABLES = frozenset({"0", "_", "OLDPWD", "BASH", "BASH_SOURCE", "BASH_ARGV0", "DIRSTACK"})
"""Variables with paths that only the shell knows."""


DEVICE_FILES = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")


MOST_FOLDERS, MOST_MATCHES, LONGEST_WORD = 8, 2_000, 4_096


READING_PROGRAMS = frozenset(
    {
        *("cat", "head", "tail", "less", "more", "wc", "ls", "stat", "file", "diff", "cmp", "grep", "egrep", "fgrep"),
        *("rg", "nl", "od", "xxd", "tree", "du", "test", "[", "cd", "source", ".", "echo", "md5sum", "sha256sum"),
        *("basename", "dirname", "realpath", "readlink", "jq", "yq", "cut", "column", "bat", "git", "shellcheck"),
        "actionlint",
    }
)
"""Programs that do not change the files they are given, except by a redirection; git refuses to write into `.git`."""


_GLOB = re.compile(r"[*?\[]")


_VARIABLE = re.compile(r"\$(\w+)")


_RANGE = re.compile(r"\{[^{}]*\.\.[^{}]*\}")


_PARTS = re.compile(r"[=:@]")


class CommandReach(Struct, frozen=True):
    """What a command reaches: something outside the project, a file of secrets, a file that runs later and may change."""

    outside: bool = False
    secret: bool = False
    later: bool = False


def command_reach(command: str, folder: Path, workspace: Workspace) -> CommandReach:
    """Return what a command reaches if it runs in a folder."""
    simple = simple_commands(command)
    folders = _folders(simple, folder, workspace)
    is_plain = parse_command(command).plain
    reached = [
        _reached(word, one, base, workspace, reads=is_plain and one.program in READING_PROGRAMS)
        for one in simple
        for word in one.words
        for base in folders
    ]
    goes_home = any(one.program in ("cd", "pushd") and not one.words for one in simple)
    by_sight = any(_leads_out(word, folder, workspace) for word in split_words(command))
    return CommandReach(
        outside=goes_home or by_sight or any(one.outside for one in reached),
        secret=any(one.secret for one in reached),
        later=any(one.later for one in reached),
    )


def _folders(simple: Iterable[SimpleCommand], folder: Path, workspace: Workspace) -> list[Path]:
    """Return where the simple commands may run: in the folder, and in those that the line changes to."""
    found = [folder]
    for word in (word for one in simple if one.program in ("cd", "pushd") for word in one.words):
        for base in tuple(found):
            place = _located(word.text, base, workspace)
            if place is not None and place not in found and place.is_dir() and len(found) < MOST_FOLDERS:
                found.append(place)
    return found


def _reached(word: ShellWord, of: SimpleCommand, folder: Path, workspace: Workspace, *, reads: bool) -> CommandReach:
    if _is_unknown(word, moves=of.program in ("cd", "pushd")):
        return CommandReach(outside=True)
    texts = list(_texts(word, folder))
    if any(_leads_out(text, folder, workspace) for text in texts):
        return CommandReach(outside=True)
    places = {place for text in texts for place in _places(text, folder, workspace, word)}
    inside = [place for place in places if is_inside(place, workspace)]
    return CommandReach(
        outside=len(inside) < len(places),
        secret=any(is_secret(display_path(place, workspace)) and os.path.lexists(place) for place in inside),
        later=not reads and any(is_run_later(place, workspace) for place in inside),
    )


def _is_unknown(word: ShellWord, *, moves: bool) -> bool:
    """Return whether only the shell knows where a word leads.

    Examples: an earlier folder, a variable of its own, another user's home, a range, too many choices in braces.
    """
    text = word.text
    if len(text) > LONGEST_WORD or (moves and text == "-"):
        return True
    if not word.live:
        return False
    every = expand_braces(text)
    own = (moves or "/" in text) and any(name in SHELL_VARIABLES for one in every for name in _VARIABLE.findall(one))
    parts = (part for one in every for part in _PARTS.split(one))
    elsewhere = any(part.startswith("~") and part[1:2] not in ("", "/") for part in parts)
    return own or elsewhere or len(every) == MOST_GLOBS or _RANGE.search(text) is not None


def _texts(word: ShellWord, folder: Path) -> Iterator[str]:
    """Yield the paths that a word may hold: itself, what follows `=`, `:` or `@`, and a value joined to an option.

    As in a shell, braces are expanded before variables, and an unset variable is empty.
    """
    known = {**os.environ, "PWD": str(folder)}
    for choice in expand_braces(word.text) if word.live else (word.text,):
        text = _VARIABLE.sub(lambda found: known.get(found[1], ""), choice) if word.live else choice
        parts = (text, *_PARTS.split(text)) if _PARTS.search(text) else (text,)
        joined = (text[text.index("/") :],) if text.startswith("-") and "/" in text else ()
        yield from (part for part in (*parts, *joined) if part and "\0" not in part)


def _places(text: str, folder: Path, workspace: Workspace, word: ShellWord) -> Iterator[Path]:
    """Yield where a text leads, links followed; every match of a glob if its fixed beginning is inside the project."""
    if text in DEVICE_FILES:
        return
    glob = _GLOB.search(text) if word.live else None
    if glob is None:
        place = _located(text, folder, workspace)
        if place is not None and (is_inside(place, workspace) or not text.startswith(("/", "~"))):
            yield place
        return
    fixed = text[: glob.start()].rpartition("/")[0] or ("/" if text.startswith("/") else "")
    base = _located(fixed, folder, workspace)
    if base is None or not base.exists():
        return
    yield base
    if is_inside(base, workspace):
        matches = iglob(text, root_dir=folder)  # noqa: PTH207 (as in a shell, `*` does not match a leading dot)
        yield from (Path(os.path.realpath(folder / match)) for match in islice(matches, MOST_MATCHES))


def _located(text: str, folder: Path, workspace: Workspace) -> Path | None:
    try:
        return resolve_path(str(folder / Path(text).expanduser()), workspace)
    except (ToolFailed, RuntimeError, OSError, ValueError):
        return None


def _leads_out(text: str, folder: Path, workspace: Workspace) -> bool:
    """Return whether a text is spelt as a path outside the project and it, or its folder, exists."""
    if not (text.startswith(("/", "~")) or ".." in text) or text in DEVICE_FILES or len(text) > LONGEST_WORD:
        return False
    place = _located(text, folder, workspace)
    if place is None or is_inside(place, workspace):
        return False
    parent = place.parent
    return os.path.lexists(place) or (parent != Path(parent.anchor) and os.path.lexists(parent))
