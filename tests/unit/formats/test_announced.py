"""Texts that a harness announces: a skill's after its launch, a slash command's after its name."""

from typing import Any, TypeAlias

import pytest

from infold.core.messages import Message, TextPart
from infold.formats.pairing import Pairing
from infold.formats.registry import ANTHROPIC_MESSAGES, FORMATS, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat

SKILL = "## Context\n<system-reminder>x</system-reminder>\nYou MUST do all of the above in a single message."
LAUNCH = "Launching skill: pr"
COMMAND = "<command-message>pr</command-message>\n<command-name>/pr</command-name>"
MODEL = "<command-name>/model</command-name>\n<command-args>opus</command-args>"

FORMATS_BY_NAME = pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)


Items: TypeAlias = list[dict[str, Any]]


def said(wire: WireFormat, *texts: str) -> dict[str, Any]:
    """A user's item with a block for each text."""
    if wire is GEMINI:
        return {"role": "user", "parts": [{"text": text} for text in texts]}
    kind = "input_text" if wire is OPENAI_RESPONSES else "text"
    return {"role": "user", "content": [{"type": kind, "text": text} for text in texts]}


def launched(wire: WireFormat, *outputs: str) -> Items:
    """Calls and the results that answer them."""
    ids = [f"c{n}" for n in range(len(outputs))]
    pairs = list(zip(ids, outputs, strict=True))
    calls: Items
    told: Items
    if wire is GEMINI:
        calls = [{"functionCall": {"id": name, "name": "Skill", "args": {}}} for name in ids]
        told = [{"functionResponse": {"id": i, "name": "Skill", "response": {"output": o}}} for i, o in pairs]
        return [{"role": "model", "parts": calls}, {"role": "user", "parts": told}]
    if wire is ANTHROPIC_MESSAGES:
        calls = [{"type": "tool_use", "id": name, "name": "Skill", "input": {}} for name in ids]
        told = [{"type": "tool_result", "tool_use_id": i, "content": o} for i, o in pairs]
        return [{"role": "assistant", "content": calls}, {"role": "user", "content": told}]
    if wire is OPENAI_RESPONSES:
        calls = [{"type": "function_call", "call_id": name, "name": "Skill", "arguments": "{}"} for name in ids]
        told = [{"type": "function_call_output", "call_id": i, "output": o} for i, o in pairs]
        return [*calls, *told]
    calls = [{"id": name, "type": "function", "function": {"name": "Skill", "arguments": "{}"}} for name in ids]
    told = [{"role": "tool", "tool_call_id": i, "content": o} for i, o in pairs]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *told]


def replied(wire: WireFormat) -> dict[str, Any]:
    """A model's item."""
    return (
        {"role": "model", "parts": [{"text": "Yes."}]} if wire is GEMINI else {"role": "assistant", "content": "Yes."}
    )


def persons(messages: tuple[Message, ...]) -> list[str]:
    """What a person said in these messages."""
    texts = (part for message in messages for part in message.parts if isinstance(part, TextPart))
    return [part.text for part in texts if not part.synthetic and part.text != "Yes."]


@FORMATS_BY_NAME
def test_the_text_after_a_skills_launch_is_injected(wire: WireFormat) -> None:
    """The next text is the skill's, whatever it holds; what comes after it in the same message is the person's."""
    items = [*launched(wire, LAUNCH), said(wire, SKILL, "Wait."), said(wire, "Do it.")]
    assert persons(wire.decode(items).messages) == ["Wait.", "Do it."]


@FORMATS_BY_NAME
def test_each_launch_announces_a_text(wire: WireFormat) -> None:
    """Two skills launched at once, with another result after them, bring two texts."""
    items = [*launched(wire, LAUNCH, LAUNCH, "ok"), said(wire, SKILL, "# Second", "Go.")]
    assert persons(wire.decode(items).messages) == ["Go."]


@FORMATS_BY_NAME
def test_a_reply_ends_the_wait_for_a_skills_text(wire: WireFormat) -> None:
    """Once the model has spoken, a person speaks next; other results announce nothing."""
    items = [*launched(wire, LAUNCH), replied(wire), said(wire, "Go.")]
    assert persons(wire.decode(items).messages) == ["Go."]
    assert persons(wire.decode([*launched(wire, "ok"), said(wire, "Go.")]).messages) == ["Go."]


