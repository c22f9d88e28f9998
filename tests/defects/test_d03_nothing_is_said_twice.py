"""D3: after a reported overflow the next request is smaller, fits what was told, and says nothing twice."""

import pytest

from infold.core.events import Compacted, Event, Pruned, Rejected
from infold.core.policy import PRESETS
from infold.errors import WindowExceeded
from infold.formats.registry import OPENAI_CHAT, WireFormat
from infold.testing.builders import numbered, user

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    REQUEST,
    Notetaker,
    conversation,
    each_preset,
    each_wire,
    opened,
    story,
    told_of,
    written,
)

REFUSALS = (
    "prompt is too long: 13462 tokens > 9000 maximum",
    "This model's maximum context length is 9000 tokens. However, your messages resulted in 13462 tokens.",
    "Input token count (13462) exceeds the maximum number of tokens allowed (9000)",
)


@each_wire
@pytest.mark.parametrize("refusal", REFUSALS)
def test_d03_the_users_message_stands_once(wire: WireFormat, refusal: str) -> None:
    """B7: what the user asked is neither repeated after its own work nor put behind it."""
    session = opened("infold", wire, window=200_000, notes=Notetaker())
    session.prepare_new(written(wire, story(24)))
    ready = session.recover(refusal)

    assert ready is not None
    assert told_of(ready).count(REQUEST) == 1
    assert told_of(ready).index(REQUEST) < told_of(ready).index("part 23 is fine.")


@each_preset
def test_d03_the_next_request_is_smaller_and_fits(name: str) -> None:
    """B7, B11: what was refused is not sent again: the turn is folded or pruned until it is below what the provider told."""
    session = opened(name, OPENAI_CHAT, window=200_000, notes=Notetaker())
    before = session.prepare_new(written(OPENAI_CHAT, conversation(40)))
    ready = session.recover(REFUSALS[0])

    assert ready is not None
    assert any(isinstance(event, Compacted | Pruned) for event in ready.events)
    assert len(told_of(ready)) < 0.8 * len(told_of(before))
    assert ready.gauge.upper_tokens <= 9_000
    assert told_of(ready).count("And the last part?") == 1 or name == "opencode-1.1.23"


def test_d03_a_second_refusal_is_told_not_tried_again() -> None:
    """B8, B9: a request that is refused twice in a row ends in an error with numbers; a reply in between forgives."""
    session = opened("infold", OPENAI_CHAT, window=200_000)
    session.prepare_new(written(OPENAI_CHAT, story(24)))
    session.recover(REFUSALS[0])
    with pytest.raises(WindowExceeded):
        session.recover(REFUSALS[0])
    session.record({"choices": [{"message": {"role": "assistant", "content": "Well."}, "finish_reason": "stop"}]})
    session.prepare_new(written(OPENAI_CHAT, [*numbered([user("More.")], prefix="u"), *story(30, prefix="n")[1:]]))

    assert session.recover("prompt is too long: 9100 tokens > 6000 maximum") is not None


def test_d03_another_failure_is_not_taken_for_an_overflow() -> None:
    """B11: a refusal for pace, or for anything else, changes nothing."""
    session = opened("infold", OPENAI_CHAT, window=200_000)
    before = session.prepare_new(written(OPENAI_CHAT, story(24)))

    assert session.recover("Too many tokens per minute (TPM): Limit 30000, Requested 41000. Please wait.") is None
    assert session.prepare_new([]).messages == before.messages


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"turn-window"}))
def test_d03_a_refusal_is_learned_from(name: str) -> None:
    """B8, B11: after one refusal the session keeps below the limit it was told, without being refused again."""
    events: list[Event] = []
    session = opened(name, OPENAI_CHAT, window=200_000, events=events)
    session.prepare_new(written(OPENAI_CHAT, conversation(40)))
    session.recover(REFUSALS[0])
    for number in range(12):
        turn = conversation(2, prefix=f"n{number}-")
        assert session.prepare_new(written(OPENAI_CHAT, turn)).gauge.upper_tokens <= 9_000

    assert sum(isinstance(event, Rejected) for event in events) == 1
