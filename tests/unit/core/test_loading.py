"""A session read back, newest entry first and no further than its view needs."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from infold.core.budget import Window, budget_for
from infold.core.compact import checkpoint_for
from infold.core.cut import Cut
from infold.core.entries import Checkpoint, Clip, Clipping, Entry, Handle, MessageEntry, Pin, Pruning, Restoration
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import (
    AssistantMessage,
    CompactionPart,
    Message,
    MessageId,
    SessionId,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    results_of,
)
from infold.core.plan import Fits, Fold, next_step
from infold.core.policy import INFOLD, Policy, preset
from infold.core.view import filter_compacted, view
from infold.testing.builders import calls, numbered, replies, requests_compaction, result, summary, user

SESSION = SessionId("session")
TURN = (user(), calls("bash"), result(9_000), replies())
Reading = Callable[[Sequence[Entry]], Log]


def said(*drafts: Message, prefix: str = "m") -> list[Entry]:
    """Message entries `m0`, `m1`, …"""
    return [MessageEntry(message) for message in numbered(drafts, prefix=prefix)]


def newest_first(entries: Sequence[Entry]) -> Iterator[tuple[int, Entry]]:
    """The entries with their numbers, as a store reads them."""
    yield from reversed(list(enumerate(entries)))


def appended(entries: Sequence[Entry]) -> Log:
    """The session as it grew."""
    return Log(SESSION).extend(entries)


def loaded(entries: Sequence[Entry]) -> Log:
    """The session as it is read back."""
    return load(SESSION, newest_first(entries), Rendering())


def ids(log: Log) -> list[str]:
    """What stands, by message id."""
    return [message.id for message in filter_compacted(log)]


# The cases of OpenCode's own suite. Two have no counterpart: a fork remaps ids, and we have no forks; *latest by time* sorts
# by clock, and our order is that of the entries.

FILTER_CASES = {
    "none": ((*TURN, user()), ["m0", "m1", "m2", "m3", "m4"]),
    "boundary": ((requests_compaction(), summary(), user(), replies()), ["m0", "m1", "m2", "m3"]),
    "history before the boundary": ((*TURN, requests_compaction(), summary(), user()), ["m4", "m5", "m6"]),
    "empty": ((), []),
    "marker without summary": ((requests_compaction(), user()), ["m0", "m1"]),
    "errored summary": ((requests_compaction(), summary(error="too long"), user()), ["m0", "m1", "m2"]),
    "summary that finished in error": ((requests_compaction(), summary(finish="error"), user()), ["m0", "m1", "m2"]),
    "unfinished summary": ((requests_compaction(), summary(finish=None), user()), ["m0", "m1", "m2"]),
    "tail": (
        (user(), replies(), user(), replies(), requests_compaction(first_kept_id="m2"), summary(), user(), replies()),
        ["m4", "m5", "m2", "m3", "m6", "m7"],
    ),
    "tail inside turn": (
        (
            *(user(), replies(), user(), replies(), replies(), requests_compaction(first_kept_id="m4"), summary()),
            *(user(), replies()),
        ),
        ["m5", "m6", "m4", "m7", "m8"],
    ),
    "repeated": (
        (
            *(user(), replies(), user(), replies(), requests_compaction(first_kept_id="m2"), summary()),
            *(user(), replies(), requests_compaction(first_kept_id="m6"), summary(), user(), replies()),
        ),
        ["m8", "m9", "m6", "m7", "m10", "m11"],
    ),
    "retried after a failure": (
        (user(), requests_compaction(), summary(error="no"), requests_compaction(), summary(), user()),
        ["m3", "m4", "m5"],
    ),
    "tail id that nobody has": (
        (user(), replies(), requests_compaction(first_kept_id="gone"), summary(), user()),
        ["m2", "m3", "m4"],
    ),
    "tail id at a result": (
        (user(), calls("bash"), result(), replies(), requests_compaction(first_kept_id="m2"), summary(), user()),
        ["m4", "m5", "m3", "m6"],
    ),
}


@pytest.mark.parametrize("way", [appended, loaded])
@pytest.mark.parametrize("case", FILTER_CASES)
def test_what_stands(way: Reading, case: str) -> None:
    """S4.1, S4.2: *filterCompacted* gives OpenCode's own results, appended or read newest first."""
    drafts, expected = FILTER_CASES[case]

    assert ids(way(said(*drafts))) == expected


