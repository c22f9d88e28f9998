"""A part in words: what it is, what it says, and who said it."""

from typing import assert_never

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)


def what_of(part: Part) -> str:
    """What a part is, in a few words."""
    match part:
        case ToolResultPart():
            return f"{part.tool or 'tool'} result"
        case ToolCallPart():
            return f"{part.tool} call"
        case FilePart():
            return part.media_type
        case TextPart(synthetic=True):
            return "injected text"
        case _:
            return type(part).__name__.removesuffix("Part").lower()


def content_of(part: Part) -> str:
    """A part's own text, however it is called."""
    match part:
        case TextPart() | ReasoningPart():
            return part.text
        case ToolCallPart():
            return part.arguments
        case ToolResultPart():
            return part.output
        case FilePart():
            return part.name or part.reference
        case _:
            return ""


def who_of(message: Message, part: Part) -> str:
    """Who said a part: the user, the assistant, the harness, or a tool by its name."""
    match part:
        case ToolResultPart():
            return part.tool or "tool"
        case TextPart(synthetic=True) if isinstance(message, UserMessage):
            return "harness"
    match message:
        case SystemMessage():
            return "system"
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case ToolMessage():
            return "tool"
        case _:
            assert_never(message)
