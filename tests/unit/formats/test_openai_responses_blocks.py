"""Blocks and outputs in Responses items."""

from typing import Any

from msgspec.structs import replace

from infold.core.messages import FilePart, TextPart, ToolResultPart
from infold.formats.openai_responses import BLANK_IMAGE, decode, encode


def altered(items: list[Any], place: int, *parts: Any) -> list[object]:
    """The items of one message after its parts changed."""
    decoded = decode(items)
    return encode([replace(decoded.messages[place], parts=parts)], decoded)


def test_outputs_of_every_kind_are_results() -> None:
    """Text, blocks, shell runs, patches and screenshots all become results."""
    calls = [
        {"type": kind, "call_id": kind} for kind in ("function_call", "shell_call", "apply_patch_call", "computer_call")
    ]
    run = {"stdout": "1", "stderr": "2", "outcome": {"type": "exit", "exit_code": 2}}
    screenshot = {"type": "computer_screenshot", "image_url": "https://example.org/a.png"}
    blocks = [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "https://example.org/b.png"}]
    outputs: list[dict[str, Any]] = [
        {"type": "function_call_output", "call_id": "function_call", "output": blocks},
        {"type": "shell_call_output", "call_id": "shell_call", "output": [run]},
        {"type": "apply_patch_call_output", "call_id": "apply_patch_call", "status": "failed", "output": "bad"},
        {"type": "computer_call_output", "call_id": "computer_call", "output": screenshot},
    ]
    results = decode([*calls, *outputs]).messages[1].parts
    assert all(isinstance(part, ToolResultPart) for part in results)
    assert [part.output for part in results if isinstance(part, ToolResultPart)] == ["t", "1\n2", "bad", ""]
    assert [part.status for part in results if isinstance(part, ToolResultPart)] == [
        "completed",
        "completed",
        "error",
        "completed",
    ]
    assert [len(part.files) for part in results if isinstance(part, ToolResultPart)] == [1, 0, 0, 1]
    assert results[1].exit_status == 2  # type: ignore[union-attr]
    pruned = [replace(part, output="stub", files=()) for part in results]
    assert altered([*calls, *outputs], 1, *pruned) == [
        {**outputs[0], "output": [{"type": "input_text", "text": "stub"}]},
        {**outputs[1], "output": [{**run, "stdout": "stub", "stderr": ""}]},
        {**outputs[2], "output": "stub"},
        {**outputs[3], "output": {"type": "computer_screenshot", "image_url": BLANK_IMAGE}},
    ]
    clipped = [replace(part, output="stub") for part in results]
    assert altered([*calls, *outputs], 1, *clipped)[3] == outputs[3]


def test_media_are_costed() -> None:
    """Images, files and sound in a user's item are media parts."""
    blocks = [
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
        {"type": "input_file", "file_id": "f", "filename": "a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "A" * 4_000, "format": "mp3"}},
        {"type": "hologram"},
    ]
    parts = decode([{"role": "user", "content": blocks}]).messages[0].parts
    assert [part.tokens for part in parts if isinstance(part, FilePart)] == [85, 15_000, 10]
    assert isinstance(parts[3], TextPart)
    assert parts[3].synthetic
