"""When a text holds a fact."""

import pytest

from infold.replay.facts import Fact, Shown, beginning, holds, normalised, places_of

FILE = Fact("file", ("src/a.py",), ("edited",), "1.0", one_record=True)
NUMBER = Fact("number", ("retry", "limit", "seconds"), ("512",), "1.0")


@pytest.mark.parametrize(
    ("text", "words", "places"),
    [
        ("exit 1", "exit 1", [0]),
        ("exit 12", "exit 1", []),
        ("my_name name", "name", [8]),
        ("在文件中", "文件", [1]),
        ("(a) [a]", "a", [1, 5]),
        ("none", "some", []),
    ],
)
def test_words_are_found_whole(text: str, words: str, places: list[int]) -> None:
    """A piece of a longer word is not the word; scripts without blanks have no such bounds."""
    assert list(places_of(text, words)) == places


def test_text_is_compared_in_one_form() -> None:
    """Width, case and blanks do not count; lines do."""
    assert normalised("ＡＢＣ \t x\n Y") == "abc x\n y"


@pytest.mark.parametrize(
    ("shown", "held"),
    [
        (Shown("- src/a.py: edited", "lines"), True),
        (Shown("- src/a.py: read\n- src/b.py: edited", "lines"), False),
        (Shown("- src/a.py: read\n- src/b.py: edited", "prose"), True),
        (Shown("src/a.py" + " " * 500 + "edited", "record"), True),
        (Shown("src/a.py" + " " * 500 + "edited", "prose"), False),
        (Shown("src/a.py"), False),
    ],
)
def test_a_state_belongs_to_its_record(shown: Shown, held: bool) -> None:
    """In a list the answer must stand on the cue's own line; in prose it must be near; a call and its result are one record."""
    assert holds((shown,), FILE, FILE.answers) is held


@pytest.mark.parametrize(
    ("text", "held"),
    [("the retry limit is 512", True), ("a limit: 512", False), ("retry limit\n512 seconds", True), ("512", False)],
)
def test_most_words_of_a_cue_must_be_near(text: str, held: bool) -> None:
    """Of the words around a number more than half must be there."""
    assert holds((Shown.of(text, shape="lines"),), NUMBER, NUMBER.answers) is held


def test_a_sentence_is_its_own_cue() -> None:
    """A fact without a cue is held where its answer stands."""
    fact = Fact("instruction", (), ("never push",), "1.0")

    assert holds((Shown.of("- Never  push", shape="lines"),), fact, fact.answers)


def test_a_beginning_ends_with_a_word() -> None:
    """Cut text is compared up to its last whole word, or as it is where it has no blank."""
    assert (beginning("one two three", 9), beginning("short", 9), beginning("x" * 20, 5)) == (
        "one two",
        "short",
        "xxxxx",
    )
