"""Numbers, times and untrusted text, as they are shown."""

from typing import get_args

import pytest

from infold.core.entries import Fault, Reason
from infold.core.messages import FilePart, ReasoningPart, StepStartPart, TextPart
from infold.reports.text import (
    FAULTS,
    LONGEST_TEXT,
    ago,
    byte_size,
    describe_part,
    dollars,
    excerpt,
    moment,
    one_line,
    percent,
    plural,
    printable,
    seconds,
    sentence,
    short_number,
    shorten,
    visible,
)
from infold.session.report import REASONS
from infold.testing.builders import calls, result


@pytest.mark.parametrize(
    ("number", "told"),
    [
        *((0, "0"), (980, "980"), (4_240, "4.2k"), (8_000, "8k"), (61_499, "61.5k"), (99_960, "100k")),
        *((999_499, "999k"), (999_500, "1M"), (1_050_000, "1.05M"), (12_400_000, "12.4M")),
    ],
)
def test_counts_are_short(number: int, told: str) -> None:
    """A count has about three figures."""
    assert short_number(number) == told


def test_prices_are_finer_the_smaller() -> None:
    """Cents matter at a dollar, hundredths of a cent at a summary; what is not known is a dash."""
    assert [dollars(cost) for cost in (1_234.5, 0.952, 0.0042, 0.0)] == ["$1,234.50", "$0.952", "$0.0042", "–"]
    assert [dollars(cost) for cost in (0.0001, 0.00003)] == ["$0.0001", "< $0.0001"]


def test_sizes_shares_and_durations() -> None:
    """Each has its unit, and a dash where it is not known."""
    assert [byte_size(count) for count in (12, 52_400, 1_240_000)] == ["12 B", "52 kB", "1.2 MB"]
    assert [percent(share) for share in (0.944, None)] == ["94%", "–"]
    assert [seconds(duration) for duration in (2_940, 0)] == ["2.9 s", "–"]
    assert [plural(count, "part") for count in (0, 1, 2_000)] == ["0 parts", "1 part", "2,000 parts"]
    assert [plural(count, "reply") for count in (1, 2)] == ["1 reply", "2 replies"]


@pytest.mark.parametrize(
    ("passed", "told"),
    [
        *((3, "just now"), (150, "2 min ago"), (7_300, "2 h ago"), (86_400, "1 day ago"), (200_000, "2 days ago")),
        (90 * 86_400, "2026-06-23"),
    ],
)
def test_times_are_told_by_how_long_ago(passed: int, told: str) -> None:
    """Minutes, hours, days; after a month the date."""
    now = 1_790_000_000_000

    assert ago(now - passed * 1_000, now) == told


def test_unknown_times_are_not_invented() -> None:
    """A time that was not recorded is a dash or left out."""
    assert (ago(None, 5), moment(None), moment(0)) == ("–", "", "1970-01-01 00:00")


# Untrusted text.


def test_characters_that_act_are_shown() -> None:
    """Terminal controls and marks that turn the direction of writing are named; lines, tabs and scripts stay as they are."""
    assert visible("a\x1b[31m\x00b\x7f") == "a␛[31m␀b␡"
    assert visible("file\u202etxt.exe\u2066\u200f") == "file⟨RLO⟩txt.exe⟨LRI⟩⟨RLM⟩"
    assert visible("línea\n\tשלום 日本") == "línea\n\tשלום 日本"
    assert visible("half \ud800 pair") == "half ? pair"


def test_long_texts_are_cut_off_unless_asked_for() -> None:
    """A page shows so much of a part at once and says how much more there is."""
    text = "x" * (LONGEST_TEXT + 7)

    assert (len(shorten(text).text), shorten(text).left_out) == (LONGEST_TEXT, 7)
    assert (shorten(text, whole=True).text, shorten(text, whole=True).left_out) == (text, 0)
    assert shorten("short").left_out == 0


def test_an_excerpt_is_one_short_line() -> None:
    """Line breaks become spaces, and what is left out is told by an ellipsis, however the text is spaced."""
    assert excerpt("one\n\n  two\tthree ") == "one two three"
    assert excerpt("word " * 90, 20) == "word word word word…"
    assert excerpt(" " * 500 + "late", 20) == "…"


def test_an_error_reads_as_a_sentence() -> None:
    """Errors are written to stand in one; on a page they stand alone."""
    assert [sentence(text) for text in ("no such thing", "All well.", "")] == ["No such thing.", "All well.", ""]


def test_a_terminal_obeys_nothing_in_a_text() -> None:
    """Escape sequences and invisible characters become question marks; line breaks stay, other space becomes a blank."""
    assert printable("a\x1b[31mred\x00\u202e\n\tb\r") == "a?[31mred??\n b "
    assert one_line("one\n\n  two\tthree\x07", 11) == "one two thr"


def test_a_part_is_described_in_a_few_words() -> None:
    """A tool's result or call by its name, a file by its type, a program's text as injected."""
    (call,), (answer,) = calls("bash").parts, result(9).parts
    parts = (call, answer, FilePart("image/png", 9), TextPart("x", synthetic=True), ReasoningPart("x"), StepStartPart())

    assert [describe_part(part) for part in parts] == [
        *("bash call", "tool result", "image/png", "injected text", "reasoning", "stepstart"),
    ]


def test_every_reason_and_every_fault_has_words() -> None:
    """B5, B22: why a compaction happened, and what the judge found, is always shown."""
    assert REASONS.keys() == set(get_args(Reason))
    assert FAULTS.keys() == set(get_args(Fault))
