"""The facts a fold may not lose, as values that can be merged.

A `Ledger` is extracted from messages by code (`extract.py`), never from a model's memory. Ledgers of successive heads
merge, so that facts known only from an older checkpoint are carried on: the later fact wins if both concern the same
thing, and what is settled (an error that no longer occurs, a question that was answered) goes. `checkpoint_text.py`
writes a ledger as text. What must stay a message (tools that were added, instructions with a date, the working folder)
is carried on as one by `carry_state`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import (
    STATE_ID,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    is_from_caller,
    is_genuine_user,
    is_opaque,
)

FileOperation: TypeAlias = Literal["read", "written", "edited", "deleted", "moved"]

MOST_FILES, MOST_COMMANDS, MOST_ERRORS, MOST_QUOTES, MOST_NARRATIVES = 1_000, 300, 60, 500, 3
"""How many facts of each kind a checkpoint carries; older ones stay in the log and are found by recall."""

MOST_NAMES = 24
"""Maximum number of defined names carried per file."""


class Quote(Struct, frozen=True):
    """Verbatim words, and the handle of the part they are from."""

    handle: str
    text: str


class FileFact(Struct, frozen=True, omit_defaults=True):
    """A file, the last operation on it, the number of its changes, and what was defined in it, newest first."""

    path: str
    operation: FileOperation
    edits: int
    handle: str
    names: tuple[str, ...] = ()


class CommandFact(Struct, frozen=True, omit_defaults=True):
    """A command line and how its newest run ended; without a status, the status is unknown."""

    command: str
    handle: str
    exit_status: int | None = None
    outcome: str = ""
    runs: int = 1


class ErrorFact(Struct, frozen=True):
    """An unsettled failure: its origin (a command, a file, a tool) and its most informative line."""

    origin: str
    line: str
    handle: str


class TodoFact(Struct, frozen=True):
    """One item of the newest todo list."""

    item: str
    status: str


class JobFact(Struct, frozen=True):
    """A call that was started and has not finished; `id` identifies it in a later report, if known."""

    description: str
    handle: str
    id: str = ""


class Ledger(Struct, frozen=True, omit_defaults=True):
    """What is known of a folded head, oldest first within each kind.

    `settled` names what succeeded in this head, so that merging can drop older errors of the same origin, and `ended`
    the older jobs that ended in it; both are used up by that merge. `todos` `None` means that no list was written,
    unlike an empty one. `narratives` are the words of earlier summaries, which a fold by code carries on and a model's
    next summary replaces. `attachments` are the media and documents that came with the user's words, `answers` what the
    user replied to questions that the agent asked by a tool, with the question. `forgotten` names
    the instructions that did not fit when this ledger was merged; they are reported once and are then only in the log.
    """

    first_request: Quote | None = None
    latest_request: Quote | None = None
    requests: tuple[Quote, ...] = ()
    constraints: tuple[Quote, ...] = ()
    pinned: tuple[Quote, ...] = ()
    files: tuple[FileFact, ...] = ()
    commands: tuple[CommandFact, ...] = ()
    settled: tuple[str, ...] = ()
    errors: tuple[ErrorFact, ...] = ()
    todos: tuple[TodoFact, ...] | None = None
    decisions: tuple[Quote, ...] = ()
    findings: tuple[Quote, ...] = ()
    questions: tuple[Quote, ...] = ()
    reports: tuple[Quote, ...] = ()
    narratives: tuple[Quote, ...] = ()
    jobs: tuple[JobFact, ...] = ()
    forgotten: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    attachments: tuple[Quote, ...] = ()
    answers: tuple[Quote, ...] = ()


EMPTY_LEDGER = Ledger()

Fact = TypeVar("Fact")


def merge(older: Ledger, newer: Ledger) -> Ledger:
    """Return what both ledgers know; the newer one wins if they concern the same thing."""
    answered = newer.latest_request is not None
    requests = _unique((*older.requests, *newer.requests))
    constraints = _unique((*older.constraints, *newer.constraints))
    attachments = _unique((*older.attachments, *newer.attachments))
    answers = _unique((*older.answers, *newer.answers))
    running = (job for job in older.jobs if not job.id or job.id not in newer.ended)
    return Ledger(
        first_request=older.first_request or newer.first_request,
        latest_request=newer.latest_request or older.latest_request,
        requests=requests[-MOST_QUOTES:],
        constraints=constraints[-MOST_QUOTES:],
        pinned=_unique((*older.pinned, *newer.pinned)),
        files=_merge_facts(older.files, newer.files, lambda fact: fact.path, later_operation)[-MOST_FILES:],
        commands=_merge_facts(older.commands, newer.commands, lambda fact: fact.command, later_run)[-MOST_COMMANDS:],
        errors=_merge_errors(older, newer)[-MOST_ERRORS:],
        todos=older.todos if newer.todos is None else newer.todos,
        decisions=_unique((*older.decisions, *newer.decisions))[-MOST_ERRORS:],
        findings=_unique((*older.findings, *newer.findings))[-MOST_COMMANDS:],
        questions=newer.questions if answered else _unique((*older.questions, *newer.questions)),
        reports=_unique((*older.reports, *newer.reports))[-MOST_ERRORS:],
        narratives=_unique((*older.narratives, *newer.narratives))[-MOST_NARRATIVES:],
        jobs=_unique((*running, *newer.jobs))[-MOST_COMMANDS:],
        forgotten=_unique((*_dropped(requests), *_dropped(constraints), *_dropped(attachments), *_dropped(answers))),
        attachments=attachments[-MOST_QUOTES:],
        answers=answers[-MOST_QUOTES:],
    )


def _unique(quotes: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(dict.fromkeys(quotes))


def _dropped(quotes: tuple[Quote, ...]) -> tuple[str, ...]:
    """Return the handles of quotes beyond the limit, except those whose words were repeated."""
    if len(quotes) <= MOST_QUOTES:
        return ()
    carried = {quote.text for quote in quotes[-MOST_QUOTES:]}
    return tuple(quote.handle for quote in quotes[:-MOST_QUOTES] if quote.text not in carried)


def note(facts: dict[str, Fact], key: str, fact: Fact, later: Callable[[Fact, Fact], Fact]) -> None:
    """Put a fact last among those seen, combined with what was known of the same thing."""
    before = facts.pop(key, None)
    facts[key] = fact if before is None else later(before, fact)


def later_operation(before: FileFact, fact: FileFact) -> FileFact:
    """Return a later fact about the same file; reading a file again does not undo that it was changed."""
    operation, handle = fact.operation, fact.handle
    if operation == "read" and before.operation != "read":
        operation, handle = before.operation, before.handle
    names = _unique((*fact.names, *before.names))[:MOST_NAMES]
    return FileFact(fact.path, operation, before.edits + fact.edits, handle, names)


def later_run(before: CommandFact, fact: CommandFact) -> CommandFact:
    """Return a later run of the same command; the newest outcome counts."""
    return CommandFact(fact.command, fact.handle, fact.exit_status, fact.outcome, before.runs + fact.runs)


def _merge_facts(
    older: tuple[Fact, ...], newer: tuple[Fact, ...], key: Callable[[Fact], str], later: Callable[[Fact, Fact], Fact]
) -> tuple[Fact, ...]:
    merged = {key(fact): fact for fact in older}
    for fact in newer:
        note(merged, key(fact), fact, later)
    return tuple(merged.values())


def _merge_errors(older: Ledger, newer: Ledger) -> tuple[ErrorFact, ...]:
    settled = {*newer.settled, *(fact.origin for fact in newer.errors)}
    return (*(fact for fact in older.errors if fact.origin not in settled), *newer.errors)


# State: what messages of the head set, and what is still in force behind a fold.

TOOL_STATE, DEFINITION = "tool ", " definition"
"""Prefix of the keys of tools, and suffix of those of tools that messages define; a change of tools needs those before
it, so the kept tail does not replace it."""

COMMAND_STATE, SKILL_STATE = "command", "skill"
"""Keys of what a person started; it ends with the person's next message."""

