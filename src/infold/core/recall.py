"""Rank folded content for a query, and write the hits into a reply of limited size.

Decides what a text's tokens are, which passages of which documents answer a query best, and which of their lines are
shown. Passages, not documents, are ranked: a tool result of fifty thousand tokens would win or lose as a whole.
`documents_of` turns a session's parts into documents: arguments decoded, a result under the call it answers with its
outcome, so that a command's words find its output. Where messages come from and who may see them is up to the caller.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import log

from msgspec import Struct

from infold.core.extract import arguments_of, exit_status_of
from infold.core.messages import (
    FilePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    is_media_lost,
    media_label,
)
from infold.core.policy import Ruler
from infold.core.tokens import estimate

PASSAGE_LINES, PASSAGE_CHARACTERS = 14, 900
"""The most a passage holds: a function or a table, small enough to be about one thing."""


LONGEST_LINE = 400
"""Characters of one line that an excerpt shows, around the match."""


SATURATION, LENGTH_WEIGHT = 1.2, 0.5
"""BM25's k1 and b: repeated words soon count little, and long passages are penalised by half."""


NEARNESS = 1.0
"""How much finding a query's words within a few lines adds to finding them anywhere in the passage."""


RECENCY = 0.2
"""How much more the newest passage counts than the oldest: of several runs of one command the last is usually meant."""


TITLE_WEIGHT = 2


NEAR_LINES = 3


RESCORED = 3
"""How many passages per wanted hit are rescored."""


EXCERPT_SHARE = 0.7
"""Share of a reply for whole excerpts; the rest lists names that occur in further hits."""


MOST_NAMES, LONGEST_HEADING = 12, 100


MOST_OF_ONE = 5
"""Maximum hits of one document among those returned."""


_WIDE = r"぀-ヿㇰ-ㇿ㐀-䶿一-鿿豈-﫿가-힣々"


_RUN = re.compile(rf"(?P<wide>[{_WIDE}]+)|(?:(?![{_WIDE}])\w)+(?:[./\\:@#+-]+(?:(?![{_WIDE}])\w)+)*")


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


_NAME = re.compile(
    r"https?://[^\s\"'<>)\]]+|(?<![\w.@+/-])(?:[\w.@+-]*+/)+[\w.@+-]+|\b[A-Za-z]\w*(?:[a-z][A-Z]|_)\w+\b|\b[0-9a-f]{7,40}\b"
)


_SHOWABLE = re.compile(rf"[^\0]{{1,{LONGEST_LINE}}}(?=[\s,;|)\]}}，。；]|\Z)|[^\0]{{1,{LONGEST_LINE}}}|\0")


_PIECE = re.compile(r"[^\W_]+")


class Document(Struct, frozen=True, omit_defaults=True):
    """A text that can be found, the handle to recall it by, and what it is about, if the text does not show it."""

    handle: str
    text: str
    title: str = ""


class Hit(Struct, frozen=True):
    """A match: the document's handle, its score, the lines around it, and the title."""

    handle: str
    score: float
    excerpt: str
    title: str = ""


class _Passage(Struct, frozen=True, gc=False):
    document: int
    start: int
    end: int
    length: int


