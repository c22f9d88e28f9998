"""One compaction has one size: in its event, in the session, on the chart, in the log and as the sum of its parts."""

import pytest
from tests.support.policies import FOLDS

from infold.core.events import Compacted, Event, Pruned
from infold.core.policy import INFOLD, Policy
from infold.ports import SessionKey
from infold.reports.details import CompactionDetail, entry_detail
from infold.reports.listing import Tallies
from infold.reports.stored_log import read_section
from infold.reports.text import describe_entry, short_number
from infold.reports.timeline import read_timeline
from infold.session.session import Session
from infold.stores.memory import MemoryStore

STEPS = 25


def recorded(model: str, policy: Policy, *, factor: float) -> tuple[MemoryStore, Session, list[Event]]:
    """A session of tool calls that was compacted; its provider counts so many times the estimate, 0 if it reports nothing."""
    store, events = MemoryStore(), list[Event]()
    session = Session(
        store, "s", model=model, window=32_000, policy=policy, format="openai-chat", on_event=events.append
    )
    new: list[object] = [{"role": "user", "content": "Port it. Never touch vendor/."}]
    for number in range(STEPS):
        ready = session.prepare_new(new)
        usage = {"prompt_tokens": int(sum(ready.report.after.values()) * factor), "completion_tokens": 20}
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        reply = {"role": "assistant", "content": f"step {number}", "tool_calls": [call]}
        choice = {"message": reply, "finish_reason": "tool_calls"}
        session.record({"choices": [choice], **({"usage": usage} if factor else {})})
        content = f"def f{number}(x): return x + {number}\n" * 100
        new = [{"role": "tool", "tool_call_id": f"c{number}", "content": content}]
    return store, session, events


each_model = pytest.mark.parametrize("model", ["claude-sonnet-5-5", "gpt-5", "gemini-3-pro"])
each_factor = pytest.mark.parametrize("factor", [0.0, 1.0, 1.1])


@each_model
@each_factor
def test_a_compaction_has_one_size(model: str, factor: float) -> None:
    """B22: whatever the model, and whether or not its provider reports usage, nobody has to ask which number is meant."""
    store, session, events = recorded(model, FOLDS, factor=factor)
    [event, *_] = [event for event in events if isinstance(event, Compacted)]
    key = SessionKey("", session.log.session_id)
    timeline = read_timeline(store, read_section(store, key))
    folded = next(one for one in timeline.annotations if one.kind == "compaction")
    after = next(point for point in timeline.points if point.number == folded.request)
    detail = entry_detail(store, key, folded.sequence)
    assert isinstance(detail, CompactionDetail)
    parts = sum(line.tokens for line in (*detail.folded, *detail.kept))

    said = f"{short_number(event.tokens_before)} → {short_number(event.tokens_after)} tokens"
    assert folded.words == describe_entry(detail.checkpoint) == said
    assert after.tokens == pytest.approx(event.tokens_after, rel=0.01)
    assert parts == pytest.approx(event.tokens_before, rel=0.01)
    assert sum(timeline.now.values()) == pytest.approx(session.tokens, rel=0.06)
    assert Tallies(store).get(key).view_tokens == session.tokens


@each_model
@each_factor
def test_a_pruning_has_one_size(model: str, factor: float) -> None:
    """B22: what a pruning leaves is the same in its event, on the chart and in the session."""
    store, session, events = recorded(model, INFOLD, factor=factor)
    [event, *_] = [event for event in events if isinstance(event, Pruned)]
    timeline = read_timeline(store, read_section(store, SessionKey("", session.log.session_id)))
    pruned = next(one for one in timeline.annotations if one.kind == "pruning")
    after = next(point for point in timeline.points if point.number == pruned.request)

    assert pruned.words == f"{len(event.targets)} parts pruned, {short_number(event.freed_tokens)} tokens freed"
    assert after.tokens == pytest.approx(event.tokens_after, rel=0.01)
    assert event.tokens_after < event.tokens_before
    assert sum(timeline.now.values()) == pytest.approx(session.tokens, rel=0.06)
    assert Tallies(store).get(SessionKey("", session.log.session_id)).view_tokens == session.tokens


def test_a_document_preset_reports_in_tokens_too() -> None:
    """B22: `turn-window` acts on characters by four; what it reports is in tokens, and its own count is named as such."""
    events: list[Event] = []
    session = Session("memory", "d", model="gpt-5", policy="turn-window", on_event=events.append)
    messages: list[dict[str, str]] = []
    for number in range(12):
        messages += [{"role": "user", "content": f"Turn {number}"}, {"role": "assistant", "content": "word " * 4_000}]
    ready = session.prepare([*messages, {"role": "user", "content": "Turn 12"}])
    [event] = [event for event in events if isinstance(event, Compacted)]

    assert event.counted_tokens > 48_000 > event.tokens_before > 40_000
    assert ready.report.tokens_after == session.tokens <= ready.report.upper_tokens
    assert f"{event.counted_tokens:,} before it by the preset's own measure" in ready.explain()
