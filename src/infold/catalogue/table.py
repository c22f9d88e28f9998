"""Reads the catalogue's data file, once, when it is first asked for.

`benchmarks/build_catalogue.py` writes the file; nothing else does.
"""

import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

import msgspec

from infold.catalogue.models import ModelEntry
from infold.catalogue.names import fold

DATA_FILE = "models.json.gz"
_GZIP = 16 + zlib.MAX_WBITS


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data file: the day its sources were taken, what they are, the models, and other names for some."""

    as_of: str
    sources: tuple[str, ...]
    models: tuple[ModelEntry, ...]
    aliases: Mapping[str, str]


@cache
def shipped() -> Table:
    """The catalogue as shipped."""
    packed = resources.files(__package__).joinpath(DATA_FILE).read_bytes()
    return msgspec.json.decode(zlib.decompress(packed, _GZIP), type=Table)


@cache
def entries() -> Mapping[str, ModelEntry]:
    """Every entry of the shipped catalogue under its key."""
    return MappingProxyType({fold(entry.name): entry for entry in shipped().models})
