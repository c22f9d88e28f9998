"""Recall as a tool in each provider's shape."""

import json
import re
from typing import Any

import pytest
from anthropic.types import ToolParam
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionTool, FunctionToolParam
from pydantic import TypeAdapter

from infold.core.entries import Handle
from infold.core.logged_message import Rendering, prune_part
from infold.core.messages import ToolResultPart
from infold.errors import BrokenInput, UnknownFormat
from infold.formats.registry import FORMATS
from infold.formats.tools import DESCRIPTION, RECALL_TOOL_NAME, is_recall, offers_recall, query_of, recall_tool

NAMES = [wire.name for wire in FORMATS]


@pytest.mark.parametrize(
    ("format_name", "kind"),
    [
        ("openai-chat", ChatCompletionFunctionToolParam),
        ("openai-responses", FunctionToolParam),
        ("anthropic-messages", ToolParam),
    ],
)
def test_the_tool_is_what_the_sdk_takes(format_name: str, kind: type) -> None:
    """B6: the schema is valid by the SDK's own types, and holds nothing that they do not know."""
    tool = recall_tool(format_name)

    assert TypeAdapter[object](kind).validate_python(tool) == tool


def test_the_tool_is_strict_where_the_provider_can_be() -> None:
    """B6: Responses demands arguments of just this shape."""
    tool = FunctionTool.model_validate(recall_tool("openai-responses"))

    assert tool.strict
    assert tool.parameters is not None
    assert tool.parameters["additionalProperties"] is False


def test_gemini_gets_a_function_declaration() -> None:
    """B6: name, description and parameters, in the dialect of schemas that Gemini takes."""
    tool = recall_tool("gemini")

    assert set(tool) == {"name", "description", "parameters"}
    assert set(tool["parameters"]) == {"type", "properties", "required"}


@pytest.mark.parametrize("format_name", NAMES)
def test_the_arguments_are_one_query(format_name: str) -> None:
    """B6: in every format the tool demands a query, a text, and nothing else."""
    tool = recall_tool(format_name)
    function = tool.get("function", tool)
    schema = function.get("parameters") or function["input_schema"]

    assert function["name"] == RECALL_TOOL_NAME
    assert schema["required"] == list(schema["properties"]) == ["query"]
    assert schema["properties"]["query"]["type"] == "string"


def test_each_caller_gets_a_tool_of_its_own() -> None:
    """B25: what one caller changes in its tool is in no other's."""
    recall_tool("openai-chat")["function"]["parameters"]["properties"].clear()

    assert recall_tool("openai-chat")["function"]["parameters"]["properties"]


def test_the_description_shows_stubs_as_they_are() -> None:
    """B6: the stub that the description shows is one that a view would hold."""
    pruned = prune_part(ToolResultPart("c", "bash", "x" * 5_120), Handle("42.1"), Rendering(recall=True))

    assert isinstance(pruned, ToolResultPart)
    assert pruned.output in DESCRIPTION


@pytest.mark.parametrize("format_name", ["", "openai", "OPENAI-CHAT"])
def test_an_unknown_format_is_told(format_name: str) -> None:
    """A name that is no format's is an error that lists those there are."""
    with pytest.raises(UnknownFormat, match="openai-chat"):
        recall_tool(format_name)
    with pytest.raises(UnknownFormat, match="openai-chat"):
        offers_recall(format_name, [])


def offering(format_name: str, name: str) -> list[Any]:
    """The tools of a request, with one of that name among them."""
    tool = recall_tool(format_name)
    tool.get("function", tool)["name"] = name
    return [{"functionDeclarations": [{"name": "bash"}, tool]}] if format_name == "gemini" else [{"name": "bash"}, tool]


@pytest.mark.parametrize("format_name", NAMES)
@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("recall", True),
        ("infold_recall", True),
        ("mcp__infold__recall", True),
        ("mcp_infold_recall", True),
        ("mcp__plugin_tools_infold__recall", True),
        ("mcp__Infold__recall", True),
        ("infold.recall", True),
        ("mcp__other__recall", False),
        ("total_recall", False),
        ("recall_all", False),
        ("manifold_recall", False),
        ("mcp__infold__read", False),
        ("", False),
    ],
)
def test_recall_is_known_by_its_names(format_name: str, name: str, is_ours: bool) -> None:
    """B6: the tool is found under its own name and under those that clients of an MCP server give it, and no other is."""
    assert offers_recall(format_name, offering(format_name, name)) is is_ours
    assert is_recall(name) is is_ours


