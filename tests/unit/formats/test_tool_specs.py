"""Tools as each provider's request offers them."""

from typing import Any

import pytest
from anthropic.types import ToolParam
from msgspec import Struct
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from infold.errors import UnknownFormat
from infold.formats.registry import FORMATS
from infold.formats.tools import tool_item, tool_items

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


def test_the_four_shapes() -> None:
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
    assert tool_items("gemini", [EDIT, EDIT]) == [{"functionDeclarations": [{**named, "parameters": bare}] * 2}]


@pytest.mark.parametrize("format_name", NAMES)
def test_no_tools_are_none(format_name: str) -> None:
    """B23: providers refuse a request that offers an empty list."""
    assert tool_items(format_name, ()) == []


@pytest.mark.parametrize("format_name", NAMES)
def test_each_caller_gets_a_tool_of_its_own(format_name: str) -> None:
    """B25: what one caller changes in its tool is in no other's."""
    tool = tool_item(format_name, EDIT)
    function = tool.get("function", tool)
    (function.get("parameters") or function["input_schema"])["properties"].clear()

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
