"""Facts that an agent needed later, and whether a text holds them, for `needed_later.py`.

A fact is a rare token of the history before a cut (a path, an identifier, a number, a quoted text) that stands in a tool call
after it, unless a tool or the user showed it again before that call. Tokens are told by their shape and by how often they
occur; no list of words decides. There are two rules for whether a text holds a fact:

- *in context*: the token stands together with its file, its command or two more words of a line that it came from, so that a
  bare list of names holds none.
- *only with its subject*: the same, in a sentence or a line that says something of it. Fragments of lines do not count
  (`without_fragments`), nor do lists of names, whatever stands around them (`statements_of`). In a message that is shown in its
  own form (prose, the arguments of a call, a result as far as it is shown) every token counts, since speaker and call are its
  subject (`verbatim_records`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import (
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    decode_arguments,
)

RARE_SHARE, RARE_EVENTS = 0.1, 3
"""A token is rare if it occurs in at most this share of the history's events, or in this many."""

Kind: TypeAlias = Literal["path", "identifier", "number", "quote"]
Speaker: TypeAlias = Literal["user", "agent", "call", "result", "system"]


# Tokens: what can be needed.

_CANDIDATE = re.compile(
    r"(?P<path>~?(?:[\w.@+-]*/)+[\w.@+-]*\w)"
    r"|(?P<dotted>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+)"
    r"|(?P<number>(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w))"
    r"|(?P<name>[A-Za-z0-9_]{5,})",
    re.ASCII,
)
_NAME = re.compile(r"[A-Za-z0-9_]{5,}")
_QUOTED = re.compile(r"\"([^\"\n]{12,160})\"|`([^`\n]{12,160})`|“([^”\n]{12,160})”")
_WIDE = "぀-ヿ㐀-䶿一-鿿가-힣"
WORD = re.compile(rf"[a-z]{{3,}}|\d{{3,}}|[{_WIDE}]{{2}}")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
_LINE_NUMBER = re.compile(r"^\s*\d{1,6}(?:→|\t|\s*\||:(?!\d))")


class Token(Struct, frozen=True):
    """A token that can be a fact: its kind, the key it is compared by, and how it was written."""

    kind: Kind
    key: str
    written: str


def tokens_in(line: str, files: frozenset[str] = frozenset()) -> Iterator[Token]:
    """Yield the tokens of a line; `files` are the names with a dot that are known to be files."""
    for match in _CANDIDATE.finditer(line):
        written = match.group()
        match match.lastgroup:
            case "path":
                yield from _path_tokens(written)
            case "dotted" if written in files:
                yield Token("path", written, written)
            case "number":
                digits = written.replace(",", "")
                if sum(map(str.isdigit, digits)) >= 3 and not digits.endswith("0"):
                    yield Token("number", digits, written)
            case _:
                yield from (Token("identifier", name, name) for name in _NAME.findall(written) if is_marked(name))
    for match in _QUOTED.finditer(line):
        text = next(filter(None, match.groups()))
        if text == text.strip() and sum(any(map(str.isalpha, word)) for word in text.split()) >= 3:
            yield Token("quote", " ".join(text.split()), text)


def _path_tokens(written: str) -> Iterator[Token]:
    """Yield a path, known by its last two segments, so that relative and absolute spellings are the same."""
    segments = [segment for segment in written.split("/") if segment.strip(".~")]
    key = "/".join(segments[-2:])
    if len(segments) > 1 and len(key) >= 5 and any(map(str.isalpha, key)):
        yield Token("path", key, written)


def keys_shown(line: str) -> frozenset[str]:
    """Return what a line shows: the keys of its tokens, the folders and the file of a path, and names with a dot."""
    keys = {token.key for token in tokens_in(line)}
    for match in _CANDIDATE.finditer(line):
        if match.lastgroup == "dotted":
            keys.add(match.group())
        elif match.lastgroup == "path":
            segments = [segment for segment in match.group().split("/") if segment.strip(".~")]
            keys.update((f"{folder}/{name}" for folder, name in pairwise(segments)), segments[-1:])
    return frozenset(keys)


def is_marked(name: str) -> bool:
    """Return whether a name is unlike a word: a digit, an underscore, camel case or capitals in it."""
    bare = name.strip("_")
    has_letter = any(map(str.isalpha, bare))
    return has_letter and (bool(re.search(r"\d|_|[a-z][A-Z]", bare)) or bare.isupper())


