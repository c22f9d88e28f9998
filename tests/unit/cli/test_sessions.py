"""`infold sessions` lists what there is to go on with."""

import json
from pathlib import Path

import pytest
from click import unstyle
from click.testing import CliRunner
from msgspec.structs import replace

from infold.cli.main import main
from infold.core.entries import Entry, MessageEntry, Title
from infold.core.messages import Message, SessionId, Usage
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import numbered, replies, user

from .stored_sessions import KITE, damage, environ_of, infold, keep, kite_entries

SHORT: list[Entry] = [MessageEntry(message) for message in numbered([user("Fly the boat\nor not"), replies("no")])]


def test_a_session_is_a_line(tmp_path: Path) -> None:
    """S6.2: id, title, age, messages, tokens of the view, compactions and cost."""
    keep(tmp_path, {KITE: kite_entries()})
    heading, line, told = infold(tmp_path, "sessions").stdout.splitlines()

    assert heading.split() == ["id", "title", "changed", "messages", "tokens", "compactions", "cost"]
    assert line.split()[:6] == [KITE, "Paint", "the", "kite", "just", "now"]
    assert line.split()[6] == "6"
    assert line.split()[-2:] == ["1", "$0.012"]
    assert told.startswith("1 session; continue with: infold run --session")


@pytest.mark.parametrize("columns", [44, 60, 80, 100])
def test_a_narrow_terminal_cuts_titles_alone(tmp_path: Path, columns: int) -> None:
    """Columns are left out where they have no room; ids, tokens and cost stay whole."""
    keep(tmp_path, {KITE: kite_entries()})
    shown = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}
    environ = {**environ_of(tmp_path), **shown}
    heading, line, *_ = unstyle(CliRunner().invoke(main, ["sessions"], env=environ).stdout).splitlines()

    assert KITE in line
    assert "$0.012" in line
    assert {"id", "title", "tokens", "cost"} <= set(heading.split())
    assert ("compactions" in heading) is (columns >= 100)


def test_a_session_has_its_folder(tmp_path: Path) -> None:
    """Where the work was done stands in its line by name, if there is room, and in JSON by its whole path."""
    keep(tmp_path, {KITE: kite_entries(root=tmp_path / "kites"), "boat": SHORT})
    heading, boat, kite, _ = infold(tmp_path, "sessions").stdout.splitlines()
    narrow = CliRunner().invoke(main, ["sessions"], env={**environ_of(tmp_path), "COLUMNS": "80", "FORCE_COLOR": "1"})
    page = json.loads(infold(tmp_path, "sessions", "--json").stdout)

    assert heading.split()[:3] == ["id", "title", "folder"]
    assert kite[heading.index("folder") :].startswith("kites ")
    assert boat[heading.index("folder") :].startswith("      ")
    assert [one["folder"] for one in page["sessions"]] == ["", str(tmp_path / "kites")]
    assert "folder" not in narrow.stdout


def test_the_last_changed_is_first(tmp_path: Path) -> None:
    """A session without a title shows its first words; --most bounds the list and says that there are more."""
    keep(tmp_path, {KITE: kite_entries()})
    keep(tmp_path, {"boat": SHORT, "later": [*SHORT, Title("Old"), Title("New")]})
    lines = infold(tmp_path, "sessions").stdout.splitlines()
    fewer = infold(tmp_path, "sessions", "--most", 1).stdout

    assert [line.split()[0] for line in lines[1:-1]] == ["later", "boat", KITE]
    assert "New" in lines[1]
    assert "Fly the boat" in lines[2]
    assert "1 session; more with --most" in fewer


def test_a_store_in_memory_lists_nothing(tmp_path: Path) -> None:
    """Whoever set it is told that no list will ever have their sessions, and not to begin one."""
    told = CliRunner().invoke(main, ["sessions"], env={**environ_of(tmp_path), "INFOLD_STORE": "memory"})

    assert told.exit_code == 1
    assert "a store in memory is visible to its own process only" in told.stderr


def test_json_has_stable_keys(tmp_path: Path) -> None:
    """Every session has the same keys, whatever is known of it."""
    keep(tmp_path, {KITE: kite_entries(), "boat": SHORT})
    page = json.loads(infold(tmp_path, "sessions", "--json").stdout)

    keys = ("id", "tenant", "title", "changed_ms", "entries", "messages", "tokens", "compactions", "cost")

    assert page["has_more"] is False
    assert {tuple(one) for one in page["sessions"]} == {
        (*keys, "model", "is_partial", "problem", "folder", "costs_at_least")
    }
    kite = next(one for one in page["sessions"] if one["id"] == KITE)
    assert (kite["title"], kite["entries"], kite["messages"], kite["compactions"]) == ("Paint the kite", 9, 6, 1)
    assert (kite["cost"], kite["model"]) == (0.0123, "gpt-5")


def test_a_cost_that_is_known_in_part_is_the_least(tmp_path: Path) -> None:
    """Where a reply has no price the sum may be more, and says so as on the page."""
    priced, unpriced = (replace(replies("b"), usage=Usage(900, 100), cost=cost) for cost in (0.01, 0.0))
    keep(tmp_path, {"boat": messages(user("a"), priced, user("c"), unpriced), "kite": messages(user("a"), priced)})
    lines = {line.split()[0]: line for line in infold(tmp_path, "sessions").stdout.splitlines()}

    assert "≥$0.01" in lines["boat"]
    assert "$0.01" in lines["kite"]
    assert "≥" not in lines["kite"]


def messages(*said: Message) -> list[Entry]:
    """A session that says this."""
    return [MessageEntry(message) for message in numbered(said)]


def test_nothing_yet_says_how_to_begin(tmp_path: Path) -> None:
    """Before the first session there is no store, and none is made by looking."""
    told = infold(tmp_path, "sessions")

    assert (told.exit_code, told.stdout) == (0, "")
    assert 'start one with: infold run "' in told.stderr
    assert json.loads(infold(tmp_path, "sessions", "--json").stdout) == {"sessions": [], "has_more": False}
    assert list(tmp_path.iterdir()) == []


def test_another_store_is_named(tmp_path: Path) -> None:
    """--store and --tenant look elsewhere; a store that is not there is an error."""
    place = keep(tmp_path, {"theirs": SHORT}, tenant="ada", place=tmp_path / "gateway.sqlite3")

    assert "theirs" in infold(tmp_path, "sessions", "--store", place).stdout
    assert "no sessions" in infold(tmp_path, "sessions", "--store", place, "--tenant", "bob").stderr
    assert infold(tmp_path, "sessions", "--store", tmp_path / "none").exit_code == 1


@pytest.mark.slow
def test_a_damaged_session_does_not_hide_the_others(tmp_path: Path) -> None:
    """What cannot be read is told in its line."""
    place = keep(tmp_path, {"boat": SHORT, KITE: kite_entries()})
    damage(place, KITE)
    lines = infold(tmp_path, "sessions").stdout.splitlines()

    assert "cannot be read" in lines[1]
    assert "Fly the boat" in lines[2]


def test_a_named_store_is_named_again(tmp_path: Path) -> None:
    """How to go on with a session says where it is, where that is not one's own store."""
    place = tmp_path / "a gateway.sqlite3"
    store = SqliteStore(place)
    store.append(SessionKey("", SessionId("boat")), SHORT, expected=0)
    store.close()

    told = infold(tmp_path, "sessions", "--store", place).stdout.splitlines()[-1]
    assert told == f"1 session; continue with: infold run --session ID --store '{place}'"
