"""Results and their calls, and harness text that a command or skill announces."""

from typing import Any, TypeAlias

import pytest

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    calls_of,
)
from infold.formats.pairing import OpenCall, Pairing, name_key
from infold.formats.registry import (
    ANTHROPIC_MESSAGES,
    CONVERSE,
    FORMATS,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    WireFormat,
)

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
    if wire is CONVERSE:
        return {"role": "user", "content": [{"text": text} for text in texts]}
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
    if wire is CONVERSE:
        calls = [{"toolUse": {"toolUseId": name, "name": "Skill", "input": {}}} for name in ids]
        told = [{"toolResult": {"toolUseId": i, "content": [{"text": o}]}} for i, o in pairs]
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
    sent: Any = wire.encode((*before, changed), decoded)[-1]
    if wire is CONVERSE:  # where neighbours of one role become one
        sent = {**sent, "content": sent["content"][1:]}
    assert sent == said(wire, SKILL, "Stop.")


HERE = MessageId("m4")


def test_a_result_finds_its_call_once() -> None:
    """A call is answered once; a second result is an orphan."""
    pairing = Pairing()
    assert pairing.open_call("a", "bash", HERE) == "a"
    assert pairing.take_call("a") == OpenCall("a", "bash")
    assert pairing.take_call("a") is None


def test_repeated_ids_become_unique() -> None:
    """A server that numbers its calls anew each turn gets ids that the log accepts, and they map back."""
    pairing = Pairing()
    ids = []
    for _ in range(3):
        ids.append(pairing.open_call("call_0", "bash", HERE))
        assert pairing.take_call("call_0") == OpenCall(ids[-1], "bash")
    assert ids == ["call_0", "call_0#2", "call_0#3"]
    assert pairing.aliases == {"call_0#2": "call_0", "call_0#3": "call_0"}


def test_a_made_id_never_meets_a_given_one() -> None:
    """An id that looks like one of ours is stepped over."""
    pairing = Pairing()
    assert pairing.open_call("a#2", "bash", HERE) == "a#2"
    assert [pairing.open_call("a", "bash", HERE) for _ in range(2)] == ["a", "a#3"]


def test_calls_without_ids_pair_by_name_in_order() -> None:
    """The oldest open call of a name is answered first."""
    pairing = Pairing()
    ids = [pairing.open_call("", tool, HERE) for tool in ("read", "bash", "read")]
    assert ids == ["m4.0", "m4.0#2", "m4.0#3"]
    assert [pairing.take_call(name_key("read")) for _ in range(2)] == [
        OpenCall("m4.0", "read"),
        OpenCall("m4.0#3", "read"),
    ]


def test_open_calls_are_found_again_after_a_restart() -> None:
    """A pairing made from the log's messages knows what is open and what was used."""
    calls = AssistantMessage(MessageId("m0"), (ToolCallPart("a", "bash", "{}"), ToolCallPart("m0.0", "read", "{}")))
    again = AssistantMessage(MessageId("m2"), (ToolCallPart("a#2", "bash", "{}"),))
    pairing = Pairing.after([calls, ToolMessage(MessageId("m1"), (ToolResultPart("a", "bash", "x"),)), again])

    assert pairing.take_call("a") == OpenCall("a#2", "bash")
    assert pairing.take_call(name_key("read")) == OpenCall("m0.0", "read")
    assert pairing.aliases == {"m0.0": "", "a#2": "a"}
    assert pairing.open_call("a", "bash", HERE) not in ("a", "a#2")


def test_an_id_may_be_missing_on_either_side() -> None:
    """A result is its id's, where a call has that id; else it answers the oldest open call of its tool, by id or not."""
    pairing = Pairing()
    ids = [pairing.open_call(wire_id, tool, HERE) for wire_id, tool in (("a", "bash"), ("", "bash"), ("b", "bash"))]
    pairing.reserve(["b", "never"])
    copied = pairing.copy()

    assert [pairing.take_call_of(wire_id, "bash") for wire_id in ("b", "", "new", "a")] == [
        OpenCall("b", "bash"),
        OpenCall("a", "bash"),
        OpenCall(ids[1], "bash"),
        None,
    ]
    assert [copied.take_call_of("", tool) for tool in ("read", "bash", "bash", "bash")] == [
        None,
        OpenCall("a", "bash"),
        OpenCall(ids[1], "bash"),
        None,
    ]
    assert copied.take_call("b") == OpenCall("b", "bash")


def test_an_id_that_looks_repeated_is_closed_as_it_is() -> None:
    """A call whose own id ends like one of ours is not open any more once it was answered."""
    asked = AssistantMessage(MessageId("m0"), (ToolCallPart("a", "bash", "{}"), ToolCallPart("a#2", "bash", "{}")))
    pairing = Pairing()
    for call in calls_of(asked):
        pairing.open_call(call.call_id, call.tool, HERE)

    assert [pairing.take_call_of("", "bash") for _ in range(3)] == [
        OpenCall("a", "bash"),
        OpenCall("a#2", "bash"),
        None,
    ]
    assert pairing.take_call("a#2") is None
