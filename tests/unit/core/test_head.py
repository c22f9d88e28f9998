"""What a fold knows of the head it takes away."""

from infold.core.budget import Window, budget_for
from infold.core.compact import (
    MOST_UNANSWERED,
    caller_messages,
    checkpoint_for,
    ledger_before,
    ledgers_at,
    unanswered_calls,
)
from infold.core.cut import Cut
from infold.core.entries import Checkpoint
from infold.core.gauge import PlanInputs
from infold.core.ledger import EMPTY_LEDGER
from infold.core.messages import Message
from infold.core.plan import Fold
from infold.core.policy import INFOLD
from infold.testing.builders import calls, replies, result, session, user

SITUATION = PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD))


def test_what_the_tail_changed_is_kept_but_not_told() -> None:
    """B3, I16: todos, jobs and questions that the kept messages have overtaken are left out of the text, not of what is known."""
    written = calls("TaskCreate", arguments='{"subject": "Write docs"}')
    started = calls("bash", arguments='{"command": "make test"}')
    log = session(
        *(user("port it"), written, result(output="Task #1 created successfully: Write docs")),
        *(started, result(output="Command running in background with ID: b7"), replies("Shall I go on?")),
        *(
            user("yes, do"),
            calls("TaskUpdate", arguments='{"taskId": "1", "status": "completed"}'),
            result(output="ok"),
        ),
        *(calls("BashOutput", arguments='{"bash_id": "b7"}'), result(output="<exit_code>0</exit_code>")),
    )
    folded, _ = checkpoint_for(log, Fold(Cut.at(log, 6), 2_000, "trigger"), SITUATION)
    whole, _ = checkpoint_for(log, Fold(Cut.at(log, 11), 2_000, "trigger"), SITUATION)

    assert not any(heading in folded.text for heading in ("Todo list", "not reported back", "Questions still open"))
    assert (len(folded.ledger.todos or ()), len(folded.ledger.jobs), len(folded.ledger.questions)) == (1, 1, 1)
    assert "- [completed] #1 Write docs" in whole.text
    assert (whole.ledger.jobs, whole.ledger.questions) == ((), ())


def test_nothing_is_left_out_where_nothing_is_open() -> None:
    """B4: most ledgers are told as they are."""
    log = session(user("port it"), replies("done"), user("now test it"))

    assert ledgers_at(log, Cut.at(log, 0)) == (EMPTY_LEDGER, EMPTY_LEDGER)
    assert [quote.text for quote in ledger_before(log, Cut.at(log, 2)).requests] == ["port it"]
    assert [message.id for message in caller_messages(log, Cut.at(log, 2))] == ["m0", "m1"]


def test_calls_without_a_result_are_named_with_their_tools() -> None:
    """B12, B13: those of this head and of older ones, the newest if there are many."""
    left: list[Message] = [calls("list"), user()] * (MOST_UNANSWERED + 3)
    log = session(user(), calls("bash", "read"), result(), user(), *left)
    folded = log.append(Checkpoint("text", first_kept=3, unanswered={"m1-call1": "read"}))

    assert unanswered_calls(log, Cut.at(log, 3)) == {"m1-call1": "read"}
    assert unanswered_calls(folded, Cut.at(folded, 0)) == {"m1-call1": "read"}
    assert set(unanswered_calls(log, Cut.at(log, log.length - 1)).values()) == {"list"}
    assert len(unanswered_calls(log, Cut.at(log, log.length - 1))) == MOST_UNANSWERED
