"""From variables to layers: those with our prefix, the switches, and those that other programs read too.

An empty variable says nothing. A variable without our prefix counts only if somebody decided so (`others`): the names of
document 003 are common, and one that stands there for another program must not surprise anyone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from infold.core.policy import OPENCODE, PREFIX, SWITCHES, switches_on
from infold.errors import SettingsError
from infold.settings.layers import Layer, Stated, Written, agreed, read_value
from infold.settings.schema import BORROWED, KEYS, MISSPELT, UPSTREAM, Key, nearest, variable_of

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
