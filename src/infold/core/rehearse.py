"""Play a history message by message, compacting before each request as a session would have.

The plan is a deterministic replay over the message sequence: the same history gives the same cuts, so a stateless caller who
brings the whole history each time gets the same prefix each time (B29). A rehearsal can be carried on where it ended, with the
same outcome as from the beginning, except for thinking that its model binds to what was sent.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from infold.core.compact import Compaction, compact
from infold.core.entries import MessageEntry, Rejection
from infold.core.events import Event
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message


class Rehearsal(Struct, frozen=True):
    """A history played so far: the log, all that happened, and the number each message got in the log."""

    log: Log
    events: tuple[Event, ...] = ()
    sequences: tuple[int, ...] = ()


def carry_on(rehearsal: Rehearsal, messages: Iterable[Message], situation: Situation) -> Rehearsal:
    """Play further messages; whoever sends a request after them compacts once more for it.

    Only the first of them can be the reply to a request that was made from this rehearsal. Any other reply was created behind a
    view that is not known, so once this view was changed, thinking that is bound to what was sent leaves it.
    """
    log, events, sequences = rehearsal.log, list(rehearsal.events), list(rehearsal.sequences)
    was_sent, is_certain = bool(sequences), True
    for message in messages:
        if _is_reply(message) and log.next_sequence:
            compaction = compact(log, situation)
            is_certain = is_certain and (was_sent or _is_untouched(compaction.log))
            events += compaction.events
            log = compaction.log
        was_sent = False
        sequences.append(log.next_sequence)
        log = log.append(MessageEntry(message))
    if not is_certain and log.binds_thinking and log.shown_thinking:
        log = log.append(Rejection(0, bound_thinking=True))
    return Rehearsal(log, tuple(events), tuple(sequences))


def rehearse(log: Log, messages: Iterable[Message], situation: Situation) -> Iterator[Compaction]:
    """What was done before each request that these messages were sent in or answer, the next one last.

    A request stands before each reply and after the last message. Each result carries the log on which the next begins.
    """
    for message in messages:
        if _is_reply(message) and log.next_sequence:
            compaction = compact(log, situation)
            yield compaction
            log = compaction.log
        log = log.append(MessageEntry(message))
    yield compact(log, situation)


def _is_untouched(log: Log) -> bool:
    return log.checkpoint is None and not log.altered


def _is_reply(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.summary
