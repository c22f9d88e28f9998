"""The edit tool: replace text in a file that must be there exactly, and say what is there instead where it is not."""

import re
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.files import (
    change_action,
    display_path,
    encode_text,
    read_text_file,
    replace_file,
    resolve_path,
)
from infold.agent.tools.read import split_lines
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

LIKE_ENOUGH = 0.6
"""How alike a line must be to the first line of the wanted text to be shown as a near miss."""

MOST_COMPARED = 5_000
"""Lines that are compared one by one; past that a near miss is not worth the time."""

MOST_SHOWN = 12
"""Lines of a near miss, and places of a text that is there more than once, that are told."""

CRLF = "\r\n"
UNREADABLE = "\ufffd"
_NUMBERED = re.compile(r"(?:[ \t]*\d+\t.*(?:\n|$))+")


class EditArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which file, what to look for, what to put in its place."""

    path: str
    old: Annotated[str, Meta(description="Text to replace, exactly as in the file, without line numbers.")]
    new: str
    all: Annotated[bool, Meta(description="Replace every place, not the only one.")] = False


def _action(arguments: EditArguments, workspace: Workspace) -> ActionRequest:
    return change_action("edit", arguments.path, workspace)


def _run(arguments: EditArguments, workspace: Workspace) -> ToolOutput:
    path = resolve_path(arguments.path, workspace)
    name = display_path(path, workspace)
    if not arguments.old:
        raise ToolFailed("old is empty, so there is nothing to replace; give the text, or use write for a whole file")
    if arguments.old == arguments.new:
        raise ToolFailed("old and new are the same, so nothing would change; give what shall stand there instead")
    text = read_text_file(path, workspace).decode("utf-8", "surrogateescape")
    wanted = _pattern(arguments.old)
    places = _places(text, wanted)
    if not places:
        raise ToolFailed(f"old is not in {name}; {_near_miss(text, arguments)}")
    if len(places) > 1 and not arguments.all:
        told = ", ".join(str(line) for line in places[:MOST_SHOWN])
        remedy = "give more of the lines around the one you mean, or set all to change every place"
        raise ToolFailed(f"old is in {name} {len(places)} times, at lines {told}; {remedy}")
    replace_file(path, encode_text(_replaced(text, wanted, arguments)))
    return ToolOutput(f"edited {name} at line {', '.join(map(str, places[:MOST_SHOWN]))}{_more(places)}")


def _pattern(old: str) -> re.Pattern[str]:
    """What finds a text whatever its line ends: a model does not see which a file has, or that it has both."""
    return re.compile(re.escape(old) if CRLF in old else "\r?\n".join(map(re.escape, old.split("\n"))))


def _replaced(text: str, wanted: re.Pattern[str], arguments: EditArguments) -> str:
    """The text with the new one in its places, each with the line ends it has there, or else those of the file; where the old
    text says which it means, the new one does too."""
    if CRLF in arguments.old:
        return wanted.sub(lambda _: arguments.new, text)
    ending, with_crlf = _has_crlf(text), re.sub("(?<!\r)\n", CRLF, arguments.new)

    def as_there(found: re.Match[str]) -> str:
        place = found.group()
        return with_crlf if (_has_crlf(place) if "\n" in place else ending) else arguments.new

    return wanted.sub(as_there, text)


def _has_crlf(text: str) -> bool:
    """Whether most lines of a text end so."""
    return text.count(CRLF) * 2 > text.count("\n")


def _places(text: str, wanted: re.Pattern[str]) -> list[int]:
    """The lines at which a text begins, each place once."""
    starts = [match.start() for match in wanted.finditer(text)]
    breaks = (text.count("\n", begin, end) for begin, end in pairwise([0, *starts]))
    return [1 + before for before in accumulate(breaks)]


def _more(places: list[int]) -> str:
    over = len(places) - MOST_SHOWN
    return f" and {over} more places" if over > 0 else ""


def _near_miss(text: str, arguments: EditArguments) -> str:
    """What to do about a text that is not there: what of it is, or where something like it stands."""
    lines, wanted = split_lines(text), split_lines(arguments.old)
    bare = [line.strip() for line in wanted if line.strip()]
    misread = _misread(text, arguments.old)
    if misread:
        return misread
    spaced = _found(lines, bare)
    if spaced:
        return f"it is there with other spaces or tabs; copy it from here:\n{_quoted(lines, spaced[0], spaced[1])}"
    if arguments.new and arguments.new in text:
        return "but new is there already: this change may have been made before; read the file to see"
    close = _closest(lines, bare)
    if close:
        return f"the closest is this; copy what you mean from here:\n{_quoted(lines, close, close + len(wanted) - 1)}"
    return "read the file and copy the text from there"


def _misread(text: str, old: str) -> str:
    """What a text has from being read that is not in the file; empty where it is none of that."""
    if _NUMBERED.fullmatch(old):
        return "it has the line numbers that read shows; leave them and the tab out"
    if UNREADABLE in old and UNREADABLE not in text:
        return f"{UNREADABLE} is how read shows bytes that are no UTF-8; leave them out of old, or use the shell"
    if old.endswith("\n") and text.replace(CRLF, "\n").endswith(old[:-1]):
        return "it ends the file, which has no line break behind its last line; leave that one out of old"
    return ""


def _found(lines: list[str], bare: list[str]) -> tuple[int, int] | None:
    """The first and last line of a text that is there but for white space around its lines."""
    filled = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    for at in range(len(filled) - len(bare) + 1 if bare else 0):
        if all(filled[at + ahead][1] == line for ahead, line in enumerate(bare)):
            return filled[at][0], filled[at + len(bare) - 1][0]
    return None


def _closest(lines: list[str], bare: list[str]) -> int:
    """The line most like the first of the wanted ones; 0 where none is like it."""
    if not bare:
        return 0
    matcher = SequenceMatcher(b=bare[0], autojunk=False)
    best, score = 0, LIKE_ENOUGH
    for number, line in enumerate(lines[:MOST_COMPARED], 1):
        matcher.set_seq1(line.strip()[:200])
        if matcher.real_quick_ratio() > score and matcher.quick_ratio() > score and matcher.ratio() > score:
            best, score = number, matcher.ratio()
    return best


def _quoted(lines: list[str], first: int, last: int) -> str:
    last = min(last, first + MOST_SHOWN - 1, len(lines))
    return "\n".join(f"{number}\t{lines[number - 1][:400]}" for number in range(first, last + 1))


EDIT = Tool(
    "edit",
    "Replaces text in a file. old must be there exactly once, white space included, unless all is set.",
    EditArguments,
    _action,
    _run,
)
