"""The stores under test, each opened empty."""

from collections.abc import Iterator

import pytest

from .postgres_server import database, postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL server, started once."""
    with postgres_server() as address:
        yield address


@pytest.fixture
def postgres(server: str) -> Iterator[str]:
    """An empty PostgreSQL database."""
    with database(server) as address:
        yield address
