"""Requests as a proxy parses them, the settings of their sessions, and summaries from their own provider."""

import json
from typing import Any

import msgspec
import pytest

from infold.core.budget import Window
from infold.core.judge import Answer
from infold.errors import BrokenInput, ModelError, ModelOverflow
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT
from infold.formats.requests import ProviderRequest, Unmanaged
from infold.proxy.managed_request import UpstreamReply, read_summary, summarise_upstream
from infold.proxy.request import ParsedRequest, encode_body, parse_request, with_deferred_tools
from infold.proxy.sessions import settings_for, with_own_summariser
from infold.session.settings import SessionSettings

CHAT = "/v1/chat/completions"
HELLO = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "So?"},
]
ASKED = ProviderRequest(OPENAI_CHAT, (), model="gpt-4o")


def exchange(body: object, path: str = CHAT) -> ParsedRequest:
    """A request that infold manages; bytes are taken as they are."""
    made = parse_request(path, {}, body if isinstance(body, bytes) else msgspec.json.encode(body))
    assert isinstance(made, ParsedRequest), made
    return made


def reply(text: str = "Notes.", **fields: Any) -> bytes:
    """A chat completion."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return msgspec.json.encode(
        {"choices": [choice], "usage": {"prompt_tokens": 1_000, "completion_tokens": 100}, **fields}
    )


@pytest.mark.parametrize("path", ["/model/us.anthropic.claude-opus-5-5-v1:0/invoke", "/anthropic/v1/messages"])
def test_a_signed_body_is_left_as_it_is(path: str) -> None:
    """B32: a signature of AWS covers the body, so such a request is relayed and said to be so; one with a bearer key is not."""
    body = msgspec.json.encode({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": HELLO})
    signed = parse_request(path, {"authorization": "AWS4-HMAC-SHA256 Credential=AKIA/2026/us-east-1/bedrock"}, body)
    bearer = parse_request(path, {"authorization": "Bearer k"}, body)

    assert isinstance(signed, Unmanaged)
    assert signed.is_history
    assert "SigV4" in signed.why
    assert isinstance(bearer, ParsedRequest)


def test_a_request_is_read() -> None:
    """Its body, what it asks for, the history it brings and the name of that are told."""
    one = exchange({"model": "gpt-4o", "messages": HELLO})

    assert one.asked.model == "gpt-4o"
    assert one.asked.items == tuple(HELLO)
    assert len(one.history.messages) == 3
    assert (one.session_name or "").startswith("begun-")


def test_what_is_not_a_history_is_unmanaged() -> None:
    """B23: other paths, and history that the provider holds, are told apart, and why."""
    path = parse_request("/v1/embeddings", {}, b"{}")
    held = parse_request("/v1/responses", {}, b'{"input": "hi", "previous_response_id": "resp_1"}')

    assert isinstance(path, Unmanaged)
    assert isinstance(held, Unmanaged)
    assert "previous_response_id" in held.why


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"\xff", b'{"messages": "x" "y"}', b"[" * 100_000, b'{"messages": [3]}']
)
def test_a_broken_body_is_told(raw: bytes) -> None:
    """What is no request raises; whoever relays sends it on all the same."""
    with pytest.raises(BrokenInput):
        parse_request(CHAT, {}, raw)


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"model": "m", "messages": HELLO}).encode(),
        json.dumps({"messages": [{"role": "user", "content": "naïve ☕ 請"}], "model": "m"}, indent=3).encode(),
        b'{ "messages":[ {"content":"a\\u00e9\\/b","role":"user"}\n],"seed":1e2, "x":1.50, "x":2 }',
        b'{"messages":[{"role":"user","content":"half a pair: \\ud83d"}],"n":123456789012345678901234567890}',
    ],
)
def test_untouched_bytes_come_back(raw: bytes) -> None:
    """B29: where no message was changed the very bytes go out, odd spacing, escapes and doubled fields included."""
    one = exchange(raw)

    assert one.with_messages(list(one.asked.items)) is raw
    assert one.with_messages([dict(item) for item in one.asked.items if isinstance(item, dict)]) is raw


def test_changed_messages_leave_the_rest_of_the_body() -> None:
    """Fields infold does not know, and numbers beyond 64 bits, go out as they came."""
    big = 123456789012345678901234567890
    one = exchange(b'{"messages":[{"role":"user","content":"hi"}],"seed":%d,"x_unknown":{"deep":[null,1.5]}}' % big)
    made = json.loads(one.with_messages([{"role": "user", "content": "ho"}]))

    assert made == {"messages": [{"role": "user", "content": "ho"}], "seed": big, "x_unknown": {"deep": [None, 1.5]}}


def test_a_lone_text_becomes_a_list_only_if_it_changes() -> None:
    """Responses takes a text for its input; as long as it fits it stays one."""
    raw = b'{"input": "hi"}'
    one = exchange(raw, "/v1/responses")

    assert one.with_messages(list(one.asked.items)) is raw
    assert json.loads(one.with_messages([{"role": "user", "content": "h"}])) == {
        "input": [{"role": "user", "content": "h"}]
    }


def test_half_a_surrogate_pair_can_be_sent() -> None:
    """What no UTF-8 can hold is replaced where a body is written anew."""
    assert json.loads(encode_body({"text": "\ud83d!"})) == {"text": "\ufffd!"}


# Settings.


@pytest.mark.parametrize(
    ("given", "asked", "model"),
    [
        (SessionSettings(), "gpt-4o", "gpt-4o"),
        (SessionSettings(model="claude-sonnet-4-5"), "my-deployment", "claude-sonnet-4-5"),
        (SessionSettings(window=9_000), "", None),
        (SessionSettings(), "", "unknown"),
    ],
)
def test_the_model_is_the_requests_own(given: SessionSettings, asked: str, model: str | None) -> None:
    """The limits are those of the model asked, unless the settings name one; none at all is a model nobody knows."""
    made = settings_for(given, ProviderRequest(ANTHROPIC_MESSAGES, (), model=asked))

    assert made.model == model
    assert made.format == "anthropic-messages"
    assert made.resolve().window.context_tokens > 0


def test_a_request_may_ask_for_a_larger_window() -> None:
    """B19: by Anthropic's beta; a window that the settings name counts more."""
    raw = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "h"}]}'
    larger = parse_request("/v1/messages", {"anthropic-beta": "context-1m-2025-08-07"}, raw)
    usual = parse_request("/v1/messages", {}, raw)
    assert isinstance(larger, ParsedRequest)
    assert isinstance(usual, ParsedRequest)

    assert settings_for(SessionSettings(), larger.asked).resolve().window == Window(1_000_000, output_tokens=64_000)
    assert settings_for(SessionSettings(), usual.asked).resolve().window.context_tokens == 200_000
    assert settings_for(SessionSettings(window=9_000), larger.asked).resolve().window.context_tokens == 9_000


