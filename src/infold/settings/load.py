"""Read settings from files and the environment as layers, and decide which layer wins for a session.

Strongest first: switches, the command line, the environment, the agent's table, the model's tables (longest pattern
first), general values. Within one of these the later file wins. A value stated in none of them is the default, or the
preset's.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec import Struct

from infold.catalogue.lookup import fold, spellings
from infold.core.policy import OPENCODE, PREFIX, SWITCHES, settings_switched_off
from infold.errors import SettingsError
from infold.settings import schema
from infold.settings.schema import Key, Value

Scope: TypeAlias = Literal["general", "model", "agent", "environment", "command", "switch"]
"""What a layer applies to: everything, models by pattern, one agent, this process, one command, or all as a switch."""

_STRENGTH: dict[Scope, int] = {"general": 0, "model": 1, "agent": 2, "environment": 3, "command": 4, "switch": 5}

_Outcome = TypeVar("_Outcome")


class StatedValue(Struct, frozen=True):
    """A value and where it was stated."""

    value: Value
    origin: str


class Layer(Struct, frozen=True):
    """The values of one table, or of the environment, by key.

    `name` is the model pattern or the agent of a table. `of_project`: the table stands in a project's file.
    """

    scope: Scope
    values: Mapping[str, StatedValue]
    name: str = ""
    of_project: bool = False


class WrittenSetting(Struct, frozen=True):
    """A setting as it was written: its source, its key, and the name or alias that was used."""

    source: str
    key: str
    name: str
    stated: StatedValue


class Faults:
    """Collects everything that is wrong with settings, so that it is reported at once."""

    def __init__(self) -> None:
        self.found: list[SettingsError] = []

    @contextmanager
    def note(self) -> Iterator[None]:
        """Collect the error that the block raises."""
        try:
            yield
        except SettingsError as error:
            self.found.append(error)

    @classmethod
    @contextmanager
    def collecting(cls, faults: "Faults | None" = None) -> "Iterator[Faults]":
        """Collect into `faults`; without one, raise the first of those collected in the block, with all others."""
        own = faults or cls()
        yield own
        if faults is None:
            own.raise_all()

    def raise_all(self) -> None:
        """Raise the first error, with the others as its `others` and notes; nothing if there is no error."""
        if self.found:
            first, *others = self.found
            first.others = tuple(others)
            for other in others:
                first.add_note(f"also: {other}")
            raise first


def read_value(key: Key, raw: object, *, name: str, where: str) -> Value:
    """Return a raw value converted to the key's kind; raise `SettingsError` if it is wrong."""
    try:
        return key.kind.read(raw)
    except ValueError as error:
        raise SettingsError(name, str(error), where=where, remedy=key.kind.remedy) from error


def merge_names(written: Iterable[WrittenSetting]) -> Mapping[str, StatedValue]:
    """Return the values of one source by key; raise `SettingsError` if two names of a key have different values."""
    first: dict[str, WrittenSetting] = {}
    for one in written:
        other = first.setdefault(one.key, one)
        if other.stated.value != one.stated.value:
            shown = " and ".join(
                f"{each.name} is {schema.format_value(each.stated.value) or 'unset'}" for each in (other, one)
            )
            problem = f"{shown}, but both are the same setting"
            remedy = "keep one of the two, or make them equal"
            raise SettingsError(one.key, problem, where=other.source, remedy=remedy)
    return {key: one.stated for key, one in first.items()}


# Files.

PROJECT_FILES = ("infold.toml", "infold.json")
"""The names of a project's file; of two in one folder the first counts."""

_COMMENT = re.compile(r'("(?:[^"\\]|\\(?s:.)?)*+(?:"|\Z))|//[^\n]*')
"""A JSON string, which is kept, or a comment at the end of a line, as in the documents' examples."""


class SettingsFile(Struct, frozen=True):
    """A file of settings and its table.

    `found`: it belongs to a project, which anyone may have written, so it may set few keys (`Key.per_project`).
    """

    path: Path
    table: Mapping[str, object]
    found: bool = False


