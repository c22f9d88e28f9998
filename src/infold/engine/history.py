"""Follow a caller's own message list: what of it is new, and how to give messages back as they came.

A caller may bring the whole list each time or only what is new; either way each item is decoded once. What was seen before must
still be there as it was: a list whose beginning changed is another session.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from infold.core.messages import AssistantMessage, Finish, Message, Usage
from infold.errors import UsageError
from infold.formats.wire import Decoded, Pairing, WireFormat, joined

__all__ = ["History"]


class History:
    """The messages of one session as one wire format has them, decoded as they come."""

    def __init__(self, wire: WireFormat, *, first: int = 0, pairing: Pairing | None = None) -> None:
        self.wire = wire
        self.first = first
        self.pairing = pairing or Pairing()
        self.decoded = Decoded(wire.name, (), (), {})

    def new_of(self, items: Sequence[object]) -> tuple[Message, ...]:
        """Decode the items of a whole list that were not there before; raises `UsageError` if those before have changed."""
        seen = sum(len(sources) for sources in self.decoded.sources)
        self._check_unchanged(items[:seen], seen)
        return self.add(items[seen:])

    def resume(self, items: Sequence[object], newest: Message) -> tuple[Message, ...]:
        """Decode a whole list for a session that was read from its store; what follows its newest message is new."""
        messages = self.add(items)
        place = next((n for n, message in enumerate(messages) if message.id == newest.id), None)
        if place is None or messages[place].parts != newest.parts:
            raise UsageError(
                f"the history does not hold the session's newest message ({newest.id}); pass the list the session was "
                "made from, pass only new messages with prepare_new, or begin a new session"
            )
        return messages[place + 1 :]

    def add(self, items: Sequence[object]) -> tuple[Message, ...]:
        """Decode items that are new."""
        later = self.wire.decode(items, first=self.first + len(self.decoded.messages), pairing=self.pairing)
        self.decoded = joined(self.decoded, later)
        return later.messages

    def add_reply(self, body: object) -> tuple[Message, ...]:
        """Decode a provider's reply, with the usage and the reason it ended for."""
        messages = self.add(self.wire.reply_items(body))
        usage, finish = self.wire.usage(body), self.wire.finish(body)
        return tuple(_told(message, usage, finish) for message in messages)

    def encode(self, view: Sequence[Message]) -> list[object]:
        """A view in the caller's shape; what nothing changed are the caller's own objects."""
        known = {message.id: message for message in self.decoded.messages}
        return self.wire.encode([_as_decoded(message, known.get(message.id)) for message in view], self.decoded)

    def _check_unchanged(self, items: Sequence[object], seen: int) -> None:
        if len(items) == seen:
            again = self.wire.decode(items, first=self.first)
            changed = next(
                (
                    n
                    for n, pair in enumerate(zip(again.messages, self.decoded.messages, strict=False))
                    if pair[0] != pair[1]
                ),
                None,
            )
            if changed is None:
                return
            problem = f"message {changed} is not what it was"
        else:
            problem = f"it has {len(items)} of the {seen} items seen before"
        raise UsageError(
            f"the history changed: {problem}; pass the same list with new items at its end, or begin a new session"
        )


def _told(message: Message, usage: Usage | None, finish: Finish | None) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    return replace(message, usage=usage, finish=finish or "other")


def _as_decoded(message: Message, decoded: Message | None) -> Message:
    """The decoded object itself where a message differs from it only in what was reported with it."""
    if decoded is None or message is decoded or message.parts is not decoded.parts:
        return message
    return decoded
