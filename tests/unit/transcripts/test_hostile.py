"""Whatever is done to a transcript, it is read lawfully or refused with an error of ours."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infold.errors import FormatError
from infold.transcripts.record import RecordedSession
from infold.transcripts.registry import read_bytes
from infold.transcripts.write import to_anthropic, to_markdown, to_openai_chat

DATA = Path(__file__).parents[2] / "data" / "transcripts"
FILES = sorted(DATA.iterdir())
wounds = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 60), st.sampled_from([b"", b"\xff", b"null", b"[]", b'"', b"{", b"\n"])),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(FILES), wounds=wounds)
def test_damage_never_crashes_a_reader(
    path: Path, wounds: list[tuple[float, int, bytes]], check_laws: Callable[[RecordedSession], None]
) -> None:
    """Bytes cut out and put in anywhere leave lawful sessions that can be written, or a FormatError."""
    content = path.read_bytes()
    for place, length, put in wounds:
        start = int(place * len(content))
        content = content[:start] + put + content[start + length :]
    try:
        sessions = read_bytes(content, name=path.name).sessions
    except FormatError:
        return
    for session in sessions:
        check_laws(session)
        assert to_openai_chat(session) is not None
        assert to_anthropic(session)["messages"] is not None
        assert to_markdown(session)
