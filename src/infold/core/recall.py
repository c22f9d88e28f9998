"""Rank folded content for a query, and write the hits into a reply of limited size.

Decides what a text's tokens are, which passages of which documents answer a query best, and which of their lines are
shown. Passages, not documents, are ranked: a tool result of fifty thousand tokens would win or lose as a whole.
`documents_of` turns a session's parts into documents: arguments decoded, a result under the call it answers with its
outcome, so that a command's words find its output. Where messages come from and who may see them is up to the caller.
"""

import re
import unicodedata
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from heapq import nsmallest
from itertools import dropwhile, islice
from math import inf, log
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.extract import arguments_of, exit_status_of
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    is_compact,
    is_media_lost,
    is_recall,
    media_label,
)
from infold.core.policy import Ruler
from infold.core.tokens import estimate

MOST_HITS = 100
"""Passages that one query returns: the first are shown whole, more by the lines that match, the others by the names in them."""

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


PIECE_SHARE = 0.6
"""How much each further part of a query's path or identifier counts, compared with the part before it that is rarer."""


TITLE_WEIGHT = 2


NEAR_LINES = 3


RESCORED = 120
"""How many of the likeliest passages are compared by nearness, recency and kind."""


OWN_WEIGHT = 0.8
"""How much the agent's own texts and calls count, compared with what it was given: a plan quotes the result it came from."""


COMMON, CHOSEN = 200, 240
"""A token in more passages than the first is common; it is looked up for the best of the second, where rarer ones found more."""


MOST_TOKENS = 32
"""Distinct tokens of a query that are looked up, the rarest; a question has a dozen, a pasted log thousands."""


MOST_OF_PART = 4_000_000
"""Characters of one part that are indexed; what is longer is encoded data or a dump, and read by its handle."""


WHOLE_SHARE, LINES_SHARE, FIRST_SHARE = 0.5, 0.85, 0.7
"""Shares of a reply that are filled by whole passages, then by lines that match; the rest lists names that occur in further
hits. The best hit may take the last of them, so that it is shown with its lines however little room there is."""


MATCH_SHARE = 0.5
"""A line is shown, with its neighbours, if it matches at least this well compared with the best line of its passage."""


MOST_NAMES, FEW_NAMES = 24, 6
"""Names that are listed for one hit, and where there is no room for so many."""


MOST_OF_ONE = 20
"""Maximum hits of one document among those returned; they are shown under one heading."""


_WIDE = r"぀-ヿㇰ-ㇿ㐀-䶿一-鿿豈-﫿가-힣々"


_RUN = re.compile(rf"(?P<wide>[{_WIDE}]+)|(?:(?![{_WIDE}])\w)+(?:[./\\:@#+-]+(?:(?![{_WIDE}])\w)+)*")


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


_NAME = re.compile(
    r"https?://[^\s\"'<>)\]]+|(?<![\w.@+/-])(?:[\w.@+-]*+/)+[\w.@+-]+|\b[A-Za-z]\w*(?:[a-z][A-Z]|_)\w+\b|\b[0-9a-f]{7,40}\b"
)


_SHOWABLE = re.compile(rf"[^\0]{{1,{LONGEST_LINE}}}(?=[\s,;|)\]}}，。；]|\Z)|[^\0]{{1,{LONGEST_LINE}}}|\0")


_PIECE = re.compile(r"[^\W_]+")


Kind: TypeAlias = Literal["given", "own", "echo"]
"""Whose a text is: given by the user or a tool, the agent's own, or what recall brought back from elsewhere."""


class Document(Struct, frozen=True, omit_defaults=True):
    """A text that can be found, the handle to recall it by, and what it is about, if the text does not show it."""

    handle: str
    text: str
    title: str = ""
    kind: Kind = "given"


class Hit(Struct, frozen=True):
    """A match: the document's handle, its score, the passage, the title, and whether the passage is the whole document.

    `start` and `end` are the passage's place in the document, `weights` how well each of its lines matches.
    """

    handle: str
    score: float
    excerpt: str
    title: str = ""
    is_whole: bool = False
    start: int = 0
    end: int = 0
    weights: tuple[float, ...] = ()


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
    found: list[str] = []
    for match in _runs(text):
        found += _pairs(match.group()) if match.lastgroup else _pieces(match.group())
    return found


def _runs(text: str) -> Iterator[re.Match[str]]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _RUN.finditer(_THOUSANDS.sub("", text))


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


