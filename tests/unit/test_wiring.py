"""A place in, a store out."""

from pathlib import Path

import pytest

from infold.errors import UsageError
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.wiring import open_store


def test_a_place_names_its_store(tmp_path: Path) -> None:
    """B27: memory by its name, a file by its path."""
    file = open_store(f"sqlite:{tmp_path / 'a.sqlite3'}")
    assert isinstance(file, SqliteStore)
    file.close()

    assert isinstance(open_store("memory"), MemoryStore)
    assert (tmp_path / "a.sqlite3").exists()


def test_no_place_is_told() -> None:
    """An empty place is answered with what may stand there."""
    with pytest.raises(UsageError, match="give 'memory'"):
        open_store("")
