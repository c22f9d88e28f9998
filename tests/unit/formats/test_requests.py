"""Requests as providers are sent them."""

import copy
from typing import Any

import msgspec
import pytest
from tests.support.provider_rules import problems

from infold.core.judge import Answer
from infold.core.policy import LARGEST_TOKENS
from infold.core.summary_request import (
    COMPACTION_AGENT,
    Additions,
    SummaryRequest,
    messages_request,
    own_request,
    shared_request,
)
from infold.errors import BrokenInput
from infold.formats.registry import (
    ANTHROPIC_MESSAGES,
    CONVERSE,
    FORMATS,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    WireFormat,
)
from infold.formats.requests import (
    ProviderRequest,
    Unmanaged,
    format_of_path,
    model_in_path,
    read_answer,
    read_request,
    requested_window,
    summary_body,
    unstreamed_path,
    with_items,
    with_output,
    without_bound_thinking,
)
from infold.testing.builders import numbered, replies, user

CHAT_TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
HI: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    "openai-responses": [{"role": "user", "content": "hi"}],
    "anthropic-messages": [{"role": "user", "content": "hi"}],
    "gemini": [{"role": "user", "parts": [{"text": "hi"}]}],
    "bedrock-converse": [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [{"text": "yes"}]},
    ],
}
THINKING = {"type": "clear_thinking_20251015", "keep": "all"}
COMPACTED = {"role": "assistant", "content": [{"type": "compaction", "content": "All that was said."}]}
ASK = own_request("[user] hi", Additions(), output_tokens=500)


def shared(wire: WireFormat) -> SummaryRequest:
    """The request for a summary that shares an ordinary one's prefix."""
    view = wire.decode(HI[wire.name]).messages
    return shared_request("Be brief.", view, Additions(), output_tokens=500)


def asked(wire: WireFormat, path: str = "", **body: Any) -> ProviderRequest:
    """What a body asks for, which must be infold's to manage."""
    outcome = read_request(wire, body, path)
    assert isinstance(outcome, ProviderRequest), outcome
    return outcome


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        ("/v1/chat/completions", OPENAI_CHAT),
        ("/openai/deployments/ferry/chat/completions?api-version=2025-01-01", OPENAI_CHAT),
        ("/v1/responses", OPENAI_RESPONSES),
        ("/v1/responses/", OPENAI_RESPONSES),
        ("/v1/messages", ANTHROPIC_MESSAGES),
        ("/v1/messages?beta=true", ANTHROPIC_MESSAGES),
        ("/v1beta/models/gemini-2.5-pro:generateContent", GEMINI),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", GEMINI),
        ("/v1/messages/count_tokens", None),
        ("/v1/messages/batches", None),
        ("/v1/threads/thread_1/messages", None),
        ("/v1/responses/resp_1/cancel", None),
        ("/v1/models", None),
        ("/v1/embeddings", None),
        ("", None),
    ],
)
def test_a_path_tells_the_format(path: str, wire: WireFormat | None) -> None:
    """B23: paths that hold a history are known by their ending, all others are not infold's."""
    assert format_of_path(path) is wire


def test_gemini_names_its_model_in_the_path() -> None:
    """The model is in the path, and the same path without streaming answers in one piece."""
    path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"

    assert model_in_path(path) == "gemini-2.5-pro"
    assert model_in_path("/v1/chat/completions") == ""
    assert model_in_path("/v1/projects/p/locations/l/publishers/anthropic/models/claude-x%4020260901:rawPredict") == (
        "claude-x@20260901"
    )
    assert model_in_path("/model/us.anthropic.claude-x-v1:0/invoke") == "us.anthropic.claude-x-v1:0"
    assert model_in_path("/model/arn:aws:bedrock:r:1:inference-profile/us.anthropic.claude-x-v1:0/invoke?a=b") == (
        "arn:aws:bedrock:r:1:inference-profile/us.anthropic.claude-x-v1:0"
    )
    assert unstreamed_path(path) == "/v1beta/models/gemini-2.5-pro:generateContent"
    assert (
        unstreamed_path(f"{path.partition('?')[0]}?key=k&alt=sse")
        == "/v1beta/models/gemini-2.5-pro:generateContent?key=k"
    )


