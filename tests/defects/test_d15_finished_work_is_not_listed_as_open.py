"""D15: who summarises the head is shown how the work went on, so that nothing finished is written down as still to do."""

import json

import pytest
from tests.support.policies import FOLDS

from infold.core.compact import compact
from infold.core.messages import Message, text_of
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import calls, log_of, numbered, replies, result, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    Notetaker,
    infold_at,
    opened,
    story,
    told_of,
    written,
)

CLOSING = "All parts are ported, and the twelve checks of the quay have passed."


def worked() -> tuple[Message, ...]:
    """A list of tasks that is open at first and done at the end, with much work in between."""
    return (
        *numbered([user("Port the quay."), todo("in_progress"), result(output="Noted.")], prefix="a"),
        *story(30)[1:],
        *numbered([todo("completed"), result(output="Noted."), replies(CLOSING), user("And now?")], prefix="z"),
    )


def todo(state: str) -> Message:
    """A call that writes the list of tasks."""
    return calls("todo_write", arguments=json.dumps({"todos": [{"content": "port the quay", "status": state}]}))


def test_d15_the_summariser_sees_how_it_went_on() -> None:
    """B5: what was settled after the cut is shown to it, apart from the record, with the word that it is settled."""
    notes = Notetaker()
    session = opened(FOLDS, OPENAI_CHAT, window=64_000, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, worked()))
    ready = session.compact()
    record, _, later = notes.shown.partition("</record>")

    assert CLOSING in told_of(ready)
    assert CLOSING not in record
    assert CLOSING in later
    assert "what is settled in it is no longer open" in later
    assert '"completed"' in later


def test_d15_the_ledger_lists_nothing_that_the_tail_settled() -> None:
    """B4: a task that the kept tail shows done, and a check that it shows passed, are not told as open by code either."""
    check = calls("bash", arguments='{"command": "make check"}')
    log = log_of(
        numbered(
            [
                user("Port the quay."),
                *(todo("in_progress"), result(output="Noted.")),
                *(check, result(output="1 failed", status="error")),
                *(draft for _ in range(20) for draft in (calls("bash", arguments='{"command": "make"}'), result(800))),
                *(check, result(output="12 passed")),
                *(todo("completed"), result(output="Noted.")),
                replies(CLOSING),
            ]
        )
    )
    checkpoint = compact(log, infold_at(6_000)).log.checkpoint

    assert checkpoint is not None
    assert "[in_progress]" not in checkpoint.text
    assert "Errors not seen to be settled" not in checkpoint.text


@pytest.mark.parametrize("name", ["infold", "opencode-1.1.23", "opencode-1.1.57", "proactive"])
def test_d15_what_is_kept_is_shown(name: str) -> None:
    """B5, S3.4: what is kept verbatim is shown to the summariser too; 1.18 and 003 show it nothing but what is folded."""
    notes = Notetaker()
    session = opened(name, OPENAI_CHAT, window=64_000, notes=notes)
    turns = [draft for n in range(12) for draft in (user(f"Part {n}?"), replies(f"Part {n} is done. " * 200))]
    session.prepare_new(written(OPENAI_CHAT, numbered([*turns, user("Is the ferry in?"), replies(CLOSING)])))
    session.compact()

    assert any(CLOSING in text_of(message) for request in notes.asked for message in request.messages)


def test_d15_the_tail_is_shown_briefly() -> None:
    """B8: of a long tail the summariser is shown the beginning and the end, not all of it over again."""
    notes = Notetaker()
    session = opened("infold", OPENAI_CHAT, window=200_000, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, story(300)))
    session.compact()
    later = notes.shown.partition("<later>")[2].partition("</later>")[0]

    assert 0 < len(later) < 8_000
    assert "part 299 is fine." in later