@pytest.mark.parametrize(
    ("settings", "good"),
    [
        (SessionSettings(model="gpt-4o"), True),
        (SessionSettings(model="gpt-4o", window=8_000), False),
        (SessionSettings(model="gpt-4o", window=Window(15_999)), False),
        (SessionSettings(model="gpt-4o", window=Window(16_000)), True),
        (SessionSettings(model="nobody-knows-it"), True),
        (SessionSettings(window=200_000), True),
        (SessionSettings(model="smollm2-135m-instruct", window=200_000), False),
    ],
)
def test_small_models_write_no_summaries(settings: SessionSettings, good: bool) -> None:
    """B10: a window too small for a record, or a model known to be too weak, is not asked."""
    assert (with_own_summariser(settings).summariser is not None) is good


def test_a_good_model_writes_its_own_summaries() -> None:
    """B10: where nobody else is named; what the settings say of a summariser stands."""
    good, weak = SessionSettings(window=200_000), SessionSettings(window=8_192)
    named = SessionSettings(window=200_000, summariser="gpt-4.1")

    own = with_own_summariser(good)

    assert (own.summariser, own.shares_prefix) == (summarise_upstream, True)
    assert with_own_summariser(weak) == weak
    assert with_own_summariser(named) == named


# A model's answer to a request for a summary.


def test_a_summary_is_told_with_its_cost() -> None:
    """B22: what was said, by whom, the usage and the price."""
    told = read_summary(ASKED, UpstreamReply(200, reply()))

    assert told.answer == Answer("Notes.", "stop")
    assert told.model == "gpt-4o"
    assert told.usage is not None
    assert told.usage.prompt == 1_000
    assert told.cost == pytest.approx((1_000 * 2.5 + 100 * 10) / 1e6)


def test_a_refused_summary_is_told() -> None:
    """B10: whatever the status says is the model's failure; an overflow has its limit."""
    too_long = b'{"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}'
    with pytest.raises(ModelOverflow) as overflow:
        read_summary(ASKED, UpstreamReply(400, too_long))

    assert overflow.value.limit_tokens == 4096
    with pytest.raises(ModelError, match="status 503"):
        read_summary(ASKED, UpstreamReply(503, b"busy"))
    with pytest.raises(ModelError, match="other than JSON"):
        read_summary(ASKED, UpstreamReply(200, b"<html>"))


@pytest.mark.parametrize(
    ("relayed", "words", "lasts"),
    [
        (
            UpstreamReply(401, b'{"error": {"message": "Incorrect API key provided"}}'),
            "status 401: Incorrect API key",
            True,
        ),
        (
            UpstreamReply(400, b'{"type": "error", "error": {"message": "bad request"}}'),
            "status 400: bad request",
            True,
        ),
        (UpstreamReply(404, b'{"detail": "no such model"}'), "status 404: no such model", True),
        (UpstreamReply(502, b"<html>bad gateway</html>"), "status 502: <html>bad gateway", False),
        (UpstreamReply(429, b'{"error": {"message": "slow down"}}'), "status 429: slow down", False),
        (UpstreamReply(529, b""), "answered with status 529; ", False),
    ],
)
def test_a_providers_own_words_are_told(relayed: UpstreamReply, words: str, lasts: bool) -> None:
    """B36: its status and message are the error, and whether asking again at once may help."""
    with pytest.raises(ModelError) as raised:
        read_summary(ASKED, relayed)

    assert words in str(raised.value)
    assert (raised.value.status, raised.value.is_lasting) == (relayed.status, lasts)


