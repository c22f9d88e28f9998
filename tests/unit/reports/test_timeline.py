"""A session's window over time, from entries written by hand."""

import pytest
from hypothesis import given, settings
from tests.support.strategies import histories, infold_situations

from infold.core.compact import compact
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
)
from infold.core.gauge import PlanInputs
from infold.core.load import load
from infold.core.log import Log
from infold.core.messages import Message, SessionId, Usage
from infold.reports.stored_log import NumberedEntry, reply_in
from infold.reports.timeline import DEFAULT_RENDERING, HAS_DETAIL, Timeline, annotate, build_timeline
from infold.testing.builders import calls, replies, requests_compaction, result, session, summary, user

from .stored_sessions import OVERHEAD, earlier_of, entries_of, reported

ID = SessionId("s")


def drawn(entries: list[NumberedEntry], start: int = 0) -> Timeline:
    """The timeline of the entries from a number on."""
    return build_timeline(ID, entries[start:], earlier_of(entries))


def test_a_point_is_the_view_that_was_sent() -> None:
    """Each reply is one request, of what stood before it; its own words count from the next one on."""
    entries = entries_of(user("port it"), calls("bash"), result(900), replies("done"), user("more"))
    found = drawn(entries)
    first, second = found.points

    assert (first.number, first.sequence, second.number, second.sequence) == (1, 1, 2, 3)
    assert (
        first.contents.get("user", 0) > 0,
        first.contents.get("assistant", 0),
        first.contents.get("results", 0),
    ) == (True, 0, 0)
    assert (second.contents.get("assistant", 0) > 0, second.contents.get("results", 0) > 300) == (True, True)
    assert found.now.get("assistant", 0) > second.contents.get("assistant", 0)
    assert found.now.get("user", 0) > second.contents.get("user", 0)
    assert (found.first, found.annotations) == (1, ())


def test_a_point_knows_the_whole_history() -> None:
    """What was folded or hidden still counts in the size without infold; what the client took back does not."""
    opening = (user("word " * 900), calls("bash"), result(900), replies("a"), user("b"))
    plain = drawn(entries_of(*opening, replies("c")))
    pruned = drawn(entries_of(*opening, Pruning((Handle("2.0"),), 900), replies("c")))
    folded = drawn(entries_of(*opening, Checkpoint("x", first_kept=4), replies("c")))
    amended = drawn(entries_of(*opening, Amendment(3), user("d"), replies("c")))
    later = drawn(entries_of(*opening, Checkpoint("x", first_kept=4), replies("c")), start=6)

    assert [point.whole_tokens for point in plain.points] == [point.tokens for point in plain.points]
    for changed in (pruned, folded):
        assert changed.points[-1].whole_tokens == plain.points[-1].tokens > changed.points[-1].tokens
    assert amended.points[-1].whole_tokens == amended.points[-1].tokens
    assert later.points[-1].whole_tokens == later.points[-1].tokens


def test_what_was_reported_stands_beside_the_estimate() -> None:
    """Usage, cost, cache and what was sent beside the messages come from the reply; a reply without usage has none."""
    first = reported(replies("a"), 8_000, cached=6_000)
    found = drawn(entries_of(user(), first, user(), replies("b"), user(), replies("c", usage=Usage())))
    told, silent, empty = found.points

    assert (told.reported_tokens, told.cached_share, told.reply.cost, told.reply.created_ms) == (
        8_000,
        0.75,
        0.01,
        first.created_ms,
    )
    assert (told.contents.get("system", 0), told.contents.get("tools", 0)) == (OVERHEAD.system, OVERHEAD.tools)
    assert (silent.reported_tokens, silent.cached_share, silent.contents.get("tools", 0)) == (
        None,
        None,
        OVERHEAD.tools,
    )
    assert (empty.reported_tokens, empty.cached_share) == (None, None)


def test_hidden_and_folded_content_leaves_the_next_point() -> None:
    """A pruning and a compaction are marked before the request they made smaller."""
    found = drawn(
        entries_of(
            *(user("port it"), calls("bash"), result(900), replies("done")),
            *(Pruning((Handle("2.0"),), 900, 5), user("next"), replies("yes")),
            *(Checkpoint("Ported. " * 9, first_kept=5, tokens_before=9_000, tokens_after=400), replies("on we go")),
        )
    )
    pruning, compaction = found.annotations

    assert [point.contents.get("results", 0) > 300 for point in found.points] == [False, True, False, False]
    assert [point.contents.get("summary", 0) > 0 for point in found.points] == [False, False, False, True]
    assert (pruning.kind, pruning.request, pruning.created_ms) == ("pruning", 3, 5)
    assert pruning.words == "1 part pruned, 900 tokens freed"
    assert (compaction.kind, compaction.request, compaction.words) == ("compaction", 4, "9k → 400 tokens")


def test_an_undone_compaction_is_shown_as_undone() -> None:
    """B1: after a restoration everything is in the view again, and the compaction is marked as undone."""
    found = drawn(
        entries_of(
            user("a " * 99), replies("b"), user("c"), Checkpoint("Said.", first_kept=2), Restoration(3), replies("d")
        )
    )

    assert [(one.kind, one.is_undone) for one in found.annotations] == [("compaction", True), ("restoration", False)]
    assert found.points[1].contents.get("summary", 0) == 0
    assert found.points[1].contents.get("user", 0) > 99


