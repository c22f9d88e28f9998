"""Take a ledger from messages: walk them once, oldest first, and note what was asked, done, failed and left open."""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from infold.core.constraints import constraint_sentences, sentences
from infold.core.declined import declined, words_of_decline
from infold.core.documents import attached, attached_text
from infold.core.ledger import (
    EMPTY_LEDGER,
    MOST_NAMES,
    CommandFact,
    ErrorFact,
    FileFact,
    JobFact,
    Ledger,
    Quote,
    later_operation,
    later_run,
    note,
)
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    calls_of,
)
from infold.core.toolfacts import (
    Arguments,
    arguments_of,
    command_of,
    exit_status_of,
    failed,
    failure_line,
    file_operations,
    jobs_asked_after,
    jobs_told_ended,
    names_defined,
    running_job,
    todos_after,
)

LONGEST_REPORT = 400
"""Characters of a closing reply that a ledger quotes."""

_DECISION = re.compile(
    r"\b(?:decided|chose|choose|instead|went with|will use|going with|opted|settled on)\b|决定|改用|采用|決定|に変更|결정",
    re.IGNORECASE,
)
_FINDING = re.compile(
    r"https?://|(?<![\w#])#\d{2,}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
    r"|(?<![\w.,-])(?:\d{3,}|\d+\.\d+|\d+(?:,\d{3})+)(?![\w-])"
)
"""What makes a sentence worth quoting: a reference or a figure, which nobody can guess."""
_SUMMARY_OUTCOME = re.compile(
    r"^.*\b\d+ (?:passed|failed|errors?|tests?|failures?|skipped|warnings?)\b.*$|^(?:ok|FAIL|PASS)\b.*$",
    re.MULTILINE,
)


def extract(
    messages: Iterable[tuple[int, Message]], pinned: frozenset[str] = frozenset(), before: Ledger = EMPTY_LEDGER
) -> Ledger:
    """The ledger of these messages, each given with the sequence number that its parts' handles begin with.

    `before` is what is known of the time before them: which todos they change, and which jobs they may end.
    """
    walk = _Walk(pinned, before)
    for sequence, message in messages:
        walk.see(sequence, message)
    return walk.ledger()


