"""What a caller gives is what the caller gets back, unless infold changed it; and then the provider accepts it."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter
from tests.support.provider_rules import problems
from tests.support.wire import WireHistory, guises, wire_histories

from infold.core.entries import Clip, Clipping, Handle, MessageEntry
from infold.core.log import Log
from infold.core.messages import (
    FilePart,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    SessionId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
)
from infold.core.policy import SummaryPolicy
from infold.core.view import view
from infold.formats.codec import Decoded, as_dict, join_decoded
from infold.formats.pairing import Pairing
from infold.formats.registry import detect

pytestmark = pytest.mark.slow

EXAMPLES = settings(deadline=None)
SDK_TYPES: dict[str, TypeAdapter[Any]] = {
    "openai-chat": TypeAdapter(list[ChatCompletionMessageParam]),
    "openai-responses": TypeAdapter(list[ResponseInputItemParam]),
    "anthropic-messages": TypeAdapter(list[MessageParam]),
}
STUB = "[old tool result cleared]"


@EXAMPLES
@given(wire_histories())
def test_a_history_comes_back_as_the_very_objects(history: WireHistory) -> None:
    """Decoding and encoding an untouched history yields the caller's own objects, unchanged."""
    before = copy.deepcopy(history.items)
    decoded = history.format.decode(history.items)

    encoded = history.format.encode(decoded.messages, decoded)

    assert all(one is other for one, other in zip(encoded, history.items, strict=True))
    assert history.items == before


@EXAMPLES
@given(wire_histories(), st.data())
def test_bytes_and_sdk_objects_come_back_as_they_are(history: WireHistory, data: st.DataObject) -> None:
    """Items in any guise decode to the same messages as dicts do, and come back as themselves."""
    items = data.draw(guises(history.items))
    decoded = history.format.decode(items)

    assert decoded.messages == history.format.decode(history.items).messages
    assert all(a is b for a, b in zip(history.format.encode(decoded.messages, decoded), items, strict=True))


@EXAMPLES
@given(wire_histories())
def test_messages_read_from_a_store_find_their_sources(history: WireHistory) -> None:
    """Messages that are equal but not the same objects count as untouched."""
    decoded = history.format.decode(history.items)
    stored = msgspec.json.decode(msgspec.json.encode(decoded.messages), type=tuple[Message, ...])

    assert all(a is b for a, b in zip(history.format.encode(stored, decoded), history.items, strict=True))


@EXAMPLES
@given(wire_histories(), st.integers(0, 40))
def test_decoding_in_two_stretches_pairs_as_in_one(history: WireHistory, at: int) -> None:
    """A session that decodes only what is new gets the same calls and results as one that decodes all."""
    pairing = Pairing()
    head = history.format.decode(history.items[:at], pairing=pairing)
    tail = history.format.decode(history.items[at:], first=len(head.messages), pairing=pairing)
    both = join_decoded(head, tail)

    whole = history.format.decode(history.items)
    assert _tools_of(both) == _tools_of(whole)
    assert len({message.id for message in both.messages}) == len(both.messages)


@EXAMPLES
@given(wire_histories(), st.integers(0, 40))
def test_pairing_can_be_rebuilt_from_messages(history: WireHistory, at: int) -> None:
    """Results find their calls when only the log's messages are left of the earlier stretch."""
    head = history.format.decode(history.items[:at])
    tail = history.format.decode(history.items[at:], first=len(head.messages), pairing=Pairing.after(head.messages))

    assert _tools_of(join_decoded(head, tail)) == _tools_of(history.format.decode(history.items))


@EXAMPLES
@given(wire_histories(), st.data())
def test_altered_histories_are_accepted_and_touch_nothing(history: WireHistory, data: st.DataObject) -> None:
    """Pruned results and arguments give a valid request, and the caller's objects stay as they were."""
    items = data.draw(guises(history.items))
    before = copy.deepcopy(history.items)
    decoded = history.format.decode(items)
    shown = tuple(_pruned(message, data.draw(st.booleans())) for message in decoded.messages)

    encoded = history.format.encode(shown, decoded)

    _accepted(history, encoded)
    assert history.items == before
    assert [_shape(message) for message in history.format.decode(encoded).messages] == [_shape(m) for m in shown]


