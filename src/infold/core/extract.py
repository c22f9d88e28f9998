"""Extract a ledger from messages by code: requests and rules, files, commands, failures, todos, running jobs.

Messages are read once, oldest first. The first part reads refusals of calls, the second tool calls and results of the
known agents, `extract` brings both together with what the user said, of which `ledger.py` knows what is a rule.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from infold.core.checkpoint_reader import read_checkpoint
from infold.core.ledger import (
    CHECKPOINT_MARK,
    EMPTY_LEDGER,
    MOST_NAMES,
    CommandFact,
    ErrorFact,
    FileFact,
    FileOperation,
    JobFact,
    Ledger,
    NameFact,
    Quote,
    Revocation,
    TodoFact,
    constraint_sentences,
    find_revoked,
    is_lookup,
    later_operation,
    later_run,
    merge,
    most_worth,
    note,
    sentences,
    shell_parts,
    spoken_sentences,
    states_rule,
)
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    decode_arguments,
    media_label,
    quote_document,
)

_DECLINED = re.compile(
    r"\s*(?:Error: *)?(?:"
    r"The user doesn['’]t want to (?:proceed with this tool use|take this action right now)\b|"
    r"Permission for this tool use was denied\b|\[Request interrupted by user|"
    r"The user rejected (?:permission to use this specific tool call|this tool call)\b|"
    r"The user denied this operation\b|"
    r"(?:exec command|patch) rejected by user\s*$|"
    r"\[Operation Cancelled\] Reason: User did not allow tool call)"
)
"""In this order: Claude Code, OpenCode and Copilot, Cline and related agents, Codex, Gemini."""

_SAID = re.compile(r"(?:the user said|following feedback|user feedback): *", re.IGNORECASE)

_TAGGED = re.compile(r"\s*<feedback>(.*?)</feedback>", re.DOTALL)

_ADDED_NOTE = re.compile(r"\n[^\S\n]*+Note: The user['’]s next message may contain ")
"""What Claude Code adds for the model after the person's words."""


def is_declined(result: ToolResultPart, operations: Iterable[tuple[str, FileOperation]]) -> bool:
    """Return whether a person declined the call that this result answers: nothing was done and nothing failed."""
    if result.exit_status is not None or _DECLINED.match(result.output) is None:
        return False
    return result.status != "completed" or any(operation != "read" for _, operation in operations)


def decline_reason(result: ToolResultPart) -> str:
    """Return the person's words when declining, verbatim; empty if there are none."""
    said = _SAID.search(result.output)
    if said is None:
        return ""
    words = result.output[said.end() :]
    tagged = _TAGGED.match(words)
    return (tagged.group(1) if tagged else _ADDED_NOTE.split(words)[0]).strip()


Arguments: TypeAlias = Mapping[str, object]

LONGEST_COMMAND, LONGEST_LINE = 300, 240
"""Characters of a command or an error line that a ledger quotes; the whole is in the log."""

_PATH_KEYS = (
    "file_path", "filePath", "path", "filename", "file_name", "file", "target_file", "notebook_path",
    "absolute_path", "relative_path", "target", "uri",
)  # fmt: skip

_COMMAND_KEYS = ("command", "cmd", "script", "shell_command", "commandLine", "code")

_TODO_KEYS = ("todos", "plan", "items", "tasks", "task_list")

_TODO_TEXT_KEYS = ("content", "step", "text", "title", "task", "subject", "description")

_JOB_KEYS = ("session_id", "bash_id", "shell_id", "shellId", "sessionId", "task_id", "agentId", "pid")

_QUESTION_TOOL = re.compile(
    r"ask_?(?:the_?)?(?:user|human|question|followup)|request_?user_?input|^question$", re.IGNORECASE
)
"""Tools by which agents put a question to the user: Claude Code, OpenCode, Codex, Cline and related agents."""

_SHELL_NAME = re.compile(r"bash|shell|terminal|exec|run|command|cmd|powershell|ipython|python", re.IGNORECASE)

_SHELL_SWITCHES = ("-c", "-lc", "-Command", "/c")

