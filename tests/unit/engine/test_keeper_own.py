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
from infold.core.view import standing
from infold.engine.circumstances import Beside, Stamp
from infold.formats.overflow import Overflow

from .keeping import RULE, Kept
from .scenes import reply

NOBODY = MessageId("")
ASKED = UserMessage(NOBODY, (TextPart(RULE),), agent="build", model=ModelRef("openai", "m"))


def begun(kept: Kept) -> None:
    """A prompt, and a reply that calls a tool."""
    kept.drive(kept.keeper.add((ASKED,)))
    kept.new(())
    kept.drive(kept.keeper.record(reply(0), Stamp("build", path=WorkPath("/w", "/w"), parts=(StepStartPart("tree"),))))


def answered(output: str, *, exit_status: int = 0) -> ToolMessage:
    """The tool's answer to that call."""
    return ToolMessage(NOBODY, (ToolResultPart("c0", "bash", output, exit_status=exit_status),))


def test_own_messages_are_sent_as_the_wire_has_them() -> None:
    """A session that was given no wire items at all makes requests of the format it was told."""
    kept = Kept(format="openai-chat")
    begun(kept)
    kept.drive(kept.keeper.add((answered("built"),)))

    assert [item["role"] for item in kept.new(()).messages if isinstance(item, dict)] == ["user", "assistant", "tool"]
    assert [message.id for message in kept.messages] == ["m0", "m1", "m2"]
    assert kept.messages[0].created_ms == 7


def test_what_no_wire_tells_is_kept() -> None:
    """S3.6, S6.1: a reply has its agent, its place, its parent and the marks of its step; a result its exit status."""
    kept = Kept(format="openai-chat")
    begun(kept)
    kept.drive(kept.keeper.add((answered("no", exit_status=2),)))
    _, said, result = kept.messages

    assert isinstance(said, AssistantMessage)
    assert (said.agent, said.mode, said.parent_id, said.path) == ("build", "build", "m0", WorkPath("/w", "/w"))
    assert said.parts[-1] == StepStartPart("tree")
    assert isinstance(result.parts[0], ToolResultPart)
    assert result.parts[0].exit_status == 2


def test_long_results_are_shown_shortened_and_kept_whole() -> None:
    """B1, B22: a result longer than wanted is clipped in the same append, and an event tells of it."""
    kept = Kept(format="openai-chat")
    begun(kept)
    kept.drive(kept.keeper.add((answered("line of a long output\n" * 2_000),), longest_tokens=500))
    entry, clipping = kept.scripted.entries[-2:]
    shown = str(kept.new(()).messages[-1])

    assert isinstance(entry, MessageEntry)
    assert len(str(entry)) > 40_000
    assert isinstance(clipping, Clipping)
    assert "[clipped:" in shown
    assert len(shown) < 4_000
    (told,) = [event for event in kept.scripted.events if isinstance(event, Clipped)]
    assert told.reason == "arrival"
    assert told.targets == ("2.0",)
    assert told.tokens_before > 10_000 > 1_000 > told.tokens_after


def test_short_results_stay_as_they_are() -> None:
    """A bound that is not reached changes nothing."""
    kept = Kept(format="openai-chat")
    begun(kept)
    kept.drive(kept.keeper.add((answered("built"),), longest_tokens=500))

    assert [type(entry) for entry in kept.scripted.entries] == [MessageEntry] * 3
    assert kept.scripted.events == []


def test_another_writer_does_not_take_its_place() -> None:
    """B14: where another was faster the message is numbered anew, and both are there."""
    kept = Kept(format="openai-chat")
    kept.outrun_once(lambda _: True)
    kept.drive(kept.keeper.add((ASKED,)))

    assert [message.id for message in kept.messages] == ["intruder-0", "m1"]


def test_a_new_message_may_be_refused_anew() -> None:
    """B8: what is added makes another request, which has its own try after a refusal."""
    kept = Kept(window=16_000, format="openai-chat")
    for number in range(2):
        kept.drive(kept.keeper.add((UserMessage(NOBODY, (TextPart("word " * 4_000),)),)))
        kept.drive(kept.keeper.prepare_new((), Beside()))
        ready = kept.drive(kept.keeper.recover(Overflow("openai", 9_000 - 2_000 * number, 8_192 - 2_000 * number)))
        assert ready.events

    assert kept.keeper.window_tokens == 6_192


def test_references_are_renamed_with_the_messages() -> None:
    """S4.1, S1.9: added messages get ids of their own, and what they refer to by id is still found: the pair is a boundary."""
    kept = Kept()
    kept.drive(kept.keeper.add(PAIR))

    assert [text_of(message) for message in standing(kept.log)] == ["", "SUMMARY", "kept", "new"]


def test_messages_after_an_imported_compaction_get_free_ids() -> None:
    """S4.1: messages added one by one after an imported compaction never get the id of one that stands."""
    kept = Kept()
    for messages in (PAIR, *((UserMessage(MessageId("x"), (TextPart(f"{n}"),)),) for n in range(6))):
        kept.drive(kept.keeper.add(messages))

    assert [text_of(message) for message in standing(kept.log)][4:] == ["0", "1", "2", "3", "4", "5"]


PAIR = (
    UserMessage(MessageId("alpha"), (TextPart("old"),)),
    UserMessage(MessageId("beta"), (TextPart("kept"),)),
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
