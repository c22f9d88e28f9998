"""A place in, a store out; a name in, a summariser out."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.core.summary_request import SummaryRequest
from infold.errors import StoreBroken, UsageError
from infold.ports import SessionKey
from infold.settings import StoreLimits
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import numbered, user
from infold.wiring import DAY_MS, keep_within, open_store, summariser_for

ASKING = """
import sys
sys.modules[{missing!r}] = None
from infold.wiring import summariser_for
try:
    print(summariser_for({model!r}).__self__.__module__)
except Exception as error:
    print(type(error).__name__, error)
"""


def asked(model: str, *, missing: str = "no_such_module", **environment: str) -> str:
    """What a process with that environment says of a summariser by that name."""
    code = ASKING.format(model=model, missing=missing)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return run.stdout


def test_a_place_names_its_store(tmp_path: Path) -> None:
    """B27: memory by its name, a file by its path."""
    file = open_store(f"sqlite:{tmp_path / 'a.sqlite3'}")
    assert isinstance(file, SqliteStore)
    file.close()

    assert isinstance(open_store("memory"), MemoryStore)
    assert (tmp_path / "a.sqlite3").exists()


@pytest.mark.parametrize("place", ["memory", "a.sqlite3"])
def test_a_store_is_closed_whatever_its_place(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may be used in a `with` block and closed, also twice, without asking where it is."""
    monkeypatch.chdir(tmp_path)
    with open_store(place) as store:
        assert store.append(SessionKey("", SessionId("s")), [MessageEntry(*numbered([user()]))], expected=0) == 1
    store.close()

    assert [path.name for path in tmp_path.iterdir()] == ([] if place == "memory" else [place])


def test_a_busy_file_is_waited_for_as_long_as_is_said(tmp_path: Path) -> None:
    """B14: a gateway that fails open must not wait as long as an agent would."""
    place = str(tmp_path / "s.sqlite3")
    open_store(place).close()
    store = open_store(place, busy_seconds=0.05)
    with closing(sqlite3.connect(place)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBroken, match="writing for too long"):
            store.append(SessionKey("", SessionId("s")), [MessageEntry(*numbered([user()]))], expected=0)


def test_no_place_is_told() -> None:
    """An empty place is answered with what may stand there."""
    with pytest.raises(UsageError, match="give 'memory'"):
        open_store("")


def test_a_callable_is_its_own_summariser() -> None:
    """What is no name is given back as it is, and nothing stays nothing."""

    def summarise(request: SummaryRequest) -> str:
        return str(request)

    assert summariser_for(summarise) is summarise
    assert summariser_for(None) is None


@pytest.mark.slow
def test_a_name_chooses_its_provider() -> None:
    """S3.2: Claude is asked through its own SDK, every other model through OpenAI's, at whatever address that is told."""
    claude = asked("anthropic/claude-haiku-4-5", ANTHROPIC_API_KEY="k")
    local = asked("qwen3-8b", OPENAI_API_KEY="k", OPENAI_BASE_URL="http://127.0.0.1:9/v1")

    assert claude.strip() == "infold.models.anthropic"
    assert local.strip() == "infold.models.openai"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "package"), [("claude-haiku-4-5", "anthropic"), ("gpt-4o", "openai")])
def test_a_missing_package_is_told(model: str, package: str) -> None:
    """The error says what to install, or to name another model."""
    told = asked(model, missing=package)

    assert told.startswith(f"UsageError {model} needs {package}")
    assert f"pip install 'infold[{package}]', or name another model" in told


def test_home_is_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is where the user lives, and no folder of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for place in ("~/a.sqlite3", "sqlite:~/b.sqlite3"):
        store = open_store(place)
        assert isinstance(store, SqliteStore)
        store.close()

    assert {path.name for path in tmp_path.glob("*.sqlite3")} == {"a.sqlite3", "b.sqlite3"}
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("place", ["mysql://ada:hidden@h/d", "sqlite:///x.db", "file://x.db", 5])
def test_other_addresses_are_no_stores(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made for an address that no store has, and its password is not shown."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="give 'memory'") as caught:
        open_store(place)

    assert list(tmp_path.iterdir()) == []
    assert "hidden" not in str(caught.value)


class Days:
    """A clock that is set by the day."""

    day = 0

    def now_ms(self) -> int:
        """The beginning of the day."""
        return self.day * DAY_MS


def test_a_store_is_kept_within_its_limits() -> None:
    """B27: by age, then by size, each only where it is set."""
    clock = Days()
    store = MemoryStore(clock)
    said = [MessageEntry(message) for message in numbered([user("fly")])]
    for name in ("old", "new", "newest"):
        store.append(SessionKey("", SessionId(name)), said, expected=0)
        clock.day += 2

    def left(limits: StoreLimits) -> list[str]:
        keep_within(store, limits)
        return [stored.key.session_id for stored in store.sessions("")]

    size = max(stored.stored_bytes for stored in store.sessions(""))
    assert left(StoreLimits(None, None)) == ["newest", "new", "old"]
    assert left(StoreLimits(5, None)) == ["newest", "new"]
    assert left(StoreLimits(5, size)) == ["newest"]
