"""The benchmark of replicas finds a message that was lost, and one that is stored twice."""

import json

import pytest
from benchmarks.replica_load import HEADERS, Agent, Job, Traffic, asked, marks_in, replied
from benchmarks.replicas import SECRET, compared

from infold.core.entries import Amendment, Entry, MessageEntry
from infold.core.messages import AssistantMessage, MessageId, SessionId, TextPart, UserMessage
from infold.gateway.tenants import Tenants
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore

ITEMS = [asked("0-0-4", lines=1), replied("0-0-4"), asked("0-0-5", lines=1)]
"""A person's request, a reply of text, a person's request."""


def entries() -> list[Entry]:
    """What a gateway stores for these."""
    kinds = (UserMessage, AssistantMessage, UserMessage)
    texts = [json.dumps(item) for item in ITEMS]
    return [
        MessageEntry(kind(MessageId(f"m{n}"), (TextPart(text),)))
        for n, (kind, text) in enumerate(zip(kinds, texts, strict=True))
    ]


def figures(stored: list[Entry]) -> tuple[int, int, int]:
    """What the comparison finds: lost, twice, out of order."""
    agent = Agent(0, ("127.0.0.1", 1), Job(), "run", Traffic())
    agent.sessions["run-0-0"] = ITEMS
    store = MemoryStore()
    tenant = Tenants(SECRET.encode()).of(HEADERS, {})
    store.append(SessionKey(tenant, SessionId("run-0-0")), stored, expected=0)
    row = compared(store, [agent])
    return row["lost"], row["doubled"], row["out_of_order"]


def test_every_message_has_a_mark_of_its_own() -> None:
    """A person's request, a result, a call and a text are known again by their marks."""
    items = [*ITEMS, replied("0-0-5"), asked("0-0-6", lines=2, call="call-0-0-5")]

    assert [marks_in(json.dumps(item)) for item in items] == [
        ["ask-0-0-4"],
        ["say-0-0-4"],
        ["ask-0-0-5"],
        ["say-0-0-5"],
        ["ask-0-0-6"],
    ]


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        (entries(), (0, 0, 0)),
        (entries()[:2], (1, 0, 0)),
        ([*entries(), entries()[2]], (0, 1, 0)),
        ([entries()[1], entries()[0], entries()[2]], (0, 0, 1)),
        ([entries()[0], entries()[0], Amendment(1), *entries()[1:]], (0, 0, 0)),
    ],
    ids=["all there", "one lost", "one twice", "another order", "one taken back and sent again"],
)
def test_the_store_is_compared_with_what_was_sent(stored: list[Entry], found: tuple[int, int, int]) -> None:
    """A lost and a doubled message and another order are counted; what was taken back is not there."""
    assert figures(stored) == found
