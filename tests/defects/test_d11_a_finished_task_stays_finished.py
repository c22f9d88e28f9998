"""D11: nobody is told to go on after the work is done; a session that waits for its user keeps waiting."""

import pytest

from infold.core.compact import CONTINUE_TEXT, compact
from infold.core.events import Event
from infold.core.messages import Message
from infold.formats.registry import OPENAI_CHAT
from infold.testing.builders import calls, log_of, numbered, replies, result, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    Notetaker,
    compactions,
    conversation,
    infold_at,
    opened,
    played,
    story,
    told_of,
    written,
)

DONE = numbered([replies("All parts are ported, and every test passes.")], prefix="d")
ASKED = numbered([replies("Shall I delete the old ones too?")], prefix="d")


@pytest.mark.parametrize("closing", [DONE, ASKED], ids=["done", "asked"])
@pytest.mark.parametrize("has_model", [False, True], ids=["by code", "by a model"])
def test_d11_a_finished_turn_is_followed_by_nothing(closing: tuple[Message, ...], has_model: bool) -> None:
    """B21: compacted after its last word, a session ends with that word, and the user's next one follows it."""
    session = opened("infold", OPENAI_CHAT, window=64_000, notes=Notetaker() if has_model else None)
    session.prepare_new(written(OPENAI_CHAT, (*story(30), *closing)))
    compacted = session.compact()
    ready = session.prepare_new(written(OPENAI_CHAT, numbered([user("Thanks.")], prefix="t")))

    assert compacted.messages[-1] == written(OPENAI_CHAT, closing)[-1]
    assert ready.messages[-2:] == [*written(OPENAI_CHAT, closing), {"role": "user", "content": "Thanks."}]
    assert CONTINUE_TEXT not in told_of(ready)


def test_d11_an_automatic_compaction_says_nothing_either() -> None:
    """B21: through many compactions, in loops and between turns, a tail that tells how to go on is left to tell it."""
    session, events = opened("infold", OPENAI_CHAT, window=4_096, notes=Notetaker()), list[Event]()
    for ready in played(session, OPENAI_CHAT, (*story(20), *conversation(20))):
        events += ready.events
        assert CONTINUE_TEXT not in told_of(ready)

    assert len(compactions(events)) >= 5


HUGE = f'{{"a": [{", ".join(["12345"] * 3_000)}]}}'


@pytest.mark.parametrize(
    ("newest", "goes_on"),
    [
        ([calls("write", arguments=HUGE), result()], True),
        ([replies("It is written.", reasoning="I see. " * 3_000)], False),
        ([replies("Shall I go on?", reasoning="I see. " * 3_000)], False),
    ],
    ids=["under way", "done", "asked"],
)
def test_d11_only_work_under_way_is_taken_up(newest: list[Message], goes_on: bool) -> None:
    """B21: where even the newest step had to be folded, the model is told to go on if it was at work, and only then."""
    compaction = compact(log_of(numbered([user("Port it."), *newest])), infold_at(2_048))
    said = [str(placed.message) for placed in compaction.log.live]

    assert compactions(compaction.events)
    assert any(CONTINUE_TEXT in text for text in said) is goes_on


def test_d11_a_wish_is_not_work() -> None:
    """B20, B21: a compaction that a person asked for adds nothing, even in the midst of work."""
    session = opened("infold", OPENAI_CHAT, window=64_000, notes=Notetaker())
    session.prepare_new(written(OPENAI_CHAT, story(30)))

    assert CONTINUE_TEXT not in told_of(session.compact())
