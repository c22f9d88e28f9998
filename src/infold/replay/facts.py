"""The facts of a history at an end point, and the sets they are scored in.

A history is divided into the head that is folded, the verbatim tail, and what followed the end point. Facts are
extracted from the head. Facts that the tail holds too are a control, not scored; facts that the agent used later
matter most. This is deliberately independent of `core.extract`, whose work it measures.
"""

import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import (
    AssistantMessage,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
)

FactClass: TypeAlias = Literal[
    "instruction", "file", "command", "error", "identifier", "number", "decision", "todo", "reference", "found"
]
"""`found` is a path, identifier, number or reference that occurred only in a tool's output."""

FactSet: TypeAlias = Literal["all", "gate", "modified", "outcome", "later", "result-only", "tail", "decoy"]

SETS: tuple[FactSet, ...] = ("gate", "modified", "outcome", "later", "result-only", "all", "tail", "decoy")


class HistoryFact(Struct, frozen=True, omit_defaults=True):
    """A cue and its answer, normalised, with the part they come from.

    `answers` are spellings of one answer; `stale` are answers that it superseded. `one_record`: cue and answer must
    be in one record, because lists put an answer next to another's cue. `origin` and `use` are the words around the
    answer where it occurred and where it was used after the end point, without the answer itself. `sentence` is the
    whole sentence or command line.
    """

    kind: FactClass
    cues: tuple[str, ...]
    answers: tuple[str, ...]
    handle: str
    stale: tuple[str, ...] = ()
    one_record: bool = False
    sets: frozenset[FactSet] = frozenset()
    sentence: str = ""
    origin: str = ""
    use: str = ""


NEAR_CHARACTERS = 200

_BLANKS = re.compile(r"[^\S\n]+")


class ShownText(Struct, frozen=True):
    """A normalised text that is in view: one record, lines that are records each, or prose, where only nearness
    counts.
    """

    text: str
    shape: Literal["record", "lines", "prose"] = "record"

    @staticmethod
    def of(text: str, *, shape: Literal["record", "lines", "prose"] = "record") -> "ShownText":
        """Return a text normalised for comparison."""
        return ShownText(normalise(text), shape)


def normalise(text: str) -> str:
    """Return text in one Unicode form and lower case, with single blanks."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _BLANKS.sub(" ", text).lower()


def first_words(text: str, most: int) -> str:
    """Return the first words of a text, never half a word in scripts that separate words by blanks."""
    if len(text) <= most:
        return text
    return text[:most].rpartition(" ")[0] or text[:most]


def holds(shown: Iterable[ShownText], fact: HistoryFact, answers: tuple[str, ...]) -> bool:
    """Return whether any of the texts has the fact's cue with one of these answers."""
    return any(_text_holds(text, fact, answer) for text in shown for answer in answers)


def find_places(text: str, words: str) -> Iterator[int]:
    """Yield where words occur in a normalised text, but not as part of a longer word."""
    at = text.find(words)
    while at >= 0:
        if not _is_joined(text, at, words[0]) and not _is_joined(text, at + len(words), words[-1]):
            yield at
        at = text.find(words, at + 1)


def _is_joined(text: str, at: int, edge: str) -> bool:
    """Return whether the characters on both sides of a position belong to one word of a script with blanks."""
    if not 0 < at < len(text) or not edge.isascii():
        return False
    return all(side.isascii() and (side.isalnum() or side == "_") for side in (text[at - 1], text[at]))


def _text_holds(shown: ShownText, fact: HistoryFact, answer: str) -> bool:
    return any(
        _has_cue(near, fact)
        for at in find_places(shown.text, answer)
        for near in _window_around(shown, at, fact, answer)
    )


def _window_around(shown: ShownText, at: int, fact: HistoryFact, answer: str) -> Iterator[str]:
    end = at + len(answer)
    if shown.shape == "lines":
        line_end = shown.text.find("\n", end)
        yield shown.text[shown.text.rfind("\n", 0, at) + 1 : line_end if line_end >= 0 else len(shown.text)]
    if shown.shape == "record":
        yield shown.text
    if shown.shape == "prose" or not fact.one_record:
        yield shown.text[max(0, at - NEAR_CHARACTERS) : end + NEAR_CHARACTERS]


def _has_cue(text: str, fact: HistoryFact) -> bool:
    """Return whether enough of the cue occurs: all of a path or command, more than half of the words around."""
    found = sum(1 for cue in fact.cues if cue in text)
    return found * 2 > len(fact.cues) if len(fact.cues) > 1 else found == len(fact.cues)


