"""The tools on the session itself: bring back what is no longer in the view, and ask for a compaction."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from infold.agent.tools.tool import ActionRequest, Tool, ToolFailed, ToolOutput, Workspace
from infold.core.messages import COMPACT_TOOL_NAME, RECALL_TOOL_NAME, FilePart
from infold.errors import UsageError
from infold.formats.tools import COMPACT_DESCRIPTION, COMPACT_FOCUS, RECALL_DESCRIPTION, RECALL_QUERY


class RecallArguments(Struct, frozen=True):
    query: Annotated[str, Meta(description=RECALL_QUERY)]


def make_recall_tool(recall: Callable[[str], str], files: Callable[[str], tuple[FilePart, ...]]) -> Tool:
    """Return the recall tool of a session; `recall` takes a query and returns text, or raises `UsageError` for an empty one.

    `files` returns the media under a handle, which the model is then shown.
    """

    def run(arguments: RecallArguments, workspace: Workspace) -> ToolOutput:  # noqa: ARG001
        try:
            text = recall(arguments.query)
            return ToolOutput(text, files=tuple(file for file in files(arguments.query.strip()) if file.digest))
        except UsageError as error:
            raise ToolFailed(str(error)) from error

    return Tool(RECALL_TOOL_NAME, RECALL_DESCRIPTION, RecallArguments, _action, run)


def _action(arguments: RecallArguments, workspace: Workspace) -> ActionRequest:  # noqa: ARG001
    return ActionRequest(RECALL_TOOL_NAME, arguments.query)


class CompactArguments(Struct, frozen=True):
    focus: Annotated[str, Meta(description=COMPACT_FOCUS)] = ""


def make_compact_tool(ask: Callable[[str], str]) -> Tool:
    """Return the compact tool of a session; `ask` takes the focus and returns what follows."""

    def run(arguments: CompactArguments, workspace: Workspace) -> ToolOutput:  # noqa: ARG001
        return ToolOutput(ask(arguments.focus))

    def action(arguments: CompactArguments, workspace: Workspace) -> ActionRequest:  # noqa: ARG001
        return ActionRequest(COMPACT_TOOL_NAME, arguments.focus)

    return Tool(COMPACT_TOOL_NAME, COMPACT_DESCRIPTION, CompactArguments, action, run)
