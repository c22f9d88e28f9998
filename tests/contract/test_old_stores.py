"""Databases that earlier versions wrote: what the public names read in them stays what it was.

`tests/data/stores` has one file for each schema. `write_old_stores.py` made them, and what was read in them, when schema 4 was
current; a later schema adds a file and changes none. Replies to searches are those of the present ranking.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from .old_stores import DATA, EXPECTED, read_store


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Return what was read when the files were written."""
    found: dict[str, Any] = json.loads(EXPECTED.read_text("utf-8"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("schema", [4, 5])
def test_a_stored_session_is_read_as_it_was_written(schema: int, expected: dict[str, Any], tmp_path: Path) -> None:
    """Sessions, entries, exports, recall, media and the next request of a database of schema 4 or 5 are as they were."""
    found = read_store(DATA / f"schema-{schema}.sqlite3.gz", tmp_path)

    assert list(found) == list(expected)
    for name, session in expected.items():
        assert found[name] == session, name


@pytest.mark.slow
@pytest.mark.parametrize("schema", [1, 2, 3])
def test_an_older_schema_is_brought_up_to_date(schema: int, expected: dict[str, Any], tmp_path: Path) -> None:
    """B40: a database of an older schema is read and searched like today's, but for what it never had: media."""
    found = read_store(DATA / f"schema-{schema}.sqlite3.gz", tmp_path)

    assert list(found) == [name for name in expected if name in found]
    assert set(found) == {"openai-chat", "ada/shared", "grace/shared"}
    for name, session in found.items():
        assert session.pop("media") == {}
        wanted = {field: value for field, value in expected[name].items() if field != "media"}
        assert session == wanted, name
