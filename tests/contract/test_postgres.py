"""The store in a PostgreSQL database: what it refuses, and how it says so."""

from threading import Thread

import psycopg
import pytest

from infold.errors import StoreBroken, StoreClosed
from infold.stores.postgres import REMEDIES, PostgresStore, database_name, translate_errors
from infold.stores.search_index import LEAST_PASSAGES
from infold.testing.store_contract import ONE, append_with_retries, run_together, user_entries


def test_sessions_outlive_the_store(postgres: str) -> None:
    """B1, B13: what was appended is there when the database is opened again."""
    with PostgresStore(postgres) as store:
        store.append(ONE, user_entries("a", "b"), expected=0)
    with PostgresStore(postgres) as store:
        assert [entry for _, entry in store.newest_first(ONE)] == user_entries("a", "b")[::-1]
        assert store.append(ONE, user_entries("c", prefix="n"), expected=2) == 3


def test_deleted_rows_are_gone(postgres: str) -> None:
    """B27: of a deleted session no row is left in any table."""
    with PostgresStore(postgres) as store:
        store.append(ONE, user_entries(*map(str, range(LEAST_PASSAGES))), expected=0)
        store.search(ONE, "7", most=1)
        with psycopg.connect(postgres) as connection:
            assert connection.execute("SELECT count(*) FROM infold_index_pieces").fetchone() == (1,)
        store.delete(ONE)
    with psycopg.connect(postgres) as connection:
        for table in ("sessions", "entries", "index_pieces"):
            assert connection.execute(f"SELECT count(*) FROM infold_{table}".encode()).fetchone() == (0,)


def test_stores_open_at_once(postgres: str) -> None:
    """B14: several stores that open an empty database at the same moment make its tables once."""
    stores: list[PostgresStore] = []
    run_together([Thread(target=lambda: stores.append(PostgresStore(postgres))) for _ in range(6)])
    for number, store in enumerate(stores):
        append_with_retries(store, ONE, user_entries("a", prefix=f"{number}-"))
        store.close()
    with psycopg.connect(postgres) as connection:
        rows = connection.execute("SELECT number, name FROM infold_migrations").fetchall()

    assert len(stores) == 6
    assert rows == [(1, "sessions"), (2, "words"), (3, "indexed"), (4, "media"), (5, "index"), (6, "facts")]