def words_of(text: str) -> set[str]:
    """Return the words of a text: lower-cased, names in their parts, pairs of characters where there are no spaces."""
    return set(WORD.findall(HUMP.sub(" ", text).lower()))


# Events: a session as lines with their tokens.


class Line(Struct, frozen=True):
    """A line, its tokens, all that it shows, and its files: named in it, or by the nearest line before that names any."""

    text: str
    tokens: tuple[Token, ...]
    keys: frozenset[str]
    files: frozenset[str]


class Event(Struct, frozen=True):
    """One part of a message; `title` is the call in short, for a result the call that it answers."""

    speaker: Speaker
    sequence: int
    lines: tuple[Line, ...]
    title: str = ""
    title_files: frozenset[str] = frozenset()
    failed: bool = False
    tool: str = ""

    @property
    def keys(self) -> frozenset[str]:
        return frozenset().union(*(line.keys for line in self.lines))

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


class _Draft(Struct, frozen=True):
    """An event whose tokens are not yet known."""

    speaker: Speaker
    sequence: int
    text: str
    title: str = ""
    failed: bool = False
    tool: str = ""


def events_of(messages: Sequence[Message]) -> tuple[Event, ...]:
    """Return the parts of a session that hold text, in order, with their tokens."""
    drafts = tuple(_drafts(messages))
    files = frozenset(
        match.group().rpartition("/")[2]
        for draft in drafts
        for match in _CANDIDATE.finditer(draft.text)
        if match.lastgroup == "path"
    )
    return tuple(_event(draft, files) for draft in drafts)


def _drafts(messages: Sequence[Message]) -> Iterator[_Draft]:
    titles: dict[str, str] = {}
    for sequence, message in enumerate(messages):
        speaker: Speaker = "user" if isinstance(message, UserMessage) else "agent"
        speaker = "system" if isinstance(message, SystemMessage) else speaker
        for part in message.parts:
            match part:
                case TextPart() | ReasoningPart() if part.text.strip():
                    yield _Draft(speaker, sequence, part.text)
                case ToolCallPart():
                    leaves = tuple(_leaves(decode_arguments(part.arguments), part.arguments))
                    short = (leaf for leaf in leaves if len(leaf) <= 300 and "\n" not in leaf.strip())
                    titles[part.call_id] = title = " ".join((part.tool, *short))
                    yield _Draft("call", sequence, "\n".join(leaves), title, tool=part.tool)
                case ToolResultPart():
                    failed = part.status == "error" or bool(part.exit_status)
                    output = "\n".join(_LINE_NUMBER.sub("", line) for line in part.output.splitlines())
                    yield _Draft("result", sequence, output, titles.get(part.call_id, part.tool), failed, part.tool)
                case _:
                    pass


def _leaves(value: object, raw: str) -> Iterator[str]:
    """Yield the values of a call's arguments as text, without their names; the text itself if it is not JSON."""
    match value:
        case None:
            yield raw
        case dict():
            for child in value.values():
                yield from _leaves(child, "")
        case list():
            for child in value:
                yield from _leaves(child, "")
        case bool():
            pass
        case _:
            yield str(value)


def _event(draft: _Draft, files: frozenset[str]) -> Event:
    lines: list[Line] = []
    named: frozenset[str] = frozenset()
    for text in draft.text.splitlines():
        found = tuple(tokens_in(text, files))
        named = frozenset(token.key for token in found if token.kind == "path") or named
        lines.append(Line(text, found, keys_shown(text), named))
    title_files = frozenset(token.key for token in tokens_in(draft.title, files) if token.kind == "path")
    return Event(draft.speaker, draft.sequence, tuple(lines), draft.title, title_files, draft.failed, draft.tool)


# Facts: what was needed.


class Place(Struct, frozen=True):
    """Where a token stood in the history: the words of its line and of its call, and its files."""

    words: frozenset[str]
    files: frozenset[str]


class NeededFact(Struct, frozen=True):
    """A rare token of the history that a later call used; `query` is that call in words, without the token."""

    kind: Kind
    key: str
    result_only: bool
    places: tuple[Place, ...]
    query: str

    @property
    def words(self) -> set[str]:
        return words_of(self.key)


