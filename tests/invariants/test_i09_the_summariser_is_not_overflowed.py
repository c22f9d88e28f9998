"""I9: what is asked of a summariser fits its own window, answer included; where there is none to ask, code folds."""

import pytest

from infold import Session, SessionSettings
from infold.core.events import Event
from infold.core.judge import Answer
from infold.core.messages import Message
from infold.core.policy import INFOLD, Policy
from infold.formats.registry import OPENAI_CHAT
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, numbered, replies, result, user

from .scenes import (
    Notetaker,
    compactions,
    each_preset,
    each_way,
    opened,
    played,
    requested_tokens,
    story,
    told_of,
    written,
)

WORDS = "the part is built and all of it is well; "

HEADS: dict[str, list[Message]] = {
    "one long request": [user("Port the parser. " + WORDS * 3_000)],
    "long results": [draft for _ in range(20) for draft in (calls("bash"), result(output=WORDS * 400))],
    "long arguments": [
        draft for _ in range(20) for draft in (calls("write", arguments=f'{{"content": "{WORDS * 400}"}}'), result())
    ],
    "long errors": [draft for _ in range(20) for draft in (calls("bash"), result(output=WORDS * 400, status="error"))],
    "long replies": [draft for _ in range(10) for draft in (replies(WORDS * 600), user("go on"))],
    "long thoughts": [
        draft for _ in range(10) for draft in (replies(WORDS * 20, reasoning=WORDS * 900), user("go on"))
    ],
    "many words": [draft for n in range(600) for draft in (user(f"And part {n}?"), replies("It is built."))],
    "another script": [draft for _ in range(20) for draft in (user("请把解析器移植到新的接口。" * 150), replies("好"))],
    "no spaces": [draft for _ in range(20) for draft in (calls("bash"), result(output="x9f" * 6_000))],
}


def kept(notes: Notetaker, window: int, summariser_tokens: int, policy: Policy = INFOLD) -> Session:
    """A session with a summariser whose window is that large."""
    told = SessionSettings(
        window=window, policy=policy, summariser=notes, summariser_tokens=summariser_tokens, format="openai-chat"
    )
    return Session(MemoryStore(), "s", told)


@pytest.mark.slow
@pytest.mark.parametrize(("window", "summariser_tokens"), [(16_384, 8_192), (64_000, 16_000), (64_000, 32_000)])
@pytest.mark.parametrize("head", sorted(HEADS))
@each_way
def test_i09_every_request_fits_the_summariser(policy: Policy, head: str, window: int, summariser_tokens: int) -> None:
    """B8: whatever the head is made of, each request, with the answer it asks for, is within the summariser's window."""
    notes = Notetaker()
    session = kept(notes, window, summariser_tokens, policy)
    list(played(session, OPENAI_CHAT, numbered([*HEADS[head], user("go on")])))
    for _ in range(1 + policy.prune.enabled):  # the first may do with stubs
        session.compact()

    assert notes.asked
    assert max(map(requested_tokens, notes.asked)) <= summariser_tokens


@pytest.mark.parametrize("summariser_tokens", [3_000, 6_000, 8_192])
def test_i09_a_small_summariser_is_asked_for_little(summariser_tokens: int) -> None:
    """B8: the answer asked for is bounded by the summariser's own window too, and leaves room for the record."""
    notes = Notetaker()
    session = kept(notes, 64_000, summariser_tokens)
    session.prepare_new(written(OPENAI_CHAT, spoken(60)))
    session.compact()

    assert max(map(requested_tokens, notes.asked), default=0) <= summariser_tokens
    assert len(notes.asked) <= 20 or summariser_tokens < 8_192


@pytest.mark.slow
@each_preset
def test_i09_the_sessions_own_model_is_not_overflowed(name: str) -> None:
    """B8: where the session's own model summarises, each of its requests is within the session's window."""
    notes, window = Notetaker(), 16_384
    session, events = opened(name, OPENAI_CHAT, window=window, notes=notes), list[Event]()
    for ready in played(session, OPENAI_CHAT, spoken(60)):
        events += ready.events

    assert len(compactions(events)) >= 2
    assert max(map(requested_tokens, notes.asked)) <= window


def spoken(turns: int) -> tuple[Message, ...]:
    """Turns in which much is said and nothing called, so that pruning does not help; the last one is open."""
    drafts = [draft for n in range(turns) for draft in (user(f"And part {n}?"), replies(WORDS * 60))]
    return numbered([*drafts, user("And the last part?")])


@each_preset
@pytest.mark.parametrize("answer", [ConnectionError("down"), Answer("", "error"), Answer("It is " * 90, "length")])
def test_i09_a_summariser_that_fails_is_done_without(name: str, answer: Answer | Exception) -> None:
    """B10, B36: a model that never answers well is asked twice and then left alone, and code folds; the session goes on."""
    notes = Notetaker(answer)
    session, events = opened(name, OPENAI_CHAT, notes=notes), list[Event]()
    for ready in played(session, OPENAI_CHAT, spoken(40)):
        events += ready.events

    assert len(compactions(events)) >= 2
    assert len(notes.asked) == 2
    assert session.log.checkpoint is not None
    assert session.log.checkpoint.narrative == ""
    assert {"role": "user", "content": "And the last part?"} in ready.messages


def test_i09_no_model_is_needed() -> None:
    """B10: without any summariser a session of any length is folded by code alone."""
    session, events = opened("infold", OPENAI_CHAT, window=4_096), list[Event]()
    for ready in played(session, OPENAI_CHAT, story(60)):
        events += ready.events

    assert len(compactions(events)) >= 5
    assert "make part" in told_of(ready)
