"""Entries that cannot follow are refused, and the log is as before."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint, Clip, Clipping, Entry, Handle, MessageEntry, Pin, Pruning, Restoration
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    ReasoningPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    results_of,
)
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.errors import DuplicateId, IllegalCut, LogError, OrphanResult, UnknownReference, UsageError
from infold.testing.builders import calls, replies, requests_compaction, result, session, summary, user

TURN = (user(), calls("bash"), result(500), replies())


def answer(*call_ids: str, message_id: str = "new") -> MessageEntry:
    """A message of results for these calls."""
    return MessageEntry(ToolMessage(MessageId(message_id), tuple(ToolResultPart(name, "", "out") for name in call_ids)))


def asking(*call_ids: str, message_id: str = "new") -> MessageEntry:
    """A message that makes these calls."""
    parts = tuple(ToolCallPart(name, "bash", "{}") for name in call_ids)
    return MessageEntry(AssistantMessage(MessageId(message_id), parts))


def refused(log: Log, entry: Entry, error: type[LogError], remedy: str) -> LogError:
    """The error that an entry meets, with the proof that nothing changed."""
    seen, number, live = view(log, INFOLD.summary), log.next_sequence, len(log.live)
    with pytest.raises(error, match=remedy) as caught:
        log.append(entry)

    assert isinstance(caught.value, UsageError)
    assert (view(log, INFOLD.summary), log.next_sequence, len(log.live)) == (seen, number, live)
    after = log.append(MessageEntry(replace(user("still here"), id=MessageId("after"))))
    assert after.next_sequence == number + 1
    assert view(after, INFOLD.summary)[: len(seen)] == seen
    return caught.value


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(answer("nobody"), id="a call nobody made"),
        pytest.param(answer("m1-call0"), id="a call that is answered"),
        pytest.param(answer(""), id="no call"),
    ],
)
def test_a_result_without_its_call_is_refused(entry: MessageEntry) -> None:
    """B12: a result before its call, or a second one, is an error that says what to append first."""
    remedy = "append the assistant message that made the call first, and each result once"
    error = refused(session(*TURN), entry, OrphanResult, remedy)

    assert isinstance(error, OrphanResult)
    assert (error.message_id, error.call_id) == ("new", results_of(entry.message)[0].call_id)


def test_two_results_for_one_call_are_refused() -> None:
    """B12: one message answers a call once."""
    refused(session(user(), calls("bash")), answer("m1-call0", "m1-call0"), OrphanResult, "which it answers twice")


def test_a_whole_log_with_a_result_first_is_refused() -> None:
    """B12: a session cannot begin with a result."""
    refused(session(), answer("m1-call0"), OrphanResult, "append the assistant message that made the call first")


def test_a_message_id_twice_is_refused() -> None:
    """B1: every message has an id of its own."""
    twice = MessageEntry(replace(user(), id=MessageId("m0")))

    error = refused(session(*TURN), twice, DuplicateId, "give each message an id of its own")

    assert isinstance(error, DuplicateId)
    assert (error.kind, error.duplicate) == ("message", "m0")


def test_a_call_id_twice_in_one_message_is_refused() -> None:
    """B12: parallel calls are told apart by their ids."""
    refused(session(*TURN), asking("a", "a"), DuplicateId, "give each tool call an id of its own")


@pytest.mark.parametrize("first_kept", [4, 99, -1])
def test_a_checkpoint_that_keeps_from_nowhere_is_refused(first_kept: int) -> None:
    """B1: a checkpoint names a message that the session holds."""
    remedy = "name the first kept message by its entry's number"
    error = refused(session(*TURN), Checkpoint("text", first_kept=first_kept), UnknownReference, remedy)

    assert isinstance(error, UnknownReference)
    assert error.reference == str(first_kept)


def test_a_checkpoint_that_keeps_what_is_folded_is_refused() -> None:
    """B1: what an older checkpoint folded cannot be kept by a newer one."""
    log = session(*TURN, user()).append(Checkpoint("text", first_kept=4))

    refused(log, Checkpoint("again", first_kept=0), UnknownReference, "name the first kept message")


def sealed(draft: AssistantMessage) -> AssistantMessage:
    """A reply that begins with signed reasoning."""
    return replace(draft, parts=(ReasoningPart("", provider_data='"s"'), *draft.parts))


@pytest.mark.parametrize(
    ("drafts", "first_kept"),
    [
        pytest.param((user(), calls("bash"), result()), 2, id="a result"),
        pytest.param((user(), sealed(calls("bash")), result(), replies()), 3, id="a sealed loop"),
        pytest.param((user(), requests_compaction()), 1, id="a request"),
        pytest.param((user(), requests_compaction(), summary(finish=None)), 2, id="a failed summary"),
    ],
)
def test_an_illegal_cut_is_refused(drafts: tuple[Message, ...], first_kept: int) -> None:
    """B12: no checkpoint parts a call from its result or a step from the reasoning it depends on."""
    remedy = "cut at a user message or at the assistant message that makes the call"
    error = refused(session(*drafts), Checkpoint("text", first_kept=first_kept), IllegalCut, remedy)

    assert isinstance(error, IllegalCut)
    assert (error.sequence, error.message_id) == (first_kept, f"m{first_kept}")


@pytest.mark.parametrize("handle", ["9.0", "2.7", "nonsense", "", "2", "-1.0", "2.0.0"])
@pytest.mark.parametrize(
    "make",
    [
        lambda handle: Pruning((handle,), 10),
        lambda handle: Pruning((Handle("2.0"), handle), 10),
        lambda handle: Clipping((Clip(handle, 1, 1),)),
        lambda handle: Pin(handle),
    ],
)
def test_a_handle_of_nothing_is_refused(handle: str, make: Callable[[str], Entry]) -> None:
    """B1: what is hidden or pinned exists; one wrong handle refuses the whole entry."""
    refused(session(*TURN), make(handle), UnknownReference, "by (the|its) handle")


@pytest.mark.parametrize("sequence", [0, 2, 17])
def test_a_restoration_of_nothing_is_refused(sequence: int) -> None:
    """B1: only what hides something can be undone."""
    log = session(*TURN).append(Pruning((Handle("2.0"),), 500))

    refused(log, Restoration(sequence), UnknownReference, "name one that still hides something")
