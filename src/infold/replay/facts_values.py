"""What a fact is: a cue, the answer that goes with it, and where it was told; and the sets facts are scored in."""

from typing import Literal, TypeAlias

from msgspec import Struct

FactClass: TypeAlias = Literal[
    "instruction", "file", "command", "error", "identifier", "number", "decision", "todo", "reference", "found"
]
"""`found` is a path, identifier, number or reference that stood only in a tool's output."""

FactSet: TypeAlias = Literal["all", "gate", "modified", "outcome", "later", "result-only", "tail", "decoy"]

SETS: tuple[FactSet, ...] = ("gate", "modified", "outcome", "later", "result-only", "all", "tail", "decoy")


class Fact(Struct, frozen=True, omit_defaults=True):
    """A cue and its answer, normalised, with the part they were told in.

    `answers` are spellings of the one answer; `stale` are answers that it superseded. `one_record`: whether cue and answer must
    share a record, because lists put one answer beside another's cue. `origin` and `use` are the words around the answer
    where it was told and where it was used after the end point, without the answer itself. `told` is the whole sentence or
    command line.
    """

    kind: FactClass
    cues: tuple[str, ...]
    answers: tuple[str, ...]
    handle: str
    stale: tuple[str, ...] = ()
    one_record: bool = False
    sets: frozenset[FactSet] = frozenset()
    told: str = ""
    origin: str = ""
    use: str = ""