@pytest.mark.parametrize(("stated", "used"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
def test_a_commit_is_on_the_servers_disk(postgres: str, stated: str, used: str) -> None:
    """B13: where the database acknowledges commits before they are on its disk, infold's own do not; other choices hold."""
    with PostgresStore(postgres) as store, psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE seen (setting text)")
        connection.execute(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END$$"
        )
        connection.execute("CREATE TRIGGER noting AFTER INSERT ON infold_entries EXECUTE FUNCTION note()")
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = {stated}'.encode())
        store.close()
        with PostgresStore(postgres) as opened:
            for at in range(8):  # often enough for a statement to be prepared
                opened.append(ONE, user_entries("a", prefix=f"{at}-"), expected=at)

        assert connection.execute("SELECT DISTINCT setting FROM seen").fetchall() == [(used,)]


def test_reader_under_way_holds_nothing(postgres: str) -> None:
    """B17: between two pages no transaction is open and no connection is taken."""
    with PostgresStore(postgres) as store:
        store.append(ONE, user_entries(*"x" * 120), expected=0)
        readers = [store.newest_first(ONE) for _ in range(20)]
        for reading in readers:
            next(reading)
        with psycopg.connect(postgres) as connection:
            states = connection.execute(
                "SELECT DISTINCT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()

    assert states == [("idle",)]


def test_lost_connections_are_replaced(postgres: str) -> None:
    """B13: after the server has ended every connection, the next append gets a new one."""
    with PostgresStore(postgres) as store:
        store.append(ONE, user_entries("a"), expected=0)
        _end_every_connection(postgres)
        assert store.append(ONE, user_entries("b", prefix="n"), expected=1) == 2


def test_lock_is_free_before_its_connection_is_closed(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B14: who asks right after a holder gets the lock, though the server hears of a closed connection only later."""
    unheard: list[psycopg.Connection[object]] = []
    with PostgresStore(postgres) as store:
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "close", lambda connection: unheard.append(connection))
            with store.hold(ONE) as first:
                pass
            with store.hold(ONE) as second:
                pass
        assert (first, second, len(unheard)) == (True, True, 2)
    for connection in unheard:
        connection.close()


def test_holder_whose_connection_broke_goes_on(postgres: str) -> None:
    """B13: a lock that ended with its connection needs no giving back, and the next one gets it."""
    with PostgresStore(postgres) as store:
        with store.hold(ONE) as first:
            _end_every_connection(postgres)
        with store.hold(ONE) as second:
            assert (first, second) == (True, True)


def test_rolled_back_transaction_is_tried_again(postgres: str) -> None:
    """B14: what the server rolled back in favour of another is tried again; what keeps failing is told."""
    tries = 0

    def act(connection: object) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise psycopg.errors.SerializationFailure("try again")
        return tries

    def always(connection: object) -> int:
        raise psycopg.errors.DeadlockDetected("try again")

    with PostgresStore(postgres) as store:
        assert store._write(act) == 3
        with pytest.raises(StoreBroken):
            store._write(always)


def test_newer_schema_is_refused(postgres: str) -> None:
    """A database that a newer infold has changed is not touched."""
    PostgresStore(postgres).close()
    with psycopg.connect(postgres) as connection:
        connection.execute("INSERT INTO infold_migrations VALUES (999, 'later', 0)")
    with pytest.raises(StoreBroken, match="upgrade infold"):
        PostgresStore(postgres)


def test_tables_of_another_program_are_refused(postgres: str) -> None:
    """A table of the same name that infold did not make is not written to."""
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE infold_sessions (x int)")
    with pytest.raises(StoreBroken, match="not infold's"):
        PostgresStore(postgres)


def test_lost_tables_are_told(postgres: str) -> None:
    """B13: an append to a database whose tables were dropped is refused with what to do, not tried for ever."""
    with PostgresStore(postgres) as store:
        with psycopg.connect(postgres) as connection:
            connection.execute("DROP TABLE infold_entries")
        with pytest.raises(StoreBroken, match="not infold's"):
            store.append(ONE, user_entries("a"), expected=0)


def test_closing_twice_is_closing_once(postgres: str) -> None:
    """A closed store stays closed and says so when it is used."""
    store = PostgresStore(postgres)
    store.append(ONE, user_entries("a"), expected=0)
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.append(ONE, user_entries("b"), expected=1)


def test_unreachable_server_is_told_without_the_password() -> None:
    """A server that is not there is reported with the remedy; the password is not shown, nor in a string that is broken."""
    with pytest.raises(StoreBroken, match=r"cannot be reached.*; see that the server runs") as caught:
        PostgresStore("postgresql://ada:secret@127.0.0.1:1/kites")
    with pytest.raises(StoreBroken, match="connection string") as broken:
        PostgresStore("password:secret")

    assert "kites at 127.0.0.1" in str(caught.value)
    for error in (caught.value, broken.value):
        assert "secret" not in f"{error} {error.__cause__}"
    assert database_name("dbname=kites") == "PostgreSQL database kites at this machine"


def test_every_error_of_the_server_is_told() -> None:
    """Each error class that psycopg has becomes a `StoreBroken` that ends with a remedy."""
    found = [
        kind for kind in vars(psycopg.errors).values() if isinstance(kind, type) and issubclass(kind, psycopg.Error)
    ]

    assert len(found) > 200
    assert len({code for code, _, _ in REMEDIES}) == len(REMEDIES)
    for kind in found:
        with pytest.raises(StoreBroken, match=r"; .+$"), translate_errors("db"):
            raise kind("refused")


def _end_every_connection(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.parametrize(
    "damage", ["DELETE FROM infold_entries WHERE sequence = 1", "UPDATE infold_sessions SET next_sequence = 7"]
)
def test_a_gap_in_a_session_is_told(postgres: str, damage: str) -> None:
    """B13: a missing entry or a wrong count is an error that names the entry."""
    with PostgresStore(postgres) as store:
        store.append(ONE, user_entries("a", "b", "c"), expected=0)
        with psycopg.connect(postgres) as connection:
            connection.execute(damage.encode())
        with pytest.raises(StoreBroken, match=r"entry [16] of session 'one' is missing"):
            list(store.newest_first(ONE))
