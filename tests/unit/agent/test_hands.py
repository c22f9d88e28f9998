"""Tools at work in a place, under rules, with somebody to ask."""

import json
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from infold.agent.events import AgentEvent, Notice, ToolCalled, ToolRefused
from infold.agent.permissions import BUILD_RULES, PLAN_RULES, Consent, parse_rules
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import SNAPSHOT_NOTICE, Toolbox
from infold.agent.tools.tool import ActionRequest
from infold.core.logged_message import Rendering
from infold.core.messages import ToolCallPart, ToolResultPart

from .workshop import toolbox_in


def run(toolbox: Toolbox, tool: str, told: list[AgentEvent] | None = None, **arguments: Any) -> ToolResultPart:
    """What a call comes to."""
    tell = (lambda _: None) if told is None else told.append
    return toolbox.run(ToolCallPart("c1", tool, json.dumps(arguments)), tell, Rendering())


class Somebody:
    """A person who gives these answers in turn, and remembers what was asked."""

    def __init__(self, *answers: Consent) -> None:
        self.asked: list[str] = []
        self._answers = iter(answers)

    def __call__(self, action: ActionRequest) -> Consent:
        """The next answer."""
        self.asked.append(action.what)
        return next(self._answers)


class Waiting(Snapshots):
    """Snapshots that take until something is so."""

    def __init__(self, root: Path, is_so: Callable[[], bool]) -> None:
        super().__init__(root, root / "snapshots")
        self._is_so = is_so

    def take(self) -> str:
        """A tree, after a while."""
        while not self._is_so():
            sleep(0.001)
        return "a" * 40


def test_a_call_is_told_then_carried_out(tmp_path: Path) -> None:
    """Who watches hears of a call before it is run, in short; its result has the time it took."""
    told: list[AgentEvent] = []
    result = run(toolbox_in(tmp_path), "write", told, path="./a.txt", content="a\n")

    assert told == [ToolCalled("c1", "write", '{"path": "./a.txt", "content": "a\\n"}', "a.txt")]
    assert result.output == "made a.txt: 1 line"
    assert (result.finished_ms or 0) - (result.started_ms or 0) == 1_000


def test_what_the_rules_leave_open_is_asked(tmp_path: Path) -> None:
    """A yes holds once, a no forbids, and always holds from then on."""
    somebody = Somebody("no", "once", "always")
    toolbox = toolbox_in(tmp_path, rules=BUILD_RULES, consent=somebody)
    outcomes = [run(toolbox, "shell", command="echo hi").status for _ in range(5)]

    assert outcomes == ["error", "completed", "completed", "completed", "completed"]
    assert somebody.asked == ["echo hi"] * 3


def test_always_means_that_and_no_more(tmp_path: Path) -> None:
    """Leave for one command is no leave for another."""
    somebody = Somebody("always", "no")
    toolbox = toolbox_in(tmp_path, rules=BUILD_RULES, consent=somebody)
    run(toolbox, "shell", command="echo hi")

    assert run(toolbox, "shell", command="echo hi; rm -rf x").status == "error"
    assert somebody.asked == ["echo hi", "echo hi; rm -rf x"]


def test_what_is_denied_is_not_asked(tmp_path: Path) -> None:
    """Nobody is bothered with what the rules forbid, and nothing is done."""
    somebody = Somebody()
    toolbox = toolbox_in(tmp_path, rules=(*BUILD_RULES, *parse_rules({"write": "deny"})), consent=somebody)

    assert run(toolbox, "write", path="a", content="a").status == "error"
    assert list(tmp_path.iterdir()) == []


