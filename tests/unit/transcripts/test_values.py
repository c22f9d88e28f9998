"""Values of the wrong kind, and the content blocks, chat messages and marked text that formats share."""

from typing import Any

import pytest

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    ModelRef,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
)
from infold.formats.codec import finish_named
from infold.transcripts.values import (
    IMAGE_TOKENS,
    chat_message,
    dig,
    exit_code,
    fenced_command,
    file_part,
    integer,
    model_ref,
    openai_usage,
    reply_parts,
    split_marked,
    string,
    strip_marked,
    time_ms,
    to_json,
    user_blocks,
    user_parts,
)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-01-05T10:00:00Z", 1767607200000),
        ("2026-01-05T10:00:00", 1767607200000),
        (1767607200, 1767607200000),
        (1767607200.5, 1767607200500),
        (1767607200000, 1767607200000),
        ("yesterday", None),
        (None, None),
        (-1, None),
        (True, None),
    ],
)
def test_moments_are_read_in_milliseconds(moment: Any, expected: int | None) -> None:
    """ISO text, seconds and milliseconds are told apart; anything else is no moment."""
    assert time_ms(moment) == expected


@pytest.mark.parametrize("wrong", [None, [], {}, True, float("nan"), float("inf"), 10**400, -5])
def test_a_wrong_number_is_zero(wrong: Any) -> None:
    """Whatever stands where a count should be, a count comes out."""
    assert integer(wrong) == 0


def test_an_exit_status_is_a_small_number() -> None:
    """Truth values and absurd numbers are no exit status."""
    assert [exit_code(value) for value in (0, -9, True, 2**40, "1")] == [0, -9, None, None, None]


def test_digging_in_what_is_not_there_gives_nothing() -> None:
    """No path through the wrong values raises."""
    assert dig({"a": [1]}, "a", "b", "c") is None
    assert string({"a": 1}) == ""


def test_arguments_are_json_text() -> None:
    """Text is kept as the model wrote it, objects are encoded, nothing is an empty object."""
    assert [to_json(value) for value in ('{"a":', {"a": 1}, None)] == ['{"a":', '{"a":1}', "{}"]


def test_models_are_told_with_their_provider() -> None:
    """A stated provider counts, then the one in the name, then the maker of the name."""
    assert model_ref("gpt-5", "azure") == ModelRef("azure", "gpt-5")
    assert model_ref("openrouter/x/y") == ModelRef("openrouter", "x/y")
    assert model_ref("claude-opus-4-6") == ModelRef("anthropic", "claude-opus-4-6")
    assert model_ref(None) is None


def test_openai_usage_is_taken_apart() -> None:
    """The cache leaves the input and reasoning leaves the output."""
    usage = openai_usage(
        {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 80},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 20},
        }
    )

    assert usage == Usage(input=20, output=10, reasoning=20, cache_read=80)


def test_reasons_to_finish_are_in_our_words() -> None:
    """Known reasons are translated, unknown ones are other, silence is nothing."""
    assert [finish_named(value) for value in ("toolUse", "end_turn", "cosmic ray", "", None)] == [
        "tool-calls",
        "stop",
        "other",
        None,
        None,
    ]


def test_user_text_is_searched_for_what_a_harness_wrote() -> None:
    """Reminders are split off; text known to be a program's is marked whole."""
    parts = user_parts("Hello\n<system-reminder>x</system-reminder>")

    assert [part.synthetic for part in parts] == [False, True]
    assert user_parts("Hello", synthetic=True) == (TextPart("Hello", synthetic=True),)


@pytest.mark.parametrize(
    ("block", "media_type", "reference", "byte_size"),
    [
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400}}, "image/png", "", 300),
        ({"type": "image_url", "image_url": {"url": "data:image/gif;base64," + "A" * 40}}, "image/gif", "", 30),
        ({"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}, "image/*", "https://x.example/a.png", 0),
        ({"type": "input_image", "image_url": "data:image/webp;base64,AAAA"}, "image/webp", "", 3),
        ({"type": "document", "source": {"data": "AAAA", "media_type": "application/pdf"}}, "application/pdf", "", 3),
        ({"type": "file"}, "application/octet-stream", "", 0),
    ],
)  # fmt: skip
def test_a_medium_is_kept_by_type_and_size(
    block: dict[str, object], media_type: str, reference: str, byte_size: int
) -> None:
    """Bytes are measured and let go, addresses are kept."""
    assert file_part(block) == FilePart(media_type, IMAGE_TOKENS, reference=reference, byte_size=byte_size)


def test_reply_blocks_become_parts() -> None:
    """Text, thoughts, calls and server results are read; an unknown block is kept as synthetic text."""
    parts = reply_parts(
        [
            "plain",
            {"type": "thinking", "thinking": "hm"},
            {"type": "server_tool_use", "id": "1", "name": "search", "input": {"q": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "found"}]},
            {"type": "novelty", "x": 1},
        ]
    )

    assert parts == (
        TextPart("plain"),
        ReasoningPart("hm"),
        ToolCallPart("1", "search", '{"q":"x"}'),
        ToolResultPart("1", "", "found"),
        TextPart('{"type":"novelty","x":1}', synthetic=True),
    )


def test_a_signed_thought_keeps_its_signature() -> None:
    """What a provider wants back is kept as JSON."""
    (part,) = reply_parts([{"type": "thinking", "thinking": "hm", "signature": "c2ln"}])

    assert isinstance(part, ReasoningPart)
    assert part.provider_data == '{"signature":"c2ln"}'


def test_user_blocks_are_searched_for_injected_text() -> None:
    """A reminder in a block of its own is synthetic."""
    parts = user_blocks(
        [{"type": "text", "text": "Hi"}, {"type": "text", "text": "<system-reminder>x</system-reminder>"}]
    )

    assert [part.synthetic for part in parts if isinstance(part, TextPart)] == [False, True]


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


def test_marked_stretches_are_told_from_the_rest() -> None:
    """Pieces come in order; an opening never closed is plain text."""
    pieces = [(piece.text, piece.inside) for piece in split_marked("a<b>c</b>d<b>e", "<b>", "</b>")]

    assert pieces == [("a", False), ("c", True), ("d<b>e", False)]
    assert strip_marked("a<b>c</b>d", "<b>", "</b>") == "ad"


def test_many_openings_take_linear_time() -> None:
    """A hundred thousand openings that are never closed are one search."""
    hostile = "<b>" * 100_000

    assert strip_marked(hostile, "<b>", "</b>") == hostile


def test_the_first_closed_command_is_found() -> None:
    """Only a fence with a shell's name that is closed holds a command."""
    assert fenced_command("text\n```bash\nls\n```\n```bash\npwd\n```") == "ls"
    assert fenced_command("```python\nls\n```") is None
    assert fenced_command("```bash\nls") is None