Speaker: TypeAlias = Literal["user", "agent", "thought", "call", "result", "harness"]


class HistoryEvent(Struct, frozen=True, omit_defaults=True):
    """One text, call or result; a result has the call it answers."""

    sequence: int
    handle: str
    speaker: Speaker
    text: str
    tool: str = ""
    arguments: Mapping[str, object] = {}
    call: "HistoryEvent | None" = None
    failed: bool = False
    exit_status: int | None = None


def events_of(messages: Iterable[tuple[int, Message]]) -> tuple[HistoryEvent, ...]:
    """Return the events of messages, each with its number in the log."""
    calls: dict[str, HistoryEvent] = {}
    return tuple(event for sequence, message in messages for event in _events(sequence, message, calls))


def without_summaries(messages: Iterable[Message], summaries: Iterable[str]) -> tuple[Message, ...]:
    """Return the messages without a vendor's own summaries, which would add words to every method measured."""
    told = {" ".join(summary.split()) for summary in summaries if summary}
    return tuple(message for message in messages if not _is_summary(message, told))


def _is_summary(message: Message, told: set[str]) -> bool:
    if isinstance(message, AssistantMessage) and message.summary:
        return True
    texts = (part.text for part in message.parts if isinstance(part, TextPart))
    return any(" ".join(text.split()) in told for text in texts)


def _events(sequence: int, message: Message, calls: dict[str, HistoryEvent]) -> Iterator[HistoryEvent]:
    for index, part in enumerate(message.parts):
        handle = f"{sequence}.{index}"
        match part:
            case TextPart() if not part.ignored and part.text.strip():
                yield HistoryEvent(sequence, handle, _speaker(message, part), part.text)
            case ReasoningPart() if part.text.strip():
                yield HistoryEvent(sequence, handle, "thought", part.text)
            case ToolCallPart():
                calls[part.call_id] = _call(sequence, handle, part)
                yield calls[part.call_id]
            case ToolResultPart():
                yield _result(sequence, handle, part, calls.get(part.call_id))
            case _:
                pass


def _speaker(message: Message, part: TextPart) -> Speaker:
    if isinstance(message, AssistantMessage):
        return "agent"
    return "user" if isinstance(message, UserMessage) and not part.synthetic else "harness"


def _call(sequence: int, handle: str, part: ToolCallPart) -> HistoryEvent:
    arguments = _decode_arguments(part.arguments)
    text = "\n".join((part.tool, *_values(arguments))) if arguments else f"{part.tool}\n{part.arguments}"
    return HistoryEvent(sequence, handle, "call", text, part.tool, arguments)


def _result(sequence: int, handle: str, part: ToolResultPart, call: HistoryEvent | None) -> HistoryEvent:
    failed = part.status != "completed" or part.exit_status not in (None, 0)
    return HistoryEvent(
        sequence, handle, "result", part.output, part.tool, call=call, failed=failed, exit_status=part.exit_status
    )


def _decode_arguments(arguments: str) -> Mapping[str, object]:
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _values(value: object) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from (f"{key}: {text}" for text in _values(inner))
        case list():
            for inner in value:
                yield from _values(inner)
        case None:
            pass
        case _:
            yield str(value)


MODIFIED = ("edited", "written", "deleted", "moved")

SPELLINGS = {
    "edited": ("edited", "edit", "modified", "updated", "changed", "replaced", "str_replace", "update file", "insert"),
    "written": ("written", "created", "create", "wrote", "write", "write_file", "added", "add file"),
    "deleted": ("deleted", "delete", "removed", "delete file"),
    "moved": ("moved", "move", "renamed", "move to"),
    "read": ("read", "view", "viewed", "read_file", "reviewed", "examined"),
}


LONGEST_CUE, LONGEST_ANSWER, LONGEST_LINE = 80, 100, 240
"""Characters of a command line and of an error line that are compared, and of a command that is queried."""

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


