"""Measure retention file by file: what a fold keeps of each session, with decoys from a neighbouring file."""

from collections.abc import Sequence
from pathlib import Path

from infold.errors import InfoldError
from infold.replay.facts_values import Fact
from infold.replay.outcome import Broken
from infold.replay.retention import Measured, decoys_of, measure_session
from infold.transcripts.registry import read_transcript


def with_neighbours(paths: Sequence[Path]) -> tuple[tuple[Path, Path], ...]:
    """Each file with the one before it, the first with the last; decoys are taken from there."""
    return tuple(zip(paths, (*paths[-1:], *paths[:-1]), strict=True))


def measure_file(pair: tuple[Path, Path]) -> tuple[Measured, ...] | Broken:
    """What the fold keeps of every session of a file long enough to measure; a file that cannot be read is told, not fatal."""
    path, neighbour = pair
    try:
        sessions = read_transcript(path).sessions
    except (InfoldError, OSError) as problem:
        return Broken(path.name, str(problem))
    decoys = _decoys(neighbour) if neighbour != path else ()
    return tuple(measured for session in sessions for measured in measure_session(path.name, session, decoys))


def _decoys(neighbour: Path) -> tuple[Fact, ...]:
    """Facts of another session; none where it cannot be read, which its own turn will tell."""
    try:
        sessions = read_transcript(neighbour).sessions
    except (InfoldError, OSError):
        return ()
    return tuple(fact for session in sessions[:1] for fact in decoys_of(session))