def test_an_error_with_status_200_is_one() -> None:
    """B36: some servers report a failure in a body that came with 200; its message is told."""
    with pytest.raises(ModelError, match="the model is gone"):
        read_summary(ASKED, UpstreamReply(200, b'{"error": {"message": "the model is gone", "code": 502}}'))


@pytest.mark.parametrize(
    "body", [b"[]", b"7", b'"text"', b"null", b'{"choices": 3}', b'{"choices": [{"message": 7}]}', b'{"choices": [[]]}']
)
def test_whatever_is_answered_is_an_answer_or_the_models_failure(body: bytes) -> None:
    """B10, B36: no JSON that a server may answer with breaks the request that a summary is for."""
    try:
        told = read_summary(ASKED, UpstreamReply(200, body))
    except ModelError:
        return
    assert isinstance(told.answer, Answer)


# Tools that are left to the provider's tool search.

OFFERED: list[dict[str, Any]] = [{"name": f"t{n}", "input_schema": {"type": "object"}} for n in range(12)]
OFFERING: dict[str, Any] = {"model": "claude-sonnet-4-5-20250929", "max_tokens": 9, "tools": OFFERED}


def deferred(*messages: dict[str, Any], path: str = "/v1/messages", **fields: Any) -> list[str]:
    """The tools that a request leaves to the search."""
    body = {**OFFERING, "messages": [{"role": "user", "content": "go"}, *messages], **fields}
    parsed = parse_request(path, {}, msgspec.json.encode(body))
    assert isinstance(parsed, ParsedRequest)
    changed = with_deferred_tools(parsed)
    assert msgspec.json.decode(changed.raw) == changed.body
    assert {**changed.body, "tools": []} == {**parsed.body, "tools": []}
    if changed is parsed:
        return []
    [search, *tools] = changed.body["tools"]
    assert search["type"].startswith("tool_search_tool_")
    late = [tool["name"] for tool in tools if tool.get("defer_loading")]
    assert changed.asked.tools == [search, *(tool for tool in parsed.body["tools"] if tool.get("name") not in late)]
    return late


def called(name: str, number: int = 0) -> list[dict[str, Any]]:
    """A call and its result."""
    call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "done"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def found_by_search(name: str) -> dict[str, Any]:
    """A reply in which the provider searched for a tool."""
    result = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": name}],
    }
    search = {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_bm25", "input": {"query": name}}
    return {
        "role": "assistant",
        "content": [search, {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": result}],
    }


def test_tools_that_were_never_called_are_deferred() -> None:
    """B8: at least three tools stay loaded, those that were called first of all; the rest is left to the tool search."""
    assert deferred() == [f"t{n}" for n in range(3, 12)]
    assert deferred(*called("t7")) == ["t2", "t3", "t4", "t5", "t6", *(f"t{n}" for n in range(8, 12))]
    five = [message for n in range(5, 10) for message in called(f"t{n}", n)]
    assert deferred(*five) == ["t0", "t1", "t2", "t3", "t4", "t10", "t11"]


def test_what_is_deferred_stays_so() -> None:
    """B8: neither a call of a loaded tool nor one that was found by a search changes the tools of later requests."""
    search = found_by_search("t9")
    search["content"] += called("t9")[0]["content"]

    assert deferred(*called("t1")) == deferred()
    assert deferred(search, called("t9")[1], *called("t1", 1)) == deferred()


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "claude-3-5-sonnet-20241022"},
        {"model": "claude-sonnet-4-20250514"},
        {"model": "my-own"},
        {"tools": OFFERED[:9]},
        {"tools": [*OFFERED, {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}]},
        {"tools": [*OFFERED, {"name": "x", "input_schema": {}, "defer_loading": True}]},
        {"tools": [*OFFERED, None]},
        {"tools": {"a": 1}},
        {"tools": None},
        {"tools": [{**tool, "cache_control": {"type": "ephemeral"}} for tool in OFFERED]},
    ],
)
def test_other_requests_keep_their_tools(fields: dict[str, Any]) -> None:
    """B8: few tools, a model without the search, and a client that searches for tools itself are left alone."""
    assert deferred(**fields) == []


def test_only_a_clients_own_tools_are_deferred() -> None:
    """B8: a provider's tools, a tool that is asked for and one with a cache mark stay loaded."""
    marked = {**OFFERED[11], "cache_control": {"type": "ephemeral"}}
    tools = [{"type": "web_search_20250305", "name": "web_search"}, *OFFERED[:11], marked]

    assert deferred(tools=tools, tool_choice={"type": "tool", "name": "t5"}) == [f"t{n}" for n in range(11) if n != 5]


def test_other_formats_keep_their_tools() -> None:
    """B8: only Anthropic's messages have the tool search."""
    assert deferred(path="/v1/chat/completions") == []