def tool_facts(events: Iterable[HistoryEvent]) -> Iterator[HistoryFact]:
    """Yield the facts of these calls and results; of each cue the last one counts."""
    files: dict[str, HistoryFact] = {}
    commands: dict[str, HistoryFact] = {}
    errors: dict[str, HistoryFact] = {}
    symbols: dict[tuple[str, str], HistoryFact] = {}
    todos: dict[str, HistoryFact] = {}
    for event in events:
        if event.speaker != "result" or event.call is None:
            continue
        command, touched = _command(event.call), tuple(_files_of(event.call))
        origin = command or (touched[0][0] if touched else "")
        if command and (outcome := _outcome(event)):
            told = HistoryFact(
                "command", (_first(command),), outcome, event.handle, one_record=True, sentence=_line(command)
            )
            _note(commands, command, told)
        if event.failed and origin and (line := _error_line(event.text)):
            cue = _first(command) if command else _suffix(origin)
            errors[origin] = HistoryFact("error", (cue,), (line,), event.handle, sentence=_line(command) or cue)
        if not event.failed and not _is_rejected(event.text):
            for path, operation in touched:
                _note_file(files, path, operation, event.call.handle)
            symbols |= {(fact.cues[0], fact.answers[0]): fact for fact in _symbols(event.call, touched)}
            todos = {fact.cues[0]: fact for fact in _todos(event.call)} or todos
    for kind in (files, commands, errors, symbols, todos):
        yield from kind.values()


def _note(facts: dict[str, HistoryFact], key: str, fact: HistoryFact) -> None:
    """Replace an older fact with the same cue; its answer becomes stale if it differs."""
    before = facts.pop(key, None)
    old = () if before is None else (*before.stale, before.answers[0])
    stale = tuple(dict.fromkeys(answer for answer in old if answer not in fact.answers))
    facts[key] = replace(fact, stale=stale)


def _note_file(files: dict[str, HistoryFact], path: str, operation: str, handle: str) -> None:
    """Note the last change to a file; reading it again changes nothing."""
    if operation == "read" and path in files and files[path].answers != SPELLINGS["read"]:
        return
    _note(files, path, HistoryFact("file", (_suffix(path),), SPELLINGS[operation], handle, one_record=True))


def _files_of(call: HistoryEvent) -> Iterator[tuple[str, str]]:
    """Yield the files that a call names, with the operation on each."""
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


def _command(call: HistoryEvent) -> str:
    value = next((call.arguments[key] for key in ("command", "cmd", "script") if key in call.arguments), "")
    if isinstance(value, list):
        value = str(value[-1]) if value else ""
    is_editor = any(key in call.arguments for key in ("path", "file_path"))
    return "" if is_editor or not isinstance(value, str) else normalise(value.strip())


def _outcome(result: HistoryEvent) -> tuple[str, ...]:
    """Return how a command ended, in all spellings a record may use; empty if the result does not show it."""
    counts = [normalise(count) for count in _COUNTS.findall(result.text[-2_000:])]
    if counts:
        return (counts[-1],)
    status = result.exit_status if result.exit_status is not None else _status_in_text(result.text)
    if status is None:
        return ()
    spelt = (f"exit {status}", f"exit code {status}", f"exit code: {status}", f"exited with code {status}")
    framed = (f"returncode>{status}", f"exit status {status}", f"returned {status}", f"code {status}")
    return (*spelt, *framed, *(("ok", "succeeded", "passes") if status == 0 else ("failed", "fails", "error")))


def _status_in_text(text: str) -> int | None:
    found = _EXIT.findall(f"{text[:200]}\n{text[-200:]}")
    return int(found[-1][0] or found[-1][1]) if found else None


def _error_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 8 and not _EXIT.match(line.strip())]
    line = next((line for line in lines if _TROUBLE.search(line)), lines[-1] if lines else "")
    return first_words(normalise(line).strip(), LONGEST_ANSWER)


def _is_rejected(text: str) -> bool:
    return text.lstrip().lower().startswith(("error:", "<tool_use_error>"))


def _symbols(call: HistoryEvent, touched: tuple[tuple[str, str], ...]) -> Iterator[HistoryFact]:
    """Yield the symbols that a call defines in one file."""
    if len(touched) != 1 or touched[0][1] not in MODIFIED:
        return
    old = " ".join(str(value) for key, value in call.arguments.items() if "old" in key.lower())
    written = "\n".join(
        str(value) for key, value in call.arguments.items() if not re.search("path|file|old", key.lower())
    )
    for name in dict.fromkeys(_SYMBOL.findall(written)):
        if name not in old:
            yield HistoryFact("identifier", (_suffix(touched[0][0]),), (normalise(name),), call.handle)


def _todos(call: HistoryEvent) -> Iterator[HistoryFact]:
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
                cue = first_words(normalise(str(text)).strip(), LONGEST_ANSWER)
                yield HistoryFact("todo", (cue,), (normalise(str(item["status"])),), call.handle, one_record=True)


