"""Facts that words hold."""

import pytest

from infold.replay.facts import HistoryEvent, user_facts, word_facts


def said(text: str, number: int = 0) -> HistoryEvent:
    """Something the agent said."""
    return HistoryEvent(number, f"{number}.0", "agent", text)


def asked(text: str) -> HistoryEvent:
    """Something the user said."""
    return HistoryEvent(0, "0.0", "user", text)


@pytest.mark.parametrize(
    "rule",
    ["Never push to main.", "请不要修改这个文件。", "必ずテストを書いてください。", "절대 커밋하지 마세요."],
)
def test_rules_are_the_gate(rule: str) -> None:
    """Sentences that lay something down are told from others, in four languages."""
    facts = list(user_facts([asked(f"Have a look at it.\n{rule}")]))

    assert ["gate" in fact.sets for fact in facts] == [False, True]


def test_pasted_matter_is_not_the_users_word() -> None:
    """Code in fences, quoted lines, remarks and long passages are no instructions; nor is what the agent says."""
    text = f"```\nnever do this in code\n```\n> never quote this line\nok\n{'never ' * 80}"

    assert list(user_facts([asked(text), said("I will never do that.")])) == []


def test_a_later_number_about_the_same_thing_supersedes() -> None:
    """Equal words with another number: the last counts, those before are stale; thousands are read with and without comma."""
    facts = list(
        word_facts([said("The retry limit is 1,024 bytes now."), said("The retry limit is 2,048 bytes now.", 1)] * 2)
    )

    assert [(fact.answers, fact.stale, fact.handle) for fact in facts] == [
        (("2,048", "2048"), ("1,024", "1024"), "1.0")
    ]


def test_references_have_words_about_them() -> None:
    """Addresses, hashes and issue numbers are facts if anything is said of them."""
    facts = list(
        word_facts([said("Fixed in commit a8f68ce, see https://example.com/x.\n#172"), asked("commit b8f68ce")])
    )

    assert [fact.answers[0] for fact in facts] == ["a8f68ce", "https://example.com/x"]


def test_decisions_are_sentences() -> None:
    """A sentence that says what was chosen is a fact up to its hundredth character."""
    facts = list(word_facts([said("We decided to use sqlite for the store. Fine.\nInstead.")]))

    assert [(fact.kind, fact.answers) for fact in facts] == [("decision", ("we decided to use sqlite for the store.",))]


def test_a_number_alone_is_no_fact() -> None:
    """Without two words around it a number has no cue."""
    assert list(word_facts([said("x: 4096"), HistoryEvent(1, "1.0", "result", "the retry limit is 4096")])) == []
