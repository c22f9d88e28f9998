"""Messages of infold's own making, stored without a wire: an agent's prompts, results and marks."""

from infold.core.entries import Clipping, MessageEntry
from infold.core.events import Clipped
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    MessageId,
    ModelRef,
    StepStartPart,
    TextPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    WorkPath,
    text_of,
)
from infold.core.view import filter_compacted
from infold.formats.overflow import Overflow
from infold.session.context import ReplyMetadata

from .session_fixture import RULE, DrivenSession, reply

NOBODY = MessageId("")
ASKED = UserMessage(NOBODY, (TextPart(RULE),), agent="build", model=ModelRef("openai", "m"))


def begun(session: DrivenSession) -> None:
    """A prompt, and a reply that calls a tool."""
    session.add((ASKED,))
    session.prepare_new(())
    session.record(reply(0), ReplyMetadata("build", path=WorkPath("/w", "/w"), parts=(StepStartPart("tree"),)))


def answered(output: str, *, exit_status: int = 0) -> ToolMessage:
    """The tool's answer to that call."""
    return ToolMessage(NOBODY, (ToolResultPart("c0", "bash", output, exit_status=exit_status),))


def test_own_messages_are_sent_as_the_wire_has_them() -> None:
    """A session that was given no wire items at all makes requests of the format it was told."""
    session = DrivenSession(format="openai-chat")
    begun(session)
    session.add((answered("built"),))

    assert [item["role"] for item in session.prepare_new(()).messages if isinstance(item, dict)] == [
        "user",
        "assistant",
        "tool",
    ]
    assert [message.id for message in session.kept] == ["m0", "m1", "m2"]
    assert session.kept[0].created_ms == 7


def test_what_no_wire_tells_is_kept() -> None:
    """S3.6, S6.1: a reply has its agent, its place, its parent and the marks of its step; a result its exit status."""
    session = DrivenSession(format="openai-chat")
    begun(session)
    session.add((answered("no", exit_status=2),))
    _, said, result = session.kept

    assert isinstance(said, AssistantMessage)
    assert (said.agent, said.mode, said.parent_id, said.path) == ("build", "build", "m0", WorkPath("/w", "/w"))
    assert said.parts[-1] == StepStartPart("tree")
    assert isinstance(result.parts[0], ToolResultPart)
    assert result.parts[0].exit_status == 2


def test_long_results_are_shown_shortened_and_session_whole() -> None:
    """B1, B22: a result longer than wanted is clipped in the same append, and an event tells of it."""
    session = DrivenSession(format="openai-chat")
    begun(session)
    session.add((answered("line of a long output\n" * 2_000),), longest_tokens=500)
    entry, clipping = session.store.entries[-2:]
    shown = str(session.prepare_new(()).messages[-1])

    assert isinstance(entry, MessageEntry)
    assert len(str(entry)) > 40_000
    assert isinstance(clipping, Clipping)
    assert "[clipped:" in shown
    assert len(shown) < 4_000
    (told,) = [event for event in session.events if isinstance(event, Clipped)]
    assert told.reason == "arrival"
    assert told.targets == ("2.0",)
    assert told.tokens_before > 10_000 > 1_000 > told.tokens_after


def test_short_results_stay_as_they_are() -> None:
    """A bound that is not reached changes nothing."""
    session = DrivenSession(format="openai-chat")
    begun(session)
    session.add((answered("built"),), longest_tokens=500)

    assert [type(entry) for entry in session.store.entries] == [MessageEntry] * 3
    assert session.events == []


def test_another_writer_does_not_take_its_place() -> None:
    """B14: where another was faster the message is numbered anew, and both are there."""
    session = DrivenSession(format="openai-chat")
    session.store.intrude_once(lambda _: True)
    session.add((ASKED,))

    assert [message.id for message in session.kept] == ["intruder-0", "m1"]


def test_a_new_message_may_be_refused_anew() -> None:
    """B8: what is added makes another request, which has its own try after a refusal."""
    session = DrivenSession(window=16_000, format="openai-chat")
    for number in range(2):
        session.add((UserMessage(NOBODY, (TextPart("word " * 4_000),)),))
        session.prepare_new(())
        ready = session.recovered(Overflow("openai", 9_000 - 2_000 * number, 8_192 - 2_000 * number))
        assert ready.events

    assert session.window_tokens == 6_192


def test_references_are_renamed_with_the_messages() -> None:
    """S4.1, S1.9: added messages get ids of their own, and what they refer to by id is still found: the pair is a boundary."""
    session = DrivenSession()
    session.add(PAIR)

    assert [text_of(message) for message in filter_compacted(session.log)] == ["", "SUMMARY", "session", "new"]


def test_messages_after_an_imported_compaction_get_free_ids() -> None:
    """S4.1: messages added one by one after an imported compaction never get the id of one that stands."""
    session = DrivenSession()
    for messages in (PAIR, *((UserMessage(MessageId("x"), (TextPart(f"{n}"),)),) for n in range(6))):
        session.add(messages)

    assert [text_of(message) for message in filter_compacted(session.log)][4:] == ["0", "1", "2", "3", "4", "5"]


PAIR = (
    UserMessage(MessageId("alpha"), (TextPart("old"),)),
    UserMessage(MessageId("beta"), (TextPart("session"),)),
    UserMessage(MessageId("gamma"), (CompactionPart("p", auto=True, first_kept_id=MessageId("beta")),)),
    AssistantMessage(
        MessageId("delta"),
        (TextPart("SUMMARY"),),
        parent_id=MessageId("gamma"),
        summary=True,
        mode="compaction",
        agent="compaction",
        finish="stop",
    ),
    UserMessage(MessageId("epsilon"), (TextPart("new"),)),
)
"""An imported compaction, under the ids of another program."""