def find_files(
    environ: Mapping[str, str], folder: Path | None, faults: Faults | None = None
) -> tuple[SettingsFile, ...]:
    """Return the files that count, weakest first: the user's, then the project's; or only that of `INFOLD_CONFIG`.

    Without a folder no project's file is read. Raise `SettingsError` if a file cannot be read, or does not exist
    although `INFOLD_CONFIG` names it.
    """
    named = environ.get("INFOLD_CONFIG")
    user = user_file(environ)
    places = () if user is None else (user, user.with_suffix(".json"))
    own = [Path(named)] if named else [path for path in places if path.is_file()][:1]
    found: list[SettingsFile] = []
    with Faults.collecting(faults) as collected:
        for path in own:
            with collected.note():
                found.append(SettingsFile(path, _read_table(path)))
        if folder is not None and not named:
            with collected.note():
                found += _project_source(folder)
    return tuple(found)


def project_file(folder: Path) -> Path | None:
    """Return the project's file of settings for a folder, whatever it holds; `None` if there is none."""
    for path in _project_files(folder):
        if path.name in PROJECT_FILES or b"tool.infold" in _unless_denied(path.read_bytes, b""):
            return path
    return None


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Return where the user's file would be, or `None` if the environment names no home."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        return base / "infold" / "config.toml"
    home = environ.get("HOME")
    return Path(home) / ".config" / "infold" / "config.toml" if home else None


def _project_source(folder: Path) -> tuple[SettingsFile, ...]:
    for path in _project_files(folder):
        table = _read_table(path) if path.name in PROJECT_FILES else _read_tool_table(path)
        if table is not None:
            return (SettingsFile(path, table, found=True),)
    return ()


def _project_files(folder: Path) -> Iterator[Path]:
    """Yield the files that may hold a project's settings, nearest first.

    The search ends at the repository's root, and before a folder of another owner, such as one that everyone may
    write to.
    """
    here = folder.resolve()
    for place in (here, *here.parents):
        if _owner(place) != _owner(here):
            return
        for name in (*PROJECT_FILES, "pyproject.toml"):
            if _unless_denied((place / name).is_file, default=False):
                yield place / name
        if _unless_denied((place / ".git").exists, default=False):
            return


def _owner(place: Path) -> int:
    return _unless_denied(lambda: place.stat().st_uid, -1)


def _unless_denied(ask: Callable[[], _Outcome], default: _Outcome) -> _Outcome:
    try:
        return ask()
    except OSError:
        return default


def _read_tool_table(path: Path) -> Mapping[str, object] | None:
    """Return `[tool.infold]` of a `pyproject.toml`; a file that does not mention infold need not be valid TOML."""
    text = _read_text(path)
    if "infold" not in text:
        return None
    tool = _parse_toml(text, path).get("tool")
    table = tool.get("infold") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError("tool.infold", "it is not a table", where=str(path), remedy="write [tool.infold] above it")
    return table


def _read_table(path: Path) -> Mapping[str, object]:
    text = _read_text(path)
    return _parse_json(text, path) if path.suffix.lower() == ".json" else _parse_toml(text, path)


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        problem, remedy = f"the file cannot be read ({error.strerror})", "correct its path or its permissions"
        raise SettingsError("", problem, where=str(path), remedy=remedy) from error
    except UnicodeDecodeError as error:
        raise SettingsError("", "the file is not UTF-8", where=str(path), remedy="save it as UTF-8") from error


