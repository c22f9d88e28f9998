"""The store in a file: whose it is, what it refuses, and what it leaves behind."""

import errno
import os
import random
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

from infold.agent.tools.files import read_text_file
from infold.agent.tools.tool import ToolFailed, Workspace
from infold.core.load import load
from infold.core.logged_message import Rendering
from infold.errors import BrokenInput, InfoldError, StoreBroken, StoreClosed
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.search_index import LEAST_PASSAGES
from infold.stores.sqlite import SqliteStore
from infold.stores.sqlite_file import REMEDIES, put_in_place, translate_errors
from infold.stores.sqlite_writer import MOST_IDLE
from infold.testing.store_contract import FOREIGN, ONE, TWO, append_with_retries, run_together, user_entries
from infold.transcripts.registry import read_transcript

NOBODY = 65_534


def content(path: Path) -> bytes:
    """What the agent's tools read of a file."""
    return read_text_file(path, Workspace(path.parent))


def test_file_is_the_owners_alone(tmp_path: Path) -> None:
    """The database and its companions can be read and written by their owner only, whatever the umask."""
    before = os.umask(0)
    try:
        with SqliteStore(tmp_path / "new" / "a.db") as store:
            store.append(ONE, user_entries("a"), expected=0)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    finally:
        os.umask(before)

    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"root:x:0:0:root:/root:/bin/bash\n", b"SQLite format 3\x00 but no more"])
def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    """B13: a mistyped place may name somebody's file; neither what it holds nor who may read it changes."""
    path = tmp_path / "passwd"
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(StoreBroken) as told:
        SqliteStore(path)

    assert told.tb is not None  # who holds the error holds no file
    assert [link for link in Path("/dev/fd").iterdir() if link.exists() and link.samefile(path)] == []
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (content, 0o644)
    assert [found.name for found in tmp_path.iterdir()] == ["passwd"]


def test_wider_mode_is_narrowed(tmp_path: Path) -> None:
    """A file that others could read is the owner's alone once it was opened."""
    SqliteStore(tmp_path / "a.db").close()
    (tmp_path / "a.db").chmod(0o644)
    SqliteStore(tmp_path / "a.db").close()

    assert stat.S_IMODE((tmp_path / "a.db").stat().st_mode) == 0o600


def test_sessions_outlive_the_store(tmp_path: Path) -> None:
    """B1, B13: what was appended is there when the file is opened again, and the session goes on at its number."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries("a", "b"), expected=0)
    with SqliteStore(str(tmp_path / "a.db")) as store:
        assert [entry for _, entry in store.newest_first(ONE)] == user_entries("a", "b")[::-1]
        assert store.append(ONE, user_entries("c", prefix="n"), expected=2) == 3


def test_deleted_bytes_are_gone(tmp_path: Path) -> None:
    """B27: no word of a deleted session is left in the file or beside it, and what it filled is given back."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(FOREIGN, user_entries("blackbird"), expected=0)
        for number in range(40):
            store.append(ONE, user_entries(f"nightingale sang {'x ' * 2_000}", prefix=f"{number}-"), expected=number)
        store.search(ONE, "nightingale", most=5)
        assert b"nightingale" in left_in(tmp_path)
        assert pieces_in(tmp_path / "a.db")
        store.delete(ONE)
        size = (tmp_path / "a.db").stat().st_size

        assert b"nightingale" not in left_in(tmp_path)
        assert b"blackbird" in left_in(tmp_path)
        assert size < 80_000
        assert not pieces_in(tmp_path / "a.db")
        assert len(store.search(FOREIGN, "blackbird", most=5)) == 1


def pieces_in(path: Path) -> int:
    """How many pieces of indexes a file holds."""
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM index_pieces").fetchone()[0])


def left_in(folder: Path) -> bytes:
    """Every byte of every file."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_expired_and_trimmed_bytes_are_gone(tmp_path: Path) -> None:
    """B27: expiry and the cap on size leave no more behind than deleting does."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries("nightingale"), expected=0)
        store.append(TWO, user_entries("nightingale"), expected=0)
        assert store.trim(0) == 2
        store.append(ONE, user_entries("nightingale"), expected=0)
        assert store.expire(-1_000) == 1

        assert b"nightingale" not in left_in(tmp_path)


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    """A closed store has no companion files, stays closed, and says so when it is used."""
    store = SqliteStore(tmp_path / "a.db")
    store.append(ONE, user_entries("a"), expected=0)
    reading = store.newest_first(ONE)
    store.close()
    store.close()

    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
    for act in (
        lambda: store.append(ONE, user_entries("b"), expected=1),
        lambda: next(reading),
        lambda: store.search(ONE, "", most=1),
    ):
        with pytest.raises(StoreClosed):
            act()


