"""The sets of good and bad summaries are what they say; other tests measure the judge with them."""

import re
from collections import Counter

import pytest
from tests.support.corpus import Entry
from tests.support.summaries import (
    FALSE_KINDS,
    FOLDER,
    KINDS,
    SESSIONS,
    bad_summaries,
    files_with_summaries,
    good_summaries,
    recorded_summaries,
    session_named,
)

from infold.core.messages import UserMessage, calls_of, results_of, text_of

SCRIPTS = {
    "en": r"[a-z]",
    "de": r"[a-zäöüß]",
    "ja": r"[\u3040-\u30ff]",
    "zh": r"[\u4e00-\u9fff]",
    "ops": r"[a-z]",
    "fr": r"[a-zàâçéèêîôû]",
}
"""A character that a text in the language has often."""


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_are_lawful(name: str) -> None:
    """Each item is one message, every call is answered, and no call is cut off from its result."""
    session = session_named(name)
    head, tail = session.head, session.tail

    assert session.name == name
    assert 50 <= len(session.items) <= 120
    assert len(session.messages) == len(session.items)
    assert isinstance(tail[0], UserMessage)
    for half in (head, tail):
        calls = [call.call_id for message in half for call in calls_of(message)]
        assert calls == [result.call_id for message in half for result in results_of(message)]
        assert len(set(calls)) == len(calls)


@pytest.mark.parametrize("name", SESSIONS)
def test_users_write_their_language(name: str) -> None:
    """The sessions are in five languages."""
    session = session_named(name)
    said = [text_of(message) for message in session.messages if isinstance(message, UserMessage)]

    assert session.language == ("en" if name == "ops" else name)
    assert len(said) >= 6
    assert all(re.search(SCRIPTS[name], text) for text in said)


def test_every_file_is_read() -> None:
    """The folder has the sessions, the two sets and their description, and nothing else."""
    expected = {*(f"session.{name}.json" for name in SESSIONS), "good.json", "bad.json", "README.md"}

    assert {path.name for path in FOLDER.iterdir()} == expected


def test_good_summaries_have_many_forms() -> None:
    """Each session has five or more, in its language, as lists, as paragraphs and in another form."""
    good = good_summaries()

    assert min(Counter(summary.session for summary in good).values()) >= 5
    assert len({summary.id for summary in good}) == len({summary.text for summary in good}) == len(good)
    for name in SESSIONS:
        own = [summary for summary in good if summary.session == name]
        assert {"headed list", "paragraphs"} < {summary.form for summary in own}
        assert all(len(re.findall(SCRIPTS[name], summary.text)) > 40 for summary in own)


def test_sixteen_kinds_of_bad_summaries() -> None:
    """Each kind occurs at least five times and in every session."""
    bad = bad_summaries()
    kinds = Counter(summary.kind for summary in bad)

    assert len(KINDS) == 16
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 5
    assert {(summary.kind, summary.session) for summary in bad} == {(kind, name) for kind in KINDS for name in SESSIONS}
    assert len({summary.id for summary in bad}) == len({summary.text for summary in bad}) == len(bad)


def test_false_sentences_are_named() -> None:
    """A false sentence stands once in its text and in no good summary of the session; kinds without one name none."""
    for summary in bad_summaries():
        assert bool(summary.false) == (summary.kind in FALSE_KINDS) or summary.kind == "dropped-constraint", summary.id
        for sentence in summary.false:
            assert summary.text.count(sentence) == 1, summary.id
            assert not any(sentence in good.text for good in good_summaries() if good.session == summary.session)


def test_missing_rules_are_the_users() -> None:
    """A rule that a bad summary leaves out is in the user's words in the head, and not in the text."""
    dropped = [summary for summary in bad_summaries() if summary.kind == "dropped-constraint"]

    assert all(bool(summary.false) != bool(summary.missing) for summary in dropped)
    assert not any(summary.missing for summary in bad_summaries() if summary.kind != "dropped-constraint")
    for summary in dropped:
        said = [text_of(message) for message in session_named(summary.session).head if isinstance(message, UserMessage)]
        assert all(any(rule in text for text in said) for rule in summary.missing), summary.id
        assert not any(rule in summary.text for rule in summary.missing), summary.id


@pytest.mark.corpus
@pytest.mark.parametrize("entry", files_with_summaries(), ids=lambda entry: entry["file"])
def test_recorded_summaries_are_found(entry: Entry) -> None:
    """Every recorded compaction with a readable text gives a summary, with the head it stands for."""
    found = recorded_summaries(entry["path"])

    assert len(found) == (0 if entry["fmt"] == "codex" else entry["summ"])
    assert all(len(summary.text) > 1_000 and len(summary.head) > 50 for summary in found)
    assert not any(summary.text.startswith("This session is being continued") for summary in found)