NUMBER_SHIFT, COUNT_SHIFT, MOST_COUNTED = 32, 16, 0xFFFF
"""A posting in 64 bits: a passage's number, how often it has the token, and in which of its lines (a bit each)."""


class Index:
    """Documents prepared for searching, oldest first; grows by `add`.

    Postings hold all that ranking needs, so that a query reads the text of its hits alone.
    """

    def __init__(self) -> None:
        self._documents: list[Document] = []
        self._passages: list[_Passage] = []
        self._postings: dict[str, array[int]] = {}
        self._length = 0
        self._damping: list[float] = []

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
        title = {term: count * TITLE_WEIGHT for term, count in Counter(search_tokens(document.title)).items()}
        for start, lines in _passages_of(document.text[:MOST_OF_PART]):
            counts, places = Counter(title), dict[str, int]()
            for at, line in enumerate(lines):
                for term in search_tokens(line):
                    counts[term] += 1
                    places[term] = places.get(term, 0) | 1 << at
            number = len(self._passages) << NUMBER_SHIFT
            self._add_passage(_Passage(len(self._documents) - 1, start, start + sum(map(len, lines)), counts.total()))
            for term, count in counts.items():
                posting = number | min(count, MOST_COUNTED) << COUNT_SHIFT | places.get(term, 0)
                self._postings.setdefault(term, array("Q")).append(posting)

    def _add_passage(self, passage: _Passage) -> None:
        self._passages.append(passage)
        self._length += passage.length

    def search(self, query: str, *, most: int = MOST_HITS) -> tuple[Hit, ...]:
        """Return the best matches, best first; of equals the newest. The same query always finds the same.

        What recall itself brought back is found only if there is nothing else: it would stand in place of what it quotes.
        """
        weights = self._weights(query)
        if len(self._damping) < len(self._passages):
            self._damping = self._damping_of({"echo"})
        scores = self._scores(weights, self._damping) or self._scores(weights, self._damping_of(frozenset()))
        likely = _best(scores, RESCORED)
        lines = self._line_weights(likely, weights)
        near = {number: _nearness(lines[number]) / sum(weights.values()) for number in likely}
        ranked = sorted(
            ((self._rescore(number, scores[number], near[number]), number) for number in likely), reverse=True
        )
        hits = (self._hit(number, score, lines[number]) for score, number in ranked)
        return tuple(islice(_without_repeats(hits), max(0, most)))

    def _weights(self, query: str) -> dict[str, float]:
        """Return the weight of each of a query's tokens: the rarer, the higher; of very many the rarest.

        The parts of a path or an identifier occur together: after the rarest each counts less, so that a path of nine folders
        does not outweigh the words around it.
        """
        passages = len(self._passages)
        known = [term for term in dict.fromkeys(search_tokens(query)) if term in self._postings]
        if len(known) > MOST_TOKENS:
            known = nsmallest(MOST_TOKENS, known, key=lambda term: len(self._postings[term]))
        rarity = {term: log(1 + (passages - (df := len(self._postings[term])) + 0.5) / (df + 0.5)) for term in known}
        shares: dict[str, float] = {}
        for match in _runs(query):
            pieces = () if match.lastgroup else _pieces(match.group())
            for place, term in enumerate(sorted(rarity.keys() & set(pieces), key=lambda term: (-rarity[term], term))):
                shares[term] = max(shares.get(term, 0.0), PIECE_SHARE**place)
        return {term: weight * shares.get(term, 1.0) for term, weight in rarity.items()}

    def _damping_of(self, left_out: Set[Kind]) -> list[float]:
        """Return by how much each passage's length lessens its counts: without end, to 0, for kinds that are left out."""
        mean = max(1, self._length) / max(1, len(self._passages))
        return [
            inf
            if self._documents[passage.document].kind in left_out
            else SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * passage.length / mean)
            for passage in self._passages
        ]

    def _scores(self, weights: dict[str, float], damping: Sequence[float]) -> dict[int, float]:
        """Return the BM25 scores of the likeliest passages.

        Rare tokens are looked up first. Once they have found many passages, a common token is looked up for the best of these
        alone: it would add little to others, and need not be followed through the whole session.
        """
        scores: dict[int, float] = {}
        is_chosen = False
        for term, weight in sorted(weights.items(), key=lambda item: -item[1]):
            postings: Sequence[int] = self._postings[term]
            if len(postings) > COMMON and len(scores) > CHOSEN:
                scores, is_chosen = {number: scores[number] for number in _best(scores, CHOSEN)}, True
            if is_chosen:
                postings = self._postings_in(term, scores)
            for posting in postings:
                number, count = posting >> NUMBER_SHIFT, posting >> COUNT_SHIFT & MOST_COUNTED
                scores[number] = scores.get(number, 0.0) + weight * count * (SATURATION + 1) / (count + damping[number])
        return {number: score for number, score in scores.items() if score}

    def _postings_in(self, term: str, numbers: Iterable[int]) -> list[int]:
        """Return the postings of a token in these passages."""
        postings, found = self._postings[term], list[int]()
        for number in numbers:
            at = bisect_left(postings, number << NUMBER_SHIFT)
            if at < len(postings) and postings[at] >> NUMBER_SHIFT == number:
                found.append(postings[at])
        return found

    def _line_weights(self, numbers: Iterable[int], weights: dict[str, float]) -> dict[int, list[float]]:
        """Return for each line of these passages the weight of the tokens in it."""
        found = {number: [0.0] * PASSAGE_LINES for number in numbers}
        for term, weight in weights.items():
            for posting in self._postings_in(term, found):
                lines, places = found[posting >> NUMBER_SHIFT], posting & MOST_COUNTED
                while places:
                    first = places & -places
                    lines[first.bit_length() - 1] += weight
                    places ^= first
        return found

    def _rescore(self, number: int, score: float, near: float) -> float:
        closer = score * (1 + NEARNESS * near + RECENCY * number / len(self._passages))
        is_own = self._documents[self._passages[number].document].kind == "own"
        return round(closer * OWN_WEIGHT if is_own else closer, 6)

    def _hit(self, number: int, score: float, weights: Sequence[float]) -> Hit:
        passage = self._passages[number]
        document = self._documents[passage.document]
        excerpt = "\n".join(line.rstrip() for line in _lines(document.text[passage.start : passage.end]))
        is_whole = passage.start == 0 and passage.end == len(document.text)
        return Hit(
            document.handle, score, excerpt, document.title, is_whole, passage.start, passage.end, tuple(weights)
        )

    def pack(self, first: "IndexSize", end: "IndexSize") -> bytes:
        """Return what was added between two sizes, to be stored: `unpack` adds it again without reading the texts."""
        documents, postings = self._documents[first.documents : end.documents], dict[str, bytes]()
        offset, limit = first.passages << NUMBER_SHIFT, end.passages << NUMBER_SHIFT
        for term, held in self._postings.items():
            new = held[bisect_left(held, offset) : bisect_left(held, limit)]
            if new:
                postings[term] = array("Q", [posting - offset for posting in new]).tobytes()
        passages = [
            (one.document - first.documents, one.start, one.end, one.length)
            for one in self._passages[first.passages : end.passages]
        ]
        return zlib.compress(msgspec.msgpack.encode(_Packed(_stamp(documents), passages, postings)), level=1)

    def unpack(self, packed: bytes, documents: Sequence[Document]) -> bool:
        """Add documents by what `pack` returned for them; false, and nothing is added, if it does not belong to them.

        It does not if another version wrote it, which divides texts or tokens in another way, or if it is damaged.
        """
        try:
            piece = msgspec.msgpack.decode(zlib.decompressobj().decompress(packed, MOST_UNPACKED), type=_Packed)
            postings = {term: array("Q", held) for term, held in piece.postings.items()}
        except (zlib.error, msgspec.MsgspecError, ValueError):
            return False
        number_limit = len(piece.passages) << NUMBER_SHIFT
        if (
            piece.stamp != _stamp(documents)
            or any(passage[0] >= len(documents) for passage in piece.passages)
            or any(not held or held[-1] >= number_limit for held in postings.values())
        ):
            return False
        before, offset = len(self._documents), len(self._passages) << NUMBER_SHIFT
        self._documents += documents
        for document, start, end, length in piece.passages:
            self._add_passage(_Passage(before + document, start, end, length))
        for term, held in postings.items():
            shifted = array("Q", [posting + offset for posting in held]) if offset else held
            self._postings.setdefault(term, array("Q")).extend(shifted)
        return True

    @property
    def size(self) -> "IndexSize":
        """How many documents and passages it holds."""
        return IndexSize(len(self._documents), len(self._passages))


