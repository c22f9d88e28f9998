"""What a tool is, and its description for a model."""

from typing import Literal

from msgspec import Struct

from infold.agent.tools.tool import ActionRequest, Tool, ToolOutput, Workspace, tool_spec


class Inner(Struct, frozen=True):
    """An inner thing."""

    kind: Literal["a", "b"] = "a"


class Arguments(Struct, frozen=True):
    """Not part of the schema."""

    inner: Inner
    many: tuple[Inner, ...] = ()


def _action(arguments: Arguments, workspace: Workspace) -> ActionRequest:
    return ActionRequest("t", "x")


def _run(arguments: Arguments, workspace: Workspace) -> ToolOutput:
    return ToolOutput("x")


def test_a_schema_is_in_one_piece() -> None:
    """No reference is left, every object is closed, an enum has its type, and the description is not repeated."""
    spec = tool_spec(Tool("t", "Does a thing.", Arguments, _action, _run))
    inner = {
        "type": "object",
        "description": "An inner thing.",
        "properties": {"kind": {"type": "string", "enum": ["a", "b"], "default": "a"}},
        "required": [],
        "additionalProperties": False,
    }

    assert (spec.name, spec.description) == ("t", "Does a thing.")
    assert spec.parameters["properties"]["inner"] == inner
    assert spec.parameters["properties"]["many"]["items"] == inner
    assert spec.parameters["additionalProperties"] is False
    assert "description" not in spec.parameters
    assert "$" not in str(spec.parameters)
