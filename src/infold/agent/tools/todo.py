"""The todo tool: the list of what is to be done, which the model writes whole each time.

The list is kept by the log alone: a ledger takes it from the call (`core.toolfacts`), so it outlives every compaction.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.agent.tools.tool import ActionRequest, Tool, ToolOutput, Workspace

Status: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]

BOXES: dict[Status, str] = {"pending": "[ ]", "in_progress": "[-]", "completed": "[x]", "cancelled": "[/]"}


class TodoItem(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do."""

    content: str
    status: Status = "pending"


class TodoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole list."""

    items: tuple[TodoItem, ...]


def _action(arguments: TodoArguments, workspace: Workspace) -> ActionRequest:  # noqa: ARG001
    return ActionRequest("todo", f"{len(arguments.items)} items")


def _run(arguments: TodoArguments, workspace: Workspace) -> ToolOutput:  # noqa: ARG001
    lines = (f"{BOXES[item.status]} {' '.join(item.content.split())}" for item in arguments.items)
    return ToolOutput("\n".join(lines) or "[the list is empty]")


TODO = Tool(
    "todo",
    "Writes your list of things to do, whole, in place of the one before. For work of several steps; keep one item in_progress "
    "and mark each as completed when it is.",
    TodoArguments,
    _action,
    _run,
)