class IndexSize(Struct, frozen=True):
    """How much an index holds."""

    documents: int = 0
    passages: int = 0


MOST_UNPACKED = 2**29
"""Bytes that a piece may have when it is decompressed; those of the largest session that is searched have a tenth."""

_Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Packed(Struct, array_like=True, frozen=True):
    """A piece of an index, its numbers counted from its own beginning."""

    stamp: tuple[int, bytes, int, int]
    passages: list[tuple[_Natural, _Natural, _Natural, _Natural]]
    postings: dict[str, bytes]


PACKING = 1
"""The version of what is packed; it rises when documents, passages or tokens are made in another way."""


def _stamp(documents: Sequence[Document]) -> tuple[int, bytes, int, int]:
    """Return the mark by which a packed piece belongs to these documents: version, byte order, number and length."""
    return PACKING, array("H", [1]).tobytes(), len(documents), sum(len(one.text) + len(one.title) for one in documents)


def render_hits(hits: Iterable[Hit], *, budget_tokens: int, rule: Ruler = "features") -> str:
    """Return the hits as a text of at most that many tokens, a block for each document, without repetition.

    The best are shown whole, the next by the lines that match, in their order in the document; of the others, while there is
    room, the names that occur in them, so that the next query can be a better one.
    """
    page = _Page(budget_tokens, rule)
    waiting = list(dropwhile(lambda hit: page.show(hit, range(len(hit.excerpt)), WHOLE_SHARE), hits))
    waiting = list(dropwhile(lambda hit: page.show(hit, _matching_lines(hit), LINES_SHARE), waiting))
    all(page.name(hit) for hit in waiting)
    return "\n\n".join(block.text for block in page.blocks.values())


