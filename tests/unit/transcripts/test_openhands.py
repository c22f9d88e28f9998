"""OpenHands event histories and completion logs."""

import json
from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, calls_of, is_genuine_user, results_of, text_of
from infold.transcripts.record import Transcript
from infold.transcripts.registry import read_bytes

Read = Callable[[str], Transcript]


def test_actions_of_one_response_are_one_message(read: Read) -> None:
    """Parallel actions stand in one reply, and each observation is the result of its call."""
    messages = read("openhands-events.jsonl").sessions[0].messages
    replies = [message for message in messages if isinstance(message, AssistantMessage)]

    assert [call.call_id for call in calls_of(replies[0])] == ["z1", "z2"]
    assert len(replies) == 1
    assert [(r.output, r.exit_status) for m in messages for r in results_of(m)] == [("saddle", 1), ("leather", None)]


def test_what_answers_no_call_is_synthetic_text(read: Read) -> None:
    """Recalled knowledge and complaints are put to the model as text, and noted as repaired."""
    transcript = read("openhands-events.jsonl")
    messages = transcript.sessions[0].messages

    assert [text_of(m) for m in messages if is_genuine_user(m)] == ["Mend the saddle."]
    assert any("Saddles are leather." in text_of(m) for m in messages)
    assert text_of(messages[-1]) == "Parameter missing."
    assert [skip.count for skip in transcript.skipped if skip.repaired] == [2]


def test_an_action_without_its_call_gets_one(read: Read) -> None:
    """Older runs record no tool call; the action is the call."""
    messages = read("openhands-events.jsonl").sessions[1].messages

    assert [(r.tool, r.output, r.exit_status) for m in messages for r in results_of(m)] == [("run", "sewn", 0)]


def test_a_bare_list_of_events_is_read(read: Read) -> None:
    """A trajectory that is only a list of events is one session."""
    assert [text_of(m) for m in read("openhands-events.json").sessions[0].messages] == ["Ring.", "Rung."]


def test_the_output_of_the_resolver_is_read() -> None:
    """Lines that hold an issue and its history, of many kilobytes each, are one session a line, named by the issue."""
    lines = [
        {
            "issue": {"owner": "stable", "repo": "tack", "number": number, "title": "Mend the saddle"},
            "git_patch": "+" * 90_000,
            "history": [{"source": "user", "action": "message", "args": {"content": f"Mend saddle {number}."}}],
            "success": True,
        }
        for number in (7, 8)
    ]
    data = "\n".join(json.dumps(line) for line in lines).encode()
    transcript = read_bytes(data, name="output.jsonl")

    assert transcript.format == "openhands-events"
    assert [session.id for session in transcript.sessions] == ["stable/tack#7", "stable/tack#8"]
    assert [text_of(session.messages[0]) for session in transcript.sessions] == ["Mend saddle 7.", "Mend saddle 8."]


def test_the_response_is_the_last_reply_with_usage(read: Read) -> None:
    """The response follows the request's messages, with cost, and usage less what the cache served."""
    session = read("openhands-completion.json").sessions[0]
    reply = session.messages[-1]

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=300, output=50, cache_read=700, total=1050)
    assert (reply.cost, reply.finish, [call.call_id for call in calls_of(reply)]) == (0.25, "tool-calls", ["w2"])


def test_the_requests_messages_are_the_session(read: Read) -> None:
    """System prompt, tools and results are read from the request."""
    session = read("openhands-completion.json").sessions[0]

    assert session.system == "You are an agent."
    assert "execute_bash" in session.tools
    assert [result.output for m in session.messages for result in results_of(m)] == ["silence"]
