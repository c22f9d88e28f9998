"""The transcripts that promises are tested over: invented ones of every clone, and real ones where they are at hand.

The invented ones are in `tests/data`. The real ones are found by `INFOLD_CORPUS` or beside the repository; their cases carry the
marker `corpus` and run in `make test-all`.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

DATA = Path(__file__).parents[1] / "data"
INVENTED = DATA / "corpus"
REAL = Path(os.environ.get("INFOLD_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")

Entry = dict[str, Any]
"""A line of a manifest; `path` is added here."""


def entries_of(folder: Path) -> list[Entry]:
    """Return the transcripts of `INVENTED` or `REAL`; none where the folder is missing."""
    manifest = folder / "MANIFEST.json"
    listed = json.loads(manifest.read_text("utf-8")) if manifest.is_file() else []
    return [entry | {"path": folder / entry["file"]} for entry in listed]


def each_entry(wanted: Callable[[Entry], bool] = lambda _: True) -> pytest.MarkDecorator:
    """Run a test for each transcript, as `entry`."""
    invented = [pytest.param(entry, id=entry["file"]) for entry in entries_of(INVENTED) if wanted(entry)]
    return pytest.mark.parametrize("entry", [*invented, *_marked(filter(wanted, entries_of(REAL)))])


def each_transcript() -> pytest.MarkDecorator:
    """Run a test for each transcript as `each_entry` does, and for the short one of each format."""
    short = [{"file": path.name, "fmt": path.name, "path": path} for path in sorted((DATA / "transcripts").iterdir())]
    invented = [pytest.param(entry, id=entry["file"]) for entry in (*short, *entries_of(INVENTED))]
    return pytest.mark.parametrize("entry", [*invented, *_marked(entries_of(REAL))])


def _marked(entries: Iterable[Entry]) -> Iterable[ParameterSet]:
    return (pytest.param(entry, id=entry["file"], marks=pytest.mark.corpus) for entry in entries)


def each_label() -> pytest.MarkDecorator:
    """Run a test for each transcript whose constraints are known, as `label`: `path`, `language`, `constraints`."""
    invented = [pytest.param(entry, id=entry["file"]) for entry in entries_of(INVENTED) if entry["constraints"]]
    return pytest.mark.parametrize("label", [*invented, *_marked(_real_labels())])


def labels(*, real: bool) -> list[Entry]:
    """Return the transcripts whose constraints are known, the invented or the real ones."""
    return _real_labels() if real else [entry for entry in entries_of(INVENTED) if entry["constraints"]]


def _real_labels() -> list[Entry]:
    """Return the real transcripts in which a person has marked the constraints."""
    found: list[Entry] = []
    for file in sorted((DATA / "constraints").glob("*.json")) if REAL.is_dir() else ():
        label = json.loads(file.read_text("utf-8"))
        rules = [rule["text"] for rule in label["constraints"]]
        language = file.stem.rpartition(".")[2] if "." in file.stem else "en"
        found.append(
            {"file": file.stem, "path": REAL / label["transcript"], "language": language, "constraints": rules}
        )
    return found
