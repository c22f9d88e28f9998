"""A session as a caller keeps it, while others write and stores fail."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.policies import FOLDS

from infold.core.entries import Checkpoint, Entry, MessageEntry, Pin, Pruning, Rejection, Restoration
from infold.core.events import Compacted
from infold.core.judge import Answer
from infold.core.messages import AssistantMessage, text_of
from infold.core.policy import INFOLD, Policy
from infold.core.view import view
from infold.errors import InfoldError, StoreBroken, WindowExceeded
from infold.formats.overflow import Overflow

from .session_fixture import GOOD, KEY, RULE, DrivenSession, ScriptedSummariser, reply, said, tool_step

Matters = Callable[[Sequence[Entry]], bool]


def is_said(entries: Sequence[Entry]) -> bool:
    """An append of what a caller brought."""
    return any(isinstance(entry, MessageEntry) and not is_request((entry,)) for entry in entries)


def is_request(entries: Sequence[Entry]) -> bool:
    """An append of a durable request to compact."""
    return any(isinstance(entry, MessageEntry) and entry.message.id.startswith("compact-") for entry in entries)


def is_reply(entries: Sequence[Entry]) -> bool:
    """An append of a reply."""
    return any(isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage) for entry in entries)


def of(kind: type[Entry]) -> Matters:
    """An append of that kind of entry."""
    return lambda entries: any(isinstance(entry, kind) for entry in entries)


def whole(session: DrivenSession) -> list[dict[str, Any]]:
    """Forty steps, bringing the whole list each time."""
    messages = [said(RULE)]
    for number in range(40):
        session.prepare(messages)
        session.record(reply(number))
        messages = [*messages, *tool_step(number)]
    return messages


def by_piece(session: DrivenSession) -> list[dict[str, Any]]:
    """Forty steps, bringing what is new each time."""
    new, messages = [said(RULE)], [said(RULE)]
    for number in range(40):
        session.prepare_new(new)
        session.record(reply(number))
        new, messages = tool_step(number)[1:], [*messages, *tool_step(number)]
    return messages


Life = Callable[[DrivenSession], list[dict[str, Any]]]


def assert_nothing_is_lost(session: DrivenSession, steps: int = 40) -> None:
    """Every message is stored once, in order, and what another process said stands among them."""
    spoken = [message for message in session.kept if not message.id.startswith(("compact-", "intruder-"))]
    replies = [message for message in spoken if isinstance(message, AssistantMessage)]
    results = [text for message in spoken if (text := str(message)) and "went well" in text]

    assert len(spoken) == len({message.id for message in spoken}) == 2 * steps
    assert (len(replies), len(results)) == (steps, steps - 1)
    assert sum(message.id.startswith("intruder-") for message in session.kept) == 1
    assert view(session.reread(), session.policy.summary) == view(session.log, session.policy.summary)


# Another writer, at every kind of append.


@pytest.mark.parametrize("matters", [is_said, is_request, of(Checkpoint), is_reply])
def test_another_writer_is_never_in_the_way_of_new_messages(matters: Matters) -> None:
    """B14: whichever append meets a conflict, the session is read again and goes on; nothing is lost or doubled."""
    session = DrivenSession(window=8_192, policy=FOLDS, summarises=True)
    session.prepare_new([said(RULE)])
    session.record(reply(0))
    session.store.intrude_once(matters)
    new = tool_step(0)[1:]
    for number in range(1, 40):
        assert session.prepare_new(new).gauge.upper_tokens <= 8_192
        session.record(reply(number))
        new = tool_step(number)[1:]

    assert_nothing_is_lost(session)
    assert session.recorded.pauses == []
    assert {event.summariser for event in session.events if isinstance(event, Compacted)} == {"scripted"}
    assert {event.reason for event in session.events if isinstance(event, Compacted)} == {"trigger"}


def test_a_whole_list_outweighs_what_others_said() -> None:
    """B1, B14: a caller who brings everything brings what is to be there; another's message is taken back, not lost."""
    session = DrivenSession(window=8_192)
    session.prepare([said(RULE)])
    session.record(reply(0))
    session.store.intrude_once(is_said)
    messages = [said(RULE), *tool_step(0)]

    assert session.prepare(messages).messages == messages
    assert sum(message.id.startswith("intruder-") for message in session.kept) == 1
    assert session.again().prepare(messages).messages == messages


