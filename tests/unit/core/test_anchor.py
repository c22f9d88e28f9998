"""The newest report, held beside what stood in the log then."""

from infold.core.entries import Amendment, Checkpoint, MessageEntry
from infold.core.messages import Usage
from infold.testing.builders import numbered, replies, session, user

REPORT = Usage(input=900, output=20)


def test_an_anchor_has_the_sizes_of_its_moment() -> None:
    """B9, S7.2: a report stands beside the size of all that was live then and of the reply it came with."""
    log = session(user("hello " * 50), replies("done", usage=REPORT))
    baseline = log.baseline

    assert baseline is not None
    assert (baseline.usage, baseline.sequence) == (REPORT, 1)
    assert (baseline.size, baseline.reply_size) == (log.size, log.live[1].size)


def test_what_came_since_is_the_difference() -> None:
    """B15: growth is what the live messages measure now, less what they measured at the report."""
    log = session(user(), replies(usage=REPORT))
    (asked,) = numbered([user("and now " * 30)], prefix="later")
    grown = log.append(MessageEntry(asked))

    assert grown.baseline is not None
    assert grown.size.minus(grown.baseline.size) == grown.live[-1].size


def test_a_report_speaks_only_for_what_stands() -> None:
    """B9: a checkpoint, and taking back the reply it came with, leave a report without a voice."""
    log = session(user(), replies(usage=REPORT), user(), replies())

    assert log.append(Checkpoint("t", first_kept=1)).baseline is None
    assert log.append(Amendment(1)).baseline is None
    assert log.append(Amendment(2)).baseline == log.baseline
