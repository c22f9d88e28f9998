"""Extract a ledger from messages by code: requests and rules, files, commands, failures, todos, running jobs.

Messages are read once, oldest first. The first part reads refusals of calls, the second tool calls and results of the
known agents, `extract` brings both together with what the user said, of which `ledger.py` knows what is a rule.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from infold.core.checkpoint_reader import read_checkpoint
from infold.core.later_words import Sentence, SentenceIndex
from infold.core.ledger import (
    CHECKPOINT_MARK,
    EMPTY_LEDGER,
    FENCES,
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
    constraint_sentences,
    is_lookup,
    later_operation,
    later_run,
    merge,
    note,
    sentences,
    sentences_with_rules,
    shell_parts,
    spoken_sentences,
)
from infold.core.logged_message import is_kept_stub
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
    is_compact,
    is_recall,
    media_label,
    quote_document,
)
from infold.core.phrases import CONTINUES

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

_ALL_PATH_KEYS = frozenset(_PATH_KEYS)

_COMMAND_KEYS = ("command", "cmd", "script", "shell_command", "commandLine", "code")

_TODO_KEYS = ("todos", "plan", "items", "tasks", "task_list")

_TODO_TEXT_KEYS = ("content", "step", "text", "title", "task", "subject", "description")

_JOB_KEYS = ("session_id", "bash_id", "shell_id", "shellId", "sessionId", "task_id", "agentId", "pid")

_ALL_JOB_KEYS = frozenset(_JOB_KEYS)

_QUESTION_TOOL = re.compile(
    r"ask_?(?:the_?)?(?:user|human|question|followup)|request_?user_?input|^question$", re.IGNORECASE
)
"""Tools by which agents put a question to the user: Claude Code, OpenCode, Codex, Cline and related agents."""

_SHELL_NAME = re.compile(r"bash|shell|terminal|exec|run|command|cmd|powershell|ipython|python", re.IGNORECASE)

_PLAN_TOOL = re.compile(r"todo|plan|task", re.IGNORECASE)

_SHELL_SWITCHES = ("-c", "-lc", "-Command", "/c")

_SHELL_TEXT = re.compile(
    r"(?P<quoted>'[^']*+(?:'|\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\Z))"
    r"|(?P<open>[&|;{(]|\b(?:do|then|else)\b)[^\S\n]*+\n\s*+|(?P<comment>(?<!\S)#[^\n]*+)|(?P<joined>\\\n)|\n\s*+",
    re.DOTALL,
)
"""In a script: what is quoted, the end of a line behind which a command goes on, a comment, and the end of a command."""

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

_NOT_ASKED = "No response requested."
"""What Claude Code writes in the model's place where it did not ask it."""

_UNDER_WAY = ("running", "pending", "in_progress")

_RUNNING = re.compile(
    r"running with session ID:? *([\w-]+)|shellId: *([\w-]+) is still running|"
    r"agentId: *([\w-]+)(?=[^\0]{0,200} in the background)|"
    r"(?:running|moved|working) (?:in|to) (?:the )?background(?: with ID:? *([\w-]+)| \(PID:? *(\d+))?"
)

_RUNNING_WORDS = ("background", "session ID", "shellId")
"""One of these stands in all that `_RUNNING` finds."""

_STILL_RUNNING = re.compile(r"running with session ID|<status>running|is still running")

_TASK_CREATED = re.compile(r"Task #(\w+) created")

_CHECKBOX = re.compile(r"^[ \t]*(?:[-*] |\d+\. )?\[(.)\] +(.+)$", re.MULTILINE)

_CHECKED = {" ": "pending", "x": "completed", "X": "completed", "-": "in_progress", "~": "in_progress"}

_FRAME = re.compile(
    r"\W*(?:chunk id|wall time|process (?:exited|running)|exit code|original token count|output|returncode|command finished|"
    r"python interpreter|current working directory)\b",
    re.IGNORECASE,
)
"""What agents put around a command's output; it says nothing about the failure."""

_NAMED_ERROR = re.compile(
    r"^.*\b\w*(?:Error|Exception|Failure)\b: .+$|^.*\b(?:(?:panic|fatal): |FAILED\b).*$", re.MULTILINE
)

