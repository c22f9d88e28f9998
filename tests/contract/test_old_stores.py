"""Databases that earlier versions wrote: what the public names read in them stays what it was.

`tests/data/stores` has one file for each schema. `write_old_stores.py` made them, and what was read in them, when schema 4 was
current; a later schema adds a file and changes none. Replies to searches are those of the present ranking.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_wire import KINDS, PROVIDERS
from tests.support.provider_rules import problems
from tests.support.working_agent import handles_in

from infold import Session, SessionSettings, open_store, preset
from infold.formats.registry import format_named

from .old_stores import DATA, EXPECTED, HISTORIES, read_store


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Return what was read when the files were written."""
    found: dict[str, Any] = json.loads(EXPECTED.read_text("utf-8"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("schema", [4, 5, 6])
def test_a_stored_session_is_read_as_it_was_written(schema: int, expected: dict[str, Any], tmp_path: Path) -> None:
    """Sessions, entries, exports, recall, media and the next request of a database of schema 4 to 6 are as they were."""
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "name"),
    [(1, "openai-chat"), *((schema, name) for schema in (4, 6) for name in ("openai-chat", "anthropic-messages"))],
)
def test_an_old_session_goes_on_with_kept_steps(schema: int, name: str, tmp_path: Path) -> None:
    """B40, B52: a session of an older database, whose checkpoints have no kept steps, is continued: its next folds keep some, in
    what it held before too, their handles bring back what was stored, and another process has the same view."""
    path = tmp_path / "sessions.db"
    path.write_bytes(gzip.decompress((DATA / f"schema-{schema}.sqlite3.gz").read_bytes()))
    history = json.loads(gzip.decompress(HISTORIES.read_bytes()))[name]
    with open_store(str(path)) as store:
        settings = SessionSettings(
            window=8_000, policy=preset("infold").with_memory(0.3), format=name, recall=True, environ={}
        )
        session, items = Session(store, name, settings), list(history["items"])
        before, stored = session.log.checkpoint_sequence, session.log.next_sequence
        assert not session.log.steps
        handles: set[str] = set()
        kept: set[int] = set()
        for number in range(12):
            assert problems(format_named(name), session.prepare(items).messages) == ()
            kept.update(one.sequence for one in session.log.steps)
            handles.update(handle for step in session.log.steps for _, handle in handles_in(step))
            items += _run(name, number)
        session.prepare(items)

        assert session.log.checkpoint_sequence > before
        assert any(number < stored for number in kept)
        assert handles
        assert all(session.recall(handle) for handle in handles)
        assert Session(store, name, settings).view(items) == session.view(items)


def _run(name: str, number: int) -> list[Any]:
    """Return the items of a command and its output."""
    provider, work = PROVIDERS[name](), KINDS["runs"](number)
    body = provider.reply(number, work, [provider.user("Go on.")])
    return [*provider.wire.reply_items(body), *provider.results(number, work)]
