"""The recall tool."""

from pathlib import Path

import pytest

from infold.agent.tools.recall import CompactArguments, RecallArguments, make_compact_tool, make_recall_tool
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput, Workspace, tool_spec
from infold.core.messages import FilePart
from infold.errors import UsageError
from infold.formats.tools import compact_tool as compact_item
from infold.formats.tools import recall_tool as recall_item

PLACE = Workspace(Path())


def no_files(_: str) -> tuple[FilePart, ...]:
    """Return nothing: the session has no media to show."""
    return ()


def test_recall_gives_what_was_hidden() -> None:
    """B6: a query is passed to the session, and its answer is returned unchanged."""
    tool = make_recall_tool(lambda query: f"found {query}", no_files)

    assert tool.run(RecallArguments("42.1"), PLACE) == ToolOutput("found 42.1")
    assert tool.action(RecallArguments("42.1"), PLACE) == ActionRequest("recall", "42.1")


def test_a_wrong_query_is_explained() -> None:
    """What is wrong with a query is for the model to know."""

    def refuse(query: str) -> str:
        raise UsageError(f"no part {query}; search for words instead")

    with pytest.raises(ToolFailed, match=r"no part 9\.9; search"):
        make_recall_tool(refuse, no_files).run(RecallArguments("9.9"), PLACE)


def test_it_is_the_tool_other_faces_offer() -> None:
    """B6: name, words and schema are those that the gateway gives."""
    spec = tool_spec(make_recall_tool(str, no_files))

    assert recall_item("anthropic-messages") == {
        "name": spec.name,
        "description": spec.description,
        "input_schema": spec.parameters,
    }


def test_recall_shows_the_medium_itself() -> None:
    """B35: asked for the handle of a medium whose bytes are stored, the answer holds it; others are only described."""
    image, lost = FilePart("image/png", 85, digest="d"), FilePart("image/png", 85)
    tool = make_recall_tool(lambda query: f"found {query}", lambda handle: (image, lost) if handle == "0.1" else ())

    assert tool.run(RecallArguments(" 0.1 "), PLACE) == ToolOutput("found  0.1 ", files=(image,))
    assert tool.run(RecallArguments("words"), PLACE) == ToolOutput("found words")


def test_compact_gives_the_session_s_answer() -> None:
    """B20: the focus is passed to the session, and its answer is returned; a call without a focus is one."""
    tool = make_compact_tool(lambda focus: f"room for {focus}")

    assert tool.run(CompactArguments("the feed"), PLACE) == ToolOutput("room for the feed")
    assert tool.action(CompactArguments(), PLACE) == ActionRequest("compact", "")
    spec = tool_spec(tool)
    assert compact_item("anthropic-messages")["name"] == spec.name
    assert compact_item("anthropic-messages")["description"] == spec.description
    assert "focus" in spec.parameters["properties"]