_ERROR = re.compile(
    r"^.*\b(?:errors?|failed|failures?|cannot|can't|unable|denied|not found|no such|undefined|invalid|exception|traceback)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)

_NO_FAILURE = re.compile(r"^[ \t]*(?:\(pass\)|[✓✔√]|PASS(?:ED)?\b|(?:>[ \t]*)?\d+[ \t]*[│|]).*$", re.MULTILINE)
"""Lines that name a test which passed, and lines of code that a compiler shows around an error."""

_SAYS_LITTLE = re.compile(
    r"\W*(?:(?:error|failed|failure|fatal)\W*|traceback \(most recent call last\):.*|> \S+@\S+ .*|\$ .*)", re.IGNORECASE
)
"""Lines that announce a failure or a program and do not say what failed."""


_WRITES_TEXT = re.compile(
    r"(?:^|[;&|({])[ \t]*(?:cat|tee)\b[^;&|<]*(?P<text><<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote))"
)
"""The beginning of a here-document that is written to a file, or shown."""

_EMPTY_COMMANDS = re.compile(r"(?: ;)+|;(?: ;)+")


class ToolWords(NamedTuple):
    """What the name of a tool, or the verb of a command, says of it; `is_own`: it is one of infold's."""

    is_own: bool
    is_shell: bool
    asks: bool
    plans: bool
    operation: FileOperation | None


@lru_cache(maxsize=512)
def tool_named(name: str) -> ToolWords:
    """Return what a name says. A session has few tools, and each fold asks for the name of every call several times."""
    operations = (operation for operation, pattern in _OPERATIONS if pattern.search(name))
    return ToolWords(
        is_own=is_compact(name, plain=False) or is_recall(name),
        is_shell=_SHELL_NAME.search(name) is not None,
        asks=_QUESTION_TOOL.search(name) is not None,
        plans=_PLAN_TOOL.search(name) is not None,
        operation=next(operations, None),
    )


def arguments_of(call: ToolCallPart) -> Arguments:
    """Return a call's arguments as a mapping; empty if they are not a JSON object."""
    decoded = decode_arguments(call.arguments)
    return decoded if isinstance(decoded, dict) else {}


def file_operations(
    call: ToolCallPart, arguments: Arguments, output: str = ""
) -> tuple[tuple[str, FileOperation], ...]:
    """Return the files a call concerns and what it does to each; a patch may name several."""
    if "*** " in call.arguments or "\\u" in call.arguments:  # an escape may stand for it
        patched = tuple(_patched_files(arguments.values() if arguments else (call.arguments,)))
        if patched:
            return patched
    path, operation = _path(arguments, output), _operation(call.tool, arguments)
    if not path or operation is None or len(path) > LONGEST_LINE or "\n" in path:
        return ()
    return ((path, operation),)


def command_of(call: ToolCallPart, arguments: Arguments) -> str:
    """Return the command line a call runs, on one line; empty if it runs none."""
    if not tool_named(call.tool).is_shell:
        return ""
    value = next((arguments[key] for key in _COMMAND_KEYS if arguments.get(key)), "")
    if isinstance(value, list):
        value = value[2] if len(value) >= 3 and value[1] in _SHELL_SWITCHES else " ".join(map(str, value))
    return one_command_line(value)[:LONGEST_COMMAND] if isinstance(value, str) else ""


def one_command_line(script: str) -> str:
    """Return a script on one line: without comments, and with a semicolon between commands on lines of their own.

    Text that is written to a file stands as "…": what is run after it says more. Text in quotes and of any other here-document
    only loses its line ends.
    """
    if "\n" not in script and "#" not in script:
        return " ".join(script.split())
    script = _without_written_text(script)
    commands, mark, document = script.partition("<<")
    lines = _SHELL_TEXT.sub(_on_one_line, commands.strip("\n"))
    line = _EMPTY_COMMANDS.sub(";", " ".join(f"{lines}{mark}{document}".split())).strip("; ")
    return line or " ".join(script.split())


def _without_written_text(script: str) -> str:
    if "<<" not in script:
        return script
    kept: list[str] = []
    lines = iter(script.split("\n"))
    for line in lines:
        written = _WRITES_TEXT.search(line)
        kept.append(line if written is None else f"{line[: written.start('text')]}…{line[written.end() :]}")
        if written is not None:
            next((one for one in lines if one.strip() == written["end"]), None)
    return "\n".join(kept)


def _on_one_line(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "quoted":
            return found[0]
        case "open":
            return f"{found['open']} "
        case "comment" | "joined":
            return " "
        case _:
            return "; "


def questions_of(call: ToolCallPart, arguments: Arguments) -> str:
    """Return what a call asks the user, each question on a line; empty if it asks nothing."""
    if not tool_named(call.tool).asks:
        return ""
    listed = arguments.get("questions")
    asked = [*(listed if isinstance(listed, list) else ()), arguments]
    texts = (one.get("question", one.get("prompt")) if isinstance(one, dict) else one for one in asked)
    return "\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())


def todos_after(
    before: tuple[TodoFact, ...], call: ToolCallPart, arguments: Arguments, output: str
) -> tuple[TodoFact, ...]:
    """Return the todo list or plan after a call: rewritten by the call, one task added or updated, or unchanged."""
    if not tool_named(call.tool).plans:
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
    ends = (end for end in (output[:400], output[-400:]) if any(word in end for word in _RUNNING_WORDS))
    return next(filter(None, map(_RUNNING.search, ends)), None)


def jobs_no_longer_running(arguments: Arguments, result: ToolResultPart) -> tuple[str, ...]:
    """Return the ids of jobs that a call polled or stopped, if its result no longer finds them running."""
    if _ALL_JOB_KEYS.isdisjoint(arguments) or _STILL_RUNNING.search(result.output[:400]):
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
    """Return the most informative line of a failed result.

    The last named error; else the first line that mentions one; behind the heading of a traceback its last line. Tests that
    passed, and lines of code, are not looked at.
    """
    output = _NO_FAILURE.sub("", result.output[-20_000:])
    named = _NAMED_ERROR.findall(output)
    if named:
        return str(named[-1]).strip()[:LONGEST_LINE]
    found = _ERROR.search(output)
    plain = "" if found is None else found[0].strip()
    if plain and not _SAYS_LITTLE.fullmatch(plain):
        return plain[:LONGEST_LINE]
    told = [line for line in output.splitlines() if line.strip() and not _FRAME.match(line)]
    telling = [line for line in told if not _SAYS_LITTLE.fullmatch(line.strip())]
    if plain.lower().startswith("traceback"):
        telling = [line for line in reversed(telling) if not line[0].isspace()] or telling
    return next(iter(telling or told), "").strip()[:LONGEST_LINE]


def _patched_files(values: Iterable[object]) -> Iterator[tuple[str, FileOperation]]:
    for value in values:
        text = value[-1] if isinstance(value, list) and value else value
        if isinstance(text, str) and "*** " in text:
            for kind, path in _PATCHED.findall(text):
                yield path.strip(), _PATCH_OPERATIONS[kind]


def _path(arguments: Arguments, output: str) -> str:
    """Return the one file a call is about, as named by its arguments or its result; web addresses do not count."""
    named = () if _ALL_PATH_KEYS.isdisjoint(arguments) else map(arguments.get, _PATH_KEYS)
    path = next((value for value in named if isinstance(value, str) and value), None)
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
    told = tool_named(verb.split(None, 1)[0]).operation if verb.strip() else None
    return told or tool_named(tool).operation


def _title(item: Mapping[str, object]) -> str:
    return str(next((value for key in _TODO_TEXT_KEYS if (value := item.get(key))), ""))


MOST_COUNTS = 3
"""How many lines with counts of passed and failed tests a command's outcome has: some programs write one a line."""

LONGEST_REPORT, LONGEST_ANSWER = 400, 48
"""Characters of a closing reply that a ledger quotes, and bytes of a request that is taken for the answer to a question."""

_LIST_MARK = re.compile(r"\A(?:[-*+•–>]|\d{1,3}[.)]|#{1,6})\s+")

_LABEL = re.compile(r"\W*[^\W\d_][\w ./-]{1,40}[:：][*_`]*\s+\S")
"""A name and its value."""

_PLAIN_WORD = re.compile(r"[\"'(“*_`]*[^\W\d_]+(?:['’-][^\W\d_]+)*[\"')”*_`.,;:!?]*")

_WITHOUT_BLANKS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")

LEAST_WORDS, LEAST_WORDS_SHARE, LEAST_SIGNS = 2, 0.4, 6
"""Plain words of a sentence, their least share among what blanks divide, and signs of one in a writing without blanks."""

_ASSENT = re.compile(r"\A(?:yes|no|sure|agreed|absolutely|understood)\b\W+", re.IGNORECASE)

_LOOKS = re.compile(
    r"(?:now|next|first|then|so|also)?\W{0,3}(?:i(?:['’]m| am|['’]ll| will)|let me|let['’]s)\W(?:(?:now|first|also|just|going to|"
    r"quickly|then) )*(?:re-?)?(?:look|check|read|search|verif|confirm|inspect|investigat|review|explor|open|see|find|grep|list|"
    r"try|run|test|start|continu)",
    re.IGNORECASE,
)
"""How an agent says that it is about to look at something."""

_DECISIONS = (*("decided", "chose", "choose", "instead", "went with", "will use", "going with", "opted", "settled on"),)

_DECISION = re.compile(rf"\b(?:{'|'.join(_DECISIONS)})\b|决定|改用|采用|決定|に変更|결정", re.IGNORECASE)

_FINDING = re.compile(
    r"https?://|(?<![\w#])#\d{2,}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
    r"|(?<![\w.,-])(?:\d{3,}|\d+\.\d+|\d+(?:,\d{3})+)(?![\w-])"
)
"""What makes a sentence worth quoting: a reference or a figure, which cannot be guessed."""

_DIGIT = re.compile(r"\d")

_SUMMARY_OUTCOME = re.compile(
    r"^.{0,100}\b\d+ (?:pass(?:ed|ing)?|fail(?:ed|ing|ures?)?|pending|errors?|tests?|skipped|warnings?)\b.{0,100}$"
    r"|^(?:ok|FAIL|PASS|FAILED)\b.{0,100}$|^(?:test result|Tests|Test Suites):? .{1,150}$",
    re.MULTILINE,
)
"""Counts of pytest, jest, mocha, bun, go, cargo and the like."""


MOST_SENTENCES = 500
"""How many of the user's folded sentences are looked at for what is said later about the same thing."""


def index_of(ledger: Ledger) -> SentenceIndex:
    """Return the index of the user's sentences that a ledger holds."""
    return SentenceIndex(partial(_sentences_of, ledger))


def extract(
    messages: Iterable[tuple[int, Message]],
    pinned: frozenset[str] = frozenset(),
    before: Ledger = EMPTY_LEDGER,
    said: SentenceIndex | None = None,
) -> Ledger:
    """Return the ledger of these messages, each given with the sequence number of its entry.

    `before` is the ledger of earlier messages: which todos these change, and which jobs they may end. `said` is the index of
    the user's sentences in it, if there is one already; it takes in those of these messages.
    """
    walk = _Extractor(pinned, before, said or index_of(before))
    for sequence, message in messages:
        walk.see(sequence, message)
    return walk.ledger()


def _sentences_of(ledger: Ledger) -> Iterable[Sentence]:
    """Return the user's sentences that a ledger holds: the newest of the requests, and the rules."""
    requests = ledger.requests if ledger.first_request is None else (ledger.first_request, *ledger.requests)
    found: list[Sentence] = []
    rules = {rule.text for rule in ledger.constraints}
    for quote in requests[::-1]:
        if len(found) >= MOST_SENTENCES:
            break
        found += (Sentence(quote.handle, one, one in rules) for one in reversed(spoken_sentences(quote.text)))
    known = {one.text for one in found}
    found += (Sentence(rule.handle, rule.text, is_rule=True) for rule in ledger.constraints if rule.text not in known)
    return reversed(found)


class _Extractor:
    """What has been seen so far while extracting."""

    def __init__(self, pinned: frozenset[str], before: Ledger, said: SentenceIndex) -> None:
        self.pinned_handles = pinned
        self.has_requests = before.first_request is not None
        self.folded = EMPTY_LEDGER
        self.requests: list[Quote] = []
        self.attachments: list[Quote] = []
        self.constraints: list[Quote] = []
        self.later: list[LaterWords] = []
        self.said = said
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
        self.settled: dict[str, None] = {}
        self.values: dict[str, ValueFact] = {}
        self.overcome: list[ErrorFact] = []

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
                    self._answer(self.calls.pop(part.call_id)[0], part, handle)
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
        if is_first:
            self.said.known = partial(_sentences_of, told)
        self.todos = self.todos if told.todos is None else told.todos

    def _hear(self, handle: str, text: str) -> None:
        if not text.strip():
            return
        asked = self.question.text if self.question is not None and len(text.strip().encode()) <= LONGEST_ANSWER else ""
        for sentence, is_rule in sentences_with_rules(text):
            said = Sentence(handle, sentence, is_rule)
            if is_rule:
                self.constraints.append(Quote(handle, sentence))
            for earlier in self.said.take(said):
                self.later.append(LaterWords(Quote(earlier.handle, earlier.text), Quote(handle, sentence)))
        self.requests.append(Quote(handle, text.strip(), asked))
        self.question = None

    def _read(self, handle: str, text: str, *, is_report: bool) -> None:
        may_decide = _may_decide(text)
        for piece in sentences(FENCES.sub("\n", text)):
            decides = may_decide and _DECISION.search(piece) is not None
            finds = (_DIGIT.search(piece) or "://" in piece) and _FINDING.search(piece)
            sentence = _statement(piece) if decides or finds else ""
            if not sentence:
                continue
            if decides and not _LOOKS.match(sentence):
                self.decisions.append(Quote(handle, sentence))
            elif finds and not CONTINUES.match(_ASSENT.sub("", sentence, count=1)):
                self.findings.append(Quote(handle, sentence))
        if is_report and text.strip() not in ("", _NOT_ASKED):
            self.reports.append(Quote(handle, text.strip()[:LONGEST_REPORT]))
            last = sentences(text)[-1]
            self.question = Quote(handle, last) if last.rstrip("*_`\"')）」 ").endswith(("?", "？")) else None

    def _answer(self, call: ToolCallPart, result: ToolResultPart, handle: str) -> None:
        """Take a result in, unless it is a stub: how the call ended is in the fold that came back with it."""
        if not is_kept_stub(result.output):
            self._settle(call, result, handle)

    def _settle(self, call: ToolCallPart, result: ToolResultPart, handle: str) -> None:
        arguments = arguments_of(call)
        command = command_of(call, arguments)
        operations = file_operations(call, arguments, result.output)
        if is_declined(result, operations):
            self._hear(handle, decline_reason(result))
            return
        questions = questions_of(call, arguments)
        if questions and result.status == "completed" and result.output.strip():
            self.answers.append(Quote(handle, f"{questions}\n→ {result.output.strip()}"))
        origins = [path for path, _ in operations] or [command or call.tool]
        if command:
            note(self.commands, command, _command_fact(command, result, handle), later_run)
        for job in jobs_no_longer_running(arguments, result):
            self._end(job, result, handle)
        if is_failure(result, command):
            if not (command and is_lookup(command)):
                self.errors[origins[0]] = ErrorFact(origins[0], failure_line(result), handle)
            return
        for origin in origins:
            if (failed := self.errors.pop(origin, None)) is not None:
                self.overcome.append(failed)
            self.settled[origin] = None
        for path, operation in operations:
            changed = operation != "read"
            note(self.files, path, FileFact(path, operation, int(changed), handle), later_operation)
        todos = todos_after(self.todos or (), call, arguments, result.output)
        self.todos = todos if todos or self.todos is not None else None
        is_value = not (command or operations or questions or todos or jobs_no_longer_running(arguments, result))
        if is_value and result.output.strip():
            described = _describe(call, arguments)
            self.values.pop(described, None)
            self.values[described] = ValueFact(described, result.output.strip()[:LONGEST_REPORT], handle)
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
            JobFact(_describe(call, arguments_of(call)), handle, call.call_id)
            for call, handle in self.calls.values()
            if not _only_looks(call)
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
            later=tuple(self.later),
            values=tuple(self.values.values()),
            overcome=tuple(self.overcome),
        )
        if self.folded is EMPTY_LEDGER:
            return seen
        return replace(merge(self.folded, seen), settled=seen.settled, ended=seen.ended)


def _statement(piece: str) -> str:
    """Return a sentence of a reply without its mark of a list, or nothing if it states nothing.

    Rows of tables, bare values, questions, and what announces a list state nothing.
    """
    sentence = _LIST_MARK.sub("", piece, count=1)
    if len(sentence) > LONGEST_REPORT or sentence.startswith("|") or sentence.endswith((":", "：", "?", "？")):
        return ""
    words = sentence.split()
    plain = sum(1 for word in words if _PLAIN_WORD.fullmatch(word))
    is_prose = plain >= max(LEAST_WORDS, LEAST_WORDS_SHARE * len(words))
    is_told = is_prose or _LABEL.match(sentence) or len(_WITHOUT_BLANKS.findall(sentence)) >= LEAST_SIGNS
    return sentence if is_told else ""


def _may_decide(text: str) -> bool:
    """Return whether a sentence of a text may be a decision; the expression looks at every letter, so most are spared it."""
    return not text.isascii() or any(word in text.lower() for word in _DECISIONS)


def _command_fact(command: str, result: ToolResultPart, handle: str) -> CommandFact:
    found = dict.fromkeys(line.strip() for line in _SUMMARY_OUTCOME.findall(result.output[-4_000:])[-MOST_COUNTS:])
    status = exit_status_of(result)
    if status is None and not found and result.status == "completed" and not running_job_in(result.output):
        return CommandFact(command, handle, outcome="ok" if not _REFUSED.match(result.output) else "failed")
    return CommandFact(command, handle, status, ", ".join(found)[:160])


def _only_looks(call: ToolCallPart) -> bool:
    """Return whether a call changes nothing, so that it does not matter how it ended."""
    arguments = arguments_of(call)
    command, operations = command_of(call, arguments), file_operations(call, arguments)
    return is_lookup(command) if command else {operation for _, operation in operations} == {"read"}


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
