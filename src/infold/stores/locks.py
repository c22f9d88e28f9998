"""A lock for one session across the threads and processes of a machine, beside the database file.

The operating system's record lock on a small file: it ends with the process that took it, however that ends, and a forked
child does not inherit it. Within a process such locks do not exclude each other, so a table of what this process holds
does. The table is the one piece of state that is the process's own rather than a store's: two stores of one process may be
open on the same file.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from infold.ports import SessionKey

_HELD: dict[tuple[int, str], object] = {}
"""By process and file: a forked child sees its parent's entries and must not take them for its own."""

OWNER_ONLY = 0o600


def lock_path(database: Path, key: SessionKey) -> Path:
    """The lock file of a session; the key is hashed, since ids may hold anything."""
    name = hashlib.sha256(f"{key.tenant}\0{key.session_id}".encode()).hexdigest()[:32]
    return database.with_name(f"{database.name}-hold-{name}")


@contextmanager
def holding(path: Path) -> Iterator[bool]:
    """Hold the lock of this file while the block runs; false at once if somebody has it."""
    pid, mine = os.getpid(), object()
    name = (pid, os.path.realpath(path))
    if _HELD.setdefault(name, mine) is not mine:
        yield False
        return
    try:
        with _locked(path, pid) as taken:
            yield taken
    finally:
        _HELD.pop(name, None)


@contextmanager
def _locked(path: Path, pid: int) -> Iterator[bool]:
    descriptor = _take(path)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        # A forked child that leaves the block has no lock to give back, and must not remove its parent's file.
        if os.getpid() == pid:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(path: Path) -> int | None:
    """The descriptor of the locked file, or none if it is taken.

    The last holder removes the file while it still has the lock, so a lock on a file that is no longer there is void and
    taken anew.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)
