"""A recorded session as events."""

from infold.core.messages import (
    AssistantMessage,
    MessageId,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.replay.facts import events_of, without_summaries

ID = MessageId("m")


def test_everyone_is_told_apart() -> None:
    """User, harness, agent, thought, call and result each have their name; blank and ignored text has none."""
    events = events_of(
        enumerate(
            (
                UserMessage(ID, (TextPart("do it"), TextPart("rules", synthetic=True), TextPart(" "))),
                AssistantMessage(
                    ID, (StepStartPart(), ReasoningPart("hm"), TextPart("yes"), TextPart("no", ignored=True))
                ),
                AssistantMessage(ID, (ToolCallPart("c", "bash", '{"command": "ls"}'),)),
                ToolMessage(ID, (ToolResultPart("c", "bash", "a.py", exit_status=1), ToolResultPart("x", "bash", ""))),
            )
        )
    )

    assert [(event.handle, event.speaker) for event in events] == [
        ("0.0", "user"),
        ("0.1", "harness"),
        ("1.1", "thought"),
        ("1.2", "agent"),
        ("2.0", "call"),
        ("3.0", "result"),
        ("3.1", "result"),
    ]
    assert events[5].call == events[4]
    assert (events[5].failed, events[6].failed, events[6].call) == (True, False, None)


def test_arguments_are_decoded() -> None:
    """A call's text has its values as they were meant, however deep; what is no JSON object stands as it is."""
    call = ToolCallPart("c", "edit", '{"path": "a.py", "edits": [{"new": "x\\ny"}, null, 3]}')
    broken = ToolCallPart("d", "edit", "{broken")
    listed = ToolCallPart("e", "edit", "[1]")
    events = events_of([(0, AssistantMessage(ID, (call, broken, listed)))])

    assert [event.text for event in events] == [
        "edit\npath: a.py\nedits: new: x\ny\nedits: 3",
        "edit\n{broken",
        "edit\n[1]",
    ]


def test_a_vendors_summary_is_left_out() -> None:
    """Neither a message marked as a summary nor one with a recorded summary's text is history."""
    marked = AssistantMessage(ID, (TextPart("so far"),), summary=True)
    told = UserMessage(ID, (TextPart("The  story\nso far"),))
    user = UserMessage(ID, (TextPart("go on"),))

    assert without_summaries((marked, told, user), ("The story so far", "")) == (user,)
