"""A process that uses a store, for tests that kill it, fork it or run several at once.

Run as `store_worker.py <task> <address> [argument]`; the address is a file or a PostgreSQL connection string.
"""

import os
import sys
import time
from collections.abc import Callable
from itertools import count

from infold.core.messages import SessionId
from infold.ports import FullStore, SessionKey
from infold.stores.postgres import PostgresStore
from infold.stores.sqlite import SqliteStore
from infold.testing.rules import append_with_retries, said

KEY = SessionKey("tenant", SessionId("shared"))


def opened(address: str) -> SqliteStore | PostgresStore:
    """The store at an address."""
    return PostgresStore(address) if "=" in address or "://" in address else SqliteStore(address)


def size_at(first: int) -> int:
    """How many entries `write_on` appends at once, by the number of the first: one to three, by a fixed rule."""
    return 1 + (first // 2 * 7) % 3


def write_on(store: FullStore, _: str) -> None:
    """Append for ever, and say after each append how far the session has got."""
    at = next((newest[0] + 1 for newest in store.newest_first(KEY)), 0)
    tell(at)
    while True:
        texts = [f"entry {at + step}" for step in range(size_at(at))]
        at = store.append(KEY, said(*texts, prefix=f"{at}-"), expected=at)
        tell(at)


def append_many(store: FullStore, name: str) -> None:
    """A hundred appends among other processes."""
    for number in range(100):
        append_with_retries(store, KEY, said(f"{name} {number}", prefix=f"{name}-{number}-"))


def compact_many(store: FullStore, name: str) -> None:
    """Ten times: hold the session, and while it is held say so twice."""
    done = 0
    for number in count():
        with store.hold(KEY) as held:
            if held:
                append_with_retries(store, KEY, said(f"{name} begins", prefix=f"{name}-{number}-a"))
                append_with_retries(store, KEY, said(f"{name} ends", prefix=f"{name}-{number}-b"))
                done += 1
        if done == 10:
            return
        time.sleep(0.001)


def hold_on(store: FullStore, _: str) -> None:
    """Hold the session until killed."""
    with store.hold(KEY) as held:
        tell(int(held))
        time.sleep(600)


def fork(store: SqliteStore | PostgresStore, _: str) -> None:
    """Fork in the middle of things; parent and child both go on with the store, and the child ends like any program."""
    append_with_retries(store, KEY, said(*(f"early {number}" for number in range(60)), prefix="early-"))
    if not (idle := os.fork()):
        sys.exit(0)  # never touches the store, and still must not close its parent's connections on its way out
    os.waitpid(idle, 0)
    reading = store.newest_first(KEY)
    next(reading)
    with store.hold(KEY) as held:
        child = os.fork()
        name = "parent" if child else "child"
        seen = len(list(reading))
        for number in range(30):
            append_with_retries(store, KEY, said(f"{name} {number}", prefix=f"{name}-{number}-"))
        with store.hold(KEY) as again:
            assert not again, f"the {name} took a lock that the parent holds"
        status = os.waitpid(child, 0)[1] if child else 0
    assert held
    assert seen == 59
    if not child:
        sys.exit(0)
    assert status == 0
    store.close()
    store.close()
    tell(status)


def tell(number: int) -> None:
    """Say a number to whoever started this process."""
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


TASKS: dict[str, Callable[[SqliteStore | PostgresStore, str], None]] = {
    task.__name__: task for task in (write_on, append_many, compact_many, hold_on, fork)
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](opened(sys.argv[2]), sys.argv[-1])