def test_a_chat_request_is_read() -> None:
    """Messages, tools, model, the answer's size and streaming are where each provider has them."""
    one = asked(
        OPENAI_CHAT, model="gpt-4o", messages=HI["openai-chat"], tools=CHAT_TOOLS, max_completion_tokens=90, stream=True
    )

    assert one == ProviderRequest(OPENAI_CHAT, tuple(HI["openai-chat"]), None, CHAT_TOOLS, "gpt-4o", 90, True)


def test_other_requests_are_read() -> None:
    """What stands beside the messages is told for Responses, Messages and Gemini."""
    responses = asked(OPENAI_RESPONSES, model="m", input="hi", instructions="Be brief.", max_output_tokens=9)
    messages = asked(ANTHROPIC_MESSAGES, model="m", messages=HI["anthropic-messages"], system="Be brief.", max_tokens=9)
    config = {"maxOutputTokens": 9}
    path = "/v1beta/models/m:streamGenerateContent"
    gemini = asked(GEMINI, path, contents=HI["gemini"], system_instruction="Be brief.", generationConfig=config)

    assert responses.items == ({"role": "user", "content": "hi"},)
    assert [one.system for one in (responses, messages, gemini)] == ["Be brief."] * 3
    assert [one.model for one in (responses, messages, gemini)] == ["m"] * 3
    assert [one.output_tokens for one in (responses, messages, gemini)] == [9] * 3
    assert [one.streams for one in (responses, messages, gemini)] == [False, False, True]


@pytest.mark.parametrize(
    ("wire", "headers", "body", "window"),
    [
        (ANTHROPIC_MESSAGES, {"anthropic-beta": "oauth-2025-04-20, context-1m-2025-08-07"}, {}, 1_000_000),
        (ANTHROPIC_MESSAGES, {}, {"anthropic_beta": ["context-1m-2025-08-07"]}, 1_000_000),
        (ANTHROPIC_MESSAGES, {"anthropic-beta": "context-management-2025-06-27"}, {"anthropic_beta": "x"}, None),
        (ANTHROPIC_MESSAGES, {}, {"anthropic_beta": [None, 1]}, None),
        (OPENAI_CHAT, {"anthropic-beta": "context-1m-2025-08-07"}, {}, None),
    ],
)
def test_a_beta_enlarges_the_window(
    wire: WireFormat, headers: dict[str, str], body: dict[str, Any], window: int | None
) -> None:
    """B19: some of Anthropic's models have a window beside their usual one, for requests that name it."""
    assert requested_window(wire, body, headers) == window


CLAUDES = "additionalModelRequestFields"


@pytest.mark.parametrize(
    ("wire", "fields", "lowered"),
    [
        (OPENAI_CHAT, {"max_tokens": 32_000}, {"max_tokens": 9_000}),
        (OPENAI_CHAT, {"max_completion_tokens": 32_000}, {"max_completion_tokens": 9_000}),
        (
            OPENAI_CHAT,
            {"max_tokens": 500, "max_completion_tokens": 32_000},
            {"max_tokens": 500, "max_completion_tokens": 9_000},
        ),
        (OPENAI_CHAT, {"max_new_tokens": 32_000}, {"max_new_tokens": 9_000}),
        (OPENAI_CHAT, {"num_predict": 32_000}, {"num_predict": 9_000}),
        (OPENAI_CHAT, {"n_predict": 32_000}, {"n_predict": 9_000}),
        (OPENAI_CHAT, {"options": {"num_predict": 32_000, "seed": 1}}, {"options": {"num_predict": 9_000, "seed": 1}}),
        (OPENAI_RESPONSES, {"max_output_tokens": 32_000}, {"max_output_tokens": 9_000}),
        (ANTHROPIC_MESSAGES, {"max_tokens": 32_000}, {"max_tokens": 9_000}),
        (GEMINI, {"generationConfig": {"maxOutputTokens": 32_000}}, {"generationConfig": {"maxOutputTokens": 9_000}}),
        (
            GEMINI,
            {"generationConfig": {"max_output_tokens": 32_000}},
            {"generationConfig": {"max_output_tokens": 9_000}},
        ),
        (
            GEMINI,
            {"generation_config": {"max_output_tokens": 32_000}},
            {"generation_config": {"max_output_tokens": 9_000}},
        ),
        (
            CONVERSE,
            {"inferenceConfig": {"maxTokens": 32_000, "topP": 1}},
            {"inferenceConfig": {"maxTokens": 9_000, "topP": 1}},
        ),
        (CONVERSE, {CLAUDES: {"max_tokens": 32_000}}, {CLAUDES: {"max_tokens": 9_000}}),
    ],
)
def test_output_is_lowered_in_every_spelling(wire: WireFormat, fields: dict[str, Any], lowered: dict[str, Any]) -> None:
    """B8: what a request asks for in reply is read and lowered where its provider or server has it, and nothing else changes."""
    body = {"model": "m", wire.items_field: [], "a_field_of_next_year": 1, **fields}

    assert asked(wire, **body).output_tokens == 32_000
    assert with_output(body, 9_000) == {**body, **lowered}
    assert with_output(body, 32_000) == body


