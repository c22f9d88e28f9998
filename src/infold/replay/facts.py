"""The facts of a history at an end point, and the sets they are scored in.

A history divides into the head that is folded, the verbatim tail, and what came after the end point. Facts are made from
the head; what the tail holds anyway is a control and left out of the scores; what the agent used afterwards is what counts.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from infold.replay.facts_events import Event
from infold.replay.facts_match import Shown, holds, normalised, places_of
from infold.replay.facts_tools import SPELLINGS, tool_facts
from infold.replay.facts_values import Fact, FactClass, FactSet
from infold.replay.facts_words import NUMBER, REFERENCE, number_cues, user_facts, word_facts

MOST_OF_A_KIND = 80
"""Facts of one kind and set that a session contributes, chosen by hash; a giant session must not outvote the others."""

WORDS_AROUND = 12
"""Words on either side of an answer that a query is made of."""

_PATH = re.compile(r"(?<![\w:/.@+-])/?(?:[\w.@+-]++/)+[\w@+-]+\.[A-Za-z]\w{0,7}\b")
_NAME = re.compile(r"(?<![\w$])(?=\w{6,})(?:[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Za-z]+_\w*[A-Za-z]\w*)(?!\w)")
_NAMED = re.compile(f"{_PATH.pattern}|{_NAME.pattern}|`([^`\\n]{{4,60}})`")
_BLANK = re.compile(r"\s+")


class Divided(Struct, frozen=True):
    """A history at an end point: what is folded, what stays verbatim, what was still to come."""

    head: tuple[Event, ...]
    tail: tuple[Event, ...]
    later: tuple[Event, ...]


class _Use(Struct, frozen=True):
    """A place after the end point where the agent used something."""

    event: int
    start: int
    end: int


def facts_of(divided: Divided) -> tuple[Fact, ...]:
    """The facts of a head, each in its sets, with the words to ask for it by; always the same and in the same order."""
    uses = _Uses(divided.later)
    tail = tuple(Shown.of(event.text) for event in divided.tail)
    texts = {event.handle: event.text for event in divided.head}
    told = (*user_facts(divided.head), *tool_facts(divided.head), *word_facts(divided.head))
    facts = [_placed(fact, uses, tail, texts) for fact in told]
    facts += [_placed(fact, uses, tail, texts, found=True) for fact in _found(divided, uses)]
    return tuple(_sampled(facts))


def _placed(fact: Fact, uses: "_Uses", tail: Sequence[Shown], texts: dict[str, str], *, found: bool = False) -> Fact:
    """A fact with its sets and the words around it."""
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


def _origin(fact: Fact, text: str) -> str:
    """The words a fact was told with: its cue where that names something, else those around the answer."""
    if fact.kind in ("file", "command", "todo"):
        return fact.told or fact.cues[0]
    if fact.kind == "error":
        return f"error {fact.told}"
    shown = normalised(text)
    at = next((at for at in places_of(shown, fact.answers[0])), 0)
    return without(_around(shown, at, at + len(fact.answers[0])), fact.answers)


def without(words: str, answers: Iterable[str]) -> str:
    """A query's words without the answer, without what it stands in, and without pieces of it."""
    told = tuple(answers)
    return " ".join(word for word in words.split() if not any(_tells(word, answer) for answer in told))


def _tells(word: str, answer: str) -> bool:
    core = word.strip("\"'`.,;:()[]{}<>=*")
    return answer in word or (" " not in answer and len(core) > 3 and core in answer)


def _around(text: str, start: int, end: int) -> str:
    before = _BLANK.split(text[max(0, start - 400) : start])[-WORDS_AROUND:]
    after = _BLANK.split(text[end : end + 400])[:WORDS_AROUND]
    return " ".join((*before, *after))


