"""A process that drives a session, for tests that kill it or run several at once.

Run as `session_worker.py nurse <address>` or `session_worker.py speak <address> <name>`; the address is a file or a PostgreSQL
connection string. What a call took in is told on standard output once it has returned, so that it is known to be acknowledged.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from infold.core.entries import MessageEntry
from infold.core.messages import Message, SessionId, is_from_caller
from infold.core.summary_request import SummaryRequest
from infold.errors import StoreConflict
from infold.ports import FullStore, SessionKey
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.postgres import PostgresStore
from infold.stores.sqlite import SqliteStore

KEY = SessionKey("", SessionId("shared"))
WINDOW = 8_192
LIMIT_TOKENS = WINDOW - int(WINDOW * 0.15)
RULE = "Port the parser. Never touch vendor/."
NOTES = "The parser was ported part by part with make, and all went well."
APPENDS = int(os.environ.get("INFOLD_APPENDS", "40"))
"""How many messages each of the processes that write together brings."""

MOST_CALLS = 5

PATIENCE_SECONDS = 120.0
"""Many processes on few cores: one may wait long for its turn, and none is to give up."""


def opened(address: str) -> SqliteStore | PostgresStore:
    """The store at an address."""
    return PostgresStore(address) if "=" in address or "://" in address else SqliteStore(address)


def session_in(store: FullStore, notes: Callable[[SummaryRequest], str] = lambda _: NOTES) -> Session:
    """The shared session, in a window of 8k; its text is counted without a tokeniser, which takes long to load."""
    settings = SessionSettings(
        model="claude-sonnet-4-5",
        window=WINDOW,
        summariser=notes,
        summariser_tokens=32_000,
        format="openai-chat",
        patience_seconds=PATIENCE_SECONDS,
    )
    return Session(store, KEY.session_id, settings)


def word_of(message: object) -> str:
    """The word by which one of the callers' messages is told from all others."""
    found = re.search(r"(?:asks|calls|result|p\d) \d+", str(message))
    return found[0] if found else ""


# One process that is killed.


def live_on(store: FullStore) -> None:
    """Go on with the session wherever it stands, for ever: a tool step after the other."""
    session, step, newest = session_in(store), newest_step(store), newest_word(store)
    if newest == f"calls {step}":
        session.prepare_new([answers(step)])
        tell(f"result {step}")
    elif newest:
        session.prepare_new([])
    else:
        session.prepare_new([{"role": "user", "content": f"asks 0: {RULE}"}])
        tell("asks 0")
    step += 1
    while True:
        session.record(reply(step))
        tell(f"calls {step}")
        session.prepare_new([answers(step)])
        tell(f"result {step}")
        step += 1


def newest_word(store: FullStore) -> str:
    """The newest message that a caller brought."""
    return next((word for message in messages(store) if (word := word_of(message))), "")


def newest_step(store: FullStore) -> int:
    """The number of the newest step, -1 before the first."""
    words = (word_of(message).split() for message in messages(store))
    return next((int(word[1]) for word in words if word and word[0] == "calls"), -1)


def messages(store: FullStore) -> Iterator[Message]:
    """The callers' messages, newest first."""
    entries = (entry for _, entry in store.newest_first(KEY))
    return (entry.message for entry in entries if isinstance(entry, MessageEntry) and is_from_caller(entry.message))


def reply(step: int) -> dict[str, Any]:
    """A provider's reply that calls a tool."""
    function = {"name": "bash", "arguments": f'{{"command": "calls {step}"}}'}
    call = {"id": f"c{step}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def answers(step: int) -> dict[str, Any]:
    """What the tool printed: some six hundred tokens."""
    return {"role": "tool", "tool_call_id": f"c{step}", "content": f"result {step}: all went well\n" * 70}


# Several processes at once.


def speak(store: FullStore, name: str) -> None:
    """Bring messages and record replies among other processes; at the end say how often a summary was asked for."""
    asked: list[SummaryRequest] = []

    def notes(request: SummaryRequest) -> str:
        asked.append(request)
        return NOTES

    session = session_in(store, notes)
    for number in range(0, APPENDS, 2):
        insist(session.prepare_new, [{"role": "user", "content": f"{name} {number}: " + "and all went well. " * 20}])
        said = {"role": "assistant", "content": f"{name} {number + 1}: " + "it is so. " * 20}
        insist(session.record, {"choices": [{"message": said, "finish_reason": "stop"}]})
    tell(str(len(asked)))


def insist(call: Callable[[Any], object], given: object) -> None:
    """Make a call, again where others were always faster, as the error says."""
    for _ in range(MOST_CALLS):
        try:
            call(given)
        except StoreConflict as conflict:
            sys.stderr.write(f"{conflict}\n")
        else:
            return
    raise AssertionError("the others never let this process in")


def tell(word: str) -> None:
    """Say a word to whoever started this process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


# Starting quickly.


def nurse(address: str) -> None:
    """Fork a child at each line of input, which lives on until it is killed; tell its id first and its end last.

    A process that has everything imported forks in a moment, so that hundreds can be killed.
    """
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            tell(str(os.getpid()))
            with opened(address) as store:
                live_on(store)
        _, status = os.waitpid(child, 0)
        tell(f"ended {status}")


if __name__ == "__main__":
    if sys.argv[1] == "nurse":
        nurse(sys.argv[2])
    else:
        with opened(sys.argv[2]) as shared:
            speak(shared, sys.argv[3])