def test_stores_open_at_once(tmp_path: Path) -> None:
    """B14: several stores that open one new file at the same moment make it once and share it."""
    stores: list[SqliteStore] = []
    run_together([Thread(target=lambda: stores.append(SqliteStore(tmp_path / "a.db"))) for _ in range(8)])
    for number, store in enumerate(stores):
        append_with_retries(store, ONE, user_entries("a", prefix=f"{number}-"))
    with stores[0].hold(ONE) as first, stores[1].hold(ONE) as second:
        assert (first, second) == (True, False)
    assert len(list(stores[0].newest_first(ONE))) == 8
    for store in stores:
        store.close()


def test_read_under_way_when_the_store_is_closed(tmp_path: Path) -> None:
    """A connection that was reading while the store was closed is closed when it is done."""
    store = SqliteStore(tmp_path / "a.db")
    with store._connections.here().reading() as connection:
        store.close()
        assert is_open(connection)
    assert not is_open(connection)


def test_reader_under_way_holds_nothing(tmp_path: Path) -> None:
    """B17: between two pages no transaction is open, so that the write-ahead log can be emptied."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries(*"x" * 120), expected=0)
        reading = store.newest_first(ONE)
        next(reading)
        store.append(ONE, user_entries("y", prefix="n"), expected=120)
        with closing(sqlite3.connect(tmp_path / "a.db", timeout=0)) as connection:
            busy, left, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

        assert (busy, left) == (0, 0)
        assert len(list(reading)) == 119


def test_many_readers_leave_few_connections(tmp_path: Path) -> None:
    """Connections that were opened for many threads at once are closed when they are not needed."""
    with SqliteStore(tmp_path / "a.db") as store, ExitStack() as stack:
        opened = [stack.enter_context(store._connections.here().reading()) for _ in range(30)]
        stack.close()
        left = [connection for connection in opened if is_open(connection)]

    assert len(left) == MOST_IDLE


def is_open(connection: sqlite3.Connection) -> bool:
    """Whether a connection can be used."""
    try:
        return bool(connection.execute("SELECT 1").fetchone())
    except sqlite3.ProgrammingError:
        return False


# One file, opened more than once (the processes are in tests/e2e/test_store_processes.py).


def test_two_names_of_one_file_are_one_store(tmp_path: Path) -> None:
    """B31, B14: a store opened through a symbolic link shares its locks with the one opened by the file's own name."""
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with SqliteStore(tmp_path / "link.db") as first, SqliteStore(tmp_path / "a.db") as second:
        first.append(ONE, user_entries("a"), expected=0)
        assert second.append(ONE, user_entries("b", prefix="b"), expected=1) == 2
        with first.hold(ONE) as held, second.hold(ONE) as again:
            assert (held, again) == (True, False)
    assert (tmp_path / "link.db").is_symlink()


@pytest.mark.parametrize("act", ["remove", "replace"])
def test_a_file_that_is_gone_is_noticed(tmp_path: Path, act: str) -> None:
    """B31: an append after the file was deleted or replaced is an error, not an entry that is lost."""
    SqliteStore(tmp_path / "other.db").close()
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries("a"), expected=0)
        if act == "remove":
            (tmp_path / "a.db").unlink()
        else:
            (tmp_path / "other.db").rename(tmp_path / "a.db")
        with pytest.raises(StoreBroken, match=r"removed or replaced .* not stored; put the file back"):
            store.append(ONE, user_entries("b", prefix="b"), expected=1)


def test_locks_lost_to_other_code_are_noticed(tmp_path: Path) -> None:
    """B31: where the program itself opened and closed the file, so that another process removed the log, an append fails."""
    visitor = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM sessions'); c.close()"
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries("a"), expected=0)
        (tmp_path / "a.db").read_bytes()
        subprocess.run([sys.executable, "-c", visitor, tmp_path / "a.db"], check=True)
        with pytest.raises(StoreBroken, match="removed or replaced"):
            store.append(ONE, user_entries("b", prefix="b"), expected=1)