class _Uses:
    """What the agent said and did after the end point, made searchable; a scratch pad of `facts_of`."""

    def __init__(self, later: Sequence[Event]) -> None:
        self.events = [event for event in later if event.speaker in ("agent", "call", "thought")]
        self.texts = [normalised(event.text) for event in self.events]

    def of_fact(self, fact: Fact) -> _Use | None:
        """Where a fact was used: its file or command again, something a decision names, else the answer itself."""
        if fact.kind == "decision":
            return next((use for name in _names_in(fact.told) if (use := self.of(name, ())) is not None), None)
        sought = fact.cues[0] if fact.kind in ("file", "command") else fact.answers[0]
        return self.of(sought, fact.cues if fact.kind == "number" else ())

    def of(self, words: str, cues: tuple[str, ...]) -> _Use | None:
        """The first use of these words; near one of the cues, where those are given."""
        for number, text in enumerate(self.texts):
            for at in places_of(text, words):
                near = text[max(0, at - 100) : at + len(words) + 100]
                if not cues or any(cue in near for cue in cues):
                    return _Use(number, at, at + len(words))
        return None

    def words(self, use: _Use, fact: Fact) -> str:
        """The words around a use; before those of a call, what the agent said last."""
        words = _around(self.texts[use.event], use.start, use.end)
        if self.events[use.event].speaker == "call":
            said = next((text for text, event in self._before(use.event) if event.speaker != "call"), "")
            words = f"{' '.join(said.split()[-2 * WORDS_AROUND :])} {words}"
        return without(words, fact.cues if fact.kind in ("file", "command") else fact.answers)

    def _before(self, number: int) -> Iterator[tuple[str, Event]]:
        return zip(reversed(self.texts[:number]), reversed(self.events[:number]), strict=True)


def _names_in(text: str) -> Iterator[str]:
    for match in _NAMED.finditer(text):
        yield normalised(match.group(1) or match.group())


def _found(divided: Divided, uses: _Uses) -> Iterator[Fact]:
    """What stood only in tool output and was used after the end point."""
    results = [event for event in divided.head if event.speaker == "result"]
    said = "\n".join(normalised(event.text) for event in divided.head if event.speaker != "result")
    places = _last_places(results)
    for kind, pattern in _FOUND:
        wanted = dict.fromkeys(match for event in uses.events for match in pattern.findall(event.text))
        for value in wanted:
            if value in places and normalised(value) not in said:
                yield from _found_fact(kind, value, places[value], uses)


_FOUND: tuple[tuple[FactClass, re.Pattern[str]], ...] = (
    ("found", _PATH),
    ("found", _NAME),
    ("found", REFERENCE),
    ("number", NUMBER),
)


def _last_places(results: Sequence[Event]) -> dict[str, tuple[Event, int]]:
    return {
        match.group(): (event, match.start())
        for event in results
        for _, pattern in _FOUND
        for match in pattern.finditer(event.text)
    }


def _found_fact(kind: FactClass, value: str, place: tuple[Event, int], uses: _Uses) -> Iterator[Fact]:
    event, at = place
    cues = number_cues(event.text, at, at + len(value))
    if kind == "number" and (len(cues) < 2 or uses.of(normalised(value), cues) is None):
        return
    if cues:
        yield Fact(kind, cues, (normalised(value),), event.handle)


def _sampled(facts: Iterable[Fact]) -> Iterator[Fact]:
    """At most so many of each kind in each group of sets; instructions, files and outcomes all."""
    groups: dict[tuple[FactClass, frozenset[FactSet]], list[Fact]] = {}
    for fact in facts:
        groups.setdefault((fact.kind, fact.sets), []).append(fact)
    for (kind, _), group in groups.items():
        whole = kind in ("instruction", "file", "todo")
        yield from group if whole else sorted(group, key=_by_hash)[:MOST_OF_A_KIND]


def _by_hash(fact: Fact) -> tuple[int, str]:
    return zlib.crc32(f"{fact.kind} {fact.answers[0]} {fact.handle}".encode()), fact.answers[0]
