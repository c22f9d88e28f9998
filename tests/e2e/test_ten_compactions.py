"""Ten compactions, one after the other: the user's constraints and the changed files come through all of them.

The constraints of invented sessions are known, those of real ones were marked by a person. The expected files are found here,
from the calls themselves, not by infold's own extraction.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.corpus import REAL, each_label, labels

from infold.core.budget import Window, budget_for
from infold.core.entries import Entry, MessageEntry
from infold.core.events import Compacted, Event, InstructionStubbed
from infold.core.messages import Message, SessionId, calls_of, results_of, text_of
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.ports import SessionKey
from infold.replay.facts import without_summaries
from infold.session.report import Ready
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.transcripts.registry import read_transcript
from infold.transcripts.write import to_openai_chat

COMPACTIONS = 10
KEY = SessionKey("", SessionId("s"))
OPERATIONS = {"edit": "edited", "multiedit": "edited", "write": "written"}
"""What the tools of these agents do to a file, by their names in lower case."""

DECLINED = "The user doesn't want to proceed with this tool use."
"""How the result begins of a call that a person declined; in this format nothing else marks it as failed."""

NOTES = {
    "zh": "工作正在逐步进行，各部分都已检查。以上要求仍然有效，请继续完成剩下的部分。",
    "ja": "作業は順調に進んでおり、各部分を確認しました。上の要望は引き続き有効です。",
}
ENGLISH = "The work went on step by step, each part was looked at, and what the user asked for above still holds."

pytestmark = pytest.mark.slow
each_writer = pytest.mark.parametrize("writes", ["code", "model"])


@each_writer
@pytest.mark.parametrize("window", [32_000, pytest.param(64_000, marks=pytest.mark.long)])
@each_label()
def test_ten_compactions_lose_nothing_that_must_be_kept(label: dict[str, Any], window: int, writes: str) -> None:
    """B2, B3, B4, B9: after each of ten compactions every constraint so far is in view, every change in the ledger."""
    notes = NOTES.get(label["language"], ENGLISH)
    target_tokens = budget_for(Window(window), INFOLD).target_tokens
    store, settings = MemoryStore(), SessionSettings(window=window)
    session = Session(store, "s", settings if writes == "code" else replace(settings, summariser=lambda _: notes))
    over: list[str] = []
    for number, ready in enumerate(compacted(session, items_of(label["path"]))):
        entries = [entry for _, entry in store.newest_first(KEY)][::-1]
        shown = flat(" ".join(text_of(message) for message in view(session.log, INFOLD.summary)))

        assert [rule for rule in said(label["constraints"], entries) if rule not in shown] == [], f"compaction {number}"
        check_files(session, entries)
        assert (notes in shown) is (writes == "model")
        if ready.gauge.upper_tokens > target_tokens:
            over.append(f"{number}: {ready.gauge.upper_tokens:,} of {target_tokens:,}")
            assert is_one_step(session)
    print(f"\n{label['file']}, {writes}: {number + 1} compactions, over target: {over or 'never'}")

    assert number + 1 == COMPACTIONS


@each_writer
@pytest.mark.parametrize(("window", "most_missing"), [(4_096, 0.7), (8_192, 0.4), (16_000, 0.1)])
@pytest.mark.parametrize("real", [False, *([pytest.param(True, marks=pytest.mark.corpus)] if REAL.is_dir() else [])])
def test_what_a_small_window_cannot_hold_is_told(window: int, most_missing: float, writes: str, *, real: bool) -> None:
    """B2: where not every constraint has room, most do, and each of the others was named by an event."""
    seen = missing = 0
    for label in labels(real=real):
        notes = NOTES.get(label["language"], ENGLISH)
        events: list[Event] = []
        store, settings = MemoryStore(), SessionSettings(window=window, on_event=events.append)
        session = Session(
            store, "s", settings if writes == "code" else replace(settings, summariser=lambda _, n=notes: n)
        )
        for _ in compacted(session, items_of(label["path"])):
            entries = [entry for _, entry in store.newest_first(KEY)][::-1]
            shown = flat(" ".join(text_of(message) for message in view(session.log, INFOLD.summary)))
            rules = said(label["constraints"], entries)
            absent = [rule for rule in rules if rule not in shown]
            assert [rule for rule in absent if not is_told(rule, entries, events)] == []
            seen, missing = seen + len(rules), missing + len(absent)
    print(f"\n{window:,}, {writes}: {missing} of {seen} not verbatim")

    assert seen
    assert missing <= most_missing * seen


def is_told(rule: str, entries: Sequence[Entry], events: Sequence[Event]) -> bool:
    """Whether an event named a message that has this constraint as one that no longer stands word for word."""
    stubbed = {handle for event in events if isinstance(event, InstructionStubbed) for handle in event.handles}
    numbers = {int(handle.partition(".")[0]) for handle in stubbed}
    return any(
        number in numbers and isinstance(entry, MessageEntry) and rule in flat(text_of(entry.message))
        for number, entry in enumerate(entries)
    )


def items_of(transcript: Path) -> list[Any]:
    """A recorded session as an agent would bring it, without the summaries its own agent had made."""
    session = read_transcript(transcript).sessions[0]
    told = [compaction.summary for compaction in session.compactions]
    return to_openai_chat(replace(session, messages=without_summaries(session.messages, told)))


def compacted(session: Session, items: Sequence[Any]) -> Iterator[Ready]:
    """Live through the recorded session, and fold after each tenth of it."""
    new: list[Any] = []
    for number, item in enumerate(items, start=1):
        if item["role"] == "assistant":
            session.prepare_new(new)
            session.record({"choices": [{"message": item, "finish_reason": "stop"}]})
            new = []
        else:
            new.append(item)
        if number * COMPACTIONS // len(items) > (number - 1) * COMPACTIONS // len(items):
            yield folded(session, session.prepare_new(new))
            new = []


def folded(session: Session, ready: Ready) -> Ready:
    """What is sent after a fold, wished for unless the request itself has led to one; a wish may be met by pruning first."""
    for _ in range(2):
        if any(isinstance(event, Compacted) for event in ready.events):
            return ready
        ready = session.compact()
    assert any(isinstance(event, Compacted) for event in ready.events), "nothing was folded"
    return ready


def is_one_step(session: Session) -> bool:
    """Whether all that is left beside the checkpoint is the newest step, which cannot be cut: only a clip would help."""
    return not any(placed.cuttable for placed in session.log.live[1:])


def said(constraints: Sequence[str], entries: Sequence[Entry]) -> list[str]:
    """The marked constraints that were stated by now."""
    spoken = flat(" ".join(text_of(entry.message) for entry in entries if isinstance(entry, MessageEntry)))
    return [flat(rule) for rule in constraints if flat(rule) in spoken]


def flat(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def check_files(session: Session, entries: Sequence[Entry]) -> None:
    """Every file that was changed in what is folded stands in the ledger with the last thing that was done to it."""
    checkpoint = session.log.checkpoint
    assert checkpoint is not None
    head = entries[: checkpoint.first_kept]
    expected = changes_in([entry.message for entry in head if isinstance(entry, MessageEntry)])
    told = {fact.path: fact.operation for fact in checkpoint.ledger.files}

    assert {path: told.get(path) for path in expected} == expected


def changes_in(messages: Sequence[Message]) -> dict[str, str]:
    """Each file that a tool for files changed, with the last thing it did; a call that failed changed nothing."""
    results = [result for message in messages for result in results_of(message)]
    failed = {result.call_id for result in results if result.status == "error" or result.output.startswith(DECLINED)}
    done: dict[str, str] = {}
    for call in (call for message in messages for call in calls_of(message)):
        operation = OPERATIONS.get(call.tool.lower())
        arguments = json.loads(call.arguments or "{}")
        path = arguments.get("file_path") or arguments.get("path")
        if operation and path and call.call_id not in failed:
            done[path] = operation
    return done
