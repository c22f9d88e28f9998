"""D15: who summarises the head is shown how the work went on, so that nothing finished is written down as still to do."""

import json

from infold.core.messages import Message
from infold.formats.wire import OPENAI_CHAT
from infold.testing.builders import calls, numbered, replies, result, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    Notetaker,
    each_preset,
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
    session = opened("infold", OPENAI_CHAT, window=64_000, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, worked()))
    ready = session.compact()
    record, _, later = notes.shown.partition("</record>")

    assert CLOSING in told_of(ready)
    assert CLOSING not in record
    assert CLOSING in later
    assert "what is settled in it is no longer open" in later
    assert '"completed"' in later


@each_preset
def test_d15_what_is_kept_is_shown_in_every_preset(name: str) -> None:
    """B5: wherever a tail is kept verbatim, the end of it stands in what the summariser is shown."""
    notes = Notetaker()
    session = opened(name, OPENAI_CHAT, window=64_000, notes=notes)
    turns = [draft for n in range(12) for draft in (user(f"Part {n}?"), replies(f"Part {n} is done. " * 200))]
    session.prepare_new(written(OPENAI_CHAT, numbered([*turns, user("Is the ferry in?"), replies(CLOSING)])))
    session.compact()

    assert CLOSING in notes.shown


def test_d15_the_tail_is_shown_briefly() -> None:
    """B8: of a long tail the summariser is shown the beginning and the end, not all of it over again."""
    notes = Notetaker()
    session = opened("infold", OPENAI_CHAT, window=200_000, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, story(300)))
    session.compact()
    later = notes.shown.partition("<later>")[2].partition("</later>")[0]

    assert 0 < len(later) < 8_000
    assert "part 299 is fine." in later
