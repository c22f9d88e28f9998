"""D1: after two compactions close together the newer summary alone speaks, and is what the next one starts from."""

import pytest

from infold.core.messages import Message, SessionId
from infold.core.policy import INFOLD, preset
from infold.core.view import filter_compacted, view
from infold.formats.registry import OPENAI_CHAT
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import replies, requests_compaction, session, summary, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    Notetaker,
    conversation,
    each_preset,
    opened,
    told_of,
    written,
)

FIRST = "First notes: the parser was ported part by part, and each of the parts was built."
SECOND = "Second notes: the parser was ported part by part, and the quay was looked at too."
THIRD = "Third notes: the parser was ported part by part, and the harbour is open again."


def recorded(*, kept: str) -> tuple[Message, ...]:
    """A session with two compactions recorded as messages, the second of which keeps a tail from before the first."""
    log = session(
        *(draft for number in range(3) for draft in (user(f"question {number}"), replies(f"answer {number}"))),
        requests_compaction(first_kept_id="m2"),
        summary(FIRST),
        user("question 3"),
        replies("answer 3"),
        requests_compaction(first_kept_id=kept),
        summary(SECOND),
        user("question 4"),
    )
    return filter_compacted(log)


@pytest.mark.parametrize(("kept", "tail"), [("m2", 9), ("m4", 7), ("m8", 5)])
def test_d01_a_tail_from_before_the_last_marker_does_not_bring_it_back(kept: str, tail: int) -> None:
    """S4.1, B3: the newest request and summary come first, then the tail in order, with no older pair among it."""
    told = recorded(kept=kept)

    assert len(told) == tail
    assert [SECOND in str(message) for message in told] == [False, True, *[False] * (tail - 2)]
    assert not any(FIRST in str(message) for message in told)
    assert [str(message.id) for message in told[2:]] == sorted((str(message.id) for message in told[2:]), key=_number)


def _number(name: str) -> int:
    return int(name.removeprefix("m"))


@each_preset
def test_d01_the_newest_notes_are_the_anchor(name: str) -> None:
    """B3: each summariser is given the notes before its own, once, and none that are older."""
    notes = Notetaker(FIRST, SECOND, THIRD)
    session_ = opened(name, OPENAI_CHAT, window=1_000_000, notes=notes)
    told: list[str] = []
    for number in range(3):
        session_.prepare_new(written(OPENAI_CHAT, conversation(30, prefix=f"r{number}-")))
        told.append(told_of(session_.compact()))

    assert [[own in text for own in (FIRST, SECOND, THIRD)] for text in told] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]
    asked = [str(request.messages) for request in notes.asked]
    assert [text.count("First notes") for text in asked] == [0, 1, 0]
    assert [text.count("Second notes") for text in asked] == [0, 0, 1]


@each_preset
def test_d01_one_right_after_the_other_keeps_a_single_summary(name: str) -> None:
    """B3, B29: compacted twice with next to nothing in between, and read back, a session shows at most one summary."""
    store = MemoryStore()
    session_ = opened(name, OPENAI_CHAT, window=1_000_000, store=store, notes=Notetaker(FIRST, SECOND))
    session_.prepare_new(written(OPENAI_CHAT, conversation(30)))
    session_.compact()
    session_.prepare_new(written(OPENAI_CHAT, conversation(2, prefix="n")))
    told = told_of(session_.compact())
    again = opened(name, OPENAI_CHAT, window=1_000_000, store=store)

    assert (FIRST in told, SECOND in told) == (False, True)
    assert view(again.log, preset(name).summary) == view(session_.log, preset(name).summary)
    assert len(list(store.newest_first(SessionKey("", SessionId("s"))))) > 100


def test_d01_with_nothing_new_the_summary_stays() -> None:
    """B3, S4.5: compacted again at once, a session whose turns are all kept still has the summary it had."""
    session_ = opened("turn-window", OPENAI_CHAT, window=64_000, notes=Notetaker(FIRST))
    session_.prepare_new(written(OPENAI_CHAT, conversation(40, tokens=12, reply_tokens=900)))

    assert FIRST in told_of(session_.compact())
    assert FIRST in told_of(session_.compact())


def test_d01_what_only_the_newer_notes_knew_is_carried_on() -> None:
    """B3, B10: where code folds next, the newest narrative stands in its text word for word."""
    store = MemoryStore()
    session_ = opened("infold", OPENAI_CHAT, window=64_000, store=store, notes=Notetaker(FIRST, SECOND))
    for number in range(2):
        turns = conversation(40, tokens=12, reply_tokens=900, prefix=f"r{number}-")
        session_.prepare_new(written(OPENAI_CHAT, turns))
        session_.compact()
    again = opened("infold", OPENAI_CHAT, window=64_000, store=store)
    again.prepare_new(written(OPENAI_CHAT, conversation(40, tokens=12, reply_tokens=900, prefix="z")))
    told = told_of(again.compact())

    assert SECOND in told
    assert FIRST not in told
    assert view(again.log, INFOLD.summary)[0].id.startswith("checkpoint-")
