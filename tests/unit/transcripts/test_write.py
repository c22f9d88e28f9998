"""Sessions in the shapes of providers and people."""

from collections.abc import Callable

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.transcripts.record import RecordedSession, Transcript
from infold.transcripts.write import NO_RESULT, to_anthropic, to_markdown, to_openai_chat

SESSION = RecordedSession(
    id="s",
    system="Be brief.",
    messages=(
        AssistantMessage(
            MessageId("a"),
            (
                ReasoningPart("secret"),
                TextPart("Two calls."),
                ToolCallPart("one", "bash", '{"command":"ls"}'),
                ToolCallPart("an id with blanks", "mcp.tool", "not json"),
            ),
        ),
        UserMessage(MessageId("b"), (TextPart("Meanwhile."), FilePart("image/png", 1600, byte_size=12))),
        ToolMessage(MessageId("c"), (ToolResultPart("one", "bash", "``` fence", status="error"),)),
        SystemMessage(MessageId("d"), (TextPart("New rule."),)),
        UserMessage(MessageId("e"), (TextPart("for people", ignored=True),)),
        AssistantMessage(MessageId("f"), ()),
    ),
)


def test_openai_results_follow_their_calls_at_once() -> None:
    """Results move up to their calls, an unanswered call is explained, empty messages are left out."""
    messages = to_openai_chat(SESSION)

    assert [message["role"] for message in messages] == ["system", "assistant", "tool", "tool", "user", "system"]
    assert messages[2]["content"] == "``` fence"
    assert messages[3]["content"] == NO_RESULT
    assert "image/png" in messages[4]["content"]
    assert "secret" not in str(messages)


def test_names_and_ids_are_valid_for_providers() -> None:
    """Characters that a provider refuses are replaced, and call and result agree on it."""
    assistant, _, second = to_openai_chat(SESSION)[1:4]
    call = assistant["tool_calls"][1]

    assert call["function"]["name"] == "mcp_tool"
    assert call["id"] == second["tool_call_id"] == "call_1_infold"


def test_anthropic_takes_turns_and_begins_with_the_user() -> None:
    """Roles alternate, results come first after their calls, input is always an object."""
    written = to_anthropic(SESSION)
    user, assistant, results = written["messages"]

    assert written["system"] == "Be brief."
    assert [user["role"], assistant["role"], results["role"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in results["content"]] == ["tool_result", "tool_result", "text", "text"]
    assert [block.get("is_error") for block in results["content"][:2]] == [True, True]
    assert assistant["content"][2]["input"] == {"arguments": "not json"}


def test_markdown_fences_hold_what_they_enclose() -> None:
    """A result that holds a fence is enclosed by a longer one."""
    assert "````\n``` fence\n````" in to_markdown(SESSION)


def test_markdown_names_who_spoke(read: Callable[[str], Transcript]) -> None:
    """The harness and summaries have headings of their own."""
    assert "## Harness" in to_markdown(read("claude-code.jsonl").sessions[0])
    assert "## Summary" in to_markdown(read("opencode.json").sessions[0])