@pytest.mark.parametrize(
    ("wire", "fields"),
    [
        (ANTHROPIC_MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 8_000}}),
        (CONVERSE, {CLAUDES: {"thinking": {"type": "enabled", "budget_tokens": 8_000}}}),
        (CONVERSE, {CLAUDES: {"reasoning_config": {"type": "enabled", "budget_tokens": 8_000}}}),
        (GEMINI, {"generationConfig": {"thinkingConfig": {"thinkingBudget": 8_000}}}),
        (GEMINI, {"generation_config": {"thinking_config": {"thinking_budget": 8_000}}}),
        (OPENAI_CHAT, {"reasoning": {"max_tokens": 8_000}}),
        (OPENAI_CHAT, {"thinking_budget": 8_000}),
    ],
)
def test_a_budget_for_thinking_is_read(wire: WireFormat, fields: dict[str, Any]) -> None:
    """B8: how much of the reply may be thinking is read where each provider has it; a dynamic budget is none."""
    body: dict[str, Any] = {"model": "m", wire.items_field: [], **fields}

    assert asked(wire, **body).thinking_tokens == 8_000
    assert asked(GEMINI, contents=[], generationConfig={"thinkingConfig": {"thinkingBudget": -1}}).thinking_tokens == 0


@pytest.mark.parametrize("garbage", [None, -5, True, "many", 2.5, [], {"a": 1}])
def test_a_strange_size_is_no_size(garbage: object) -> None:
    """An answer's size that is no positive number is left to the provider to refuse."""
    assert asked(OPENAI_CHAT, messages=[], max_tokens=garbage).output_tokens == 0
    assert asked(OPENAI_CHAT, messages=[], generationConfig=garbage).output_tokens == 0


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (OPENAI_RESPONSES, {"input": "go on", "previous_response_id": "resp_1"}),
        (OPENAI_RESPONSES, {"input": "go on", "conversation": {"id": "conv_1"}}),
        (OPENAI_RESPONSES, {"input": "go on", "context_management": [{"type": "compaction"}, {"type": "forget"}]}),
        (OPENAI_RESPONSES, {"input": "go on", "context_management": [{"type": "compaction"}, "all"]}),
        (OPENAI_RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}),
        (OPENAI_RESPONSES, {"input": [{"id": "msg_1"}]}),
        (OPENAI_RESPONSES, {"input": [*HI["openai-responses"], {"type": "compaction_trigger"}]}),
        (OPENAI_RESPONSES, {"input": [*HI["openai-responses"], {"type": "context_compaction_new"}]}),
        (ANTHROPIC_MESSAGES, {"messages": [], "thread": {"type": "create"}}),
        (ANTHROPIC_MESSAGES, {"messages": [], "compaction": {"type": "summarize"}}),
        (OPENAI_RESPONSES, {"prompt": {"id": "pmpt_1"}}),
        (ANTHROPIC_MESSAGES, {"messages": [], "context_management": {"edits": [{"type": "clear_tool_uses"}]}}),
        (
            ANTHROPIC_MESSAGES,
            {"messages": [COMPACTED], "context_management": {"edits": [THINKING, {"type": "compact_20260112"}]}},
        ),
        (OPENAI_CHAT, {"messages": [], "context_management": {"edits": [THINKING]}}),
        (ANTHROPIC_MESSAGES, {"messages": [], "context_management": {"edits": ["clear_thinking"]}}),
        (ANTHROPIC_MESSAGES, {"messages": [], "context_management": {"edits": "all"}}),
        (ANTHROPIC_MESSAGES, {"messages": [], "context_management": [THINKING]}),
        (OPENAI_RESPONSES, {"input": "go on", "context_management": {"edits": [THINKING]}}),
        (ANTHROPIC_MESSAGES, {"role": "user", "content": "a message of a thread"}),
        (GEMINI, {"contents": [], "cachedContent": "cachedContents/1"}),
    ],
)
def test_what_a_provider_holds_is_left_to_it(wire: WireFormat, body: dict[str, Any]) -> None:
    """B23: history that the provider holds or cuts, or that is not in the request, is relayed and said to be so."""
    found = read_request(wire, body)

    assert isinstance(found, Unmanaged)
    assert found.is_history is (wire.items_field in body)


