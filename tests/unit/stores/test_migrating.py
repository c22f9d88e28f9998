"""Which changes of a database's tables are still to be made."""

import pytest

from infold.errors import StoreBroken
from infold.stores.lifecycle import Migration, migrations_for, pending_migrations

ONE, TWO = Migration(1, "one", "SQL 1"), Migration(2, "two", "SQL 2")


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_migrations_are_numbered_without_gaps(database: str) -> None:
    """Each database's files are numbered from 1 and hold statements."""
    known = migrations_for(database)

    assert [migration.number for migration in known] == list(range(1, len(known) + 1))
    assert all(migration.sql.strip().endswith(";") for migration in known)


def test_databases_have_the_same_changes() -> None:
    """Both databases go through changes of the same names, so that a schema number means one thing."""
    names = [[migration.name for migration in migrations_for(database)] for database in ("sqlite", "postgres")]

    assert names[0] == names[1]


def test_what_was_not_applied_is_outstanding() -> None:
    """Changes are made in order, each once."""
    assert pending_migrations((ONE, TWO), [], "db") == (ONE, TWO)
    assert pending_migrations((ONE, TWO), [(1, "one")], "db") == (TWO,)
    assert pending_migrations((ONE, TWO), [(1, "one"), (2, "two")], "db") == ()


def test_newer_schema_is_refused() -> None:
    """A database that a newer version has changed is not touched, and the message says to upgrade."""
    with pytest.raises(StoreBroken, match=r"schema 3, and this version of infold knows 2; upgrade infold"):
        pending_migrations((ONE, TWO), [(1, "one"), (2, "two"), (3, "three")], "db")


def test_foreign_schema_is_refused() -> None:
    """A database whose record of changes is another program's is not touched."""
    with pytest.raises(StoreBroken, match="another program"):
        pending_migrations((ONE, TWO), [(1, "users")], "db")