@pytest.mark.parametrize("name", ["opencode-1.18", "infold"])
def test_a_reply_from_before_the_summary_triggers_nothing(name: str) -> None:
    """S5.1, B9: a reply of 280,200 tokens in the kept tail, its summary and a continue message: nothing is to be done."""
    drafts = (
        *(user(), user(), replies(usage=Usage(input=280_200)), requests_compaction(first_kept_id="m1"), summary()),
        user("go on", synthetic=True),
    )
    policy = preset(name)
    inputs = PlanInputs(policy, budget_for(Window(200_000), policy))

    for log in (appended(said(*drafts)), loaded(said(*drafts))):
        assert log.baseline is None
        assert log.pending is None
        assert isinstance(next_step(log, inputs), Fits)


def test_a_fresh_marker_is_pending() -> None:
    """S5.1: a request newer than the summary is remembered until it is carried out, also over a restart."""
    drafts = (*TURN, requests_compaction(), summary(), user(), requests_compaction(auto=False))

    for log in (appended(said(*drafts)), loaded(said(*drafts))):
        assert log.pending is not None
        assert log.pending.id == "m7"


def test_create_on_an_empty_session() -> None:
    """S3.1, S5.1: a request is one user message with one compaction part, and pending."""
    part = CompactionPart("part", auto=True, overflow=True)
    log = appended([MessageEntry(UserMessage(MessageId("request"), (part,)))])

    assert [logged.message.parts for logged in log.live] == [(part,)]
    assert log.pending is log.live[0].message


def test_an_answered_request_is_not_pending() -> None:
    """S5.1, S4.2: a finished summary settles its request; a failed one leaves it pending."""
    assert appended(said(*TURN, requests_compaction(), summary())).pending is None
    assert appended(said(*TURN, requests_compaction(), summary(error="no"))).pending is not None
    assert appended([*said(*TURN, requests_compaction()), Checkpoint("text")]).pending is None


@pytest.mark.parametrize("tail", [None, "m2"])
def test_what_was_said_while_the_summary_was_written_stays(tail: str | None) -> None:
    """S4.1: everything newer than the request is in the view, also what came between it and its summary."""
    drafts = (
        user(),
        replies(),
        user(),
        requests_compaction(first_kept_id=tail),
        user("meanwhile"),
        summary(),
        replies(),
    )

    for log in (appended(said(*drafts)), loaded(said(*drafts))):
        assert "m4" in ids(log)


REPEATED = (
    *(user("one"), replies(), user("two"), replies(), user("three"), replies()),
    *(requests_compaction(first_kept_id="m2"), summary("S1"), user("four"), replies()),
    *(requests_compaction(first_kept_id="m4"), summary("S2"), user("five")),
)
"""Two compactions by messages; the tail that the second keeps begins within the tail of the first."""


def test_the_tail_of_repeated_imported_compactions_stays() -> None:
    """S4.1, S1.9: turns from before the older of two imported compactions, kept by both, are there after reading back."""
    for log in (appended(said(*REPEATED)), loaded(said(*REPEATED))):
        assert ids(log) == ["m10", "m11", "m4", "m5", "m8", "m9", "m12"]


def test_a_tail_over_an_older_imported_compaction_stays() -> None:
    """S4.1: a checkpoint of infold's own that keeps messages from before an imported compaction is read back so."""
    entries = [*said(*REPEATED[:10]), Checkpoint("own", first_kept=4)]

    for log in (appended(entries), loaded(entries)):
        assert ids(log) == ["m4", "m5", "m8", "m9"]


def test_an_imported_tail_over_a_checkpoint_stays() -> None:
    """S4.1: an imported compaction that keeps messages from before a checkpoint of infold's own is read back so."""
    said_later = numbered([*[user()] * 7, requests_compaction(first_kept_id="m4"), summary("S")])[7:]
    entries = [
        *said(*REPEATED[:6]),
        Checkpoint("own", first_kept=2, unanswered={"call": "bash"}),
        *(MessageEntry(message) for message in said_later),
    ]

    for log in (appended(entries), loaded(entries)):
        assert ids(log) == ["m7", "m8", "m4", "m5"]


# The same session either way.