@pytest.mark.parametrize("body", [{"store": True}, {"previous_response_id": None}, {"context_management": None}])
def test_a_whole_history_is_managed(body: dict[str, Any]) -> None:
    """A request that may be stored but brings its whole history is infold's to manage."""
    assert asked(OPENAI_RESPONSES, input="hi", **body).items


@pytest.mark.parametrize(
    "value", [{"edits": []}, {"edits": None}, {}, {"edits": [THINKING]}, {"edits": [THINKING] * 2}]
)
def test_thinking_left_out_cuts_nothing(value: dict[str, Any]) -> None:
    """B23: Anthropic asked to leave out no more than its own thinking cuts no history: such a request is managed."""
    assert asked(ANTHROPIC_MESSAGES, messages=HI["anthropic-messages"], context_management=value).items


@pytest.mark.parametrize(
    ("edits", "from_tokens"),
    [
        ([{"type": "clear_tool_uses_20250919"}], 100_000),
        ([{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 30_000}}], 30_000),
        ([{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": "many"}}], 100_000),
        ([{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 2}}], LARGEST_TOKENS),
        ([{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}}], 1),
        ([THINKING, {"type": "compact_20260112"}], 150_000),
        ([{"type": "compact_20260112", "trigger": None}, {"type": "clear_tool_uses_20250919"}], 150_000),
        ([{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 60_000}}], 60_000),
        ([THINKING], 0),
        ([], 0),
    ],
)
def test_a_request_tells_from_where_its_provider_edits(edits: list[dict[str, Any]], from_tokens: int) -> None:
    """B23: Anthropic's edits of known kinds are left on, and the threshold of the last of them is read."""
    calls = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": one, "name": "f", "input": {}}]} for one in "ab"
    ]
    found = asked(ANTHROPIC_MESSAGES, messages=calls, context_management={"edits": edits})

    assert found.edited_from_tokens == from_tokens


@pytest.mark.parametrize(
    ("given", "from_tokens"),
    [
        ([{"type": "compaction", "compact_threshold": 200_000}], 200_000),
        ([{"type": "compaction", "compact_threshold": None}], LARGEST_TOKENS),
        ([], None),
    ],
)
def test_a_request_tells_from_where_openai_compacts(given: list[dict[str, Any]], from_tokens: int | None) -> None:
    """B23: OpenAI's compaction is left on; without a threshold of its own, only the window counts."""
    assert asked(OPENAI_RESPONSES, input="hi", context_management=given).edited_from_tokens == from_tokens


CLOUD_PATHS = {
    "/model/us.anthropic.claude-opus-5-5-v1:0/invoke": False,
    "/model/us.anthropic.claude-opus-5-5-v1:0/invoke-with-response-stream": True,
    "/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-5-5:rawPredict": False,
    "/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-5-5:streamRawPredict": True,
}


