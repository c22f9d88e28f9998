"""I1: every call has exactly one result, right after it and in call order, and no result lacks its call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.play import play
from tests.support.provider_rules import problems
from tests.support.strategies import histories, situations

from infold.core.events import Event, Repaired
from infold.core.gauge import PlanInputs
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
)
from infold.core.policy import PRESETS
from infold.errors import InfoldError
from infold.formats.registry import FORMATS, GEMINI, OPENAI_CHAT, WireFormat
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, log_of, numbered, replies, result, user

from .scenes import (
    EXAMPLES,
    Notetaker,
    bare,
    compactions,
    each_preset,
    each_wire,
    opened,
    pair_faults,
    played,
    story,
    told_of,
    written,
)

OPENING = UserMessage(MessageId("opening"), (TextPart("Port the parser."),))


@pytest.mark.slow
@EXAMPLES
@given(histories(), situations())
def test_i01_holds_in_every_preset_on_every_wire(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12: whatever was said, called, answered late or never, each request of each preset is one that each provider takes."""
    for request in play(log_of((), policy=inputs.policy), (OPENING, *history), inputs):
        assert pair_faults(request.request) == []
        for wire in FORMATS:
            assert problems(wire, bare(wire, request.request)) == ()


@pytest.mark.slow
@each_wire
def test_i01_holds_after_ten_compactions(wire: WireFormat) -> None:
    """B3, B12: ten compactions by a model, one upon the other, with two calls at once, leave whole pairs in each request."""
    session = opened("infold", wire, window=4_096, notes=Notetaker())
    events: list[Event] = []
    for ready in played(session, wire, story(70, parallel=2)):
        events += ready.events
        assert problems(wire, ready.messages) == ()
        assert pair_faults(wire.decode(ready.messages).messages) == []

    assert len(compactions(events)) >= 10


@pytest.mark.slow
@EXAMPLES
@given(
    st.sampled_from(sorted(PRESETS)),
    st.lists(st.sampled_from(("work", "call", "speak", "compact", "undo", "reopen")), min_size=3, max_size=12),
)
def test_i01_holds_after_each_operation(name: str, operations: list[str]) -> None:
    """B12, B13: after each step, interruption, compaction, undo and reopening, in any order, the next request is whole."""
    store, notes = MemoryStore(), Notetaker()
    session = opened(name, OPENAI_CHAT, store=store, notes=notes)
    session.prepare_new(written(OPENAI_CHAT, [OPENING]))
    for number, operation in enumerate(operations):
        if operation == "reopen":
            session = opened(name, OPENAI_CHAT, store=store, notes=notes)
        elif operation == "undo" and session.log.checkpoint is not None:
            session.undo()
        elif operation == "compact" and session.log.live:
            session.prepare_new([])
            session.compact()
        else:
            session.prepare_new(written(OPENAI_CHAT, said(operation, number)))
        ready = session.prepare_new([])
        assert problems(OPENAI_CHAT, ready.messages) == ()
        assert pair_faults(OPENAI_CHAT.decode(ready.messages).messages) == []


def said(operation: str, number: int) -> tuple[Message, ...]:
    """What an operation adds: a finished step, a call that is still open, or a word of the user's."""
    drafts: dict[str, list[Message]] = {
        "work": [calls("bash", "read"), result(900), result(700)],
        "call": [calls("bash", "read"), result(400)],
    }
    spoken: list[Message] = [user("And now?"), replies("Now the next part is built with make." * 40)]
    return numbered(drafts.get(operation, spoken), prefix=f"o{number}-")


@each_preset
@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
def test_i01_a_result_still_to_come_finds_its_call(name: str, wire: WireFormat) -> None:
    """B12: a compaction between a call and its result neither answers the call for good nor orphans the result."""
    session = opened(name, wire, window=64_000, notes=Notetaker())
    *before, call, answer = (
        *story(12),
        *numbered([calls("bash"), result(output="the harbour is open")], prefix="last"),
    )
    session.prepare_new(written(wire, before))
    session.prepare_new(written(wire, [call]))
    between = session.compact()
    after = session.prepare_new(written(wire, [answer]))

    assert pair_faults(wire.decode(between.messages).messages) == []
    assert pair_faults(wire.decode(after.messages).messages) == []
    assert told_of(after).count("the harbour is open") == 1


