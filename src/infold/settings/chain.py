"""Which layers speak for a session, and in what order.

Strongest first: the switches, the command line, the environment, the agent's table, the tables of the model (the longest
pattern first), the general values. Within one of these the later file wins. What nobody states is the default, or the preset's.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import assert_never

from msgspec import Struct

from infold.catalogue.names import fold, spellings
from infold.settings.layers import Layer, Scope, Stated
from infold.settings.schema import BY_NAME

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