@pytest.mark.parametrize(("path", "streams"), CLOUD_PATHS.items())
def test_clouds_take_messages_without_a_model(path: str, streams: bool) -> None:
    """B32: on Bedrock and Vertex the path names the model and says whether to stream; other providers' bodies are relayed."""
    found = asked(ANTHROPIC_MESSAGES, path, messages=HI["anthropic-messages"], anthropic_version="vertex-2023-10-16")

    assert format_of_path(path) is ANTHROPIC_MESSAGES
    assert "claude-opus-5-5" in found.model
    assert found.streams is streams
    assert unstreamed_path(path).endswith(("/invoke", ":rawPredict"))
    assert isinstance(read_request(ANTHROPIC_MESSAGES, {"messages": [], "inferenceConfig": {}}, path), Unmanaged)


def test_a_count_on_vertex_is_no_request_for_a_reply() -> None:
    """Vertex counts tokens under a path of its own, which is relayed."""
    path = "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict"
    assert format_of_path(path) is None


def test_a_summary_on_a_cloud_keeps_the_version() -> None:
    """A request for a summary on Bedrock or Vertex has the version that their API wants, and the betas."""
    body = {"anthropic_version": "bedrock-2023-05-31", "anthropic_beta": ["context-1m-2025-08-07"], "messages": []}
    made = summary_body(ANTHROPIC_MESSAGES, body, ASK)

    assert made["anthropic_version"] == body["anthropic_version"]
    assert made["anthropic_beta"] == body["anthropic_beta"]


