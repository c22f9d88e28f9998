"""What a caller asks of a flow, what a flow is, and the one way it writes."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

from msgspec import Struct

from infold.core.entries import Entry
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.messages import Message
from infold.core.summary_request import Additions
from infold.engine.ahead import Preparation
from infold.engine.effects import Append, Effect

Outcome = TypeVar("Outcome")
Flow: TypeAlias = Generator[Effect, object, Outcome]


class Call(Struct, frozen=True):
    """What a caller is about to send: the messages that are new, and the situation they are sent in.

    `amended` is the number of the first message the caller took back. `system` is the ordinary request's system prompt, for a
    summary that shares its prefix; `summariser_tokens` is the window of the model that summarises, 0 where it is the session's
    own. `up_to` is the first message a person wants kept. `defers`: a summary that is not yet needed is written in the
    background, and the request goes out meanwhile. `stops`: the caller is an agent's loop, which a failed summary ends where the
    policy says so (`SummaryFailed`). `patience_seconds` is how long to wait for another process that compacts.
    `brought`: the caller brings its whole list each time, and wants all of it sent.
    """

    messages: tuple[Message, ...]
    situation: Situation
    amended: int | None = None
    system: str = ""
    additions: Additions = Additions()
    summariser_tokens: int = 0
    shares_prefix: bool = False
    up_to: int | None = None
    has_hooks: bool = False
    defers: bool = False
    stops: bool = False
    patience_seconds: float = 30.0
    now_ms: int | None = None
    brought: bool = False


class Outrun(Struct, frozen=True):
    """Another writer was faster, and the log a flow began with is no longer the session; notes already made are not lost."""

    preparation: Preparation | None = None


def append(log: Log, entries: tuple[Entry, ...]) -> Flow[Log]:
    """The log checks first, so that nothing is stored that could not follow; then the store takes it, all or none."""
    if not entries:
        return log
    grown = log.extend(entries)
    yield Append(entries, expected=log.next_sequence)
    return grown