@each_wire
def test_i01_an_interrupted_call_is_answered_once(wire: WireFormat) -> None:
    """B12, B13: where a person speaks instead of the tool, the call is answered as interrupted, and a late answer is text."""
    session = opened("infold", wire)
    call, answer = numbered([calls("bash"), result(output="finished at last")])
    spoken = numbered([user("Never mind.")], prefix="n")
    first = session.prepare_new(written(wire, [OPENING, call, *spoken]))
    second = session.prepare_new(written(wire, [answer]))

    for ready in (first, second):
        assert problems(wire, ready.messages) == ()
        assert told_of(ready).count("interrupted") == 1
    assert [type(event) for event in (*first.events, *second.events)] == [Repaired]
    assert "finished at last" in told_of(second)


@pytest.mark.parametrize(
    ("wire", "together"),
    [(wire, together) for wire in FORMATS for together in (True, False) if together or wire is not GEMINI],
    ids=lambda value: value.name if isinstance(value, WireFormat) else str(value),
)
@pytest.mark.parametrize("answered", [(0, 2), (1,), (1, 2), (3,), (0, 1, 3)])
def test_i01_own_answers_stand_in_the_order_of_the_calls(
    wire: WireFormat, answered: tuple[int, ...], together: bool
) -> None:
    """B12: of four calls at once some are never answered; infold's answers stand among the real ones as the calls do.

    Gemini takes answers in one item only.
    """
    session = opened("infold", wire)
    asked, spoken = numbered([calls("bash", "read", "grep", "bash"), user("Stop.")], prefix="p")
    parts = [ToolResultPart(f"p0-call{n}", calls_of(asked)[n].tool, f"the {n}th") for n in answered]
    groups = [tuple(parts)] if together else [(part,) for part in parts]
    answers = [ToolMessage(MessageId(f"r{number}"), group) for number, group in enumerate(groups)]
    ready = session.prepare_new(written(wire, [OPENING, asked, *answers, spoken]))
    told = [part.output for message in wire.decode(ready.messages).messages for part in results_of(message)]

    assert problems(wire, ready.messages) == ()
    assert pair_faults(wire.decode(ready.messages).messages) == []
    assert [output if output.startswith("the ") else "" for output in told] == [
        f"the {n}th" if n in answered else "" for n in range(4)
    ]


def _asks(*call_ids: str) -> AssistantMessage:
    return AssistantMessage(MessageId("asks"), tuple(ToolCallPart(call_id, "bash", "{}") for call_id in call_ids))


def _answers(*call_ids: str) -> ToolMessage:
    return ToolMessage(MessageId("answers"), tuple(ToolResultPart(call_id, "bash", "x") for call_id in call_ids))


@pytest.mark.parametrize(
    "broken",
    [
        (_asks("a"),),
        (_answers("a"),),
        (_asks("a", "b"), _answers("a")),
        (_asks("a"), OPENING, _answers("a")),
        (_asks("a"), _answers("a"), _answers("a")),
        (_asks("a", "b"), _answers("b", "a")),
        (_asks("a", "b"), _answers("b"), _answers("a")),
    ],
)
def test_i01_a_broken_pair_is_found(broken: tuple[Message, ...]) -> None:
    """The check can fail: calls without answers, answers without calls, words between them, a wrong order."""
    assert pair_faults(broken)


def test_i01_an_orphan_is_refused() -> None:
    """B12: a result that no call asked for never enters the log."""
    with pytest.raises(InfoldError, match="which no earlier message leaves open"):
        log_of((OPENING, _answers("a")))
