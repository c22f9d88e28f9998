"""All tools, and which of them an agent gets."""

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
"""The tools that need only a workspace, in the order in which a model gets them."""


def select_tools(
    rules: Rules, recall: Callable[[str], str] | None = None, files: Callable[[str], tuple[FilePart, ...]] = no_files
) -> dict[str, Tool]:
    """Return an agent's tools by name: those that its rules do not deny outright, and recall if it is given."""
    every = TOOLS if recall is None else (*TOOLS, make_recall_tool(recall, files))
    return {tool.name: tool for tool in every if is_offered(tool.name, rules)}
