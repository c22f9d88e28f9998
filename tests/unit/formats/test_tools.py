"""Tools in each provider's shape, and recall as one of them."""

import json
import re
from typing import Any

import pytest
from anthropic.types import ToolParam
from msgspec import Struct
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionTool, FunctionToolParam
from pydantic import TypeAdapter

from infold.core.entries import Handle
from infold.core.logged_message import Rendering, prune_part
from infold.core.messages import RECALL_TOOL_NAME, ToolResultPart, is_recall
from infold.errors import BrokenInput, UnknownFormat
from infold.formats.registry import FORMATS
from infold.formats.tools import (
    RECALL_DESCRIPTION,
    free_recall_name,
    offers_recall,
    recall_query,
    recall_tool,
    tool_item,
    tool_items,
)

NAMES = [wire.name for wire in FORMATS]


class Tool(Struct, frozen=True):
    """A tool of somebody's."""

    parameters: dict[str, Any]
    name: str = "edit"
    description: str = "Changes a file."


def closed(**properties: Any) -> dict[str, Any]:
    """A schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def schema(tool: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, in any format."""
    named = tool.get("function") or tool.get("toolSpec") or tool
    found: dict[str, Any] = named.get("parameters") or named.get("input_schema") or named["inputSchema"]["json"]
    return found


TEXT = {"type": "string", "description": "What to write."}


EDIT = Tool(closed(path={"type": "string"}, text=TEXT))


@pytest.mark.parametrize(
    ("format_name", "kind"),
    [
        ("openai-chat", ChatCompletionFunctionToolParam),
        ("openai-responses", FunctionToolParam),
        ("anthropic-messages", ToolParam),
    ],
)
def test_a_tool_is_what_the_sdk_takes(format_name: str, kind: type) -> None:
    """B23: valid by the SDK's own types, and with nothing that they do not know."""
    tool = tool_item(format_name, EDIT)

    assert TypeAdapter[object](kind).validate_python(tool) == tool


def test_the_five_shapes() -> None:
    """B23: the same tool as each provider wants it."""
    named = {"name": "edit", "description": "Changes a file."}
    bare = {key: value for key, value in EDIT.parameters.items() if key != "additionalProperties"}

    assert tool_items("openai-chat", [EDIT]) == [
        {"type": "function", "function": {**named, "parameters": EDIT.parameters}}
    ]
    assert tool_items("openai-responses", [EDIT]) == [
        {"type": "function", **named, "parameters": EDIT.parameters, "strict": True}
    ]
    assert tool_items("anthropic-messages", [EDIT]) == [{**named, "input_schema": EDIT.parameters}]
    assert tool_items("bedrock-converse", [EDIT]) == [{"toolSpec": {**named, "inputSchema": {"json": EDIT.parameters}}}]
    assert tool_items("gemini", [EDIT, EDIT]) == [{"functionDeclarations": [{**named, "parameters": bare}] * 2}]


@pytest.mark.parametrize("format_name", NAMES)
def test_no_tools_are_none(format_name: str) -> None:
    """B23: providers refuse a request that offers an empty list."""
    assert tool_items(format_name, ()) == []


@pytest.mark.parametrize("format_name", NAMES)
def test_each_caller_gets_a_tool_of_its_own(format_name: str) -> None:
    """B25: what one caller changes in its tool is in no other's."""
    schema(tool_item(format_name, EDIT))["properties"].clear()

    assert EDIT.parameters["properties"]


