"""Which snapshots a turn and a session lie between, and what differences come to."""

from msgspec.structs import replace

from infold.agent.snapshots import (
    DiffTotals,
    SnapshotSpan,
    session_root,
    session_span,
    sum_diffs,
    turn_spans,
)
from infold.core.entries import MessageEntry
from infold.core.messages import (
    AssistantMessage,
    Message,
    Part,
    SessionId,
    StepFinishPart,
    StepStartPart,
    WorkPath,
)
from infold.ports import FileDiff, SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, numbered, replies, result, user

KEY = SessionKey("", SessionId("s"))


def marked(message: Message, *parts: Part) -> Message:
    """A message with marks of its step at its end."""
    return replace(message, parts=(*message.parts, *parts))


def spans(*drafts: Message) -> tuple[SnapshotSpan, ...]:
    """The spans of the turns of a session."""
    return turn_spans(enumerate(numbered(drafts)))


def at(root: str, reply: Message) -> Message:
    """A reply that was worked on in a project."""
    assert isinstance(reply, AssistantMessage)
    return replace(reply, path=WorkPath(root, root))


START, END = StepStartPart, StepFinishPart
TASK = (
    user("paint the kite"),
    marked(calls("bash"), START("a1")),
    marked(result(3), END("tool-calls", "a2")),
    marked(replies("done"), START("a2"), END("stop", "a3")),
    user("go on", synthetic=True),
    marked(replies("more"), START("a4"), END("stop", "a5")),
    user("and the string"),
    marked(replies("done too"), START("b1"), END("stop", "b2")),
)


def test_a_turn_lies_between_its_first_step_and_its_last() -> None:
    """S6.1: first step-start and last step-finish of a turn; what a program says goes on with the turn."""
    assert spans(*TASK) == (SnapshotSpan("a1", "a5", 0), SnapshotSpan("b1", "b2", 6))


def test_a_session_lies_between_its_first_step_and_its_last() -> None:
    """S6.1: the whole session is the same over all turns, and belongs to no message."""
    assert session_span(TASK) == SnapshotSpan("a1", "b2")


def test_a_step_that_was_broken_off_ends_where_it_began() -> None:
    """Without any end, the last beginning stands for it; with one, a later step that was broken off changes nothing."""
    assert spans(user("a"), marked(calls("bash"), START("x"))) == (SnapshotSpan("x", "x", 0),)
    broken = marked(replies("b"), START("x"), END("stop", "y"), START("z"))
    assert spans(user("a"), broken) == (SnapshotSpan("x", "y", 0),)


def test_no_snapshots_are_an_empty_span() -> None:
    """A session whose steps name no working tree has nothing to compare; nor has one that no person began."""
    assert spans(user("a"), marked(replies("b"), START(), END("stop"))) == (SnapshotSpan("", "", 0),)
    assert spans(marked(replies("b"), START("x"))) == ()
    assert session_span(()) == SnapshotSpan()


def test_a_session_that_moved_is_compared_where_it_is_now() -> None:
    """S6.1: trees of two projects are never compared, since a patch between them deletes the one for the other."""
    moved = (
        user("here"),
        at("/a", marked(replies("done"), START("a1"), END("stop", "a2"))),
        user("there"),
        at("/b", marked(calls("bash"), START("b1"))),
        marked(result(3), END("tool-calls", "b2")),
        user("and back"),
        at("/a", marked(calls("bash"), START("a3"))),
        marked(result(3), END("tool-calls", "a4")),
        at("/a", marked(replies("done"), START("a4"), END("stop", "a5"))),
    )

    assert session_span(moved) == SnapshotSpan("a3", "a5", root="/a")
    assert session_span(moved[:5]) == SnapshotSpan("b1", "b2", root="/b")
    assert [(span.before, span.after, span.root) for span in spans(*moved)] == [
        ("a1", "a2", "/a"),
        ("b1", "b2", "/b"),
        ("a3", "a5", "/a"),
    ]


def test_differences_add_up() -> None:
    """Totals are of files and lines."""
    diffs = (FileDiff("a", "1\n", "2\n3\n", 2, 1), FileDiff("b.png"), FileDiff("c", "", "x\n", 1, 0))

    assert sum_diffs(diffs) == DiffTotals(3, 3, 1)
    assert sum_diffs(()) == DiffTotals()


def test_the_root_of_a_stored_session_is_found() -> None:
    """Who goes on with a session learns in which project it was worked on last."""
    store = MemoryStore()
    session = (user("a"), at("/old", replies("b")), at("/new", replies("c")), user("d"))
    store.append(KEY, [MessageEntry(message) for message in numbered(session)], expected=0)

    assert session_root(store, KEY) == "/new"
    assert session_root(store, SessionKey("", SessionId("another"))) == ""
