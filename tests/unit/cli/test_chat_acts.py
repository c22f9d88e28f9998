"""The commands of a chat, on a session that an agent worked on."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from infold.agent.run import Assignment, Person, Work, begin
from infold.cli.chat.actions import Acts
from infold.cli.chat.commands import order_in
from infold.cli.chat.screen import Screen
from infold.cli.chat.status import Status, status_of
from infold.core.messages import SessionId
from infold.core.summary_request import COMPACTION_AGENT
from infold.dashboard.tally import Tallies
from infold.errors import InfoldError, UnknownReference, UsageError
from infold.ports import SessionKey
from infold.settings import read_settings
from infold.stores.lifecycle import SystemClock
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest
from infold.testing.scripted_model import ScriptedModel

KEY = SessionKey("", SessionId("kites"))
SUMMARY = "## Goal\nThe kite shall be red.\n\n## Done\nIt was painted twice, and the harbour key is quay-4711."


class Stage:
    """A session in memory, and the commands on it."""

    def __init__(self, folder: Path) -> None:
        self.model = ScriptedModel(_script)
        self.console = Console(file=io.StringIO(), width=80, color_system=None, highlight=False, markup=False)
        self.screen = Screen(self.console, folder, lambda _: ())
        environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "INFOLD_AGENT_SNAPSHOTS": "false"}
        place = Assignment(root=folder, environ=environ, clock=SystemClock(), window=16_000)
        person = Person(self.screen.tell, lambda _: "once")
        settings = read_settings(environ, folder)
        self.work: Work = begin(MemoryStore(), KEY, self.model, place=place, settings=settings, person=person)
        self.tallies = Tallies(self.work.store)
        self.acts = Acts(self.work, self.screen, self.status, store=None)

    def status(self) -> Status:
        """How the session stands."""
        return status_of(self.work, self.tallies)

    def say(self, text: str) -> str:
        """What is printed while the agent works on something said."""
        with self.console.capture() as captured, self.screen.working("thinking"):
            self.work.run(text)
        return captured.get()

    def order(self, line: str) -> str:
        """What is printed for a command."""
        order = order_in(line)
        assert order is not None
        with self.console.capture() as captured:
            self.acts.carry_out(order)
        return captured.get()


def _script(request: ScriptedRequest) -> ScriptedAnswer:
    told = str(request.body["messages"])
    if COMPACTION_AGENT.system_text in str(request.body["messages"][0]):
        return Say(SUMMARY)
    if "You name things" in told:
        return Say("Kite painting")
    last = str(request.body["messages"][-1])
    if "tool_call_id" in last:
        return Say("Counted.")
    return Say("", calls=(("shell", {"command": "seq 30"}),)) if "count" in last else Say("Painted. " * 150)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A session in a folder of its own."""
    return Stage(tmp_path)


@pytest.fixture
def begun(stage: Stage) -> Stage:
    """A session in which some was said and done."""
    for said in ("Paint the kite red.", "And the tail.", "Please count.", "And the string."):
        stage.say(said)
    return stage


def test_compacting_shows_what_it_did(begun: Stage) -> None:
    """B20: the summary is read along, then stand the numbers and the checkpoint; undoing brings all of it back."""
    before = begun.status()
    shown = begun.order("/compact the colour")

    assert "It was painted twice" in shown
    assert "◆ folded" in shown
    assert "Paint the kite red." in shown
    assert begun.status().compactions == 1
    assert begun.status().tokens < before.tokens
    assert "was undone" in begun.order("/undo")
    assert begun.status().compactions == 0
    assert any("the colour" in str(request.body) for request in begun.model.requests)


def test_context_adds_up(begun: Stage) -> None:
    """The chart tells system prompt, tools and what was said, and what is left."""
    shown = begun.order("/context")

    assert all(f" {name} " in shown for name in ("system", "tools", "user", "assistant", "calls", "results", "free"))
    assert "Largest parts" in shown


def test_parts_are_pinned_and_released(begun: Stage) -> None:
    """B20: a pinned part is named, listed and let go; what is not there or not pinned is refused."""
    assert "nothing is pinned" in begun.order("/pin")
    assert "pinned 0.0: text, Paint the kite red." in begun.order("/pin 0.0")
    assert "pinned: 0.0" in begun.order("/pin")
    assert "released 0.0" in begun.order("/unpin 0.0")
    with pytest.raises(UsageError, match="not pinned"):
        begun.order("/unpin 0.0")
    with pytest.raises(UsageError, match="say which part to let go: /unpin HANDLE"):
        begun.order("/unpin")
    with pytest.raises(UnknownReference):
        begun.order("/pin 999.0")


def test_results_are_shown_whole(begun: Stage) -> None:
    """The newest result, one by its number, and any by its handle."""
    assert "\n29\n30\n" in begun.order("/show")
    assert "1  shell  seq 30" in begun.order("/show 1")
    handle = next(f"{placed.sequence}.0" for placed in begun.work.session.log.live if placed.results)
    assert "\n30\n" in begun.order(f"/show {handle}")
    for wrong in ("/show 7", "/show x", "/show 99.9"):
        with pytest.raises(InfoldError):
            begun.order(wrong)


def test_what_was_said_is_found(begun: Stage) -> None:
    """Words are looked for in everything that was said; nothing is no query."""
    assert "Paint the kite red." in begun.order("/recall kite red")
    with pytest.raises(UsageError, match="say what to look for"):
        begun.order("/recall")


def test_a_session_has_a_title(begun: Stage) -> None:
    """S6.2: the model's title is shown until a person gives another; that is kept on one line."""
    assert begun.order("/title").strip() == begun.acts.title() != ""
    assert begun.order("/title Kites\x1b of\nspring").strip() == "Kites? of spring"
    assert begun.acts.title() == "Kites? of spring"


def test_work_goes_on(begun: Stage) -> None:
    """After a reply the agent is told to go on; after a request without one it answers that."""
    assert "Painted." in begun.order("/continue")
    assert "Go on." in str(begun.model.requests[-1].body["messages"][-1])


@pytest.mark.parametrize("line", ["/compact", "/continue", "/title x", "/undo"])
def test_a_session_without_anything_refuses(stage: Stage, line: str) -> None:
    """Where nothing was said there is nothing to work on, and nothing is stored."""
    with pytest.raises(UsageError):
        stage.order(line)
    assert stage.work.session.log.next_sequence == 0


def test_help_is_there(stage: Stage) -> None:
    """The help needs no session."""
    assert "/compact [FOCUS]" in stage.order("/help")
    assert "The next request: 0 tokens" in stage.order("/context")