def test_an_unknown_format_is_told() -> None:
    """The error names those there are."""
    with pytest.raises(UnknownFormat, match="openai-chat"):
        tool_items("smoke-signals", [EDIT])


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (closed(), True),
        (closed(lines={"type": "array", "items": closed(text=TEXT)}), True),
        (closed(text={"anyOf": [{"type": "string"}, {"type": "null"}]}), True),
        ({**closed(text=TEXT), "required": []}, False),
        ({"type": "object", "properties": {}, "required": []}, False),
        ({"type": "object"}, False),
        (closed(text={**TEXT, "default": ""}), False),
        (closed(text={**TEXT, "maxLength": 9}), False),
        (closed(lines={"type": "array", "items": {"type": "object"}}), False),
        (closed(anything=True), False),
    ],
)
def test_a_tool_is_strict_where_its_schema_can_be(schema: dict[str, Any], strict: bool) -> None:
    """B23: OpenAI refuses a strict tool with an open object, an argument that may be left out or words it does not know."""
    assert tool_item("openai-responses", Tool(schema))["strict"] is strict


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string", "maxLength": 9, "title": "T"}, {"type": "string", "maxLength": 9}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"anyOf": [{"type": "integer", "title": "T"}, {"type": "null"}]}, {"type": "integer", "nullable": True}),
        (
            {"anyOf": [closed(), {"type": "string"}]},
            {"anyOf": [OPEN := {"type": "object", "properties": {}, "required": []}, {"type": "string"}]},
        ),
        ({"type": "array", "items": closed()}, {"type": "array", "items": OPEN}),
        ({"const": "yes"}, {"enum": ["yes"]}),
        ({"enum": ["a", "b"], "default": "a"}, {"enum": ["a", "b"], "default": "a"}),
    ],
)
def test_gemini_has_a_dialect_of_its_own(schema: dict[str, Any], told: dict[str, Any]) -> None:
    """B23: words it does not know are left out at any depth; nothing is no type there but a property of one."""
    tool = tool_item("gemini", Tool(closed(value=schema)))

    assert tool["parameters"] == {"type": "object", "properties": {"value": told}, "required": ["value"]}


def test_a_property_may_have_any_name() -> None:
    """B23: what a tool calls its arguments is not taken for a word of the dialect."""
    tool = tool_item("gemini", Tool(closed(title={"type": "string"}, additionalProperties={"type": "boolean"})))

    assert set(tool["parameters"]["properties"]) == {"title", "additionalProperties"}


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
    named, arguments = tool.get("function") or tool.get("toolSpec") or tool, schema(tool)

    assert named["name"] == RECALL_TOOL_NAME
    assert arguments["required"] == list(arguments["properties"]) == ["query"]
    assert arguments["properties"]["query"]["type"] == "string"


def test_each_caller_gets_a_recall_tool_of_its_own() -> None:
    """B25: what one caller changes in its tool is in no other's."""
    recall_tool("openai-chat")["function"]["parameters"]["properties"].clear()

    assert recall_tool("openai-chat")["function"]["parameters"]["properties"]


def test_the_description_shows_stubs_as_they_are() -> None:
    """B6: the stub that the description shows is one that a view would hold."""
    pruned = prune_part(ToolResultPart("c", "bash", "x" * 5_120), Handle("42.1"), Rendering(recall=True))

    assert isinstance(pruned, ToolResultPart)
    assert pruned.output in RECALL_DESCRIPTION


@pytest.mark.parametrize("format_name", ["", "openai", "OPENAI-CHAT"])
def test_recall_needs_a_known_format(format_name: str) -> None:
    """A name that is no format's is an error that lists those there are."""
    with pytest.raises(UnknownFormat, match="openai-chat"):
        recall_tool(format_name)
    with pytest.raises(UnknownFormat, match="openai-chat"):
        offers_recall(format_name, [])


def offering(format_name: str, name: str) -> list[Any]:
    """The tools of a request, with one of that name among them."""
    tool = recall_tool(format_name)
    (tool.get("function") or tool.get("toolSpec") or tool)["name"] = name
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
    assert recall_query(arguments) == query


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
        recall_query(arguments)
    assert json.loads(str(told.value)[str(told.value).index('{"query": "words') :])


def test_the_recall_tool_has_a_name_that_is_free() -> None:
    """B43: recall is called otherwise where its name is taken, in its description too, and is known by that name."""
    name = free_recall_name("recall", {"recall", "infold_recall"})
    assert name == "infold__recall"
    assert free_recall_name("recall", ()) == "recall"
    assert is_recall(name)
    tool = recall_tool("openai-chat", name)["function"]
    assert tool["name"] == name
    assert "; infold__recall 42.1]" in tool["description"]
    assert " recall" not in tool["description"]