def search_tokens(text: str) -> list[str]:
    """Return the search tokens of a text, lower-cased and in order.

    Words and numbers; identifiers and paths whole and in their parts; pairs of neighbouring characters in scripts
    without spaces. Stores that index by themselves use the same tokens, so that every store finds the same.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found: list[str] = []
    for match in _RUN.finditer(_THOUSANDS.sub("", text)):
        found += _pairs(match.group()) if match.lastgroup else _pieces(match.group())
    return found


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


@lru_cache(maxsize=65_536)
def _pieces(run: str) -> tuple[str, ...]:
    """Split a run of letters, digits and joints: the whole, its path and name, its words and their camel-case parts."""
    pieces = [run, *run.split(":"), *(piece.rpartition("/")[2] for piece in run.split(":"))]
    for word in re.split(r"[./\\:@#+-]+", run):
        pieces += (word, *(inner for part in _PIECE.findall(word) for inner in (part, *_humps(part))))
    return tuple(dict.fromkeys(piece.lower() for piece in pieces if piece))


def _humps(word: str) -> list[str]:
    return _HUMP.findall(word) if word.isascii() and not word.islower() and not word.isdigit() else []


class Index:
    """Documents prepared for searching, oldest first; grows by `add`."""

    def __init__(self) -> None:
        self._documents: list[Document] = []
        self._passages: list[_Passage] = []
        self._postings: dict[str, dict[int, int]] = {}
        self._length = 0

    @staticmethod
    def of(documents: Iterable[Document]) -> "Index":
        """Return the index of these documents, given oldest first."""
        index = Index()
        for document in documents:
            index.add(document)
        return index

    def add(self, document: Document) -> None:
        """Add a document; it counts as newer than those before it."""
        self._documents.append(document)
        title = search_tokens(document.title)
        for start, end in _passages_of(document.text):
            counts = Counter((*title * TITLE_WEIGHT, *search_tokens(document.text[start:end])))
            number, length = len(self._passages), counts.total()
            self._passages.append(_Passage(len(self._documents) - 1, start, end, length))
            self._length += length
            for term, count in counts.items():
                self._postings.setdefault(term, {})[number] = count

    def search(self, query: str, *, most: int = 10) -> tuple[Hit, ...]:
        """Return the best matches, best first; of equals the newest. The same query always finds the same."""
        weights = self._weights(query)
        scores = self._scores(weights)
        likely = sorted(scores, key=lambda number: (-scores[number], -number))[: most * RESCORED]
        hits = sorted((self._rescored(number, scores[number], weights) for number in likely), key=_rank, reverse=True)
        return tuple(hit for _, hit in _without_repeats(hits))[:most]

    def _weights(self, query: str) -> dict[str, float]:
        """Return the weight of each of a query's tokens: the rarer, the higher."""
        passages = len(self._passages)
        known = (term for term in dict.fromkeys(search_tokens(query)) if term in self._postings)
        return {term: log(1 + (passages - (df := len(self._postings[term])) + 0.5) / (df + 0.5)) for term in known}

    def _scores(self, weights: dict[str, float]) -> dict[int, float]:
        scores: dict[int, float] = {}
        mean = self._length / max(1, len(self._passages))
        for term, weight in weights.items():
            for number, count in self._postings[term].items():
                damp = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * self._passages[number].length / mean)
                scores[number] = scores.get(number, 0.0) + weight * count * (SATURATION + 1) / (count + damp)
        return scores

    def _rescored(self, number: int, score: float, weights: dict[str, float]) -> tuple[int, Hit]:
        passage = self._passages[number]
        document = self._documents[passage.document]
        lines = tuple(line.rstrip() for line in _lines(document.text[passage.start : passage.end])) or ("",)
        found = [weights.keys() & set(search_tokens(line)) for line in lines]
        near = max(_told(frozenset().union(*found[at : at + NEAR_LINES]), weights) for at in range(len(lines)))
        excerpt = "\n".join(lines)
        closer = score * (1 + NEARNESS * near / sum(weights.values()) + RECENCY * number / len(self._passages))
        return number, Hit(document.handle, closer, excerpt, document.title)


def render_hits(hits: Iterable[Hit], *, budget_tokens: int, rule: Ruler = "features") -> str:
    """Return the hits as a text of at most that many tokens, best first, without repetition.

    The best are shown with their lines; for the others, while there is room, the names that occur in them, so that the
    next query can be a better one.
    """
    page = _Page(budget_tokens, rule)
    waiting = [hit for hit in hits if not page.show(hit, int(budget_tokens * EXCERPT_SHARE))]
    for hit in waiting:
        page.name(hit)
    return "\n\n".join(page.blocks)


class _Page:
    """A reply while `reply` writes it."""

    def __init__(self, budget_tokens: int, rule: Ruler) -> None:
        self.budget_tokens = budget_tokens
        self.rule: Ruler = rule
        self.spent = 0
        self.blocks: list[str] = []
        self.seen: set[str] = set()

    def show(self, hit: Hit, allowed: int) -> bool:
        """Show a hit's lines if they fit into `allowed` tokens; lines shown before are skipped."""
        lines = [line for line in hit.excerpt.splitlines() if line.strip() and line.strip() not in self.seen]
        block = "\n".join((_with_heading(hit), *lines))
        return self._put(block, (line.strip() for line in lines), allowed)

    def name(self, hit: Hit) -> None:
        """List the names in a hit, on one line, without those shown before."""
        names = [name for name in dict.fromkeys(_NAME.findall(hit.excerpt)) if name not in self.seen]
        if names:
            self._put(
                f"{_with_heading(hit)[:LONGEST_HEADING]} … {' '.join(names[:MOST_NAMES])}", names, self.budget_tokens
            )

    def _put(self, block: str, seen: Iterable[str], allowed: int) -> bool:
        size = estimate(block, self.rule) + 2
        if self.spent + size > allowed:
            return False
        self.spent += size
        self.blocks.append(block)
        self.seen.update(seen, _NAME.findall(block))
        return True


