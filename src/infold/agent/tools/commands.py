"""Shell commands taken apart, for rules about what may run: the simple commands in a line, and whether that is all there is.

This is no shell parser. It knows what it understands for certain, `;`, `&&`, `||`, `|`, `&`, line breaks, plain quotes and
escapes, and calls everything else not plain: substitutions, groups, redirections to files, here-documents, comments, joined
lines, assignments, `${…}`, `$'…'`, quotes that do not end. A rule may trust the pieces of a plain command only. Pieces of one
that is not plain are a best guess, good enough to refuse by.
"""

import re
from typing import NamedTuple

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
"""How a piece begins that sets a variable before it names its program: `git= rm x` is no use of git."""

_WORD = re.compile(r"[^\s;&|<>()'\"`=]+")


class Apart(NamedTuple):
    """A command taken apart; `plain`: it runs these pieces and nothing else."""

    pieces: tuple[str, ...]
    plain: bool


def taken_apart(command: str) -> Apart:
    """The simple commands that a line runs, in order, without redirections to nowhere."""
    pieces, plain = [""], True
    for token in _TOKEN.finditer(command):
        match token.lastgroup:
            case "literal" | "rest":
                pieces[-1] += token.group()
            case "between":
                pieces.append("")
            case "nested":
                pieces.append("")
                plain = False
            case "unsure":
                pieces[-1] += token.group()
                plain = False
            case "joined":
                plain = False
            case _:
                pass
    simple = tuple(piece for piece in (piece.strip(" \t") for piece in pieces) if piece)
    return Apart(simple, plain and not any(map(_ASSIGNMENT.match, simple)))


class Word(NamedTuple):
    """A word as the program gets it, quotes and escapes removed; `live`: the shell still replaces a glob, brace, `~` or `$`."""

    text: str
    live: bool


class Simple(NamedTuple):
    """One simple command of a line: its program and the words after it, files of redirections among them."""

    program: str
    words: tuple[Word, ...]


def simple_commands(command: str) -> tuple[Simple, ...]:
    """The simple commands of a line with their words; a best guess where the line is not plain."""
    found: list[list[Word]] = [[]]
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
                found[-1].append(Word(text, live))
                text, live, has_word = "", False, False
            if character in "\n;&|()`" and found[-1]:
                found.append([])
        else:
            text, live, has_word = text + character, live or character in "*?[{~$", True
    return tuple(Simple(words[0].text, tuple(words[1:])) for words in found if words)


def words_in(command: str) -> tuple[str, ...]:
    """The words of a command, without quotes, operators and the names of options' values."""
    return tuple(_WORD.findall(command))
