"""Read a ledger back from the text of a checkpoint.

A caller that stores what it was given brings a fold back, often with nothing left of it but role and text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import get_args

from infold.core.ledger import (
    CHECKPOINT_MARK,
    EXCERPTS,
    LONGEST_SENTENCE,
    CommandFact,
    ErrorFact,
    FileFact,
    FileOperation,
    JobFact,
    LaterWords,
    Ledger,
    Quote,
    TodoFact,
    ValueFact,
    sentences,
)

_HINT = "The full text of anything marked with a number"

_FENCE = '"""'
"""Encloses a quote of several lines."""

_HEADINGS = {
    "Pinned": "pinned",
    "The user's first request": "first",
    "The user's latest request": "latest",
    "Rules the user laid down": "constraints",
    "Taken back by the user": "taken back",
    "Asked of the user and answered": "answers",
    "Attached by the user": "attachments",
    "Other requests": "others",
    "From an earlier summary": "narratives",
    "Summary written by a model; where it differs from what follows": "narratives",
    "Files changed": "files",
    "Files read": "files",
    "Todo list as last written": "todos",
    "Errors not seen to be settled": "errors",
    "Failed at first and succeeded since": "overcome",
    "Questions still open": "questions",
    "Started and not reported back": "jobs",
    "Decisions": "decisions",
    "Figures and references": "findings",
    "Checks run": "commands",
    "Commands run": "commands",
    "Results": "values",
    "Looked up": "lookups",
    "Reported to the user": "reports",
}
"""How the headings of a checkpoint's text begin, up to a comma: what follows says in which order things are listed."""

_USERS_WORDS = frozenset({"pinned", "first", "latest", "constraints", "taken back"})
"""Kinds that are the user's own words. They come before what was attached, which may imitate their headings."""

_NOTED = frozenset({"first", "latest", "constraints", "others"})
"""Kinds whose sentences may have later words behind them."""

_WITH_PIECES, _PIECES = frozenset({"files", "commands", "lookups"}), " — "
"""Kinds whose lines earlier versions followed by pieces of the file or result, and what stands before these."""

_HANDLE = re.compile(r"(?:;? [\w.:-]*recall \d+\.\d+(?=\]$)| \[\d+\.\d+\]$)")
_MORE = re.compile(r"… and [\d,]+ more")
_OPERATION = "|".join(get_args(FileOperation))
_LISTED = re.compile(rf"({_OPERATION}): (.+)")
_FILE = re.compile(rf"(.+?): ({_OPERATION})(?: \((\d+) times\))?")
_FOLDER = re.compile(r"Paths below are in (\S.*) unless they begin with a slash\.")
_COMMAND = re.compile(r"`(.+?)`(?: → (?:(ok|exit (-?\d{1,3}))(?: \((.*)\))?|(.*)))?", re.DOTALL)
_ASKED = re.compile(r' \(asked: "([^\n]*)"\)\Z')
_LATER = re.compile(r' \(later: "([^\n]*?)"\)(?=\s|\Z|""")')
_TODO = re.compile(r"\[([^\]\n]{0,60})\] (.+)", re.DOTALL)
_ERROR = re.compile(r"(.+?): (.+)", re.DOTALL)


def read_checkpoint(text: str, handle: str) -> Ledger:
    """Return what a checkpoint's text says; all of it has the handle of the part that holds the text.

    It is for a caller that stores what it was given and brings a fold back, often with nothing left of it but role and text: the
    next fold then replaces it by one of the same kind instead of quoting it. A line that is not recognised is kept as words of an
    earlier summary, so that nothing is lost if the text was written by another version or by a person.
    """
    return _CheckpointReader(handle).read(text)


