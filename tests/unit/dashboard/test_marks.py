"""What was done to a view, in words."""

import pytest

from infold.core.entries import (
    Amendment,
    Checkpoint,
    Clip,
    Clipping,
    Entry,
    Handle,
    Pin,
    Pruning,
    Rejection,
    Restoration,
)
from infold.dashboard.marks import OPENED, mark_of
from infold.testing.builders import session, user


@pytest.mark.parametrize(
    ("entry", "kind", "words"),
    [
        (Pruning((Handle("1.0"), Handle("2.0")), 31_000), "pruning", "2 parts pruned, 31k tokens freed"),
        (Clipping((Clip(Handle("1.0"), 1, 1),)), "clipping", "1 part clipped"),
        (Restoration(4), "restoration", "entry 4 undone"),
        (Rejection(9_000, bound_thinking=True), "rejection", "thinking refused, removed"),
        (Rejection(9_000), "rejection", "9.0k tokens were too many"),
        (Rejection(9_000, 9_400, 8_192), "rejection", "9.4k tokens were too many, 8.2k are allowed"),
        (Amendment(7), "amendment", "messages from 7 on taken back"),
    ],
)
def test_each_change_has_its_words(entry: Entry, kind: str, words: str) -> None:
    """A mark says what was done with its numbers, the provider's own where it told any."""
    mark = mark_of(9, entry, session(), request=3)

    assert mark is not None
    assert (mark.kind, mark.sequence, mark.request, mark.words, mark.is_undone) == (kind, 9, 3, words, False)
    assert (kind in OPENED) == (kind in ("pruning", "clipping"))


def test_a_fold_is_marked_by_what_it_left() -> None:
    """A compaction says from how many tokens to how many, where that was written down."""
    log = session(user("a"))
    told, silent = Checkpoint("x", tokens_before=54_000, tokens_after=13_000, created_ms=8), Checkpoint("x")

    marks = [mark_of(1, entry, log.append(entry), request=1) for entry in (told, silent)]

    assert [mark and (mark.kind, mark.words, mark.created_ms) for mark in marks] == [
        ("compaction", "54k → 13k tokens", 8),
        ("compaction", "the head folded", None),
    ]


def test_what_was_only_said_or_pinned_is_no_mark() -> None:
    """Messages and pins hide nothing."""
    assert mark_of(1, Pin(Handle("0.0")), session(user("a")), request=1) is None
