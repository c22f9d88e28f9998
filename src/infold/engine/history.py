"""Follow a caller's own message list: what of it is new, what was taken back, and how to give messages back as they came.

A caller may bring the whole list each time or only what is new; either way each item is decoded once. A whole list is known again
by what its messages say, not by their marks. What was folded must still be there; what stands after it may have changed, which is
an amendment.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile

from msgspec import Struct
from msgspec.structs import replace

from infold.core.log import Log, within
from infold.core.logged_message import Placed
from infold.core.messages import AssistantMessage, CompactionPart, Finish, Message, MessageId, Usage, likeness
from infold.engine.known import begins_with_the_fold, is_rewritten, settled
from infold.errors import HistoryChanged, UsageError
from infold.formats.codec import Decoded, as_dict, join_decoded, require_list
from infold.formats.harness_text import NO_MARKS, ForeignMarks, mark_foreign
from infold.formats.pairing import Pairing
from infold.formats.registry import WireFormat

_NUMBERED = re.compile(r"m\d{1,18}")

SYSTEM_ROLES = frozenset({"system", "developer"})


class Followed(Struct, frozen=True):
    """A whole list held against a session: its decoding, what of it is new, and what it takes back.

    `known` counts its messages that the session has. `amended` is the number of the first message that is no longer there;
    `turns_back`, how many turns of a person go with it.
    """

    preamble: Decoded
    decoded: Decoded
    pairing: Pairing
    new: tuple[Message, ...]
    known: int
    amended: int | None = None
    turns_back: int = 0


class History:
    """The messages of one session as one wire format has them, decoded as they come."""

    def __init__(self, wire: WireFormat, marks: ForeignMarks = NO_MARKS) -> None:
        self.wire = wire
        self._marks = marks
        self.is_whole = False
        self._settled = 0
        self._nothing = Decoded(wire.name, (), (), {})
        self.preamble = self.decoded = self._nothing
        self.pairing: Pairing | None = None
        self._brought: Followed | None = None

    def settle(self) -> None:
        """What was decoded so far is stored."""
        self._settled = len(self.decoded.messages)

    def forget(self) -> None:
        """Begin anew, after the session was read from its store; a list that comes by pieces keeps what of it is stored."""
        self.decoded = self._nothing if self.is_whole else _first(self.decoded, self._settled)
        self._settled = len(self.decoded.messages)
        self.pairing = self._brought = None

    def follow(self, items: Sequence[object], log: Log) -> Followed:
        """Hold a whole list against the session; raises `HistoryChanged` where it is another's. Nothing is taken over yet."""
        require_list(self.wire.name, items)
        count = len(list(takewhile(_is_system, items)))
        preamble, rest = self.wire.decode(items[:count]), items[count:]
        return self._going_on(preamble, rest, log) or self._anew(preamble, rest, log)

    def adopt(self, followed: Followed) -> None:
        """Take a whole list over as the session's own."""
        self.preamble, self.decoded, self.pairing = followed.preamble, followed.decoded, followed.pairing.copy()
        self._brought, self.is_whole = followed, True

    def add(self, items: Sequence[object], log: Log) -> tuple[Message, ...]:
        """Decode items that are new; of what was decoded before, only what the view still shows is kept.

        Raises `UsageError` for a system message that opens them: it is no part of the session, and would be folded with it.
        """
        require_list(self.wire.name, items)
        if items and not log.length and _is_system(items[0]):
            raise UsageError(
                "a system message belongs to every request and not to what is new; put it in front of the messages that "
                "prepare_new gives, and pass it as system=… so that it is counted"
            )
        later = self._read(items, _position(log), self._paired(log))
        shown = self._still_shown(log)
        self._settled = min(self._settled, len(shown.messages))
        self.decoded, self.is_whole, self._brought = join_decoded(shown, later), False, None
        return later.messages

    def repeat(self, items: Sequence[object], count: int, log: Log) -> None:
        """Take up again the objects of items that the session ends with already, as so many messages."""
        stored = [placed for placed in log.live if not placed.is_own][-count:]
        if [message.id for message in self.decoded.messages[-count:]] == [placed.message.id for placed in stored]:
            return
        before = (placed.message for placed in log.live if placed.sequence < stored[0].sequence)
        decoded = self._read(items, _position(log) - count, Pairing.after(before, _unanswered(log)))
        self.decoded, self.is_whole, self._brought = join_decoded(self.decoded, decoded), False, None
        self.settle()

    def reply(self, body: object, log: Log) -> tuple[Message, ...]:
        """Decode a provider's reply, with the usage and the reason it ended for."""
        later = self.wire.decode(self.wire.reply_items(body), first=_position(log), pairing=self._paired(log))
        self.decoded = join_decoded(self.decoded, later)
        usage, finish = self.wire.usage(body), self.wire.finish(body)
        return tuple(_told(message, usage, finish) for message in later.messages)

    def sources_of(self, messages: Sequence[Message]) -> dict[MessageId, tuple[object, ...]]:
        """Return the caller's items of these messages, as far as they came from any."""
        wanted = {message.id for message in messages}
        pairs = zip(self.decoded.messages, self.decoded.sources, strict=True)
        return {message.id: sources for message, sources in pairs if message.id in wanted}

    def without_source(self, view: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages of a view that are sent from the log alone."""
        known = {message.id for message in self.decoded.messages}
        return tuple(message for message in view if message.id not in known)

    def encode(self, view: Sequence[Message], log: Log) -> list[object]:
        """A view in the caller's shape; what nothing changed are the caller's own objects."""
        known = {message.id: message for message in self.decoded.messages}
        own = {placed.message.id: placed.message for placed in log.live}
        shown = [known.get(message.id, message) if own.get(message.id) is message else message for message in view]
        opening = [source for sources in self.preamble.sources for source in sources]
        return [*opening, *self.wire.encode(shown, self.decoded)]

    def _paired(self, log: Log) -> Pairing:
        """Which calls are open; made from the session itself where nothing was decoded yet."""
        if self.pairing is None:
            self.pairing = Pairing.after((placed.message for placed in log.live), _unanswered(log))
        return self.pairing

    def _read(self, items: Sequence[object], first: int, pairing: Pairing) -> Decoded:
        """Decode what a caller brought; another program may have compacted it before."""
        decoded = self.wire.decode(items, first=first, pairing=pairing)
        return replace(decoded, messages=mark_foreign(decoded.messages, self._marks))

    def _going_on(self, preamble: Decoded, items: Sequence[object], log: Log) -> Followed | None:
        """The quick way, for a list that begins with all that was brought last and goes on with all that was heard since.

        A caller writes a reply as its own client has it, so that one is known by what it says.
        """
        brought = self._brought
        if brought is None:
            return None
        known = [source for sources in brought.decoded.sources for source in sources]
        count = len(brought.decoded.messages)
        live_from = count - _folded(log)
        if not known or live_from < 0 or not _begins_with(items, known):
            return None
        pairing, heard = brought.pairing.copy(), _callers(log)[live_from:]
        later = self._read(items[len(known) :], count, pairing)
        if _common(later.messages, heard) < len(heard):
            return None
        later = replace(later, messages=_as_placed(later.messages, heard))
        new = later.messages[len(heard) :]
        before = replace(brought.decoded, sources=_resourced(brought.decoded.sources, items))
        return Followed(preamble, join_decoded(before, later), pairing, new, count + len(heard))

    def _anew(self, preamble: Decoded, items: Sequence[object], log: Log) -> Followed:
        pairing = Pairing()
        decoded = self._read(items, 0, pairing)
        messages = decoded.messages
        start = _after_the_fold(messages, log)
        live = _callers(log)
        same = _common(messages[start:], live)
        if live and not same and not start:
            raise HistoryChanged(f"its first message is not the session's ({live[0].message.id})")
        gone = live[same:]
        new = _with_reports(messages[start + same :], gone)
        return Followed(
            preamble,
            replace(decoded, messages=(*messages[:start], *_as_placed(messages[start : start + same], live), *new)),
            pairing,
            new,
            start + same,
            gone[0].sequence if gone else None,
            sum(placed.is_persons for placed in gone),
        )

    def _still_shown(self, log: Log) -> Decoded:
        live = {placed.message.id for placed in log.live}
        if all(message.id in live for message in self.decoded.messages):
            return self.decoded
        kept = [n for n, message in enumerate(self.decoded.messages) if message.id in live]
        messages = tuple(self.decoded.messages[n] for n in kept)
        return replace(self.decoded, messages=messages, sources=tuple(self.decoded.sources[n] for n in kept))


def numbered(messages: Sequence[Message], log: Log) -> tuple[Message, ...]:
    """Return messages that came from no wire with the ids they have at the end of this log, and references to match."""
    first = _position(log)
    ids = {message.id: MessageId(f"m{first + n}") for n, message in enumerate(messages)}
    return tuple(_renamed(message, MessageId(f"m{first + n}"), ids) for n, message in enumerate(messages))


def _renamed(message: Message, own: MessageId, ids: Mapping[MessageId, MessageId]) -> Message:
    """Return a message under its new id; what it refers to by an id that has no new one is in the log already."""
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


def _first(decoded: Decoded, count: int) -> Decoded:
    return replace(decoded, messages=decoded.messages[:count], sources=decoded.sources[:count])


def _callers(log: Log) -> list[Placed]:
    """The session's messages that a caller's list holds too."""
    return [placed for placed in log.live if not placed.is_own]


def _position(log: Log) -> int:
    """Where in the caller's list the next message stands; its id is made of that, so that every process makes the same.

    An imported compaction does not say how many messages it folded, so the newest id counts too.
    """
    newest = next((placed.message.id for placed in reversed(log.live) if not placed.is_own), "")
    number = int(newest[1:]) + 1 if _NUMBERED.fullmatch(newest) else 0
    return max(number, _folded(log) + log.length - len(within(log.spine.own, log.length)))


def _folded(log: Log) -> int:
    return 0 if log.checkpoint is None else log.checkpoint.folded


def _unanswered(log: Log) -> dict[str, str]:
    """Calls of what was folded that may still be answered, each with its tool."""
    known = {} if log.checkpoint is None else log.checkpoint.unanswered
    return {call_id: tool for call_id, tool in known.items() if call_id in log.carried}


def _after_the_fold(messages: Sequence[Message], log: Log) -> int:
    """How many messages the session has folded; raises `HistoryChanged` if these do not begin with them."""
    checkpoint = log.checkpoint
    if checkpoint is None or not checkpoint.folded:
        return 0
    if len(messages) < checkpoint.folded:
        raise HistoryChanged(f"it has {len(messages)} messages, fewer than the {checkpoint.folded} that were folded")
    if not begins_with_the_fold(messages, checkpoint):
        raise HistoryChanged(f"the {checkpoint.folded} messages that were folded are not what they were")
    return checkpoint.folded


def _common(messages: Sequence[Message], live: Sequence[Placed]) -> int:
    """How many messages are the same from the start."""
    pairs = zip(messages, live, strict=False)
    same = len(list(takewhile(lambda pair: likeness(pair[0]) == likeness(pair[1].message), pairs)))
    return settled(messages, live, same)


def _as_placed(messages: Sequence[Message], placed: Sequence[Placed]) -> tuple[Message, ...]:
    """Messages of which the first are the session's, under the ids they have there."""
    pairs = zip(messages, placed, strict=False)
    ours = (message if message.id == one.message.id else replace(message, id=one.message.id) for message, one in pairs)
    return (*ours, *messages[len(placed) :])


def _with_reports(messages: Sequence[Message], gone: Sequence[Placed]) -> tuple[Message, ...]:
    """Give a reply that the client wrote in its own way the usage that was recorded with the reply it stands for."""
    pairs = zip(messages, gone, strict=False)
    rewritten = list(takewhile(lambda pair: is_rewritten(pair[1].message, pair[0]), pairs))
    kept = (_reported_as(message, placed.message) for message, placed in rewritten)
    return (*kept, *messages[len(rewritten) :])


def _reported_as(message: Message, recorded: Message) -> Message:
    assert isinstance(message, AssistantMessage)
    assert isinstance(recorded, AssistantMessage)
    return replace(message, usage=recorded.usage, finish=recorded.finish)


def _resourced(sources: Sequence[Sequence[object]], items: Sequence[object]) -> tuple[tuple[object, ...], ...]:
    """Return the items of this request in the groups that the same ones formed before: equal, but the caller's own."""
    rest = iter(items)
    return tuple(tuple(islice(rest, len(group))) for group in sources)


def _begins_with(items: Sequence[object], known: Sequence[object]) -> bool:
    return len(items) >= len(known) and all(
        one is other or one == other for one, other in zip(items, known, strict=False)
    )


def _is_system(item: object) -> bool:
    return as_dict(item).get("role") in SYSTEM_ROLES


def _told(message: Message, usage: Usage | None, finish: Finish | None) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    return replace(message, usage=usage, finish=finish or "other")
