"""Text of a session cannot hide, reorder or drown what stands around it."""

from infold.dashboard.texts import LONGEST_TEXT, capped, excerpt, sentence, visible


def test_characters_that_act_are_shown() -> None:
    """Terminal controls and marks that turn the direction of writing are named; lines, tabs and scripts stay as they are."""
    assert visible("a\x1b[31m\x00b\x7f") == "a␛[31m␀b␡"
    assert visible("file\u202etxt.exe\u2066\u200f") == "file⟨RLO⟩txt.exe⟨LRI⟩⟨RLM⟩"
    assert visible("línea\n\tשלום 日本") == "línea\n\tשלום 日本"
    assert visible("half \ud800 pair") == "half ? pair"


def test_long_texts_are_cut_off_unless_asked_for() -> None:
    """A page shows so much of a part at once and says how much more there is."""
    text = "x" * (LONGEST_TEXT + 7)

    assert (len(capped(text).text), capped(text).left_out) == (LONGEST_TEXT, 7)
    assert (capped(text, whole=True).text, capped(text, whole=True).left_out) == (text, 0)
    assert capped("short").left_out == 0


def test_an_excerpt_is_one_short_line() -> None:
    """Line breaks become spaces, and what is left out is told by an ellipsis, however the text is spaced."""
    assert excerpt("one\n\n  two\tthree ") == "one two three"
    assert excerpt("word " * 90, 20) == "word word word word…"
    assert excerpt(" " * 500 + "late", 20) == "…"


def test_an_error_reads_as_a_sentence() -> None:
    """Errors are written to stand in one; on a page they stand alone."""
    assert [sentence(text) for text in ("no such thing", "All well.", "")] == ["No such thing.", "All well.", ""]
