"""What a session makes of the good and the bad summaries; `tests/data/summaries/README.md` says what they are.

Each text is the summariser's answer, to the first request and to the second. Run with `-s` to see the figures.
"""

import re
from collections import Counter
from functools import cache

import pytest
from msgspec import Struct
from tests.support.corpus import Entry
from tests.support.summaries import (
    KINDS,
    SESSIONS,
    BadSummary,
    bad_summaries,
    files_with_summaries,
    good_summaries,
    recorded_summaries,
    session_named,
)

from infold import Session, SessionSettings, open_store
from infold.core.entries import Verdict
from infold.core.judge import Answer, judge

MOST_MISSING, MOST_MARKED, LEAST_CAUGHT = 0.01, 0.05, 0.75
_MARKS = re.compile(r"^\s*(?:[-*+•–]|\d{1,3}[.)])\s+")
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|(?<=[。！？])")


class Judged(Struct, frozen=True):
    """A session's view after a compaction with a given summary, and what the judge found."""

    view: str
    verdict: Verdict

    @property
    def touched(self) -> tuple[str, ...]:
        """The sentences that were marked, corrected or removed."""
        return (*self.verdict.marked, *self.verdict.corrected, *self.verdict.removed)


@cache
def judged(name: str, text: str) -> Judged:
    """Compact a session at its cut with this text as the summariser's answer."""
    recorded = session_named(name)
    settings = SessionSettings(window=64_000, summariser=lambda _: text)
    session = Session(open_store("memory"), name, settings)
    session.prepare(list(recorded.items))
    first_kept = recorded.messages[recorded.cut]
    up_to = next(placed.sequence for placed in session.log.live if placed.message.parts == first_kept.parts)
    ready = session.compact(up_to=up_to)
    checkpoint = session.log.checkpoint
    assert checkpoint is not None
    assert checkpoint.verdict is not None
    return Judged(str(ready.messages[1]["content"]), checkpoint.verdict)


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, without list marks and headings."""
    lines = (_MARKS.sub("", line).strip() for line in text.splitlines() if not line.startswith("#"))
    return [piece.strip() for line in lines for piece in _SENTENCES.split(line) if piece.strip()]


def is_caught(summary: BadSummary) -> bool:
    """Whether the text was rejected, a false sentence touched, or each rule that it lacks is in the view word for word."""
    found = judged(summary.session, summary.text)
    if not found.verdict.is_accepted:
        return True
    if summary.missing:
        return all(rule in found.view for rule in summary.missing)
    if summary.kind == "cut-off":
        return "cut-off" in found.verdict.faults  # marked, since nothing is known of how the answer ended
    bare = [re.split(r" \((?:not found|the |later |this )", _MARKS.sub("", one))[0] for one in found.touched]
    return any(one in false or false in one for false in summary.false for one in bare)


@pytest.mark.slow
@pytest.mark.parametrize("name", SESSIONS)
def test_good_summaries_are_not_damaged(name: str) -> None:
    """B37: no good summary is rejected, their sentences are in the view, and hardly one is marked."""
    own = [summary for summary in good_summaries() if summary.session == name]
    lines = missing = stated = touched = 0
    for summary in own:
        found = judged(name, summary.text)
        assert found.verdict.is_accepted, (summary.id, found.verdict.faults)
        shown = sentences_of(summary.text)
        stated += len(shown)
        touched += len(found.touched)
        lines += len(summary.lines)
        missing += sum(any(one not in found.view for one in sentences_of(line)) for line in summary.lines)
    print(f"\n{name}: {missing} of {lines} lines missing, {touched} of {stated} sentences touched")

    assert missing <= MOST_MISSING * lines
    assert touched <= MOST_MARKED * stated


@pytest.mark.slow
def test_bad_summaries_are_caught() -> None:
    """B37: three quarters of the bad summaries are rejected, or touched at the false sentence, some of every kind."""
    every = Counter(summary.kind for summary in bad_summaries())
    caught = Counter(summary.kind for summary in bad_summaries() if is_caught(summary))
    for name in SESSIONS:
        own = [summary for summary in bad_summaries() if summary.session == name]
        print(f"\n{name}: {sum(map(is_caught, own))} of {len(own)} caught", end="")
    print("", *(f"{kind}: {caught[kind]} of {every[kind]}" for kind in KINDS), sep="\n")

    assert sum(caught.values()) >= LEAST_CAUGHT * sum(every.values())
    assert all(caught[kind] for kind in KINDS)


@pytest.mark.slow
def test_other_sentences_of_bad_summaries_stay() -> None:
    """B37: next to a false sentence the true ones are neither removed nor marked."""
    stated = touched = 0
    for summary in bad_summaries():
        found = judged(summary.session, summary.text)
        if not summary.false or not found.verdict.is_accepted:
            continue
        true = [
            one
            for one in sentences_of(summary.text)
            if not any(one in false or false in one for false in summary.false)
        ]
        stated += len(true)
        touched += sum(any(one in other or other in one for other in found.touched) for one in true)
    print(f"\n{touched} of {stated} true sentences touched")

    assert touched <= MOST_MARKED * stated


@pytest.mark.corpus
@pytest.mark.parametrize("entry", files_with_summaries(), ids=lambda entry: entry["file"])
def test_recorded_summaries_are_not_damaged(entry: Entry) -> None:
    """B37: what real agents' models wrote is accepted, loses nothing, and is hardly marked."""
    for summary in recorded_summaries(entry["path"]):
        verdict = judge(
            Answer(summary.text), summary.head, tail=summary.tail, replaced_tokens=10_000_000, answer_tokens=1
        )
        lines = [line for line in summary.text.splitlines() if line.strip()]

        assert verdict.is_accepted, (summary.id, verdict.faults)
        assert len(verdict.removed) <= MOST_MISSING * len(lines)
        assert len(verdict.marked) + len(verdict.corrected) <= MOST_MARKED * len(lines), verdict.invented