def _line(command: str) -> str:
    return command.partition("\n")[0][:LONGEST_LINE]


def _first(command: str) -> str:
    """Return what identifies a command: the start of its first line, without a leading `cd`."""
    return _FOLDER.sub("", command.splitlines()[0])[:LONGEST_CUE].strip()


def _suffix(path: str) -> str:
    """Return a path's last two segments, which identify it however its root is written."""
    return normalise("/".join(path.replace("\\", "/").rstrip("/").split("/")[-2:]))


LONGEST_QUOTE = 100
"""Characters of a decision that are compared."""


SHORTEST, LONGEST = 12, 300
"""Characters of a sentence that counts as an instruction or a decision, not as a remark or pasted text."""

NUMBER = re.compile(r"(?<![\w.,:/#-])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+|\d{3,})(?![\w:/-]|[.,]\d)")

REFERENCE = re.compile(
    r"https?://[^\s\"'<>`)\]}]+|(?<![\w#])#\d{2,6}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
)

_GATE = re.compile(
    r"\b(?:must|don'?t|do not|never|only|always|make sure|no need to|should ?n[o']t|instead of|without)\b"
    r"|不要|不能|不需要|必须|只需|只要|只能|禁止|务必|别再|避免"
    r"|必ず|しないで|ないでください|のみ|だけ|禁止|してはいけ|べき"
    r"|하지 ?마|지 ?말|반드시|절대|만 사용|금지|않도록",
    re.IGNORECASE,
)

_CHOICE = re.compile(
    r"\b(?:decided|chose|instead|going with|opted|settled on|i'll use|we'll use)\b|决定|改用|決定|採用|にします|결정",
    re.IGNORECASE,
)

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")

_WORD = re.compile(r"[぀-ヿ一-鿿가-힣]{2,4}|(?:(?![぀-ヿ一-鿿가-힣])[^\W\d_]){3,}")

_QUOTED = re.compile(r"^\s*(?:[>|$#⏺●│]|at |\d+[→:|]|[-+]{3} )")


def user_facts(events: Iterable[HistoryEvent]) -> Iterator[HistoryFact]:
    """Yield the user's sentences; rules among them are in the set `gate`."""
    for event in events:
        if event.speaker != "user":
            continue
        for sentence in _sentences(event.text):
            gate = _GATE.search(sentence) is not None
            yield HistoryFact(
                "instruction", (), (normalise(sentence),), event.handle, sets=frozenset({"gate"} if gate else ())
            )


def word_facts(events: Iterable[HistoryEvent]) -> Iterator[HistoryFact]:
    """Yield decisions, numbers and references in the agent's text; of numbers about the same thing the last one
    counts.
    """
    numbers: dict[tuple[str, ...], HistoryFact] = {}
    other: dict[tuple[str, str], HistoryFact] = {}
    for event in events:
        if event.speaker != "agent":
            continue
        for fact in (*_decisions(event), *_references(event)):
            other[fact.kind, fact.answers[0]] = fact
        for fact in _numbers(event):
            numbers[fact.cues] = _supersede(numbers.pop(fact.cues, None), fact)
    yield from (*other.values(), *numbers.values())


