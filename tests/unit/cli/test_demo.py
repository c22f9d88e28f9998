"""The demo plays a short coding session through a small window and shows what was done."""

import json
import re
from functools import lru_cache
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from splintr import Tokenizer

from infold.cli.demo import Demo, DemoScreen, read_script
from infold.cli.main import main
from infold.core.messages import Message
from infold.core.policy import INFOLD, preset
from infold.core.view import view
from infold.formats.registry import OPENAI_CHAT
from infold.reports.listing import Tallies
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]
MOST_LINES = 70
"""A newcomer reads what fits on two screens."""


@lru_cache
def play(*arguments: str) -> Result:
    """The demo's outcome, played once for all tests that look at it."""
    return CliRunner().invoke(main, ["demo", "--plain", "--fast", *arguments])


def test_the_recording_in_the_docs_is_of_this_demo() -> None:
    """The recording in the docs is of the demo as it is; `python docs/demo_recording.py` writes a new one."""
    recorded = (PROJECT / "docs" / "guides" / "demo.txt").read_text("utf-8")

    assert steps_in(recorded) == steps_in(play().stdout)


def steps_in(page: str) -> list[str]:
    """What a page says of infold's work and in the totals, without bars."""
    return re.findall(r"^(?:infold|  [wsfr]\w+).*", page, re.MULTILINE)


def test_the_output_is_short() -> None:
    """The whole demo is at most 70 lines."""
    assert len(play().stdout.splitlines()) <= MOST_LINES


def test_every_request_fits() -> None:
    """Without infold most requests would be over the limit, with it none is, and the totals say so."""
    shown = play()

    assert shown.exit_code == 0
    assert re.search(r"without infold +19 of 31 requests are over the limit of 6.8k tokens", shown.stdout)
    assert re.search(r"with infold +every request fits; the largest has 6\.\dk tokens", shown.stdout)


@pytest.mark.parametrize("window_tokens", [6_000, 8_000, 64_000])
def test_an_exact_tokeniser_agrees(window_tokens: int) -> None:
    """B8: counted by o200k itself, no request of the demo is over the limit."""
    tokenizer = Tokenizer.from_pretrained("o200k_base")
    exact = lru_cache(maxsize=None)(lambda text: len(tokenizer.encode(text)))
    played = Demo(MemoryStore(), window_tokens, INFOLD)
    overhead = exact(played.script.system) + exact(json.dumps(played.tools))

    for _ in played.play():
        sent = view(played.session.log, INFOLD.summary)
        assert overhead + sum(exact(text) for message in sent for text in texts(message)) <= window_tokens
    assert played.problem == ""


def test_what_the_user_says_is_shown_in_full() -> None:
    """The session is readable: each request of the user stands in the output, word for word."""
    shown = " ".join(play().stdout.split())

    assert all(message["content"] in shown for message in read_script().messages if message["role"] == "user")


def test_each_compaction_has_its_numbers_and_its_reason() -> None:
    """A pruning says how many parts, a fold how many messages; both tokens before and after, and why; a fold what it keeps."""
    why = r": [\d,]+ → [\d,]+ tokens, because the trigger was reached\n"
    folds = rf"^infold folded \d+ messages{why} +Its checkpoint keeps \d rules"

    assert len(re.findall(rf"^infold pruned \d+ old tool parts{why}", play().stdout, re.MULTILINE)) == 1
    assert len(re.findall(folds, play().stdout, re.MULTILINE)) == 1


def test_the_rules_of_the_user_are_kept() -> None:
    """B2: every request has both rules word for word."""
    shown = " ".join(play().stdout.split())

    assert all(f'rule {place} kept "{rule}"' in shown for place, rule in enumerate(read_script().rules, start=1))


def test_what_was_folded_is_recalled() -> None:
    """B6: the request id stood in a log that was read once, was folded, and is found again by recall."""
    shown = " ".join(play().stdout.split())

    assert "found 2026-03-04 06:52:45 INFO shop.payments: /v2/refunds reference=4698-2" in shown
    assert "recalled req_7Q4XK2M9D0VZ: read for request 4, not sent since request 11, found in request 30" in shown


