"""The project's own files, as the architecture tests read them."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["PROJECT", "Source", "modules"]

PROJECT = Path(__file__).parents[2]


class Source(NamedTuple):
    """A module of the package: its dotted name, where it is, its text, and whether it is an `__init__.py`."""

    name: str
    path: Path
    text: str
    package: bool


@cache
def modules() -> tuple[Source, ...]:
    """Every module under `src/infold`, in order of name."""
    return tuple(_source(path) for path in sorted((PROJECT / "src" / "infold").rglob("*.py")))


def _source(path: Path) -> Source:
    parts = path.relative_to(PROJECT / "src").with_suffix("").parts
    package = parts[-1] == "__init__"
    return Source(".".join(parts[:-1] if package else parts), path, path.read_text("utf-8"), package)
