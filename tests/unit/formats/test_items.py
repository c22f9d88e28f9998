"""Wire items made plain."""

from types import MappingProxyType

import pytest
from msgspec import Raw
from openai.types.chat import ChatCompletionMessage

from infold.core.messages import TextPart
from infold.errors import BrokenInput
from infold.formats.codec import (
    MalformedError,
    as_came,
    cleaned,
    id_field,
    joined,
    json_text,
    listed,
    plain,
    text_field,
    user_text,
)
from infold.formats.openai_chat import decode
from infold.formats.pairing import Pairing


def test_a_dict_is_itself() -> None:
    """A dict is read as it stands, not copied."""
    item = {"role": "user"}
    assert plain(item) is item


@pytest.mark.parametrize("guise", [b'{"role":"user"}', bytearray(b'{"role":"user"}'), Raw(b'{"role":"user"}')])
def test_json_bytes_are_parsed(guise: bytes | bytearray | Raw) -> None:
    """Bytes in any wrapping are read as JSON and given back as bytes, `Raw` as `Raw`."""
    assert plain(guise) == {"role": "user"}
    again = as_came(guise, {"role": "tool"})
    assert isinstance(again, Raw if isinstance(guise, Raw) else bytes)
    assert plain(again) == {"role": "tool"}


def test_sdk_objects_are_dumped() -> None:
    """An SDK's reply object can stand in the list as it is."""
    assert plain(ChatCompletionMessage(role="assistant", content="x")) == {"role": "assistant", "content": "x"}


@pytest.mark.parametrize("wrong", [3, None, "text", ["a"], b"{", b"[1]", b"\xff"])
def test_what_is_no_object_is_refused(wrong: object) -> None:
    """Numbers, text, lists and broken JSON are no items."""
    with pytest.raises(BrokenInput, match="give"):
        plain(wrong)


def test_any_mapping_will_do() -> None:
    """A mapping that is no dict is read as one."""
    assert plain(MappingProxyType({"role": "user"})) == {"role": "user"}


def test_stretches_join_in_order() -> None:
    """Two decodings of one history become one, with the ids of both."""
    call = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}
    pairing = Pairing()
    head = decode([call, call], pairing=pairing)
    both = joined(head, decode([{"role": "user", "content": "x"}], first=2, pairing=pairing))
    assert [message.id for message in both.messages] == ["m0", "m1", "m2"]
    assert both.aliases == {"a#2": "a"}


def test_bytes_with_lone_surrogates_are_read() -> None:
    """JSON that escapes half a character is read all the same, and can be written again."""
    item = plain(b'{"content":"a\\ud83d"}')
    assert cleaned(item["content"]) == "a\ufffd"
    assert as_came(b"", item) == '{"content":"a\ufffd"}'.encode()


def test_lone_surrogates_never_reach_the_core() -> None:
    """Text with half a character in it gets U+FFFD in its place."""
    part = user_text("ok \ud800 é")[0]
    assert part == TextPart("ok \ufffd é")
    assert cleaned("é") == "é"


def test_json_is_written_for_odd_values() -> None:
    """Numbers beyond 64 bits, SDK objects and lone surrogates do not stop the writer."""
    assert json_text({"n": 2**70}) == '{"n":1180591620717411303424}'
    assert json_text([ChatCompletionMessage(role="assistant")]) == '[{"role":"assistant"}]'
    assert json_text("\ud800") == '"\ufffd"'
    assert json_text({"a": 1}) == '{"a":1}'


def test_what_cannot_be_json_is_refused() -> None:
    """Keys of a wrong kind and circles are told as broken input."""
    circle: dict[str, object] = {}
    circle["self"] = circle
    for wrong in (circle, {(1, 2): "\ud800"}):
        with pytest.raises(MalformedError):
            json_text(wrong)


def test_blocks_are_a_list_or_nothing() -> None:
    """Nothing is no blocks; a number is a mistake."""
    assert listed(None, "content") == ()
    with pytest.raises(MalformedError, match="content is an int"):
        listed(3, "content")


def test_the_first_text_field_counts() -> None:
    """Fields that are missing, empty or no text are passed over."""
    assert text_field({"a": 3, "b": "", "c": "x"}, "a", "b", "c") == "x"
    assert text_field({}, "a") == ""


def test_ids_may_be_whole_numbers() -> None:
    """An id that is a number is the text of it, in the order of the fields; yes and no are none."""
    assert id_field({"a": "", "b": 7, "c": "x"}, "a", "b", "c") == "7"
    assert id_field({"a": "x", "b": 7}, "a", "b") == "x"
    assert id_field({"a": True}, "a") == ""


def test_a_malformed_item_has_its_place() -> None:
    """Whoever catches the error can ask which item it was."""
    with pytest.raises(MalformedError, match=r"openai-chat: item 1: content is an int") as caught:
        decode([{"role": "user", "content": "x"}, {"role": "user", "content": 5}])

    assert caught.value.index == 1


def test_numbers_beyond_a_double_are_kept() -> None:
    """B25: a number that no double holds is written as a number again, by the quick encoder and the slow one."""
    assert json_text(plain(b'{"a": 1e400, "b": [-2.5E+999]}')) == '{"a":1E+400,"b":[-2.5E+999]}'
    slow = json_text(plain(b'{"a": 1e400, "b": "\\ud800", "c": 1e5000}'))
    assert slow == '{"a":1' + "0" * 400 + ',"b":"\ufffd","c":"1E+5000"}'
    with pytest.raises(MalformedError, match="beyond all bounds"):
        plain(b'{"a": 1e9999999999999999999999}')