def test_an_undone_pruning_is_shown_as_undone() -> None:
    """A pruning that was undone counts for the requests in between alone."""
    found = drawn(
        entries_of(
            *(user("a"), calls("t"), result(800), Pruning((Handle("2.0"),), 800), replies("b")),
            *(Restoration(3), user("c"), replies("d")),
        )
    )

    assert [point.contents.get("results", 0) > 300 for point in found.points] == [False, False, True]
    assert found.annotations[0].is_undone


def test_rejections_amendments_and_pins() -> None:
    """A refused request and messages taken back are marked; a pin changes nothing that is drawn."""
    found = drawn(
        entries_of(
            *(user("a"), Pin(Handle("0.0")), Rejection(9_000, 9_500, 8_000, rejected_ms=7), replies("b")),
            *(user("wrong"), Amendment(4), user("right"), replies("c")),
        )
    )

    assert [(one.kind, one.request) for one in found.annotations] == [("rejection", 1), ("amendment", 2)]
    assert len(found.log.live) == 4
    assert found.log.pins == {"0.0"}


def test_a_summary_of_the_documents_kind_is_a_compaction() -> None:
    """S4.1: a finished summary that answers a request folds the head, is marked as such, and is no request itself."""
    found = drawn(
        entries_of(user("a"), replies("b"), requests_compaction(), summary("All told."), user("c"), replies("d"))
    )

    assert [(one.kind, one.sequence, one.words) for one in found.annotations] == [("compaction", 3, "the head folded")]
    assert [point.contents.get("summary", 0) > 0 for point in found.points] == [False, True]


def test_only_the_end_of_a_session_is_drawn() -> None:
    """S4.1: from a later entry on, numbers go on where they were and the view before it is known."""
    entries = entries_of(*(message for turn in range(20) for message in (user(f"turn {turn}"), replies("done"))))
    whole, end = drawn(entries), drawn(entries, start=30)

    assert end.points == whole.points[15:]
    assert (end.first, end.now) == (16, whole.now)


def test_nothing_is_drawn_of_nothing() -> None:
    """An empty session has no points and an empty view."""
    found = build_timeline(ID, (), earlier_of([]))

    assert (found.points, found.annotations, found.now, found.first) == ((), (), {}, 1)


def test_replies_are_told_from_the_rest() -> None:
    """A summary is no reply, nor is anything but a model's message."""
    (_, said), (_, told), (_, other) = entries_of(replies("a"), summary(), Restoration(0))

    assert [reply_in(entry) is not None for entry in (said, told, other)] == [True, False, False]


@pytest.mark.slow
@settings(deadline=None)
@given(histories(), infold_situations())
def test_the_picture_is_of_the_views_that_were_decided_on(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """Every point of a session that was compacted on its way is of the size that the core had sent."""
    entries: list[NumberedEntry] = []
    sizes: list[int] = []
    log = Log(ID, DEFAULT_RENDERING)
    for message in history:
        if reply_in(MessageEntry(message)) is not None:
            compaction = compact(log, inputs)
            entries += list(enumerate(compaction.entries, start=len(entries)))
            log = compaction.log
            sizes.append(log.size.plus(log.checkpoint_size).measure)
        entries.append((len(entries), MessageEntry(message)))
        log = log.append(MessageEntry(message))
    found = drawn(entries)

    assert [point.tokens for point in found.points] == sizes
    assert found.log.size == log.size == load(ID, reversed(entries), DEFAULT_RENDERING).size


# Annotations.


@pytest.mark.parametrize(
    ("entry", "kind", "words"),
    [
        (Pruning((Handle("1.0"), Handle("2.0")), 31_000), "pruning", "2 parts pruned, 31k tokens freed"),
        (Clipping((Clip(Handle("1.0"), 1, 1),)), "clipping", "1 part clipped"),
        (Restoration(4), "restoration", "entry 4 undone"),
        (Rejection(9_000, bound_thinking=True), "rejection", "the provider refused the thinking, which was removed"),
        (Rejection(9_000), "rejection", "the provider refused 9k tokens"),
        (Rejection(9_000, 9_400, 8_192), "rejection", "the provider refused 9.4k tokens, 8.2k are allowed"),
        (Amendment(7), "amendment", "messages from 7 on taken back"),
    ],
)
def test_each_change_has_its_words(entry: Entry, kind: str, words: str) -> None:
    """An annotation has the numbers of the change, the provider's own if it reported any."""
    found = annotate(9, entry, session(), request=3)

    assert found is not None
    assert (found.kind, found.sequence, found.request, found.words, found.is_undone) == (kind, 9, 3, words, False)
    assert (kind in HAS_DETAIL) == (kind in ("pruning", "clipping"))


def test_a_fold_is_annotated_with_its_sizes() -> None:
    """A compaction has its tokens before and after, if they were recorded."""
    log = session(user("a"))
    told, silent = Checkpoint("x", tokens_before=54_000, tokens_after=13_000, created_ms=8), Checkpoint("x")

    found = [annotate(1, entry, log.append(entry), request=1) for entry in (told, silent)]

    assert [one and (one.kind, one.words, one.created_ms) for one in found] == [
        ("compaction", "54k → 13k tokens", 8),
        ("compaction", "the head folded", None),
    ]


def test_messages_and_pins_are_not_annotated() -> None:
    """Messages and pins hide nothing."""
    assert annotate(1, Pin(Handle("0.0")), session(user("a")), request=1) is None