SUMMARY_STATE, ALL_BEFORE = "compaction", "all before"
"""Keys of a provider's summary, and of one that has all state before it, which the provider ignores from then on."""


def carry_state(
    carried: Iterable[Message], head: Iterable[tuple[int, Message]], tail: Iterable[Message]
) -> tuple[Message, ...]:
    """Return what stays in force behind a fold, oldest first: messages with only the parts that do, under ids of their own.

    `carried` are those of the last fold, `head` the messages folded now with their numbers, `tail` the kept ones. A newer
    part replaces an older one that sets nothing else; each text of a system message is in force until its end.
    """
    later = _LaterState(tail)
    older = ((message.id, message) for message in carried)
    numbered = ((MessageId(f"{STATE_ID}{sequence}"), message) for sequence, message in head)
    kept = [later.in_force(state_id, message) for state_id, message in reversed([*older, *numbered])]
    return tuple(message for message in reversed(kept) if message is not None)


def beside_summary(
    state: tuple[Message, ...], summary: Iterable[Message], tail: Iterable[tuple[int, Message]]
) -> tuple[Message, ...]:
    """Return what of the state is shown behind the kept tail, with a new summary of the provider's own at the beginning.

    The summary replaces older ones. If it has the tools of all before it, only those that messages have defined are set
    again, as the tail left them: later messages may refer to a definition that the summary left out.
    """
    known = {message.id for message in state}
    has_tools = any(ALL_BEFORE in _state_keys(message, part) for message in summary for part in message.parts)
    defined = defined_tools(state)
    shown: list[Message] = []
    for message in carry_state(state, tail, ()):
        is_known = message.id in known
        parts = tuple(
            part
            for part in message.parts
            if (is_known and not (has_tools and is_opaque(part))) or not defined.isdisjoint(_state_keys(message, part))
        )
        if isinstance(message, SystemMessage):
            settings = message.settings if is_known else ""
            shown += [replace(message, parts=parts, settings=settings)] if parts or settings else []
        elif isinstance(message, UserMessage) and is_known:
            shown.append(message)
    return tuple(shown)


