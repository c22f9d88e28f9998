"""The demo plays a session through small windows and shows what was done."""

import re
from functools import lru_cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from splintr import Tokenizer

from infold.cli.demo import Demo
from infold.cli.main import main
from infold.core.messages import Message
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.reports.listing import Tallies
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]


@lru_cache
def play(*arguments: str) -> Result:
    """The demo's outcome, played once for all tests that look at it."""
    return CliRunner().invoke(main, ["demo", "--plain", "--fast", *arguments])


def test_the_recording_in_the_docs_is_of_this_demo() -> None:
    """The page that shows the demo tells what is played now; `python docs/demo_recording.py` records it anew."""
    recorded = (PROJECT / "docs" / "guides" / "demo.txt").read_text("utf-8")

    assert done_in(recorded) == done_in(play().stdout)


def done_in(page: str) -> list[str]:
    """What a page tells of requests that something was done for."""
    return re.findall(r"^request +\d+  \w.*\b", page, re.MULTILINE)


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
    played = Demo(MemoryStore(), "demo", window_tokens, INFOLD)

    for _ in played.play():
        sent = view(played.session.log, INFOLD.summary)
        total = sum(exact(text) for message in sent for text in texts(message))
        assert total + exact(played.system) <= played.budget.limit_tokens
    assert played.problems == []


def test_both_windows_are_played_unless_others_are_given() -> None:
    """The default is 8k and 64k; `--window` replaces both."""
    assert re.findall(r"window (\w+) -", play().output) == ["8k", "64k"]
    assert re.findall(r"window (\w+) -", play("--window", "20,000").output) == ["20k"]


def test_each_fold_is_told_with_its_numbers_and_reason() -> None:
    """A fold's line has tokens before, tokens after and why."""
    line = r"request +\d+  folded \d+ messages +[\d.]+k -> +[\d.]+k tokens   the trigger was reached"

    assert len(re.findall(line, play().output)) > 20


def test_what_was_folded_is_recalled() -> None:
    """B6: words find a line that was seen once, a few hundred messages ago."""
    assert len(re.findall(r"by 'make lint unused':\n.*make lint → exit 1\n.*Name 'tide' is unused", play().output)) == 2


def test_the_rules_of_the_user_are_kept() -> None:
    """B2: the last request has every rule word for word."""
    assert play().output.count("7 of 7 rules of the user, word for word") == 2


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
    """With room for everything, a policy that does not fold for the price has no checkpoint to show."""
    output = play("--window", "1m", "--policy", "opencode-1.1.57").output

    assert "folds: 0," in output
    assert "newest checkpoint" not in output


def test_a_policy_that_cannot_go_on_is_named() -> None:
    """`turn-window` may have no way to make a request fit; the demo names it and ends with status 1."""
    shown = play("--policy", "turn-window", "--window", "8k")

    assert shown.exit_code == 1
    assert re.search(r"window 8,000, request \d+: ", shown.output)
    assert "all requests fitted" not in shown.output.replace("not all requests fitted", "")
    assert "--policy infold" in shown.output


def test_a_kept_session_says_which_window_it_was_played_in(tmp_path: Path) -> None:
    """S6.2: in a list of sessions the demo's are told apart by their titles."""
    kept = tmp_path / "kept.sqlite3"
    play("--window", "8k", "--keep", str(kept))

    with SqliteStore(kept) as store:
        [session] = store.sessions("")
        assert Tallies(store).get(session.key).title == "A coding session in a window of 8,000 tokens"


@pytest.mark.parametrize("window", ["huge", "3k", "-8k", "3m", "k", "", "9" * 5_000])
def test_a_bad_window_is_told_in_one_line(window: str) -> None:
    """What is no window, or none the demo can play, ends with status 2 and an example of a right one."""
    told = play("--window", window)

    assert told.exit_code == 2
    assert len(told.stderr.splitlines()) == 1
    assert "64k" in told.stderr


def test_an_unknown_policy_is_told_in_one_line() -> None:
    """The names there are stand in the error."""
    told = play("--policy", "nonesuch")

    assert told.exit_code == 2
    assert len(told.stderr.splitlines()) == 1
    assert "infold, opencode-1.1.23" in told.stderr


def texts(message: Message) -> list[str]:
    """All a tokeniser sees of a message."""
    return [getattr(part, field, "") for part in message.parts for field in ("text", "output", "arguments", "tool")]