class _Walk:
    """What has been seen so far; a scratch pad of `extract`, never kept."""

    def __init__(self, pinned: frozenset[str], before: Ledger) -> None:
        self.pinned_handles = pinned
        self.requests: list[Quote] = []
        self.attachments: list[Quote] = []
        self.constraints: list[Quote] = []
        self.pinned: list[Quote] = []
        self.decisions: list[Quote] = []
        self.findings: list[Quote] = []
        self.reports: list[Quote] = []
        self.question: Quote | None = None
        self.todos = before.todos
        self.calls: dict[str, tuple[ToolCallPart, str]] = {}
        self.jobs: dict[str, JobFact] = {}
        self.older_jobs = {job.id: job for job in before.jobs if job.id}
        self.older_commands = {fact.command for fact in before.commands}
        self.ended: dict[str, None] = {}
        self.files: dict[str, FileFact] = {}
        self.commands: dict[str, CommandFact] = {}
        self.errors: dict[str, ErrorFact] = {}
        self.settled: dict[str, None] = {}

    def see(self, sequence: int, message: Message) -> None:
        makes_calls = bool(calls_of(message))
        for index, part in enumerate(message.parts):
            handle = f"{sequence}.{index}"
            if handle in self.pinned_handles:
                self.pinned.append(Quote(handle, _text(part)))
            match part:
                case TextPart() if isinstance(message, UserMessage) and not part.synthetic and not part.ignored:
                    self._hear(handle, part.text)
                case TextPart(ignored=False, opaque=False) if (
                    isinstance(message, AssistantMessage) and not message.summary
                ):
                    self._read(handle, part.text, is_report=not makes_calls)
                case ToolCallPart():
                    self.calls[part.call_id] = (part, handle)
                case TextPart() if isinstance(message, UserMessage) and (self.older_jobs or self.jobs):
                    self._notice(part.text)
                case ToolResultPart() if part.call_id in self.calls:
                    self._settle(self.calls.pop(part.call_id)[0], part, handle)
                case ToolResultPart() if part.call_id in self.older_jobs:
                    self._end(part.call_id, part, handle)
                case _:
                    pass
        if isinstance(message, UserMessage):
            self._attach(sequence, message)

    def _attach(self, sequence: int, message: UserMessage) -> None:
        """Note what came with the user's words; where no words came with it, it is itself what was asked."""
        quotes = [
            Quote(f"{sequence}.{index}", attached(part) if isinstance(part, FilePart) else attached_text(part))
            for index, part in enumerate(message.parts)
            if isinstance(part, FilePart) or (isinstance(part, TextPart) and part.document is not None)
        ]
        if quotes and not any(
            quote.handle.startswith(f"{sequence}.") for quote in self.requests[-len(message.parts) :]
        ):
            self.requests.append(quotes[0])
            self.question = None
        self.attachments += quotes

    def _hear(self, handle: str, text: str) -> None:
        if not text.strip():
            return
        self.requests.append(Quote(handle, text.strip()))
        self.constraints += [Quote(handle, sentence) for sentence in constraint_sentences(text)]
        self.question = None

    def _read(self, handle: str, text: str, *, is_report: bool) -> None:
        for sentence in sentences(text):
            if len(sentence) <= LONGEST_REPORT and _DECISION.search(sentence):
                self.decisions.append(Quote(handle, sentence))
            elif len(sentence) <= LONGEST_REPORT and _FINDING.search(sentence):
                self.findings.append(Quote(handle, sentence))
        if text.strip() and is_report:
            self.reports.append(Quote(handle, text.strip()[:LONGEST_REPORT]))
            last = sentences(text)[-1]
            self.question = Quote(handle, last) if last.rstrip("*_`\"')）」 ").endswith(("?", "？")) else None

    def _settle(self, call: ToolCallPart, result: ToolResultPart, handle: str) -> None:
        arguments = arguments_of(call)
        command = command_of(call, arguments)
        operations = file_operations(call, arguments, result.output)
        if declined(result, operations):
            self._hear(handle, words_of_decline(result))
            return
        origins = [path for path, _ in operations] or [command or call.tool]
        if command:
            note(self.commands, command, _command_fact(command, result, handle), later_run)
        for job in jobs_asked_after(arguments, result):
            self._end(job, result, handle)
        if failed(result, command):
            self.errors[origins[0]] = ErrorFact(origins[0], failure_line(result), handle)
            return
        for origin in origins:
            self.errors.pop(origin, None)
            self.settled[origin] = None
        for path, operation in operations:
            changed = operation != "read"
            names = names_defined(call, arguments, path)[:MOST_NAMES] if changed else ()
            note(self.files, path, FileFact(path, operation, int(changed), handle, names), later_operation)
        todos = todos_after(self.todos or (), call, arguments, result.output)
        self.todos = todos if todos or self.todos is not None else None
        job = "" if operations else running_job(call, result)
        if job and job not in self.jobs:
            self.jobs[job] = JobFact(_describe(call, arguments), handle, job)

    def _notice(self, text: str) -> None:
        """A program's note that a job has ended."""
        for job in jobs_told_ended(text):
            self._taken(job)

    def _end(self, job: str, result: ToolResultPart, handle: str) -> None:
        """A job that was left running has ended; if a command started it, this is how that came out."""
        started = self._taken(job)
        if started is None or started.description not in self.commands.keys() | self.older_commands:
            return
        ended = _command_fact(started.description, result, handle)
        before = self.commands.get(started.description)
        self.commands[started.description] = replace(ended, runs=0 if before is None else before.runs)

    def _taken(self, job: str) -> JobFact | None:
        """A job that no longer runs, if it was known to."""
        if job in self.older_jobs:
            self.ended[job] = None
            return self.older_jobs.pop(job)
        return self.jobs.pop(job, None)

    def ledger(self) -> Ledger:
        unanswered = tuple(
            JobFact(_describe(call, arguments_of(call)), handle, call.call_id) for call, handle in self.calls.values()
        )
        return Ledger(
            first_request=self.requests[0] if self.requests else None,
            latest_request=self.requests[-1] if self.requests else None,
            requests=tuple(self.requests),
            constraints=tuple(self.constraints),
            pinned=tuple(self.pinned),
            files=tuple(self.files.values()),
            commands=tuple(self.commands.values()),
            settled=tuple(self.settled),
            errors=tuple(self.errors.values()),
            todos=self.todos,
            decisions=tuple(self.decisions),
            findings=tuple(self.findings),
            questions=() if self.question is None else (self.question,),
            reports=tuple(self.reports),
            jobs=(*self.jobs.values(), *unanswered),
            ended=tuple(self.ended),
            attachments=tuple(self.attachments),
        )


def _command_fact(command: str, result: ToolResultPart, handle: str) -> CommandFact:
    found = _SUMMARY_OUTCOME.findall(result.output[-4_000:])
    outcome = found[-1].strip()[:160] if found else ""
    return CommandFact(command, handle, exit_status_of(result), outcome)


def _describe(call: ToolCallPart, arguments: Arguments) -> str:
    return command_of(call, arguments) or f"{call.tool}({call.arguments[:120]})"


def _text(part: object) -> str:
    if isinstance(part, FilePart):
        return f"[{part.media_type} {part.name}]"
    for field in ("text", "output", "arguments"):
        value = getattr(part, field, None)
        if isinstance(value, str):
            return value
    return ""
