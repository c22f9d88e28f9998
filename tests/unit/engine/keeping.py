"""A keeper in a world where others write too, and stores fail."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from infold.core.budget import Window
from infold.core.entries import Entry, MessageEntry
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, MessageId, TextPart, UserMessage
from infold.core.policy import INFOLD
from infold.engine.call import Flow
from infold.engine.drive import World, drive
from infold.engine.keeper import Keeper, Ready
from infold.engine.terms import Terms
from infold.session.counting import Counting

from .scenes import reply, said, tool_step
from .worlds import KEY, Scripted

__all__ = ["RULE", "Kept"]

RULE = "Port the parser. Never touch vendor/."
Outcome = TypeVar("Outcome")


class Kept:
    """A keeper, the world it is driven in, and what happens to its appends.

    `before` is called with the entries of each append before they are stored, `after` when they are.
    """

    def __init__(self, scripted: Scripted | None = None, *, window: int = 16_000, **terms: Any) -> None:
        self.scripted = scripted or Scripted()
        self.terms = Terms(
            policy=INFOLD,
            window=Window(window),
            counting=Counting("features", 1.0, is_exact=False),
            rendering=Rendering(),
            **terms,
        )
        self.keeper = Keeper(self.scripted.reread(), self.terms, lambda: 7)
        self.before: Callable[[Sequence[Entry]], None] = _nothing
        self.after: Callable[[Sequence[Entry]], None] = _nothing

    @property
    def log(self) -> Log:
        """The session as the keeper has it."""
        return self.keeper.log

    @property
    def messages(self) -> list[Message]:
        """All that is stored and was said."""
        return [entry.message for entry in self.scripted.entries if isinstance(entry, MessageEntry)]

    def drive(self, flow: Flow[Outcome]) -> Outcome:
        """Carry a flow out."""
        return drive(flow, self.world())

    def world(self) -> World:
        """The world, with what happens around an append."""
        return replace(self.scripted.world(), append=self._append, fetch=self._fetch)

    def whole(self, messages: Sequence[object]) -> Ready:
        """Prepare a whole list."""
        return self.drive(self.keeper.prepare(messages))

    def new(self, messages: Sequence[object]) -> Ready:
        """Prepare what is new."""
        return self.drive(self.keeper.prepare_new(messages))

    def record(self, body: object) -> None:
        """Take in a reply."""
        self.drive(self.keeper.record(body))

    def grown(self, steps: int) -> list[dict[str, Any]]:
        """Live through so many steps, bringing the whole list each time; the list before its next request."""
        messages = [said(RULE)]
        for number in range(steps):
            self.whole(messages)
            self.record(reply(number))
            messages = [*messages, *tool_step(number)]
        return messages

    def outrun_once(self, matters: Callable[[Sequence[Entry]], bool]) -> None:
        """Let another writer append a message just before the first append that matters."""

        def intrude(entries: Sequence[Entry]) -> None:
            if matters(entries):
                self.before = _nothing
                number = len(self.scripted.entries)
                self.scripted.store.append(KEY, (_spoken(number),), expected=number)

        self.before = intrude

    def again(self) -> "Kept":
        """The same session in another process."""
        return Kept(self.scripted, window=self.terms.window.context_tokens, summarises=self.terms.summarises)

    def _append(self, entries: Sequence[Entry], expected: int) -> int:
        self.before(entries)
        number = self.scripted.append(entries, expected)
        self.after(entries)
        return number

    def _fetch(self, wait: bool) -> Any:
        left, self.keeper.outrun = self.keeper.outrun, None
        return left or self.scripted.fetch(wait)


def _spoken(number: int) -> MessageEntry:
    """What somebody else says in the same session."""
    text = f"from another process, as entry {number}"
    return MessageEntry(UserMessage(MessageId(f"intruder-{number}"), (TextPart(text),)))


def _nothing(_: Sequence[Entry]) -> None:
    """Nothing happens."""