def _with_heading(hit: Hit) -> str:
    return f"[{hit.handle}] {hit.title}".rstrip()


def _passages_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield where passages begin and end: as many lines as fit, at least one."""
    start = end = lines = 0
    for line in _lines(text):
        if lines == PASSAGE_LINES or (lines and end + len(line) - start > PASSAGE_CHARACTERS):
            yield start, end
            start, lines = end, 0
        end, lines = end + len(line), lines + 1
    yield start, end


def _lines(text: str) -> Iterator[str]:
    """Yield a text's lines with their ends, and pieces of those that are too long for one."""
    for line in text.splitlines(keepends=True):
        yield from _SHOWABLE.findall(line) if len(line) > LONGEST_LINE else (line,)


def _without_repeats(hits: Iterable[tuple[int, Hit]]) -> Iterator[tuple[int, Hit]]:
    """Yield the hits without repetitions, and only a few of one document."""
    seen: Counter[str] = Counter()
    for number, hit in hits:
        if seen[hit.excerpt] == 0 and seen[f"[{hit.handle}]"] < MOST_OF_ONE:
            yield number, hit
        seen.update((hit.excerpt, f"[{hit.handle}]"))


def _rank(found: tuple[int, Hit]) -> tuple[float, int]:
    number, hit = found
    return round(hit.score, 6), number


def _told(terms: frozenset[str], weights: dict[str, float]) -> float:
    return sum(weights[term] for term in sorted(terms))


LONGEST_TITLE = 300
"""Characters of a call that precede its result."""


def documents_of(messages: Iterable[tuple[int, Message]]) -> Iterator[Document]:
    """Yield the parts that hold text, oldest first; each message is given with its number in the log.

    A call short enough to precede its result whole is not a document of its own, unless it was never answered.
    """
    calls: dict[str, Document] = {}
    for sequence, message in messages:
        for index, part in enumerate(message.parts):
            handle = f"{sequence}.{index}"
            match part:
                case TextPart() | ReasoningPart() if part.text.strip():
                    yield Document(handle, part.text, title=getattr(part, "document", None) or "")
                case ToolCallPart():
                    calls[part.call_id] = _call(handle, part)
                case ToolResultPart():
                    yield from _result_documents(handle, part, calls.pop(part.call_id, None))
                case FilePart():
                    yield Document(handle, _describe_media(part))
                case _:
                    pass
    yield from calls.values()


def _call(handle: str, part: ToolCallPart) -> Document:
    written = tuple(_argument_lines(arguments_of(part))) or (part.arguments,)
    return Document(handle, "\n".join(written), title=part.tool)


def _result_documents(handle: str, part: ToolResultPart, call: Document | None) -> Iterator[Document]:
    text = "\n".join((part.output, *map(media_label, part.files))) if part.files else part.output
    if call is None:
        yield Document(handle, text, title=f"{part.tool}{_outcome_suffix(part)}")
        return
    title = " ".join((call.title, *call.text.split()))
    if len(title) > LONGEST_TITLE:
        yield call
    yield Document(handle, text, title=f"{title[:LONGEST_TITLE]}{_outcome_suffix(part)}")


def _describe_media(part: FilePart) -> str:
    """Describe a medium by its metadata; its bytes are not in the log."""
    kept = "bytes, which were not stored" if is_media_lost(part) else "bytes"
    known = (part.name, part.media_type, f"{part.byte_size:,} {kept}" if part.byte_size else "", part.reference)
    return ", ".join(filter(None, known))


def _outcome_suffix(part: ToolResultPart) -> str:
    status = exit_status_of(part)
    if status is not None:
        return f" → exit {status}"
    return "" if part.status == "completed" else f" → {part.status}"


def _argument_lines(value: object) -> Iterator[str]:
    """Yield decoded arguments as lines; short names first on their line."""
    match value:
        case dict():
            for key, inner in value.items():
                for line in _argument_lines(inner):
                    yield f"{key}: {line}"
        case list():
            for inner in value:
                yield from _argument_lines(inner)
        case None:
            pass
        case _:
            yield str(value)