def needed_facts(
    events: Sequence[Event], cut: int, *, always_shown: str = "", common: frozenset[str] = frozenset()
) -> tuple[NeededFact, ...]:
    """Return the facts before message `cut` that were needed after it, in the order of their use.

    `always_shown` is text that every request has, such as the system prompt; its tokens need not be remembered, and
    those that are `common` are known anyway. A number counts only if its use shares a word with a line that had it.
    """
    head = [event for event in events if event.sequence < cut]
    frequency = Counter(key for event in head for key in event.keys)
    most = max(RARE_EVENTS, int(RARE_SHARE * len(head)))
    shown = {event.tool for event in events}.union(common, *map(keys_shown, always_shown.splitlines()))
    shown |= {key for event in head if event.speaker == "system" for key in event.keys}
    used: dict[str, tuple[Token, Event, int]] = {}
    for event in events:
        if event.sequence < cut or event.speaker == "agent":
            continue
        if event.speaker != "call":
            shown |= event.keys
            continue
        for number, line in enumerate(event.lines):
            for token in line.tokens:
                if token.key not in shown and 0 < frequency[token.key] <= most:
                    used.setdefault(token.key, (token, event, number))
    places = _places(head, used.keys())
    speakers = defaultdict[str, set[Speaker]](set)
    for event in head:
        for key in event.keys & used.keys():
            speakers[key].add(event.speaker)
    facts = (
        NeededFact(token.kind, key, speakers[key] == {"result"}, tuple(places[key]), query_of(token, event, number))
        for key, (token, event, number) in used.items()
    )
    return tuple(fact for fact in facts if fact.kind != "number" or _is_meant(fact))


def _is_meant(number: NeededFact) -> bool:
    """Return whether a number of a later call is that of the history, and not equal to it by chance."""
    words = words_of(number.query)
    return any(words & place.words for place in number.places)


def _places(head: Iterable[Event], keys: Iterable[str]) -> dict[str, list[Place]]:
    wanted = set(keys)
    places: dict[str, list[Place]] = {key: [] for key in wanted}
    for event in head:
        title = words_of(event.title)
        for line in event.lines:
            for key in line.keys & wanted:
                own = words_of(key)
                files = (line.files | event.title_files) - {key}
                places[key].append(Place(frozenset((words_of(line.text) | title) - own), files))
    return places


LONGEST_LINE, MOST_QUERY_WORDS = 300, 60


