"""`infold undo` takes a compaction back."""

import json
from pathlib import Path

import pytest

from infold.core.entries import Checkpoint

from .stored_sessions import KITE, infold, keep, kite_entries


@pytest.mark.slow
def test_the_newest_compaction_is_undone(tmp_path: Path) -> None:
    """B1, B20: what was folded is in the view again, and the log keeps both the compaction and its undoing."""
    keep(tmp_path, {KITE: kite_entries()})
    told = infold(tmp_path, "undo", "last")

    assert told.exit_code == 0
    assert told.stdout.startswith(f"undone: entry 6 of {KITE}; its view is ")
    assert "Paint the **kite** red" in infold(tmp_path, "show", KITE).stdout
    assert "[9] entry 6 undone" in infold(tmp_path, "show", KITE, "--all").stdout


def test_an_entry_can_be_named(tmp_path: Path) -> None:
    """B20: a pruning is undone by its number."""
    keep(tmp_path, {KITE: kite_entries()[:6]})
    page = json.loads(infold(tmp_path, "undo", KITE, "--entry", 5, "--json").stdout)

    assert (page["session"], page["entry"]) == (KITE, 5)
    assert page["tokens"] > 0


def test_only_the_newest_compaction_is_undone(tmp_path: Path) -> None:
    """An older one is refused, with the number of the newest; where that was undone, there is none."""
    keep(tmp_path, {KITE: [*kite_entries(), Checkpoint("Kites.", tokens_before=500, tokens_after=90)]})
    told = infold(tmp_path, "undo", KITE, "--entry", 6)
    undone = [infold(tmp_path, "undo", KITE) for _ in range(2)]

    why = "Error: entry 6 cannot be undone; only the newest compaction can,"
    assert (told.exit_code, told.stderr) == (1, f"{why} which is 9\n")
    assert [one.stdout.split()[2] for one in undone] == ["9", "6"]
    assert infold(tmp_path, "undo", KITE, "--entry", 6).stderr == f"{why} and there is none now\n"


def test_nothing_to_undo_is_told(tmp_path: Path) -> None:
    """A session that was never compacted, and an entry that hides nothing, are one-line errors."""
    keep(tmp_path, {KITE: kite_entries()[:3]})
    told = infold(tmp_path, "undo", KITE)

    assert (told.exit_code, told.stderr) == (1, "Error: there is no compaction to undo\n")
    assert "Error: entry 1 hides nothing now" in infold(tmp_path, "undo", KITE, "--entry", 1).stderr
