"""What a view says of answers that never came, or came late, and the room it is given."""

import pytest

from infold.core.budget import Window, budget_for
from infold.core.entries import Checkpoint, Clip, Clipping, Handle, MessageEntry
from infold.core.gauge import PlanInputs, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.logged_message import interrupted_result, late_heading, size_of_interrupted, size_of_late
from infold.core.messages import MessageId, ToolCallPart, ToolMessage, ToolResultPart
from infold.core.policy import INFOLD
from infold.core.tokens import NO_SIZE
from infold.core.view import view
from infold.testing.builders import calls, replies, result, session, user
from infold.testing.script import count_tokens

SITUATION = PlanInputs(INFOLD, budget_for(Window(200_000), INFOLD))
MANY = ["bash"] * 60


def test_an_interrupted_call_is_told_as_such() -> None:
    """B12: the answer is the call's own, and says that there is none."""
    answer = interrupted_result(ToolCallPart("c", "bash", "{}"))

    assert (answer.call_id, answer.tool, answer.status) == ("c", "bash", "interrupted")
    assert "interrupted" in answer.output


@pytest.mark.parametrize(("tool", "named"), [("bash", "bash"), ("", "a tool")])
def test_a_late_result_names_its_call(tool: str, named: str) -> None:
    """B12: what no provider takes as a result is told in words."""
    assert late_heading(ToolResultPart("c", tool, "out")) == f"[late result of {named}, call c]\n"


def test_what_is_not_said_takes_no_room() -> None:
    """B8: most steps are answered."""
    assert size_of_interrupted(0, "features") == NO_SIZE
    assert size_of_late((), "features") == NO_SIZE


@pytest.mark.parametrize(
    "log",
    [
        session(user(), calls(*MANY)),
        session(user(), calls(*MANY), user("and now?")),
        session(user(), calls(*MANY), replies("never mind")),
        session(user(), calls(*MANY), result(9), user("the rest?")),
        session(user(), calls(*MANY), user("and " * 900), *(result(9) for _ in MANY)).append(
            Clipping((Clip(Handle("2.0"), 40, 40),))
        ),
        session(user(), calls(*MANY), user("and " * 900)).append(Clipping((Clip(Handle("2.0"), 40, 40),))),
    ],
    ids=["open", "closed by a person", "closed by a reply", "answered in part", "answered late", "beside a clip"],
)
def test_what_a_view_adds_is_counted(log: Log) -> None:
    """B8, B12: the proof is not below what the messages are that are sent, the answers included that infold gives itself."""
    sent = count_tokens(view(log, INFOLD.summary))

    assert gauge(log, SITUATION).upper_tokens >= sent - 8 * log.length
    assert estimated_tokens(log, SITUATION) <= 1.4 * sent


def test_answers_to_calls_that_were_folded_are_counted_no_more() -> None:
    """B8, B13: a first kept message stands alone, in the log that grew as in the one that is read back."""
    log = session(user(), calls(*MANY), user("and now?"), replies())
    folded = log.append(Checkpoint("text", first_kept=2))
    late = ToolMessage(MessageId("late"), (ToolResultPart("m1-call0", "bash", "x"),))

    assert log.live[2].size.measure > 60 * 10
    assert (folded.live[0].added_size, folded.live[0].size) == (NO_SIZE, session(user("and now?")).size)
    assert folded.append(MessageEntry(late)).live[-1].added_size != NO_SIZE