@pytest.mark.parametrize("format_name", NAMES)
@pytest.mark.parametrize(
    "tools", [None, [], (), "recall", 7, {}, [None, 7, "recall", []], [{"name": 7, "function": []}]]
)
def test_what_cannot_be_read_offers_nothing(format_name: str, tools: object) -> None:
    """B6: a request without tools, or with things that are none, does not offer recall."""
    assert not offers_recall(format_name, tools)


@pytest.mark.parametrize(
    ("format_name", "tool", "is_offered"),
    [
        ("openai-responses", {"type": "mcp", "server_label": "infold"}, True),
        ("openai-responses", {"type": "mcp", "server_label": "infold", "allowed_tools": ["recall"]}, True),
        ("openai-responses", {"type": "mcp", "server_label": "infold", "allowed_tools": ["read"]}, False),
        (
            "openai-responses",
            {"type": "mcp", "server_label": "infold", "allowed_tools": {"tool_names": ["read"]}},
            False,
        ),
        ("openai-responses", {"type": "mcp", "server_label": "files"}, False),
        ("openai-responses", {"type": "namespace", "name": "mcp__infold", "tools": [{"name": "recall"}]}, True),
        ("openai-responses", {"type": "namespace", "name": "mcp__files", "tools": [{"name": "recall"}]}, False),
        ("anthropic-messages", {"type": "mcp_toolset", "mcp_server_name": "infold"}, True),
        ("anthropic-messages", {"type": "mcp_toolset", "mcp_server_name": "files"}, False),
        ("gemini", {"function_declarations": [{"name": "recall"}]}, True),
        ("gemini", {"googleSearch": {}}, False),
        ("openai-chat", {"name": "recall", "parameters": {}}, True),
    ],
)
def test_recall_is_found_in_other_shapes(format_name: str, tool: dict[str, Any], is_offered: bool) -> None:
    """B6: servers that the provider itself calls, namespaces, and older or other spellings are read too."""
    assert offers_recall(format_name, [tool]) is is_offered


def test_an_sdk_object_is_read() -> None:
    """B23: tools may be the SDK's own objects."""
    assert offers_recall("openai-responses", [FunctionTool.model_validate(recall_tool("openai-responses"))])


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ('{"query": "harbour key"}', "harbour key"),
        ('{"query": " 42.1 "}', "42.1"),
        ('{"query": 42.10}', "42.10"),
        ('{"query": ["42.1", 44.0]}', "42.1 44.0"),
        ('{"handle": "42.1"}', "42.1"),
        ('{"query": "", "handles": ["42.1"]}', "42.1"),
        ('"harbour key"', "harbour key"),
        ('"{\\"query\\": \\"harbour key\\"}"', "harbour key"),
        ('{"query": "{\\"query\\": \\"harbour key\\"}"}', "harbour key"),
        ("harbour key", "harbour key"),
        ("42.1", "42.1"),
        ("[42.1]", "42.1"),
        ("[" * 100_000, "[" * 100_000),
        ('{"query": "{\\"error\\": \\"ENOENT\\"}"}', '{"error": "ENOENT"}'),
        ('{"query": "{ unfinished"}', "{ unfinished"),
        ('{"query": {"query": "harbour key"}}', "harbour key"),
        ("[pruned: 5 characters; recall 42.1]", "[pruned: 5 characters; recall 42.1]"),
        ('{"query": "\\ud800 lone"}', "\ufffd lone"),
        ({"query": "harbour key"}, "harbour key"),
        ({"query": 42.1}, "42.1"),
    ],
)
def test_a_call_is_read_with_indulgence(arguments: str | dict[str, object], query: str) -> None:
    """B6: however a model wrote its arguments, what it asks for is found."""
    assert query_of(arguments) == query


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{}",
        '{"query": ""}',
        '{"query": null}',
        '{"query": "harb',
        '{"query": true}',
        "{" * 100_000,
        '{"query": {"query": false}}',
        "[" * 900 + "]" * 900,
        '{"a": 1}',
        {},
    ],
)
def test_a_call_that_asks_nothing_is_told_how(arguments: str | dict[str, object]) -> None:
    """B6: arguments without a query are a typed error whose message shows what to write."""
    with pytest.raises(BrokenInput, match=re.escape('{"query": "words')) as told:
        query_of(arguments)
    assert json.loads(str(told.value)[str(told.value).index('{"query": "words') :])
