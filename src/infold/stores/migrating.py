"""The numbered changes that make a database what this version expects, and which of them are still to be made.

Each database has a folder of its own under `migrations/`, with files named `0001_what_it_does.sql`. A file that was released
is never edited; a change is a further file. Which were applied is recorded in a table of the database itself.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from msgspec import Struct

from infold.errors import StoreBroken

_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(Struct, frozen=True):
    """One change of a database's tables."""

    number: int
    name: str
    sql: str


@cache
def migrations_for(database: str) -> tuple[Migration, ...]:
    """Every change for that kind of database, in order."""
    folder = files("infold.stores").joinpath("migrations", database)
    named = ((path, _NAME.fullmatch(path.name)) for path in sorted(folder.iterdir(), key=lambda path: path.name))
    return tuple(Migration(int(found[1]), found[2], path.read_text("utf-8")) for path, found in named if found)


def outstanding(known: Sequence[Migration], applied: Sequence[tuple[int, str]], where: str) -> tuple[Migration, ...]:
    """The changes still to be made; raises `StoreBroken` where those that were made are not ours, or newer."""
    ours = [(migration.number, migration.name) for migration in known]
    if list(applied[: len(ours)]) != ours[: len(applied)]:
        raise StoreBroken(where, "its tables were made by another program", remedy="name a database of infold's own")
    if len(applied) > len(ours):
        raise StoreBroken(
            where,
            f"its tables are of schema {applied[-1][0]}, and this version of infold knows {len(ours)}",
            remedy="upgrade infold, or use the version that wrote it",
        )
    return tuple(known[len(applied) :])