def defined_tools(messages: Iterable[Message]) -> frozenset[str]:
    """Return the keys of the tools that these messages define."""
    keys = (key for message in messages for part in message.parts for key in _state_keys(message, part))
    return frozenset(key.removesuffix(DEFINITION) for key in keys if key.endswith(DEFINITION))


def sets_any(messages: Iterable[Message], keys: frozenset[str]) -> bool:
    """Return whether one of these messages sets one of these keys."""
    return any(not keys.isdisjoint(_state_keys(message, part)) for message in messages for part in message.parts)


class _LaterState:
    """What later messages set or ended, while messages are read newest first."""

    def __init__(self, tail: Iterable[Message]) -> None:
        self._keys: set[str] = set()
        self._has_user = False
        self._has_settings = False
        self._is_all = False
        for message in tail:
            keys = (key for part in message.parts for key in _state_keys(message, part))
            self._keys.update(key for key in keys if not key.startswith(TOOL_STATE))
            self._pass(message)

    def in_force(self, state_id: MessageId, message: Message) -> Message | None:
        """Return what of a folded message is in force, and take it in; `None` if nothing is."""
        if self._is_all:
            return None
        is_over = self._has_user and isinstance(message, SystemMessage) and message.until_user
        parts = tuple(self._parts_in_force(message, is_over=is_over))
        kept = replace(message, id=state_id, parts=parts)
        if isinstance(kept, SystemMessage):
            settings = "" if self._has_settings else kept.settings
            kept = replace(kept, settings=settings, until_user=kept.until_user and not is_over)
            self._has_settings = self._has_settings or bool(settings)
            return kept if parts or settings else None
        self._pass(message)
        return kept if parts else None

    def _parts_in_force(self, message: Message, *, is_over: bool) -> list[Part]:
        """Return the parts that later ones do not replace; within a message, only blocks replace one another."""
        parts: list[Part] = []
        keys: set[str] = set()
        for part in reversed(message.parts):
            own, is_text = _state_keys(message, part), isinstance(part, TextPart) and not part.opaque
            replaced = self._keys if is_text else self._keys | keys
            if not replaced.issuperset(own) and not (is_over and is_text):
                parts.append(part)
            keys.update(own)
        self._keys |= keys
        self._is_all = ALL_BEFORE in keys
        return parts[::-1]

    def _pass(self, message: Message) -> None:
        is_user = isinstance(message, UserMessage | ToolMessage) and is_from_caller(message)
        self._has_user = self._has_user or is_user
        if is_genuine_user(message):
            self._keys |= {COMMAND_STATE, SKILL_STATE}


def _state_keys(message: Message, part: Part) -> tuple[str, ...]:
    """Return what a part sets; a text of a system message sets itself, for as long as it holds."""
    if isinstance(part, TextPart) and isinstance(message, SystemMessage) and not part.state:
        key = f"until user: {part.text}" if message.until_user else part.text
        return (key,) if part.text.strip() and not part.ignored else ()
    return part.state if isinstance(part, TextPart | ReasoningPart) else ()


# Read a ledger back from the text of a checkpoint.

CHECKPOINT_MARK = "[Earlier conversation, folded."
"""The beginning of every text that a fold writes."""

_HINT = "The full text of anything marked with a number"

_FENCE = '"""'
"""Encloses a quote of several lines."""

_HEADINGS = {
    "Pinned": "pinned",
    "The user's first request": "first",
    "The user's latest request": "latest",
    "Rules the user laid down": "constraints",
    "Asked of the user and answered": "answers",
    "Attached by the user": "attachments",
    "Other requests": "others",
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
}
"""How the headings of a checkpoint's text begin, up to a comma: what follows says in which order things are listed."""

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
        return folder is not None or line.startswith((CHECKPOINT_MARK, _HINT))

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
    """Return the kind of what a heading announces; empty if the line is anything else."""
    return _HEADINGS.get(line.rstrip(":").partition(",")[0], "") if line.endswith(":") else ""
