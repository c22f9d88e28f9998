"""From the bytes of a stream to what is heard of a model."""

from collections.abc import Iterator

import pytest

from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import ModelRef, Usage
from infold.core.summary_request import Additions, own_request
from infold.errors import ModelBusy, ModelOverflow
from infold.formats.registry import FORMATS, OPENAI_CHAT
from infold.models.failures import Endpoint
from infold.models.streaming import (
    ASSUMED_OUTPUT_TOKENS,
    build_summary_request,
    output_limit,
    read_stream,
    read_summary,
)
from infold.ports import Heard, Replied, Said

LINE = Endpoint("m", "http://127.0.0.1:9", variable="X")
BEGUN = b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Well"}}]}\n\n'
ENDED = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
COUNTED = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}\n\n'
ERROR = b'data: {"error": {"code": 500, "message": "sorry"}}\n\n'
ASK = own_request("[user] hi", Additions(), output_tokens=500)


def all_heard(*pieces: bytes) -> list[Heard]:
    """What a chat stream of these bytes says."""
    return list(read_stream(LINE, OPENAI_CHAT, pieces))


def test_pieces_may_be_split_anywhere() -> None:
    """S3.10: what is heard does not depend on how the bytes arrive."""
    stream = BEGUN + ENDED + COUNTED + b"data: [DONE]\n\n"
    whole = all_heard(stream)

    assert whole[0] == Said("Well")
    assert isinstance(whole[-1], Replied)
    assert OPENAI_CHAT.usage(whole[-1].body) == Usage(7, 1)
    assert all_heard(*(bytes([byte]) for byte in stream)) == whole


def test_the_last_event_counts_without_its_empty_line() -> None:
    """S3.10: some servers end a stream with its last character."""
    assert isinstance(all_heard(BEGUN, ENDED.rstrip())[-1], Replied)


@pytest.mark.parametrize("pieces", [(), (BEGUN,), (b": a comment\n\n",), (b"<html>sorry</html>",), (BEGUN, b"data: {")])
def test_half_a_reply_is_none(pieces: tuple[bytes, ...]) -> None:
    """B13: whatever came, a reply that its provider did not end broke off."""
    with pytest.raises(ModelBusy, match="the reply broke off"):
        all_heard(*pieces)


def test_an_error_ends_the_stream() -> None:
    """B10: what comes after it is not waited for."""

    def pieces() -> Iterator[bytes]:
        yield BEGUN + ERROR
        raise AssertionError("nothing more is read")

    stream = read_stream(LINE, OPENAI_CHAT, pieces())

    assert next(stream) == Said("Well")
    with pytest.raises(ModelBusy, match="m: sorry"):
        next(stream)


def test_an_overflow_may_come_late() -> None:
    """B7, B11: a provider may notice only while it answers."""
    with pytest.raises(ModelOverflow):
        all_heard(BEGUN, b'data: {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}\n\n')


def test_a_summary_is_told_as_it_is_written() -> None:
    """S3.10, B22: pieces of it, then all of it with model, usage and price."""
    told = [*read_summary(ModelRef("openai", "gpt-4o-mini"), OPENAI_CHAT, all_heard(BEGUN, ENDED, COUNTED))]

    assert told[0] == "Well"
    assert isinstance(told[-1], ModelAnswer)
    assert told[-1].answer == Answer("Well", "stop")
    assert (told[-1].model, told[-1].usage) == ("gpt-4o-mini", Usage(7, 1))
    assert told[-1].cost > 0


@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
def test_a_summary_is_asked_for_in_any_format(wire: object) -> None:
    """S3.4: the system prompt, the request's messages and the most that may be written."""
    asked = build_summary_request(wire, ASK)  # type: ignore[arg-type] # one of FORMATS

    assert (asked.system, asked.output_tokens, asked.tools) == (ASK.system, 500, ())
    assert "[user] hi" in str(asked.messages)


def test_the_longest_answer_is_the_catalogues() -> None:
    """B8: a provider that wants to be told is told what the model can do, or a careful figure."""
    assert output_limit(ModelRef("anthropic", "claude-sonnet-4-5")) == 64_000
    assert output_limit(ModelRef("", "nobody-knows-me")) == ASSUMED_OUTPUT_TOKENS