def test_a_skills_text_may_stand_beside_its_launch() -> None:
    """On a wire where results are a user's blocks, the text may follow in the same message, and reminders before it."""
    calling, answer = launched(ANTHROPIC_MESSAGES, LAUNCH)
    blocks = said(ANTHROPIC_MESSAGES, "<system-reminder>x</system-reminder>", SKILL, "Go.")["content"]
    items = [calling, {**answer, "content": [*answer["content"], *blocks]}]
    assert persons(ANTHROPIC_MESSAGES.decode(items).messages) == ["Go."]


@pytest.mark.parametrize("wire", [OPENAI_CHAT, ANTHROPIC_MESSAGES], ids=lambda wire: wire.name)
def test_text_without_blocks_is_marked_too(wire: WireFormat) -> None:
    """A skill's text may be the message itself."""
    items = [*launched(wire, LAUNCH), {"role": "user", "content": SKILL}, {"role": "user", "content": "Go."}]
    assert persons(wire.decode(items).messages) == ["Go."]


@FORMATS_BY_NAME
def test_a_later_decoding_knows_what_was_announced(wire: WireFormat) -> None:
    """Whether a list is decoded at once, in pieces, from a copy or after its messages were stored, the marks are the same."""
    earlier, later = launched(wire, LAUNCH), [said(wire, SKILL), said(wire, "Go.")]
    pairing = Pairing()
    before = wire.decode(earlier, pairing=pairing).messages
    middle = wire.decode(later[:1]).messages
    assert persons(middle)
    for known in (pairing.copy(), Pairing.after(before)):
        marked = wire.decode(later[:1], pairing=known).messages
        assert persons(marked) == []
        for going_on in (known, Pairing.after((*before, *marked))):
            assert persons(wire.decode(later[1:], pairing=going_on).messages) == ["Go."]


@FORMATS_BY_NAME
def test_the_block_after_a_slash_command_is_what_it_stands_for(wire: WireFormat) -> None:
    """The next block is the command's, reminders aside; then, and in the next message, the person speaks."""
    reminder = "<system-reminder>x</system-reminder>"
    item = said(wire, COMMAND + "\n<command-args>for #3</command-args>", reminder, SKILL, "Wait.")
    assert persons(wire.decode([item, said(wire, "Go.")]).messages) == ["for #3", "Wait.", "Go."]
    assert persons(wire.decode([said(wire, COMMAND), said(wire, "Go.")]).messages) == ["Go."]


@FORMATS_BY_NAME
def test_a_local_command_stands_for_nothing(wire: WireFormat) -> None:
    """What is typed after a command that the agent carried out itself is the person's, though it shares its message."""
    output = "<local-command-stdout>done</local-command-stdout>"
    items = [said(wire, MODEL, output, "Fix it."), said(wire, MODEL, "Go."), said(wire, COMMAND, output, "Test it.")]
    assert persons(wire.decode(items).messages) == ["Fix it.", "Go.", "Test it."]


@FORMATS_BY_NAME
def test_marks_leave_the_wire_as_it_was(wire: WireFormat) -> None:
    """Marked messages go out as the very objects they came as."""
    items = [*launched(wire, LAUNCH), said(wire, SKILL, "Go."), replied(wire), said(wire, COMMAND, SKILL)]
    decoded = wire.decode(items)
    assert all(out is given for out, given in zip(wire.encode(decoded.messages, decoded), items, strict=True))


@FORMATS_BY_NAME
def test_a_marked_text_can_be_altered(wire: WireFormat) -> None:
    """A marked block has as many parts as an unmarked one, so that its neighbour alone changes."""
    items = [*launched(wire, LAUNCH), said(wire, SKILL, "Go.")]
    decoded = wire.decode(items)
    *before, last = decoded.messages
    changed = type(last)(last.id, (*last.parts[:-1], TextPart("Stop.")))
    assert wire.encode((*before, changed), decoded)[-1] == said(wire, SKILL, "Stop.")
