"""What the judge says of a summary, and how long a summariser that fails is left alone."""

import msgspec

from infold.core.entries import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, SummariserFailures, Verdict, after_failure


def test_a_verdict_with_text_is_acceptance() -> None:
    """B5: a text that was left standing is accepted, whatever was taken out of it; no text is a rejection."""
    assert Verdict("as it is").is_accepted
    assert Verdict("the rest", ("invented",), removed=("a line",), invented=("src/x.py",)).is_accepted
    assert not Verdict("", ("empty",)).is_accepted


def test_a_verdict_is_stored_as_it_is() -> None:
    """B5: a checkpoint keeps its verdict."""
    verdict = Verdict("the rest", ("invented",), removed=("a line",), invented=("src/x.py",))

    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


def test_each_failure_doubles_the_pause_up_to_an_hour() -> None:
    """B36: from a minute on; the number of failures goes on growing without harm."""
    failing, pauses = None, list[int]()
    for _ in range(40):
        failing = after_failure(failing, 1_000)
        pauses.append(failing.until_ms - 1_000)

    assert pauses[:4] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS, 8 * FIRST_PAUSE_MS]
    assert set(pauses[6:]) == {LONGEST_PAUSE_MS}
    assert failing is not None
    assert failing.times == 40


def test_a_providers_wait_is_kept_within_an_hour() -> None:
    """B36: what a provider asks for holds where it is longer than the pause, and no pause is longer than an hour."""
    assert after_failure(None, 0, 5).until_ms == FIRST_PAUSE_MS
    assert after_failure(None, 0, 900_000).until_ms == 900_000
    assert after_failure(None, 0, 10 * LONGEST_PAUSE_MS).until_ms == LONGEST_PAUSE_MS


def test_a_pause_ends_with_its_time_or_with_a_clock_that_was_set_back() -> None:
    """B36: at its end the summariser may be asked; a clock set back by a day does not pause it for a day."""
    failing = SummariserFailures(1, LONGEST_PAUSE_MS)

    assert [failing.pauses(now) for now in (0, LONGEST_PAUSE_MS - 1, LONGEST_PAUSE_MS)] == [True, True, False]
    assert not failing.pauses(-1)
