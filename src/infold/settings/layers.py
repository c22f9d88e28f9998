"""What one source says: values by key, each with its origin, and no two names of a key that contradict each other.

Which layer wins over which is decided in `terms.py`.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from infold.errors import SettingsError
from infold.settings.schema import Key
from infold.settings.values import Value, told

Scope: TypeAlias = Literal["general", "model", "agent", "environment", "command", "switch"]
"""For whom a layer holds: for all, models of a name, one agent, this process, one command, or as a switch that beats all."""


class Stated(Struct, frozen=True):
    """A value that somebody stated, and where."""

    value: Value
    origin: str


class Layer(Struct, frozen=True):
    """What one table, or the environment, says by key; `name` is the pattern or the agent that a table holds for.

    `of_project`: the table stands in a project's file.
    """

    scope: Scope
    values: Mapping[str, Stated]
    name: str = ""
    of_project: bool = False


class Written(Struct, frozen=True):
    """A setting as it was written: in which source, for which key, under which of its names."""

    source: str
    key: str
    name: str
    stated: Stated


def read_value(key: Key, raw: object, *, name: str, where: str) -> Value:
    """A raw value as the key's kind reads it; raises `SettingsError` with where it stands and what to give."""
    try:
        return key.kind.read(raw)
    except ValueError as error:
        raise SettingsError(name, str(error), where=where, remedy=key.kind.remedy) from error


def agreed(written: Iterable[Written]) -> Mapping[str, Stated]:
    """The values of one source by key; raises `SettingsError` where two names of a key say different things (S8.1)."""
    first: dict[str, Written] = {}
    for one in written:
        other = first.setdefault(one.key, one)
        if other.stated.value != one.stated.value:
            raise _contradiction(other, one)
    return {key: one.stated for key, one in first.items()}


def _contradiction(one: Written, other: Written) -> SettingsError:
    said = " and ".join(f"{each.name} is {told(each.stated.value) or 'unset'}" for each in (one, other))
    problem = f"{said}, but both are the same setting"
    return SettingsError(one.key, problem, where=one.source, remedy="keep one of the two, or make them equal")