def test_a_whole_list_outweighs_what_others_said_while_a_summary_was_written() -> None:
    """B1, B14: the notes are committed to the session as it has become, then the caller's list is held against it; paid once."""
    session = DrivenSession(window=64_000, summarises=True)
    messages = whole(session)
    session.prepare(messages)
    session.store.intrude_once(of(Checkpoint))
    ready = session.compact("the parser")
    again = session.prepare(messages)

    assert len(session.summariser.asked) == 1
    assert GOOD in str(ready.messages[0])
    assert again.messages[0] == ready.messages[0]
    assert "from another process" not in str(again.messages)
    assert sum(message.id.startswith("intruder-") for message in session.kept) == 1


def test_a_pruning_meets_a_conflict() -> None:
    """B14: what was to be hidden is decided again on the session as it is now."""
    session = DrivenSession(window=16_000)
    new = [said(RULE)]
    session.store.intrude_once(of(Pruning))
    for turn in range(12):
        session.prepare_new(new)
        session.record(reply(turn))
        session.prepare_new([{"role": "tool", "tool_call_id": f"c{turn}", "content": f"went well {turn} " * 400}])
        session.record(
            {"choices": [{"message": {"role": "assistant", "content": f"done {turn}"}, "finish_reason": "stop"}]}
        )
        new = [said(f"and then {turn}")]

    assert any(isinstance(entry, Pruning) for entry in session.store.entries)
    assert sum(message.id.startswith("intruder-") for message in session.kept) == 1
    assert len({message.id for message in session.kept}) == len(session.kept)


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pin_insists(pinned: bool) -> None:
    """B14, B20: a pin holds whatever others appended meanwhile, and so does its release."""
    session = DrivenSession()
    session.prepare_new([said(RULE)])
    if not pinned:
        session.pin("0.0")
    session.store.intrude_once(of(Pin))
    (session.pin if pinned else session.unpin)("0.0")

    assert session.log.pins == ({"0.0"} if pinned else frozenset())
    assert session.log.length == 2


