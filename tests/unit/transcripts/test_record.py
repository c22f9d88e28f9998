"""The laws a session is brought under, one repair at a time."""

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
)
from infold.transcripts.record import Issues, RecordedSession, SessionDraft


def asks(message_id: str, *call_ids: str) -> Message:
    """A reply that makes these calls."""
    return AssistantMessage(MessageId(message_id), tuple(ToolCallPart(name, "bash", "{}") for name in call_ids))


def answers(message_id: str, *call_ids: str) -> Message:
    """A tool message that answers these calls."""
    parts = tuple(ToolResultPart(name, "", f"from {message_id}") for name in call_ids)
    return ToolMessage(MessageId(message_id), parts)


def session(*messages: Message, issues: Issues | None = None) -> RecordedSession:
    """What a draft of these messages becomes."""
    draft = SessionDraft("s", issues or Issues())
    for message in messages:
        draft.add(message)
    return draft.session()


def test_a_result_learns_its_tool_from_the_call() -> None:
    """Formats that do not repeat the tool's name on the result get it from the call."""
    read = session(asks("a", "1"), answers("b", "1"))

    assert results_of(read.messages[1])[0].tool == "bash"


def test_ids_are_made_unique() -> None:
    """A second message of an id gets a number."""
    read = session(UserMessage(MessageId("a"), (TextPart("x"),)), UserMessage(MessageId("a"), (TextPart("y"),)))

    assert [message.id for message in read.messages] == ["a", "a#2"]


def test_a_result_without_call_gets_one() -> None:
    """The head of a record may be missing; its results are kept behind calls without arguments."""
    issues = Issues()
    read = session(answers("b", "1"), issues=issues)

    assert [call.call_id for call in calls_of(read.messages[0])] == ["1"]
    assert results_of(read.messages[1])[0].call_id == "1"
    assert [skip.repaired for skip in issues.skipped()] == [True]


def test_a_second_answer_becomes_text() -> None:
    """A call is answered once; what comes again is synthetic text of the user's role."""
    issues = Issues()
    read = session(asks("a", "1"), answers("b", "1"), answers("c", "1"), issues=issues)

    assert read.messages[2] == UserMessage(MessageId("c"), (TextPart("from c", synthetic=True),))
    assert issues.skipped()[0].repaired


def test_a_result_before_its_call_is_moved_behind_it() -> None:
    """Records written out of order are put in order."""
    read = session(answers("b", "1"), asks("a", "1"))

    assert [type(message) for message in read.messages] == [AssistantMessage, ToolMessage]


def test_text_beside_results_follows_as_the_users() -> None:
    """A message of results and text is two: the answers, then the words."""
    mixed: tuple[Part, ...] = (TextPart("stop"), ToolResultPart("1", "bash", "out"))
    read = session(asks("a", "1"), UserMessage(MessageId("b"), mixed))

    assert [type(message) for message in read.messages[1:]] == [ToolMessage, UserMessage]


def test_compactions_move_with_their_messages() -> None:
    """A repair that adds a message moves the places of compactions after it."""
    draft = SessionDraft("s", Issues())
    draft.add(answers("b", "1"))
    draft.add_compaction("sum", first_kept=0)
    draft.add_user((TextPart("sum", synthetic=True),))
    (compaction,) = draft.session().compactions

    assert (compaction.position, compaction.first_kept) == (2, 0)


def test_notes_count_each_reason_once() -> None:
    """A reason met often is one entry with its first place and its count."""
    issues = Issues()
    for line in (4, 9):
        issues.skip("noise", line)

    assert [(skip.line, skip.count) for skip in issues.skipped()] == [(4, 2)]
