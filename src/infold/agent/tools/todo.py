"""The todo tool: a list of things to do, which the model writes whole each time.

Only the log keeps the list: the ledger takes it from the call (`core.tool_facts`), so it survives every compaction.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.agent.tools.tool import ActionRequest, Tool, ToolOutput, Workspace

Status: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]

BOXES: dict[Status, str] = {"pending": "[ ]", "in_progress": "[-]", "completed": "[x]", "cancelled": "[/]"}


class TodoItem(Struct, frozen=True):
    """One thing to do."""  # part of the schema that models get

    content: str
    status: Status = "pending"


class TodoArguments(Struct, frozen=True):
    items: tuple[TodoItem, ...]


def _action(arguments: TodoArguments, workspace: Workspace) -> ActionRequest:  # noqa: ARG001
    return ActionRequest("todo", f"{len(arguments.items)} items")


def _run(arguments: TodoArguments, workspace: Workspace) -> ToolOutput:  # noqa: ARG001
    lines = (f"{BOXES[item.status]} {' '.join(item.content.split())}" for item in arguments.items)
    return ToolOutput("\n".join(lines) or "[the list is empty]")


_DESCRIPTION = (
    "Writes your list of things to do, whole, in place of the one before. For work of several steps; keep one item in_progress "
    "and mark each as completed when it is."
)
TODO = Tool("todo", _DESCRIPTION, TodoArguments, _action, _run)