class _CheckpointReader:
    """The lines of a checkpoint by kind, in the order of the text."""

    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.folder = ""
        self.words: dict[str, list[str]] = {}
        self.others: list[str] = []
        self.asked: dict[tuple[str, str], str] = {}
        self.later: list[LaterWords] = []

    def read(self, text: str) -> Ledger:
        kind, is_attached = "", False
        for line in _entries(text):
            found = "" if line.startswith("- ") else _kind_of(line)
            if found and not (is_attached and found in _USERS_WORDS):
                kind, is_attached = found, is_attached or found == "attachments"
            elif not self._is_frame(line):
                self._take(kind, line)
        return self._ledger()

    def _is_frame(self, line: str) -> bool:
        """Return whether a line says nothing about the past; note the folder that paths are in."""
        folder = _FOLDER.fullmatch(line)
        if folder is not None:
            self.folder = folder[1]
        return folder is not None or line.startswith((CHECKPOINT_MARK, _HINT, EXCERPTS))

    def _take(self, kind: str, line: str) -> None:
        if not kind or kind == "narratives" or not line.startswith("- "):
            self.others.append(line)
            return
        line = line.partition(_PIECES)[0] if kind in _WITH_PIECES else line
        words = _HANDLE.sub("", line.removeprefix("- ").rstrip())
        if _MORE.fullmatch(words):
            return
        asked = _ASKED.search(words)
        words = words[: asked.start()] if asked else words
        if len(words) >= 2 * len(_FENCE) and words.startswith(_FENCE) and words.endswith(_FENCE):
            words = words[len(_FENCE) : -len(_FENCE)]
        words = self._without_later(words) if kind in _NOTED else words
        self.words.setdefault(kind, []).append(words)
        self.asked[kind, words] = asked[1] if asked else ""

    def _ledger(self) -> Ledger:
        first, latest = self._quotes("first"), self._quotes("latest")
        files, commands = tuple(self._files()), tuple(self._commands())
        values = tuple(self._values())
        todos = tuple(TodoFact(found[2], found[1]) for found in self._matches("todos", _TODO))
        attached = (
            f"{self.handle.partition('.')[0]}.0{self.handle.partition('.')[2]}"  # another one than the requests have
        )
        told = "\n".join(self.others).strip()
        taken_back = tuple(map(self._taken_back, self._newest_last("taken back")))
        return Ledger(
            first_request=next(iter(first), None),
            latest_request=next(iter((*latest, *first)), None),
            requests=(*first, *self._quotes("others"), *latest),
            constraints=(*self._quotes("constraints"), *(pair.sentence for pair in taken_back)),
            pinned=self._quotes("pinned"),
            files=files,
            commands=commands,
            errors=tuple(map(self._error, self._newest_last("errors"))),
            todos=todos or None,
            decisions=self._quotes("decisions"),
            findings=self._quotes("findings"),
            questions=self._quotes("questions"),
            reports=self._quotes("reports"),
            narratives=(Quote(self.handle, told),) if told else (),
            jobs=tuple(JobFact(words, self.handle) for words in self.words.get("jobs", ())),
            attachments=tuple(Quote(attached, words) for words in self._newest_last("attachments")),
            answers=self._quotes("answers"),
            later=(*taken_back, *self.later),
            values=values,
            overcome=tuple(map(self._error, self._newest_last("overcome"))),
        )

    def _newest_last(self, kind: str) -> Iterable[str]:
        """Return the lines of a kind oldest first: in the text the newest are first."""
        return reversed(self.words.get(kind, []))

    def _quotes(self, kind: str) -> tuple[Quote, ...]:
        return tuple(Quote(self.handle, words, self.asked[kind, words]) for words in self._newest_last(kind))

    def _matches(self, kind: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield the lines of a kind that can be read, in the order of the text; keep the others as they are."""
        for words in self.words.get(kind, ()):
            found = pattern.fullmatch(words)
            if found is None:
                self.others.append(f"- {words}")
            else:
                yield found

    def _error(self, words: str) -> ErrorFact:
        found = _ERROR.fullmatch(words)
        return ErrorFact(found[1], found[2], self.handle) if found else ErrorFact(words, "", self.handle)

    def _taken_back(self, line: str) -> LaterWords:
        """Return a rule and later words as earlier versions wrote them."""
        rule, _, words = line.rpartition(" → ")
        return LaterWords(Quote(self.handle, rule), Quote(self.handle, words))

    def _without_later(self, words: str) -> str:
        """Return a quote without the later words behind its sentences, which are noted."""
        plain, at = "", 0
        for found in _LATER.finditer(words):
            plain, at = plain + words[at : found.start()], found.end()
            plain = _HANDLE.sub("", plain)
            sentence = (sentences(plain[-LONGEST_SENTENCE:]) or ("",))[-1]
            self.later.append(LaterWords(Quote(self.handle, sentence), Quote(self.handle, found[1])))
        return plain + words[at:]

    def _commands(self) -> Iterable[CommandFact]:
        facts = [
            CommandFact(found[1], self.handle, int(found[3] or 0) if found[2] else None, found[4] or found[5] or "")
            for found in self._matches("commands", _COMMAND)
        ]
        return reversed(facts)

    def _files(self) -> Iterable[FileFact]:
        facts: dict[str, FileFact] = {}
        for words in self.words.get("files", ()):
            listed, one = _LISTED.fullmatch(words), _FILE.fullmatch(words)
            if listed is not None:
                for path in listed[2].split(", "):
                    self._note(facts, path, listed[1])
            elif one is not None:
                self._note(facts, one[1], one[2], int(one[3] or 1))
            else:
                self.others.append(f"- {words}")
        return reversed(facts.values())

    def _note(self, facts: dict[str, FileFact], path: str, operation: str, edits: int = 1) -> None:
        known = next(one for one in _OPERATIONS if one == operation)
        path = self._path(path)
        facts.setdefault(path, FileFact(path, known, 0 if known == "read" else edits, self.handle))

    def _path(self, path: str) -> str:
        return path if path.startswith("/") else self.folder + path

    def _values(self) -> Iterator[ValueFact]:
        for words in reversed(self.words.get("values", [])):
            call, arrow, value = words.partition(" → ")
            if arrow:
                yield ValueFact(call, value, self.handle)
            else:
                self.others.append(f"- {words}")


_OPERATIONS: tuple[FileOperation, ...] = get_args(FileOperation)


def _entries(text: str) -> Iterator[str]:
    """Yield the lines of a text that are not blank; a quote of several lines is one."""
    fenced: list[str] = []
    for line in text.splitlines():
        if fenced or (line.startswith(f"- {_FENCE}") and not _ends_quote(line.removeprefix(f"- {_FENCE}"))):
            fenced.append(line)
            if len(fenced) > 1 and _ends_quote(line):
                yield "\n".join(fenced)
                fenced = []
        elif line.strip():
            yield line
    yield from fenced


def _ends_quote(line: str) -> bool:
    return _ASKED.sub("", _HANDLE.sub("", line.rstrip())).endswith(_FENCE)


def _kind_of(line: str) -> str:
    """Return the kind of what a heading announces; empty if the line is anything else."""
    return _HEADINGS.get(line.rstrip(":").partition(",")[0], "") if line.endswith(":") else ""
