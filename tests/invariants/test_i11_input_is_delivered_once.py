"""I11: what arrives during a compaction is delivered once; a loop that was cut into goes on, a finished turn does not."""

from contextlib import suppress

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, MessageEntry
from infold.core.events import Event
from infold.core.messages import MessageId, SessionId, is_compaction_request, text_of
from infold.core.policy import INFOLD, Policy
from infold.core.summary_request import SummaryRequest
from infold.core.view import view
from infold.errors import OrphanResult, StoreConflict
from infold.formats.registry import OPENAI_CHAT, WireFormat
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import (
    calls,
    log_of,
    numbered,
    replies,
    requests_compaction,
    result,
    session,
    summary,
    user,
)

from .scenes import (
    GOOD_NOTES,
    Notetaker,
    compactions,
    conversation,
    each_preset,
    each_way,
    each_wire,
    opened,
    pair_faults,
    played,
    story,
    told_of,
    written,
)

ARRIVED = "And mind the tide."


class Interrupted(Notetaker):
    """A summariser during whose work somebody else speaks in the same session."""

    def __init__(self, name: str, store: MemoryStore) -> None:
        super().__init__()
        self.name, self.store = name, store

    def __call__(self, request: SummaryRequest) -> str:
        """Let the other one speak, once, before answering."""
        if not self.asked:
            other = opened(self.name, OPENAI_CHAT, window=64_000, store=self.store)
            other.prepare_new(written(OPENAI_CHAT, numbered([user(ARRIVED)], prefix="n")))
        self.asked.append(request)
        return GOOD_NOTES


FOLDS_ALL = ("opencode-1.1.23",)
"""The document by which a compaction keeps nothing, so that what arrives before a second one is told in its summary."""


@each_preset
def test_i11_what_arrives_meanwhile_is_in_the_next_request_once(name: str) -> None:
    """B13, B14: of two who write at once none is lost: whether told of the conflict or not, both are heard, once each."""
    store = MemoryStore()
    first = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Interrupted(name, store))
    first.prepare_new(written(OPENAI_CHAT, conversation(40, tokens=12, reply_tokens=900)))
    with suppress(StoreConflict):
        first.compact()
    again = opened(name, OPENAI_CHAT, window=64_000, store=store, notes=Notetaker())
    ready = again.prepare_new([])
    said = [entry for _, entry in store.newest_first(SessionKey("", SessionId("s"))) if ARRIVED in str(entry)]

    assert sum(isinstance(entry, MessageEntry) for entry in said) == 1
    assert told_of(ready).count(ARRIVED) == 1 or name in FOLDS_ALL
    assert pair_faults(OPENAI_CHAT.decode(ready.messages).messages) == []


@pytest.mark.parametrize("kept", ["m3", None])
def test_i11_what_was_said_before_the_summary_was_done_is_not_folded(kept: str | None) -> None:
    """S4.1: in a session that records its compactions as messages, what stands between request and summary stays."""
    log = session(
        user("one"),
        replies(),
        user("two"),
        replies(),
        requests_compaction(first_kept_id=kept),
        user(ARRIVED),
        summary(),
    )

    assert [str(placed.message).count(ARRIVED) for placed in log.live][-1] == 1
    assert not any(is_compaction_request(placed.message) for placed in log.live)


@each_way
@each_wire
def test_i11_a_loop_that_was_cut_into_goes_on(wire: WireFormat, policy: Policy) -> None:
    """B21: a compaction inside a tool loop leaves the newest step whole and last, so that the model just goes on."""
    store, events = MemoryStore(), list[Event]()
    session_ = opened(policy, wire, window=4_096, store=store, notes=Notetaker())
    told = story(60)
    for number, ready in enumerate(played(session_, wire, told)):
        events += ready.events
        newest = wire.encode_new(told[2 * number])
        assert ready.messages[-1] == newest[-1]

    assert len(compactions(events)) >= 5


@each_wire
def test_i11_a_finished_turn_is_not_taken_up_again(wire: WireFormat) -> None:
    """B21: after a turn is finished a compaction adds nothing that anybody would have to answer."""
    session_ = opened("infold", wire, window=64_000, notes=Notetaker())
    done = numbered([replies("All parts are ported. What is next?")], prefix="d")
    session_.prepare_new(written(wire, (*story(20), *done)))
    ready = session_.compact()

    assert ready.messages[-1] == wire.encode_new(done[0])[-1]
    assert not [placed for placed in session_.log.live if placed.sequence > session_.log.checkpoint_sequence]


def test_i11_a_result_that_arrives_meanwhile_is_delivered_once() -> None:
    """B7, B12: an answer that comes after its step was folded is in the view once, as text, and never again as an orphan."""
    asked, call, answer = numbered([user(), calls("bash"), result(output="at last")])
    log = log_of((asked, call)).append(Checkpoint("so far")).append(MessageEntry(answer))
    opening, late = view(log, INFOLD.summary)

    assert text_of(opening) == "so far"
    assert text_of(late).count("at last") == 1
    assert pair_faults((opening, late)) == []
    with pytest.raises(OrphanResult):
        log.append(MessageEntry(replace(answer, id=MessageId("again"))))
