"""Files as disks, networks and enemies leave them: a typed error, or a partial read that says what was skipped."""

import gzip
import io
import json
import re
import resource
from collections.abc import Callable, Iterable
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest

from infold.core.messages import results_of
from infold.errors import BrokenInput, FormatError, UnknownFormat
from infold.transcripts.record import Transcript
from infold.transcripts.registry import read_transcript

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "transcripts"
FILES = sorted(DATA.iterdir())
CLAUDE = DATA / "claude-code.jsonl"
MEBIBYTE = 1024 * 1024
DEEP = 100_000

Write = Callable[[bytes, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Put bytes into a file of that name."""

    def put(content: bytes, name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return put


def reasons(transcript: Transcript) -> str:
    """All that was skipped, in one text."""
    return "; ".join(skipped.reason for skipped in transcript.skipped)


def messages(transcript: Transcript) -> int:
    """How many messages were read."""
    return sum(len(session.messages) for session in transcript.sessions)


def line(number: int, text: str, session: str = "s") -> bytes:
    """A line as Claude Code writes it."""
    spoken = {"role": "user", "content": text}
    record: dict[str, Any] = {"type": "user", "uuid": f"{session}{number}", "sessionId": session, "message": spoken}
    return json.dumps(record | {"timestamp": "2026-01-05T10:00:01.000Z", "cwd": "/w"}).encode() + b"\n"


def lines(texts: Iterable[str], session: str = "s") -> list[bytes]:
    """Lines of one session."""
    return [line(number, text, session) for number, text in enumerate(texts)]


# Cut off.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.85, 0.99])
def test_a_truncated_file_is_read_in_part_or_refused(path: Path, share: float, write: Write) -> None:
    """Whatever format, cut anywhere: no more is read than was there, or an error of ours is raised."""
    content = path.read_bytes()
    try:
        cut = read_transcript(write(content[: int(len(content) * share)], path.name))
    except FormatError:
        return
    assert 0 < messages(cut) <= messages(read_transcript(path))


def test_a_truncated_line_is_told(write: Write) -> None:
    """A file that a crash cut in its last line loses that line and says so."""
    cut = read_transcript(write(b"".join(lines(["one", "two", "three"]))[:-9], "cut.jsonl"))

    assert messages(cut) == 2
    assert "not JSON (cut off" in reasons(cut)
    assert cut.skipped[0].line == 3


def test_a_truncated_document_is_refused(write: Write) -> None:
    """A document cut off has no whole value in it; the error says to export it again."""
    with pytest.raises(BrokenInput, match="export the transcript again; it may be cut off"):
        read_transcript(write((DATA / "opencode.json").read_bytes()[:-50], "opencode.json"))


def test_a_truncated_archive_is_read_in_part(write: Write) -> None:
    """Compressed data that ends early gives what came before, and the loss is told."""
    packed = gzip.compress(b"".join(lines(f"{number} " + "words " * 50 for number in range(5_000))))
    cut = read_transcript(write(packed[: len(packed) // 2], "cut.jsonl.gz"))

    assert 0 < messages(cut) < 5_000
    assert "the compressed data is damaged or ends early" in reasons(cut)


# Mixed up.


def test_interleaved_sessions_are_all_read(write: Write) -> None:
    """Lines of two sessions that took turns in one file lose nothing."""
    pairs = zip_longest(lines(["one", "two"], "a"), lines(["three", "four", "five"], "b"), fillvalue=b"")
    mixed = read_transcript(write(b"".join(chain.from_iterable(pairs)), "mixed.jsonl"))

    assert messages(mixed) == 5


def test_interleaved_writes_cost_only_the_lines_they_hit(write: Write) -> None:
    """Two writers whose lines ran into one another lose those lines, and the count is told."""
    whole = lines(["one", "two", "three", "four"])
    torn = whole[1][:40] + whole[2][:-1] + whole[1][40:]
    mixed = read_transcript(write(whole[0] + torn + whole[3], "torn.jsonl"))

    assert messages(mixed) == 2
    assert sum(skipped.count for skipped in mixed.skipped) == 1


def test_two_formats_in_one_file_are_told(write: Write) -> None:
    """The format that opens a file reads it; what is not its own is passed over, never taken for messages."""
    content = CLAUDE.read_bytes() + (DATA / "codex.jsonl").read_bytes()

    assert messages(read_transcript(write(content, "both.jsonl"))) >= messages(read_transcript(CLAUDE))


# Nothing in it.


@pytest.mark.parametrize(
    ("content", "name", "problem"),
    [
        (b"", "empty.jsonl", "the file is empty"),
        (b" \n\r\n\t\n", "blank.json", "the file is empty"),
        (gzip.compress(b"", mtime=0), "empty.jsonl.gz", "the file is empty"),
        (b"\x7fELF\x02\x01\x01" + bytes(5_000), "program.json", "this is binary"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 9, "shot.jsonl", "this is binary"),
        (gzip.compress(bytes(range(256)) * 99), "noise.jsonl.gz", "this is binary"),
        (b"PK\x03\x04" + bytes(99), "log.eval", "this is a zip archive"),
        ("Fix it, please.".encode("utf-16"), "notes.md", "this is binary"),
    ],
)
def test_nothing_to_read_is_named(content: bytes, name: str, problem: str, write: Write) -> None:
    """An empty or a binary file is refused with what it is."""
    with pytest.raises(BrokenInput, match=problem):
        read_transcript(write(content, name))


@pytest.mark.parametrize("content", [b"{}", b"[]", b"null", b"3", b'{"messages": 5}', b"Dear diary,\nnothing today.\n"])
def test_what_is_no_transcript_is_unknown(content: bytes, write: Write) -> None:
    """Well-formed files of something else are in no format, and the error lists what was tried."""
    with pytest.raises(UnknownFormat, match=r"tried .*claude-code, codex"):
        read_transcript(write(content, "other.json"))


# Too much in it.


@pytest.mark.parametrize(
    "content",
    [b"[" * DEEP + b"]" * DEEP, b'{"messages":' * DEEP + b"0" + b"}" * DEEP, b"[" * DEEP],
    ids=["lists", "objects", "never closed"],
)
def test_depth_is_refused(content: bytes, write: Write) -> None:
    """A hundred thousand levels of JSON end in an error of ours, not in a crash."""
    with pytest.raises(FormatError):
        read_transcript(write(content, "deep.json"))


def test_a_deep_line_is_skipped(write: Write) -> None:
    """One line of mere depth costs that line."""
    deep = b'{"type":"user","message":' * DEEP + b"0" + b"}" * DEEP + b"\n"
    read = read_transcript(write(line(0, "one") + deep + line(1, "two"), "deep.jsonl"))

    assert messages(read) == 2
    assert "a line holds JSON nested too deep" in reasons(read)


def test_a_line_of_thirty_megabytes_is_read(write: Write) -> None:
    """A huge line is within the bounds and is kept whole."""
    read = read_transcript(write(line(0, "one") + line(1, "x" * 30 * MEBIBYTE) + line(2, "two"), "long.jsonl"))

    assert messages(read) == 3
    assert read.skipped == ()


def test_a_line_beyond_the_bound_is_let_go(write: Write) -> None:
    """Seventy megabytes in a line are skipped and told; the lines around it are read."""
    read = read_transcript(write(line(0, "one") + line(1, "x" * 70 * MEBIBYTE) + line(2, "two"), "longer.jsonl"))

    assert messages(read) == 2
    assert "a line is longer than" in reasons(read)


def test_a_bomb_is_refused_before_it_goes_off(write: Write) -> None:
    """A file of two megabytes that unpacks to two gigabytes is refused, and memory does not grow by its content."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as stream:
        stream.write(line(0, "one"))
        for _ in range(500):
            stream.write(b" " * MEBIBYTE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BrokenInput, match="unpacks to over 200 times its size"):
        read_transcript(write(packed.getvalue(), "bomb.jsonl.gz"))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024

    assert grown < 300 * MEBIBYTE


# Not what it says.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_bytes_that_are_no_utf8_are_replaced(path: Path, write: Write) -> None:
    """Text in another encoding is read with U+FFFD in its place, and that is told; what is left can be encoded."""
    word = said_word(path)
    read = read_transcript(write(path.read_bytes().replace(word, b"\xff\xfe" + word), path.name))

    assert messages(read) > 0
    assert "not UTF-8" in reasons(read)
    assert str(read).encode()


def said_word(path: Path) -> bytes:
    """The longest word of what was said or shown that stands in the file as it is."""
    content, sessions = path.read_bytes(), read_transcript(path).sessions
    parts = chain.from_iterable(message.parts for session in sessions for message in session.messages)
    texts = [getattr(part, "text", "") or getattr(part, "output", "") for part in parts]
    words: Iterable[bytes] = (word.encode() for word in re.findall(r"[^\W\d_]+", " ".join(texts)))
    return max((word for word in words if word in content), key=len)


def test_results_survive_damage_beside_them(write: Write) -> None:
    """Noise between the lines costs no tool result."""
    noisy = b"\xff\xfe noise\n".join(CLAUDE.read_bytes().splitlines(keepends=True))
    whole, read = read_transcript(CLAUDE), read_transcript(write(noisy, "noisy.jsonl"))

    def answers(transcript: Transcript) -> int:
        return sum(len(results_of(message)) for session in transcript.sessions for message in session.messages)

    assert answers(read) == answers(whole) > 0
    assert "not JSON" in reasons(read)
