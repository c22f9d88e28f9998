"""Knowing a history again."""

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests.support.strategies import histories

from infold.core.messages import (
    OWN_IDS,
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    chain_fingerprint,
    fingerprint,
    has_ids,
    is_from_caller,
    outline_fingerprint,
)


def says(*parts: Part, name: str = "m") -> UserMessage:
    """A user message of these parts."""
    return UserMessage(MessageId(name), parts)


def calling(arguments: str, *, tool: str = "bash", call_id: str = "c") -> AssistantMessage:
    """A reply that makes one call."""
    return AssistantMessage(MessageId("a"), (ToolCallPart(call_id, tool, arguments),))


HELLO = says(TextPart("hello"))
SEEN = FilePart("image/png", 85, "a.png", "sha:1", 900)
RESULT = ToolResultPart("c", "bash", "ok")


def thinks(text: str, seal: str = "") -> AssistantMessage:
    """A reply that is reasoning alone."""
    return AssistantMessage(MessageId("a"), (ReasoningPart(text, seal),))


def block(text: str) -> AssistantMessage:
    """A reply that is one block infold has no reading for."""
    return AssistantMessage(MessageId("a"), (TextPart(text, synthetic=True, opaque=True),))


SAME: list[tuple[Message, Message]] = [
    (
        block('{"type":"new","x":1}'),
        block('{"x": 1, "type": "new", "cache_control": {"type": "ephemeral"}, "y": null}'),
    ),
    (thinks("hm", '"seal"'), thinks("hm", '"seal"')),
    (HELLO, says(TextPart("hello"), name="other")),
    (HELLO, says(TextPart(" hello\n"))),
    (HELLO, says(TextPart("hello"), TextPart("<reminder>be brief</reminder>", synthetic=True))),
    (HELLO, says(TextPart("for people", ignored=True), TextPart("hello"))),
    (calling("{}"), replace(calling("{}"), parts=(ReasoningPart("hm"), *calling("{}").parts))),
    (calling('{"a": 1, "b": [2]}'), calling('{"b":[2],"a":1}')),
    (calling("{}"), calling("{}", call_id="renamed")),
    (ToolMessage(MessageId("t"), (RESULT,)), says(replace(RESULT, call_id="d", output="ok\n"))),
    (says(SEEN), says(replace(SEEN, tokens=1_600, name="b.png"))),
]
OTHER: list[tuple[Message, Message]] = [
    (block('{"type":"new","x":1}'), block('{"type":"new","x":2}')),
    (block("[1]"), block("[2]")),
    (block('{"type":"new"}'), AssistantMessage(MessageId("a"), ())),
    (thinks("hm"), thinks("ah")),
    (thinks("", '"seal"'), thinks("", '"other"')),
    (thinks("hm"), AssistantMessage(MessageId("a"), ())),
    (HELLO, says(TextPart("hello there"))),
    (HELLO, AssistantMessage(MessageId("m"), HELLO.parts)),
    (HELLO, SystemMessage(MessageId("m"), HELLO.parts)),
    (says(TextPart("one"), TextPart("two")), says(TextPart("onetwo"))),
    (calling('{"a": 1}'), calling('{"a": 2}')),
    (calling("{}"), calling("{}", tool="read")),
    (calling("{broken"), calling("{broken too")),
    (says(RESULT), says(replace(RESULT, output="no"))),
    (says(RESULT), says(TextPart("ok"))),
    (says(SEEN), says(replace(SEEN, byte_size=901))),
    (says(SEEN), says(replace(SEEN, reference="sha:2"))),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_marks_make_no_other_message(one: Message, other: Message) -> None:
    """B26: ids, spacing, reasoning, reminders, the order of arguments and a medium's price do not count."""
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_is_said_counts(one: Message, other: Message) -> None:
    """Other words, roles, calls, arguments, results or media make another message."""
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("arguments", ["", "{broken", '{"a": "\ud800"}', "[" * 9_000, '{"n": 1' + "0" * 400 + "}"])
def test_anything_has_a_likeness(arguments: str) -> None:
    """B13: broken, bottomless and unsendable arguments are known again as they stand."""
    assert fingerprint(calling(arguments)) == fingerprint(calling(arguments, call_id="d"))


@pytest.mark.parametrize("name", [f"{own}7" for own in OWN_IDS])
def test_own_messages_are_not_the_callers(name: str) -> None:
    """B26: what infold made itself is known by its id, and no list of a caller has it."""
    assert not is_from_caller(says(TextPart("go on"), name=name))
    assert is_from_caller(says(TextPart("go on"), name="m7"))


@settings(max_examples=40)
@given(histories())
def test_a_chain_can_be_made_in_pieces(history: tuple[Message, ...]) -> None:
    """The fingerprint of a history is the same however it is divided, and changes with each message."""
    whole = chain_fingerprint("", history)
    half = len(history) // 2

    assert chain_fingerprint(chain_fingerprint("", history[:half]), history[half:]) == whole
    assert chain_fingerprint(whole, (HELLO,)) != whole
    assert chain_fingerprint("", ()) == ""


def test_a_chain_knows_the_order() -> None:
    """The same messages in another order are another history."""
    bye = says(TextPart("bye"))

    assert chain_fingerprint("", (HELLO, bye)) != chain_fingerprint("", (bye, HELLO))


def of_call(call_id: str, output: str) -> tuple[Message, ...]:
    """A call under that id, and a message with its result and a medium."""
    return calling("{}", call_id=call_id), says(TextPart("here"), replace(RESULT, call_id=call_id, output=output), SEEN)


@pytest.mark.parametrize("call_id", ["toolu_01XkQ9", "call_a8Bc#2", "365174485", "c2f5e0d1"])
def test_an_outline_knows_a_result_by_the_id_of_its_call(call_id: str) -> None:
    """B26: what callers clear from old messages, results and media, makes no other history; another call's result does."""
    whole, cleared = (of_call(call_id, output) for output in ("ok\n" * 900, "[cleared]"))
    without_medium = replace(cleared[1], parts=cleared[1].parts[:2])

    assert len({outline_fingerprint("", history) for history in (whole, cleared, (cleared[0], without_medium))}) == 1
    assert outline_fingerprint("", of_call("toolu_01Other", "[cleared]")) != outline_fingerprint("", whole)
    assert outline_fingerprint("", (calling("{}", call_id=call_id), says(TextPart("here")))) != outline_fingerprint(
        "", whole
    )
    assert has_ids(whole)
    assert chain_fingerprint("", whole) != chain_fingerprint("", cleared)


@pytest.mark.parametrize("call_id", ["call_1", "c12", "functions.bash:3", "m4.0", "m4.0#2", "7"])
def test_ids_that_only_count_tell_no_history(call_id: str) -> None:
    """B26: where every history has the same ids, results are told by what they say."""
    one, other = (of_call(call_id, output) for output in ("passed", "failed"))

    assert outline_fingerprint("", one) != outline_fingerprint("", other)
    assert not has_ids(one)