def query_of(token: Token, event: Event, number: int) -> str:
    """Return a call in words: its short arguments and the lines around the token, without the token."""
    around = []
    for line in event.lines[max(0, number - 1) : number + 2]:
        at = max(0, line.text.find(token.written) - LONGEST_LINE // 2)
        around.append(line.text[at : at + LONGEST_LINE])
    spellings = {other.written for line in event.lines for other in line.tokens if other.key == token.key}
    text = f"{event.title}\n" + "\n".join(line for line in around if line not in event.title)
    for written in sorted(spellings | {token.key}, key=len, reverse=True):
        text = text.replace(written, " ")
    return " ".join(text.split()[:MOST_QUERY_WORDS])


# Texts in which a fact may stand.

HANDLE = re.compile(r"\[\d+\.\d+\]")
_BREAK = r"\s,;|、，"
_ITEM = rf"[\"'`]?[^{_BREAK}\"'`{{}}=<>]++[\"'`]?"
_NAME_LIST = re.compile(rf"(?<![^{_BREAK}])(?:{_ITEM}\s*[,;|、，]\s*){{3,}}{_ITEM}")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


class Record(Struct, frozen=True):
    """What belongs together in a text: a line with the line it is indented under, or a passage.

    `bare` are the keys that stand in a list of names and nowhere else in it, `rest` is the record without such lists.
    `is_verbatim`: the text is a message's own, so that its tokens need no further company.
    """

    text: str
    rest: str
    keys: frozenset[str]
    bare: frozenset[str]
    is_verbatim: bool = False


def record_of(text: str) -> Record:
    """Return a text as a record, its lists of names apart."""
    rest = "\n".join(_without_names(line) for line in text.splitlines())
    keys, kept = (frozenset[str]().union(*map(keys_shown, some.splitlines())) for some in (text, rest))
    return Record(text, rest, keys, keys - kept)


def name_lists(line: str) -> list[str]:
    """Return the lists of names in a line: four single words or more with commas, or marked names side by side."""
    lists = [match.group() for match in _NAME_LIST.finditer(line)]
    run: list[str] = []
    for piece in (*_NAME_LIST.sub("\n", line).split(" "), "\n"):
        if piece.strip() and any(tokens_in(piece)):
            run.append(piece)
            continue
        if len(run) > 3:
            lists.append(" ".join(run))
        run = []
    bare = _BULLET.sub("", line).strip()
    return lists or ([bare] if bare and " " not in bare and any(tokens_in(bare)) else [])


def _without_names(line: str) -> str:
    for names in name_lists(line):
        line = line.replace(names, " ")
    return line


def records_of(text: str) -> tuple[Record, ...]:
    """Return the lines of a checkpoint, each with the line it is indented under."""
    parents: list[tuple[int, str]] = []
    records = []
    for line in HANDLE.sub("", text).splitlines():
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        while parents and parents[-1][0] >= depth:
            parents.pop()
        records.append(record_of("\n".join((*(parent for _, parent in parents), line))))
        parents.append((depth, line))
    return tuple(records)


def event_records(events: Iterable[Event]) -> Iterator[Record]:
    """Yield the lines of events shown whole, each with its call."""
    for event in events:
        yield from (record_of(f"{event.title}\n{line.text}") for line in event.lines if line.keys)


_SOURCE = re.compile(
    r".*\[\d+\.\d+\]"  # anything that ends in a handle
    r"|(?:[^\s`]*/[^\s`]*|[\w.-]+\.\w+)(?:: \w+(?: \([^)]*\))?)?"  # a path, perhaps with what was done to it
    r"|`.*` → .*"  # a command and how it ended
)


def without_fragments(line: str) -> str:
    """Return a line without the pieces of other lines that it quotes.

    These are what follows a dash behind a handle, a path or a command with its outcome, as in
    `- src/x.py: edited [3.0] — def load · retry_limit =`, and pieces that are joined with ` · `: of such a line what stands
    before the last colon ahead of them is left.
    """
    for dash in re.finditer(" — ", line):
        said = line[: dash.start()]
        if _SOURCE.fullmatch(_BULLET.sub("", said).strip()):
            line = said
            break
    said, joint, _ = line.partition(" · ")
    return said.rpartition(": ")[0] if joint else line


def statements_of(text: str) -> tuple[Record, ...]:
    """Return the lines of a checkpoint, each with the line it is indented under, without fragments and lists of names."""
    whole = "\n".join(map(without_fragments, text.splitlines()))
    return tuple(Record(one.rest, one.rest, one.keys - one.bare, frozenset()) for one in records_of(whole))


def verbatim_records(events: Iterable[Event]) -> Iterator[Record]:
    """Yield the lines of events shown whole, each with its call, as what needs no further company."""
    return (replace(record, is_verbatim=True) for record in event_records(events))


def list_share(text: str) -> float:
    """Return which share of a text's characters stands in bare lists of names."""
    listed = sum(len(names) for line in HANDLE.sub("", text).splitlines() for names in name_lists(line))
    return listed / max(1, len(text))


class Shown(Struct, frozen=True):
    """A text that a model would see, as records by the keys that they hold."""

    text: str
    records: Mapping[str, Sequence[Record]]

    @staticmethod
    def of(records: Iterable[Record]) -> "Shown":
        """Return the records with what finds them."""
        records = tuple(records)
        by_key = defaultdict[str, list[Record]](list)
        for record in records:
            for key in record.keys:
                by_key[key].append(record)
        return Shown(" ".join(" ".join(record.text.split()) for record in records), dict(by_key))

    def holds(self, fact: NeededFact) -> bool:
        """Return whether a fact stands here verbatim, or together with its file, its command or two more words of its line."""
        if fact.kind == "quote":
            return fact.key in self.text
        found = list(self.records.get(fact.key, ()))
        if any(record.is_verbatim for record in found):
            return True
        folder, _, name = fact.key.rpartition("/")
        if fact.kind == "path" and folder and f"{folder}/" in self.text:  # written relative to a folder named elsewhere
            found += self.records.get(name, ())
        return any(_has_company(record, fact) for record in found)


def _has_company(record: Record, fact: NeededFact) -> bool:
    name = fact.key.rpartition("/")[2]
    listed = fact.key in record.bare or (fact.key not in record.keys and name in record.bare)
    words, files = words_of(record.rest) - fact.words, record.keys - record.bare
    if fact.kind == "path" and not listed:
        return bool(words)
    return any(files & place.files or len(words & place.words) >= min(2, len(place.words)) for place in fact.places)
