"""What fills a context window, by category."""

from functools import reduce

import pytest
from hypothesis import given, settings
from tests.support.strategies import histories

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, MessageEntry, Pruning
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import (
    FilePart,
    Message,
    MessageId,
    Overhead,
    SessionId,
    SystemMessage,
    TextPart,
    ToolResultPart,
    UserMessage,
)
from infold.core.tokens import NO_SIZE, UNCALIBRATED, Calibration, Size
from infold.reports.contents import ViewSizes, message_sizes, view_sizes
from infold.testing.builders import calls, log_of, replies, result, session, user

PLAYED = (user("port it"), calls("bash"), result(900), replies("ported", reasoning="first this, then that " * 9))


def total_size(log: Log) -> Size:
    """The size of a view over all categories."""
    return reduce(Size.plus, view_sizes(log).sizes.values(), NO_SIZE)


@pytest.mark.slow
@settings(deadline=None)
@given(histories())
def test_categories_add_up_to_the_size_of_the_log(history: tuple[Message, ...]) -> None:
    """Whatever a session holds, its categories together are the size that decisions are made by."""
    log = log_of(history)

    assert total_size(log) == log.size


def measures(sizes: ViewSizes) -> dict[str, int]:
    """The measure of each category that is not empty."""
    return {name: size.measure for name, size in sizes.sizes.items() if size.measure}


def test_each_part_has_its_category() -> None:
    """Words, reasoning, calls and results are counted apart."""
    found = measures(view_sizes(session(*PLAYED)))

    assert set(found) == {"user", "assistant", "reasoning", "calls", "results"}
    assert found["results"] > 300


def test_a_result_is_one_wherever_it_stands() -> None:
    """In a user message, as some providers want it, a result counts as a result and an image as media."""
    asked = session(calls("t"))
    (call,) = asked.live[-1].calls
    parts = (FilePart("image/png", 300), ToolResultPart(call.call_id, "t", "out " * 50))
    log = asked.append(MessageEntry(UserMessage(MessageId("u"), parts)))

    found = measures(message_sizes(log, log.live[-1]))

    assert (found["user"], found["media"]) == (4, 300)
    assert found["results"] > 40


def test_system_messages_count_as_system() -> None:
    """Instructions that travel among the messages stand with the system prompt."""
    log = log_of([SystemMessage(MessageId("s"), (TextPart("Be brief. " * 20),))])

    found = view_sizes(log).tokens(UNCALIBRATED, Overhead(100, 50))

    assert found == {"system": 100 + log.size.measure, "tools": 50}


def test_what_is_hidden_counts_as_shown() -> None:
    """A stub counts as a stub, a clipped part as what is left of it, a folded head as its summary."""
    log = session(*PLAYED, user("now the next"))
    pruned = log.append(Pruning((Handle("2.0"),), 900))
    clipped = log.append(Clipping((Clip(Handle("2.0"), 40, 40),)))
    folded = log.append(Checkpoint("All was ported. " * 8, first_kept=4))

    for changed in (pruned, clipped, folded):
        assert total_size(changed) == changed.size.plus(changed.checkpoint_size)
    assert measures(view_sizes(pruned))["results"] < 60
    assert measures(view_sizes(folded))["summary"] > 20
    assert "results" not in measures(view_sizes(folded))


def test_cleaned_reasoning_is_not_counted() -> None:
    """S4.5: where a checkpoint cleaned the kept tail, its reasoning is not counted."""
    log = session(user("a"), replies("b"), *PLAYED).append(Checkpoint("", first_kept=2, cleaned=True))

    assert "reasoning" not in measures(view_sizes(log))
    assert total_size(log) == log.size


def test_other_rulers_are_measured_in_tokens() -> None:
    """A log that counts characters is shown in tokens all the same."""
    log = Log(SessionId("s"), Rendering("ceil")).append(
        MessageEntry(UserMessage(MessageId("u"), (TextPart("a word " * 99),)))
    )

    assert total_size(log) == log.size


def test_contents_are_calibrated_by_reported_usage() -> None:
    """B15: what a provider reported corrects each category by its kind of content."""
    sizes = view_sizes(session(*PLAYED))
    found = sizes.tokens(Calibration(prose=1.0, material=2.0), Overhead())

    assert found["results"] > measures(sizes)["results"] * 1.9
    assert found["user"] == measures(sizes)["user"]