HISTORIES: dict[str, list[Entry]] = {
    "messages": said(*TURN, user()),
    "pruning": [*said(*TURN, user()), Pruning((Handle("2.0"),), 9_000)],
    "pruning undone": [
        *said(*TURN),
        Pruning((Handle("2.0"),), 9_000),
        Restoration(4),
        MessageEntry(numbered([user()], prefix="z")[0]),
    ],
    "restoration last": [*said(*TURN), Pruning((Handle("2.0"),), 9_000), Restoration(4)],
    "clipping": [*said(*TURN), Clipping((Clip(Handle("2.0"), 20, 20),))],
    "clipping undone": [*said(*TURN), Clipping((Clip(Handle("2.0"), 20, 20),)), Restoration(4)],
    "pin": [*said(*TURN), Pin(Handle("2.0"))],
    "checkpoint": [*said(*TURN, *TURN), Checkpoint("text", first_kept=4)],
    "checkpoint over everything": [*said(*TURN), Checkpoint("text"), MessageEntry(numbered([user()], prefix="z")[0])],
    "second checkpoint": [*said(*TURN, *TURN), Checkpoint("one", first_kept=4), Checkpoint("two", first_kept=5)],
    "pruning of folded and kept": [
        *said(*TURN, *TURN),
        Pruning((Handle("6.0"), Handle("2.0")), 18_000),
        Checkpoint("text", first_kept=4),
    ],
    "pruning of folded alone": [
        *said(*TURN, *TURN),
        Pruning((Handle("2.0"),), 9_000),
        Checkpoint("text", first_kept=4),
    ],
    "clipping of folded and kept": [
        *said(*TURN, *TURN),
        Clipping((Clip(Handle("6.0"), 9, 9), Clip(Handle("2.0"), 9, 9))),
        Checkpoint("text", first_kept=4),
    ],
    "clipping of folded alone": [
        *said(*TURN, *TURN),
        Clipping((Clip(Handle("2.0"), 9, 9),)),
        Checkpoint("text", first_kept=4),
    ],
    "pruning of folded undone": [
        *said(*TURN, *TURN),
        Pruning((Handle("2.0"),), 9_000),
        Restoration(8),
        Checkpoint("text", first_kept=4),
    ],
    "pin of folded": [*said(*TURN, *TURN), Pin(Handle("2.0")), Checkpoint("text", first_kept=4)],
}


@pytest.mark.parametrize("case", HISTORIES)
def test_a_session_read_back_is_the_session(case: str) -> None:
    """B1, B13, S4.1: view, numbering and measures after reading are those of the session as it grew."""
    grown, read_back = appended(HISTORIES[case]), loaded(HISTORIES[case])

    assert view(read_back, INFOLD.summary) == view(grown, INFOLD.summary)
    assert read_back.next_sequence == grown.next_sequence == len(HISTORIES[case])
    assert read_back.checkpoint_sequence == grown.checkpoint_sequence
    assert (read_back.measured, read_back.size) == (grown.measured, grown.size)


def test_an_undone_checkpoint_is_passed_over() -> None:
    """B1, B20: appending the restoration of a checkpoint and loading again gives the view from before it."""
    before = said(*TURN, user())
    undone = [*before, Checkpoint("text", first_kept=4), Restoration(5)]

    assert view(loaded(undone), INFOLD.summary) == view(loaded(before), INFOLD.summary)
    assert loaded(undone).checkpoint is None


def test_numbering_goes_on_after_an_undone_checkpoint() -> None:
    """B1, B14: the next entry's number is free, though reading passed over the newest entries."""
    undone = [*said(*TURN, user()), Checkpoint("text", first_kept=4), Restoration(5)]

    assert loaded(undone).next_sequence == len(undone)


def test_attempts_outlive_a_restart() -> None:
    """S5.3, B13: compactions since the user last spoke are counted the same in a session read back."""
    entries = [*said(*TURN, *TURN), Checkpoint("one", first_kept=4), Checkpoint("two", first_kept=4, attempt=2)]

    assert appended(entries).attempts == 2
    assert loaded(entries).attempts == 2


def test_undoing_the_newest_checkpoint_leaves_the_older_one() -> None:
    """B1, B3: the checkpoint before the undone one stands again."""
    entries = [*said(*TURN, *TURN), Checkpoint("one", first_kept=4), Checkpoint("two"), Restoration(9)]

    log = loaded(entries)

    assert log.checkpoint is not None
    assert log.checkpoint.text == "one"
    assert ids(log) == ["m4", "m5", "m6", "m7"]


