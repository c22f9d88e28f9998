"""Entries and handles: the records of a log and their stored form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.entries import (
    Checkpoint,
    Clip,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Pruning,
    Restoration,
    Title,
    decode_entry,
    encode_entry,
    handle_of,
    split_handle,
)
from infold.core.ledger import Ledger, Quote
from infold.core.messages import SystemMessage
from infold.errors import UndecodableLog
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, summary, user

MESSAGES = numbered([user("hé 你好"), calls("bash", "read"), result(5), replies(), requests_compaction(), summary()])


@pytest.mark.parametrize(
    "entry",
    [
        *(MessageEntry(message) for message in MESSAGES),
        MessageEntry(SystemMessage(MESSAGES[0].id, ())),
        Pruning((Handle("1.0"), Handle("3.1")), 900, pruned_ms=12),
        Clipping((Clip(Handle("2.0"), 10, 20),), clipped_ms=13),
        Checkpoint("text", 3, "manual", Ledger(constraints=(Quote("0.0", "never"),)), created_ms=1),
        Restoration(4),
        Pin(Handle("0.0"), pinned=False),
        Title("Mend the kite"),
        Title("放风筝", MESSAGES[0].id),
    ],
)
def test_an_entry_is_read_back_as_it_was_written(entry: Entry) -> None:
    """B1: decoding the stored form of an entry gives the same entry."""
    stored = encode_entry(entry)

    assert decode_entry(stored) == entry
    assert b"\n" not in stored


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{",
        b"[]",
        b'{"entry":"erasure"}',
        b'{"entry":"restoration"}',
        b"\xff\xfe",
        b'{"entry":"restoration","sequence":"1"}',
    ],
)
def test_other_bytes_are_refused_with_a_remedy(stored: bytes) -> None:
    """Bytes that are no entry raise the typed error, which says what to do."""
    with pytest.raises(UndecodableLog, match="convert a foreign transcript first"):
        decode_entry(stored)


def test_nesting_beyond_measure_is_refused_too() -> None:
    """A hostile record nested thousands deep is an undecodable log, not a crash."""
    with pytest.raises(UndecodableLog):
        decode_entry(b'{"entry":"message","message":' + b"[" * 200_000)


@given(st.integers(min_value=0), st.integers(min_value=0))
def test_a_handle_names_its_part(sequence: int, position: int) -> None:
    """A handle gives back the message number and the position that it was made of."""
    assert split_handle(handle_of(sequence, position)) == (sequence, position)


@pytest.mark.parametrize("text", ["", "3", "3.", ".1", "-1.0", "a.b", "1.2.3", "1 .2"])
def test_what_is_no_handle_names_nothing(text: str) -> None:
    """Text that is no handle is split into numbers that no part has."""
    assert split_handle(text) == (-1, -1)
