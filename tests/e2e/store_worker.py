"""A process that uses a store, for tests that kill it, fork it or run several at once.

Run as `store_worker.py <task> <address> [argument]`; the address is a file or a PostgreSQL connection string.
"""

import ctypes
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread

from infold.core.messages import SessionId
from infold.errors import StoreBroken, StoreConflict
from infold.ports import FullStore, SessionKey
from infold.stores.postgres import PostgresStore
from infold.stores.sqlite import SqliteStore
from infold.testing.store_contract import append_with_retries, run_together, user_entries

KEY = SessionKey("tenant", SessionId("shared"))
OWN = SessionKey("tenant", SessionId("of the process that opens the store often"))
ASIDE = SessionKey("tenant", SessionId("of its threads and forks"))


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
        at = store.append(KEY, user_entries(*texts, prefix=f"{at}-"), expected=at)
        tell(at)


def append_many(store: FullStore, name: str) -> None:
    """A hundred appends among other processes."""
    for number in range(100):
        append_with_retries(store, KEY, user_entries(f"{name} {number}", prefix=f"{name}-{number}-"))


def compact_many(store: FullStore, name: str) -> None:
    """Ten times: hold the session, and while it is held say so twice."""
    done = 0
    for number in count():
        with store.hold(KEY) as held:
            if held:
                append_with_retries(store, KEY, user_entries(f"{name} begins", prefix=f"{name}-{number}-a"))
                append_with_retries(store, KEY, user_entries(f"{name} ends", prefix=f"{name}-{number}-b"))
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
    append_with_retries(store, KEY, user_entries(*(f"early {number}" for number in range(60)), prefix="early-"))
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
            append_with_retries(store, KEY, user_entries(f"{name} {number}", prefix=f"{name}-{number}-"))
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


def open_often(store: SqliteStore | PostgresStore, address: str) -> None:
    """Append for ever and tell each number, while the same store is opened again and again in this process."""
    chance, at = random.Random(), next((newest[0] + 1 for newest in store.newest_first(OWN)), 0)
    kept: list[SqliteStore | PostgresStore] = []
    for number in count():
        chance.choice(WAYS)(store, address, kept, f"{os.getpid()} {number}")
        at = store.append(OWN, user_entries(f"own {at}", prefix=f"{at}-"), expected=at)
        tell(at)


def _open_and_close(_: FullStore, address: str, kept: list[SqliteStore | PostgresStore], name: str) -> None:
    with opened(address) as again:
        append_with_retries(again, ASIDE, user_entries(name, prefix=f"{name}-"))


def _open_and_keep(_: FullStore, address: str, kept: list[SqliteStore | PostgresStore], name: str) -> None:
    kept.append(opened(address))
    if len(kept) > 3:
        kept.pop(0).close()


def _open_in_threads(store: FullStore, address: str, kept: list[SqliteStore | PostgresStore], name: str) -> None:
    run_together([Thread(target=_open_and_close, args=(store, address, kept, f"{name} {n}")) for n in range(3)])


def _fork(store: FullStore, address: str, kept: list[SqliteStore | PostgresStore], name: str) -> None:
    child = os.fork()
    if not child:
        append_with_retries(store, ASIDE, user_entries(name, prefix=f"{name}-"))
        os._exit(0)
    os.waitpid(child, 0)


WAYS = (_open_and_close, _open_and_keep, _open_in_threads, _fork)


def outlive(store: SqliteStore | PostgresStore, address: str) -> None:
    """Fork with the store open, and let the parent end; the child appends after each line of input."""
    store.append(OWN, user_entries("parent"), expected=0)
    if os.fork():
        os._exit(0)
    while os.getppid() != 1 and not _is_orphan():
        time.sleep(0.01)
    for at in count(1):
        tell(store.append(OWN, user_entries(f"child {at}", prefix=f"{at}-"), expected=at))
        if not sys.stdin.readline():
            os._exit(0)


def _is_orphan() -> bool:
    """Whether the parent, this very program, has ended; a container's first process may not have the number one."""
    with suppress(FileNotFoundError):
        return b"outlive" not in Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    return True


def fork_unseen(store: SqliteStore | PostgresStore, address: str) -> None:
    """Fork without Python's knowledge, as a server written in C may; tell in how many ways the child was refused."""
    store.append(KEY, user_entries("a"), expected=0)
    child = ctypes.CDLL(None).fork()
    if not child:
        refused = 0
        for use in (lambda: store.append(KEY, user_entries("b"), expected=1), lambda: opened(address)):
            with suppress(StoreBroken):
                use()
                continue
            refused += 1
        tell(refused)
        os._exit(0)
    os.waitpid(child, 0)
    tell(store.append(KEY, user_entries("c", prefix="c"), expected=1))


def interrupted(store: SqliteStore | PostgresStore, _: str) -> None:
    """Interrupt the main thread a hundred times while it and three others append; tell each thread's count and what is stored."""
    counts, over = {}, Event()

    def append_on(name: str) -> None:
        counts[name] = 0
        while not over.is_set():
            counts[name] = store.append(_of(name), user_entries("x", prefix=f"{counts[name]}-"), expected=counts[name])

    def interrupt() -> None:
        for _ in range(100):
            time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        over.set()

    threads = [Thread(target=append_on, args=(f"thread {number}",)) for number in range(3)] + [Thread(target=interrupt)]
    for thread in threads:
        thread.start()
    at = 0
    while not over.is_set():
        with suppress(KeyboardInterrupt, StoreConflict):  # another thread may have begun what was interrupted
            at = next((newest[0] + 1 for newest in store.newest_first(OWN)), 0)
            at = store.append(OWN, user_entries("x", prefix=f"{at}-"), expected=at)
    for thread in threads:
        thread.join()
    tell(sum(1 for _ in store.newest_first(OWN)) - at)
    for name, count_of in counts.items():
        tell(sum(1 for _ in store.newest_first(_of(name))) - count_of)


def _of(name: str) -> SessionKey:
    return SessionKey("tenant", SessionId(name))


def visit(store: SqliteStore | PostgresStore, _: str) -> None:
    """Look at the store as another program would, and tell how many entries there are of either session."""
    for key in (KEY, OWN):
        tell(sum(1 for _ in store.newest_first(key)))
    store.close()


def nurse(address: str) -> None:
    """Fork a child for the task that each line of input names; tell its id first and its end last.

    A process that has everything imported, and never opens the store itself, forks in a moment.
    """
    for line in sys.stdin:
        child = os.fork()
        if not child:
            tell(os.getpid())
            TASKS[line.strip()](opened(address), address)
            os._exit(0)
        tell_line(f"ended {os.waitpid(child, 0)[1]}")


def tell(number: int) -> None:
    """Write a number to the process that started this one."""
    tell_line(str(number))


def tell_line(line: str) -> None:
    """Write a line to the process that started this one."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


TASKS: dict[str, Callable[[SqliteStore | PostgresStore, str], None]] = {
    task.__name__: task
    for task in (
        write_on,
        append_many,
        compact_many,
        hold_on,
        fork,
        fork_unseen,
        open_often,
        outlive,
        interrupted,
        visit,
    )
}

if __name__ == "__main__" and sys.argv[1] == "nurse":
    nurse(sys.argv[2])
elif __name__ == "__main__":
    TASKS[sys.argv[1]](opened(sys.argv[2]), sys.argv[-1])