@pytest.mark.parametrize("read", [read_transcript, content])
def test_no_reader_of_ours_opens_a_store_in_use(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """B31: reading a store's file as a transcript, or with the agent's tool, is refused while it is open."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries("a"), expected=0)
        with pytest.raises((BrokenInput, ToolFailed), match="SQLite database that is in use"):
            read(tmp_path / "a.db")


# Files that are not as they should be.


def test_an_empty_file_is_no_new_store(tmp_path: Path) -> None:
    """B31: a file that was cut to nothing is reported with the remedy, and left as it is."""
    (tmp_path / "a.db").touch()
    with pytest.raises(StoreBroken, match=r"empty \(0 bytes\).*; restore it from a copy, or delete it"):
        SqliteStore(tmp_path / "a.db")

    assert (tmp_path / "a.db").stat().st_size == 0


def test_a_device_is_no_store() -> None:
    """A place that is not a regular file is refused."""
    with pytest.raises(StoreBroken, match="not a regular file; name another"):
        SqliteStore("/dev/null")


def test_a_store_is_made_where_a_killed_process_left_half_of_one(tmp_path: Path) -> None:
    """B31, B13: what a process that was killed while it made the store left behind is removed, and the store is whole."""
    for name in ("a.db-new", "a.db-new-journal", "a.db-creating"):
        (tmp_path / name).write_bytes(b"half")
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries("a"), expected=0)
    with SqliteStore(tmp_path / "a.db") as store:
        assert len(list(store.newest_first(ONE))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


def no_hard_links(draft: Path, path: Path) -> None:
    """Fail as a file system without hard links does."""
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("link", [os.link, no_hard_links])
def test_a_new_file_gets_its_name_whole(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    """B31: a finished file is given its name, on file systems without hard links too."""
    draft = tmp_path / "a.db-new"
    draft.write_text("whole")
    put_in_place(draft, tmp_path / "a.db", link)

    assert (tmp_path / "a.db").read_text() == "whole"
    assert not draft.exists()


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    """B31: a file that another program put there meanwhile is not replaced."""
    for name in ("a.db-new", "a.db"):
        (tmp_path / name).write_text(name)
    put_in_place(tmp_path / "a.db-new", tmp_path / "a.db")

    assert [path.read_text() for path in tmp_path.iterdir()] == ["a.db"]


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A file that is no database is left as it is, and the message says to name another."""
    (tmp_path / "a.db").write_bytes(b"not a database at all, but a text of some length" * 99)
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(StoreBroken, match=r"not an infold store.*; name another file"):
        SqliteStore(tmp_path / "a.db")

    assert (tmp_path / "a.db").read_bytes() == before


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """Another program's tables are not added to."""
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE migrations (number INTEGER, name TEXT)")
    with pytest.raises(StoreBroken, match="another program's database; name another file"):
        SqliteStore(tmp_path / "a.db")


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """A file that a newer infold has changed is not touched."""
    SqliteStore(tmp_path / "a.db").close()
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO migrations VALUES (999, 'later', 0)")
    with pytest.raises(StoreBroken, match="upgrade infold"):
        SqliteStore(tmp_path / "a.db")


def test_migrations_are_recorded_once(tmp_path: Path) -> None:
    """Opening a file again applies nothing twice."""
    for _ in range(2):
        SqliteStore(tmp_path / "a.db").close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        rows = connection.execute("SELECT number, name FROM migrations").fetchall()

    assert rows == [(1, "sessions"), (2, "words"), (3, "indexed"), (4, "media"), (5, "index"), (6, "facts")]


def test_damaged_page_is_told(tmp_path: Path) -> None:
    """B13: a file whose pages were overwritten is reported as damaged, with what to do."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries(*(f"{number}" * 500 for number in range(200))), expected=0)
    stored = bytearray((tmp_path / "a.db").read_bytes())
    stored[8_192:] = os.urandom(len(stored) - 8_192)
    (tmp_path / "a.db").write_bytes(stored)
    with pytest.raises(StoreBroken, match="restore it from a copy"), SqliteStore(tmp_path / "a.db") as store:
        list(store.newest_first(ONE))


def test_damaged_entry_is_told(tmp_path: Path) -> None:
    """B13: an entry that was tampered with is named; those after it can still be read."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries("a", "b"), expected=0)
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
            connection.execute("UPDATE entries SET stored = x'00' WHERE sequence = 0")
        reading = store.newest_first(ONE)
        assert next(reading)[0] == 1
        with pytest.raises(StoreBroken, match="entry 0 of session 'one'"):
            next(reading)


def test_damage_in_the_schema_is_told(tmp_path: Path) -> None:
    """B13: a name in the schema that is not UTF-8 any more is reported as damage, with what to do."""
    SqliteStore(tmp_path / "a.db").close()
    stored = (tmp_path / "a.db").read_bytes()
    (tmp_path / "a.db").write_bytes(stored.replace(b"tablesessions", b"table\xffessions", 1))
    with pytest.raises(StoreBroken, match=r"damaged.*restore it from a copy"):
        SqliteStore(tmp_path / "a.db")


def use(store: SqliteStore) -> None:
    """Every act of a store; one that fails by infold's rules does not keep the others from being tried."""
    acts: list[Callable[[], object]] = [
        lambda: [list(store.sessions(tenant)) for tenant in store.tenants()],
        lambda: load(ONE.session_id, store.newest_first(ONE), Rendering()),
        lambda: store.search(ONE, "word", most=5),
        lambda: store.read(ONE, "1.0"),
        lambda: store.append(ONE, user_entries("c", prefix="c"), expected=3),
        lambda: (store.trim(10**9), store.expire(10**12)),
        lambda: store.delete(ONE),
    ]
    for act in acts:
        with suppress(InfoldError):
            act()


FLIPS = int(os.environ.get("INFOLD_FLIPS", "40"))
"""How many damaged copies of a file are tried."""


@pytest.mark.slow
def test_damage_anywhere_is_told(tmp_path: Path) -> None:
    """B13: bytes that were changed anywhere, the schema above all, never raise anything but infold's own errors."""
    with SqliteStore(tmp_path / "whole.db") as store:
        store.append(ONE, user_entries(*(f"word {number}" for number in range(LEAST_PASSAGES))), expected=0)
        store.search(ONE, "word", most=5)
        store.append(ONE, user_entries("word three", prefix="n"), expected=LEAST_PASSAGES)
    whole, chance = (tmp_path / "whole.db").read_bytes(), random.Random(12)
    for number in range(FLIPS):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            damaged[chance.randrange(chance.choice((8_192, len(whole))))] = chance.randrange(256)
        path = tmp_path / f"{number}.db"
        path.write_bytes(damaged[: chance.choice((len(whole), len(whole), chance.randrange(1, len(whole))))])
        with suppress(InfoldError), SqliteStore(path, busy_seconds=1) as store:
            use(store)


@pytest.mark.parametrize("column", ["next_sequence", "stored_bytes", "changed_ms", "stored", "first", "ends", "packed"])
@pytest.mark.parametrize("value", ["'abc'", "x'ff00'", "1.5", "-1"])
def test_a_value_of_another_type_is_told(tmp_path: Path, column: str, value: str) -> None:
    """B13: a column that holds a value of another type raises nothing but infold's own errors, and keeps no search waiting."""
    with SqliteStore(tmp_path / "a.db") as store:
        store.append(ONE, user_entries(*(f"word {number}" for number in range(LEAST_PASSAGES))), expected=0)
        store.search(ONE, "word", most=5)
        table = {"stored": "entries", "first": "index_pieces", "ends": "index_pieces", "packed": "index_pieces"}
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        assert connection.execute(f"UPDATE {table.get(column, 'sessions')} SET {column} = {value}").rowcount
    with SqliteStore(tmp_path / "a.db") as store:
        use(store)


@pytest.mark.parametrize(
    ("damage", "missing"),
    [
        ("DELETE FROM entries WHERE sequence = 1", "entry 1 of session 'one' is missing"),
        ("UPDATE sessions SET next_sequence = 7", "entry 6 of session 'one' is missing"),
        ("UPDATE sessions SET next_sequence = 2", "entry 1 of session 'one' is missing"),
    ],
)
def test_a_gap_in_a_session_is_told_at_once(tmp_path: Path, damage: str, missing: str) -> None:
    """B13: a missing entry or a wrong count is an error when the session is opened, and soon for one that has it open."""
    settings = SessionSettings(window=100_000, format="openai-chat")
    with SqliteStore(tmp_path / "a.db") as store:
        session = Session(store, ONE.session_id, settings)
        for number in range(4):
            session.prepare_new([{"role": "user", "content": f"{number}"}])
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
            connection.execute(damage)
        began = time.monotonic()
        with pytest.raises(StoreBroken, match=missing):
            Session(store, ONE.session_id, settings)
        if "next" in damage:
            with pytest.raises(StoreBroken, match=missing):
                session.prepare_new([{"role": "user", "content": "go on"}])
        assert time.monotonic() - began < 5


def test_a_planted_trigger_is_refused(tmp_path: Path) -> None:
    """B13: a trigger that another program added, which could change what is stored, is named and refused."""
    SqliteStore(tmp_path / "a.db").close()
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute("CREATE TRIGGER evil AFTER INSERT ON entries BEGIN DELETE FROM entries; END")
    with pytest.raises(StoreBroken, match=r"trigger that infold did not make \('evil'\); remove it"):
        SqliteStore(tmp_path / "a.db")


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_opening_waits_no_longer_than_it_may(tmp_path: Path, journal: str) -> None:
    """B14: a file that another process has locked is waited for so long as `busy_seconds` says, while it is opened too."""
    SqliteStore(tmp_path / "a.db").close()
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with pytest.raises(StoreBroken, match=r"another process has been writing|locked"):
            SqliteStore(tmp_path / "a.db", busy_seconds=0.3)
        assert 0.2 < time.monotonic() - began < 5


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may enter, unlike those of `tmp_path`."""
    with TemporaryDirectory(prefix="infold-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize("exists", [False, True], ids=["new file", "existing file"])
def test_read_only_folder_is_told(open_folder: Path, exists: bool) -> None:
    """A folder that may not be written is reported with the remedy."""
    path = open_folder / "folder" / "a.db"
    if exists:
        SqliteStore(path).close()
        path.chmod(0o444)
    path.parent.mkdir(exist_ok=True)
    path.parent.chmod(0o555)
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, check=False)
    path.parent.chmod(0o755)

    assert "StoreBroken" in done.stderr
    assert "make the file and its folder writable" in done.stderr


AS_NOBODY = f"""
import os, sys
from infold.stores.sqlite import SqliteStore
if os.getuid() == 0:
    os.setuid({NOBODY})  # nothing is read-only to root
SqliteStore(sys.argv[1])
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_full_disk_is_told_and_survived(small_disk: Path) -> None:
    """B13: on a full disk an append fails as a whole; what was acknowledged is there, and with space it goes on."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    with SqliteStore(small_disk / "a.db") as store:
        at = 0
        with pytest.raises(StoreBroken, match=r"free some space|space and its health"):  # noqa: PT012 - the first to fail
            while True:
                at = store.append(ONE, user_entries("x" * 20_000, "y", prefix=f"{at}-"), expected=at)

        assert [number for number, _ in store.newest_first(ONE)] == list(range(at - 1, -1, -1))
        ballast.unlink()
        assert store.append(ONE, user_entries("z", prefix="z"), expected=at) == at + 1


@pytest.mark.slow
def test_a_full_disk_can_be_read(small_disk: Path) -> None:
    """B13, B6: on a full disk a store is opened, listed, read and searched, what was never indexed too; then it goes on."""
    with SqliteStore(small_disk / "a.db") as store:
        store.append(ONE, user_entries("nightingale", "blackbird"), expected=0)
        store.search(ONE, "blackbird", most=1)
        store.append(ONE, user_entries("nightingale again", prefix="n"), expected=2)
    with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4_096))
    with SqliteStore(small_disk / "a.db") as store:
        assert len(list(store.newest_first(ONE))) == 3
        assert [stored.entries for stored in store.sessions(ONE.tenant)] == [3]
        assert [found.handle for found in store.search(ONE, "nightingale", most=5)] == ["0.0", "2.0"]
        assert store.read(ONE, "1.0").text == "blackbird"
        with pytest.raises(StoreBroken, match=r"the disk is full .*free some space"):
            store.append(ONE, user_entries("x", prefix="x"), expected=3)
        (small_disk / "ballast").unlink()
        assert store.append(ONE, user_entries("x", prefix="x"), expected=3) == 4
        assert len(list(store.newest_first(ONE))) == 4


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=oct)
def test_a_read_only_file_system_can_be_read(small_disk: Path, mode: int) -> None:
    """B13, B6: on a read-only file system a store is opened, listed, read and searched; an append is refused, with the reason."""
    with SqliteStore(small_disk / "a.db") as store:
        store.append(ONE, user_entries("nightingale", "blackbird"), expected=0)
    (small_disk / "a.db").chmod(mode)
    remount(small_disk, "ro")
    with SqliteStore(small_disk / "a.db") as store:
        assert len(list(store.newest_first(ONE))) == 2
        assert [stored.entries for stored in store.sessions(ONE.tenant)] == [2]
        assert [found.handle for found in store.search(ONE, "nightingale", most=5)] == ["0.0"]
        assert store.read(ONE, "1.0").text == "blackbird"
        with pytest.raises(StoreBroken, match=r"the file system is read-only .*copy the file"):
            store.append(ONE, user_entries("x", prefix="x"), expected=2)
        remount(small_disk, "rw")
        assert store.append(ONE, user_entries("x", prefix="x"), expected=2) == 3


def test_a_read_only_view_of_a_store_in_use(small_disk: Path, tmp_path: Path) -> None:
    """B6: where another process writes to a file that is mounted read-only here, its newest entries are read too."""
    (tmp_path / "view").mkdir()
    with SqliteStore(small_disk / "a.db") as store:
        store.append(ONE, user_entries("a", "b"), expected=0)
        view = str(tmp_path / "view")
        subprocess.run(["mount", "--bind", str(small_disk), view], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", view], check=True)
            code = f"from infold.stores.sqlite import SqliteStore; from infold.testing.store_contract import ONE; \
                print(len(list(SqliteStore({view + '/a.db'!r}).newest_first(ONE))))"
            read = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        finally:
            subprocess.run(["umount", "--lazy", view], check=True)

    assert read.stdout.strip() == "2", read.stderr


NO_FILES_LEFT = """
import os, resource, sys
from infold.stores.sqlite import SqliteStore
from infold.errors import StoreBroken
SqliteStore(sys.argv[1]).close()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for path in (sys.argv[1], sys.argv[1] + "2"):
    try:
        SqliteStore(path)
    except StoreBroken as error:
        print(error)
"""


def test_the_limit_of_open_files_is_named(tmp_path: Path) -> None:
    """B13: where a process may open no more files, the error says so, for a store that exists and for a new one."""
    command = [sys.executable, "-c", NO_FILES_LEFT, str(tmp_path / "a.db")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)

    assert ran.stdout.count("no more files can be opened") == 2
    assert ran.stdout.count("ulimit -n") == 2


def test_every_error_of_sqlite_is_told() -> None:
    """Each error name that SQLite has becomes a `StoreBroken` that ends with a remedy."""
    names = [name for name in vars(sqlite3) if name.startswith("SQLITE_") and name.isupper()]
    known = {name for name in names if any(name.startswith(prefix) for prefix, _, _ in REMEDIES)}

    assert len(known) > 20
    for name in names:
        error = sqlite3.OperationalError("refused")
        error.sqlite_errorname = name
        with pytest.raises(StoreBroken, match=r"; .+$"), translate_errors(Path("a.db")):
            raise error


def test_mistakes_of_ours_are_not_hidden() -> None:
    """An error that is no fault of the file passes through as it is."""
    with pytest.raises(sqlite3.ProgrammingError), translate_errors(Path("a.db")):
        raise sqlite3.ProgrammingError("wrong number of values")


def test_a_file_from_before_media_is_upgraded(tmp_path: Path) -> None:
    """B1, B35: a file without the table of media opens with all it had, and keeps media from then on."""
    path, entries, key = tmp_path / "a.db", user_entries("look", "and again"), ONE
    with SqliteStore(path) as store:
        store.append(key, entries, expected=0)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP TABLE facts; DROP TABLE media; DROP TABLE index_pieces; "
            "ALTER TABLE sessions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0; "
            "CREATE TABLE words (a); DELETE FROM migrations WHERE number > 3"
        )
    with SqliteStore(path) as store:
        store.keep_media(key, {"d": b"bytes"})

        assert [entry for _, entry in store.newest_first(key)] == entries[::-1]
        assert store.medium(key, "d") == b"bytes"
