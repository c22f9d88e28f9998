"""From a file's tables to layers: what each name means there, and what may not stand in a file.

Refused are names that no key has, secrets, and in a file that belongs to a project every key but those that a stranger may
set: a cloned project must not choose models, servers, stores or plugins, delete sessions, or let commands run unasked.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from infold.errors import SettingsError
from infold.settings.kinds import PLACE
from infold.settings.layers import Layer, Stated, Written, agreed, read_value
from infold.settings.schema import ALIASES, BY_NAME, KEYS, MISSPELT, Key, key_named, nearest, variable_of
from infold.settings.sources import Source
from infold.settings.values import Value, has_password

SECRET = re.compile(r"(?:^|[._-])(?:api_?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
"""How the name of a secret ends."""

_EXAMPLES = {"model": '[models."claude-*"]', "agent": "[agents.reviewer]"}


def file_layers(source: Source, *, home: str = "") -> tuple[Layer, ...]:
    """The layers of a file: its general values, then one for each table of a model or an agent.

    `home` is what `~` stands for in a store's path; any other relative path is seen from the file. Raises `SettingsError`.
    """
    general = {name: value for name, value in source.table.items() if name not in ("models", "agents")}
    return (
        Layer("general", _Reader(source, home).values(general), of_project=source.found),
        *_tables("model", source, home),
        *_tables("agent", source, home),
    )


def _tables(scope: Literal["model", "agent"], source: Source, home: str) -> Iterator[Layer]:
    title = f"{scope}s"
    tables = source.table.get(title, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        remedy = f"write a heading such as {_EXAMPLES[scope]}"
        raise SettingsError(title, "it does not hold tables", where=str(source.path), remedy=remedy)
    for name, table in tables.items():
        heading = name if re.fullmatch(r"[\w-]+", name) else f'"{name}"'
        values = _Reader(source, home, f"[{title}.{heading}]").values(table)
        yield Layer(scope, values, name, of_project=source.found)


class _Reader(Struct, frozen=True):
    """Reads one table of a file; `heading` is empty for the general values."""

    source: Source
    home: str
    heading: str = ""

    @property
    def place(self) -> str:
        return f"{self.source.path} {self.heading}".strip()

    def values(self, table: Mapping[str, object]) -> Mapping[str, Stated]:
        return agreed(self._written(name, raw) for name, raw in _leaves(table))

    def _written(self, name: str, raw: object) -> Written:
        key = key_named(name)
        if key is None or (self.heading and not key.per_session):
            raise self._refused(name, key)
        value = read_value(key, raw, name=name, where=self.place)
        self._check_trust(name, key, value)
        if key.kind is PLACE:
            value = self._located(str(value))
        if name in ALIASES:
            return Written(self.place, key.name, name, Stated(value, f"{self.place} (alias {name})"))
        return Written(self.place, name, name, Stated(value, self.place))

    def _refused(self, name: str, key: Key | None) -> SettingsError:
        if key is not None:
            problem, remedy = "it cannot differ by model or agent", "move it above the tables of models and agents"
        elif _is_section(name):
            problem, remedy = "it is a table of settings, not a value", f"write its keys under [{name}]"
        elif SECRET.search(name) and not nearest(name, self._known(), likeness=MISSPELT):
            problem, remedy = "secrets are not read from files", "put it in the environment and remove it here"
        else:
            meant = nearest(name, self._known())
            problem = "there is no such setting" + (f"; the nearest is {meant}" if meant else "")
            remedy = "mend the name or remove the line ('infold config' lists all settings)"
        return SettingsError(name, problem, where=self.place, remedy=remedy)

    def _known(self) -> list[str]:
        return [*(key.name for key in KEYS if key.per_session or not self.heading), *ALIASES]

    def _check_trust(self, name: str, key: Key, value: Value) -> None:
        if has_password(value):
            problem = "it holds a password, and secrets are not read from files"
            remedy = f"put it in the environment ({variable_of(name)}) and remove it here"
            raise SettingsError(name, problem, where=self.place, remedy=remedy)
        if self.source.found and not key.per_project:
            problem = f"a file that belongs to a project cannot set it, because {_danger_of(key)}"
            remedy = f"move it to your own file of settings (~/.config/infold/config.toml) or to {variable_of(name)}"
            raise SettingsError(name, problem, where=self.place, remedy=remedy)

    def _located(self, place: str) -> str:
        """A store's path seen from the file that names it."""
        if place == "memory" or "://" in place:
            return place
        path = place.removeprefix("sqlite:")
        if path.startswith("~/") and self.home:
            return str(Path(self.home, path[2:]))
        return str(self.source.path.absolute().parent / path)


def _leaves(table: Mapping[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _is_section(name: str) -> bool:
    return name == "upstreams" or any(known.startswith(f"{name}.") for known in BY_NAME)


_DANGERS = {
    "permissions.allow": "it decides what an agent does unasked",
    "model": "it decides which model is asked and paid",
    "compaction.model": "it decides which model is asked and paid",
    "store": "it decides where sessions are kept",
    "store_limits": "it deletes sessions",
    "plugins": "it decides which plugins run",
    "agent": "it decides how far the agent goes and what is kept of its work",
    "gateway": "it decides which servers are used",
    "upstreams": "it decides which servers are used",
}


def _danger_of(key: Key) -> str:
    """Why a stranger may not set a key."""
    return _DANGERS.get(key.name) or _DANGERS[key.name.partition(".")[0]]
