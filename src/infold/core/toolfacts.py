"""What a tool call did, read from its name, arguments and result: files touched, command run, todo list, job, failure.

Agents name their tools differently; this module knows the habits (`read_file`, `str_replace_editor`, `apply_patch`, `bash`,
`TodoWrite`, …) and decides by words in names and by argument keys, so that unknown tools of the same kind are understood.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from infold.core.ledger import FileOperation, TodoFact
from infold.core.messages import ToolCallPart, ToolResultPart

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
_DEFINED = re.compile(
    r"\b(?:def|class|func|fn|fun|function|type|interface|struct|enum|trait|impl|const|module|message|table)\s+"
    r"(?:\([^()\n]*\)\s*)?([A-Za-z_$][\w$]{2,})"
)
_SHOWN_FILE = re.compile(r"\[File: (.+?) \(\d+ lines total\)\]")
_OPEN_FILE = re.compile(r"\(Open file: (.+?)\)\s")
"""How SWE-agent's `open`, `create` and `edit`, which need not name a file, say which one is open."""
_EDITOR_COMMAND = re.compile(r"(?:open|create|edit)\b(?![-/.=])")
_TOLD_FILE = re.compile(r"\bfile: (\S.*)$")
"""How SpecStory tells of a file tool's call, whose arguments it does not keep."""
_EXIT_WORDS = r"(?:exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)|return[ _]?code)[\"'\s:=>]*(-?\d{1,3})\b"
_EXIT_AT_HEAD = re.compile(rf"^\W{{0,3}}(?:process |command )?{_EXIT_WORDS}", re.IGNORECASE | re.MULTILINE)
_EXIT_AT_TAIL = re.compile(_EXIT_WORDS, re.IGNORECASE)
_REFUSED = re.compile(r"\s*(?:ERROR|Error):|\s*Your proposed edit has introduced")
"""How tools that have no status of their own (OpenHands' editor, SWE-agent's) begin the report of a failure."""
_ANSWERED_NO = re.compile(r"(?:git (?:-C \S+ )?)?(?:[efz]?grep|rg|ag|diff|cmp)\b|(?:test|\[\[?) ")
"""Commands whose status 1 is an answer: nothing matched, the two differ, it is not so."""
_SHELL_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_COMPARED = ("<", ">", "+", "-", " ", "@@")
"""How the lines begin in which `diff` shows what it compared."""
_NOTIFIED = re.compile(r"<task-id>([^<]{1,80})</task-id>.{0,400}?<status>(\w+)</status>", re.DOTALL)
"""How Claude Code tells, in a message of the user's role, that something it had left running has come to its end."""
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
    r"\W*(?:chunk id|wall time|process exited|exit code|original token count|output|returncode)\b", re.IGNORECASE
)
"""What agents put around a command's output; it tells nothing of the failure."""
_NAMED_ERROR = re.compile(r"^.*\b\w*(?:Error|Exception|Failure)\b: .+$|^.*\b(?:panic|fatal|FAILED)\b.*$", re.MULTILINE)
_ERROR = re.compile(
    r"^.*\b(?:error|failed|failure|cannot|can't|unable|denied|not found|no such|undefined|invalid|exception|traceback)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)


def arguments_of(call: ToolCallPart) -> Arguments:
    """A call's arguments as a mapping; empty where they are no JSON object."""
    try:
        decoded = msgspec.json.decode(call.arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def file_operations(
    call: ToolCallPart, arguments: Arguments, output: str = ""
) -> tuple[tuple[str, FileOperation], ...]:
    """The files a call speaks of and what it does to each; a patch may name several."""
    patched = tuple(_patched_files(arguments.values() if arguments else (call.arguments,)))
    if patched:
        return patched
    path, operation = _path(arguments, output), _operation(call.tool, arguments)
    if not path or operation is None or len(path) > LONGEST_LINE or "\n" in path:
        return ()
    return ((path, operation),)


def names_defined(call: ToolCallPart, arguments: Arguments, path: str) -> tuple[str, ...]:
    """What the text that a call writes into a file defines there: functions, types, constants, each once."""
    values = arguments.items() if arguments else (("", call.arguments),)
    written = "\n".join(
        _section(str(value), path)
        for key, value in values
        if key not in _PATH_KEYS and not key.lower().startswith(("old", "command"))
    )
    return tuple(dict.fromkeys(_DEFINED.findall(written)))


def _section(text: str, path: str) -> str:
    """Of a patch, what it adds to that file; any other text whole."""
    if "*** " not in text:
        return text
    sections = re.split(r"^\*\*\* (?:Add|Update) File: ", text, flags=re.MULTILINE)
    own = next((section for section in sections if section.startswith(path)), "")
    return "\n".join(line for line in own.splitlines() if line.startswith("+"))


def command_of(call: ToolCallPart, arguments: Arguments) -> str:
    """The command line a call runs, on one line; empty where it runs none."""
    if not _SHELL_NAME.search(call.tool):
        return ""
    value = next((arguments[key] for key in _COMMAND_KEYS if arguments.get(key)), "")
    if isinstance(value, list):
        value = value[2] if len(value) >= 3 and value[1] in _SHELL_SWITCHES else " ".join(map(str, value))
    return " ".join(value.split())[:LONGEST_COMMAND] if isinstance(value, str) else ""


def todos_after(
    before: tuple[TodoFact, ...], call: ToolCallPart, arguments: Arguments, output: str
) -> tuple[TodoFact, ...]:
    """The todo list or plan after a call: as the call writes it whole, one task added or updated, or as it was."""
    if not re.search(r"todo|plan|task", call.tool, re.IGNORECASE):
        return before
    written = next((arguments[key] for key in _TODO_KEYS if key in arguments), None)
    if isinstance(written, list):
        return tuple(_todo(item) for item in written if isinstance(item, dict | str))
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
    """The id of what a call left running (its own where the result names none); empty where it left nothing."""
    found = _RUNNING.search(result.output[:400]) or _RUNNING.search(result.output[-400:])
    if found is None:
        return ""
    return next((group for group in found.groups() if group), call.call_id)


def jobs_asked_after(arguments: Arguments, result: ToolResultPart) -> tuple[str, ...]:
    """The ids of jobs that a call asked after or stopped, if its result no longer finds them running."""
    if _STILL_RUNNING.search(result.output[:400]):
        return ()
    return tuple(str(arguments[key]) for key in _JOB_KEYS if key in arguments)


def jobs_told_ended(text: str) -> tuple[str, ...]:
    """The ids of jobs that a program's note says have ended, however they did."""
    return tuple(job.strip() for job, status in _NOTIFIED.findall(text) if status.lower() not in _UNDER_WAY)


def exit_status_of(result: ToolResultPart) -> int | None:
    """How a command ended: as recorded, or as its output says at either end."""
    if result.exit_status is not None:
        return result.exit_status
    found = _EXIT_AT_HEAD.search(result.output[:400])
    status = found.group(1) if found else next(reversed(_EXIT_AT_TAIL.findall(result.output[-400:])), None)
    return None if status is None else int(status)


def failed(result: ToolResultPart, command: str = "") -> bool:
    """Whether a result reports a failure; what an output says of an exit status counts only where a command ran."""
    status = exit_status_of(result) if command else result.exit_status
    if status == 1 and _answers_no(command, result.output):
        return False
    if status is None:
        return result.status != "completed" or _REFUSED.match(result.output) is not None
    return result.status != "completed" or status != 0


def _answers_no(command: str, output: str) -> bool:
    """Whether status 1 of a command line is the answer of its last command, and nothing it shows speaks of an error."""
    last = re.split(r"[;&|]", _SHELL_QUOTED.sub("''", command))[-1].strip()
    told = (line for line in output.splitlines() if not line.startswith(_COMPARED) and not _EXIT_AT_TAIL.search(line))
    return _ANSWERED_NO.match(last) is not None and not any(_ERROR.match(line) for line in told)


def failure_line(result: ToolResultPart) -> str:
    """The line of a failed result that tells the most: the last named error, else the first line that speaks of one."""
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
    """The one file a call is about: as its arguments name it, or as its result shows it; an address of the web is none."""
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


def _todo(item: Mapping[str, object] | str) -> TodoFact:
    if isinstance(item, str):
        return TodoFact(item, "")
    return TodoFact(_title(item), str(item.get("status", "")))


def _title(item: Mapping[str, object]) -> str:
    return str(next((value for key in _TODO_TEXT_KEYS if (value := item.get(key))), ""))