@EXAMPLES
@given(wire_histories())
def test_folded_histories_are_accepted(history: WireHistory) -> None:
    """A checkpoint before the last turn, whose last answer is still to come, gives a valid request."""
    decoded = history.format.decode(history.items)
    last = max(place for place, message in enumerate(decoded.messages) if isinstance(message, UserMessage))
    checkpoint = UserMessage(MessageId("c1"), (TextPart("Summary so far.", synthetic=True),))

    _accepted(history, history.format.encode((checkpoint, *decoded.messages[last:]), decoded))


@EXAMPLES
@given(wire_histories())
def test_interrupted_calls_are_answered(history: WireHistory) -> None:
    """Where results are missing, infold's own results make the request valid."""
    decoded = history.format.decode(history.items)
    shown = tuple(part for message in decoded.messages for part in _interrupted(message))

    _accepted(history, history.format.encode(shown, decoded))


@EXAMPLES
@given(wire_histories())
def test_partly_interrupted_calls_are_answered(history: WireHistory) -> None:
    """Where one of several parallel results is missing, infold's own stands beside the caller's."""
    decoded = history.format.decode(history.items)
    shown = tuple(part for message in decoded.messages for part in _half_interrupted(message))

    _accepted(history, history.format.encode(shown, decoded))


@EXAMPLES
@given(wire_histories())
def test_a_history_without_sources_is_written_anew(history: WireHistory) -> None:
    """A log whose sources are gone still encodes to a request the provider accepts."""
    decoded = history.format.decode(history.items)
    bare = Decoded(decoded.format, (), (), decoded.aliases)

    _accepted(history, history.format.encode(decoded.messages, bare))


@EXAMPLES
@given(wire_histories())
def test_the_format_is_detected(history: WireHistory) -> None:
    """A history with marks of its own is told apart; plain text counts as chat."""
    found = detect(history.items)

    is_plain = all(isinstance(item.get("content"), str) for item in history.items)
    assert found is history.format or (is_plain and found.name == "openai-chat") or _has_text_blocks_only(history)


@EXAMPLES
@given(wire_histories(), st.data())
def test_the_log_is_never_given_an_orphan(history: WireHistory, data: st.DataObject) -> None:
    """Whatever items are missing, each result comes once and after its call, and the sources come back."""
    kept = [item for item in history.items if data.draw(st.booleans())]
    decoded = history.format.decode(kept + kept)

    asked: set[str] = set()
    for message in decoded.messages:
        for result in results_of(message):
            asked.remove(result.call_id)
        calls = [call.call_id for call in calls_of(message)]
        assert not asked & set(calls)
        asked |= set(calls)
    assert all(a is b for a, b in zip(history.format.encode(decoded.messages, decoded), kept + kept, strict=True))


@EXAMPLES
@given(wire_histories(), st.data())
def test_the_log_s_own_view_is_accepted(history: WireHistory, data: st.DataObject) -> None:
    """B12, B30: whatever results are missing or late, a view with a change of infold's in it is a valid request."""
    items = _disordered(history, data)
    decoded = history.format.decode(items)
    log = Log(SessionId("s")).extend(MessageEntry(message) for message in decoded.messages)
    log = log.append(Clipping((Clip(Handle("0.0"), 10_000, 10_000),)))

    _accepted(history, history.format.encode(view(log, SummaryPolicy(shape="marked")), decoded))


@EXAMPLES
@given(wire_histories())
def test_cleaned_and_clipped_histories_are_accepted(history: WireHistory) -> None:
    """Without reasoning, and with notes in place of media, a history is still a valid request and keeps the rest."""
    decoded = history.format.decode(history.items)
    cleaned = tuple(replace(message, parts=tuple(_clean(message.parts))) for message in decoded.messages)

    encoded = history.format.encode(cleaned, decoded)

    _accepted(history, encoded)
    assert _tools_of(history.format.decode(encoded)) == _tools_of(decoded)
    assert not any(isinstance(part, FilePart) for m in history.format.decode(encoded).messages for part in m.parts)


