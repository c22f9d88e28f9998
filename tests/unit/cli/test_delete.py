"""`infold delete` removes sessions for good."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infold.cli.main import main
from infold.core.entries import Title
from infold.stores.sqlite import SqliteStore

from .stored_sessions import KITE, damage, environ_of, infold, keep, kite_entries

BOAT = "20260106-boat"


def ids(place: Path, tenant: str = "") -> list[str]:
    """The sessions that are there."""
    with SqliteStore(place) as store:
        return sorted(one.key.session_id for one in store.sessions(tenant))


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who can be asked."""
    monkeypatch.setattr("infold.cli.options.can_ask", lambda _: True)


def answered(home: Path, answer: str) -> Result:
    """The command's outcome where the kite is to be deleted and a person answers so."""
    return CliRunner().invoke(main, ["delete", KITE], input=answer, env=environ_of(home))


def test_a_session_is_deleted(tmp_path: Path) -> None:
    """B27: nothing of it is left, and the others stay."""
    place = keep(tmp_path, {KITE: kite_entries(), BOAT: kite_entries()})
    told = infold(tmp_path, "delete", "20260105", "--yes")

    assert (told.exit_code, told.stdout) == (0, f"deleted: {KITE}\n")
    assert ids(place) == [BOAT]
    assert "there is no session" in infold(tmp_path, "show", KITE).stderr


def test_last_is_one_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B27: no session of another folder is deleted by `last`, nor one whose folder is not known; the error names the last."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    place = keep(tmp_path, {"unknown": kite_entries(), BOAT: kite_entries(root=elsewhere)})
    refused = infold(tmp_path, "delete", "last", "--yes")
    left = ids(place)
    keep(tmp_path, {KITE: kite_entries(root=here)})
    done = infold(tmp_path, "delete", "last", "--yes")

    assert (refused.exit_code, left) == (1, [BOAT, "unknown"])
    assert refused.stderr == (
        "Error: no session belongs to this folder, so `last` names none here; the last of all is "
        f"{BOAT}, of {elsewhere}; give its id if you mean that one\n"
    )
    assert (done.exit_code, ids(place)) == (0, [BOAT, "unknown"])


@pytest.mark.usefixtures("person")
def test_a_person_is_asked_first(tmp_path: Path) -> None:
    """B27: what would go is shown by its title; without a yes it stays."""
    place = keep(tmp_path, {KITE: [*kite_entries(), Title("Paint the kite")]})
    declined = answered(tmp_path, "n\n")
    kept = ids(place)
    agreed = answered(tmp_path, "y\n")

    assert (declined.exit_code, kept) == (1, [KITE])
    assert f"{KITE}  Paint the kite  (" in declined.stderr
    assert "Delete it for good?" in declined.stderr
    assert (agreed.exit_code, ids(place)) == (0, [])


def test_a_script_has_to_say_so(tmp_path: Path) -> None:
    """B27: where nobody can be asked nothing is deleted, and the error says what to add."""
    place = keep(tmp_path, {KITE: kite_entries()})
    told = infold(tmp_path, "delete", KITE)

    assert told.exit_code == 1
    assert told.stderr == f"Error: cannot ask without a terminal; to delete {KITE} for good, add --yes\n"
    assert ids(place) == [KITE]


def test_an_empty_id_deletes_nothing(tmp_path: Path) -> None:
    """B27: a script whose variable is not set does not lose the only session there is."""
    place = keep(tmp_path, {KITE: kite_entries()})

    assert infold(tmp_path, "delete", "", "--yes").exit_code == 1
    assert ids(place) == [KITE]


def test_all_are_found_before_one_goes(tmp_path: Path) -> None:
    """B27: a slip in one of several ids deletes nothing; the same session named twice is one."""
    place = keep(tmp_path, {KITE: kite_entries(), BOAT: kite_entries()})
    slip = infold(tmp_path, "delete", KITE, "nope", "--yes")
    kept = ids(place)
    both = infold(tmp_path, "delete", KITE, BOAT, "20260105", "--yes", "--json")

    assert (slip.exit_code, kept) == (1, [KITE, BOAT])
    assert json.loads(both.stdout) == {"deleted": [KITE, BOAT]}
    assert ids(place) == []


def test_another_tenants_session_stays(tmp_path: Path) -> None:
    """B28: of two sessions with one id the one goes whose tenant is named."""
    place = keep(tmp_path, {KITE: kite_entries()}, tenant="ada")
    keep(tmp_path, {KITE: kite_entries()}, tenant="bob")
    unclear = infold(tmp_path, "delete", KITE, "--yes")
    told = infold(tmp_path, "delete", KITE, "--yes", "--tenant", "ada")

    assert "choose one with --tenant" in unclear.stderr
    assert (told.exit_code, ids(place, "ada"), ids(place, "bob")) == (0, [], [KITE])


@pytest.mark.usefixtures("person")
def test_what_cannot_be_read_can_be_deleted(tmp_path: Path) -> None:
    """B27: a damaged session is shown without its title."""
    place = keep(tmp_path, {KITE: kite_entries()})
    damage(place, KITE)

    assert answered(tmp_path, "y\n").exit_code == 0
    assert ids(place) == []
