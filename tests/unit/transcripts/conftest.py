"""Reading our own small transcripts, and the laws every recorded session keeps."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from infold.core.messages import calls_of, results_of
from infold.transcripts.record import RecordedSession, Transcript
from infold.transcripts.registry import read_transcript

DATA = Path(__file__).parents[2] / "data" / "transcripts"


@pytest.fixture
def data() -> Path:
    """The folder of our own transcripts."""
    return DATA


@pytest.fixture
def read() -> Callable[[str], Transcript]:
    """Read one of our own transcripts by its file name."""
    return lambda name: read_transcript(DATA / name)


@pytest.fixture
def check_laws() -> Callable[[RecordedSession], None]:
    """Fail unless ids are unique, each result follows its call once, and the session survives its encoding."""
    return _check_laws


def _check_laws(session: RecordedSession) -> None:
    ids = [message.id for message in session.messages]
    assert len(ids) == len(set(ids))
    called: set[str] = set()
    answered: set[str] = set()
    for message in session.messages:
        for result in results_of(message):
            assert result.call_id in called
            assert result.call_id not in answered
            answered.add(result.call_id)
        for call in calls_of(message):
            assert call.call_id not in called
            called.add(call.call_id)
    assert all(0 <= compaction.position <= len(ids) for compaction in session.compactions)
    assert msgspec.json.decode(msgspec.json.encode(session), type=RecordedSession) == session