_OPERATIONS: tuple[tuple[FileOperation, re.Pattern[str]], ...] = (
    ("deleted", re.compile(r"delete|remove|unlink|(?:^|_)rm(?:_|$)", re.IGNORECASE)),
    ("moved", re.compile(r"move|rename|(?:^|_)mv(?:_|$)", re.IGNORECASE)),
    ("edited", re.compile(r"edit|replace|patch|insert|update|modify|undo", re.IGNORECASE)),
    ("written", re.compile(r"write|create|save|new_file|put", re.IGNORECASE)),
    ("read", re.compile(r"read|view|open|cat|get|load|show", re.IGNORECASE)),
)

_PATCHED = re.compile(r"^\*\*\* (Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)

_PATCH_OPERATIONS: dict[str, FileOperation] = {
    "Add File": "written",
    "Update File": "edited",
    "Delete File": "deleted",
    "Move to": "moved",
}

_TELLING = re.compile(
    r"(?<![\w./@+-])(?:[\w.@+-]*/[\w./@+-]*\w|(?=\w*?(?:[a-z][A-Z]|_|\d))[A-Za-z_]\w{4,}|[A-Z][A-Z0-9]{4,}|"
    r"[A-Z]{2,}-\d[\w-]*|\d[\d,.]{0,30}\d\d)(?!\w)"
)
"""A path, a name that is unlike a word (a digit, an underscore, camel case or capitals in it), or a value."""

_DEFINED = re.compile(
    r"\b(?:def|class|func|fn|fun|function|type|interface|struct|enum|trait|impl|const|module|message|table)\s+"
    r"(?:\([^()\n]*\)\s*)?([A-Za-z_$][\w$]{2,})"
)

_LINE_ENDS = re.compile(r"\n+|(?<=[,;{}]) (?=\")")

_LINE_NUMBER = re.compile(r"^\s*\d{1,6}(?:→|\t|\s*\||:(?!\d))")
"""How tools that show a file number its lines."""

USED_WEIGHT, COUNT_POWER, MOST_COUNTED = 4, 0.7, 20
"""A name that the agent used in a call weighs as much more than one that it was only shown; the weight grows with the
number of times it occurred, less and less. Fitted on recorded sessions to which names were used later."""

LONGEST_READ, LONGEST_PIECE = 30_000, 48
"""Characters of a text that are searched for telling lines, and of such a line that are kept."""

_SHOWN_FILE = re.compile(r"\[File: (.+?) \(\d+ lines total\)\]")

_OPEN_FILE = re.compile(r"\(Open file: (.+?)\)\s")
"""How SWE-agent's `open`, `create` and `edit`, which need not name a file, show which one is open."""

_EDITOR_COMMAND = re.compile(r"(?:open|create|edit)\b(?![-/.=])")

_TOLD_FILE = re.compile(r"\bfile: (\S.*)$")
"""How SpecStory describes a file tool's call, whose arguments it does not keep."""

_EXIT_WORDS = r"(?:exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)|return[ _]?code)[\"'\s:=>]*(-?\d{1,3})\b"

_EXIT_AT_HEAD = re.compile(rf"^\W{{0,3}}(?:process |command )?{_EXIT_WORDS}", re.IGNORECASE | re.MULTILINE)

_EXIT_AT_TAIL = re.compile(_EXIT_WORDS, re.IGNORECASE)

_REFUSED = re.compile(r"\s*(?:ERROR|Error):|\s*Your proposed edit has introduced")
"""How tools without a status of their own (OpenHands' editor, SWE-agent's) begin the report of a failure."""

_ANSWERED_NO = re.compile(r"(?:git (?:-C \S+ )?)?(?:[efz]?grep|rg|ag|diff|cmp)\b|(?:test|\[\[?) ")
"""Commands whose status 1 is an answer: no match, the two differ, the test is false."""

_COMPARED = ("<", ">", "+", "-", " ", "@@")
"""Beginnings of the lines in which `diff` shows what it compared."""

_NOTIFIED = re.compile(r"<task-id>([^<]{1,80})</task-id>.{0,400}?<status>(\w+)</status>", re.DOTALL)
"""How Claude Code reports, in a message of the user's role, that a background job has ended."""

_UNDER_WAY = ("running", "pending", "in_progress")

_RUNNING = re.compile(
    r"running with session ID:? *([\w-]+)|shellId: *([\w-]+) is still running|"
    r"agentId: *([\w-]+)(?=[^\0]{0,200} in the background)|"
    r"(?:running|moved|working) (?:in|to) (?:the )?background(?: with ID:? *([\w-]+)| \(PID:? *(\d+))?"
)

_STILL_RUNNING = re.compile(r"running with session ID|<status>running|is still running")

_TASK_CREATED = re.compile(r"Task #(\w+) created")

_CHECKBOX = re.compile(r"^[ \t]*(?:[-*] |\d+\. )?\[(.)\] +(.+)$", re.MULTILINE)

_CHECKED = {" ": "pending", "x": "completed", "X": "completed", "-": "in_progress", "~": "in_progress"}

_FRAME = re.compile(
    r"\W*(?:chunk id|wall time|process (?:exited|running)|exit code|original token count|output|returncode)\b",
    re.IGNORECASE,
)
"""What agents put around a command's output; it says nothing about the failure."""

_NAMED_ERROR = re.compile(r"^.*\b\w*(?:Error|Exception|Failure)\b: .+$|^.*\b(?:panic|fatal|FAILED)\b.*$", re.MULTILINE)

_ERROR = re.compile(
    r"^.*\b(?:error|failed|failure|cannot|can't|unable|denied|not found|no such|undefined|invalid|exception|traceback)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)


def arguments_of(call: ToolCallPart) -> Arguments:
    """Return a call's arguments as a mapping; empty if they are not a JSON object."""
    decoded = decode_arguments(call.arguments)
    return decoded if isinstance(decoded, dict) else {}


def file_operations(
    call: ToolCallPart, arguments: Arguments, output: str = ""
) -> tuple[tuple[str, FileOperation], ...]:
    """Return the files a call concerns and what it does to each; a patch may name several."""
    patched = tuple(_patched_files(arguments.values() if arguments else (call.arguments,)))
    if patched:
        return patched
    path, operation = _path(arguments, output), _operation(call.tool, arguments)
    if not path or operation is None or len(path) > LONGEST_LINE or "\n" in path:
        return ()
    return ((path, operation),)


def written_text(call: ToolCallPart, arguments: Arguments, path: str) -> str:
    """Return the text that a call writes into a file."""
    values = arguments.items() if arguments else (("", call.arguments),)
    return "\n".join(
        _section(str(value), path)
        for key, value in values
        if key not in _PATH_KEYS and not key.lower().startswith(("old", "command"))
    )


def telling_names(text: str) -> list[str]:
    """Return the names, paths and values in a text that say what it is about: what it defines, and what is unlike a word."""
    return [*_TELLING.findall(text), *_DEFINED.findall(text)]


def shorten_line(line: str, name: str) -> str:
    """Return the piece of a line around a name, on one line and without the number that a tool put before it."""
    text = " ".join(_LINE_NUMBER.sub("", line).split())
    if len(text) <= LONGEST_PIECE:
        return text
    place = text.find(name)
    start = text.rfind(" ", 0, max(0, place - LONGEST_PIECE // 3)) + 1
    end = text.rfind(" ", place + len(name), start + LONGEST_PIECE)
    return text[start : max(end, place + len(name))]


def _section(text: str, path: str) -> str:
    """Return what a patch adds to that file; any other text whole."""
    if "*** " not in text:
        return text
    sections = re.split(r"^\*\*\* (?:Add|Update) File: ", text, flags=re.MULTILINE)
    own = next((section for section in sections if section.startswith(path)), "")
    return "\n".join(line for line in own.splitlines() if line.startswith("+"))


def command_of(call: ToolCallPart, arguments: Arguments) -> str:
    """Return the command line a call runs, on one line; empty if it runs none."""
    if not _SHELL_NAME.search(call.tool):
        return ""
    value = next((arguments[key] for key in _COMMAND_KEYS if arguments.get(key)), "")
    if isinstance(value, list):
        value = value[2] if len(value) >= 3 and value[1] in _SHELL_SWITCHES else " ".join(map(str, value))
    return " ".join(value.split())[:LONGEST_COMMAND] if isinstance(value, str) else ""


def questions_of(call: ToolCallPart, arguments: Arguments) -> str:
    """Return what a call asks the user, each question on a line; empty if it asks nothing."""
    if not _QUESTION_TOOL.search(call.tool):
        return ""
    listed = arguments.get("questions")
    asked = [*(listed if isinstance(listed, list) else ()), arguments]
    texts = (one.get("question", one.get("prompt")) if isinstance(one, dict) else one for one in asked)
    return "\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())


def todos_after(
    before: tuple[TodoFact, ...], call: ToolCallPart, arguments: Arguments, output: str
) -> tuple[TodoFact, ...]:
    """Return the todo list or plan after a call: rewritten by the call, one task added or updated, or unchanged."""
    if not re.search(r"todo|plan|task", call.tool, re.IGNORECASE):
        return before
    written = next((arguments[key] for key in _TODO_KEYS if key in arguments), None)
    if isinstance(written, list):
        items = (item for item in written if isinstance(item, dict | str))
        return tuple(
            TodoFact(item, "") if isinstance(item, str) else TodoFact(_title(item), str(item.get("status", "")))
            for item in items
        )
    if isinstance(written, str) and (boxes := _CHECKBOX.findall(written)):
        return tuple(TodoFact(item.strip(), _CHECKED.get(mark, mark)) for mark, item in boxes)
    created = _TASK_CREATED.search(output)
    if created:
        return (*before, TodoFact(f"#{created.group(1)} {_title(arguments)}", "pending"))
    if "taskId" in arguments and isinstance(status := arguments.get("status"), str):
        number = f"#{arguments['taskId']} "
        return tuple(TodoFact(fact.item, status) if fact.item.startswith(number) else fact for fact in before)
    return before


def running_job(call: ToolCallPart, result: ToolResultPart) -> str:
    """Return the id of the job a call left running (the call's own if the result names none); empty if there is none."""
    found = running_job_in(result.output)
    if found is None:
        return ""
    return next((group for group in found.groups() if group), call.call_id)


def running_job_in(output: str) -> re.Match[str] | None:
    """Return the place at either end of an output that says that a job still runs."""
    return _RUNNING.search(output[:400]) or _RUNNING.search(output[-400:])


def jobs_no_longer_running(arguments: Arguments, result: ToolResultPart) -> tuple[str, ...]:
    """Return the ids of jobs that a call polled or stopped, if its result no longer finds them running."""
    if _STILL_RUNNING.search(result.output[:400]):
        return ()
    return tuple(str(arguments[key]) for key in _JOB_KEYS if key in arguments)


def jobs_reported_ended(text: str) -> tuple[str, ...]:
    """Return the ids of jobs that a program's note reports as ended."""
    return tuple(job.strip() for job, status in _NOTIFIED.findall(text) if status.lower() not in _UNDER_WAY)


def exit_status_of(result: ToolResultPart) -> int | None:
    """Return how a command ended: as recorded, or as its output shows at either end."""
    if result.exit_status is not None:
        return result.exit_status
    found = _EXIT_AT_HEAD.search(result.output[:400])
    status = found.group(1) if found else next(reversed(_EXIT_AT_TAIL.findall(result.output[-400:])), None)
    return None if status is None else int(status)


def is_failure(result: ToolResultPart, command: str = "") -> bool:
    """Return whether a result reports a failure; an exit status in the output counts only if a command ran."""
    status = exit_status_of(result) if command else result.exit_status
    if status == 1 and _answers_no(command, result.output):
        return False
    if status is None:
        return result.status != "completed" or _REFUSED.match(result.output) is not None
    return result.status != "completed" or status != 0


def _answers_no(command: str, output: str) -> bool:
    """Return whether status 1 of a command line is the answer of its last command, and its output shows no error."""
    last = next(reversed(shell_parts(command)), "")
    told = (line for line in output.splitlines() if not line.startswith(_COMPARED) and not _EXIT_AT_TAIL.search(line))
    return _ANSWERED_NO.match(last) is not None and not any(_ERROR.match(line) for line in told)


def failure_line(result: ToolResultPart) -> str:
    """Return the most informative line of a failed result: the last named error, else the first line that mentions one."""
    output = result.output[-20_000:]
    named = _NAMED_ERROR.findall(output)
    if named:
        return str(named[-1]).strip()[:LONGEST_LINE]
    plain = _ERROR.search(output)
    told = (line for line in output.splitlines() if line.strip() and not _FRAME.match(line))
    line = plain.group() if plain else next(told, "")
    return line.strip()[:LONGEST_LINE]


def _patched_files(values: Iterable[object]) -> Iterator[tuple[str, FileOperation]]:
    for value in values:
        text = value[-1] if isinstance(value, list) and value else value
        if isinstance(text, str) and "*** " in text:
            for kind, path in _PATCHED.findall(text):
                yield path.strip(), _PATCH_OPERATIONS[kind]


def _path(arguments: Arguments, output: str) -> str:
    """Return the one file a call is about, as named by its arguments or its result; web addresses do not count."""
    path = next((value for key in _PATH_KEYS if isinstance(value := arguments.get(key), str) and value), None)
    if path is not None:
        return "" if "://" in path and not path.startswith("file://") else path
    told = _TOLD_FILE.search(str(arguments.get("summary", "")))
    if told:
        return told.group(1)
    shown = _SHOWN_FILE.search(output[:400]) or _OPEN_FILE.search(output[-400:])
    return shown.group(1) if shown else ""


def _operation(tool: str, arguments: Arguments) -> FileOperation | None:
    command = arguments.get("command")
    verb = command if isinstance(command, str) and ("edit" in tool.lower() or _EDITOR_COMMAND.match(command)) else ""
    for name in (*verb.split(None, 1)[:1], tool):
        for operation, pattern in _OPERATIONS:
            if pattern.search(name):
                return operation
    return None


def _title(item: Mapping[str, object]) -> str:
    return str(next((value for key in _TODO_TEXT_KEYS if (value := item.get(key))), ""))


MOST_COUNTS = 3
"""How many lines with counts of passed and failed tests a command's outcome has: some programs write one a line."""

LONGEST_REPORT, LONGEST_ANSWER = 400, 48
"""Characters of a closing reply that a ledger quotes, and bytes of a request that is taken for the answer to a question."""

_DECISION = re.compile(
    r"\b(?:decided|chose|choose|instead|went with|will use|going with|opted|settled on)\b|决定|改用|采用|決定|に変更|결정",
    re.IGNORECASE,
)

_FINDING = re.compile(
    r"https?://|(?<![\w#])#\d{2,}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
    r"|(?<![\w.,-])(?:\d{3,}|\d+\.\d+|\d+(?:,\d{3})+)(?![\w-])"
)
"""What makes a sentence worth quoting: a reference or a figure, which cannot be guessed."""

_SUMMARY_OUTCOME = re.compile(
    r"^.{0,100}\b\d+ (?:pass(?:ed|ing)?|fail(?:ed|ing|ures?)?|pending|errors?|tests?|skipped|warnings?)\b.{0,100}$"
    r"|^(?:ok|FAIL|PASS|FAILED)\b.{0,100}$|^(?:test result|Tests|Test Suites):? .{1,150}$",
    re.MULTILINE,
)
"""Counts of pytest, jest, mocha, bun, go, cargo and the like."""


def extract(
    messages: Iterable[tuple[int, Message]], pinned: frozenset[str] = frozenset(), before: Ledger = EMPTY_LEDGER
) -> Ledger:
    """Return the ledger of these messages, each given with the sequence number of its entry.

    `before` is the ledger of earlier messages: which todos these change, and which jobs they may end.
    """
    walk = _Extractor(pinned, before)
    for sequence, message in messages:
        walk.see(sequence, message)
    return walk.ledger()


class _Extractor:
    """What has been seen so far while extracting."""

    def __init__(self, pinned: frozenset[str], before: Ledger) -> None:
        self.pinned_handles = pinned
        self.has_requests = before.first_request is not None
        self.folded = EMPTY_LEDGER
        self.requests: list[Quote] = []
        self.attachments: list[Quote] = []
        self.constraints: list[Quote] = []
        self.revoked: list[Revocation] = []
        self.older_requests = before.requests
        self.pinned: list[Quote] = []
        self.decisions: list[Quote] = []
        self.findings: list[Quote] = []
        self.reports: list[Quote] = []
        self.answers: list[Quote] = []
        self.question = before.questions[-1] if before.questions else None
        self.todos = before.todos
        self.calls: dict[str, tuple[ToolCallPart, str]] = {}
        self.jobs: dict[str, JobFact] = {}
        self.older_jobs = {job.id: job for job in before.jobs if job.id}
        self.older_commands = {fact.command for fact in before.commands}
        self.ended: dict[str, None] = {}
        self.files: dict[str, FileFact] = {}
        self.commands: dict[str, CommandFact] = {}
        self.errors: dict[str, ErrorFact] = {}
        self.texts: list[tuple[str, str, str]] = []
        self.used: set[str] = set()
        self.settled: dict[str, None] = {}

    def see(self, sequence: int, message: Message) -> None:
        makes_calls = bool(calls_of(message))
        for index, part in enumerate(message.parts):
            handle = f"{sequence}.{index}"
            if handle in self.pinned_handles:
                self.pinned.append(Quote(handle, _text(part)))
            match part:
                case TextPart() if part.text.startswith(CHECKPOINT_MARK) and not isinstance(message, ToolMessage):
                    self._read_fold(handle, part.text, is_users=isinstance(message, UserMessage))
                case TextPart() if isinstance(message, UserMessage) and not part.synthetic and not part.ignored:
                    self._hear(handle, part.text)
                case TextPart(ignored=False, opaque=False) if (
                    isinstance(message, AssistantMessage) and not message.summary
                ):
                    self._read(handle, part.text, is_report=not makes_calls)
                case ToolCallPart():
                    self.calls[part.call_id] = (part, handle)
                case TextPart() if isinstance(message, UserMessage) and (self.older_jobs or self.jobs):
                    for job in jobs_reported_ended(part.text):
                        self._taken(job)
                case ToolResultPart() if part.call_id in self.calls:
                    self._settle(self.calls.pop(part.call_id)[0], part, handle)
                case ToolResultPart() if part.call_id in self.older_jobs:
                    self._end(part.call_id, part, handle)
                case _:
                    pass
        if isinstance(message, UserMessage):
            self._attach(sequence, message)

    def _attach(self, sequence: int, message: UserMessage) -> None:
        """Note what was attached to the user's words; without words, the attachment itself is the request."""
        quotes = [
            Quote(f"{sequence}.{index}", media_label(part) if isinstance(part, FilePart) else quote_document(part))
            for index, part in enumerate(message.parts)
            if isinstance(part, FilePart) or (isinstance(part, TextPart) and part.document is not None)
        ]
        if quotes and not any(
            quote.handle.startswith(f"{sequence}.") for quote in self.requests[-len(message.parts) :]
        ):
            self.requests.append(quotes[0])
            self.question = None
        self.attachments += quotes

    def _read_fold(self, handle: str, text: str, *, is_users: bool) -> None:
        """Take over what a fold says that was brought back; behind the user's words or from a model it is only quoted."""
        is_first = is_users and not (self.requests or self.has_requests)
        told = read_checkpoint(text, handle) if is_first else Ledger(narratives=(Quote(handle, text),))
        rules = (Quote(handle, rule) for request in told.requests for rule in constraint_sentences(request.text))
        told = replace(told, constraints=tuple(dict.fromkeys((*rules, *told.constraints))))
        self.folded = merge(self.folded, told)
        self.todos = self.todos if told.todos is None else told.todos

    def _hear(self, handle: str, text: str) -> None:
        if not text.strip():
            return
        asked = self.question.text if self.question is not None and len(text.strip().encode()) <= LONGEST_ANSWER else ""
        before = (*self.older_requests, *self.requests)
        for sentence in spoken_sentences(text):
            earlier = (Quote(quote.handle, one) for quote in before for one in spoken_sentences(quote.text))
            revoked = find_revoked(sentence, earlier)
            if revoked is not None:
                self.revoked.append(Revocation(revoked, Quote(handle, sentence)))
            elif states_rule(sentence):
                self.constraints.append(Quote(handle, sentence))
        self.requests.append(Quote(handle, text.strip(), asked))
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
        self.used.update(telling_names("\n".join(map(str, arguments.values()))[:LONGEST_READ]))
        operations = file_operations(call, arguments, result.output)
        if is_declined(result, operations):
            self._hear(handle, decline_reason(result))
            return
        questions = questions_of(call, arguments)
        if questions and result.status == "completed" and result.output.strip():
            self.answers.append(Quote(handle, f"{questions}\n→ {result.output.strip()}"))
        origins = [path for path, _ in operations] or [command or call.tool]
        if command:
            self.texts.append((command, handle, command))
            note(self.commands, command, _command_fact(command, result, handle), later_run)
        known = {**self.older_jobs, **self.jobs}
        polled = next((known[job].description for job in map(str, map(arguments.get, _JOB_KEYS)) if job in known), "")
        for job in jobs_no_longer_running(arguments, result):
            self._end(job, result, handle)
        if is_failure(result, command):
            if not (command and is_lookup(command)):
                self.errors[origins[0]] = ErrorFact(origins[0], failure_line(result), handle)
            return
        for origin in origins:
            self.errors.pop(origin, None)
            self.settled[origin] = None
        for path, operation in operations:
            changed = operation != "read"
            self.texts.append((path, handle, written_text(call, arguments, path) if changed else result.output))
            note(self.files, path, FileFact(path, operation, int(changed), handle), later_operation)
        if not operations:
            self.texts.append((polled or command or _describe(call, arguments), handle, result.output))
        todos = todos_after(self.todos or (), call, arguments, result.output)
        self.todos = todos if todos or self.todos is not None else None
        job = "" if operations else running_job(call, result)
        if job and job not in self.jobs:
            self.jobs[job] = JobFact(_describe(call, arguments), handle, job)

    def _end(self, job: str, result: ToolResultPart, handle: str) -> None:
        """Record the end of a background job; if a command started it, this is its outcome."""
        started = self._taken(job)
        if started is None or started.description not in self.commands.keys() | self.older_commands:
            return
        ended = _command_fact(started.description, result, handle)
        before = self.commands.get(started.description)
        self.commands[started.description] = replace(ended, runs=0 if before is None else before.runs)

    def _taken(self, job: str) -> JobFact | None:
        """Return a job that no longer runs, if it was known."""
        if job in self.older_jobs:
            self.ended[job] = None
            return self.older_jobs.pop(job)
        return self.jobs.pop(job, None)

    def ledger(self) -> Ledger:
        unanswered = tuple(
            JobFact(_describe(call, arguments_of(call)), handle, call.call_id) for call, handle in self.calls.values()
        )
        seen = Ledger(
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
            answers=tuple(self.answers),
            revoked=tuple(self.revoked),
            names=self._names(),
        )
        if self.folded is EMPTY_LEDGER:
            return seen
        return replace(merge(self.folded, seen), settled=seen.settled, ended=seen.ended)

    def _names(self) -> tuple[NameFact, ...]:
        """Return the names, paths and values of the texts seen, each with the line where it stood last."""
        counts: Counter[str] = Counter()
        places: dict[str, tuple[str, str, str]] = {}
        for source, handle, text in reversed(self.texts):
            for line in _LINE_ENDS.split(text[:LONGEST_READ]):
                if _FRAME.match(line):
                    continue
                for name in telling_names(line):
                    counts[name] += 1
                    places.setdefault(name, (line, source, handle))
        facts = (
            NameFact(
                name,
                line,
                source,
                handle,
                round(min(counts[name], MOST_COUNTED) ** COUNT_POWER * (USED_WEIGHT if name in self.used else 1), 1),
            )
            for name, (line, source, handle) in places.items()
            if len(name) <= LONGEST_PIECE
        )
        worth = most_worth(facts)[:MOST_NAMES]
        return tuple(replace(fact, line=shorten_line(fact.line, fact.name)) for fact in worth)


def _command_fact(command: str, result: ToolResultPart, handle: str) -> CommandFact:
    found = dict.fromkeys(line.strip() for line in _SUMMARY_OUTCOME.findall(result.output[-4_000:])[-MOST_COUNTS:])
    status = exit_status_of(result)
    if status is None and not found and result.status == "completed" and not running_job_in(result.output):
        return CommandFact(command, handle, outcome="ok" if not _REFUSED.match(result.output) else "failed")
    return CommandFact(command, handle, status, ", ".join(found)[:160])


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
