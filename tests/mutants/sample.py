"""The sample of mutants, and where each one is in today's source."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .fast import SOURCE
from .statements import Anchor, Found, Missing, Names, Tree

FOLDER = Path(__file__).parent
SAMPLE = FOLDER / "sample.toml"
NAMES = FOLDER / "names.toml"


@dataclass(frozen=True)
class Mutant:
    """One mutant of the sample."""

    id: str
    operator: str
    anchor: Anchor
    replacement: str


def read_sample() -> list[Mutant]:
    """Read the mutants."""
    return [
        Mutant(
            id=one["id"],
            operator=one["operator"],
            anchor=Anchor(one["line"], tuple(one["before"]), tuple(one["after"]), one["function"], one["file"]),
            replacement=one["replacement"],
        )
        for one in tomllib.loads(SAMPLE.read_text("utf-8"))["mutant"]
    ]


def read_names(path: Path) -> Names:
    """Read a rename map: `old = "new"`, or `old = ["new", "other"]` where one name became several."""
    names = tomllib.loads(path.read_text("utf-8")).get("names", {})
    return {old: frozenset([new] if isinstance(new, str) else new) for old, new in names.items()}


def locate(mutants: Sequence[Mutant], names: Names) -> dict[str, Found | Missing]:
    """Find the statement of each mutant in today's source."""
    tree = Tree(SOURCE / "infold")
    return {mutant.id: tree.locate(mutant.anchor, names) for mutant in mutants}
