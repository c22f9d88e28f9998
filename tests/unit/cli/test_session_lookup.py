"""Which store and which session a command line means."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from infold.cli.session_lookup import START_HINT, find_session, note_other_folder, open_existing_store, store_location
from infold.core.entries import Entry, MessageEntry
from infold.core.messages import SessionId, WorkPath
from infold.errors import UsageError
from infold.ports import SessionKey
from infold.reports.listing import newest_sessions
from infold.stores.memory import MemoryStore
from infold.testing.builders import numbered, replies, user

ENTRIES: list[Entry] = [MessageEntry(message) for message in numbered([user("fly")])]


class Ticking:
    """A clock that goes on by a second each time it is read."""

    def __init__(self) -> None:
        self.time_ms = 0

    def now_ms(self) -> int:
        """A second later than before."""
        self.time_ms += 1_000
        return self.time_ms


def store_of(*names: str) -> MemoryStore:
    """A store with these sessions, begun in that order; a tenant stands before a slash."""
    store = MemoryStore(Ticking())
    for name in names:
        tenant, _, session_id = name.rpartition("/")
        store.append(SessionKey(tenant, SessionId(session_id)), ENTRIES, expected=0)
    return store


def chosen(store: MemoryStore, wanted: str, tenant: str | None = None) -> str:
    """The session meant, with its tenant before a slash where it has one."""
    key = find_session(store, wanted, tenant)
    return f"{key.tenant}/{key.session_id}" if key.tenant else key.session_id


def test_a_session_is_named_by_its_id_or_a_beginning() -> None:
    """The whole id wins over a beginning; a beginning must be one session's alone."""
    store = store_of("kite", "kite-2", "boat-1", "boat-2")

    assert chosen(store, "kite") == "kite"
    assert chosen(store, "kite-") == "kite-2"
    with pytest.raises(UsageError, match=r"several sessions begin with 'boat': 'boat-2', 'boat-1'; give more"):
        chosen(store, "boat")


def test_last_is_the_one_that_changed_last() -> None:
    """Of everybody's sessions, or of one tenant's."""
    store = store_of("a/one", "b/two", "a/three", "b/four")

    assert chosen(store, "last") == "b/four"
    assert chosen(store, "last", "a") == "a/three"
    assert [one.key.session_id for one in newest_sessions(store)] == ["four", "three", "two", "one"]


def kept_in(*roots: str) -> MemoryStore:
    """A store with a session for each root, named by its number, begun in that order; an empty root was not recorded."""
    store = MemoryStore(Ticking())
    for number, root in enumerate(roots):
        reply = replace(replies("flown"), path=WorkPath(root, root) if root else None)
        entries = [MessageEntry(message) for message in numbered([user("fly"), reply])]
        store.append(SessionKey("", SessionId(str(number))), entries, expected=0)
    return store


@pytest.mark.parametrize(
    ("roots", "number", "told"),
    [
        (("/kites", "/boats"), "0", ""),
        (("/kites", "", "/boats"), "1", ""),
        (("/boats", "/ships"), "1", "no session belongs to this folder; the last of all is 1, of /ships\n"),
    ],
)
def test_last_is_of_this_folder(
    roots: tuple[str, ...], number: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session that belongs to another project is taken only where there is no other, and then its folder is named."""
    assert find_session(kept_in(*roots), "last", folder=Path("/kites")).session_id == number
    assert capsys.readouterr().err == told


def test_where_a_session_belongs_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """One line where it is another folder, none where it is this one or nobody knows."""
    store = kept_in("/kites", "", "/boats")
    for number in "012":
        note_other_folder(store, SessionKey("", SessionId(number)), Path("/kites"))

    assert capsys.readouterr().err == "session 2 belongs to another folder, /boats\n"


def test_tenants_are_told_apart() -> None:
    """B28: one id of two tenants is asked back; with the tenant it is clear, and another's is not there."""
    store = store_of("a/kite", "b/kite", "b/boat")

    with pytest.raises(UsageError, match="choose one with --tenant"):
        chosen(store, "kite")
    assert chosen(store, "kite", "a") == "a/kite"
    with pytest.raises(UsageError, match="no session 'boat'"):
        chosen(store, "boat", "a")


def test_what_is_not_there_is_told_with_what_is() -> None:
    """A mistyped id names the newest, and so does an empty one; an empty store says how to begin."""
    many = store_of(*(f"s{number}" for number in range(12)))

    with pytest.raises(UsageError, match=r"no session 'kite'; the newest are 's11', .*'s4'; see infold sessions"):
        chosen(many, "kite")
    with pytest.raises(UsageError, match="no session ''; the newest are 'only'"):
        chosen(store_of("only"), "")
    for wanted in ("kite", "last", ""):
        with pytest.raises(UsageError, match="infold run"):
            chosen(MemoryStore(), wanted)


def test_the_store_is_named_set_or_the_users_own(tmp_path: Path) -> None:
    """What is named wins over what is set, and memory counts where either says so; else it is the user's own file."""
    home = {"HOME": str(tmp_path)}
    own = str(tmp_path / ".local" / "share" / "infold" / "sessions.sqlite3")

    assert store_location("here.sqlite3", {**home, "INFOLD_STORE": "there.sqlite3"}) == "here.sqlite3"
    assert store_location(None, {**home, "INFOLD_STORE": "there.sqlite3"}) == "there.sqlite3"
    assert store_location(None, home) == own
    assert store_location("memory", home) == "memory"
    assert store_location(None, {**home, "INFOLD_STORE": "memory"}) == "memory"


def test_a_place_without_a_store_is_refused(tmp_path: Path) -> None:
    """A mistyped path does not become a store, and a store in memory belongs to another process."""
    with pytest.raises(UsageError, match="no store at"), open_existing_store(f"sqlite:{tmp_path}/none.sqlite3"):
        pass
    with pytest.raises(UsageError, match="memory"), open_existing_store("memory"):
        pass
    assert "infold run" in START_HINT
    assert list(tmp_path.iterdir()) == []
