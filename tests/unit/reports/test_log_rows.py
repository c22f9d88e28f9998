"""The log as a list, with what has become of each message."""

from infold.core.entries import Amendment, Checkpoint, Clip, Clipping, Handle, Pin, Pruning, Restoration, Title
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    MessageId,
    ReasoningPart,
    SessionId,
    StepStartPart,
    UserMessage,
)
from infold.reports.log_rows import LogRow, can_undo, early_end, log_rows, preview_message, role_of
from infold.reports.timeline import build_timeline
from infold.testing.builders import calls, replies, requests_compaction, result, session, summary, user

from .stored_sessions import earlier_of, entries_of


def listed(*things: object) -> dict[int, LogRow]:
    """The rows of a session by number."""
    entries = entries_of(*things)  # type: ignore[arg-type]  # messages and entries
    found = build_timeline(SessionId("s"), entries, earlier_of(entries))
    listed = log_rows(entries, found.annotations, found.log)
    assert [row.sequence for row in listed] == list(range(len(entries) - 1, -1, -1))
    return {row.sequence: row for row in listed}


def test_states_follow_from_the_log() -> None:
    """A message is in the view, pruned, clipped, folded or taken back."""
    found = listed(
        *(user("a"), replies("b"), user("c " * 200), calls("t"), result(300), user("wrong"), replies("no")),
        *(Amendment(5), Checkpoint("x", first_kept=2), Pruning((Handle("4.0"),), 300)),
        *(Clipping((Clip(Handle("2.0"), 9, 9),)), replies("d")),
    )
    states = {number: row.state for number, row in found.items() if row.state}

    assert states == {
        0: "folded",
        1: "folded",
        2: "clipped",
        3: "in view",
        4: "pruned",
        5: "taken back",
        6: "taken back",
        11: "in view",
    }
    assert [found[number].annotation is not None for number in (7, 8, 9, 10)] == [True] * 4


def test_hidden_messages_tell_both_sizes() -> None:
    """What a pruned message takes as it was said, and what its stub takes."""
    found = listed(user("a"), calls("t"), result(300), Pruning((Handle("2.0"),), 300))[2]

    assert found.tokens is not None
    assert found.shown_tokens is not None
    assert found.shown_tokens < 40 < found.tokens


def test_titles_are_rows_of_their_own() -> None:
    """S6.2: a title of the session and one of a message each say what was titled."""
    found = listed(user("a"), Title("Kites"), Title("Strings", MessageId("m0")))

    assert [(found[number].kind, found[number].words) for number in (1, 2)] == [
        ("title", "session titled Kites"),
        ("title", "message titled Strings"),
    ]


def test_pins_are_shown_and_offered() -> None:
    """A part in the view can be pinned from its line; a folded one cannot; a pin is a line of its own."""
    found = listed(
        user("a"), replies("b", reasoning="hm"), user("c"), Pin(Handle("1.1")), Checkpoint("x", first_kept=1)
    )
    released = listed(user("a"), Pin(Handle("0.0")), Pin(Handle("0.0"), pinned=False))

    assert (found[0].pin, found[1].pin, found[1].is_pinned, found[2].is_pinned) == (None, "1.1", True, False)
    assert found[3].words == "part 1.1 pinned"
    assert (released[2].words, released[0].is_pinned, released[0].has_pins) == ("part 0.0 released", False, False)
    assert (found[1].has_pins, found[2].has_pins) == (True, False)
    thought = listed(replies("b", reasoning="hm"), Pin(Handle("0.0")))[0]
    assert (thought.pin, thought.is_pinned, thought.has_pins) == ("0.1", False, True)


def test_tools_are_named() -> None:
    """Those that are called, each once, and those that answered."""
    found = listed(calls("bash", "bash", "read"), result(9))

    assert [found[number].tools for number in (0, 1)] == ["bash, read", "bash"]


def test_only_what_still_hides_can_undo() -> None:
    """B20: the newest fold, and prunings of what is in the view; not what was folded since or undone already."""
    found = listed(
        *(user("a"), calls("t"), result(90), Pruning((Handle("2.0"),), 90), Checkpoint("x"), user("b")),
        *(calls("t"), result(90), Pruning((Handle("7.0"),), 90), Pruning((Handle("7.0"),), 90), Restoration(9)),
    )

    assert {number for number, row in found.items() if row.can_undo} == {4, 8}
    assert not can_undo(-1, session(user("a")))


def test_a_line_says_what_a_message_is_about() -> None:
    """Words if there are any; else what is called, answered, thought or attached."""
    thought = AssistantMessage(MessageId("t"), (ReasoningPart("let me see"), StepStartPart()))
    picture = UserMessage(MessageId("p"), (FilePart("image/png", 9), FilePart("image/png", 9, name="quay.png")))

    assert preview_message(replies("done", reasoning="hm")) == "done"
    assert preview_message(calls("bash", "read", arguments='{"a": 1}')) == 'bash {"a": 1} · read {"a": 1}'
    assert preview_message(result(output="all\nwell")) == "all well"
    assert (preview_message(thought), preview_message(picture)) == ("let me see", "image/png · quay.png")
    assert preview_message(requests_compaction()) == "a compaction was requested"
    assert preview_message(AssistantMessage(MessageId("f"), (), error="overloaded")) == "overloaded"


def test_what_did_not_come_to_its_end_says_so() -> None:
    """A reply that was cut off, filtered or interrupted, or that failed; and a result of which the same is true."""
    failed = AssistantMessage(MessageId("f"), (), finish="stop", error="overloaded")
    endings = [early_end(replies("so far", finish=why)) for why in ("length", "content-filter", "error", "abort")]
    answers = [early_end(result(9, status=status)) for status in ("completed", "error", "interrupted")]

    assert endings == ["cut off", "filtered", "failed", "interrupted"]
    assert answers == [None, "failed", "interrupted"]
    assert (early_end(failed), early_end(user()), early_end(replies("x")), early_end(calls("t"))) == (
        "failed",
        *[None] * 3,
    )
    assert listed(user("a"), replies("so", finish="length"))[1].early_end == "cut off"


def test_roles_are_told() -> None:
    """Summaries and requests for one are told from what a model or a person said."""
    said = (user(), replies(), result(), summary(), requests_compaction())

    assert [role_of(message) for message in said] == ["user", "assistant", "tool", "summary", "request"]
