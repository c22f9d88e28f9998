"""The tools that change files: write writes a whole one, edit replaces text that a file must contain exactly.

If the file does not contain the text, edit shows what it contains instead.
"""

import re
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.files import (
    display_path,
    encode_text,
    path_action,
    read_text_file,
    replace_file,
    target_path,
)
from infold.agent.tools.read import split_lines
from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace

LIKE_ENOUGH = 0.6
"""How similar a line must be to the first line of the wanted text to be shown as a near miss."""

MOST_COMPARED = 5_000
"""Lines that are compared one by one; after that a near miss is not worth the time."""

MOST_SHOWN = 12
"""Lines of a near miss, and places of a text that occurs more than once, that are shown."""

CRLF = "\r\n"
UNREADABLE = "\ufffd"
_NUMBERED = re.compile(r"(?:[ \t]*\d+\t.*(?:\n|$))+")


class EditArguments(Struct, frozen=True):
    path: str
    old: Annotated[str, Meta(description="Text to replace, exactly as in the file, without line numbers.")]
    new: str
    all: Annotated[bool, Meta(description="Replace every place, not the only one.")] = False


class WriteArguments(Struct, frozen=True):
    path: str
    content: str


def _write_action(arguments: WriteArguments, workspace: Workspace) -> ActionRequest:
    return path_action("write", arguments.path, workspace, changes=True)


def _write(arguments: WriteArguments, workspace: Workspace) -> ToolOutput:
    path = target_path(arguments.path, workspace)
    name = display_path(path, workspace)
    if path.is_dir():
        raise ToolFailed(f"{name} is a folder; give the path of a file in it")
    if path.exists() and not path.is_file():
        raise ToolFailed(f"{name} is no regular file but a device, a socket or a pipe; write somewhere else")
    was_there = path.exists()
    replace_file(path, encode_text(arguments.content))
    count = len(split_lines(arguments.content))
    return ToolOutput(f"{'replaced' if was_there else 'made'} {name}: {count:,} line{'' if count == 1 else 's'}")


def _edit_action(arguments: EditArguments, workspace: Workspace) -> ActionRequest:
    return path_action("edit", arguments.path, workspace, changes=True)


def _edit(arguments: EditArguments, workspace: Workspace) -> ToolOutput:
    path = target_path(arguments.path, workspace)
    name = display_path(path, workspace)
    if not arguments.old:
        raise ToolFailed("old is empty, so there is nothing to replace; give the text, or use write for a whole file")
    if arguments.old == arguments.new:
        raise ToolFailed("old and new are the same, so nothing would change; give what shall stand there instead")
    text = read_text_file(path, workspace).decode("utf-8", "surrogateescape")
    wanted = _pattern(arguments.old)
    starts = [match.start() for match in wanted.finditer(text)]
    breaks = (text.count("\n", begin, end) for begin, end in pairwise([0, *starts]))
    places = [str(1 + before) for before in accumulate(breaks)]
    shown = ", ".join(places[:MOST_SHOWN])
    if not places:
        raise ToolFailed(f"old is not in {name}; {_near_miss(text, arguments)}")
    if len(places) > 1 and not arguments.all:
        remedy = "give more of the lines around the one you mean, or set all to change every place"
        raise ToolFailed(f"old is in {name} {len(places)} times, at lines {shown}; {remedy}")
    replace_file(path, encode_text(_replace(text, wanted, arguments)))
    more = f" and {len(places) - MOST_SHOWN} more places" if len(places) > MOST_SHOWN else ""
    return ToolOutput(f"edited {name} at line {shown}{more}")


def _pattern(old: str) -> re.Pattern[str]:
    """Return an expression that finds a text with any line ends: a model does not see which a file has."""
    return re.compile(re.escape(old) if CRLF in old else "\r?\n".join(map(re.escape, old.split("\n"))))


