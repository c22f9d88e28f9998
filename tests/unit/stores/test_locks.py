"""Locks beside the database file."""

import stat
from pathlib import Path

from infold.core.messages import SessionId
from infold.ports import SessionKey
from infold.stores.sqlite_file import hold_lock, lock_path
from infold.testing.store_contract import FOREIGN, ONE, TWO


def test_lock_file_is_the_owners_and_goes(tmp_path: Path) -> None:
    """A held session has a file for its owner alone beside the database; nothing is left of it afterwards."""
    path = lock_path(tmp_path / "a.db", ONE)
    with hold_lock(path) as held:
        assert held
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []


def test_every_session_has_its_own_lock() -> None:
    """B28: tenants and ids are told apart, and nothing of an id shows in a file's name."""
    keys = (ONE, TWO, FOREIGN, SessionKey("a", SessionId("bc")), SessionKey("ab", SessionId("c")))
    paths = {lock_path(Path("a.db"), key) for key in keys}

    assert len(paths) == len(keys)
    assert not any("one" in path.name or "tenant" in path.name for path in paths)


def test_two_ways_to_one_file_are_one_lock(tmp_path: Path) -> None:
    """B14: a session is held once, by whatever path the database was opened."""
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    with hold_lock(tmp_path / "x") as first, hold_lock(tmp_path / "link" / "x") as second:
        assert (first, second) == (True, False)


def test_left_over_file_is_taken_over(tmp_path: Path) -> None:
    """B13: the file that a killed process left behind does not keep anyone out."""
    path = tmp_path / "x"
    path.touch()
    with hold_lock(path) as held:
        assert held
    assert not path.exists()
