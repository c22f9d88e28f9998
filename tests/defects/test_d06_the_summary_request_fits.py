"""D6: what is asked of a summariser is bounded before it is sent, thoughts, arguments and errors included."""

import pytest

from infold import Session, SessionSettings
from infold.core.events import Event
from infold.core.judge import Answer
from infold.core.messages import Message
from infold.core.summary_request import SummaryRequest
from infold.formats.registry import OPENAI_CHAT
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, numbered, replies, result, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    GOOD_NOTES,
    Notetaker,
    compactions,
    conversation,
    requested_tokens,
    told_of,
    written,
)

SUMMARISER_TOKENS = 8_192
HUGE = "the tide comes in and the tide goes out; " * 4_000
HEADS: dict[str, list[Message]] = {
    "one huge argument": [calls("write", arguments=f'{{"content": "{HUGE}"}}'), result()],
    "one huge result": [calls("bash"), result(output=HUGE)],
    "one huge error": [calls("bash"), result(output=HUGE, status="error")],
    "one huge thought": [replies("Well.", reasoning=HUGE)],
    "one huge reply": [replies(HUGE)],
    "one huge question": [user(HUGE)],
}


def kept(notes: object, events: list[Event] | None = None) -> Session:
    """A session of 16k with a summariser of its own, which holds half of that."""
    told = SessionSettings(
        window=16_384,
        summariser=notes,  # type: ignore[arg-type]  # any callable will do
        summariser_tokens=SUMMARISER_TOKENS,
        format="openai-chat",
        on_event=None if events is None else events.append,
    )
    return Session(MemoryStore(), "s", told)


@pytest.mark.parametrize("head", sorted(HEADS))
def test_d06_one_huge_part_is_bounded_or_divided(head: str) -> None:
    """B8: a single part many times the summariser's window never makes a request over it."""
    notes = Notetaker()
    session = kept(notes)
    session.prepare_new(written(OPENAI_CHAT, numbered([user("Port it."), *HEADS[head]])))
    session.prepare_new(written(OPENAI_CHAT, conversation(20, prefix="n")))
    session.compact()

    assert notes.asked
    assert max(map(requested_tokens, notes.asked)) <= SUMMARISER_TOKENS


def test_d06_long_notes_do_not_crowd_out_the_record() -> None:
    """B3, B8: notes as long as they may be, given to the next summariser again and again, still leave a request that fits."""
    notes = Notetaker("The tide comes in and the tide goes out. " * 60)
    session = kept(notes)
    for number in range(6):
        turns = conversation(12, tokens=12, reply_tokens=900, prefix=f"r{number}-")
        session.prepare_new(written(OPENAI_CHAT, turns))
        session.compact()

    assert len(notes.asked) >= 6
    assert max(map(requested_tokens, notes.asked)) <= SUMMARISER_TOKENS


class Narrow(Notetaker):
    """A summariser that refuses what is over a window nobody told us of."""

    window_tokens = 4_000

    def __call__(self, request: SummaryRequest) -> str | Answer:
        """Answer what fits, and refuse the rest as a provider would."""
        self.asked.append(request)
        if requested_tokens(request) > self.window_tokens:
            raise ValueError(f"prompt is too long: {requested_tokens(request)} tokens > {self.window_tokens} maximum")
        return GOOD_NOTES


def test_d06_a_refused_request_is_made_smaller() -> None:
    """B8, B10: a summariser that refuses a request as too large is asked in smaller pieces, not given up."""
    notes, events = Narrow(), list[Event]()
    session = kept(notes, events)
    session.prepare_new(written(OPENAI_CHAT, conversation(12, tokens=12, reply_tokens=900)))
    told = told_of(session.compact())

    assert GOOD_NOTES in told
    assert [event.outcome for event in compactions(events)][-1] == "summarised"
    assert requested_tokens(notes.asked[0]) > Narrow.window_tokens >= requested_tokens(notes.asked[-1])
