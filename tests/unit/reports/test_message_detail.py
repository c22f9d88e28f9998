"""One message, opened."""

import pytest

from infold.core.entries import Amendment, Checkpoint, Clip, Clipping, Handle, Pin, Pruning
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    FilePart,
    MessageId,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.errors import UnknownReference
from infold.reports.details import MessageDetail, message_detail
from infold.reports.text import LONGEST_TEXT
from infold.testing.builders import calls, replies, result, user

from .stored_sessions import KEY, stored


def opened(*things: object, handle: str = "0", whole: bool = False) -> MessageDetail:
    """A message of a session."""
    return message_detail(stored(*things), KEY, handle, whole=whole)  # type: ignore[arg-type]  # messages and entries


def test_the_whole_is_there_whatever_became_of_it() -> None:
    """B1: a pruned and folded result reads as it was said."""
    things = (
        user("a"),
        calls("t"),
        result(output="the key is 4711\n" * 99),
        Pruning((Handle("2.0"),), 400),
        Checkpoint("x"),
    )
    found = opened(*things, handle="2")

    assert found.parts[0].original.text.count("4711") == 99
    assert (found.state, found.role, found.parts[0].shown, found.parts[0].can_pin) == ("folded", "tool", None, False)


def test_what_the_model_sees_instead_is_shown() -> None:
    """A part that is hidden in the view stands there with its stub; one that is not stands alone."""
    found = opened(
        *(user("word " * 300), calls("t"), result(300), Pruning((Handle("2.0"),), 300)),
        *(Clipping((Clip(Handle("0.0"), 9, 9),)),),
        handle="2.0",
    )
    clipped = opened(user("word " * 300), Clipping((Clip(Handle("0.0"), 9, 9),)))

    assert found.parts[0].shown is not None
    assert found.parts[0].shown.startswith("[pruned: ")
    assert clipped.parts[0].shown is not None
    assert "[clipped: " in clipped.parts[0].shown
    assert opened(user("a")).parts[0].shown is None


def test_long_parts_are_shown_in_full_when_asked_for() -> None:
    """A part of megabytes is cut off until somebody wants it."""
    long = user("x" * (LONGEST_TEXT + 5))

    assert opened(long).parts[0].original.left_out == 5
    assert opened(long, whole=True).parts[0].original.left_out == 0


def test_neighbours_are_messages() -> None:
    """Earlier and later lead from message to message, past what is none."""
    things = (user("a"), Pin(Handle("0.0")), replies("b"), Amendment(2), user("c"))

    assert [
        (opened(*things, handle=number).previous, opened(*things, handle=number).following) for number in "024"
    ] == [
        (None, 2),
        (0, 4),
        (2, None),
    ]
    assert opened(*things, handle="2").state == "taken back"
    assert opened(*things).parts[0].is_pinned


def test_every_kind_of_part_has_words() -> None:
    """Whatever a message is made of can be read."""
    asking = AssistantMessage(
        MessageId("a"),
        (
            *(ReasoningPart("hm"), ReasoningPart("", "sealed"), ReasoningPart(""), TextPart("look")),
            *(ToolCallPart("c", "bash", '{"command":"ls"}'), ToolCallPart("d", "bash", "{broken"), StepStartPart()),
            *(StepFinishPart("stop"), TextPart("note", ignored=True), TextPart("hint", synthetic=True)),
        ),
    )
    files = (FilePart("image/png", 40),)
    answering = ToolMessage(
        MessageId("t"),
        (ToolResultPart("c", "bash", "x", exit_status=2, files=files), ToolResultPart("d", "", "y", "error")),
    )
    pictured = UserMessage(
        MessageId("u"), (FilePart("image/png", 9, "quay.png", "file:1"), CompactionPart("p", auto=True))
    )
    things = (asking, answering, pictured)
    told = [
        (part.kind, part.title, part.original.text) for number in "012" for part in opened(*things, handle=number).parts
    ]

    assert told == [
        ("reasoning", "", "hm"),
        ("reasoning", "", "[sealed by its provider]"),
        ("reasoning", "", ""),
        ("text", "", "look"),
        ("call", "bash", '{\n  "command": "ls"\n}'),
        ("call", "bash", "{broken"),
        ("note", "", "A step began."),
        ("note", "", "A step ended: stop."),
        ("ignored", "", "note"),
        ("synthetic", "", "hint"),
        ("result", "bash, completed, exit 2", "x\n[image/png, 40 tokens]"),
        ("result", "tool, error", "y"),
        ("file", "image/png", "quay.png\nfile:1"),
        ("note", "", "A compaction was requested."),
    ]
    assert opened(*things).reply is not None
    assert opened(*things, handle="1").reply is None


def test_only_messages_can_be_opened() -> None:
    """Other entries and numbers that are none are told as not there."""
    for handle in ("1", "9", "x", "1.x", "9" * 40):
        with pytest.raises(UnknownReference):
            opened(user("a"), Pin(Handle("0.0")), handle=handle)
