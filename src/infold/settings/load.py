"""Which layers speak for a session, and in what order.

Strongest first: the switches, the command line, the environment, the agent's table, the tables of the model (the longest
pattern first), the general values. Within one of these the later file wins. What nobody states is the default, or the preset's.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from infold.catalogue.spelling import fold, spellings
from infold.core.policy import OPENCODE, PREFIX, SWITCHES, switches_on
from infold.errors import SettingsError
from infold.settings.schema import (
    ALIASES,
    BORROWED,
    BY_NAME,
    KEYS,
    MISSPELT,
    PLACE,
    UPSTREAM,
    Key,
    Value,
    has_password,
    key_named,
    nearest,
    told,
    variable_of,
)

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


PROJECT_FILES = ("infold.toml", "infold.json")
"""The names of a project's own file; of two in one folder the first counts."""


_COMMENT = re.compile(r'("(?:[^"\\]|\\(?s:.)?)*+(?:"|\Z))|//[^\n]*')
"""A text, which is kept, or a comment at the end of a line, which documents put into their JSON."""


class Source(Struct, frozen=True):
    """A file of settings and its table.

    `found`: it is a file of a project, which anyone may have written, so it may hold few keys (`Key.per_project`).
    """

    path: Path
    table: Mapping[str, object]
    found: bool = False


def sources(environ: Mapping[str, str], folder: Path | None) -> tuple[Source, ...]:
    """The files that count, weakest first: the user's, then the project's; or the one that `INFOLD_CONFIG` names.

    Without a folder there is no project.

    Raises `SettingsError` for a file that is named but not there, and for one that cannot be read.
    """
    named = environ.get("INFOLD_CONFIG")
    if named:
        return (Source(Path(named), _table(Path(named))),)
    named_by_user = user_file(environ)
    places = () if named_by_user is None else (named_by_user, named_by_user.with_suffix(".json"))
    own = tuple(Source(path, _table(path)) for path in [path for path in places if path.is_file()][:1])
    return own if folder is None else (*own, *_of_project(folder))


def project_file(folder: Path) -> Path | None:
    """Return the project's file of settings for a folder, whatever it holds; `None` if there is none."""
    return next((path for path in _project_files(folder) if path.name in PROJECT_FILES or _mentions_us(path)), None)


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Where the user's file would be; none where the environment knows no home."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        return base / "infold" / "config.toml"
    home = environ.get("HOME")
    return Path(home) / ".config" / "infold" / "config.toml" if home else None


def _of_project(folder: Path) -> tuple[Source, ...]:
    """The nearest project file at or above a folder."""
    for path in _project_files(folder):
        table = _table(path) if path.name in PROJECT_FILES else _tool_table(path)
        if table is not None:
            return (Source(path, table, found=True),)
    return ()


def _project_files(folder: Path) -> Iterator[Path]:
    """The files that may hold a project's settings, nearest first: no further up than the repository goes, and not from a
    folder of another owner, such as one that everyone may write to."""
    here = folder.resolve()
    for place in (here, *here.parents):
        if _owner(place) != _owner(here):
            return
        yield from filter(_is_file, (*(place / name for name in PROJECT_FILES), place / "pyproject.toml"))
        if _is_repository(place):
            return


def _owner(place: Path) -> int | None:
    try:
        return place.stat().st_uid
    except OSError:
        return None


def _mentions_us(path: Path) -> bool:
    """Whether a `pyproject.toml` may have a table for infold."""
    try:
        return b"tool.infold" in path.read_bytes()
    except OSError:
        return False


def _is_repository(place: Path) -> bool:
    try:
        return (place / ".git").exists()
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    """Whether there is a file that can be seen; a folder closed to us has none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _tool_table(path: Path) -> Mapping[str, object] | None:
    """`[tool.infold]` of a `pyproject.toml`; a file that does not speak of infold need not even be TOML."""
    text = _text(path)
    if "infold" not in text:
        return None
    tool = _parsed(text, path).get("tool")
    table = tool.get("infold") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError("tool.infold", "it is no table", where=str(path), remedy="write [tool.infold] above it")
    return table


def _table(path: Path) -> Mapping[str, object]:
    text = _text(path)
    return _parsed_json(text, path) if path.suffix.lower() == ".json" else _parsed(text, path)


def _parsed_json(text: str, path: Path) -> dict[str, object]:
    # Comments become blanks of the same length, so that an error names the place in the file.
    plain = _COMMENT.sub(lambda found: found[1] or " " * len(found[0].encode()), text)
    try:
        return msgspec.json.decode(plain if plain.strip() else "{}", type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = f"the file is not a JSON object ({error})"
        raise SettingsError("", problem, where=str(path), remedy="correct that place, or remove the file") from error


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror})"
        raise SettingsError("", problem, where=str(path), remedy="mend its path or its permissions") from error
    except UnicodeDecodeError as error:
        raise SettingsError("", "the file is not UTF-8", where=str(path), remedy="save it as UTF-8") from error


def _parsed(text: str, path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = f"the file is no TOML ({error})"
        raise SettingsError("", problem, where=str(path), remedy="mend that place, or remove the file") from error


_UPSTREAM = re.compile(rf"{PREFIX}UPSTREAMS_([A-Z0-9_]+)_BASE_URL")


_NONE: Mapping[str, Key] = MappingProxyType({})


def relevant(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that can matter to settings and say something.

    Raises `SettingsError` for one with our prefix that is nearly such; other variables with it are let be.
    """
    ours = {*_ours(environ), *(PREFIX + name for name in SWITCHES)}
    _check_spelling(environ, ours)
    names = ours.union(BORROWED, (OPENCODE + name for name in SWITCHES))
    return {name: text.strip() for name, text in environ.items() if name in names and text.strip()}


