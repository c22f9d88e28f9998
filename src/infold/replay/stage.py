"""What a policy meets on a recorded session, and what it is asked for: a request at each call.

Every policy of a session shares one stage, so that all are counted, cached and billed alike.
"""

from typing import Protocol

from msgspec import Struct

from infold.catalogue import ModelEntry
from infold.core.gauge import Rates
from infold.core.messages import Message, Usage
from infold.replay.cache import Block
from infold.replay.calls import Call, Recording
from infold.replay.scale import Overhead, Weigher


class Stage(Struct, frozen=True):
    """What every policy of one session meets: the calls, the provider's way of counting, what is sent beside them.

    `rates` and `lifetime_ms` are what a policy that weighs prices may know of them and of the cache.
    """

    recording: Recording
    weigher: Weigher
    overhead: Overhead
    entry: ModelEntry
    rates: Rates | None = None
    lifetime_ms: int | None = None

    @property
    def preamble(self) -> tuple[Message, ...]:
        """System messages that open the session and always stay."""
        return self.recording.session.messages[: self.recording.preamble]

    @property
    def constant_tokens(self) -> int:
        """What every request holds, whatever the policy, by the provider's count."""
        return self.overhead.tokens + self.weigher.tokens(self.preamble)

    @property
    def estimated_constant_tokens(self) -> int:
        """The same as a session would estimate it before any report: a policy is not told the provider's count."""
        return round(self.constant_tokens / self.weigher.scale.factor)


class Held(Struct, frozen=True):
    """What a request is made of: blocks that stand before the messages, and the messages."""

    opening: tuple[Block, ...]
    messages: tuple[Message, ...]


class Request(Struct, frozen=True):
    """What a policy sends, and what it did before.

    `summarised`: what a summariser was shown, once for each summary it wrote; `summary_tokens`: their size, if known.
    """

    sent: Held
    compactions: int = 0
    prunings: int = 0
    summarised: tuple[Held, ...] = ()
    summary_tokens: int | None = None


class Player(Protocol):
    """A policy at work on one session."""

    def request(self, call: Call) -> Request:
        """What it sends."""
        ...

    def hear(self, call: Call, usage: Usage) -> None:
        """The reply came, at this usage."""
        ...


def opening_blocks(stage: Stage) -> tuple[Block, ...]:
    """The system prompt and the tools, in the part other sessions share and the part that is this one's."""
    weigher, overhead = stage.weigher, stage.overhead
    return (weigher.padding("shared", overhead.shared_tokens), weigher.padding("own", overhead.own_tokens))