def _line_at(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the text before and after a position on its line, at most 200 characters each."""
    before = text[max(0, start - 200) : start].rpartition("\n")[2]
    return before, text[end : end + 200].partition("\n")[0]


def number_cues(text: str, start: int, end: int) -> tuple[str, ...]:
    """Return the nearest words on a number's line: three before it and two after."""
    before, after = _line_at(text, start, end)
    return tuple(dict.fromkeys((*_WORD.findall(normalise(before))[-3:], *_WORD.findall(normalise(after))[:2])))


def _supersede(before: HistoryFact | None, fact: HistoryFact) -> HistoryFact:
    if before is None or before.answers == fact.answers:
        return fact
    stale = tuple(answer for answer in (*before.stale, *before.answers) if answer not in fact.answers)
    return HistoryFact("number", fact.cues, fact.answers, fact.handle, stale=stale)


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(_FENCE.sub("\n", text)):
        told = sentence.strip()
        if len(told.encode()) >= SHORTEST and len(told) <= LONGEST and not _QUOTED.match(sentence):
            yield told


def _decisions(event: HistoryEvent) -> Iterator[HistoryFact]:
    for sentence in _sentences(event.text):
        if _CHOICE.search(sentence) and len(sentence) >= 2 * SHORTEST:
            yield HistoryFact(
                "decision", (), (first_words(normalise(sentence), LONGEST_QUOTE),), event.handle, sentence=sentence
            )


def _numbers(event: HistoryEvent) -> Iterator[HistoryFact]:
    for match in NUMBER.finditer(event.text):
        cues = number_cues(event.text, *match.span())
        if len(cues) >= 2:
            plain = match.group().replace(",", "")
            yield HistoryFact("number", cues, tuple(dict.fromkeys((match.group(), plain))), event.handle)


def _references(event: HistoryEvent) -> Iterator[HistoryFact]:
    for match in REFERENCE.finditer(event.text):
        cues = number_cues(event.text, *match.span())
        if cues:
            yield HistoryFact("reference", cues, (normalise(match.group().rstrip(".,;:")),), event.handle)


MOST_OF_A_KIND = 80
"""Facts of one kind and set per session, chosen by hash, so that a giant session does not outweigh the others."""

WORDS_AROUND = 12
"""Words on each side of an answer that make up a query."""

_PATH = re.compile(r"(?<![\w:/.@+-])/?(?:[\w.@+-]++/)+[\w@+-]+\.[A-Za-z]\w{0,7}\b")

_NAME = re.compile(r"(?<![\w$])(?=\w{6,})(?:[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Za-z]+_\w*[A-Za-z]\w*)(?!\w)")

_NAMED = re.compile(f"{_PATH.pattern}|{_NAME.pattern}|`([^`\\n]{{4,60}})`")

_BLANK = re.compile(r"\s+")


class DividedHistory(Struct, frozen=True):
    """A history at an end point: the folded head, the verbatim tail, and what followed."""

    head: tuple[HistoryEvent, ...]
    tail: tuple[HistoryEvent, ...]
    later: tuple[HistoryEvent, ...]


class _Use(Struct, frozen=True):
    """A place after the end point where the agent used something."""

    event: int
    start: int
    end: int


def facts_of(divided: DividedHistory) -> tuple[HistoryFact, ...]:
    """Return the facts of a head with their sets and the words to query them by; deterministic, in a fixed order."""
    uses = _Uses(divided.later)
    tail = tuple(ShownText.of(event.text) for event in divided.tail)
    texts = {event.handle: event.text for event in divided.head}
    told = (*user_facts(divided.head), *tool_facts(divided.head), *word_facts(divided.head))
    facts = [_with_sets(fact, uses, tail, texts) for fact in told]
    facts += [_with_sets(fact, uses, tail, texts, found=True) for fact in _result_only_facts(divided, uses)]
    return tuple(_sample(facts))


def _with_sets(
    fact: HistoryFact, uses: "_Uses", tail: Sequence[ShownText], texts: dict[str, str], *, found: bool = False
) -> HistoryFact:
    """Return a fact with its sets and the words around it."""
    if holds(tail, fact, fact.answers):
        return replace(fact, sets=frozenset({"tail"}))
    use = uses.of_fact(fact)
    sets: set[FactSet] = {"all", *fact.sets}
    if fact.kind == "file" and fact.answers != SPELLINGS["read"]:
        sets.add("modified")
    if fact.kind in ("command", "error"):
        sets.add("outcome")
    if use is not None and fact.kind not in ("instruction", "todo", "error"):
        sets.add("result-only" if found else "later")
    origin = _origin(fact, texts[fact.handle])
    return replace(fact, sets=frozenset(sets), origin=origin, use=uses.words(use, fact) if use else "")


def _origin(fact: HistoryFact, text: str) -> str:
    """Return the words a fact occurred with: its cue if that names something, otherwise those around the answer."""
    if fact.kind in ("file", "command", "todo"):
        return fact.sentence or fact.cues[0]
    if fact.kind == "error":
        return f"error {fact.sentence}"
    shown = normalise(text)
    at = next((at for at in find_places(shown, fact.answers[0])), 0)
    return remove_answers(_around(shown, at, at + len(fact.answers[0])), fact.answers)


def remove_answers(words: str, answers: Iterable[str]) -> str:
    """Return a query's words without the answer, the words that contain it, and parts of it."""
    told = tuple(answers)
    return " ".join(word for word in words.split() if not any(_reveals(word, answer) for answer in told))


def _reveals(word: str, answer: str) -> bool:
    core = word.strip("\"'`.,;:()[]{}<>=*")
    return answer in word or (" " not in answer and len(core) > 3 and core in answer)


def _around(text: str, start: int, end: int) -> str:
    before = _BLANK.split(text[max(0, start - 400) : start])[-WORDS_AROUND:]
    after = _BLANK.split(text[end : end + 400])[:WORDS_AROUND]
    return " ".join((*before, *after))


class _Uses:
    """The agent's texts and calls after the end point, made searchable."""

    def __init__(self, later: Sequence[HistoryEvent]) -> None:
        self.events = [event for event in later if event.speaker in ("agent", "call", "thought")]
        self.texts = [normalise(event.text) for event in self.events]

    def of_fact(self, fact: HistoryFact) -> _Use | None:
        """Return where a fact was used: its file or command, a name in a decision, otherwise the answer itself."""
        if fact.kind == "decision":
            return next((use for name in _names_in(fact.sentence) if (use := self.of(name, ())) is not None), None)
        sought = fact.cues[0] if fact.kind in ("file", "command") else fact.answers[0]
        return self.of(sought, fact.cues if fact.kind == "number" else ())

    def of(self, words: str, cues: tuple[str, ...]) -> _Use | None:
        """Return the first use of these words, near one of the cues if there are any."""
        for number, text in enumerate(self.texts):
            for at in find_places(text, words):
                near = text[max(0, at - 100) : at + len(words) + 100]
                if not cues or any(cue in near for cue in cues):
                    return _Use(number, at, at + len(words))
        return None

    def words(self, use: _Use, fact: HistoryFact) -> str:
        """Return the words around a use; for a call, preceded by the agent's last text."""
        words = _around(self.texts[use.event], use.start, use.end)
        if self.events[use.event].speaker == "call":
            said = next((text for text, event in self._before(use.event) if event.speaker != "call"), "")
            words = f"{' '.join(said.split()[-2 * WORDS_AROUND :])} {words}"
        return remove_answers(words, fact.cues if fact.kind in ("file", "command") else fact.answers)

    def _before(self, number: int) -> Iterator[tuple[str, HistoryEvent]]:
        return zip(reversed(self.texts[:number]), reversed(self.events[:number]), strict=True)


def _names_in(text: str) -> Iterator[str]:
    for match in _NAMED.finditer(text):
        yield normalise(match.group(1) or match.group())


def _result_only_facts(divided: DividedHistory, uses: _Uses) -> Iterator[HistoryFact]:
    """Yield the facts that occurred only in tool output and were used after the end point."""
    results = [event for event in divided.head if event.speaker == "result"]
    said = "\n".join(normalise(event.text) for event in divided.head if event.speaker != "result")
    places = _last_places(results)
    for kind, pattern in _FOUND:
        wanted = dict.fromkeys(match for event in uses.events for match in pattern.findall(event.text))
        for value in wanted:
            if value in places and normalise(value) not in said:
                yield from _found_fact(kind, value, places[value], uses)


_FOUND: tuple[tuple[FactClass, re.Pattern[str]], ...] = (
    ("found", _PATH),
    ("found", _NAME),
    ("found", REFERENCE),
    ("number", NUMBER),
)


def _last_places(results: Sequence[HistoryEvent]) -> dict[str, tuple[HistoryEvent, int]]:
    return {
        match.group(): (event, match.start())
        for event in results
        for _, pattern in _FOUND
        for match in pattern.finditer(event.text)
    }


def _found_fact(kind: FactClass, value: str, place: tuple[HistoryEvent, int], uses: _Uses) -> Iterator[HistoryFact]:
    event, at = place
    cues = number_cues(event.text, at, at + len(value))
    if kind == "number" and (len(cues) < 2 or uses.of(normalise(value), cues) is None):
        return
    if cues:
        yield HistoryFact(kind, cues, (normalise(value),), event.handle)


def _sample(facts: Iterable[HistoryFact]) -> Iterator[HistoryFact]:
    """Yield at most `MOST_OF_A_KIND` facts of each kind and sets; all instructions, files and todos."""
    groups: dict[tuple[FactClass, frozenset[FactSet]], list[HistoryFact]] = {}
    for fact in facts:
        groups.setdefault((fact.kind, fact.sets), []).append(fact)
    for (kind, _), group in groups.items():
        whole = kind in ("instruction", "file", "todo")
        yield from group if whole else sorted(group, key=_by_hash)[:MOST_OF_A_KIND]


def _by_hash(fact: HistoryFact) -> tuple[int, str]:
    return zlib.crc32(f"{fact.kind} {fact.answers[0]} {fact.handle}".encode()), fact.answers[0]
