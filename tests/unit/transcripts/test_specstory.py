"""SpecStory exports."""

from collections.abc import Callable

from infold.core.messages import ReasoningPart, calls_of, is_genuine_user, results_of, text_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_a_block_is_a_call_and_its_result(read: Read) -> None:
    """A command is the call's, the rest of the block is the result."""
    messages = read("specstory.md").sessions[0].messages

    assert [(c.tool, c.arguments[:12]) for m in messages for c in calls_of(m)] == [
        ("run_terminal", '{"command":"'),
        ("read_file", '{"summary":"'),
    ]
    assert [r.output for m in messages for r in results_of(m)][1] == "frayed"


def test_a_turn_inside_a_result_is_no_turn(read: Read) -> None:
    """An export printed by a tool does not end the tool's block."""
    messages = read("specstory.md").sessions[0].messages

    assert [text_of(m) for m in messages if is_genuine_user(m)] == ["Ring the bell.", "Mend it."]
    assert "an older export" in results_of(messages[3])[0].output


def test_thoughts_model_and_session_are_read(read: Read) -> None:
    """Thoughts are reasoning, the turn line names the model, the comment the session."""
    session = read("specstory.md").sessions[0]

    assert session.messages[1].parts[0] == ReasoningPart("Pull the rope.")
    assert session.id == "11aa-22bb"
    assert session.model is not None
    assert session.model.id == "claude-4.6-opus"
