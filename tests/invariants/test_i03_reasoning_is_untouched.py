"""I3: reasoning that its provider signed is sent as it came and in its place, or goes with its whole loop; to no one else."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.support.play import play
from tests.support.provider_rules import problems
from tests.support.strategies import histories, infold_situations

from infold import fit
from infold.core.compact import compact
from infold.core.gauge import PlanInputs
from infold.core.messages import (
    KEPT_ID,
    AssistantMessage,
    Message,
    Part,
    ReasoningPart,
    ToolCallPart,
    UserMessage,
    is_signed,
)
from infold.core.policy import preset
from infold.core.view import view
from infold.formats.registry import ANTHROPIC_MESSAGES, FORMATS, GEMINI, OPENAI_RESPONSES, WireFormat
from infold.testing.builders import calls, log_of, numbered, replies, result, user

from .scenes import EXAMPLES, bare, compactions, infold_at, story, written

SEALING = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, GEMINI)
SEAL = "c2VhbGVk"
each_sealing = pytest.mark.parametrize("wire", SEALING, ids=lambda wire: wire.name)


def sealed(wire: WireFormat, number: int) -> str:
    """A seal as that provider gives one, with a number to know it by."""
    mark = f"{SEAL}{number:04}"
    values: dict[str, object] = {
        "anthropic-messages": {"type": "thinking", "thinking": f"thought {number}", "signature": mark},
        "openai-responses": {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": mark},
        "gemini": mark,
    }
    return json.dumps(values[wire.name])


def sealed_story(wire: WireFormat, steps: int = 40) -> tuple[Message, ...]:
    """A story in which every third reply is signed, and a person speaks every eighth step."""
    messages: list[Message] = []
    for number, message in enumerate(story(steps, tokens=240)):
        if number and number % 16 == 0:
            messages += numbered([user("Go on with the next part.")], prefix=f"u{number}-")
        is_chosen = isinstance(message, AssistantMessage) and number % 6 == 1
        messages.append(
            replace(message, parts=_signed(message.parts, sealed(wire, number), wire)) if is_chosen else message
        )
    return tuple(messages)


def _signed(parts: tuple[Part, ...], seal: str, wire: WireFormat) -> tuple[Part, ...]:
    if wire is not GEMINI:
        return (ReasoningPart("", seal), *parts)
    first = parts[0]
    assert isinstance(first, ToolCallPart)
    return (replace(first, provider_data=seal), *parts[1:])


@each_sealing
@pytest.mark.parametrize("window", [1_500, 3_000, 6_000, 12_000])
def test_i03_signed_items_are_the_callers_own(wire: WireFormat, window: int) -> None:
    """B12, B24, B52: every item of a request that holds a seal is one that the caller gave, unchanged and in its order."""
    items = written(wire, sealed_story(wire))
    fitted = fit(items, window=window, format=wire.name)
    kept = [item for item in fitted.messages if SEAL in str(item)]

    assert compactions(fitted.report.events)
    assert all(item in items for item in kept)
    assert [items.index(item) for item in kept] == sorted(items.index(item) for item in kept)
    assert window < 3_000 or kept


@each_sealing
@pytest.mark.parametrize("window", [1_500, 3_000, 6_000, 12_000])
def test_i03_a_loop_begins_with_its_seal_or_is_gone(wire: WireFormat, window: int) -> None:
    """B12: of a loop that signed reasoning opened, what is kept begins with signed reasoning."""
    messages = sealed_story(wire)
    sent = {message.id for message in fit(written(wire, messages), window=window, format=wire.name).report.sent}
    decoded = wire.decode(written(wire, messages)).messages

    assert loops(decoded)
    for loop in loops(decoded):
        kept = [message for message in loop if message.id in sent]
        assert not kept or is_signed(kept[0])


def loops(messages: tuple[Message, ...]) -> list[list[Message]]:
    """For each run of steps nobody interrupted, the replies from the first signed one on."""
    runs: list[list[Message]] = [[]]
    for message in messages:
        if isinstance(message, UserMessage):
            runs.append([])
        elif isinstance(message, AssistantMessage) and (runs[-1] or is_signed(message)):
            runs[-1].append(message)
    return [run for run in runs if run]


@pytest.mark.slow
@EXAMPLES
@given(histories(max_blocks=24), infold_situations())
def test_i03_reasoning_is_never_emptied(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B12, B52: whatever is pruned, clipped or folded, a reply of the tail has every reasoning part it had, at its place, and
    old steps have no other."""
    made = {message.id: list(reasoning(message)) for message in history}
    known = {part for parts in made.values() for _, part in parts}
    for request in play(log_of((), policy=inputs.policy), history, inputs):
        for message in request.request:
            if message.id.startswith(KEPT_ID):
                assert {part for _, part in reasoning(message)} <= known
            else:
                assert list(reasoning(message)) == made.get(message.id, [])


def reasoning(message: Message) -> Iterator[tuple[int, bytes]]:
    """The reasoning of a message, with its position, as bytes."""
    for position, part in enumerate(message.parts):
        if isinstance(part, ReasoningPart):
            yield position, msgspec.json.encode(part)


@pytest.mark.parametrize("there", FORMATS, ids=lambda wire: f"to-{wire.name}")
@pytest.mark.parametrize("here", SEALING, ids=lambda wire: f"from-{wire.name}")
def test_i03_a_seal_goes_to_no_other_family(here: WireFormat, there: WireFormat) -> None:
    """B12: a session that goes on with another provider takes no reasoning of the first one's along."""
    decoded = here.decode(written(here, sealed_story(here, 6)))
    sent: list[Any] = bare(there, decoded.messages)

    assert (SEAL in str(sent)) is (here is there)
    assert problems(there, sent) == ()


def test_i03_mechanical_cleaning_spares_what_is_signed() -> None:
    """B12, S4.5: where `turn-window` takes reasoning out for want of a summary, the seals of replies that stay, stay."""
    policy = preset("turn-window")
    turns = [
        draft for number in range(8) for draft in (user(f"part {number}"), replies("word " * 8_000, reasoning="hm"))
    ]
    signed = calls("bash")
    signed = replace(signed, parts=(ReasoningPart("", sealed(ANTHROPIC_MESSAGES, 1)), *signed.parts))
    log = log_of(numbered([*turns, user("go"), signed, result()]), policy=policy)
    compaction = compact(log, infold_at(200_000, name="turn-window"))
    shown = [part for message in view(compaction.log, policy.summary) for part in message.parts]

    assert compactions(compaction.events)
    assert [part.provider_data for part in shown if isinstance(part, ReasoningPart)] == [sealed(ANTHROPIC_MESSAGES, 1)]


def test_i03_an_altered_call_would_be_noticed() -> None:
    """B24: the arguments of a call that is signed, or that stands in a signed loop, are never pruned."""
    large = json.dumps({"content": "x" * 4_000})
    signed = calls("write", arguments=large)
    signed = replace(signed, parts=(ReasoningPart("", sealed(ANTHROPIC_MESSAGES, 1)), *signed.parts))
    log = log_of(numbered([user(), signed, result(), calls("write", arguments=large), result(), user(), user()]))

    assert [placed.prunable for placed in log.live if placed.calls] == [(), ()]
