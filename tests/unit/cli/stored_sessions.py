"""Stores in files for the verbs on stored sessions: a session with a compaction, a title and snapshots of a real folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from click.testing import CliRunner, Result
from msgspec.structs import replace

from infold.agent.snapshots import Snapshots
from infold.agent.trust import default_snapshot_folder, default_store
from infold.cli.main import main
from infold.core.cut import Cut
from infold.core.entries import Checkpoint, Entry, MessageEntry, Pruning, Title, handle_of
from infold.core.kept_steps import OldSteps
from infold.core.ledger import EXCERPTS
from infold.core.log import Log
from infold.core.messages import (
    Message,
    ModelRef,
    Part,
    SessionId,
    StepFinishPart,
    StepStartPart,
    Usage,
    UserMessage,
    WorkPath,
)
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import calls, numbered, replies, result, user

__all__ = ["KITE", "damage", "environ_of", "folded_entries", "infold", "keep", "kite_entries", "painted"]

KITE = "20260105-kite"
BEGUN_MS = 1_767_607_200_000
OUTPUT = "\n".join(f"line {number}" for number in range(20))


def environ_of(home: Path) -> dict[str, str | None]:
    """A user's environment with nothing set but a home; what is none is taken away."""
    return {"HOME": str(home), "XDG_DATA_HOME": None, "INFOLD_STORE": None, "COLUMNS": "160", "TERM": "dumb"}


def infold(home: Path, *words: object) -> Result:
    """The command's outcome for that user."""
    return CliRunner().invoke(main, list(map(str, words)), env=environ_of(home))


def keep(home: Path, sessions: Mapping[str, Sequence[Entry]], *, tenant: str = "", place: Path | None = None) -> Path:
    """Sessions in the user's own store, or in another; gives where that is."""
    path = place or Path(default_store({"HOME": str(home)}))
    path.parent.mkdir(parents=True, exist_ok=True)
    with SqliteStore(path) as store:
        for name, entries in sessions.items():
            store.append(SessionKey(tenant, SessionId(name)), entries, expected=0)
    return path


def damage(place: Path, name: str) -> None:
    """Write nonsense over an entry of that session."""
    with SqliteStore(place) as store, store._connections.here().reading() as connection:
        (number,) = connection.execute("SELECT number FROM sessions WHERE id = ?", (name,)).fetchone()
        connection.execute("UPDATE entries SET stored = 'nonsense' WHERE session = ? AND sequence = 4", (number,))
        connection.commit()


def kite_entries(*, root: Path | None = None, before: str = "", after: str = "") -> list[Entry]:
    """A turn that was folded, with a pruned result before that; then a turn that was not."""
    where = None if root is None else WorkPath(str(root), str(root))
    call = replace(
        _marked(calls("bash", arguments='{"command":"make kite"}'), StepStartPart(before)),
        path=where,
        model=ModelRef("openai", "gpt-5"),
        usage=Usage(1_200, 50),
        cost=0.0123,
    )
    said = _said(
        user("Paint the **kite** red. Never touch vendor/."),
        call,
        _marked(result(output=OUTPUT), StepFinishPart("tool-calls", after)),
        replies("Painted it.", reasoning="hmm\nwell\nso\nred"),
        user("And the string?"),
        _marked(replies("Blue."), StepStartPart(after), StepFinishPart("stop", after)),
    )
    fold = Checkpoint("A red kite was wanted.", tokens_before=9_000, tokens_after=400)
    return [said[0], Title("Paint the kite"), *said[1:4], Pruning((handle_of(3, 0),), 300), fold, *said[4:]]


def folded_entries() -> list[Entry]:
    """Three commands, of which a fold kept two in their own form."""
    commands = (f'{{"command": "make part-{number}"}}' for number in range(3))
    steps = (part for command in commands for part in (calls("bash", arguments=command), result(output=OUTPUT)))
    entries = _said(user("Paint the kite."), *steps, user("And the string?"))
    log = Log(SessionId(KITE)).extend(entries)
    kept = OldSteps(log, Cut.at(log, 7)).keep(90).steps
    return [*entries, Checkpoint(f"A red kite was wanted.\n\n{EXCERPTS}", first_kept=7, steps=kept)]


def painted(home: Path) -> Path:
    """The user's store with that session, and snapshots of a folder in which it changed two files; gives the folder."""
    root = home / "project"
    root.mkdir(parents=True)
    snapshots = Snapshots(root, default_snapshot_folder({"HOME": str(home)}))
    (root / "kite.py").write_text("one\n")
    before = snapshots.take()
    (root / "kite.py").write_text("one\ntwo\tred\n")
    (root / "kite.png").write_bytes(b"\0\1" * 99)
    keep(home, {KITE: kite_entries(root=root, before=before, after=snapshots.take())})
    return root


def _marked(message: Message, *parts: Part) -> Message:
    return replace(message, parts=(*message.parts, *parts))


def _said(*drafts: Message) -> list[Entry]:
    messages = enumerate(numbered(drafts))
    return [MessageEntry(_timed(message, BEGUN_MS + 1_000 * number)) for number, message in messages]


def _timed(message: Message, created_ms: int) -> Message:
    agent = {"agent": "build"} if isinstance(message, UserMessage) else {}
    return replace(message, created_ms=created_ms, **agent)
