"""The demo shows what the core does and tells the truth about every request."""

import re
from functools import lru_cache

import pytest
from click.testing import CliRunner, Result
from splintr import Tokenizer

from infold.cli.demo import PROVIDER_FACTOR, _scene
from infold.cli.main import main
from infold.core.messages import Message
from infold.core.presets import INFOLD
from infold.testing.builders import log_of
from infold.testing.play import play as play_session

pytestmark = pytest.mark.slow


@lru_cache
def play(*arguments: str) -> Result:
    """The demo's outcome, played once for all tests that look at it."""
    return CliRunner().invoke(main, ["demo", "--plain", "--fast", *arguments])


def test_the_demo_ends_with_all_requests_fitted() -> None:
    """At 8k and 64k every request holds, and the last line says so."""
    shown = play()

    assert shown.exit_code == 0
    assert shown.output.splitlines()[-1] == "all requests fitted"


@pytest.mark.parametrize("window_tokens", [8_000, 64_000])
def test_an_exact_tokeniser_agrees(window_tokens: int) -> None:
    """B8: counted by o200k itself, no request of the demo is over the limit."""
    tokenizer = Tokenizer.from_pretrained("o200k_base")
    exact = lru_cache(maxsize=None)(lambda text: len(tokenizer.encode(text)))
    scene = _scene(window_tokens, INFOLD)

    for played in play_session(log_of(()), scene.session, scene.situation, factor=PROVIDER_FACTOR):
        sent = sum(exact(text) for message in played.request for text in texts(message))
        assert sent + scene.situation.overhead_tokens <= scene.situation.budget.limit_tokens


def test_both_windows_are_played_unless_others_are_given() -> None:
    """The default is 8k and 64k; `--window` replaces both."""
    assert re.findall(r"window (\w+) -", play().output) == ["8k", "64k"]
    assert re.findall(r"window (\w+) -", play("--window", "20,000").output) == ["20k"]


def test_each_fold_is_told_with_its_numbers_and_reason() -> None:
    """A fold's line has tokens before, tokens after and why."""
    line = r"request +\d+  folded \d+ messages +[\d.]+k -> +[\d.]+k tokens   the trigger was reached"

    assert len(re.findall(line, play().output)) > 20


def test_a_part_too_large_is_told_as_clipped() -> None:
    """The log of 50,000 tokens does not fit a window of 64k and is clipped."""
    assert re.search(r"clipped 1 large part .* -> ", play().output)


def test_the_bar_names_every_category() -> None:
    """Without colours each category has its letter, and the legend tells which."""
    output = play().output

    assert "s system   f summary   u user   a assistant   t reasoning   c calls   r results" in output
    assert re.search(r"request +\d+ s+f+u?a+t+c+r+\.+-+ ", output)


def test_the_marks_stand_under_the_bar() -> None:
    """Target, trigger and limit are marked in this order."""
    assert re.search(r"target\^ +trigger\^ +\^limit", play().output)


@pytest.mark.parametrize("heading", ["The user's first request", "Rules", "Files changed", "Errors", "Commands"])
def test_the_panel_shows_what_was_kept(heading: str) -> None:
    """The newest checkpoint's telling sections stand in the panel."""
    assert f"| {heading}" in play().output


def test_the_totals_compare_with_and_without() -> None:
    """How large the session is and how large the largest request was, both against the limit."""
    output = play().output

    assert re.search(r"without infold +\d+k tokens at the end; \d+ of \d+ requests over the limit", output)
    assert re.search(r"with infold +[\d.]+k tokens in the largest request, 54.4k allowed", output)


def test_a_window_larger_than_the_session_folds_nothing() -> None:
    """With room for everything there is no checkpoint to show."""
    output = play("--window", "1m").output

    assert "folds: 0, prunings: 0, clips: 0" in output
    assert "newest checkpoint" not in output


def test_a_policy_that_loses_something_is_told_on() -> None:
    """`turn-window` keeps no instruction; the demo names requests and faults and ends with status 1."""
    shown = play("--policy", "turn-window", "--window", "64k")

    assert shown.exit_code == 1
    assert re.search(r"window 64,000, request \d+: ", shown.output)
    assert "all requests fitted" not in shown.output
    assert "--policy infold" in shown.output


@pytest.mark.parametrize("window", ["huge", "3k", "-8k", "3m", "k", "", "9" * 5_000])
def test_a_bad_window_is_told_in_one_line(window: str) -> None:
    """What is no window, or none the demo can play, ends with status 2 and an example of a right one."""
    told = play("--window", window)

    assert told.exit_code == 2
    assert len(told.stderr.splitlines()) == 1
    assert "such as 64k" in told.stderr


def test_an_unknown_policy_is_told_in_one_line() -> None:
    """The names there are stand in the error."""
    told = play("--policy", "nonesuch")

    assert told.exit_code == 2
    assert len(told.stderr.splitlines()) == 1
    assert "infold, opencode-1.1.23" in told.stderr


def texts(message: Message) -> list[str]:
    """All a tokeniser sees of a message."""
    return [getattr(part, field, "") for part in message.parts for field in ("text", "output", "arguments", "tool")]
