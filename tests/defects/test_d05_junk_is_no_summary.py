"""D5: an empty, cut-off or junk summary never hides the history."""

import pytest

from infold.core.events import Event, SummaryRejected
from infold.core.judge import Answer
from infold.core.policy import PRESETS
from infold.formats.registry import OPENAI_CHAT

from ..invariants.scenes import (  # noqa: TID252 - `tests` is no package to name
    GOOD_NOTES,
    Notetaker,
    compactions,
    conversation,
    opened,
    told_of,
    written,
)

LONG = conversation(40, tokens=12, reply_tokens=900)
JUNK = {
    "empty": Answer(""),
    "blank": Answer(" \n\t\n"),
    "a word": Answer("ok"),
    "thoughts alone": Answer(f"<think>{GOOD_NOTES * 3}"),
    "closed thoughts": Answer(f"<analysis>{GOOD_NOTES}</analysis>\n"),
    "cut off": Answer(GOOD_NOTES, "length"),
    "refused": Answer(GOOD_NOTES, "content-filter"),
    "failed": Answer(GOOD_NOTES, "error"),
    "aborted": Answer(GOOD_NOTES, "abort"),
    "an excuse": Answer("I'm sorry, but I can't help with that request."),
    "none at all": Answer("## Goal\n- (none)\n\n## Progress\n- (none)\n\n## Next\n- (none)"),
    "a question back": Answer("Sure! Please share the conversation you would like me to summarise."),
    "a call": Answer(GOOD_NOTES, "tool-calls", calls_tools=True),
    "the history again": Answer("part 1 is fine. " * 20_000),
    "another project": Answer("All is well.\nThe invoices are in src/billing/ledger.py now.\nCommit 8f3a91c did it."),
}
each_junk = pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
HARD = ("empty", "blank", "cut off", "refused", "failed", "aborted", "a call", "the history again")
"""Junk whatever its words are: what documents' presets, which have no judge, take for a failed summary."""

cases = [
    pytest.param(name, JUNK[junk], id=f"{junk}-{name}")
    for name in PRESETS
    for junk in JUNK
    if name == "infold" or junk in HARD
]


@pytest.mark.parametrize(("name", "junk"), cases)
def test_d05_junk_is_asked_for_again_then_done_without(name: str, junk: Answer) -> None:
    """B5, B10, S1.0: it stands in no checkpoint; observers hear why, and what code could tell stands instead."""
    notes, events = Notetaker(junk), list[Event]()
    session = opened(name, OPENAI_CHAT, window=64_000, notes=notes, events=events)
    session.prepare_new(written(OPENAI_CHAT, LONG))
    session.compact()

    assert session.log.checkpoint is not None
    assert session.log.checkpoint.narrative == ""
    assert [len(event.faults) for event in events if isinstance(event, SummaryRejected)] == [2]
    assert len(compactions(events)) == 1


@each_junk
def test_d05_the_history_is_told_all_the_same(junk: Answer) -> None:
    """B2, B4, B10: the user's first words and what was run stand in the request, word for word."""
    session = opened("infold", OPENAI_CHAT, window=64_000, notes=Notetaker(junk))
    session.prepare_new(written(OPENAI_CHAT, LONG))
    told = told_of(session.compact())

    assert "Now part 0." in told
    assert "make part0" in told
    assert "And the last part?" in told


@pytest.mark.parametrize(("name", "junk"), cases)
def test_d05_a_good_second_answer_is_used(name: str, junk: Answer) -> None:
    """B5, B36: one bad answer costs a second try and nothing else."""
    session = opened(name, OPENAI_CHAT, window=64_000, notes=Notetaker(junk, GOOD_NOTES))
    session.prepare_new(written(OPENAI_CHAT, LONG))

    assert GOOD_NOTES in told_of(session.compact())