def test_undoing_a_pruning_insists() -> None:
    """B14, B20: a restoration holds whatever others appended meanwhile."""
    session = DrivenSession(window=32_000)
    new = [said(RULE)]
    for turn in range(6):
        session.prepare_new(new)
        session.record(reply(turn))
        session.prepare_new([{"role": "tool", "tool_call_id": f"c{turn}", "content": "word " * 3_000}])
        session.record({"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]})
        new = [said(f"and then {turn}")]
    session.prepare_new(new)
    session.compact()
    number = next(n for n, entry in enumerate(session.store.entries) if isinstance(entry, Pruning))
    session.store.intrude_once(of(Restoration))
    session.undo(number)

    assert session.log.altered == {}
    assert "from another process" in text_of(session.log.live[-1].message)


def test_undoing_a_compaction_insists() -> None:
    """B14, B20: what was folded is shown again with what others said meanwhile; undone twice at once, it is undone."""
    session = DrivenSession(window=64_000, policy=FOLDS)
    by_piece(session)
    session.compact()
    session.store.intrude_once(of(Restoration))
    other = session.again()
    session.undo()
    other.undo()

    assert session.log.checkpoint is None
    assert other.log.checkpoint is None
    assert "from another process" in text_of(session.log.live[-1].message)


def test_a_refusal_insists() -> None:
    """B7, B14: that a provider refused is stored whoever wrote meanwhile, and the request becomes smaller."""
    session = DrivenSession(window=64_000, policy=FOLDS)
    by_piece(session)
    session.store.intrude_once(of(Rejection))
    ready = session.recovered(Overflow("openai", None, 16_000))

    assert any(isinstance(event, Compacted) for event in ready.events)
    assert "from another process" in str(ready.messages)


def test_a_manual_compaction_begins_anew() -> None:
    """B14, B20: one that met a conflict is carried out on the session as it is, and the model is paid once."""
    session = DrivenSession(ScriptedSummariser(Answer(GOOD)), window=64_000, summarises=True)
    by_piece(session)
    session.store.intrude_once(of(Checkpoint))
    ready = session.compact("the parser")

    assert len(session.summariser.asked) == 1
    assert sum(isinstance(entry, Checkpoint) for entry in session.store.entries) == 1
    assert "from another process" in str(ready.messages)
    assert GOOD in str(ready.messages[0])


def test_two_processes_take_turns() -> None:
    """B14: two processes that bring their own new messages to one session lose none, and share its compactions."""
    one = DrivenSession(window=8_192, summarises=True)
    one.prepare_new([said(RULE)])
    two = one.again()
    for number in range(60):
        (one if number % 2 else two).prepare_new(
            [said(f"{'one' if number % 2 else 'two'} says {number}: " + "went well " * 90)]
        )

    texts = [text_of(message) for message in one.kept if "says" in text_of(message)]
    assert [int(text.split()[2].rstrip(":")) for text in texts] == list(range(60))
    assert "one says 59" in str(two.prepare_new([said("and two has the last word")]).messages)


# Failures.


class Interrupted(BaseException):
    """Ctrl-C, or the end of a process."""


def fail(session: DrivenSession, error: BaseException, matters: Matters, *, after: bool) -> list[BaseException]:
    """Let the first append that matters fail, before or after it is stored; the error is gone once it was raised."""
    left = [error]

    def failing(entries: Sequence[Entry]) -> None:
        if left and matters(entries):
            raise left.pop()

    if after:
        session.store.after = failing
    else:
        session.store.before = failing
    return left


def lived_through(session: DrivenSession, life: Life, left: Sequence[object]) -> None:
    """Forty steps; a call that fails is made again, as a caller would."""
    messages, new = [said(RULE)], [said(RULE)]
    for number in range(40):
        _insisting(lambda: session.prepare(messages) if life is whole else session.prepare_new(new))  # noqa: B023 - called at once
        _insisting(lambda: session.record(reply(number)))  # noqa: B023 - called at once
        new, messages = tool_step(number)[1:], [*messages, *tool_step(number)]
    assert not left


def _insisting(act: Callable[[], object]) -> None:
    try:
        act()
    except (InfoldError, Interrupted) as held:  # noqa: F841 - as long as it is held, so is all that broke off
        act()


KINDS = [
    *((matters, FOLDS) for matters in (is_said, is_request, of(Checkpoint), is_reply)),
    (of(Pruning), INFOLD),
]


@pytest.mark.parametrize("life", [whole, by_piece])
@pytest.mark.parametrize(("matters", "policy"), KINDS)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [StoreBroken("disk", "is full", remedy="make room"), Interrupted()])
def test_a_store_that_breaks_and_is_mended_has_everything_once(
    life: Life, matters: Matters, policy: Policy, after: bool, error: BaseException
) -> None:
    """B13: whatever breaks an append off, stored or not, the same call again stores what is missing and nothing twice."""
    session = DrivenSession(window=8_192, policy=policy, summarises=True)
    lived_through(session, life, fail(session, error, matters, after=after))
    spoken = [message for message in session.kept if not message.id.startswith("compact-")]

    assert len(spoken) == len({message.id for message in spoken}) == 80
    assert session.log.size == session.reread().size


def test_an_interrupted_summary_is_asked_for_again() -> None:
    """B13: Ctrl-C while the model writes leaves what was said stored once, the lock free, and the next call as it should be."""
    session = DrivenSession(ScriptedSummariser(Interrupted()), window=8_192, policy=FOLDS, summarises=True)
    lived_through(session, whole, session.summariser.answers)
    spoken = [message for message in session.kept if not message.id.startswith("compact-")]

    assert len(spoken) == len({message.id for message in spoken}) == 80
    assert session.log.size == session.reread().size
    with session.store.hold(KEY) as free:
        assert free


@pytest.mark.parametrize("flow", ["prepare", "prepare_new"])
def test_a_request_that_was_too_large_is_stored_once(flow: str) -> None:
    """B9, B13: what was said is kept though it did not fit; the same call with fewer tools goes on from it."""
    session = DrivenSession(window=4_096)
    tools = [{"name": "bash", "description": "word " * 9_000}]
    with pytest.raises(WindowExceeded):
        getattr(session, flow)([said(RULE)], tools=tools)
    ready = getattr(session, flow)([said(RULE)])

    assert (ready.messages, len(session.kept)) == ([said(RULE)], 1)
