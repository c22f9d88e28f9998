"""The demo's session as a provider would be sent it."""

import pytest

from infold.cli.demo_scene import FORMAT, Scene, item_of, reply_body, scene_for, steps_of
from infold.core.messages import AssistantMessage, ReasoningPart, ToolResultPart, calls_of, results_of, text_of
from infold.core.policy import INFOLD
from infold.formats.registry import detect, format_named
from infold.formats.rules import problems

SMALL, LARGE = scene_for(8_000, INFOLD), scene_for(64_000, INFOLD)


@pytest.mark.parametrize("scene", [SMALL, LARGE], ids=["8k", "64k"])
def test_the_session_is_one_its_provider_accepts(scene: Scene) -> None:
    """B12: sent whole, nothing is wrong with it but its size."""
    items = [item_of(message) for message in scene.history]

    assert problems(format_named(FORMAT), items) == ()
    assert detect(items).name == FORMAT


def test_a_message_reads_the_same_from_the_wire() -> None:
    """What is said, thought, called and answered is there again; a command's end stands below what it printed."""
    items = [item_of(message) for message in SMALL.history]
    for read, message in zip(format_named(FORMAT).decode(items).messages, SMALL.history, strict=True):
        assert text_of(read) == text_of(message)
        assert [call.tool for call in calls_of(read)] == [call.tool for call in calls_of(message)]
        assert [part.text for part in read.parts if isinstance(part, ReasoningPart)] == [
            part.text for part in message.parts if isinstance(part, ReasoningPart)
        ]
        for result, wanted in zip(results_of(read), results_of(message), strict=True):
            assert result.output == wanted.output + ending(wanted)


def ending(part: ToolResultPart) -> str:
    """How a shell tool says how a command ended."""
    return "" if part.exit_status is None else f"\n[exit status {part.exit_status}]"


def test_a_small_window_gets_the_same_session_with_shorter_results() -> None:
    """The course is the same; results are within a sixteenth of the window, and AGENTS.md is left out."""
    assert len(SMALL.history) == len(LARGE.history)
    assert len(SMALL.system) < len(LARGE.system)
    assert max(len(result.output) for message in SMALL.history for result in results_of(message)) < 3_000


def test_a_reply_reports_its_usage() -> None:
    """The body has what the format reads: the items, the usage, and why it ended."""
    reply = next(message for message in SMALL.history if isinstance(message, AssistantMessage))
    body = reply_body(reply, input_tokens=70, output_tokens=5)
    wire = format_named(FORMAT)
    usage = wire.usage(body)

    assert usage is not None
    assert (usage.prompt, usage.output) == (70, 5)
    assert wire.finish(body) == "tool-calls"
    assert wire.decode(wire.reply_items(body)).messages[0].parts


def test_steps_hold_the_whole_session() -> None:
    """Each request brings what is new, and its reply follows; together they are the session."""
    steps = list(steps_of(SMALL.history))

    assert tuple(message for step in steps for message in (*step.new, step.reply)) == SMALL.history
    assert [SMALL.history[step.end] for step in steps] == [step.reply for step in steps]
