"""Content blocks in everyone's dialect."""

import pytest

from infold.core.messages import FilePart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from infold.transcripts.values import IMAGE_TOKENS, file_part, read_blocks, reply_parts


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
    parts = read_blocks(
        [{"type": "text", "text": "Hi"}, {"type": "text", "text": "<system-reminder>x</system-reminder>"}]
    )

    assert [part.synthetic for part in parts if isinstance(part, TextPart)] == [False, True]
