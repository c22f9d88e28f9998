"""What the demo does after its session is checked like the session itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from infold.cli.demo_acts import acts_on
from infold.cli.demo_play import Request, Stage
from infold.cli.demo_scene import scene_for
from infold.core.policy import INFOLD

pytestmark = pytest.mark.slow

WHOLE = scene_for(64_000, INFOLD)
SHORT = replace(WHOLE, history=WHOLE.history[:38])
"""The first topic alone: three user turns, from a request to the reply that ends it."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A short session on a file."""
    opened = Stage(SHORT, tmp_path / "log.sqlite3")
    try:
        yield opened
    finally:
        opened.close()


def test_a_session_goes_on_from_its_file(stage: Stage) -> None:
    """B1, B13, B20: opened again it sends the same, goes on, is compacted by hand and as it was after an undo."""
    requests = list(stage.requests())
    acts = {act.name: act for act in acts_on(stage, requests)}

    assert acts["opened again"].lines[0].endswith("the next request is the same")
    assert acts["went on"].faults == ()
    assert acts["undone"].lines[0].endswith("word for word as before")
    assert any(line.startswith("summary") for line in acts["by hand"].lines)


def test_what_is_not_found_is_a_fault(stage: Stage) -> None:
    """The short session never ran the linter, so that a recall of its words finds nothing of the kind."""
    requests = list(stage.requests())

    assert [fault for act in acts_on(stage, requests) for fault in act.faults] == [
        "recall of 'make lint unused' did not find \"ferry/cache.py:41: error: Name 'tide' is unused\""
    ]


def test_another_request_after_opening_is_a_fault(stage: Stage) -> None:
    """The last request is held against the one that is made from the file."""
    requests = list(stage.requests())
    changed = [*requests[:-1], replace(requests[-1], sent=requests[-1].sent[1:])]

    assert next(acts_on(stage, changed)).faults == ("the session sends another request after it was opened again",)


def test_an_error_ends_the_acts(stage: Stage) -> None:
    """A handle that nothing has is told as what went wrong, and nothing follows."""
    requests = list(stage.requests())
    named: Request = replace(requests[-1], checkpoint="- `make` → exit 0 [99999.0]")
    acts = list(acts_on(stage, [*requests[:-1], named]))

    assert [act.name for act in acts][-1] == "ended"
    assert "99999.0" in acts[-1].faults[0]


def test_what_was_never_said_is_a_fault(stage: Stage) -> None:
    """What a handle brings back must be the session's own text; the farewell is not part of it."""
    requests = list(stage.requests())
    newest = stage.session.log.live[-1].sequence
    named = replace(requests[-1], checkpoint=f"- `make` → exit 0 [{newest}.0]")
    faults = [fault for act in acts_on(stage, [*requests[:-1], named]) for fault in act.faults]

    assert faults[0] == f"recall {newest}.0 brought back what was never said"
