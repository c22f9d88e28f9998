"""I6: todos, running jobs, rules and language come from where they were set, not from a summary; a past yes is no new one."""

import json

import pytest

from infold import fit
from infold.core.checkpoint_text import OPENING
from infold.core.events import Event, SummaryRejected
from infold.core.judge import Answer
from infold.core.messages import Message, UserMessage
from infold.core.policy import INFOLD, Policy
from infold.core.view import view
from infold.formats.registry import ANTHROPIC_MESSAGES, GEMINI, OPENAI_CHAT, WireFormat
from infold.testing.builders import calls, numbered, replies, result, user

from .scenes import Notetaker, compactions, each_way, opened, played, story, told_of, written

LIE = "All todos are done, nothing is running any more, and every check has passed since then."
RUNNING = "Started and not reported back:\n- make harbour"
APPROVAL = "Yes, you may delete the old backups."
PROMPT = "You are a pilot. Answer in two sentences at most."


def todo_list(*states: str) -> Message:
    """A call that writes the todo list anew."""
    items = [{"content": f"dock {number}", "status": state} for number, state in enumerate(states)]
    return calls("todo_write", arguments=json.dumps({"todos": items}))


def worked(steps: int = 30) -> tuple[Message, ...]:
    """A todo list, a job left running, a check that failed; then work enough to fold all three."""
    started = calls("bash", arguments='{"command": "make harbour"}')
    checked = calls("bash", arguments='{"command": "make lint"}')
    drafts = [
        todo_list("pending", "pending"),
        result(output="Noted."),
        todo_list("completed", "in_progress"),
        result(output="Noted."),
        started,
        result(output="Command running in background with ID: job-7"),
        checked,
        result(output="exit code: 1\nerror: the tide is unused"),
    ]
    return (*story(1), *numbered(drafts, prefix="w"), *story(steps, prefix="x")[1:])


def test_i06_a_summary_cannot_overrule_the_ledger() -> None:
    """B4: whatever a model says of them, todos, jobs and errors stand as the tools last had them."""
    session, events = opened("infold", OPENAI_CHAT, notes=Notetaker(LIE)), list[Event]()
    for ready in played(session, OPENAI_CHAT, worked()):
        events += ready.events

    assert compactions(events)
    assert LIE in told_of(ready)
    assert session.log.checkpoint is not None
    for fact in ("[completed] dock 0", "[in_progress] dock 1", RUNNING, "make lint: error: the tide is unused"):
        assert fact in session.log.checkpoint.text


@each_way
def test_i06_facts_are_carried_from_checkpoint_to_checkpoint(policy: Policy) -> None:
    """B3, B4: five compactions later the todo list and the running job are still those that the tools had."""
    session, events = opened(policy, OPENAI_CHAT, window=4_096, notes=Notetaker(LIE)), list[Event]()
    for ready in played(session, OPENAI_CHAT, worked(60)):
        events += ready.events

    assert len(compactions(events)) >= 5
    assert session.log.checkpoint is not None
    assert "[in_progress] dock 1" in session.log.checkpoint.text
    assert RUNNING in session.log.checkpoint.text


@pytest.mark.parametrize(
    ("wire", "item"),
    [
        (OPENAI_CHAT, {"role": "system", "content": PROMPT}),
        (OPENAI_CHAT, {"role": "developer", "content": PROMPT}),
        (ANTHROPIC_MESSAGES, None),
        (GEMINI, None),
    ],
    ids=["system", "developer", "anthropic", "gemini"],
)
def test_i06_the_prompt_is_sent_as_it_is(wire: WireFormat, item: object) -> None:
    """S4.4: rules that stand in the system prompt are sent from there, unfolded and unsummarised, and are counted."""
    items = [*([] if item is None else [item]), *written(wire, story(30))]
    fitted = fit(items, window=4_096, format=wire.name, system=None if item else PROMPT)

    assert compactions(fitted.report.events)
    assert item is None or fitted.messages[0] is item
    assert fitted.report.overhead_tokens >= 10
    assert sum(PROMPT in str(message) for message in fitted.messages) == (item is not None)


def test_i06_the_users_language_is_kept() -> None:
    """B5: a summary in a language that is neither used nor English is rejected, and the user's own words stand instead."""
    asked = "请把解析器移植到新的接口，不要修改数据库结构。"
    french = Answer("Les fichiers ont été lus et il faut écrire les pages dans le dossier pour que les tests passent.")
    session, events = opened("infold", OPENAI_CHAT, notes=Notetaker(french)), list[Event]()
    for ready in played(session, OPENAI_CHAT, story(30, opening=asked)):
        events += ready.events

    assert any(isinstance(event, SummaryRejected) and "language" in event.faults for event in events)
    assert asked in told_of(ready)


def test_i06_a_past_approval_is_no_new_one() -> None:
    """B2, B26: a yes that was folded stands in the checkpoint, below the words that call it past, and nowhere else."""
    session = opened("infold", OPENAI_CHAT, window=4_096)
    granted = numbered([replies("May I delete them?"), user(APPROVAL)], prefix="a")
    later = numbered([replies("Deleted."), user("Now the parser.")], prefix="b")
    *_, ready = played(session, OPENAI_CHAT, (*story(1), *granted, *later, *story(30, prefix="c")[1:]))
    holding = [message for message in view(session.log, INFOLD.summary) if APPROVAL in str(message)]
    checkpoint = session.log.checkpoint

    assert checkpoint is not None
    assert [message.id for message in holding] == [f"checkpoint-{session.log.checkpoint_sequence}"]
    assert isinstance(holding[0], UserMessage)
    assert all(getattr(part, "synthetic", False) for part in holding[0].parts)
    assert checkpoint.text.index(OPENING) < checkpoint.text.index(APPROVAL)
    assert checkpoint.ledger.latest_request is not None
    assert APPROVAL not in checkpoint.ledger.latest_request.text
    assert told_of(ready).count(APPROVAL) == 1