def _matching_lines(hit: Hit) -> Set[int]:
    """Return the numbers of the lines that match best, and of their neighbours."""
    least = MATCH_SHARE * max(hit.weights, default=0.0)
    return {near for at, weight in enumerate(hit.weights) if 0 < weight >= least for near in (at - 1, at, at + 1)}


class _Block:
    """What a reply shows of one document: lines by their place, with the place that follows, and names."""

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self.lines: dict[int, tuple[int, str]] = {}
        self.names: list[str] = []

    @property
    def text(self) -> str:
        shown, expected = [self.heading], -1
        for place, (following, line) in sorted(self.lines.items()):
            shown += ["…", line] if 0 <= expected != place else [line]
            expected = following
        return "\n".join((*shown, f"… {' '.join(self.names)}") if self.names else shown)


class _Page:
    """A reply while `render_hits` writes it."""

    def __init__(self, budget_tokens: int, rule: Ruler) -> None:
        self.budget_tokens = budget_tokens
        self.rule: Ruler = rule
        self.spent = 0
        self.blocks: dict[str, _Block] = {}
        self.seen: set[str] = set()

    def show(self, hit: Hit, numbers: Container[int], share: float) -> bool:
        """Show these lines of a hit if they fit into that share of the reply; lines shown before are skipped."""
        lines = [(at, line) for at, line in enumerate(hit.excerpt.splitlines()) if line.strip()]
        wanted = {place: line for place, (at, line) in enumerate(lines, hit.start) if at in numbers}
        new = {place: line for place, line in wanted.items() if line.strip() not in self.seen}
        gaps = sum(place - 1 not in new for place in new) - (hit.handle not in self.blocks)
        allowed = int(self.budget_tokens * (share if self.blocks else FIRST_SHARE)) - gaps * GAP
        if not new or not self._pay(hit, "\n".join(new.values()), allowed):
            return bool(wanted) and not new
        self.spent += gaps * GAP
        last = hit.start + len(lines) - 1
        shown = self.blocks[hit.handle].lines
        shown.update((place, (hit.end if place == last else place + 1, line)) for place, line in new.items())
        self.seen.update(line.strip() for line in new.values())
        return True

    def name(self, hit: Hit) -> bool:
        """List the names in a hit, or the first of them, without those shown before; false if there is no more room."""
        names = [name for name in dict.fromkeys(_NAME.findall(hit.excerpt)) if name not in self.seen]
        for most in (MOST_NAMES, FEW_NAMES) if names else ():
            if self._pay(hit, " ".join(names[:most]), self.budget_tokens):
                self.blocks[hit.handle].names += names[:most]
                return True
        return not names

    def _pay(self, hit: Hit, text: str, allowed: int) -> bool:
        """Take the room for a text under its heading, if there is as much."""
        heading = "" if hit.handle in self.blocks else f"[{hit.handle}] {hit.title}".rstrip()
        size = estimate(f"{heading}\n{text}", self.rule) + SEAM
        if self.spent + size > allowed:
            return False
        self.spent += size
        if heading:
            self.blocks[hit.handle] = _Block(heading)
        self.seen.update(_NAME.findall(f"{heading}\n{text}"))
        return True


