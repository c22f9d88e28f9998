"""I14: media count wherever they stand, the oldest go first and are told of, and no checkpoint carries their bytes."""

from typing import Any

import pytest

from infold import Window, fit
from infold.core.entries import Checkpoint, encode_entry
from infold.core.events import Event
from infold.core.messages import FilePart, Message, SessionId, ToolResultPart, results_of
from infold.core.tokens import measure_part
from infold.formats.overflow import recognise
from infold.formats.registry import ANTHROPIC_MESSAGES
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore

from .scenes import Notetaker, compactions, opened, told_of

PICTURES = 24
BYTES = "iVBORw0KGgoAAAANSUhEUgAABAAAAAMA"
"""The beginning of a picture of 1,024 by 768 pixels, which costs 1,049 tokens."""


def turn(number: int, *, has_question: bool = True) -> list[dict[str, Any]]:
    """A question, with a picture or without one, a step whose answer is a picture, and a reply."""
    asked, shown = ({"type": "image", "source": _source(f"{number:02}{kind}")} for kind in "QA")
    call = {"type": "tool_use", "id": f"c{number}", "name": "screenshot", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": [shown]}
    return [
        {
            "role": "user",
            "content": [{"type": "text", "text": f"Like this one, number {number}?"}, *[asked] * has_question],
        },
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [answer]},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes, like this one."}]},
    ]


def _source(mark: str) -> dict[str, str]:
    return {"type": "base64", "media_type": "image/png", "data": BYTES + mark * 2_000}


def shown_in(items: object, kind: str = "Q") -> list[int]:
    """The numbers of the turns of which a request holds the question's picture, or the answer's."""
    text = str(items)
    return [number for number in range(PICTURES) if f"{number:02}{kind}" * 2 in text]


def test_i14_media_inside_results_count() -> None:
    """B8: a picture that a tool gave takes as much of the window as one that a person gave."""
    picture = FilePart("image/png", 1_049)
    bare, full = (ToolResultPart("c", "screenshot", "", files=files) for files in ((), (picture,)))

    assert measure_part(full, "features") - measure_part(bare, "features") == measure_part(picture, "features") == 1_049
    fitted = fit([item for number in range(4) for item in turn(number)], window=100_000)
    assert 8 * 1_049 < fitted.report.tokens_after < 8 * 1_200


@pytest.mark.parametrize("window", [4_096, 8_192, 16_384])
@pytest.mark.parametrize("has_question", [True, False], ids=["everywhere", "in answers"])
def test_i14_the_oldest_media_go_first(window: int, has_question: bool) -> None:
    """B8: whatever of a long session with pictures still fits, folded or pruned, it is the newest ones."""
    items = [item for number in range(PICTURES) for item in turn(number, has_question=has_question)]
    for length in range(4, len(items) + 1, 4):
        fitted = fit(items[: length - 1], window=window)
        newest = length // 4 - 1
        for kind in "QA" if has_question else "A":
            shown = shown_in(fitted.messages, kind)
            assert shown == list(range(shown[0] if shown else newest + 1, newest + 1))

    assert 0 < len(shown) < PICTURES


def test_i14_media_that_went_are_told_of() -> None:
    """B22, B25: the report names each picture that left by the caller's own item, which is as it was."""
    items = [item for number in range(PICTURES) for item in turn(number)]
    fitted = fit(items, window=16_384)
    gone = [number for number in range(PICTURES) if number not in shown_in(fitted.messages)]

    assert gone
    assert {left.index for left in fitted.report.left if left.what == "file"} >= {4 * number for number in gone}
    assert shown_in(items) == list(range(PICTURES))


def test_i14_no_checkpoint_carries_their_bytes() -> None:
    """B8: neither what a summariser is asked nor what stands for the folded head holds a medium's bytes."""
    store, notes = MemoryStore(), Notetaker("The pictures were looked at one by one, and each one was like the last.")
    session, events = opened("infold", ANTHROPIC_MESSAGES, store=store, notes=notes), list[Event]()
    for number in range(PICTURES):
        ready = session.prepare_new(turn(number)[:3])
        session.prepare_new(turn(number)[3:])
        events += ready.events
    folded = [entry for _, entry in store.newest_first(SessionKey("", SessionId("s"))) if isinstance(entry, Checkpoint)]

    assert len(compactions(events)) >= 3
    assert BYTES not in notes.shown
    assert all(BYTES.encode() not in encode_entry(entry) for entry in folded)
    assert max(len(encode_entry(entry)) for entry in folded) < 20_000
    assert shown_in(told_of(ready))[-1] == PICTURES - 1


@pytest.mark.parametrize("most_bytes", [20_000, 60_000, 200_000])
def test_i14_bytes_are_limited_as_tokens_are(most_bytes: int) -> None:
    """B8: a request whose tokens fit still sheds its oldest media until its bytes do, and keeps every word."""
    items = [item for number in range(PICTURES) for item in turn(number)]
    fitted = fit(items, window=Window(1_000_000, request_bytes=most_bytes))
    sent = [part for message in fitted.report.sent for part in (*message.parts, *files_of(message))]
    weight = sum(part.byte_size for part in sent if isinstance(part, FilePart))
    shown = shown_in(fitted.messages)

    assert 0.5 * most_bytes < weight <= most_bytes
    assert shown == list(range(PICTURES - len(shown), PICTURES))
    assert str(fitted.messages).count("Like this one, number") == PICTURES
    assert {type(event).__name__ for event in fitted.report.events} == {"Clipped"}


def files_of(message: Message) -> list[FilePart]:
    """The media inside a message's tool results."""
    return [file for part in results_of(message) for file in part.files]


def test_i14_a_refusal_for_bytes_is_recovered_from() -> None:
    """B7, B8: a provider that refuses a request's bytes is sent about half of them next, the oldest media left out."""
    session = opened("infold", ANTHROPIC_MESSAGES, window=200_000)
    before = session.prepare_new([item for number in range(PICTURES) for item in turn(number)[:3]])
    after = session.recover({"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}})

    assert after is not None
    shown = shown_in(after.messages)
    assert 0 < len(shown) <= len(shown_in(before.messages)) // 2 + 1
    assert shown[-1] == PICTURES - 1
    assert {type(event).__name__ for event in after.events} == {"Clipped"}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (413, ""),
        (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
        (400, {"error": {"message": "Request body too large"}}),
    ],
)
def test_i14_a_refusal_for_bytes_is_told_from_one_for_tokens(status: int, body: Any) -> None:
    """B8, B11: a provider that refuses a request's bytes is not taken to have counted its tokens."""
    found = recognise(status, body)

    assert found is not None
    assert found.bytes_limit
    assert found.limit_tokens is None