def _replace(text: str, wanted: re.Pattern[str], arguments: EditArguments) -> str:
    """Return the text with each place replaced, with the line ends of that place, or else those of the file.

    If the old text has CRLF itself, the new one is taken as it is.
    """
    if CRLF in arguments.old:
        return wanted.sub(lambda _: arguments.new, text)
    ending, with_crlf = _has_crlf(text), re.sub("(?<!\r)\n", CRLF, arguments.new)

    def with_line_ends(found: re.Match[str]) -> str:
        place = found.group()
        return with_crlf if (_has_crlf(place) if "\n" in place else ending) else arguments.new

    return wanted.sub(with_line_ends, text)


def _has_crlf(text: str) -> bool:
    """Return whether most lines of a text end with CRLF."""
    return text.count(CRLF) * 2 > text.count("\n")


def _near_miss(text: str, arguments: EditArguments) -> str:
    """Return what to do about a text that is not in the file: which part is, or where something similar is."""
    lines, wanted = split_lines(text), split_lines(arguments.old)
    bare = [line.strip() for line in wanted if line.strip()]
    misread = _misread(text, arguments.old)
    if misread:
        return misread
    spaced = _find_spaced(lines, bare)
    if spaced:
        return f"it is there with other spaces or tabs; copy it from here:\n{_quote(lines, spaced[0], spaced[1])}"
    if arguments.new and arguments.new in text:
        return "but new is there already: this change may have been made before; read the file to see"
    close = _closest(lines, bare)
    if close:
        return f"the closest is this; copy what you mean from here:\n{_quote(lines, close, close + len(wanted) - 1)}"
    return "read the file and copy the text from there"


def _misread(text: str, old: str) -> str:
    """Return what the text has from the output of read that is not in the file, or an empty string."""
    if _NUMBERED.fullmatch(old):
        return "it has the line numbers that read shows; leave them and the tab out"
    if UNREADABLE in old and UNREADABLE not in text:
        return f"{UNREADABLE} is how read shows bytes that are no UTF-8; leave them out of old, or use the shell"
    if old.endswith("\n") and text.replace(CRLF, "\n").endswith(old[:-1]):
        return "it ends the file, which has no line break behind its last line; leave that one out of old"
    return ""


def _find_spaced(lines: list[str], bare: list[str]) -> tuple[int, int] | None:
    """Return the first and last line of a text that is in the file with other white space around its lines."""
    filled = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    for at in range(len(filled) - len(bare) + 1 if bare else 0):
        if all(filled[at + ahead][1] == line for ahead, line in enumerate(bare)):
            return filled[at][0], filled[at + len(bare) - 1][0]
    return None


def _closest(lines: list[str], bare: list[str]) -> int:
    """Return the number of the line most similar to the first wanted one, or 0."""
    if not bare:
        return 0
    matcher = SequenceMatcher(b=bare[0], autojunk=False)
    best, score = 0, LIKE_ENOUGH
    for number, line in enumerate(lines[:MOST_COMPARED], 1):
        matcher.set_seq1(line.strip()[:200])
        if matcher.real_quick_ratio() > score and matcher.quick_ratio() > score and matcher.ratio() > score:
            best, score = number, matcher.ratio()
    return best


def _quote(lines: list[str], first: int, last: int) -> str:
    last = min(last, first + MOST_SHOWN - 1, len(lines))
    return "\n".join(f"{number}\t{lines[number - 1][:400]}" for number in range(first, last + 1))


_WRITE_DESCRIPTION = (
    "Writes a file whole, making it and its folders or replacing what was there. To change part of a file use edit."
)
_EDIT_DESCRIPTION = "Replaces text in a file. old must be there exactly once, white space included, unless all is set."
WRITE = Tool("write", _WRITE_DESCRIPTION, WriteArguments, _write_action, _write)
EDIT = Tool("edit", _EDIT_DESCRIPTION, EditArguments, _edit_action, _edit)