def test_recall_is_computed_and_not_written_down() -> None:
    """The script has no result for the call of recall, and its answer is what recall found."""
    script = read_script()
    [place] = [place for place, message in enumerate(script.messages) if message["content"] is None]

    assert json.loads(script.messages[place - 1]["tool_calls"][0]["function"]["arguments"])["query"]
    assert script.sought in script.messages[place + 1]["content"]


def test_the_script_is_a_valid_conversation() -> None:
    """Each result follows its call, and nothing in it names a path of a machine."""
    script = read_script()
    decoded = OPENAI_CHAT.decode([{**one, "content": one["content"] or ""} for one in script.messages])

    assert len(decoded.messages) == len(script.messages) == 62
    assert all(rule in script.messages[0]["content"] for rule in script.rules)
    assert not re.search(r"/(?:home|root|tmp|work)/", json.dumps(script.messages))


def test_a_window_larger_than_the_session_folds_nothing() -> None:
    """With room for everything nothing is folded, and the totals say so."""
    shown = play("--window", "64k").stdout

    assert "folded           0 times" in shown
    assert "which had not been folded yet" in shown


def test_turn_window_goes_on_in_the_smallest_window() -> None:
    """S1.0, B8: a preset that keeps whole turns gets safety steps where these are beyond the window."""
    shown = play("--policy", "turn-window", "--window", "6k")

    assert shown.exit_code == 0
    assert "this step is infold's own" in " ".join(shown.stdout.split())


def test_a_session_that_cannot_go_on_is_named() -> None:
    """Where no step makes a request fit, the demo says at which request, and what to change."""
    printed = StringIO()
    played = Demo(MemoryStore(), 1_000, preset("turn-window"))
    DemoScreen(Console(file=printed), plain=True, fast=True).play(played)

    assert re.match(r"request \d+: ", played.problem)
    assert "--policy infold" in printed.getvalue()


def test_a_kept_session_has_a_title_and_the_address_of_its_page(tmp_path: Path) -> None:
    """S6.2: the list of sessions shows what the demo is about; the address of the page is printed first and last."""
    kept = tmp_path / "kept.sqlite3"
    shown = play("--keep", str(kept)).stdout.splitlines()

    assert "http://127.0.0.1:" in shown[0]
    assert "http://127.0.0.1:" in "".join(shown[-2:])
    with SqliteStore(kept) as store:
        [session] = store.sessions("")
        assert Tallies(store).get(session.key).title == "Refunds are two cents off"


def test_a_kept_session_is_not_played_again(tmp_path: Path) -> None:
    """The second run says that the session is there, and where its page is."""
    kept = tmp_path / "kept.sqlite3"
    for _ in range(2):
        shown = CliRunner().invoke(main, ["demo", "--fast", "--keep", str(kept)])

    assert shown.exit_code == 0
    assert "is in" in shown.stdout
    assert "user " not in shown.stdout


@pytest.mark.parametrize("columns", ["20", "50", "80", "200"])
def test_no_line_is_broken_in_a_narrow_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request stays on one line, whatever the width."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    shown = CliRunner().invoke(main, ["demo", "--fast"], color=True).stdout
    numbers = re.findall(r"^ *(\d+)  (?:bash|read|edit|recall|answer)", shown, re.MULTILINE)

    assert numbers == [str(number) for number in range(1, 32)]


@pytest.mark.parametrize("window", ["huge", "3k", "-8k", "3m", "k", "", "9" * 5_000])
def test_a_bad_window_is_one_line(window: str) -> None:
    """What is not a window, or not one the demo can play, ends with status 2 and an example of a right one."""
    shown = play("--window", window)

    assert shown.exit_code == 2
    assert len(shown.stderr.splitlines()) == 1
    assert "64k" in shown.stderr


def test_an_unknown_policy_is_one_line() -> None:
    """The known names stand in the error."""
    shown = play("--policy", "nonesuch")

    assert shown.exit_code == 2
    assert len(shown.stderr.splitlines()) == 1
    assert "infold, opencode-1.1.23" in shown.stderr


def texts(message: Message) -> list[str]:
    """All a tokeniser sees of a message."""
    return [getattr(part, field, "") for part in message.parts for field in ("text", "output", "arguments", "tool")]
