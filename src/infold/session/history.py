"""Follow a caller's own message list: what of it is new, what was taken back, and how to return messages unchanged.

A caller brings the whole list each time or only what is new; either way each item is decoded once. A whole list is matched by the
content of its messages, not by their ids. What was folded must still be there; what stands after it may have changed, which is
an amendment.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Amendment, Checkpoint, MessageEntry, handle_of
from infold.core.log import Log, indices_within
from infold.core.logged_message import LoggedMessage, lines_of_stub, prune_part
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    ToolResultPart,
    calls_of,
    chain_fingerprint,
    decode_arguments,
    fingerprint,
    has_ids,
    outline_fingerprint,
    results_of,
    text_of,
)
from infold.core.policy import SummaryPolicy
from infold.core.view import REQUEST_TEXT, view
from infold.errors import BrokenInput, HistoryChanged, UsageError
from infold.formats.codec import (
    Decoded,
    Item,
    OwnItems,
    as_dict,
    dict_or_empty,
    encode_like,
    join_decoded,
    require_list,
    stated_cache_seconds,
)
from infold.formats.harness_text import NO_MARKS, ForeignMarks, mark_foreign
from infold.formats.pairing import Pairing
from infold.formats.registry import WireFormat, edited_positions, format_of_reply

SYSTEM_ROLES = frozenset({"system", "developer"})

_NUMBERED = re.compile(r"m\d{1,18}")
_REPEATED = re.compile(r"#\d+$")


class DecodedHistory(Struct, frozen=True):
    """A whole list that was decoded before its session was known; `Session.prepare` takes it in place of the list.

    `preamble` are the system messages that open the list, `decoded` the rest, `pairing` the calls that it leaves open.
    `is_certain`: the session is known to be this list's. If not, a list that lacks anything of the session is another's.
    """

    items: Sequence[object]
    preamble: Decoded
    decoded: Decoded
    pairing: Pairing
    is_certain: bool = True


def decode_history(wire: WireFormat, items: Sequence[object]) -> DecodedHistory:
    """Decode a whole list; raise `BrokenInput` for items that cannot be read."""
    require_list(wire.name, items)
    count, pairing = len(list(takewhile(_is_system, items))), Pairing()
    preamble = wire.decode(items[:count])
    return DecodedHistory(items, preamble, wire.decode(items[count:], pairing=pairing), pairing)


class EncodedView(Struct, frozen=True):
    """A view in the caller's shape, with the sources of its items among those that the newest request brought.

    `edited` are the positions of items whose content differs from that of their source.
    """

    items: list[Any]
    sources: tuple[int | None, ...]
    edited: frozenset[int]


class MessageContent(Struct, frozen=True):
    """What a message says, calls and answers, in a form that survives a caller's storage."""

    text: str
    calls: tuple[tuple[str, object], ...]
    results: tuple[str, ...]

    @classmethod
    def of(cls, message: Message) -> "MessageContent":
        """Return the content of a message."""
        calls = tuple((call.tool, decode_arguments(call.arguments)) for call in calls_of(message))
        results = tuple(result.output.strip() for result in results_of(message))
        return cls(text_of(message).strip(), calls, results)


class OwnFold(Struct, frozen=True):
    """A fold as this session sent it: its messages as they are read back, of how many items they are, and how many messages of
    the caller's it replaces, with their fingerprints."""

    messages: tuple[MessageContent, ...]
    items: int
    folded: int
    fingerprint: str
    outline: str


class _ShownFold(NamedTuple):
    """The messages in place of a folded head, as sent, and the checkpoint; read only if a whole list is brought."""

    messages: tuple[Message, ...]
    checkpoint: Checkpoint

    def read(self, wire: WireFormat) -> OwnFold:
        """Return it as it is recognised: as its messages are read once they were written."""
        items = [item for message in self.messages for item in wire.encode_new(message)]
        read = tuple(map(MessageContent.of, wire.decode(items).messages))
        made = self.checkpoint
        return OwnFold(read, len(items), made.folded, made.fingerprint, made.outline)


