"""Play a history against a provider that counts: each reply reports the usage of the request it answers."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from infold.core.compact import CompactionResult, compact
from infold.core.entries import MessageEntry
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, Usage
from infold.core.view import view
from infold.testing.script import count_tokens as counted_tokens

__all__ = ["Played", "counted_tokens", "play"]


class Played(Struct, frozen=True):
    """One request: what was done before it, and the messages it sent."""

    compaction: CompactionResult
    request: tuple[Message, ...]


def play(log: Log, history: Iterable[Message], inputs: PlanInputs, *, factor: float | None = None) -> Iterator[Played]:
    """Prepare each request of a history in turn; with a factor, replies report that many tokens for each of ours."""
    for message in history:
        if isinstance(message, AssistantMessage) and not message.summary and log.next_sequence:
            played = _prepare(log, inputs)
            yield played
            log = played.compaction.log
            if factor is not None:
                message = _reported(message, played.request, inputs, factor)
        log = log.append(MessageEntry(message))
    yield _prepare(log, inputs)


def _prepare(log: Log, inputs: PlanInputs) -> Played:
    compaction = compact(log, inputs)
    return Played(compaction, view(compaction.log, inputs.policy.summary))


def _reported(
    reply: AssistantMessage, request: tuple[Message, ...], inputs: PlanInputs, factor: float
) -> AssistantMessage:
    prompt = int((counted_tokens(request) + inputs.overhead_tokens) * factor)
    return replace(reply, usage=Usage(input=prompt, output=int(counted_tokens((reply,)) * factor)))