@pytest.mark.parametrize(
    ("entries", "most"),
    [
        ([*said(*TURN * 50), Checkpoint("text", first_kept=196)], 5),
        ([*said(*TURN * 50), Checkpoint("text")], 1),
        (said(*TURN * 50, requests_compaction(), summary()), 2),
        (said(*TURN * 50, requests_compaction(first_kept_id="m196"), summary()), 6),
    ],
)
def test_reading_ends_with_the_view(entries: list[Entry], most: int) -> None:
    """S4.1, B17: no entry older than the view is read, however old the session."""
    read = 0

    def counted() -> Iterator[tuple[int, Entry]]:
        nonlocal read
        for pair in newest_first(entries):
            read += 1
            yield pair

    load(SESSION, counted(), Rendering())

    assert read == most


def test_nothing_read_is_an_empty_session() -> None:
    """B13: a session without entries can be loaded."""
    assert loaded([]).next_sequence == 0


@pytest.mark.parametrize("way", [appended, loaded])
def test_a_call_of_the_folded_head_may_still_be_answered(way: Reading) -> None:
    """B12, B13: a result whose call was folded is taken, and shown as text."""
    late = MessageEntry(ToolMessage(MessageId("late"), (ToolResultPart("m1-call0", "bash", "at last"),)))
    entries = [*said(user(), calls("bash"), user()), Checkpoint("text", first_kept=2), late]

    assert way(entries).live[-1].late == (0,)


def test_a_summary_without_a_request_is_no_boundary() -> None:
    """S4.1: a summary whose parent is no request of this session ends nothing."""
    (orphan,) = numbered([summary()], prefix="orphan")
    assert isinstance(orphan, AssistantMessage)

    for log in (appended([*said(*TURN), MessageEntry(orphan)]), loaded([*said(*TURN), MessageEntry(orphan)])):
        assert ids(log) == ["m0", "m1", "m2", "m3", "orphan0"]


@pytest.mark.parametrize("policy", [preset("opencode-1.1.23"), preset("turn-window")])
def test_a_session_is_read_under_its_rendering(policy: Policy) -> None:
    """S4.3, S7.1: a loaded session sizes and stubs by the rule it is given."""
    entries = [*said(*TURN), Pruning((Handle("2.0"),), 9_000)]
    log = load(SESSION, newest_first(entries), Rendering(policy.estimate, "stub"))

    assert log.rendering.estimate == policy.estimate
    shown = [part.output for message in view(log, policy.summary) for part in results_of(message)]
    assert shown == ["stub"]


def test_a_report_of_an_undone_fold_says_nothing_of_what_it_had_folded() -> None:
    """B8, B20: what was reported while a checkpoint stood is of a smaller view; undone, that before it speaks."""
    before = said(*(user("long " * 400), replies(usage=Usage(input=900))))
    folded = [Checkpoint("text"), *said(user("next"), replies(usage=Usage(input=60)), prefix="n")]
    log = loaded([*before, *folded, Restoration(2)])

    assert log.baseline == loaded(before).baseline
    assert log.altered_at == 5
    assert loaded([*before, *folded]).baseline != log.baseline


def test_a_report_on_hidden_parts_is_read_as_it_was_made() -> None:
    """B8, B13: a report made while a result was pruned stands beside the size it had then, whatever was undone since."""
    entries = [
        *said(user(), calls("bash"), result(900)),
        Pruning((Handle("2.0"),), 100),
        *said(replies(usage=Usage(input=90)), prefix="n"),
        Restoration(3),
    ]

    grown, read_back = appended(entries), loaded(entries)

    assert read_back.baseline == grown.baseline
    assert (read_back.size, read_back.altered, read_back.freed) == (grown.size, grown.altered, grown.freed)


def test_a_call_of_the_folded_head_may_be_answered_after_a_restart() -> None:
    """B12, B13: a checkpoint names the calls that it folded without a result, so that one is known when it comes."""
    inputs = PlanInputs(INFOLD, budget_for(Window(200_000), INFOLD))
    log = appended(said(user(), calls("bash"), user()))
    checkpoint, _ = checkpoint_for(log, Fold(Cut.at(log, 2), 500, "manual"), inputs)
    late = MessageEntry(ToolMessage(MessageId("late"), (ToolResultPart("m1-call0", "bash", "at last"),)))

    assert checkpoint.unanswered == {"m1-call0": "bash"}
    read_back = loaded([*said(user(), calls("bash"), user()), checkpoint])
    assert read_back.append(late).live[-1].late == (0,)
    assert loaded([*said(user(), calls("bash"), user()), checkpoint, late]).carried == frozenset()
