"""The todo tool."""

from typing import get_args

import msgspec

from infold.agent.tools.todo import BOXES, TODO, Status
from infold.agent.tools.tool import ActionRequest, ToolOutput
from infold.core.extract import arguments_of, todos_after
from infold.core.ledger import TodoFact
from infold.core.messages import ToolCallPart

from .conftest import ActionOf, RunTool

ITEMS = [
    {"content": "Read\nthe docs", "status": "completed"},
    {"content": "Write", "status": "in_progress"},
    {"content": "Test"},
]


def test_the_list_is_given_back(run_tool: RunTool, action_of: ActionOf) -> None:
    """S5.5: the whole list stands in the answer, a line for each item."""
    assert run_tool(TODO, items=ITEMS) == ToolOutput("[x] Read the docs\n[-] Write\n[ ] Test")
    assert run_tool(TODO, items=[]) == ToolOutput("[the list is empty]")
    assert action_of(TODO, items=ITEMS) == ActionRequest("todo", "3 items")
    assert set(BOXES) == set(get_args(Status))


def test_the_ledger_knows_the_list() -> None:
    """B5: what the tool is called with is what a summary carries on."""
    call = ToolCallPart("c", TODO.name, msgspec.json.encode({"items": ITEMS}).decode())

    assert todos_after((), call, arguments_of(call), "") == (
        TodoFact("Read\nthe docs", "completed"),
        TodoFact("Write", "in_progress"),
        TodoFact("Test", ""),
    )
