"""I5: the first genuine instruction and the latest one stand word for word; what programs wrote is never taken for them."""

import pytest
from tests.support.coding_session import RULES, coding_session
from tests.support.play import play

from infold.core.checkpoint_text import OPENING
from infold.core.compact import CONTINUE_TEXT
from infold.core.events import Event
from infold.core.messages import Message, is_genuine_user, text_of
from infold.core.view import REQUEST_TEXT
from infold.formats.registry import OPENAI_CHAT, WireFormat
from infold.testing.builders import log_of, numbered, replies, user

from .scenes import (
    REQUEST,
    Notetaker,
    compactions,
    each_preset,
    each_wire,
    infold_at,
    opened,
    played,
    story,
    told_of,
)

LATEST = "Good. Now write the notes for the pilots, and never more than a page of them."
INJECTED = (
    "# AGENTS.md instructions for /ferry\n\nAlways answer in verse, and never use tabs.",
    "<system-reminder>\nYou must keep the list of tasks up to date.\n</system-reminder>",
    "<environment_context>\n<cwd>/ferry</cwd>\n</environment_context>",
)
PAST = "it is a record of the past, not a new request"


def two_tasks(steps: int = 24) -> tuple[Message, ...]:
    """A harness's words, a first task with its work, then the last task with more work."""
    harness = numbered(map(user, INJECTED), prefix="h")
    between = numbered([replies("That is done.")], prefix="b")
    return (*harness, *story(steps), *between, *story(steps, opening=LATEST, prefix="n"))


@pytest.mark.slow
@each_wire
def test_i05_first_and_latest_stand_in_every_request(wire: WireFormat) -> None:
    """B2, B3: through five compactions and more, what the user first and last typed is in each request, word for word."""
    session, events = opened("infold", wire, window=4_096, notes=Notetaker()), list[Event]()
    was_said = False
    for ready in played(session, wire, two_tasks()):
        events += ready.events
        was_said = was_said or LATEST in told_of(ready)
        assert REQUEST in told_of(ready)
        assert not was_said or LATEST in told_of(ready)

    assert len(compactions(events)) >= 5
    assert session.log.checkpoint is not None
    ledger = session.log.checkpoint.ledger
    assert ledger.first_request is not None
    assert ledger.latest_request is not None
    assert (ledger.first_request.text, ledger.latest_request.text) == (REQUEST, LATEST)


@each_wire
def test_i05_injected_rules_are_not_the_users_words(wire: WireFormat) -> None:
    """B2, B26: what a harness put under the user's role is neither the first request nor a rule of the user's."""
    session = opened("infold", wire, window=4_096)
    list(played(session, wire, two_tasks()))
    checkpoint = session.log.checkpoint

    assert checkpoint is not None
    assert [quote.text for quote in checkpoint.ledger.requests] == [REQUEST, LATEST]
    assert not any("verse" in quote.text or "tasks" in quote.text for quote in checkpoint.ledger.constraints)


@each_preset
def test_i05_summaries_are_never_collected_as_the_users_text(name: str) -> None:
    """B3, B26: neither a summary, nor a compaction's request, nor its continue message becomes something the user asked for."""
    notes = Notetaker("The assistant must always build each part with make and never ask before it does so.")
    session, events = opened(name, OPENAI_CHAT, notes=notes), list[Event]()
    opening, *work = story(80)
    spoken = [numbered([replies("Built."), user(f"Now dock {n}.")], prefix=f"t{n}-") for n in range(40)]
    tasks = [message for n, turn in enumerate(spoken) for message in (*work[n * 4 : n * 4 + 4], *turn)]
    for ready in played(session, OPENAI_CHAT, [opening, *tasks]):
        events += ready.events
    checkpoint = session.log.checkpoint

    assert len(compactions(events)) >= 2
    assert checkpoint is not None
    asked = [quote.text for quote in checkpoint.ledger.requests]
    assert asked == [REQUEST, *(f"Now dock {n}." for n in range(len(asked) - 1))]
    for text in (*asked, *(quote.text for quote in checkpoint.ledger.constraints)):
        assert not any(own in text for own in ("must always build", CONTINUE_TEXT, REQUEST_TEXT, OPENING))


@pytest.mark.slow
@pytest.mark.parametrize("window", [8_192, 16_384, 32_768])
def test_i05_a_long_session_quotes_its_user_alone(window: int) -> None:
    """B2, B3: every quotation under the user's name in any checkpoint is what the user said, and every rule is there."""
    history = coding_session(largest_result_tokens=window // 8)
    typed = "\n".join(text_of(message) for message in history if is_genuine_user(message))
    for request in play(log_of(()), history, infold_at(window)):
        checkpoint = request.compaction.log.checkpoint
        if checkpoint is not None:
            ledger = checkpoint.ledger
            assert all(quote.text in typed for quote in (*ledger.requests, *ledger.constraints))
            assert checkpoint.text.count(OPENING) == 1
    sent = "\n".join(text_of(message) for message in request.request)

    assert [rule for rule in RULES if rule not in sent] == []


def test_i05_an_earlier_request_is_told_as_past() -> None:
    """B2: a request that was folded stands below the words that call it past, the first and the latest told apart."""
    session = opened("infold", OPENAI_CHAT, window=4_096)
    closing = numbered([replies("All is written."), user("And the harbour?")], prefix="c")
    *_, ready = played(session, OPENAI_CHAT, (*two_tasks(), *closing, *story(24, opening="x", prefix="y")[1:]))
    checkpoint = session.log.checkpoint

    assert checkpoint is not None
    text = checkpoint.text
    assert text.index(PAST) < text.index("first request") < text.index(REQUEST)
    assert text.index("latest request") < text.index("And the harbour?")
    assert text.index("Rules the user laid down") < text.index(LATEST.removeprefix("Good. "))
    assert text.index("Other requests") < text.index("- Good. …")
    assert told_of(ready).count(REQUEST) == 1
