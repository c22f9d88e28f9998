"""Recall: words, or the handles of parts, in; a text within so many tokens out.

The store searches all parts, as `core.recall` ranks their passages. Decided here is what a query asks for, and how a part
is shown that is too long to be shown whole: its beginning and end, or the lines that answer best, with how to ask for the
rest.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import MessageEntry, split_handle
from infold.core.messages import FilePart, is_recall
from infold.core.policy import Ruler
from infold.core.recall import MOST_HITS, Document, Hit, Index, render_hits, search_tokens
from infold.core.tokens import estimate
from infold.errors import UnknownReference, UsageError
from infold.ports import Finder, MediaStore, SessionKey, Store
from infold.session.media import Medium, files_of

MOST_HANDLES = 20
"""Parts that one query may name; of more, each would get too little room to be of use."""


LONGEST_HANDLE = 18
"""Characters of a handle that a session could have."""


LONGEST_QUERY = 4_000
"""Characters of a query that are looked at: a question is shorter, a pasted log is not a question."""


LONGEST_TOKEN = 24
"""Characters that are looked at for each token allowed: longer tokens are runs of one character, which are not missed."""


HEAD_SHARE = 2 / 3
"""How much of the room for a long part its beginning gets; the rest is for its end, where commands tell how they ended."""


EXCERPT_SHARE = 0.5
"""How much of a reply one passage may take, so that the best is shown with its lines however little room there is."""


MOST_OTHERS = 12
"""Handles that are named at the end of a reply for parts that it does not show."""


SEAM = 4
"""Tokens set aside where texts are joined: what joins them, and what a tokeniser counts again there."""


_WANTED = re.compile(r"[\[(\"'`]*(?P<handle>\d+\.\d+)(?:\+(?P<start>\d{1,12}))?[\])\"'`]*")


_WITHIN = re.compile(r"[\[\"'`]*(?P<handle>\d+\.\d+)[\]\"'`]*:\s*+(?P<words>\S.*)", re.DOTALL)


_BETWEEN_HANDLES = re.compile(r"[\s,;]+")


def recall(store: Finder, key: SessionKey, query: str, *, budget_tokens: int = 2_000, rule: Ruler = "features") -> str:
    """Bring back what was said or done, pruned and folded parts included, in at most that many tokens by the rule.

    A query is words to search for; or handles such as `42.1`, separated by spaces or commas, whose parts are then read;
    `42.1: words` searches in one part, and `42.1+6000` reads on from that character. Raises `UnknownReference` for a handle
    that names nothing, and `UsageError` where a query is empty, names too many or reads on behind a part's end.
    """
    if not query.strip():
        raise UsageError("the query is empty; give words to search for, or a handle such as 42.1")
    room = _Room(budget_tokens, rule)
    query = query.strip()[:LONGEST_QUERY]
    wanted, within = _wanted(query), _WITHIN.fullmatch(query)
    if wanted:
        shown = _parts(store, key, wanted, room)
    elif within:
        hits = Index.of([store.read(key, within["handle"])]).search(within["words"])
        shown = _passages(hits, within["words"], room)
    else:
        shown = _passages(store.search(key, query, most=MOST_HITS), query, room)
    return room.held(shown)


LARGEST_PIN_SHARE = 0.25
"""The largest part of the window that one folded part may take when it is brought back to stay."""


def bring_back(store: Finder, key: SessionKey, handle: str, rule: Ruler, *, limit_tokens: int) -> str:
    """Return a whole part as text for a message; raise `UsageError` if it takes too much of a window of that many tokens."""
    document = store.read(key, handle)
    text = f"Brought back from earlier in this session, and pinned:\n{_heading(document)}\n{document.text}"
    tokens, most = estimate(text, rule), int(limit_tokens * LARGEST_PIN_SHARE)
    if limit_tokens and tokens > most:
        raise UsageError(
            f"part {handle} has {tokens:,} tokens, more than the {most:,} that a pinned part may take of this window; recall "
            "what you need of it"
        )
    return text


def recall_media(store: Store, key: SessionKey, handle: str) -> tuple[Medium, ...]:
    """Return the media of a part with their bytes: of an attachment itself, of a tool's result all that it brought.

    Raises `UnknownReference` for a handle that names no medium, or one whose bytes were not stored.
    """
    files = files_at(store, key, handle)
    if not files:
        raise UnknownReference("medium", handle, remedy="name a medium by the handle that its line or a search gives")
    read = store.medium if isinstance(store, MediaStore) else _nothing
    found = [(file, read(key, file.digest)) for file in files if file.digest]
    media = tuple(Medium(file.media_type, file.name, data) for file, data in found if data is not None)
    if not media:
        where = next((file.reference for file in files if file.reference), "")
        remedy = f"fetch it from {where}" if where else "raise media_limit_bytes before it is sent, or send it again"
        raise UnknownReference("stored medium", handle, remedy=remedy)
    return media


def files_at(store: Store, key: SessionKey, handle: str) -> tuple[FilePart, ...]:
    """Return what is known of the media under a handle; nothing where it names none."""
    sequence, position = split_handle(handle) if len(handle) <= LONGEST_HANDLE else (-1, -1)
    number, entry = next(store.newest_first(key, before=max(0, sequence) + 1), (None, None))
    parts = entry.message.parts if number == sequence and isinstance(entry, MessageEntry) else ()
    return files_of(parts[position]) if 0 <= position < len(parts) else ()


def _nothing(_: SessionKey, __: str) -> bytes | None:
    return None


class _Room(Struct, frozen=True):
    """How much may be shown, and by which rule that is measured."""

    budget_tokens: int
    rule: Ruler

    def size(self, text: str) -> int:
        return estimate(text, self.rule)

    def head_of(self, text: str, allowed: int) -> int:
        """Where the beginning of a text ends that fits into so many tokens: behind a line, if that is not far."""
        end = _most(lambda length: self.size(text[:length]) <= allowed, min(len(text), allowed * LONGEST_TOKEN))
        line = text.rfind("\n", end // 2, end)
        return end if end == len(text) or line < 0 else line + 1

    def tail_of(self, text: str, allowed: int) -> int:
        """Where the end of a text begins that fits into so many tokens: at a line, if that is not far."""
        whole = len(text)
        length = _most(lambda length: self.size(text[whole - length :]) <= allowed, min(whole, allowed * LONGEST_TOKEN))
        line = text.find("\n", whole - length, whole - length // 2)
        return whole - length if length == whole or line < 0 else line + 1

    def held(self, text: str) -> str:
        """The text, or as much of its beginning as there is room for."""
        return (
            text if self.size(text) <= self.budget_tokens else text[: self.head_of(text, self.budget_tokens)].rstrip()
        )


def _most(fits: Callable[[int], bool], top: int) -> int:
    """The largest number up to `top` that fits, 0 if none does; larger numbers fit less."""
    low, high = 0, max(0, top)
    if fits(high):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


# Parts that were asked for by their handles.


class _Wanted(Struct, frozen=True):
    """A part to be read, and from which character on."""

    handle: str
    start: int


def _wanted(query: str) -> tuple[_Wanted, ...]:
    """The parts that a query names, each once; none where it holds anything but handles."""
    words = [word for word in _BETWEEN_HANDLES.split(query) if word]
    if len(words) > 1 and is_recall(words[0]):  # the words of a stub: "recall 42.1"
        del words[0]
    named = [match for word in words if (match := _WANTED.fullmatch(word))]
    if len(named) < len(words):
        return ()
    return tuple(dict.fromkeys(_Wanted(match["handle"], int(match["start"] or 0)) for match in named))


def _parts(store: Finder, key: SessionKey, wanted: Sequence[_Wanted], room: _Room) -> str:
    if len(wanted) > MOST_HANDLES:
        raise UsageError(f"{len(wanted)} parts are too many for one answer; ask for {MOST_HANDLES} at most")
    documents = [store.read(key, one.handle) for one in wanted]
    blocks = [_block(document, one.start) for document, one in zip(documents, wanted, strict=True)]
    allotted = _allotted([room.size(block) + SEAM for block in blocks], room.budget_tokens)
    return "\n\n".join(
        block if room.size(block) <= allowed else _shortened(document, one.start, allowed - SEAM, room)
        for block, document, one, allowed in zip(blocks, documents, wanted, allotted, strict=True)
    )


def _allotted(sizes: Sequence[int], budget_tokens: int) -> list[int]:
    """Room for each: the small get what they need, the others share alike what that leaves."""
    allotted, left = list(sizes), budget_tokens
    for place, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        allotted[at] = min(sizes[at], left // (len(sizes) - place))
        left -= allotted[at]
    return allotted


def _block(document: Document, start: int) -> str:
    if start and start >= len(document.text):
        remedy = f"read on from an earlier one, or ask for {document.handle}"
        raise UsageError(f"part {document.handle} ends at character {len(document.text):,}; {remedy}")
    return f"{_heading(document)}\n{document.text[start:]}"


def _shortened(document: Document, start: int, allowed: int, room: _Room) -> str:
    """As much of a part as there is room for: from its first character its beginning and end, from a later one what follows."""
    handle, text = document.handle, document.text
    heading, note = _heading(document), _note(handle, len(text), len(text))
    left = allowed - room.size(f"{heading}\n{note}") - SEAM
    end = start + room.head_of(text[start:], int(left * (1 if start else HEAD_SHARE)))
    begin = len(text) if start else end + room.tail_of(text[end:], left - room.size(text[:end]))
    pieces = (heading, text[start:end].removesuffix("\n"), _note(handle, end, begin - end), text[begin:])
    return "\n".join(piece for piece in pieces if piece)


def _heading(document: Document) -> str:
    return f"[{document.handle}] {document.title}".rstrip()


def _note(handle: str, end: int, left_out: int) -> str:
    onward = f"{handle}+{end}" if end else handle
    return f'[… {left_out:,} characters left out; read on with "{onward}", search in them with "{handle}: words"]'


# Passages that were searched for.


def _passages(found: Sequence[Hit], words: str, room: _Room) -> str:
    hits = [_narrowed(hit, words, room) for hit in found]
    if not hits:
        return f"Nothing of this session mentions {words[:80]!r}; try fewer or other words, as they stood in the text."
    shown = render_hits(hits, budget_tokens=room.budget_tokens, rule=room.rule)
    closing = _closing(hits, shown)
    is_room = room.size(shown) + room.size(closing) + SEAM <= room.budget_tokens
    return "\n\n".join(text for text in (shown, closing if is_room or not shown else "") if text)


def _narrowed(hit: Hit, words: str, room: _Room) -> Hit:
    """A hit that fits into its share: of its lines those with most of the words in them, in their order."""
    allowed = int(room.budget_tokens * EXCERPT_SHARE)
    hit = replace(hit, title=hit.title[:allowed])
    if len(hit.excerpt) <= allowed or room.size(hit.excerpt) <= allowed:  # counting a hundred hits takes milliseconds
        return hit
    told, lines, kept = set(search_tokens(words)), hit.excerpt.splitlines(), list[int]()
    ranked = sorted(range(len(lines)), key=lambda at: (-len(told & set(search_tokens(lines[at]))), at))
    for at in ranked:
        size = room.size(lines[at]) + 1
        if size <= allowed:
            kept.append(at)
            allowed -= size
    best = lines[ranked[0]]
    excerpt = "\n".join(lines[at] for at in sorted(kept)) if kept else best[: room.head_of(best, allowed)]
    weights = tuple(hit.weights[at] for at in sorted(kept) if at < len(hit.weights))
    return replace(hit, excerpt=excerpt, is_whole=False, weights=weights)


def _closing(hits: Sequence[Hit], shown: str) -> str:
    """Where else something was found, and that a part can be read whole; nothing where all was shown."""
    others = [handle for handle in dict.fromkeys(hit.handle for hit in hits) if f"[{handle}]" not in shown]
    if not others:
        is_partial = not all(hit.is_whole for hit in hits)
        return "[passages only; ask for a handle to read its part]" if is_partial else ""
    more = f" and {len(others) - MOST_OTHERS} more" if len(others) > MOST_OTHERS else ""
    return f"[also found in {', '.join(others[:MOST_OTHERS])}{more}; ask for a handle to read its part]"
