"""Claude Code sessions: split replies, injected text, sub-agents, compactions."""

from collections.abc import Callable

from msgspec.json import encode

from infold.core.messages import AssistantMessage, Usage, calls_of, is_genuine_user, is_signed, results_of
from infold.transcripts.record import Transcript
from infold.transcripts.registry import read_bytes

Read = Callable[[str], Transcript]


def test_lines_of_one_message_are_one_reply(read: Read) -> None:
    """Lines with one message id become one message with all its parts, and the fullest usage once."""
    messages = read("claude-code.jsonl").sessions[0].messages
    reply = next(message for message in messages if message.id == "msg_a")

    assert isinstance(reply, AssistantMessage)
    assert [call.call_id for call in calls_of(reply)] == ["t1", "t2"]
    assert reply.usage == Usage(input=4, output=41, cache_read=1000, cache_write=200)
    assert is_signed(reply)
    assert reply.path is not None
    assert reply.path.cwd == "/home/ada/kites"


def test_exit_status_and_times_are_read(read: Read) -> None:
    """A failed command has the status it printed, a successful one has zero; both know when they ran."""
    messages = read("claude-code.jsonl").sessions[0].messages
    failed, succeeded = [result for message in messages for result in results_of(message)]

    assert (failed.exit_status, failed.status) == (2, "error")
    assert (succeeded.exit_status, succeeded.status) == (0, "completed")
    assert succeeded.started_ms is not None
    assert succeeded.finished_ms == succeeded.started_ms + 1000


def test_only_the_users_words_are_genuine(read: Read) -> None:
    """Reminders, meta lines and summaries under the user's role are not the user's."""
    messages = read("claude-code.jsonl").sessions[0].messages

    assert [message.id for message in messages if is_genuine_user(message)] == ["u1"]


def test_sub_agents_are_sessions_of_their_own(read: Read) -> None:
    """Progress lines and sidechain lines go to sessions that name the main one as parent."""
    main, progress, sidechain = read("claude-code.jsonl").sessions

    assert (progress.id, progress.parent) == ("agent-bee", "sess-1")
    assert (sidechain.id, sidechain.parent) == ("agent-u11", "sess-1")
    assert main.parent is None
    assert len(sidechain.messages) == 2


def test_an_image_in_a_result_is_a_file(read: Read) -> None:
    """A medium is kept by type and size, beside the text of the result."""
    (result,) = results_of(read("claude-code.jsonl").sessions[1].messages[-1])

    assert result.output == "7 red"
    assert (result.files[0].media_type, result.files[0].byte_size) == ("image/png", 6)


def test_a_compaction_is_found_with_its_summary(read: Read) -> None:
    """The boundary's tokens and the summary's text make one compaction, at the summary's message."""
    session = read("claude-code.jsonl").sessions[0]
    (compaction,) = session.compactions

    assert compaction.tokens_before == 150_000
    assert compaction.summary.startswith("Summary:")
    assert session.messages[compaction.position].id == "u14"


def test_damage_is_told_and_passed_over(read: Read) -> None:
    """Noise between records and a cut-off last line are noted with the first place; the rest is read."""
    (noted,) = [skip for skip in read("claude-code.jsonl").skipped if "not JSON" in skip.reason]

    assert (noted.line, noted.count) == (8, 2)


def test_a_printed_stream_is_read_too() -> None:
    """What the program prints as JSON lines has other names for session and sub-agent."""
    lines = (
        b'{"type":"system","subtype":"init","session_id":"s"}\n'
        b'{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"text","text":"Hi"}]}}\n'
        b'{"type":"user","session_id":"s","parent_tool_use_id":"t","message":{"role":"user","content":"Go"}}\n'
    )
    main, agent = read_bytes(lines, name="stream").sessions

    assert (main.id, agent.id, agent.parent) == ("s", "agent-t", "s")


def test_a_notification_is_the_harnesses_with_the_line_below_it() -> None:
    """Whether a notification is a line of its own, a block or a queued prompt, none of it is the user's."""
    told = "<task-notification>\n<result>x</result>\n</task-notification>\nFull transcript available at: /tmp/a.output"
    block = [{"type": "text", "text": told}]
    lines = [
        {"type": "user", "sessionId": "s", "message": {"content": told}},
        {"type": "user", "sessionId": "s", "message": {"content": block}},
        {"type": "attachment", "sessionId": "s", "attachment": {"type": "queued_command", "prompt": told}},
        {"type": "user", "sessionId": "s", "message": {"content": "Go on."}},
    ]
    (session,) = read_bytes(b"\n".join(map(encode, lines)), name="session").sessions

    assert [is_genuine_user(message) for message in session.messages] == [False, False, False, True]
