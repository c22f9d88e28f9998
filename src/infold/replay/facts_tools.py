"""Facts that tools leave: files and what was last done to them, commands and how they ended, errors, symbols, todos.

Made by rules of their own, not by those of `core`: a ledger must not be scored by what it looks for itself.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from infold.replay.facts_events import Event
from infold.replay.facts_match import beginning, normalised
from infold.replay.facts_values import Fact

MODIFIED = ("edited", "written", "deleted", "moved")
SPELLINGS = {
    "edited": ("edited", "edit", "modified", "updated", "changed", "replaced", "str_replace", "update file", "insert"),
    "written": ("written", "created", "create", "wrote", "write", "write_file", "added", "add file"),
    "deleted": ("deleted", "delete", "removed", "delete file"),
    "moved": ("moved", "move", "renamed", "move to"),
    "read": ("read", "view", "viewed", "read_file", "reviewed", "examined"),
}
LONGEST_CUE, LONGEST_ANSWER, LONGEST_LINE = 80, 100, 240
"""Characters of a command line and of an error line that are compared, and of a command that is asked for."""

_PATCHED_FILE = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to): (\S.*)")
_PATCHED = {"Add File": "written", "Update File": "edited", "Delete File": "deleted", "Move to": "moved"}
_DOES = (
    ("deleted", ("delete", "remove")),
    ("moved", ("move", "rename")),
    ("edited", ("edit", "replace", "insert", "patch", "undo")),
    ("written", ("write", "create")),
    ("read", ("read", "view", "open", "cat")),
)
_SYMBOL = re.compile(
    r"\b(?:func|def|class|type|interface|struct|enum|const|fn|function|trait|module)\s+(?:\([^()\n]*\)\s*)?"
    r"([A-Za-z_]\w{4,})"
)
_FOLDER = re.compile(r"^cd \S+ && (?=\S)")
_EXIT = re.compile(
    r"exit(?:ed)?(?: with)?(?: code| status)?:? *(\d{1,3})\b|returncode\W{1,3}(\d{1,3})\b", re.IGNORECASE
)
_COUNTS = re.compile(r"\b\d+ (?:tests? )?(?:passed|failed|failures?|skipped|errors?)\b", re.IGNORECASE)
_TROUBLE = re.compile(
    r"error|exception|fail|fatal|panic|cannot|not found|no such|denied|undefined|unable|invalid", re.IGNORECASE
)


def tool_facts(events: Iterable[Event]) -> Iterator[Fact]:
    """The facts of these calls and results, the later one of each cue superseding those before it."""
    files: dict[str, Fact] = {}
    commands: dict[str, Fact] = {}
    errors: dict[str, Fact] = {}
    symbols: dict[tuple[str, str], Fact] = {}
    todos: dict[str, Fact] = {}
    for event in events:
        if event.speaker != "result" or event.call is None:
            continue
        command, touched = _command(event.call), tuple(_touched(event.call))
        origin = command or (touched[0][0] if touched else "")
        if command and (outcome := _outcome(event)):
            told = Fact("command", (_first(command),), outcome, event.handle, one_record=True, told=_line(command))
            _note(commands, command, told)
        if event.failed and origin and (line := _error_line(event.text)):
            cue = _first(command) if command else _suffix(origin)
            errors[origin] = Fact("error", (cue,), (line,), event.handle, told=_line(command) or cue)
        if not event.failed and not _refused(event.text):
            for path, operation in touched:
                _note_file(files, path, operation, event.call.handle)
            symbols |= {(fact.cues[0], fact.answers[0]): fact for fact in _symbols(event.call, touched)}
            todos = {fact.cues[0]: fact for fact in _todos(event.call)} or todos
    for kind in (files, commands, errors, symbols, todos):
        yield from kind.values()


def _note(facts: dict[str, Fact], key: str, fact: Fact) -> None:
    """Put a fact in the place of an older one with the same cue, whose answer is stale if it differs."""
    before = facts.pop(key, None)
    old = () if before is None else (*before.stale, before.answers[0])
    stale = tuple(dict.fromkeys(answer for answer in old if answer not in fact.answers))
    facts[key] = replace(fact, stale=stale)


def _note_file(files: dict[str, Fact], path: str, operation: str, handle: str) -> None:
    """A file's state is the last change to it; reading it again changes nothing."""
    if operation == "read" and path in files and files[path].answers != SPELLINGS["read"]:
        return
    _note(files, path, Fact("file", (_suffix(path),), SPELLINGS[operation], handle, one_record=True))


