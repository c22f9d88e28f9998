"""Server-sent events out of bytes in any pieces."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.formats.streams import SseEvent, SseReader


def events(*pieces: bytes, most_bytes: int = 10_000) -> list[SseEvent]:
    """What a reader makes of these pieces."""
    reader = SseReader(most_bytes)
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_is_one(end: bytes) -> None:
    """Line feed, return, and both together end a line and, doubled, an event."""
    stream = end.join([b"event: ping", b"data: 1", b"", b"data: 2", b"", b""])

    assert events(stream) == [SseEvent("1", "ping"), SseEvent("2")]
    assert events(*(stream[at : at + 1] for at in range(len(stream)))) == [SseEvent("1", "ping"), SseEvent("2")]


def test_an_event_is_told_at_once() -> None:
    """A return ends the line without waiting for the line feed that may follow, and that ends nothing more."""
    reader = SseReader()

    assert reader.feed(b"data: 1\r\r") == [SseEvent("1")]
    assert reader.feed(b"") == []
    assert reader.feed(b"\ndata: 2\r\n\r") == [SseEvent("2")]
    assert reader.feed(b"\n") == []


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (b": hello\n\ndata: 1\n: more\n\n", [SseEvent("1")]),
        (b"data: a\ndata: b\ndata\n\n", [SseEvent("a\nb\n")]),
        (b"data:a\n\ndata:  b\n\n", [SseEvent("a"), SseEvent(" b")]),
        (b"event: named\n\ndata: 1\n\n", [SseEvent("1")]),
        (b"id: 7\nretry: 10\nunknown: x\nalone\ndata: 1\n\n", [SseEvent("1")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [SseEvent("1")]),
        (b"data: a\xffb\n\n", [SseEvent("a\ufffdb")]),
        (b"data: 1\n", []),
        (b"\n\n\n", []),
    ],
)
def test_fields_are_read_as_the_standard_says(stream: bytes, told: list[SseEvent]) -> None:
    """Comments and unknown fields say nothing, data lines are joined, an event without data is none."""
    assert events(stream) == told


def test_a_character_may_be_split() -> None:
    """Bytes are put together before they are text."""
    stream = 'data: {"text": "☕ naïve 請"}\n\n'.encode()

    for at in range(len(stream)):
        assert events(stream[:at], stream[at:]) == [SseEvent('{"text": "☕ naïve 請"}')]


def test_too_large_an_event_is_passed_over_and_told() -> None:
    """A line, or lines together, over the cap are not kept; the next event is read as ever."""
    reader = SseReader(most_bytes=20)
    long = [b"data: " + b"x" * 8, b"x" * 9, b"x" * 9, b"\n", b"data: 1\n\n"]

    assert [event for piece in long for event in reader.feed(piece)] == []
    assert reader.dropped == 1
    assert reader.feed(b"data: 2\n\ndata: 123456\ndata: 1234567\n\ndata: 3\n\n") == [SseEvent("2"), SseEvent("3")]
    assert reader.dropped == 2


def test_nothing_grows_without_end() -> None:
    """A line that never ends costs no more than the cap, and a long stream of comments costs nothing."""
    reader = SseReader(most_bytes=1_000)
    for _ in range(1_000):
        reader.feed(b"x" * 100)
    assert len(reader._line) <= 1_000
    reader.feed(b"\n\n" + b": still here\n" * 1_000 + b"data: 1\n")

    assert reader.close() == [SseEvent("1")]


def test_the_last_event_may_lack_its_empty_line() -> None:
    """Closing gives what a server did not end properly, and nothing the second time."""
    reader = SseReader()
    reader.feed(b"data: [DONE]")

    assert reader.close() == [SseEvent("[DONE]")]
    assert reader.close() == []


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"data: ", b"event: x", b":", b"\n", b"\r", b"\r\n", b"\xe2\x98\x95", b"12", b"\xff"])),
    st.lists(st.integers(0, 60)),
    st.integers(1, 40),
)
def test_splitting_changes_nothing(tokens: list[bytes], cuts: list[int], most_bytes: int) -> None:
    """However a stream is split, its events are the same."""
    stream = b"".join(tokens)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(edges)]

    assert events(*pieces, most_bytes=most_bytes) == events(stream, most_bytes=most_bytes)
