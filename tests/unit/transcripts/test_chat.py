"""Chat-shaped messages."""

from infold.core.messages import (
    AssistantMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
)
from infold.transcripts.values import chat_message


def test_a_reply_holds_thoughts_text_and_calls() -> None:
    """Reasoning comes first, then text, then calls with their arguments as text."""
    message = chat_message(
        {
            "role": "assistant",
            "reasoning_content": "hm",
            "content": "Yes.",
            "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}],
        },
        "m",
    )

    assert isinstance(message, AssistantMessage)
    assert message.parts == (ReasoningPart("hm"), TextPart("Yes."), ToolCallPart("1", "ls", "{}"))


def test_the_old_function_call_is_paired_by_name() -> None:
    """Messages from before tool calls have no ids; the name pairs them."""
    call = chat_message({"role": "assistant", "function_call": {"name": "ls", "arguments": "{}"}}, "a")
    result = chat_message({"role": "function", "name": "ls", "content": "x"}, "b")

    assert isinstance(call, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert call.parts == (ToolCallPart("function-ls", "ls", "{}"),)
    assert result.parts == (ToolResultPart("function-ls", "ls", "x"),)


def test_developer_text_is_a_system_message() -> None:
    """Both names of the maker's role are one."""
    assert isinstance(chat_message({"role": "developer", "content": "x"}, "m"), SystemMessage)


def test_an_unknown_role_is_no_message() -> None:
    """Roles that nobody knows are left to the caller."""
    assert chat_message({"role": "narrator"}, "m") is None