def _touched(call: Event) -> Iterator[tuple[str, str]]:
    """The files a call names with what it does to them."""
    patched = _PATCHED_FILE.findall(call.text)
    if patched:
        yield from ((path.strip(), _PATCHED[verb]) for verb, path in patched)
        return
    verb = str(call.arguments.get("command", "")).partition(" ")[0]
    operation = _operation(verb) or _operation(call.tool)
    path = next((value for key, value in call.arguments.items() if re.search("path|file|notebook", key.lower())), "")
    if operation and isinstance(path, str) and re.fullmatch(r"[^\s*?]*\.\w{1,10}", path) and "://" not in path:
        yield path, operation


def _operation(name: str) -> str:
    return next((operation for operation, words in _DOES if any(word in name.lower() for word in words)), "")


def _command(call: Event) -> str:
    value = next((call.arguments[key] for key in ("command", "cmd", "script") if key in call.arguments), "")
    if isinstance(value, list):
        value = str(value[-1]) if value else ""
    is_editor = any(key in call.arguments for key in ("path", "file_path"))
    return "" if is_editor or not isinstance(value, str) else normalised(value.strip())


def _outcome(result: Event) -> tuple[str, ...]:
    """How a command ended, in the spellings a record may give it; empty where the result does not tell."""
    counts = [normalised(count) for count in _COUNTS.findall(result.text[-2_000:])]
    if counts:
        return (counts[-1],)
    status = result.exit_status if result.exit_status is not None else _told_status(result.text)
    if status is None:
        return ()
    spelt = (f"exit {status}", f"exit code {status}", f"exit code: {status}", f"exited with code {status}")
    framed = (f"returncode>{status}", f"exit status {status}", f"returned {status}", f"code {status}")
    return (*spelt, *framed, *(("ok", "succeeded", "passes") if status == 0 else ("failed", "fails", "error")))


def _told_status(text: str) -> int | None:
    found = _EXIT.findall(f"{text[:200]}\n{text[-200:]}")
    return int(found[-1][0] or found[-1][1]) if found else None


def _error_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 8 and not _EXIT.match(line.strip())]
    line = next((line for line in lines if _TROUBLE.search(line)), lines[-1] if lines else "")
    return beginning(normalised(line).strip(), LONGEST_ANSWER)


def _refused(text: str) -> bool:
    return text.lstrip().lower().startswith(("error:", "<tool_use_error>"))


def _symbols(call: Event, touched: tuple[tuple[str, str], ...]) -> Iterator[Fact]:
    """The symbols that a call defines in one file."""
    if len(touched) != 1 or touched[0][1] not in MODIFIED:
        return
    old = " ".join(str(value) for key, value in call.arguments.items() if "old" in key.lower())
    written = "\n".join(
        str(value) for key, value in call.arguments.items() if not re.search("path|file|old", key.lower())
    )
    for name in dict.fromkeys(_SYMBOL.findall(written)):
        if name not in old:
            yield Fact("identifier", (_suffix(touched[0][0]),), (normalised(name),), call.handle)


def _todos(call: Event) -> Iterator[Fact]:
    if "todo" not in call.tool.lower() and "plan" not in call.tool.lower():
        return
    for value in call.arguments.values():
        for item in value if isinstance(value, list) else ():
            text = (
                next((item[key] for key in ("content", "step", "text") if key in item), "")
                if isinstance(item, dict)
                else ""
            )
            if text and item.get("status"):
                cue = beginning(normalised(str(text)).strip(), LONGEST_ANSWER)
                yield Fact("todo", (cue,), (normalised(str(item["status"])),), call.handle, one_record=True)


def _line(command: str) -> str:
    return command.partition("\n")[0][:LONGEST_LINE]


def _first(command: str) -> str:
    """What a command is known by: the beginning of its first line, after the folder it is run in."""
    return _FOLDER.sub("", command.splitlines()[0])[:LONGEST_CUE].strip()


def _suffix(path: str) -> str:
    """A path's last two segments: enough to know it by, however its root is written."""
    return normalised("/".join(path.replace("\\", "/").rstrip("/").split("/")[-2:]))
