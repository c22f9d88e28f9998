"""When a text holds a fact."""

import pytest

from infold.replay.facts import HistoryFact, ShownText, find_places, first_words, holds, normalise

FILE = HistoryFact("file", ("src/a.py",), ("edited",), "1.0", one_record=True)
NUMBER = HistoryFact("number", ("retry", "limit", "seconds"), ("512",), "1.0")


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
    assert list(find_places(text, words)) == places


def test_text_is_compared_in_one_form() -> None:
    """Width, case and blanks do not count; lines do."""
    assert normalise("ＡＢＣ \t x\n Y") == "abc x\n y"


@pytest.mark.parametrize(
    ("shown", "held"),
    [
        (ShownText("- src/a.py: edited", "lines"), True),
        (ShownText("- src/a.py: read\n- src/b.py: edited", "lines"), False),
        (ShownText("- src/a.py: read\n- src/b.py: edited", "prose"), True),
        (ShownText("src/a.py" + " " * 500 + "edited", "record"), True),
        (ShownText("src/a.py" + " " * 500 + "edited", "prose"), False),
        (ShownText("src/a.py"), False),
    ],
)
def test_a_state_belongs_to_its_record(shown: ShownText, held: bool) -> None:
    """In a list the answer must stand on the cue's own line; in prose it must be near; a call and its result are one record."""
    assert holds((shown,), FILE, FILE.answers) is held


@pytest.mark.parametrize(
    ("text", "held"),
    [("the retry limit is 512", True), ("a limit: 512", False), ("retry limit\n512 seconds", True), ("512", False)],
)
def test_most_words_of_a_cue_must_be_near(text: str, held: bool) -> None:
    """Of the words around a number more than half must be there."""
    assert holds((ShownText.of(text, shape="lines"),), NUMBER, NUMBER.answers) is held


def test_a_sentence_is_its_own_cue() -> None:
    """A fact without a cue is held where its answer stands."""
    fact = HistoryFact("instruction", (), ("never push",), "1.0")

    assert holds((ShownText.of("- Never  push", shape="lines"),), fact, fact.answers)


def test_a_beginning_ends_with_a_word() -> None:
    """Cut text is compared up to its last whole word, or as it is where it has no blank."""
    assert (first_words("one two three", 9), first_words("short", 9), first_words("x" * 20, 5)) == (
        "one two",
        "short",
        "xxxxx",
    )
