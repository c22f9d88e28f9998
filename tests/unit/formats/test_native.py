"""The provider's own compaction on the wire: who offers it, how it is asked for, and what of a reply is read."""

import pytest

from infold.core.summary_request import SummaryRequest
from infold.formats.overflow import recognise
from infold.formats.registry import ANTHROPIC_MESSAGES, GEMINI, OPENAI_RESPONSES
from infold.formats.requests import (
    add_betas,
    native_betas,
    native_body,
    native_path_suffix,
    offers_native,
    read_native,
)

REQUEST = SummaryRequest(
    "", (), 900, is_native=True, instructions="Write notes.", items=({"role": "user", "content": "a"},)
)
BLOCK = {"type": "compaction", "content": "All is well.", "encrypted_content": "x", "signature": "y"}


@pytest.mark.parametrize(
    ("wire", "host", "offered"),
    [
        (ANTHROPIC_MESSAGES, "api.anthropic.com", True),
        (ANTHROPIC_MESSAGES, "API.Anthropic.com:443", True),
        (ANTHROPIC_MESSAGES, "my.services.ai.azure.com", True),
        (ANTHROPIC_MESSAGES, "bedrock-runtime.us-east-1.amazonaws.com", False),
        (ANTHROPIC_MESSAGES, "anthropic.com.example.org", False),
        (OPENAI_RESPONSES, "api.openai.com", True),
        (OPENAI_RESPONSES, "localhost:8080", False),
        (OPENAI_RESPONSES, "", False),
        (GEMINI, "generativelanguage.googleapis.com", False),
    ],
)
def test_only_documented_hosts_offer_it(wire: object, host: str, offered: bool) -> None:
    """B42: of a server that is not known, nothing is assumed."""
    assert offers_native(wire, host) is offered  # type: ignore[arg-type]


def test_anthropic_is_asked_with_the_ordinary_request() -> None:
    """B42: system, tools and thinking stay as they are; what the answer would look like, and edits, are left out."""
    body = {
        "model": "claude-opus-5-5",
        "system": "s",
        "tools": [{"name": "t"}],
        "messages": ["all"],
        "stream": True,
        "max_tokens": 9,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": []},
        "tool_choice": {"type": "any"},
    }
    assert native_body(ANTHROPIC_MESSAGES, body, REQUEST) == {
        "model": "claude-opus-5-5",
        "system": "s",
        "tools": [{"name": "t"}],
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 900,
        "thinking": {"type": "adaptive"},
        "compaction": {"type": "summarize", "instructions": "Write notes."},
    }
    assert "thinking" not in native_body(ANTHROPIC_MESSAGES, {"thinking": {"budget_tokens": 9}}, REQUEST)
    assert native_betas(ANTHROPIC_MESSAGES) == ("compact-2026-09-04",)
    assert native_path_suffix(ANTHROPIC_MESSAGES) == ""


def test_openai_is_asked_at_another_path() -> None:
    """B42: with the fields that this path takes, and no others."""
    body = {"model": "gpt-5.4", "input": [1], "instructions": "i", "prompt_cache_key": "k", "tools": [], "stream": True}
    assert native_body(OPENAI_RESPONSES, body, REQUEST) == {
        "model": "gpt-5.4",
        "instructions": "i",
        "prompt_cache_key": "k",
        "input": [{"role": "user", "content": "a"}],
    }
    assert native_betas(OPENAI_RESPONSES) == ()
    assert native_path_suffix(OPENAI_RESPONSES) == "/compact"


def test_anthropics_block_is_read_with_what_it_took() -> None:
    """B42: its text can be read; its tokens are in an iteration of their own, beside the usual counts."""
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "iterations": [
            {"type": "compaction", "input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 50},
            {"type": "message", "input_tokens": 1, "output_tokens": 2},
        ],
    }
    native = read_native(ANTHROPIC_MESSAGES, {"content": [BLOCK], "stop_reason": "compaction", "usage": usage})
    assert native is not None
    assert native.answer.text == "All is well."
    assert native.usage is not None
    assert (native.usage.input, native.usage.output, native.usage.cache_read) == (101, 22, 50)
    assert ANTHROPIC_MESSAGES.encode_new(native.native[0]) == [{"role": "assistant", "content": [BLOCK]}]


@pytest.mark.parametrize(
    "reply",
    [
        {},
        None,
        "text",
        {"content": [BLOCK], "stop_reason": "max_tokens"},
        {"content": [{**BLOCK, "content": None}], "stop_reason": "compaction"},
        {"content": [{**BLOCK, "content": " "}], "stop_reason": "compaction"},
        {"content": [BLOCK, BLOCK], "stop_reason": "compaction"},
        {"content": [{"type": "text", "text": "a"}], "stop_reason": "compaction"},
    ],
)
def test_any_other_reply_is_no_compaction(reply: object) -> None:
    """B42: then the history stays whole."""
    assert read_native(ANTHROPIC_MESSAGES, reply) is None
    assert read_native(OPENAI_RESPONSES, reply) is None


def test_openais_item_is_read_with_the_users_messages() -> None:
    """B42: only the provider can read it; it goes back as it came."""
    item = {"type": "compaction", "id": "c", "encrypted_content": "sealed"}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
    native = read_native(OPENAI_RESPONSES, {"output": [said, item], "usage": {"input_tokens": 9, "output_tokens": 3}})
    assert native is not None
    assert native.answer.text == ""
    assert native.usage is not None
    assert native.usage.output == 3
    sent = [item for message in native.native for item in OPENAI_RESPONSES.encode_new(message)]
    assert sent == [{"role": "user", "content": "a"}, item]
    assert read_native(OPENAI_RESPONSES, {"output": [said]}) is None


def test_betas_are_added_to_those_of_the_client() -> None:
    """B42: each once."""
    assert add_betas("", ("a",)) == "a"
    assert add_betas("b, a", ("a", "c")) == "b,a,c"
    assert add_betas("b", ()) == "b"


@pytest.mark.parametrize(
    ("status", "text", "found"),
    [
        (400, "messages.0.content.0: the `compaction` block is invalid", True),
        (400, "compaction items are not supported for this model", True),
        (500, "compaction block", False),
        (400, "the compaction of the soil", False),
    ],
)
def test_a_refused_block_is_recognised(status: int, text: str, found: bool) -> None:
    """B42: so that the session can go on without it."""
    overflow = recognise(status, {"error": {"message": text}})
    assert (overflow is not None and overflow.native) is found