@pytest.mark.parametrize("name", sorted(SDK_TYPES))
def test_the_sdk_check_refuses_nonsense(name: str) -> None:
    """The check against the SDKs' types is one that can fail."""
    with pytest.raises(ValueError, match="validation error"):
        _consumed(SDK_TYPES[name].validate_python([{"role": "user", "content": 3}]))


def _disordered(history: WireHistory, data: st.DataObject) -> list[Any]:
    """The items with some results gone and some put at the end."""
    decoded = history.format.decode(history.items)
    kept: list[object] = []
    late: list[object] = []
    for message, sources in zip(decoded.messages, decoded.sources, strict=True):
        places = {"keep": kept, "late": late, "drop": []}
        is_tools = isinstance(message, ToolMessage)
        for source in sources:
            places[data.draw(st.sampled_from(sorted(places))) if is_tools else "keep"].append(source)
    return [*kept, *late]


def _clean(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, FilePart):
            yield TextPart("[left out]", synthetic=True)
        elif not isinstance(part, ReasoningPart):
            yield part


def _tools_of(decoded: Decoded) -> list[list[str]]:
    calls = [call.tool for message in decoded.messages for call in calls_of(message)]
    results = [result.tool for message in decoded.messages for result in results_of(message)]
    return [calls, results]


def _pruned(message: Message, is_chosen: bool) -> Message:
    return replace(message, parts=tuple(map(_prune, message.parts))) if is_chosen else message


def _prune(part: Part) -> Part:
    if isinstance(part, ToolResultPart):
        return replace(part, output=STUB)
    if isinstance(part, ToolCallPart):
        stubbed = dict.fromkeys(msgspec.json.decode(part.arguments), "[cleared]")
        return replace(part, arguments=msgspec.json.encode(stubbed).decode())
    return part


def _shape(message: Message) -> object:
    return type(message), [_essence(part) for part in message.parts]


def _essence(part: Part) -> object:
    return msgspec.json.decode(part.arguments) if isinstance(part, ToolCallPart) else part


def _interrupted(message: Message) -> tuple[Message, ...]:
    """The view without the caller's results, infold's in their place."""
    if isinstance(message, ToolMessage):
        return ()
    results = tuple(ToolResultPart(call.call_id, call.tool, "interrupted", "interrupted") for call in calls_of(message))
    return (message, ToolMessage(MessageId(f"x-{message.id}"), results)) if results else (message,)


def _half_interrupted(message: Message) -> tuple[Message, ...]:
    """The view with the last of each step's results infold's own."""
    if not isinstance(message, ToolMessage) or not results_of(message):
        return (message,)
    last = message.parts[-1]
    assert isinstance(last, ToolResultPart)
    own = ToolMessage(MessageId(f"x-{message.id}"), (replace(last, output="gone", status="interrupted"),))
    rest = replace(message, parts=message.parts[:-1])
    return (rest, own) if rest.parts else (own,)


def _accepted(history: WireHistory, encoded: list[object]) -> None:
    assert problems(history.format, encoded) == ()
    adapter = SDK_TYPES.get(history.format.name)
    if adapter is not None:
        _consumed(adapter.validate_python([as_dict(item) for item in encoded]))


def _consumed(value: object) -> None:
    """Walk a validated value: the SDKs' `Iterable` fields are checked only when they are read."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _consumed(inner)


def _has_text_blocks_only(history: WireHistory) -> bool:
    blocks = [block for item in history.items for block in _blocks(item)]
    return detect(history.items).name == "openai-chat" and all(block.get("type") == "text" for block in blocks)


def _blocks(item: dict[str, Any]) -> list[dict[str, Any]]:
    return item["content"] if isinstance(item.get("content"), list) else []