SEAM = GAP = 2
"""Tokens set aside where blocks are joined, and where lines are left out."""


def _passages_of(text: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield where passages begin, and their lines: as many as fit, at least one; of an empty text an empty one."""
    start = length = 0
    lines: list[str] = []
    for line in _lines(text):
        if len(lines) == PASSAGE_LINES or (lines and length + len(line) > PASSAGE_CHARACTERS):
            yield start, lines
            start, length, lines = start + length, 0, []
        lines.append(line)
        length += len(line)
    yield start, lines


def _lines(text: str) -> Iterator[str]:
    """Yield a text's lines with their ends, and pieces of those that are too long for one."""
    for line in text.splitlines(keepends=True):
        yield from _SHOWABLE.findall(line) if len(line) > LONGEST_LINE else (line,)


def _best(scores: dict[int, float], most: int) -> list[int]:
    return nsmallest(most, scores, key=lambda number: (-scores[number], -number))


def _nearness(lines: Sequence[float]) -> float:
    """Return the weight of the tokens within a few lines of each other, where it is greatest."""
    return max(sum(lines[at : at + NEAR_LINES]) for at in range(len(lines)))


def _without_repeats(hits: Iterable[Hit]) -> Iterator[Hit]:
    """Yield the hits without repetitions, and only some of one document."""
    seen: Counter[str] = Counter()
    for hit in hits:
        if seen[hit.excerpt] == 0 and seen[f"[{hit.handle}]"] < MOST_OF_ONE:
            yield hit
        seen.update((hit.excerpt, f"[{hit.handle}]"))


LONGEST_TITLE = 300
"""Characters of a call that precede its result."""


def documents_of(messages: Iterable[tuple[int, Message]]) -> Iterator[Document]:
    """Yield the parts that hold text, oldest first; each message is given with its number in the log."""
    reader = DocumentReader()
    for sequence, message in messages:
        yield from reader.read(sequence, message)
    yield from reader.unanswered()


class DocumentReader:
    """Turns messages into documents, one message after the other.

    A call is shown with its result, as the title; it is a document of its own only if it is too long for that, or if the
    agent or the user went on without a result.
    """

    def __init__(self) -> None:
        self._calls: dict[str, Document] = {}
        self._is_answering = False

    @property
    def is_settled(self) -> bool:
        """Whether no call waits for its result, so that what follows can be read without what was before."""
        return not self._calls

    def read(self, sequence: int, message: Message) -> Iterator[Document]:
        """Yield the documents that a message completes."""
        is_result = isinstance(message, ToolMessage)
        if not is_result and (self._is_answering or not isinstance(message, AssistantMessage)):
            yield from self.unanswered()
        self._is_answering = is_result
        kind: Kind = "own" if isinstance(message, AssistantMessage) else "given"
        for index, part in enumerate(message.parts):
            handle = f"{sequence}.{index}"
            match part:
                case TextPart() | ReasoningPart() if part.text.strip():
                    yield Document(handle, part.text, getattr(part, "document", None) or "", kind)
                case ToolCallPart():
                    self._calls[part.call_id] = _call(handle, part)
                case ToolResultPart():
                    yield from _result_documents(handle, part, self._calls.pop(part.call_id, None))
                case FilePart():
                    yield Document(handle, _describe_media(part), "", kind)
                case _:
                    pass

    def unanswered(self) -> Iterator[Document]:
        """Yield the calls that still wait for a result, which they are no longer expected to get."""
        waiting, self._calls = self._calls, {}
        yield from waiting.values()


def _call(handle: str, part: ToolCallPart) -> Document:
    written = tuple(_argument_lines(arguments_of(part))) or (part.arguments,)
    return Document(
        handle,
        "\n".join(written),
        part.tool,
        "echo" if is_recall(part.tool) or is_compact(part.tool, plain=False) else "own",
    )


def _result_documents(handle: str, part: ToolResultPart, call: Document | None) -> Iterator[Document]:
    text = "\n".join((part.output, *map(media_label, part.files))) if part.files else part.output
    kind: Kind = "echo" if is_recall(part.tool) or (call is not None and call.kind == "echo") else "given"
    if call is None:
        yield Document(handle, text, f"{part.tool}{_outcome_suffix(part)}", kind)
        return
    title = " ".join((call.title, *call.text.split()))
    if len(title) > LONGEST_TITLE:
        yield call
    yield Document(handle, text, f"{title[:LONGEST_TITLE]}{_outcome_suffix(part)}", kind)


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