def test_a_summary_is_cleared_as_its_request_is() -> None:
    """A summary that shares a request's messages is cleared of the same results, so that it fits, and is never compacted."""
    clears, compacts = {"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}
    body = {"model": "m", "context_management": {"edits": [clears, compacts, THINKING]}}
    made = summary_body(ANTHROPIC_MESSAGES, body, shared(ANTHROPIC_MESSAGES), HI["anthropic-messages"])
    own = summary_body(ANTHROPIC_MESSAGES, body, ASK)

    assert made["context_management"] == {"edits": [clears]}
    assert "context_management" not in own


@pytest.mark.parametrize("body", [[], "hi", None, {"messages": {"role": "user"}}, {"messages": 3}])
def test_a_broken_request_is_told(body: object) -> None:
    """What is no request of the format is an error that names the format."""
    with pytest.raises(BrokenInput, match="openai-chat"):
        read_request(OPENAI_CHAT, body)


def test_other_messages_leave_the_rest() -> None:
    """B25: the same request with other messages is a new body; the one that came is as it was."""
    body = {"model": "m", "messages": [1], "x_unknown": {"deep": [None]}}
    before = copy.deepcopy(body)

    assert with_items(body, OPENAI_CHAT, (2, 3)) == {**before, "messages": [2, 3]}
    assert body == before


# Requests for summaries.


@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
def test_a_summary_of_its_own_has_the_model_alone(wire: WireFormat) -> None:
    """The compaction agent's request keeps nothing of the ordinary one but its model, and no provider would refuse it."""
    body = {"model": "m", wire.items_field: HI[wire.name], "tools": CHAT_TOOLS, "temperature": 2, "stream": True}
    made = summary_body(wire, body, ASK)

    assert made["model"] == "m"
    assert not {"tools", "temperature", "stream"} & made.keys()
    assert ASK.system in str(made)
    assert "[user] hi" in str(made[wire.items_field])
    assert problems(wire, made[wire.items_field]) == ()


@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
def test_a_shared_summary_keeps_the_prefix(wire: WireFormat) -> None:
    """B16: everything before the instruction is the ordinary request's, tools included, and the tools are not to be called."""
    held = {"model": "m", "tools": CHAT_TOOLS, "prompt_cache_key": "k", "system": "Be brief."}
    apart = {"stream": True, "n": 2, "stop": ["x"], "store": True, "response_format": {"type": "json_object"}}
    made = summary_body(wire, {**held, **apart, wire.items_field: []}, shared(wire), HI[wire.name])

    assert held.items() <= made.items()
    assert made[wire.items_field][: len(HI[wire.name])] == HI[wire.name]
    assert "Write notes" in str(made[wire.items_field][-1])
    assert wire is CONVERSE or "none" in str(made.get("tool_choice", made.get("toolConfig"))).lower()
    assert not (apart.keys() - {"store"}) & made.keys()
    assert made.get("store") is not True
    assert problems(wire, made[wire.items_field]) == ()


@pytest.mark.parametrize(
    ("wire", "body", "limit"),
    [
        (OPENAI_CHAT, {}, {"max_completion_tokens": 500}),
        (OPENAI_CHAT, {"max_completion_tokens": 9}, {"max_completion_tokens": 500}),
        (OPENAI_CHAT, {"max_tokens": 9}, {"max_tokens": 500}),
        (OPENAI_RESPONSES, {"max_output_tokens": 9}, {"max_output_tokens": 500, "store": False}),
        (ANTHROPIC_MESSAGES, {"max_tokens": 9}, {"max_tokens": 500}),
        (GEMINI, {"generationConfig": {"temperature": 2}}, {"generationConfig": {"maxOutputTokens": 500}}),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_a_summary_has_its_own_size(wire: WireFormat, body: dict[str, Any], limit: dict[str, Any], own: bool) -> None:
    """The most it may write is told under the name the server is known to understand."""
    made = summary_body(wire, body, ASK if own else shared(wire), HI[wire.name])

    assert limit.items() <= made.items()
    assert sum(value == 9 for value in made.values()) == 0


def test_a_summary_leaves_no_thinking_out_of_what_does_not_think() -> None:
    """Anthropic refuses the edit that Claude Code asks for with each request where thinking is not enabled, as in a summary."""
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    body = {"model": "m", "thinking": {"type": "enabled", "budget_tokens": 2_000}, "context_management": edits}
    made = summary_body(ANTHROPIC_MESSAGES, body, shared(ANTHROPIC_MESSAGES), HI["anthropic-messages"])

    assert not {"thinking", "context_management"} & made.keys()


def test_a_summary_asks_for_the_same_thinking() -> None:
    """B32: a summary that shares the prefix has its thinking checked as the ordinary request does; one of its own has none."""
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    edits = {"edits": [THINKING]}
    body = {"model": "m", "thinking": thinking, "context_management": edits}
    made = summary_body(ANTHROPIC_MESSAGES, body, shared(ANTHROPIC_MESSAGES), HI["anthropic-messages"])
    own = summary_body(ANTHROPIC_MESSAGES, body, ASK)

    assert (made["thinking"], made["context_management"]) == (thinking, edits)
    assert not {"thinking", "context_management"} & own.keys()


@pytest.mark.parametrize(
    ("thinking", "drops"),
    [
        ({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}, True),
        ({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}, False),
        ({"type": "adaptive", "block_binding": "drop_block"}, False),
        ({"type": "adaptive"}, False),
        ("adaptive", False),
        (None, False),
    ],
)
def test_a_request_may_ask_for_dropping(thinking: object, drops: bool) -> None:
    """B32: only a request that asks for it has bound thinking dropped by the provider."""
    body: dict[str, Any] = {"model": "m", "messages": HI["anthropic-messages"], "thinking": thinking}

    assert asked(ANTHROPIC_MESSAGES, **body).drops_thinking is drops


def test_a_summary_names_no_field_twice() -> None:
    """Gemini knows its fields in two spellings and refuses a request that has both."""
    body = {"tools": [{"functionDeclarations": []}], "generation_config": {"topK": 1}, "tool_config": {"x": 1}}
    made = summary_body(GEMINI, body, shared(GEMINI), HI["gemini"])

    assert made.keys() == {"tools", "contents", "generationConfig", "toolConfig"}


def test_without_tools_there_is_nothing_to_forbid() -> None:
    """A choice of tools without tools is refused by providers, so none is sent."""
    assert "tool_choice" not in summary_body(OPENAI_CHAT, {"model": "m"}, shared(OPENAI_CHAT), HI["openai-chat"])


@pytest.mark.parametrize(
    ("wire", "body", "answer"),
    [
        (
            OPENAI_CHAT,
            {"choices": [{"message": {"role": "assistant", "content": "Notes."}, "finish_reason": "stop"}]},
            Answer("Notes.", "stop"),
        ),
        (
            OPENAI_CHAT,
            {"choices": [{"message": {"role": "assistant", "content": "Not"}, "finish_reason": "length"}]},
            Answer("Not", "length"),
        ),
        (
            ANTHROPIC_MESSAGES,
            {
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "text", "text": "Notes."},
                    {"type": "tool_use", "id": "t", "name": "bash", "input": {}},
                ],
                "stop_reason": "tool_use",
            },
            Answer("Notes.", "tool-calls", calls_tools=True),
        ),
        (
            OPENAI_RESPONSES,
            {
                "status": "completed",
                "output": [
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Notes."}]}
                ],
            },
            Answer("Notes.", "stop"),
        ),
        (OPENAI_CHAT, {"choices": []}, Answer("", "other")),
        (OPENAI_CHAT, {}, Answer("", "other")),
    ],
)
def test_a_reply_is_an_answer(wire: WireFormat, body: dict[str, Any], answer: Answer) -> None:
    """B5: the judge is told the text, why it ended, and whether tools were called; thinking is no part of it."""
    assert read_answer(wire, body) == answer


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (OPENAI_CHAT, {"choices": [{"message": {"role": "assistant", "content": None, "refusal": "I won't."}}]}),
        (
            OPENAI_RESPONSES,
            {
                "output": [
                    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I won't."}]}
                ],
                "status": "completed",
            },
        ),
    ],
    ids=["chat", "responses"],
)
def test_a_refusal_in_its_own_field_is_no_answer(wire: WireFormat, body: dict[str, Any]) -> None:
    """S1.0: what a provider marks as a refusal is one, whatever reason it gives for the end."""
    assert read_answer(wire, body).finish == "content-filter"


