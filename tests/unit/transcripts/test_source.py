"""Bytes that are empty, binary, damaged, hostile or merely large."""

import gzip
import io
import sqlite3
from pathlib import Path

import pytest

from infold.errors import BrokenInput
from infold.transcripts.registry import read_bytes, read_transcript
from infold.transcripts.source import BOUNDS, Bounds, Source

USER = b'{"type":"message","message":{"role":"user","content":"%s"}}\n'


def records(data: bytes, bounds: Bounds = BOUNDS) -> tuple[list[int], list[str]]:
    """The lines that were read, and the reasons for the others."""
    source = Source(io.BytesIO(data), name="x", bounds=bounds)
    found = [record.line for record in source.records()]
    return found, [skip.reason for skip in source.issues.skipped()]


def test_noise_between_records_is_passed_over() -> None:
    """Lines that are no JSON, or no object, are told; blank ones are not."""
    found, reasons = records(b'{"a":1}\n\nnoise\n[1]\n{"a":2}\n')

    assert found == [1, 5]
    assert reasons == ["a line is not JSON (cut off, or not part of the record)", "a line is JSON but not an object"]


def test_a_cut_off_last_line_costs_only_itself() -> None:
    """All lines before a truncated one are read."""
    found, reasons = records(b'{"a":1}\n{"a":2}\n{"a":')

    assert found == [1, 2]
    assert len(reasons) == 1


def test_a_line_nested_too_deep_is_skipped() -> None:
    """Depth is no reason to fail: the other lines are read."""
    found, reasons = records(b'{"a":1}\n' + b"[" * 100_000 + b'\n{"a":2}\n')

    assert found == [1, 3]
    assert reasons == ["a line holds JSON nested too deep"]


def test_a_document_nested_too_deep_is_broken() -> None:
    """A document of mere depth is a typed error, not a crash."""
    with pytest.raises(BrokenInput, match="nested too deep"):
        read_bytes(b"[" * 100_000, name="deep.json")


def test_a_line_beyond_the_bound_is_skipped() -> None:
    """A line longer than the bound is told and let go; what follows is read."""
    content = b'{"a":1}\n{"a":"' + b"x" * 5000 + b'"}\n{"a":2}\n'
    found, reasons = records(content, Bounds(line_bytes=1000))

    assert found == [1, 3]
    assert "longer than 1,000 bytes" in reasons[0]


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    """Bad bytes become U+FFFD, and that is noted as a repair."""
    transcript = read_bytes(USER % b"caf\xff", name="pi.jsonl", format="pi")

    assert transcript.sessions[0].messages[0].parts[0].text == "caf\ufffd"  # type: ignore[union-attr]
    assert [skip.repaired for skip in transcript.skipped] == [True]


def test_lone_surrogates_are_replaced() -> None:
    """Half a character becomes U+FFFD; a whole pair stays."""
    transcript = read_bytes(USER % rb"\ud800 and \ud83d\ude00", name="pi.jsonl", format="pi")

    assert transcript.sessions[0].messages[0].parts[0].text == "\ufffd and \U0001f600"  # type: ignore[union-attr]


def test_numbers_that_json_forbids_are_read() -> None:
    """NaN, which Python programs write, does not lose the line."""
    found, reasons = records(b'{"a":NaN}\n')

    assert (found, reasons) == ([1], [])


def test_a_byte_order_mark_is_no_content(data: Path) -> None:
    """A mark at the beginning changes nothing."""
    content = (data / "pi.jsonl").read_bytes()

    assert read_bytes(b"\xef\xbb\xbf" + content, name="x") == read_bytes(content, name="x")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b" \n\n ", "empty"),
        (gzip.compress(b"", mtime=0), "empty"),
        (b"\x7fELF\0\0\0\1", "binary"),
        ("{}".encode("utf-16"), "binary"),
        (b"PK\x03\x04 and so on", "zip archive"),
        (
            b"SQLite format 3\0 and so on",
            "SQLite database, not a transcript; .*infold sessions --store FILE.*infold export ID",
        ),
        (b'{"info": {"id": "ses_1"}, "messages": [', "not a whole JSON document"),
    ],
)
def test_what_cannot_be_read_is_named(content: bytes, problem: str) -> None:
    """Each kind of unreadable input is a broken input that says what it is."""
    with pytest.raises(BrokenInput, match=problem):
        read_bytes(content, name="thing")


def test_damaged_compression_keeps_what_came_before(data: Path) -> None:
    """A gzip file that ends early gives the lines that were whole."""
    packed = gzip.compress((data / "claude-code.jsonl").read_bytes() * 20)
    transcript = read_bytes(packed[: len(packed) - 40], name="cut.jsonl.gz")

    assert len(transcript.sessions[0].messages) > 3
    assert any("ends early" in skip.reason for skip in transcript.skipped)


def test_more_bytes_than_allowed_are_refused() -> None:
    """The bound is on what a file unpacks to, and the error says how to raise it."""
    bomb = gzip.compress(USER % (b"x" * 1_000_000))

    with pytest.raises(BrokenInput, match="total_bytes"):
        read_bytes(bomb, name="bomb.gz", bounds=Bounds(total_bytes=500_000))


def test_a_compression_bomb_is_refused() -> None:
    """A file that unpacks to hundreds of times its size is refused before it fills memory."""
    bomb = gzip.compress(USER % (b"x" * 3_000_000))

    with pytest.raises(BrokenInput, match="times its size"):
        read_bytes(bomb, name="bomb.gz", bounds=Bounds(ratio_free_bytes=100_000))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_database_is_refused_with_the_way_out(tmp_path: Path, is_open: bool) -> None:
    """B23: OpenCode keeps its sessions in a database, in use or not; the error names the command that exports one."""
    path = tmp_path / "opencode.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table session (id text)")
    connection.commit()
    if not is_open:
        connection.close()
    with pytest.raises(BrokenInput, match=r"opencode export SESSION > session\.json"):
        read_transcript(path)
    connection.close()