class HistoryMatch(Struct, frozen=True):
    """A whole list compared with a session: its decoding, what of it is new, and what it takes back.

    `known` counts its messages that the session has. `amended` is the sequence of the first message that is no longer there.
    `fold`: the list begins with a fold of the session's own in place of older messages, as so many items (`fold_items`);
    `decoded` is what follows it. `stubbed` are the messages that came back as the session had shown them, with stubs.
    """

    preamble: Decoded
    decoded: Decoded
    pairing: Pairing
    new: tuple[Message, ...]
    known: int
    amended: int | None = None
    fold: OwnFold | None = None
    fold_items: int = 0
    stubbed: frozenset[MessageId] = frozenset()
    listed: Sequence[object] = ()


class _Given(NamedTuple):
    """A whole list to be matched: its items after the system messages and a fold, and what of it was decoded before."""

    preamble: Decoded
    items: Sequence[object]
    decoded: DecodedHistory | None
    fold: OwnFold | None = None
    fold_items: int = 0

    @property
    def replaced(self) -> int:
        """How many messages a fold replaces at its beginning."""
        return 0 if self.fold is None else self.fold.folded


class History:
    """The messages of one session in its wire format, each decoded once.

    `is_whole`: the caller brings its whole list with each request. `is_undecided`: the messages so far are the same in several
    formats, so that one that is not decides which it is.
    """

    def __init__(self, wire: WireFormat, marks: ForeignMarks = NO_MARKS, *, is_undecided: bool = False) -> None:
        self.wire = wire
        self.is_undecided = is_undecided
        self._marks = marks
        self.is_whole = False
        self._stored = 0
        self._nothing = Decoded(wire.name, (), (), {})
        self.preamble = self.decoded = self._nothing
        self.pairing: Pairing | None = None
        self._brought: HistoryMatch | None = None
        self._given: Sequence[object] = ()
        self._given_from = 0
        self._folds: dict[int, OwnFold] = {}
        self._unread_folds: dict[int, _ShownFold] = {}
        self._first_items: Sequence[object] = ()
        self._own = OwnItems(changed={})
        self._own_by_message: list[list[Item]] = []
        self._own_aliases: dict[str, str] = {}

    def mark_stored(self) -> None:
        """Note that everything decoded so far is stored."""
        self._stored = len(self.decoded.messages)

    def reset(self) -> None:
        """Start over after the session was read from its store; of a list that comes in pieces, keep what is stored."""
        self.decoded = self._nothing if self.is_whole else _part(self.decoded, slice(self._stored))
        self._stored = len(self.decoded.messages)
        self.pairing = self._brought = None
        if self.is_whole:
            self._given = ()

    def decide_format(self, wire: WireFormat, *, is_final: bool) -> None:
        """Take the messages so far, which are the same in both, for messages of that format."""
        self.is_undecided = not is_final
        if wire is not self.wire:
            self.wire, self.pairing, self._brought = wire, None, None
            self._nothing = replace(self._nothing, format=wire.name)
            self._own = OwnItems(changed={})
            self.preamble = replace(self.preamble, format=wire.name)
            self.decoded = replace(self.decoded, format=wire.name)

    def match(self, items: Sequence[object] | DecodedHistory, log: Log) -> HistoryMatch:
        """Compare a whole list with the session; raise `HistoryChanged` if it belongs to another. Nothing is adopted yet."""
        given, listed = (items, items.items) if isinstance(items, DecodedHistory) else (None, items)
        if given is not None and given.decoded.format == self.wire.name:
            preamble, count = given.preamble, sum(map(len, given.preamble.sources))
        else:
            given = None
            require_list(self.wire.name, listed)
            count = len(list(takewhile(_is_system, listed)))
            preamble = self.wire.decode(listed[:count])
        whole = _Given(preamble, listed[count:], given)
        if self._folds or self._unread_folds:
            whole = self._without_fold(whole)
        match = replace(self._match_extended(whole, log) or self._match_whole(whole, log), listed=listed)
        if isinstance(items, DecodedHistory) and not items.is_certain and _takes_others_back(match, log):
            raise HistoryChanged("the session has messages that the list does not have")
        if given is None or whole.decoded is not None:
            return match
        return _with_brought_usage(match, given.decoded.messages)

    def remember_fold(self, shown: Sequence[Message], log: Log) -> None:
        """Remember how a view shows the newest fold, to recognise it in a list that brings it back."""
        checkpoint, number = log.checkpoint, log.checkpoint_sequence
        is_known = number in self._folds or number in self._unread_folds
        if checkpoint is None or is_known or log.native or not checkpoint.text:
            return
        live = {placed.message.id for placed in log.live}
        own = tuple(takewhile(lambda one: one.id not in live, shown))
        self._unread_folds[number] = _ShownFold(own, checkpoint)
        self._first_items = ()

    def adopt(self, match: HistoryMatch) -> None:
        """Take a whole list over as the session's own."""
        self.preamble, self.decoded, self.pairing = match.preamble, match.decoded, match.pairing.copy()
        self._brought, self.is_whole = match, True
        self._given, self._given_from = match.listed, -match.fold_items

    def add(self, items: Sequence[object], log: Log) -> tuple[Message, ...]:
        """Decode items that are new; of what was decoded before, only what the view still shows is kept.

        Raise `UsageError` for a system message that opens them: it is not part of the session, and would be folded with it.
        """
        require_list(self.wire.name, items)
        if items and not log.length and _is_system(items[0]):
            raise UsageError(
                "a system message belongs to every request and not to what is new; put it in front of the messages that "
                "prepare_new gives, and pass it as system=… so that it is counted"
            )
        later = self._decode(items, _position(log), self._pairing(log))
        shown = self._still_shown(log)
        self._stored = min(self._stored, len(shown.messages))
        self.decoded, self.is_whole, self._brought = join_decoded(shown, later), False, None
        self._given, self._given_from = list(items), sum(map(len, shown.sources))
        return later.messages

    def repeat(self, items: Sequence[object], count: int, log: Log) -> None:
        """Use again the caller's objects of items that the session already ends with, as so many messages."""
        stored = _callers(log)[-count:]
        if [message.id for message in self.decoded.messages[-count:]] != [placed.message.id for placed in stored]:
            before = (placed.message for placed in log.live if placed.sequence < stored[0].sequence)
            decoded = self._decode(items, _position(log) - count, Pairing.after(before, _unanswered(log)))
            self.decoded, self.is_whole, self._brought = join_decoded(self.decoded, decoded), False, None
            self.mark_stored()
        self._given, self._given_from = list(items), sum(map(len, self.decoded.sources)) - len(items)

    def reply(self, body: object, log: Log) -> tuple[Message, ...]:
        """Decode a provider's reply, with the usage and the reason it ended for; return nothing if it is something else.

        One without content is a message without parts and has no item: providers refuse such messages.
        """
        if self.is_undecided:
            wire = format_of_reply(body, self.wire)
            self.decide_format(wire, is_final=wire.is_reply(body))
        first = _position(log)
        later = self.wire.decode(self.wire.reply_items(body), first=first, pairing=self._pairing(log))
        if not later.messages and self.wire.is_reply(body):
            later = replace(later, messages=(AssistantMessage(MessageId(f"m{first}"), ()),), sources=((),))
        self.decoded = join_decoded(self.decoded, later)
        usage, finish, kept = self.wire.usage(body), self.wire.finish(body), stated_cache_seconds(body)
        return tuple(
            replace(message, usage=usage, finish=finish or "other", cache_seconds=kept)
            if isinstance(message, AssistantMessage)
            else message
            for message in later.messages
        )

    def sources_of(self, messages: Sequence[Message]) -> dict[MessageId, tuple[object, ...]]:
        """Return the caller's items of these messages, as far as they have any."""
        wanted = {message.id for message in messages}
        pairs = zip(self.decoded.messages, self.decoded.sources, strict=True)
        return {message.id: sources for message, sources in pairs if message.id in wanted}

    def without_source(self, view: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages of a view that are sent from the log alone."""
        known = {message.id for message in self.decoded.messages}
        return tuple(message for message in view if message.id not in known)

    def encode(self, view: Sequence[Message], log: Log) -> EncodedView:
        """Return a view in the caller's shape; unchanged messages are the caller's own objects."""
        known = {message.id: message for message in self.decoded.messages}
        stubbed = frozenset() if self._brought is None else self._brought.stubbed
        brought = {
            id(placed.message): known.get(placed.message.id, placed.message)
            for placed in log.live
            if placed.message.id not in stubbed
        }
        own = self._own_items(log)
        place = own.place_in(view)
        live_from = place + len(own.messages) if place < len(view) else 0
        shown = [*view[:live_from], *[brought.get(id(message), message) for message in view[live_from:]]]
        opening = [source for sources in self.preamble.sources for source in sources]
        items, found = self.wire.encode_with_sources(shown, self.decoded, own)
        before = len(opening) if self.is_whole else 0
        first, end = before - self._given_from, len(self._given)  # none after a reset, until the list is brought again
        sources = (
            *(n if self.is_whole and n < end else None for n in range(len(opening))),
            *[None if n is None or not before <= n + first < end else n + first for n in found],
        )
        items = [*opening, *items]
        return EncodedView(items, sources, edited_positions(items, sources, self._given))

    def _own_items(self, log: Log) -> OwnItems:
        """Return the items of the steps that the newest fold kept, written once: they are most of what a view has of its own."""
        aliases = self.decoded.aliases
        if log.kept is not self._own.messages or aliases != self._own_aliases:
            before = zip(map(id, self._own.messages), self._own_by_message, strict=False)
            known = dict(before) if aliases == self._own_aliases else {}
            written = [known.get(id(message)) or self.wire.encode_new(message, aliases) for message in log.kept]
            self._own, self._own_by_message = OwnItems(log.kept, list(chain.from_iterable(written)), {}), written
            self._own_aliases = aliases
        return self._own

    def _pairing(self, log: Log) -> Pairing:
        """Return which calls are open; from the session itself if nothing was decoded yet."""
        if self.pairing is None:
            self.pairing = Pairing.after((placed.message for placed in log.live), _unanswered(log))
        return self.pairing

    def _decode(self, items: Sequence[object], first: int, pairing: Pairing) -> Decoded:
        """Decode items, and mark what another program compacted before."""
        decoded = self.wire.decode(items, first=first, pairing=pairing)
        return replace(decoded, messages=mark_foreign(decoded.messages, self._marks))

    def _without_fold(self, whole: _Given) -> _Given:
        """Return a list without the fold of this session that it begins with, if any; the newest is looked for first.

        Items that did not begin a fold are not looked at again before the next fold. Where roles must alternate, a fold and the
        user's message after it are one item.
        """
        if self._first_items and whole.items[: len(self._first_items)] == self._first_items:
            return whole
        for number, shown in self._unread_folds.items():
            self._folds[number] = shown.read(self.wire)
        self._unread_folds = {}
        most = 2 + max(fold.items for fold in self._folds.values())
        try:
            first = self.wire.decode(whole.items[:most])
        except BrokenInput:  # decoding the whole list says which item this is
            return whole
        content = tuple(map(MessageContent.of, first.messages))
        asked = 1 if content and content[0].text == REQUEST_TEXT else 0
        for fold in reversed(self._folds.values()):
            count = len(fold.messages)
            for start in {0, asked} if count else ():
                if content[start : start + count] == fold.messages:
                    taken = sum(map(len, first.sources[: start + count]))
                    return whole._replace(items=whole.items[taken:], decoded=None, fold=fold, fold_items=taken)
            if 0 < count <= len(content) and content[: count - 1] == fold.messages[:-1]:
                taken = sum(map(len, first.sources[: count - 1]))
                rest = _after_blocks(whole.items[taken], content[count - 1], fold.messages[-1])
                if rest is not None:
                    items = [rest, *whole.items[taken + 1 :]]
                    return whole._replace(items=items, decoded=None, fold=fold, fold_items=taken)
        if len(content) > 2 and not any(
            fold.messages[:1] in (content[:1], content[1:2]) for fold in self._folds.values()
        ):
            self._first_items = whole.items[: sum(map(len, first.sources[:2]))]
        return whole

    def _match_extended(self, whole: _Given, log: Log) -> HistoryMatch | None:
        """Match a list that begins with all that was brought last and goes on with all that was recorded since.

        The quick way: only the end of the list is decoded. A client writes a reply in its own way, so that one is compared by
        its content.
        """
        brought, items, given = self._brought, whole.items, whole.decoded
        if brought is None or brought.fold != whole.fold or brought.stubbed:
            return None
        known = list(chain.from_iterable(brought.decoded.sources))
        count = len(brought.decoded.messages)
        live_from = whole.replaced + count - log.folded
        begins = list(items[: len(known)])
        if not known or live_from < 0 or begins != known:  # a list compares by identity first
            return None
        recorded = _callers(log)[live_from:]
        if given is not None and sum(map(len, given.decoded.sources[:count])) == len(known):
            pairing, later = given.pairing, _part(given.decoded, slice(count, None))
            later = replace(later, messages=mark_foreign(later.messages, self._marks))
        else:  # or the first new items belong to the last known message, if all are decoded together
            pairing = brought.pairing.copy()
            later = self._decode(items[len(known) :], whole.replaced + count, pairing)
        if len(_common(later.messages, recorded, log)) < len(recorded):
            return None
        later = replace(later, messages=_with_ids_of(recorded, later.messages))
        before = replace(brought.decoded, sources=_regroup(brought.decoded.sources, begins))
        return HistoryMatch(
            whole.preamble,
            join_decoded(before, later),
            pairing,
            later.messages[len(recorded) :],
            whole.replaced + count + len(recorded),
            fold=whole.fold,
            fold_items=whole.fold_items,
        )

    def _match_whole(self, whole: _Given, log: Log) -> HistoryMatch:
        if whole.decoded is None:
            pairing = Pairing() if whole.fold is None else Pairing.after((), _unanswered(log))
            decoded = self._decode(whole.items, whole.replaced, pairing)
        else:
            pairing = whole.decoded.pairing
            decoded = replace(whole.decoded.decoded, messages=mark_foreign(whole.decoded.decoded.messages, self._marks))
        messages = decoded.messages
        start = _after_fold(messages, log, whole.fold)
        live = _callers(log)[max(0, whole.replaced - log.folded) :]
        same = _common(messages[start:], live, log)
        if live and not same and not start and whole.fold is None:
            raise HistoryChanged(f"its first message is not the session's ({live[0].message.id})")
        gone = live[len(same) :]
        new = _with_recorded_usage(messages[start + len(same) :], gone)
        kept = _with_ids_of(live, same)
        return HistoryMatch(
            whole.preamble,
            replace(decoded, messages=(*messages[:start], *kept, *new)),
            pairing,
            new,
            whole.replaced + start + len(same),
            gone[0].sequence if gone else None,
            whole.fold,
            whole.fold_items,
            frozenset(
                ours.id for ours, one, brought in zip(kept, same, messages[start:], strict=False) if one is not brought
            ),
        )

    def _still_shown(self, log: Log) -> Decoded:
        live = {placed.message.id for placed in log.live}
        if all(message.id in live for message in self.decoded.messages):
            return self.decoded
        kept = [n for n, message in enumerate(self.decoded.messages) if message.id in live]
        messages = tuple(self.decoded.messages[n] for n in kept)
        return replace(self.decoded, messages=messages, sources=tuple(self.decoded.sources[n] for n in kept))


def encode_ahead(
    history: History, messages: Sequence[object] | DecodedHistory, log: Log, summary: SummaryPolicy
) -> list[Any]:
    """Return what would be sent for a whole list if nothing more were compacted; `history` is a new one, only for this.

    Raise `HistoryChanged` if the list belongs to another session.
    """
    match = history.match(messages, log)
    history.adopt(match)
    taken_back = () if match.amended is None else (Amendment(match.amended),)
    grown = log.extend((*taken_back, *map(MessageEntry, match.new)))
    return history.encode(view(grown, summary, brought=True), grown).items


def renumber(messages: Sequence[Message], log: Log) -> tuple[Message, ...]:
    """Return messages that came from no wire with the ids they have at the end of this log, and references to match."""
    first = _position(log)
    ids = {message.id: MessageId(f"m{first + n}") for n, message in enumerate(messages)}
    return tuple(_rename(message, MessageId(f"m{first + n}"), ids) for n, message in enumerate(messages))


def _rename(message: Message, own: MessageId, ids: Mapping[MessageId, MessageId]) -> Message:
    """Return a message under its new id; a reference without a new id is to a message in the log already."""
    parts = tuple(
        replace(part, first_kept_id=ids.get(part.first_kept_id, part.first_kept_id))
        if isinstance(part, CompactionPart) and part.first_kept_id is not None
        else part
        for part in message.parts
    )
    parts = message.parts if parts == message.parts else parts
    if isinstance(message, AssistantMessage) and message.parent_id is not None:
        return replace(message, id=own, parts=parts, parent_id=ids.get(message.parent_id, message.parent_id))
    return replace(message, id=own, parts=parts)


# What of a caller's messages is stored already.


def starts_with_fold(messages: Sequence[Message], checkpoint: Checkpoint, before: OwnFold | None = None) -> bool:
    """Return whether a whole history begins with what was folded, even if old results were cleared from it since.

    `before`: an earlier fold in place of the first messages.
    """
    replaced, exact, outline = (0, "", "") if before is None else (before.folded, before.fingerprint, before.outline)
    head = messages[: checkpoint.folded - replaced]
    if len(head) < checkpoint.folded - replaced:
        return False
    return chain_fingerprint(exact, head) == checkpoint.fingerprint or (
        has_ids(head) and outline_fingerprint(outline, head) == checkpoint.outline
    )


def stored_prefix_length(messages: Sequence[Message], live: Sequence[LoggedMessage], same: int) -> int:
    """Return how many messages of a history a session has, of the `same` that have equal content.

    Calls that are still open count only under the ids they have there, because their results name them; so do the results that
    such a step has already.
    """
    index = next((index for index in range(same - 1, -1, -1) if calls_of(messages[index])), None)
    if index is None:
        return same
    answered = {result.call_id for later in messages[index + 1 : same] for result in results_of(later)}
    if all(call.call_id in answered for call in calls_of(messages[index])):
        return same
    step = range(index, same)
    return next((place for place in step if _wire_ids(messages[place]) != _wire_ids(live[place].message)), same)


def has_other_ids(messages: Sequence[Message], live: Sequence[LoggedMessage]) -> bool:
    """Return whether a call of these messages, which are those of a session by their content, has another id there.

    Ids that a provider does not make unique to a history say nothing.
    """
    pairs = ((message, placed.message) for message, placed in zip(messages, live, strict=False) if calls_of(message))
    return any(has_ids(pair) and _wire_ids(pair[0]) != _wire_ids(pair[1]) for pair in pairs)


def ends_with(log: Log, messages: Sequence[Message]) -> bool:
    """Return whether the caller's newest messages in the log have the content of these."""
    newest = [placed.message for placed in _callers(log)[-len(messages) :]] if messages else []
    return bool(newest) and list(map(fingerprint, newest)) == list(map(fingerprint, messages))


def is_stored_reply(log: Log, replies: Sequence[Message]) -> bool:
    """Return whether the caller's own list brought this reply before it was recorded."""
    newest = log.live[-1].message if log.live else None
    if not replies or not isinstance(newest, AssistantMessage):
        return False
    return fingerprint(newest) == fingerprint(replies[-1]) and _wire_ids(newest) == _wire_ids(replies[-1])


def is_rewritten(recorded: Message, brought: Message) -> bool:
    """Return whether a client brings a recorded reply in its own words: some send reasoning back as text.

    It makes the same calls; a reply without calls contains what the recorded one said or thought.
    """
    if not isinstance(recorded, AssistantMessage) or not isinstance(brought, AssistantMessage):
        return False
    if calls_of(recorded) or calls_of(brought):
        return _wire_ids(recorded) == _wire_ids(brought)
    thoughts = (part.text for part in recorded.parts if isinstance(part, ReasoningPart))
    texts = [" ".join(text.split()) for text in (text_of(recorded), *thoughts)]
    return any(text and text in " ".join(text_of(brought).split()) for text in texts)


def _takes_others_back(match: HistoryMatch, log: Log) -> bool:
    """Return whether a list lacks messages of the session, other than a newest reply that it brings in its own words.

    Then it may be that of another conversation, which begins alike. What was folded has to be there word for word, and a reply
    in other words has to make the same calls and to contain what the recorded one said: some providers only count their calls.
    """
    checkpoint, fold = log.checkpoint, match.fold
    replaced, before = (0, "") if fold is None else (fold.folded, fold.fingerprint)
    if checkpoint is not None and checkpoint.folded > replaced:
        head = match.decoded.messages[: checkpoint.folded - replaced]
        if chain_fingerprint(before, head) != checkpoint.fingerprint:
            return True
    if match.amended is None:
        return False
    brought_elsewhere = set(map(fingerprint, match.decoded.messages))  # such as a reply that was recorded late
    newest = [placed.message for placed in _callers(log) if placed.sequence >= match.amended]
    gone = [message for message in newest if fingerprint(message) not in brought_elsewhere]
    if not gone:
        return False
    if len(gone) > 1 or not match.new or not is_rewritten(gone[0], match.new[0]):
        return True
    said, brought = (" ".join(text_of(message).split()) for message in (gone[0], match.new[0]))
    return said not in brought or _calls_without_text(gone[0]) != _calls_without_text(match.new[0])


def _calls_without_text(message: Message) -> str:
    return fingerprint(replace(message, parts=calls_of(message)))


def newest_sequence(log: Log) -> int:
    """Return the number of the newest message that a caller's list holds too; -1 if there is none."""
    return next((placed.sequence for placed in reversed(log.live) if not placed.is_own), -1)


def _wire_ids(message: Message) -> list[str]:
    """Return the ids of calls and results as the provider gave them; an id that is met a second time is numbered."""
    called, answered = calls_of(message), results_of(message)
    ids = (*(call.call_id for call in called), *(result.call_id for result in answered))
    return [_REPEATED.sub("", call_id) for call_id in ids]


# Parts of a match.


def _part(decoded: Decoded, kept: slice) -> Decoded:
    return replace(decoded, messages=decoded.messages[kept], sources=decoded.sources[kept])


def _callers(log: Log) -> list[LoggedMessage]:
    """Return the session's messages that a caller's list holds too."""
    return [placed for placed in log.live if not placed.is_own]


def _position(log: Log) -> int:
    """Return where in the caller's list the next message stands; its id is made of that, the same in every process.

    An imported compaction does not say how many messages it folded, so the newest id counts too.
    """
    newest = next((placed.message.id for placed in reversed(log.live) if not placed.is_own), "")
    number = int(newest[1:]) + 1 if _NUMBERED.fullmatch(newest) else 0
    return max(number, log.folded + log.length - len(indices_within(log.message_index.own, log.length)))


def _unanswered(log: Log) -> dict[str, str]:
    """Return the folded calls that may still be answered, each with its tool."""
    known = {} if log.checkpoint is None else log.checkpoint.unanswered
    return {call_id: tool for call_id, tool in known.items() if call_id in log.carried}


def _after_fold(messages: Sequence[Message], log: Log, fold: OwnFold | None) -> int:
    """Return how many of these messages the session has folded; raise `HistoryChanged` if they do not begin with those.

    An earlier fold may stand in place of the first of them.
    """
    checkpoint, replaced = log.checkpoint, 0 if fold is None else fold.folded
    if checkpoint is None or checkpoint.folded <= replaced:
        return 0
    wanted = checkpoint.folded - replaced
    if len(messages) < wanted:
        raise HistoryChanged(f"it has {len(messages)} messages, fewer than the {wanted} that were folded")
    if not starts_with_fold(messages, checkpoint, fold):
        raise HistoryChanged(f"the {wanted} messages that were folded are not what they were")
    return wanted


def _common(messages: Sequence[Message], live: Sequence[LoggedMessage], log: Log) -> list[Message]:
    """Return the messages from the start that are the session's: as they were brought, or as the session shows them."""
    pairs = zip(messages, live, strict=False)
    found = (_compare(message, placed, log) for message, placed in pairs)
    same = list(takewhile(lambda one: one is not None, found))
    count = stored_prefix_length(messages, live, len(same))
    return [message for message in same[:count] if message is not None]


def _compare(message: Message, placed: LoggedMessage, log: Log) -> Message | None:
    """Return a message that is that of the log; as the view shows it if it was brought with stubs, `None` if it is another."""
    brought = fingerprint(message)
    if brought == fingerprint(placed.message):
        return message
    shown = (
        log.shown(placed) if placed.sequence in log.altered else placed.message,
        _stubbed_like(message, placed, log),
    )
    found = next((one for one in shown if one is not None and brought == fingerprint(one)), None)
    return message if found is None and _is_cleared(message, placed, log) else found


def _is_cleared(message: Message, placed: LoggedMessage, log: Log) -> bool:
    """Return whether a message is that of the log but for results that are pruned, which the caller has shortened itself."""
    hidden = log.altered.get(placed.sequence)
    if hidden is None or len(message.parts) != len(placed.message.parts):
        return False
    pairs = zip(message.parts, placed.message.parts, strict=True)
    return all(
        brought == part or (position in hidden.hidden_by and _is_shorter(brought, part))
        for position, (brought, part) in enumerate(pairs)
    )


def _is_shorter(brought: Part, part: Part) -> bool:
    if not (isinstance(brought, ToolResultPart) and isinstance(part, ToolResultPart)):
        return False
    return brought.call_id == part.call_id and len(brought.output) < len(part.output)


def _stubbed_like(message: Message, placed: LoggedMessage, log: Log) -> Message | None:
    """Return a message of the log with stubs in place of the parts that differ from those brought."""
    if not placed.prunable or len(message.parts) != len(placed.message.parts):
        return None
    parts = (
        part
        if part == brought
        else prune_part(part, handle_of(placed.sequence, index), log.rendering, _kept_lines(part, brought))
        for index, (part, brought) in enumerate(zip(placed.message.parts, message.parts, strict=True))
    )
    return replace(placed.message, parts=tuple(parts))


def _kept_lines(part: Part, brought: Part) -> str:
    """Return the lines of a result that are in the stub which was brought in its place."""
    if not (isinstance(part, ToolResultPart) and isinstance(brought, ToolResultPart)):
        return ""
    lines = lines_of_stub(brought.output)
    return lines if all(line in part.output for line in lines.splitlines()) else ""


def _with_ids_of(placed: Sequence[LoggedMessage], messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages, the first of which the session has, under the ids they have there."""
    pairs = zip(messages, placed, strict=False)
    ours = (message if message.id == one.message.id else replace(message, id=one.message.id) for message, one in pairs)
    return (*ours, *messages[len(placed) :])


def _with_brought_usage(match: HistoryMatch, brought: Sequence[Message]) -> HistoryMatch:
    """Give replies the usage that the caller brought them with, where the items after a fold were decoded again."""
    usages = [getattr(message, "usage", None) for message in brought[-len(match.decoded.messages) :]]
    skipped = len(match.decoded.messages) - len(usages)
    messages = tuple(
        replace(message, usage=usage) if usage is not None and isinstance(message, AssistantMessage) else message
        for message, usage in zip(match.decoded.messages, [*[None] * skipped, *usages], strict=True)
    )
    decoded = replace(match.decoded, messages=messages)
    return replace(match, decoded=decoded, new=messages[len(messages) - len(match.new) :])


def _with_recorded_usage(messages: Sequence[Message], gone: Sequence[LoggedMessage]) -> tuple[Message, ...]:
    """Give a reply that the client rewrote the usage that was recorded with the original."""
    pairs = zip(messages, gone, strict=False)
    rewritten = list(takewhile(lambda pair: is_rewritten(pair[1].message, pair[0]), pairs))
    kept = (
        replace(message, usage=placed.message.usage, finish=placed.message.finish)
        for message, placed in rewritten
        if isinstance(message, AssistantMessage) and isinstance(placed.message, AssistantMessage)
    )
    return (*kept, *messages[len(rewritten) :])


def _regroup(sources: Sequence[Sequence[object]], items: Sequence[object]) -> tuple[tuple[object, ...], ...]:
    """Return the items of this request in the groups that the equal ones of the last request formed."""
    if len(items) == len(sources) and all(sources):
        return tuple(zip(items, strict=True))
    rest = iter(items)
    return tuple(tuple(islice(rest, len(group))) for group in sources)


def _after_blocks(item: object, brought: MessageContent, own: MessageContent) -> object | None:
    """Return a copy of an item without the blocks of a fold's last message; `None` if it begins otherwise, or ends with them."""
    wire = as_dict(item)
    content = wire.get("content")
    blocks = len(own.results) + (1 if own.text else 0)
    if not isinstance(content, list | tuple) or len(content) <= blocks:
        return None
    texts = [block if isinstance(block, str) else dict_or_empty(block).get("text") for block in content[:blocks]]
    is_text = not own.text or (isinstance(texts[-1], str) and texts[-1].strip() == own.text)
    if not is_text or brought.results != own.results:
        return None
    return encode_like(item, {**wire, "content": [*content[blocks:]]})


def _is_system(item: object) -> bool:
    try:
        return as_dict(item).get("role") in SYSTEM_ROLES
    except BrokenInput:  # decoding it says which item this is
        return False
