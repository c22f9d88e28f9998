"""What the user said later about the same thing stands beside it, and nothing is declared void.

The sets in `tests/data/later_words` were written before the code.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infold.core.budget import Window, budget_for
from infold.core.checkpoint_reader import read_checkpoint
from infold.core.checkpoint_text import TextRoom, render_checkpoint
from infold.core.compact import checkpoint_for
from infold.core.cut import Cut
from infold.core.extract import extract
from infold.core.gauge import PlanInputs
from infold.core.later_words import (
    LONGEST_TEXT,
    Sentence,
    SentenceIndex,
    may_lift,
    remember,
    terms_of,
    two_to_keep,
)
from infold.core.ledger import EMPTY_LEDGER, MOST_QUOTES, LaterWords, Ledger, Quote, merge
from infold.core.messages import Message
from infold.core.plan import Fold
from infold.core.policy import INFOLD
from infold.testing.builders import numbered, replies, session, user

DATA = Path(__file__).parents[2] / "data" / "later_words"

VOID = ("no longer in force", "taken back", "Taken back", "revoked", "void", "lifted by", "superseded", "replaced by")
"""Words by which code would declare a rule void."""


def load(name: str) -> list[Any]:
    """One of the sets."""
    found: list[Any] = json.loads((DATA / name).read_text())
    return found


def folded(*said: str, kept: int = 0, budget: int = 3_000) -> str:
    """The checkpoint's text over what the user said, with an answer after each; the newest `kept` turns stay."""
    turns = [message for words in said for message in (user(words), replies("Done."))]
    log = session(*turns, user("Go on."), replies("Done."))
    step = Fold(Cut.at(log, len(turns) - 2 * kept), budget, "trigger")
    checkpoint, _ = checkpoint_for(log, step, PlanInputs(INFOLD, budget_for(Window(64_000), INFOLD)))
    return checkpoint.text


def stands_beside(text: str, rule: str, words: str) -> bool:
    """Whether later words stand on the rule's line."""
    return any(rule in line and f'(later: "{words}")' in line.partition(rule)[2] for line in text.splitlines())


@pytest.mark.parametrize("kept", [0, 1], ids=["folded", "in the tail"])
def test_no_rule_is_declared_void_and_later_words_stand_beside_it(kept: int) -> None:
    """B48: 40 rules with a later remark, in six languages: no rule is missing or called void; the words that lift or change
    one stand beside it, whether they are folded or in the kept tail."""
    found = {"full": 0, "changed": 0, "partial": 0, "harmless": 0}
    pairs = load("pairs.json")
    for pair in pairs:
        text = folded(f"Please begin. {pair['rule']}", "What is in docs?", pair["later"], kept=kept)
        head = text.split("\n\nTodo")[0]
        assert pair["rule"] in head
        assert not any(words in head.replace(pair["later"], "") for words in VOID)
        found[pair["kind"]] += stands_beside(text, pair["rule"], pair["later"])

    asked = sum(pair["kind"] in ("full", "changed") for pair in pairs)
    assert found["full"] + found["changed"] >= 0.9 * asked


@pytest.mark.parametrize("case", load("triples.json"), ids=lambda case: case["rule"][:24])
def test_a_remark_does_not_push_out_the_words_that_lift_a_rule(case: dict[str, str]) -> None:
    """B48: 20 rules, each followed by words that lift it and by a harmless remark: both stand beside it."""
    text = folded(case["rule"], case["lifted"], "What is in docs?", case["remark"])

    assert stands_beside(text, case["rule"], case["lifted"])
    assert stands_beside(text, case["rule"], case["remark"])


def test_later_words_survive_ten_folds_and_being_read_back() -> None:
    """B48: pairs stay beside each other through ten folds, and when only the text comes back."""
    case = load("triples.json")[0]
    ledger: Ledger = EMPTY_LEDGER
    turns: list[tuple[Message, ...]] = [numbered((user(case[name]),)) for name in ("rule", "lifted", "remark")]
    turns += [numbered((user(f"Now look at berth {number}."), replies("Done."))) for number in range(10)]
    for number, messages in enumerate(turns):
        places = enumerate(messages, start=10 * number)
        ledger = merge(ledger, extract(places, before=ledger))
    for text in _read_back(ledger, rounds=10):
        assert stands_beside(text, case["rule"], case["lifted"])
        assert stands_beside(text, case["rule"], case["remark"])
    assert sum(pair.sentence.text == case["rule"] for pair in ledger.later) == 2