SHOWN: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        {"role": "system", "content": "You are the main agent."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "a.py"},
    ],
    "openai-responses": [
        {"role": "developer", "content": "You are the main agent."},
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "a.py"},
    ],
    "anthropic-messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "ls", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "a.py"}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a.py"}}}]},
    ],
    "bedrock-converse": [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "ls", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "a.py"}]}}]},
        {"role": "assistant", "content": [{"text": "yes"}]},
    ],
}


@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
def test_a_history_as_messages_is_sent_under_the_compaction_agents_prompt(wire: WireFormat) -> None:
    """S3.4, S3.2: the messages stand as the client has them, the tools their calls name stay, none may be called, and the main
    agent's system prompt is gone.
    """
    request = messages_request(numbered((user("hi"), replies("yes"))), Additions(), output_tokens=5)
    body = {"model": "m", "tools": [{"name": "ls"}], "system": "main", "instructions": "main", "stream": True}
    made = summary_body(wire, {**body, "system_instruction": {"parts": []}}, request, SHOWN[wire.name])
    items, said = made[wire.items_field], msgspec.json.encode(made).decode()

    assert COMPACTION_AGENT.system_text in wire.system_text(made) or COMPACTION_AGENT.system_text in str(items[0])
    assert "main agent" not in said
    assert items[-4:-1] == SHOWN[wire.name][-3:]
    assert made["tools"] == [{"name": "ls"}]
    assert wire is CONVERSE or "none" in str(made.get("tool_choice", made.get("toolConfig"))).lower()
    assert "stream" not in made


def test_thinking_is_left_out_under_another_prompt() -> None:
    """S3.4, B32: a history that is shown under another system prompt has no thinking that may be bound to its own."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    call = {"type": "tool_use", "id": "c", "name": "ls", "input": {}}
    items = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [thought, {"type": "redacted_thinking", "data": "x"}]},
        {"role": "assistant", "content": [thought, call]},
        "no message",
    ]

    assert without_bound_thinking(ANTHROPIC_MESSAGES, items) == [
        items[0],
        {"role": "assistant", "content": [call]},
        "no message",
    ]
    assert without_bound_thinking(OPENAI_CHAT, items) == items


def test_a_summary_body_can_be_sent() -> None:
    """It is JSON through and through, whatever the messages are made of."""
    request = shared_request("s", numbered((user("hi"), replies("yes"))), Additions(), output_tokens=5)

    assert msgspec.json.encode(summary_body(ANTHROPIC_MESSAGES, {"model": "m"}, request, HI["anthropic-messages"]))
