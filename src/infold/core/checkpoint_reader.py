"""Read the text of a checkpoint back into a ledger, for a history that begins with a fold of infold's own.

A caller that stores what it was given brings the fold back as a message, often with nothing left of it but role and text. The
next fold then replaces it by one of the same kind instead of quoting it. A line that is not recognised is kept as words of an
earlier summary, so that nothing is lost if the text was written by another version or by a person.
"""

import re
from collections.abc import Iterable, Iterator
from typing import get_args

from infold.core.checkpoint_text import ANSWERS, ATTACHED, FIRST, LATEST, OTHERS, RECALL_HINT, RULES
from infold.core.ledger import CommandFact, ErrorFact, FileFact, FileOperation, JobFact, Ledger, Quote, TodoFact

CHECKPOINT_MARK = "[Earlier conversation, folded."
"""The beginning of every text that a fold writes."""

_FENCE = '"""'
"""Encloses a quote of several lines."""

_HEADINGS = {
    heading.partition(",")[0].rstrip(":"): kind
    for heading, kind in {
        "Pinned": "pinned",
        FIRST: "first",
        LATEST: "latest",
        RULES: "constraints",
        ANSWERS: "answers",
        ATTACHED: "attachments",
        OTHERS: "others",
        "From an earlier summary": "narratives",
        "Files changed": "files",
        "Files read": "files",
        "Todo list as last written": "todos",
        "Errors not seen to be settled": "errors",
        "Questions still open": "questions",
        "Started and not reported back": "jobs",
        "Decisions": "decisions",
        "Figures and references": "findings",
        "Commands run": "commands",
        "Reported to the user": "reports",
    }.items()
}
"""How headings begin, up to a comma: what follows says in which order or how completely things are listed."""

_USERS_WORDS = frozenset({"pinned", "first", "latest", "constraints"})
"""Kinds that are the user's own words. They come before what was attached, which may imitate their headings."""

_HANDLE = re.compile(r"(?:;? recall \d+\.\d+(?=\]$)| \[\d+\.\d+\]$)")
_MORE = re.compile(r"… and [\d,]+ more")
_OPERATION = "|".join(get_args(FileOperation))
_LISTED = re.compile(rf"({_OPERATION}): (.+)")
_FILE = re.compile(rf"(.+?): ({_OPERATION})(?: \((\d+) times\))?(?:: (.+))?")
_FOLDER = re.compile(r"Paths below are in (\S.*) unless they begin with a slash\.")
_COMMAND = re.compile(r"`(.+?)`(?: → exit (-?\d{1,3}))?(?: \((.*)\))?", re.DOTALL)
_TODO = re.compile(r"\[([^\]\n]*)\] (.+)", re.DOTALL)
_ERROR = re.compile(r"(.+?): (.+)", re.DOTALL)


def read_checkpoint(text: str, handle: str) -> Ledger:
    """Return what a checkpoint's text says; all of it has the handle of the part that holds the text."""
    return _Reader(handle).read(text)


class _Reader:
    """The lines of a checkpoint by kind, in the order of the text."""

    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.folder = ""
        self.words: dict[str, list[str]] = {}
        self.others: list[str] = []

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
        return folder is not None or line.startswith((CHECKPOINT_MARK, RECALL_HINT))

    def _take(self, kind: str, line: str) -> None:
        if not kind or kind == "narratives" or not line.startswith("- "):
            self.others.append(line)
            return
        words = _HANDLE.sub("", line.removeprefix("- ").rstrip())
        if len(words) >= 2 * len(_FENCE) and words.startswith(_FENCE) and words.endswith(_FENCE):
            words = words[len(_FENCE) : -len(_FENCE)]
        if not _MORE.fullmatch(words):
            self.words.setdefault(kind, []).append(words)

    def _ledger(self) -> Ledger:
        first, latest = self._quotes("first"), self._quotes("latest")
        files, commands = tuple(self._files()), tuple(self._commands())
        todos = tuple(TodoFact(found[2], found[1]) for found in self._matches("todos", _TODO))
        attached = (
            f"{self.handle.partition('.')[0]}.0{self.handle.partition('.')[2]}"  # another one than the requests have
        )
        told = "\n".join(self.others).strip()
        return Ledger(
            first_request=next(iter(first), None),
            latest_request=next(iter((*latest, *first)), None),
            requests=(*first, *self._quotes("others"), *latest),
            constraints=self._quotes("constraints"),
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
        )

    def _newest_last(self, kind: str) -> Iterable[str]:
        """Return the lines of a kind oldest first: in the text the newest are first."""
        return reversed(self.words.get(kind, []))

    def _quotes(self, kind: str) -> tuple[Quote, ...]:
        return tuple(Quote(self.handle, words) for words in self._newest_last(kind))

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

    def _commands(self) -> Iterable[CommandFact]:
        facts = [
            CommandFact(found[1], self.handle, int(found[2]) if found[2] else None, found[3] or "")
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
                names = tuple(one[4].split(", ")) if one[4] else ()
                self._note(facts, one[1], one[2], int(one[3] or 1), names)
            else:
                self.others.append(f"- {words}")
        return reversed(facts.values())

    def _note(
        self, facts: dict[str, FileFact], path: str, operation: str, edits: int = 1, names: tuple[str, ...] = ()
    ) -> None:
        path = path if path.startswith("/") else self.folder + path
        known = next(one for one in _OPERATIONS if one == operation)
        edits = 0 if known == "read" else edits
        facts.setdefault(path, FileFact(path, known, edits, self.handle, names))


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
    return _HANDLE.sub("", line.rstrip()).endswith(_FENCE)


def _kind_of(line: str) -> str:
    """Return the kind of what a heading announces; empty if the line is no heading."""
    return _HEADINGS.get(line.rstrip(":").partition(",")[0], "") if line.endswith(":") else ""