def _parse_json(text: str, path: Path) -> dict[str, object]:
    # Comments become blanks of the same length, so that an error names the place in the file.
    plain = _COMMENT.sub(lambda found: found[1] or " " * len(found[0].encode()), text)
    try:
        return msgspec.json.decode(plain if plain.strip() else "{}", type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_parsed(path, f"a JSON object ({error})") from error


def _parse_toml(text: str, path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _not_parsed(path, f"valid TOML ({error})") from error


def _not_parsed(path: Path, what: str) -> SettingsError:
    remedy = "correct that place, or remove the file"
    return SettingsError("", f"the file is not {what}", where=str(path), remedy=remedy)


# The environment.

_UPSTREAM = re.compile(rf"{PREFIX}UPSTREAMS_([A-Z0-9_]+)_BASE_URL")

_NONE: Mapping[str, Key] = MappingProxyType({})


def relevant_variables(environ: Mapping[str, str], faults: Faults | None = None) -> Mapping[str, str]:
    """Return the variables that can matter to settings and are not empty.

    Raise `SettingsError` for a misspelt variable with our prefix; unrelated ones are ignored.
    """
    ours = {*_our_variables(environ), *(PREFIX + name for name in SWITCHES)}
    with Faults.collecting(faults) as collected:
        collected.found += _misspelt(environ, ours)
    names = ours.union(schema.DOCUMENT_VARIABLES, (OPENCODE + name for name in SWITCHES))
    return {name: text.strip() for name, text in environ.items() if name in names and text.strip()}


def environment_layer(
    variables: Mapping[str, str], others: Mapping[str, Key] = _NONE, faults: Faults | None = None
) -> Layer:
    """Return the layer of the variables with our prefix and of `others`; raise `SettingsError` for a wrong value."""
    names = {**_our_variables(variables), **{variable: (key, key.name) for variable, key in others.items()}}
    values: Mapping[str, StatedValue] = {}
    with Faults.collecting(faults) as collected:
        written = list(_read_variables(variables, names, collected))
        with collected.note():
            values = merge_names(written)
    return Layer("environment", values)


def switch_layer(variables: Mapping[str, str], prefix: str = PREFIX) -> Layer:
    """Return the layer of what switches turn off; raise `SettingsError` for a word that is neither yes nor no."""
    on = settings_switched_off(variables, prefix)
    return Layer("switch", {key: StatedValue(value=False, origin=variable) for key, variable in on.items()})


def _our_variables(environ: Iterable[str]) -> dict[str, tuple[Key, str]]:
    """Return the key and the setting's name for each variable with our prefix; aliases take the prefix too."""
    named = {
        schema.variable_name(name): (key, key.name)
        for key in schema.KEYS_BY_NAME.values()
        for name in (key.name, *key.aliases)
    }
    for found in filter(None, map(_UPSTREAM.fullmatch, environ)):
        provider = found[1].lower().replace("_", "-")
        named[found[0]] = (schema.UPSTREAM, f"upstreams.{provider}.base_url")
    return named


def _misspelt(environ: Iterable[str], ours: set[str]) -> Iterator[SettingsError]:
    known = {name.removeprefix(PREFIX): name for name in {*ours, f"{PREFIX}CONFIG"}}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known.values():
            meant = schema.nearest_name(name.removeprefix(PREFIX), known, likeness=schema.MISSPELT)
            if meant:
                remedy = f"did you mean {known[meant]}? Otherwise remove the variable"
                yield SettingsError("", "unknown setting", where=name, remedy=remedy)


def _read_variables(
    variables: Mapping[str, str], names: Mapping[str, tuple[Key, str]], faults: Faults
) -> Iterator[WrittenSetting]:
    for variable, (key, name) in ((one, named) for one, named in names.items() if one in variables):
        with faults.note():
            value = read_value(key, key.kind.of_text(variables[variable]), name=name, where=variable)
            is_alias = key is not schema.UPSTREAM and variable != key.variable
            stated = StatedValue(value, f"{variable} (alias)" if is_alias else variable)
            yield WrittenSetting("the environment", name, variable, stated)


# Tables of a file.

SECRET = re.compile(r"(?:^|[._-])(?:api_?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
"""How the name of a secret ends."""

_EXAMPLES = {"model": '[models."claude-*"]', "agent": "[agents.reviewer]"}

_DANGERS = {
    "permissions.allow": "it decides what an agent does without asking",
    "model": "it decides which model is asked and paid",
    "compaction.model": "it decides which model is asked and paid",
    "defer_tools": "it changes which tools a provider is sent",
    "prices": "it decides what the user is shown as spent",
    "store": "it decides where sessions are kept",
    "store_limits": "it deletes sessions",
    "plugins": "it decides which plugins run",
    "agent": "it decides how far the agent goes and what is kept of its work",
    "gateway": "it decides which servers are used",
    "upstreams": "it decides which servers are used",
}
"""Why a project's file may not set a key, by key or table."""


def read_layers(source: SettingsFile, *, home: str = "", faults: Faults | None = None) -> tuple[Layer, ...]:
    """Return the layers of a file: its general values, then one for each table of a model or an agent.

    `home` replaces `~` in a store's path; other relative paths are relative to the file. Raise `SettingsError`.
    """
    general = {name: value for name, value in source.table.items() if name not in ("models", "agents")}
    with Faults.collecting(faults) as collected:
        return (
            Layer("general", _TableReader(source, home, collected).read(general), of_project=source.found),
            *_table_layers("model", source, home, collected),
            *_table_layers("agent", source, home, collected),
        )


def _table_layers(scope: Literal["model", "agent"], source: SettingsFile, home: str, faults: Faults) -> Iterator[Layer]:
    title = f"{scope}s"
    tables = source.table.get(title, {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        remedy = f"write a heading such as {_EXAMPLES[scope]}"
        faults.found.append(SettingsError(title, "it does not hold tables", where=str(source.path), remedy=remedy))
        return
    for name, table in tables.items():
        heading = name if re.fullmatch(r"[\w-]+", name) else f'"{name}"'
        values = _TableReader(source, home, faults, f"[{title}.{heading}]").read(table)
        yield Layer(scope, values, name, of_project=source.found)


class _TableReader(Struct, frozen=True):
    """Read one table of a file; `heading` is empty for the general values."""

    source: SettingsFile
    home: str
    faults: Faults
    heading: str = ""

    @property
    def place(self) -> str:
        return f"{self.source.path} {self.heading}".strip()

    def read(self, table: Mapping[str, object]) -> Mapping[str, StatedValue]:
        written: list[WrittenSetting] = []
        for name, raw in _flatten(table):
            with self.faults.note():
                written.append(self._read(name, raw))
        try:
            return merge_names(written)
        except SettingsError as error:
            self.faults.found.append(error)
            return {}

    def _read(self, name: str, raw: object) -> WrittenSetting:
        key = schema.find_key(name)
        if key is None or (self.heading and not key.per_session):
            raise self._unknown(name, key)
        value = read_value(key, raw, name=name, where=self.place)
        self._check_allowed(name, key, value)
        if key.kind is schema.PLACE:
            value = self._absolute(str(value))
        if name in schema.ALIASES:
            return WrittenSetting(self.place, key.name, name, StatedValue(value, f"{self.place} (alias {name})"))
        return WrittenSetting(self.place, name, name, StatedValue(value, self.place))

    def _unknown(self, name: str, key: Key | None) -> SettingsError:
        known = [*(key.name for key in schema.KEYS if key.per_session or not self.heading), *schema.ALIASES]
        if key is not None:
            problem, remedy = "it cannot differ by model or agent", "move it above the tables of models and agents"
        elif name == "upstreams" or any(one.startswith(f"{name}.") for one in schema.KEYS_BY_NAME):
            problem, remedy = "it is a table of settings, not a value", f"write its keys under [{name}]"
        elif SECRET.search(name) and not schema.nearest_name(name, known, likeness=schema.MISSPELT):
            problem, remedy = "secrets are not read from files", "put it in the environment and remove it here"
        else:
            meant = schema.nearest_name(name, known)
            advice = f"did you mean {meant}? Otherwise" if meant else "correct the name or"
            problem, remedy = "unknown setting", f"{advice} remove the line ('infold config' lists all settings)"
        return SettingsError(name, problem, where=self.place, remedy=remedy)

    def _check_allowed(self, name: str, key: Key, value: Value) -> None:
        if schema.has_password(value):
            problem = "it holds a password, and secrets are not read from files"
            remedy = f"put it in the environment ({schema.variable_name(name)}) and remove it here"
            raise SettingsError(name, problem, where=self.place, remedy=remedy)
        if self.source.found and not key.per_project:
            danger = _DANGERS.get(key.name) or _DANGERS[key.name.partition(".")[0]]
            problem = f"a file that belongs to a project cannot set it, because {danger}"
            remedy = f"move it to your own file of settings (~/.config/infold/config.toml) or to {schema.variable_name(name)}"
            raise SettingsError(name, problem, where=self.place, remedy=remedy)

    def _absolute(self, place: str) -> str:
        """Return a store's address with its path relative to the file resolved."""
        if place == "memory" or "://" in place:
            return place
        path = place.removeprefix("sqlite:")
        if path.startswith("~/") and self.home:
            return str(Path(self.home, path[2:]))
        return str(self.source.path.absolute().parent / path)


def _flatten(table: Mapping[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


# Which layer wins.

LONGEST_NAME = 512
"""Characters of a model's name that are matched; a gateway's callers choose these names."""

RESTRICTING = ("permissions.ask", "permissions.deny")
"""Lists of rules by which a project's file may restrict agents further."""


class Chain(Struct, frozen=True):
    """The layers that apply to one session, strongest first."""

    layers: tuple[Layer, ...]

    def find(self, key: str) -> StatedValue | None:
        """Return the value of the strongest layer that states a key, or `None`.

        A project's restrictions are added to the user's; they never replace them.
        """
        stating = [layer for layer in self.layers if key in layer.values]
        if key not in RESTRICTING:
            return stating[0].values[key] if stating else None
        own = [layer.values[key] for layer in stating if not layer.of_project][:1]
        return _join_rules([*own, *(layer.values[key] for layer in stating if layer.of_project)])

    def get(self, key: str) -> StatedValue:
        """Return the stated value of a key, or its default."""
        return self.find(key) or StatedValue(
            schema.KEYS_BY_NAME[key].default if key in schema.KEYS_BY_NAME else None, "default"
        )

    def rank(self, key: str) -> int:
        """Return how far from the strongest layer a key is stated; the number of layers if it is not."""
        return next((n for n, layer in enumerate(self.layers) if key in layer.values), len(self.layers))


def build_chain(layers: Iterable[Layer], *, model: str | None = None, agent: str | None = None) -> Chain:
    """Return the layers that apply to a model and an agent; `layers` has those of all sources, weakest source first."""
    names = _model_names(model)
    applying = [layer for layer in layers if _applies(layer, names, agent)]
    weakest_first = sorted(applying, key=lambda layer: (_STRENGTH[layer.scope], len(layer.name), layer.name))
    return Chain(tuple(reversed(weakest_first)))


def _join_rules(stated: Sequence[StatedValue]) -> StatedValue | None:
    if len(stated) < 2:
        return stated[0] if stated else None
    rules = dict.fromkeys(rule for one in stated if isinstance(one.value, tuple) for rule in one.value)
    return StatedValue(tuple(rules), ", ".join(one.origin for one in stated))


def _applies(layer: Layer, names: frozenset[str], agent: str | None) -> bool:
    match layer.scope:
        case "agent":
            return layer.name == agent
        case "model":
            return any(fnmatchcase(name, fold(layer.name)) for name in names)
        case "general" | "environment" | "command" | "switch":
            return True
        case _:
            assert_never(layer.scope)


def _model_names(model: str | None) -> frozenset[str]:
    """Return the names a pattern may match: as given, without the provider, and in the catalogue's spellings."""
    if not model:
        return frozenset()
    given = model[:LONGEST_NAME]
    return frozenset({fold(given), fold(given.rpartition("/")[2]), *(spelling.key for spelling in spellings(given))})
