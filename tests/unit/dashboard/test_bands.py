"""What fills a view, told apart by who it is from."""

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
from infold.core.tokens import UNCALIBRATED, Calibration
from infold.dashboard.bands import BANDS, NO_BANDS, Bands, Filling, bands_of, bands_of_log
from infold.testing.builders import calls, log_of, replies, result, session, user

PLAYED = (user("port it"), calls("bash"), result(900), replies("ported", reasoning="first this, then that " * 9))


@pytest.mark.slow
@settings(deadline=None)
@given(histories())
def test_bands_add_up_to_the_logs_own_size(history: tuple[Message, ...]) -> None:
    """Whatever a session holds, its bands together are the size that decisions are made by."""
    log = log_of(history)

    assert bands_of_log(log).size == log.size


def test_each_part_has_its_band() -> None:
    """Reasoning is told from what was said, and results from both."""
    bands = bands_of_log(session(*PLAYED))

    assert min(bands.user.measure, bands.assistant.measure, bands.reasoning.measure) > 0
    assert bands.results.measure > 300
    assert bands.system == bands.summary == NO_BANDS.summary


def test_a_result_is_one_wherever_it_stands() -> None:
    """In a user message, as some providers want it, a result counts as a result and a picture as the user's."""
    asked = session(calls("t"))
    (call,) = asked.live[-1].calls
    parts = (FilePart("image/png", 300), ToolResultPart(call.call_id, "t", "out " * 50))
    log = asked.append(MessageEntry(UserMessage(MessageId("u"), parts)))

    bands = bands_of(log, log.live[-1])

    assert bands.user.measure == 304
    assert bands.results.measure > 40


def test_system_messages_count_as_system() -> None:
    """Instructions that travel among the messages stand with the system prompt."""
    log = log_of([SystemMessage(MessageId("s"), (TextPart("Be brief. " * 20),))])

    filling = bands_of_log(log).filling(UNCALIBRATED, Overhead(100, 50))

    assert filling.system == 100 + log.size.measure
    assert (filling.tools, filling.tokens) == (50, 150 + log.size.measure)


def test_what_is_hidden_counts_as_shown() -> None:
    """A stub counts as a stub, a clipped part as what is left of it, a folded head as its summary."""
    log = session(*PLAYED, user("now the next"))
    pruned = log.append(Pruning((Handle("2.0"),), 900))
    clipped = log.append(Clipping((Clip(Handle("2.0"), 40, 40),)))
    folded = log.append(Checkpoint("All was ported. " * 8, first_kept=4))

    for changed in (pruned, clipped, folded):
        assert bands_of_log(changed).size == changed.size.plus(changed.checkpoint_size)
    assert bands_of_log(pruned).results.measure < 60
    assert bands_of_log(folded).summary.measure > 20
    assert bands_of_log(folded).results.measure == 0


def test_cleaned_reasoning_is_not_counted() -> None:
    """S4.5: where a checkpoint cleaned the kept tail, its reasoning is in no band."""
    log = session(user("a"), replies("b"), *PLAYED).append(Checkpoint("", first_kept=2, cleaned=True))

    assert bands_of_log(log).reasoning.measure == 0
    assert bands_of_log(log).size == log.size


def test_other_rulers_are_measured_in_tokens() -> None:
    """A log that counts characters is shown in tokens all the same."""
    log = Log(SessionId("s"), Rendering("ceil")).append(
        MessageEntry(UserMessage(MessageId("u"), (TextPart("a word " * 99),)))
    )

    assert bands_of_log(log).size == log.size


def test_filling_is_corrected_by_reports() -> None:
    """B15: what a provider reported corrects each band by its kind of content."""
    bands = bands_of_log(session(*PLAYED))
    filling = bands.filling(Calibration(prose=1.0, material=2.0), Overhead())

    assert filling.results > bands.results.measure * 1.9
    assert filling.user == bands.user.measure
    assert Filling(*range(7)).tokens == sum(Filling(*range(7)).of(band) for band in BANDS) == 21
    assert bands.plus(Bands()) == bands