def test_tools_are_offered_by_the_rules(tmp_path: Path) -> None:
    """A model is told of the tools it may use at all."""
    offered = {spec.name for spec in toolbox_in(tmp_path).specs}
    planning = {spec.name for spec in toolbox_in(tmp_path, rules=PLAN_RULES).specs}

    assert {"shell", "read", "write", "edit", "search", "list", "todo", "skill"} == offered
    assert offered - planning == {"write", "edit"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "web/a.js"}),
        ("write", {"path": "web/new/b.js", "content": ""}),
        ("list", {"path": "web"}),
        ("search", {"path": "web/a.js", "pattern": "x"}),
    ],
)
def test_what_is_touched_brings_its_instructions(tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    """S5.5: a folder's instructions hold once something in it was read, written, listed or searched."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "AGENTS.md").write_text("Web rule.")
    (tmp_path / "web" / "a.js").write_text("x\n")
    toolbox = toolbox_in(tmp_path)

    assert toolbox.instructions().text == ""
    run(toolbox, tool, **arguments)
    assert "Web rule." in toolbox.instructions().text


def test_a_name_too_long_harms_nobody(tmp_path: Path) -> None:
    """A path that no file system takes is the model's mistake: it is told, and the next step has its instructions."""
    (tmp_path / "AGENTS.md").write_text("Root rule.")
    toolbox = toolbox_in(tmp_path)
    for path in ("a" * 300, "/".join(["b" * 200] * 30)):
        assert run(toolbox, "read", path=path).status == "error"
        assert run(toolbox, "list", path=path).status == "error"

    assert "Root rule." in toolbox.instructions().text


def test_what_is_refused_is_told_with_the_rule_that_would_allow_it(tmp_path: Path) -> None:
    """Where nobody can be asked a person learns afterwards what to allow; what a rule denies, no leave allows."""
    told: list[AgentEvent] = []
    toolbox = toolbox_in(tmp_path, rules=(*BUILD_RULES, *parse_rules({"shell:git push*": "deny"})))
    run(toolbox, "shell", told, command="ls *.py")
    run(toolbox, "shell", told, command="git push")
    run(toolbox, "read", told, path="/etc/hosts")
    refused = [one for one in told if isinstance(one, ToolRefused)]

    assert refused == [
        ToolRefused("c1", "shell", "ls *.py", (r"shell:ls \*.py",)),
        ToolRefused("c1", "shell", "git push", ()),
        ToolRefused("c1", "read", "/etc/hosts", ("outside:read /etc/hosts",)),
    ]


def test_skills_are_announced(tmp_path: Path) -> None:
    """S5.5: the model knows by name and description which skills there are, without asking."""
    (tmp_path / "skills" / "pdf").mkdir(parents=True)
    (tmp_path / "skills" / "pdf" / "SKILL.md").write_text("---\nname: pdf\ndescription: Fills forms.\n---\nUse it.")
    toolbox = toolbox_in(tmp_path, skills=(tmp_path / "skills",))
    [told] = [spec.description for spec in toolbox.specs if spec.name == "skill"]

    assert told.endswith("There are:\n- pdf: Fills forms.")


@pytest.mark.slow
def test_who_changes_nothing_waits_for_no_snapshot(tmp_path: Path) -> None:
    """An agent without tools for changing files takes none, however large the folder is."""
    root = tmp_path / "project"
    root.mkdir()
    planning = toolbox_in(root, rules=PLAN_RULES, snapshots=Snapshots(root, tmp_path / "snapshots"))
    planning.tidy()

    assert planning.first_snapshot(lambda _: None, 0) == planning.snapshot() == ""
    assert not (tmp_path / "snapshots").exists()
    freely = (*PLAN_RULES, *parse_rules({"shell": "allow"}))
    assert toolbox_in(root, rules=freely, snapshots=Snapshots(root, tmp_path / "snapshots")).snapshot()


def test_a_long_silence_is_explained(tmp_path: Path) -> None:
    """Who waits for the snapshot of a large folder is told so; who does not wait is told nothing."""
    told: list[AgentEvent] = []
    slow, quick = Waiting(tmp_path, lambda: bool(told)), Waiting(tmp_path, lambda: True)

    assert toolbox_in(tmp_path, snapshots=quick).first_snapshot(told.append, 60) == "a" * 40
    assert told == []
    assert toolbox_in(tmp_path, snapshots=slow).first_snapshot(told.append, 0) == "a" * 40
    assert told == [Notice(SNAPSHOT_NOTICE)]


def test_a_tree_that_is_not_kept_is_told_of_once(tmp_path: Path) -> None:
    """Who could not look up afterwards what was changed knows so before."""
    told: list[AgentEvent] = []
    (tmp_path / "place").write_text("a file where the folder should be")
    toolbox = toolbox_in(tmp_path, snapshots=Snapshots(tmp_path, tmp_path / "place"))

    assert [toolbox.first_snapshot(told.append, 60) for _ in range(2)] == ["", ""]
    assert [type(one) for one in told] == [Notice]
    assert f"no snapshot of {tmp_path}" in str(told[0])


@pytest.mark.slow
def test_the_tree_is_kept_where_that_is_wanted(tmp_path: Path) -> None:
    """S6.1: with snapshots the tree has an id, the same for the same tree; without, it has none."""
    root = tmp_path / "project"
    root.mkdir()
    toolbox = toolbox_in(root, snapshots=Snapshots(root, tmp_path / "snapshots"))
    before, again = toolbox.snapshot(), toolbox.snapshot()
    run(toolbox, "write", path="a", content="a")

    assert before == again != toolbox.snapshot()
    toolbox.tidy()
    assert toolbox_in(root).snapshot() == ""
    toolbox_in(root).tidy()
