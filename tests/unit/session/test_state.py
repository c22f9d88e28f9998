"""State that travels inside a history is in force after any number of compactions, as without infold."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.state import (
    AGENTS,
    Item,
    anthropic_session,
    anthropic_state,
    codex_session,
    environment_in,
    misplaced,
    system,
)

from infold import Session, SessionSettings, fit
from infold.core.entries import Checkpoint
from infold.core.events import InstructionStubbed
from infold.core.messages import SessionId
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore

STEPS, COMPACTIONS = 320, 10
WINDOW = 8_000
KEY = SessionKey("", SessionId("s"))

Prepare = Callable[[list[Item], list[Item]], list[Any]]
"""Returns the messages of a request, given all messages of the client and those that are new."""


def by_session(session: Session) -> Prepare:
    """The client brings its whole list."""
    return lambda history, _: session.prepare(history).messages


def by_pieces(session: Session) -> Prepare:
    """The client brings only what is new."""
    return lambda _, new: session.prepare_new(new).messages


def by_processes(store: MemoryStore, settings: SessionSettings) -> Prepare:
    """Each request comes from a process of its own, which reads the session from its store."""
    return lambda _, new: Session(store, "s", settings).prepare_new(new).messages


def requests(prepare: Prepare, pieces: Iterator[list[Item]]) -> Iterator[tuple[list[Item], list[Any]]]:
    """Each request of a session: the client's list, and what is sent."""
    history: list[Item] = []
    for new in pieces:
        history += new
        yield history, prepare(history, new)


def folds(store: MemoryStore) -> int:
    """How often the session was folded."""
    return sum(isinstance(entry, Checkpoint) for _, entry in store.newest_first(KEY))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["whole", "pieces", "processes"])
@pytest.mark.parametrize("preset", ["infold", "opencode-1.1.57", "opencode-1.18", "proactive"])
def test_tools_and_dated_instructions_are_the_same_after_ten_compactions(preset: str, way: str) -> None:
    """B33: each request has the tools, system texts and effort of the client's own list, in places that the API takes."""
    store, settings = MemoryStore(), SessionSettings(window=WINDOW, policy=preset, format="anthropic-messages")
    session = Session(store, "s", settings)
    prepare = {"whole": by_session(session), "pieces": by_pieces(session), "processes": by_processes(store, settings)}
    states: set[str] = set()
    for history, sent in requests(prepare[way], anthropic_session(STEPS)):
        assert anthropic_state(sent) == anthropic_state(history)
        assert not misplaced(sent)
        states.add(repr(anthropic_state(sent)))

    assert len(states) == 11
    assert folds(store) >= COMPACTIONS


@pytest.mark.slow
@pytest.mark.parametrize("way", ["whole", "pieces", "processes"])
def test_project_instructions_and_environment_are_the_same_after_ten_compactions(way: str) -> None:
    """B33: Codex's AGENTS.md and the newest working folder, sandbox and shell are in each request, word for word."""
    store, settings = MemoryStore(), SessionSettings(window=WINDOW, format="openai-responses")
    session = Session(store, "s", settings)
    prepare = {"whole": by_session(session), "pieces": by_pieces(session), "processes": by_processes(store, settings)}
    for history, sent in requests(prepare[way], codex_session(STEPS)):
        assert texts(sent).count(AGENTS) == 1
        assert environment_in(texts(sent)) == environment_in(texts(history))

    assert folds(store) >= COMPACTIONS


def texts(items: list[Any]) -> list[str]:
    """The texts of Responses items."""
    contents = [item["content"] for item in items if "content" in item]
    return [one if isinstance(one, str) else one[0]["text"] for one in contents]


def test_fit_keeps_state() -> None:
    """B33: a list that is fitted in one call has the same state as before."""
    history = [item for piece in anthropic_session(120) for item in piece]

    fitted = fit(history, window=WINDOW)

    assert len(fitted.messages) < len(history)
    assert anthropic_state(fitted.messages) == anthropic_state(history)
    assert not misplaced(fitted.messages)


def test_undo_shows_every_state_message_again() -> None:
    """B33: once a compaction is undone, the client's own list is sent."""
    session = Session(MemoryStore(), "s", SessionSettings(window=200_000))
    history = [item for piece in anthropic_session(20) for item in piece]
    session.prepare(history)
    folded = session.compact().messages
    session.undo()

    assert len(folded) < len(history)
    assert anthropic_state(folded) == anthropic_state(history)
    assert session.prepare(history).messages == history


def test_a_repeated_request_is_the_same_bytes() -> None:
    """B33: what a fold carries on is sent in the same form by every process."""
    store, settings = MemoryStore(), SessionSettings(window=WINDOW)
    history = [item for piece in anthropic_session(60) for item in piece]
    first = Session(store, "s", settings).prepare(history).messages

    assert Session(store, "s", settings).prepare(history).messages == first


def test_instructions_beyond_their_share_are_reported() -> None:
    """B33: the newest texts of system messages are kept as far as an eighth of the window holds them."""
    events: list[InstructionStubbed] = []
    session = Session(MemoryStore(), "s", SessionSettings(window=WINDOW))
    session.bus.subscribe(InstructionStubbed, events.append)
    history: list[Item] = [{"role": "user", "content": "Look after the orchard."}]
    for number in range(12):
        note = system(f"Rule {number} of the orchard. " + "Water the trees in the morning. " * 30)
        reply = {"role": "assistant", "content": f"I water row {number}. " * 60}
        history += [note, reply, {"role": "user", "content": "Go on. " * 100}]

    shown = repr(session.prepare(history).messages)

    assert "Rule 11" in shown
    assert "Rule 0 " not in shown
    assert events
