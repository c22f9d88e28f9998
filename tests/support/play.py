"""Play a history against a provider that counts: each reply reports the usage of the request it answers."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from infold.core.compact import Compaction, compact
from infold.core.entries import MessageEntry
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, Usage
from infold.core.view import view
from infold.testing.script import count_tokens as counted_tokens

__all__ = ["Played", "counted_tokens", "play"]


class Played(Struct, frozen=True):
    """One request: what was done before it, and the messages it sent."""

    compaction: Compaction
    request: tuple[Message, ...]


def play(
    log: Log, history: Iterable[Message], situation: Situation, *, factor: float | None = None
) -> Iterator[Played]:
    """Prepare each request of a history in turn; with a factor, replies report that many tokens for each of ours."""
    for message in history:
        if isinstance(message, AssistantMessage) and not message.summary and log.next_sequence:
            played = _prepare(log, situation)
            yield played
            log = played.compaction.log
            if factor is not None:
                message = _reported(message, played.request, situation, factor)
        log = log.append(MessageEntry(message))
    yield _prepare(log, situation)


def _prepare(log: Log, situation: Situation) -> Played:
    compaction = compact(log, situation)
    return Played(compaction, view(compaction.log, situation.policy.summary))


def _reported(
    reply: AssistantMessage, request: tuple[Message, ...], situation: Situation, factor: float
) -> AssistantMessage:
    prompt = int((counted_tokens(request) + situation.overhead_tokens) * factor)
    return replace(reply, usage=Usage(input=prompt, output=int(counted_tokens((reply,)) * factor)))
