"""Taking back, refusing, pinning and showing again, as values."""

from collections.abc import Iterator, Sequence

import pytest

from infold.core.budget import LearnedLimits
from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clip,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Pruning,
    Rejection,
    Restoration,
    Title,
)
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import (
    Message,
    MessageId,
    SessionId,
    TextPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.errors import OrphanResult, UnknownReference
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, session, user

SESSION = SessionId("session")
TURN = (user("a"), calls("bash"), result(500), replies("b"))


def said(*drafts: Message, prefix: str = "m") -> list[Entry]:
    """Message entries of that prefix."""
    return [MessageEntry(message) for message in numbered(drafts, prefix=prefix)]


def answer(call_id: str, output: str = "late", *, name: str = "late") -> MessageEntry:
    """A tool's answer to one call."""
    return MessageEntry(ToolMessage(MessageId(name), (ToolResultPart(call_id, "bash", output),)))


def ids(log: Log) -> list[str]:
    """What is live, by message id."""
    return [logged.message.id for logged in log.live]


def loaded(entries: Sequence[Entry]) -> Log:
    """The session as it is read back."""
    return load(SESSION, reversed(list(enumerate(entries))), Rendering())


# Taking back.


def test_what_is_taken_back_leaves_the_view_and_not_the_log() -> None:
    """B1: an amendment hides a message and all that followed it; its number counts on, and the older log is as it was."""
    log = session(*TURN, user("c"), replies("d"))
    amended = log.append(Amendment(4)).extend(said(user("instead"), prefix="n"))

    assert ids(amended) == ["m0", "m1", "m2", "m3", "n0"]
    assert amended.next_sequence == 8
    assert ids(log) == ["m0", "m1", "m2", "m3", "m4", "m5"]
    assert amended.size == session(*TURN, user("instead")).size


def test_everything_may_be_taken_back() -> None:
    """B1: a session whose first message was taken back begins anew under its old number."""
    log = session(*TURN).append(Amendment(0))

    assert (log.length, log.size.measure, log.measured) == (0, 0, 0)
    assert ids(log.extend(said(user("begin")))) == ["m0"]


@pytest.mark.parametrize("first", [1, 5, 77])
def test_only_what_is_live_can_be_taken_back(first: int) -> None:
    """B1: a number that is folded, unknown or no message's is refused, and nothing changes."""
    log = session(*TURN, user("c")).append(Pin(Handle("4.0"))).append(Checkpoint("t", first_kept=3))
    before = view(log, INFOLD.summary)
    with pytest.raises(UnknownReference, match="what is folded cannot be taken back"):
        log.append(Amendment(first))

    assert (view(log, INFOLD.summary), log.next_sequence) == (before, 7)


def test_pins_and_stubs_go_with_what_was_taken_back() -> None:
    """B20: marks of earlier messages stay, those of messages taken back do not come back with new ones."""
    log = session(*TURN, calls("bash"), result(400))
    marked = log.extend(
        (Pin(Handle("0.0")), Pin(Handle("5.0")), Pruning((Handle("2.0"), Handle("5.0")), 900), Amendment(4))
    )

    assert marked.pins == {"0.0"}
    assert set(marked.altered) == {2}
    assert marked.size == session(*TURN).append(Pruning((Handle("2.0"),), 500)).size
    assert marked.append(Restoration(8)).size == session(*TURN).size


def test_a_call_taken_back_to_waits_again() -> None:
    """B12: where only the result was taken back its call is open again, and may be answered once more."""
    log = session(user(), calls("bash"), result(50)).append(Amendment(2))
    answered = log.append(answer("m1-call0", "another"))

    assert log.open_calls == {"m1-call0"}
    assert answered.live[-1].late == ()
    with pytest.raises(OrphanResult):
        answered.append(answer("m1-call0", name="twice"))


def test_a_folded_call_can_be_answered_again() -> None:
    """B12: the answer to a call that is folded may be taken back and given anew; another's call stays unknown."""
    log = session(user(), calls("bash"), user("stop"), replies()).append(Checkpoint("t", first_kept=2))
    late = log.append(answer("m1-call0"))
    again = late.append(Amendment(5)).append(answer("m1-call0", "anew", name="again"))

    assert [logged.message.id for logged in again.live] == ["m2", "m3", "again"]
    with pytest.raises(OrphanResult):
        late.append(Amendment(5)).append(answer("nobody"))


def test_a_taken_back_request_is_no_longer_pending() -> None:
    """S3.1: a compaction that was requested before stays requested, one that was taken back does not."""
    log = session(user(), replies(), requests_compaction(), user("c"))

    assert log.append(Amendment(3)).pending == log.pending
    assert log.append(Amendment(1)).pending is None


def test_a_reply_taken_back_has_not_ended_for_length() -> None:
    """S5.3: nothing is forced for a reply that is no longer there, and the change is news."""
    log = session(user(), replies(finish="length")).append(Amendment(1))

    assert (log.cut_off, log.has_news) == (False, True)


# The same, read back.

CALLED = (user(), calls("bash"), user("stop"), replies("d"))

AMENDED: dict[str, list[Entry]] = {
    "at the end": [*said(*TURN, user("c")), Amendment(4)],
    "and gone on": [*said(*TURN, user("c")), Amendment(4), *said(user("d"), replies(), prefix="n")],
    "everything": [*said(*TURN), Amendment(0), *said(user("begin"))],
    "a shorter one inside": [
        *said(*TURN, user("c")),
        Amendment(4),
        *said(user("d"), replies(), prefix="n"),
        Amendment(7),
    ],
    "a longer one after": [*said(*TURN, user("c")), Amendment(4), *said(user("d"), prefix="n"), Amendment(1)],
    "twice the same": [*said(*TURN, user("c")), Amendment(4), *said(user("d"), prefix="n"), Amendment(6)],
    "a kept tail": [*said(*TURN, user("c"), replies()), Checkpoint("t", first_kept=3), Amendment(3)],
    "a kept tail, and gone on": [
        *said(*TURN),
        Checkpoint("t", first_kept=3),
        Amendment(3),
        *said(user("d"), replies(), prefix="n"),
    ],
    "a kept tail in part": [*said(*TURN, user("c"), replies()), Checkpoint("t", first_kept=3), Amendment(4)],
    "after a checkpoint": [*said(*TURN), Checkpoint("t", first_kept=3), *said(user("c"), prefix="n"), Amendment(5)],
    "before a checkpoint": [
        *said(*TURN, user("c")),
        Amendment(4),
        *said(user("d"), replies(), prefix="n"),
        Checkpoint("t", first_kept=6),
    ],
    "an answer from the fold": [
        *said(*CALLED),
        Checkpoint("t", first_kept=2),
        answer("m1-call0"),
        Amendment(5),
        answer("m1-call0", "anew", name="again"),
    ],
    "pins": [*said(*TURN, user("c")), Pin(Handle("0.0")), Pin(Handle("4.0")), Amendment(4)],
    "a pruning": [
        *said(*TURN, calls("bash"), result(400)),
        Pruning((Handle("2.0"), Handle("5.0")), 900),
        Amendment(4),
    ],
    "a clipping": [
        *said(*TURN, user("c" * 900)),
        Clipping((Clip(Handle("2.0"), 9, 9), Clip(Handle("4.0"), 9, 9))),
        Amendment(4),
    ],
    "a refusal": [*said(*TURN), Rejection(5_000, limit_tokens=4_000), *said(user("c"), prefix="n"), Amendment(5)],
}


@pytest.mark.parametrize("case", AMENDED)
def test_an_amended_session_read_back_is_the_one_that_grew(case: str) -> None:
    """B1, B13: what was taken back is passed over in reading; view, sizes, pins, stubs and numbers are the same."""
    grown, read = Log(SESSION).extend(AMENDED[case]), loaded(AMENDED[case])

    assert view(read, INFOLD.summary) == view(grown, INFOLD.summary)
    assert (read.size, read.measured, read.next_sequence) == (grown.size, grown.measured, grown.next_sequence)
    assert (read.pins, read.altered, read.limits) == (grown.pins, grown.altered, grown.limits)
    assert (read.run, read.carried) == (grown.run, grown.carried)


def test_reading_does_not_go_beyond_an_amended_view() -> None:
    """S4.1: entries before the checkpoint's first kept message are not asked for, amendment or not."""
    entries = [*said(*TURN, user("c"), replies()), Checkpoint("t", first_kept=3), Amendment(4)]
    seen: list[int] = []

    def watched() -> Iterator[tuple[int, Entry]]:
        for number, entry in reversed(list(enumerate(entries))):
            seen.append(number)
            yield number, entry

    load(SESSION, watched(), Rendering())

    assert seen == [7, 6, 5, 4, 3]


def test_an_undone_compaction_is_not_asked_for_again() -> None:
    """S3.1, B1, B20: with the checkpoint goes the request for it and the word to go on; nobody carries it out once more."""
    asked = numbered([requests_compaction()], prefix="compact-")[0]
    assert isinstance(asked, UserMessage)
    went_on = UserMessage(MessageId("continue-5"), (TextPart("go on", synthetic=True),))
    entries = [
        *said(*TURN),
        MessageEntry(asked),
        Checkpoint("t", first_kept=3, request=asked),
        MessageEntry(went_on),
        *said(user("c"), prefix="n"),
    ]
    undone = loaded([*entries, Restoration(5)])

    assert (ids(loaded(entries)), loaded(entries).pending) == (["m3", "continue-5", "n0"], None)
    assert (ids(undone), undone.pending) == (["m0", "m1", "m2", "m3", "n0"], None)


# A refusal.


@pytest.mark.parametrize(
    ("entry", "learned"),
    [
        (Rejection(9_000, 12_000, 8_192), LearnedLimits(8_192, is_told=True, factor=12_000 / 9_000)),
        (Rejection(9_000), LearnedLimits(8_100, refusals=1)),
        (Rejection(9_000, over_bytes=700), LearnedLimits(bytes=350)),
    ],
)
def test_a_refusal_teaches_its_numbers(entry: Rejection, learned: LearnedLimits) -> None:
    """B11: told, untold or of bytes: what the log knows of the provider afterwards."""
    log = session(*TURN).append(entry)

    assert (log.limits, log.is_rejected, log.next_sequence) == (learned, True, 5)
    assert loaded([*said(*TURN), entry]).limits == learned


@pytest.mark.parametrize(
    "entry",
    [
        *said(replies(usage=Usage(input=9)), prefix="r"),
        Pruning((Handle("2.0"),), 500),
        Clipping((Clip(Handle("2.0"), 9, 9),)),
        Checkpoint("t", first_kept=3),
    ],
)
def test_a_refusal_is_over_once_something_was_done(entry: Entry) -> None:
    """B7: a stub or a fold shows that the next request is smaller; a message, that it is another than the one refused."""
    log = session(*TURN).append(Rejection(9_000))

    assert log.append(entry).is_rejected is False
    assert log.append(Pin(Handle("0.0"))).is_rejected
    assert log.extend(said(user("c"), prefix="n")).is_rejected is False


# Pins.


def test_a_pin_can_be_released_even_where_it_was_folded() -> None:
    """B20: what is pinned and folded is still known as pinned, and can be let go; what was never there cannot."""
    log = session(*TURN, user("c")).append(Pin(Handle("0.0"))).append(Checkpoint("t", first_kept=3))

    assert log.append(Pin(Handle("0.0"), pinned=False)).pins == frozenset()
    with pytest.raises(UnknownReference, match="in the view"):
        log.append(Pin(Handle("1.0")))


def test_a_title_says_nothing_to_the_view() -> None:
    """S6.2: a title takes a number and nothing else; what follows it and what is folded around it are as without it."""
    plain = session(*TURN)
    titled = plain.append(Title("Kites")).append(Title("the first message", MessageId("m0")))
    folded = titled.append(Checkpoint("what was", first_kept=3))
    read = loaded([*said(*TURN), Title("Kites"), Title("x", MessageId("gone")), Checkpoint("what was", first_kept=3)])

    assert titled.next_sequence == plain.next_sequence + 2
    assert view(titled, INFOLD.summary) == view(plain, INFOLD.summary)
    assert (titled.size, titled.measured, titled.has_news) == (plain.size, plain.measured, plain.has_news)
    assert ids(titled.extend(said(user("more"), prefix="n"))) == ["m0", "m1", "m2", "m3", "n0"]
    assert ids(plain) == ["m0", "m1", "m2", "m3"]
    assert (ids(read), read.next_sequence) == (ids(folded), folded.next_sequence) == (["m3"], 7)