def environment_layer(variables: Mapping[str, str], others: Mapping[str, Key] = _NONE) -> Layer:
    """What variables say: all with our prefix, and those `others`; raises `SettingsError` for what is wrong."""
    names = {**_ours(variables), **{variable: (key, key.name) for variable, key in others.items()}}
    return Layer("environment", agreed(_written(variables, names)))


def switch_layer(variables: Mapping[str, str], prefix: str = PREFIX) -> Layer:
    """Return what the switches with a prefix turn off; raises `SettingsError` for a word that is neither yes nor no."""
    on = switches_on(variables, prefix)
    return Layer("switch", {key: Stated(value=False, origin=variable) for key, variable in on.items()})


def _ours(environ: Iterable[str]) -> dict[str, tuple[Key, str]]:
    """From each variable with our prefix to its key and the name it sets; aliases take the prefix too."""
    keys = [key for key in KEYS if key is not UPSTREAM]
    fixed = {variable_of(name): (key, key.name) for key in keys for name in (key.name, *key.aliases)}
    upstreams = [found for found in map(_UPSTREAM.fullmatch, environ) if found]
    return fixed | {found[0]: (UPSTREAM, f"upstreams.{_provider(found[1])}.base_url") for found in upstreams}


def _provider(written: str) -> str:
    return written.lower().replace("_", "-")


def _check_spelling(environ: Iterable[str], ours: set[str]) -> None:
    known = {name.removeprefix(PREFIX): name for name in {*ours, f"{PREFIX}CONFIG"}}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known.values():
            meant = nearest(name.removeprefix(PREFIX), known, likeness=MISSPELT)
            if meant:
                problem = f"there is no such setting; the nearest is {known[meant]}"
                raise SettingsError("", problem, where=name, remedy="mend the name or remove the variable")


def _written(variables: Mapping[str, str], names: Mapping[str, tuple[Key, str]]) -> Iterator[Written]:
    for variable, (key, name) in ((one, named) for one, named in names.items() if one in variables):
        value = read_value(key, key.kind.of_text(variables[variable]), name=name, where=variable)
        is_alias = key is not UPSTREAM and variable != key.variable
        yield Written("the environment", name, variable, Stated(value, f"{variable} (alias)" if is_alias else variable))


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


LONGEST_NAME = 512
"""Characters of a model's name that are looked at; a gateway's callers choose these names."""


_STRENGTH: dict[Scope, int] = {"general": 0, "model": 1, "agent": 2, "environment": 3, "command": 4, "switch": 5}


RESTRICTING = ("permissions.ask", "permissions.deny")
"""Lists of rules by which a project's file may tighten what agents do."""


class Chain(Struct, frozen=True):
    """The layers that speak for one session, strongest first."""

    layers: tuple[Layer, ...]

    def find(self, key: str) -> Stated | None:
        """What the strongest layer that knows a key says of it, if any does.

        What a project forbids is added to what the user forbids, and never replaces it.
        """
        if key in RESTRICTING:
            own = next(
                (layer.values[key] for layer in self.layers if key in layer.values and not layer.of_project), None
            )
            return _joined(
                own, [layer.values[key] for layer in self.layers if key in layer.values and layer.of_project]
            )
        return next((layer.values[key] for layer in self.layers if key in layer.values), None)

    def get(self, key: str) -> Stated:
        """What holds for a key: what is stated, else its default."""
        return self.find(key) or Stated(BY_NAME[key].default if key in BY_NAME else None, "default")

    def rank(self, key: str) -> int:
        """How far from the strongest layer a key is stated; further than all where it is not."""
        return next((n for n, layer in enumerate(self.layers) if key in layer.values), len(self.layers))


def chain_of(layers: Iterable[Layer], *, model: str | None = None, agent: str | None = None) -> Chain:
    """The layers that speak for a model and an agent, given those of all sources, weakest source first."""
    names = _names_of(model)
    speaking = [layer for layer in layers if _speaks(layer, names, agent)]
    weakest_first = sorted(speaking, key=lambda layer: (_STRENGTH[layer.scope], len(layer.name), layer.name))
    return Chain(tuple(reversed(weakest_first)))


def _joined(own: Stated | None, others: Sequence[Stated]) -> Stated | None:
    """Return the user's own rules with those of a project behind them, each once."""
    stated = [*((own,) if own is not None else ()), *others]
    if len(stated) < 2:
        return stated[0] if stated else None
    rules = dict.fromkeys(rule for one in stated if isinstance(one.value, tuple) for rule in one.value)
    return Stated(tuple(rules), ", ".join(one.origin for one in stated))


def _speaks(layer: Layer, names: frozenset[str], agent: str | None) -> bool:
    match layer.scope:
        case "agent":
            return layer.name == agent
        case "model":
            return any(fnmatchcase(name, fold(layer.name)) for name in names)
        case "general" | "environment" | "command" | "switch":
            return True
        case _:
            assert_never(layer.scope)


def _names_of(model: str | None) -> frozenset[str]:
    """The names that a pattern may match: as given, without a provider before it, and in the catalogue's spellings."""
    if not model:
        return frozenset()
    given = model[:LONGEST_NAME]
    return frozenset({fold(given), fold(given.rpartition("/")[2]), *(spelling.key for spelling in spellings(given))})
