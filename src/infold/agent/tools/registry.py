"""Every tool by its name, and which of them an agent is given."""

from collections.abc import Callable

from infold.agent.permissions import Rules, is_offered
from infold.agent.tools.edit import EDIT
from infold.agent.tools.list import LIST
from infold.agent.tools.read import READ
from infold.agent.tools.recall import make_recall_tool, no_files
from infold.agent.tools.search import SEARCH
from infold.agent.tools.shell import SHELL
from infold.agent.tools.skill import SKILL
from infold.agent.tools.todo import TODO
from infold.agent.tools.tool import Tool
from infold.agent.tools.write import WRITE
from infold.core.messages import FilePart

TOOLS = (SHELL, READ, WRITE, EDIT, SEARCH, LIST, TODO, SKILL)
"""The tools that need nothing but a workplace, in the order in which a model is told of them."""


def select_tools(
    rules: Rules, recall: Callable[[str], str] | None = None, files: Callable[[str], tuple[FilePart, ...]] = no_files
) -> dict[str, Tool]:
    """The tools an agent has under its rules, by name: those that are not denied outright; recall where it can be offered."""
    every = TOOLS if recall is None else (*TOOLS, make_recall_tool(recall, files))
    return {tool.name: tool for tool in every if is_offered(tool.name, rules)}
