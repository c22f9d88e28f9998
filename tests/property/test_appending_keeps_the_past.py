"""Law: the log only grows; what was appended stays as it was, and any of it can be read back."""

from hypothesis import given
from tests.support.strategies import histories, situations

from infold.core.compact import compact
from infold.core.entries import Entry, MessageEntry, Title, decode_entry, encode_entry
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.log import Log
from infold.core.messages import Message, SessionId
from infold.core.view import filter_compacted, view
from infold.testing.builders import log_of


@given(histories(), situations())
def test_older_logs_are_unchanged_by_newer_ones(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B1: every log value along the way still gives the view it gave, whatever was appended after it."""
    seen: list[tuple[Log, tuple[Message, ...]]] = []
    log = log_of((), policy=inputs.policy)
    for entry in lived(history, inputs):
        seen.append((log, view(log, inputs.policy.summary)))
        log = log.append(entry)

    for older, shown in seen:
        assert view(older, inputs.policy.summary) == shown


@given(histories(), situations())
def test_a_session_read_back_is_the_session(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B1, S4.1: entries stored, decoded and read newest first give the same view as the log they came from."""
    log = log_of((), policy=inputs.policy)
    entries = lived(history, inputs)
    log = log.extend(entries)
    stored = [(number, decode_entry(encode_entry(entry))) for number, entry in enumerate(entries)]
    again = load(SessionId("session"), reversed(stored), log.rendering)

    assert view(again, inputs.policy.summary) == view(log, inputs.policy.summary)
    assert filter_compacted(again) == filter_compacted(log)
    assert again.next_sequence == log.next_sequence
    assert again.size == log.size


@given(histories(), situations())
def test_a_branch_is_independent(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B1: two continuations of one log do not see each other's entries."""
    entries = lived(history, inputs)
    half = len(entries) // 2
    trunk = log_of((), policy=inputs.policy).extend(entries[:half])
    first = trunk.extend(entries[half:])
    second = trunk.extend(entries[half:])

    assert filter_compacted(first) == filter_compacted(second)
    assert filter_compacted(trunk) == filter_compacted(log_of((), policy=inputs.policy).extend(entries[:half]))


def lived(history: tuple[Message, ...], inputs: PlanInputs) -> list[Entry]:
    """Every entry of a session that lived through this history, its title, prunings and checkpoints included."""
    log = log_of((), policy=inputs.policy)
    entries: list[Entry] = []
    for message in history:
        said = (MessageEntry(message), *(() if entries else (Title("what it is about"),)))
        compaction = compact(log.extend(said), inputs)
        log = compaction.log
        entries += (*said, *compaction.entries)
    return entries