def _read_back(ledger: Ledger, rounds: int) -> Iterator[str]:
    for number in range(rounds):
        text = render_checkpoint(ledger, TextRoom(3_000, 1_500), rule="features", recall=bool(number % 2)).text
        yield text
        ledger = merge(EMPTY_LEDGER, read_checkpoint(text, "0.0"))


def taken(*said: str) -> list[tuple[str, str]]:
    """What is placed beside what, each text a message of one sentence."""
    index = SentenceIndex()
    return [
        (earlier.text, words)
        for number, words in enumerate(said)
        for earlier in index.take(Sentence(f"{number}.0", words, is_rule=False))
    ]


def test_a_bare_number_is_no_term() -> None:
    """B48: "3." or a port alone joins nothing; a path does, and so does a word."""
    assert terms_of("3.") == terms_of("12 40.5 8080") == frozenset()
    assert taken("3.", "Forget Python 3.9, take 3.12.") == []
    assert taken("see src/a.py", "in src/a.py it is") != []
    assert taken("the ox is in", "an ox ran by") == []


def test_a_reminder_lifts_nothing() -> None:
    """B48: "don't forget" has a word that lifts and lifts nothing, in seven languages."""
    reminders = (
        "don't forget the tests", "vergiss nicht, das zu prüfen", "n'oublie pas de lire", "no olvides los datos",
        "не забудь проверить", "别忘了备份", "バックアップを忘れないで", "백업을 잊지 마세요",
    )  # fmt: skip
    lifting = (
        "forget the tests", "vergiss das", "oublie cela", "olvida los datos", "забудь об этом", "忘掉备份", "忘れて", "잊어 줘",
    )  # fmt: skip

    assert not any(map(may_lift, reminders))
    assert all(map(may_lift, lifting))


def test_sentences_of_one_message_and_questions_are_not_paired() -> None:
    """B48: only a later message is later, a question changes nothing, and what is said again is not beside itself."""
    index = SentenceIndex(lambda: [Sentence("0.0", "May I paint the crane?", is_rule=False)])
    first = index.take(Sentence("1.0", "Paint the crane.", is_rule=False))
    same = index.take(Sentence("1.1", "The crane is high.", is_rule=False))
    asked = index.take(Sentence("2.0", "Is the crane painted?", is_rule=False))
    again = index.take(Sentence("3.0", "Paint the crane.", is_rule=False))

    assert first == same == asked == ()
    assert [one.text for one in again] == ["The crane is high."]


def test_which_two_are_kept() -> None:
    """B48: the newest, and the newest that may lift the rule or give another figure; not what hardly shares anything."""
    rule = "The service must listen on port 8080."
    assert two_to_keep(rule, ("a port", "the service port", "service and port logs")) == ("service and port logs",)
    assert two_to_keep(rule, ("port 9191 for the service", "the port of the service is blue")) == (
        "port 9191 for the service",
        "the port of the service is blue",
    )
    assert two_to_keep("Never push the service port list.", ("push the service port list", "push it")) == (
        "push the service port list",
    )


def test_the_newest_later_words_are_carried() -> None:
    """B56: of more later words than a checkpoint carries the newest stay, in their order."""
    pairs = tuple(
        LaterWords(Quote(f"{number}.0", f"Never touch crane {number}."), Quote("9999.0", words))
        for number in range(MOST_QUOTES)
        for words in ("You may touch the crane.", "The crane is old.")
    )
    merged = merge(Ledger(later=pairs[:10]), Ledger(later=pairs[10:]))

    assert merged.later == pairs[-MOST_QUOTES:]
    assert merge(Ledger(later=pairs[:4]), EMPTY_LEDGER).later == pairs[:4]


def test_the_search_is_bounded() -> None:
    """B56: however many sentences share a term, a sentence is compared with a fixed number of them."""
    compared: list[int] = []
    for count in (500, 1_000, 2_000):
        index = SentenceIndex()
        for number in range(count):
            index.take(Sentence(f"{number}.0", f"you may push crane{number} to main", is_rule=bool(number % 2)))
        compared.append(index.compared)

    assert compared[2] <= 2.1 * compared[1] <= 4.5 * compared[0]


def test_what_a_text_says_is_remembered_unless_it_is_long() -> None:
    """B56: a text is read once, however many folds ask about it, and long texts are not kept in memory."""
    read: list[str] = []

    @remember(2)
    def first_letter(text: str) -> str:
        read.append(text)
        return text[0]

    short, long = "a" * LONGEST_TEXT, "b" * (LONGEST_TEXT + 1)

    assert [first_letter(text) for text in (short, short, long, long)] == ["a", "a", "b", "b"]
    assert read == [short, long, long]
