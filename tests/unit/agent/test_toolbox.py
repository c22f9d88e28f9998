"""Tools run in a workspace, under rules, with a user to ask."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from infold.agent.events import AgentEvent, Notice, ToolCalled, ToolRefused
from infold.agent.permissions import BUILD_RULES, PLAN_RULES, Consent, Rules, parse_rules
from infold.agent.snapshots import Snapshots
from infold.agent.toolbox import INTERRUPTED, SNAPSHOT_NOTICE, Toolbox, not_started, select_tools
from infold.agent.tools.recall import make_recall_tool
from infold.agent.tools.tool import ActionRequest, CallProgress, Tool, Workspace
from infold.core.entries import Handle
from infold.core.logged_message import Rendering, prune_part
from infold.core.messages import ToolCallPart, ToolResultPart

from .builders import Ticking, never, toolbox_in

ALLOWING: Rules = (*BUILD_RULES, *parse_rules({"shell": "allow", "outside": "allow"}))


def run(
    toolbox: Toolbox,
    tool: str,
    events: list[AgentEvent] | None = None,
    *,
    rendering: Rendering = Rendering(),
    **arguments: Any,
) -> ToolResultPart:
    """Return the result of a call, its arguments given by name."""
    return run_text(toolbox, tool, json.dumps(arguments), events, rendering=rendering)


def run_text(
    toolbox: Toolbox,
    tool: str,
    arguments: str,
    events: list[AgentEvent] | None = None,
    *,
    rendering: Rendering = Rendering(),
) -> ToolResultPart:
    """Return the result of a call, its arguments given as the model's text."""
    emit = (lambda _: None) if events is None else events.append
    return toolbox.run(ToolCallPart("c1", tool, arguments), emit, rendering)


def recalling_toolbox(root: Path) -> Toolbox:
    """Return all tools, recall included."""
    tools = select_tools(ALLOWING, make_recall_tool(lambda query: f"found {query}", lambda _: ()))
    return Toolbox(tools, Workspace(root), rules=ALLOWING, consent=never, clock=Ticking())


class User:
    """A user who gives these answers in turn, and remembers what was asked."""

    def __init__(self, *answers: Consent) -> None:
        self.asked: list[str] = []
        self._answers = iter(answers)

    def __call__(self, action: ActionRequest) -> Consent:
        """Return the next answer."""
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


# Calls.


def test_a_call_is_carried_out(tmp_path: Path) -> None:
    """S5.5: a result has the tool's output, its exit status, and when it began, once permitted, and ended."""
    assert run(toolbox_in(tmp_path), "shell", command="echo hi; exit 2") == ToolResultPart(
        "c1", "shell", "hi\n[exit status 2]", "completed", exit_status=2, started_ms=2_000, finished_ms=3_000
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("bash", "{}", "there is no tool 'bash'; call one of shell, read, write"),
        ("read", '{"path": "a', "no JSON (Input data was truncated); read takes an object"),
        ("read", '["a"]', "no JSON object; read takes an object"),
        ("read", "", "missing required field `path`"),
        ("read", '{"file_path": "a"}', "missing required field `path`; read takes an object"),
        ("read", '{"path": "a", "first_line": 0}', ">= 1 - at `$.first_line`"),
        ("todo", '{"items": "x"}', 'todo takes an object {"items": list of {content, status}}'),
        ("write", '{"path": "a", "content": "\ud800"}', "no JSON"),
        ("read", "[" * 5_000, "no JSON"),
    ],
)
def test_a_wrong_call_is_explained(tmp_path: Path, tool: str, arguments: str, message: str) -> None:
    """An unknown tool, broken JSON and wrong arguments give an error that names what would be right."""
    found = run_text(toolbox_in(tmp_path), tool, arguments or "{}")

    assert found.status == "error"
    assert message in found.output
    assert list(tmp_path.iterdir()) == []


def test_arguments_are_read_leniently(tmp_path: Path) -> None:
    """A null counts as not given, a number may come as text, and blank arguments as none."""
    (tmp_path / "a").write_text("one\ntwo\n")

    assert run(toolbox_in(tmp_path), "read", path="a", first_line="2", lines=None).output == "2\ttwo"
    assert run_text(toolbox_in(tmp_path), "list", " ").output == "a"


def test_unknown_arguments_are_ignored_with_a_note(tmp_path: Path) -> None:
    """What models add that were trained on other tools costs no step; that it had no effect is said."""
    toolbox = toolbox_in(tmp_path)
    (tmp_path / "a").write_text("one\ntwo\n")
    read = run(toolbox, "read", path="a", offset=2)
    refused = run(toolbox, "read", path="none", limit=2)
    todo = run(toolbox, "todo", items=[{"content": "Fly", "activeForm": "Flying"}])

    assert run(toolbox, "shell", command="echo hi", description="Say hi").output == (
        '[ignored: "description"; shell takes an object {"command": string, "timeout_seconds": integer (optional), '
        '"folder": string (optional)}]\nhi'
    )
    assert (read.status, read.output.split("\n")[1:]) == ("completed", ["1\tone", "2\ttwo"])
    assert read.output.startswith('[ignored: "offset"; read takes an object {"path": string')
    assert refused.status == "error"
    assert '[ignored: "limit"' in refused.output
    assert todo.output == "[ ] Fly"


def test_a_stub_is_not_acted_on(tmp_path: Path) -> None:
    """B24: a call whose arguments contain a stub's text changes nothing, and the model has to recall the text."""
    toolbox, content = toolbox_in(tmp_path), "x" * 5_000
    written = ToolCallPart("c1", "write", json.dumps({"path": "a.py", "content": content}))
    pruned = prune_part(written, Handle("3.0"), Rendering(recall=True))
    assert isinstance(pruned, ToolCallPart)
    own = Rendering(stub="[Old tool result content cleared]")

    for found in (
        run_text(toolbox, "write", pruned.arguments, rendering=Rendering(recall=True)),
        run(toolbox, "write", rendering=own, path="a", content=own.stub),
    ):
        assert found.status == "error"
        assert "recall" in found.output
    assert list(tmp_path.iterdir()) == []
    assert run(toolbox, "write", path="a.py", content=content).output == "made a.py: 1 line"


def test_a_stub_may_be_recalled(tmp_path: Path) -> None:
    """B24: the text of a stub is a valid query for recall."""
    query = "[pruned: 5,120 characters of shell output; recall 42.1]"

    assert run(recalling_toolbox(tmp_path), "recall", query=query).output == f"found {query}"


def test_what_is_not_permitted_is_not_done(tmp_path: Path) -> None:
    """The user is shown the action, and a refusal is an error that says so."""
    actions: list[ActionRequest] = []

    def refuse(action: ActionRequest) -> Consent:
        actions.append(action)
        return "no"

    found = run(toolbox_in(tmp_path / "project", consent=refuse), "write", path="../a", content="x")

    assert actions == [ActionRequest("write", str(tmp_path / "a"), outside=True)]
    assert found.status == "error"
    assert f"not permitted: write: {tmp_path / 'a'}." in found.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write", {"path": "src/a", "content": "new"}),
        ("edit", {"path": "src/a", "old": "outside", "new": "new"}),
        ("read", {"path": "src/a"}),
        ("search", {"pattern": "secret", "path": "src"}),
        ("list", {"path": "src"}),
        ("shell", {"command": "cat a", "folder": "src"}),
        ("shell", {"command": "cat src/a"}),
    ],
)
def test_what_was_permitted_is_what_is_done(tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    """B41: a folder that is swapped for a link out of the project, while the user is asked, is not followed."""
    root, home = tmp_path / "project", tmp_path / "home"
    for folder, text in ((root / "src", "inside"), (home, "secret outside")):
        folder.mkdir(parents=True)
        (folder / "a").write_text(text)

    def swap(_: ActionRequest) -> Consent:
        (root / "src").rename(root / "moved")
        (root / "src").symlink_to(home)
        return "once"

    asking = (*BUILD_RULES, *parse_rules({tool: "ask"}))
    found = run(toolbox_in(root, rules=asking, consent=swap), tool, **arguments)

    assert found.status == "error"
    assert "since it was permitted" in found.output
    assert (home / "a").read_text() == "secret outside"


def test_failures_are_explained(tmp_path: Path) -> None:
    """What a tool refuses and what the system refuses are errors in words."""
    (tmp_path / "file").touch()
    refused = run(toolbox_in(tmp_path), "read", path="nothing")
    failed = run(toolbox_in(tmp_path), "write", path="file/below", content="x")

    assert (refused.status, failed.status) == ("error", "error")
    assert "there is no nothing" in refused.output
    assert failed.output.startswith("write failed: ")
    assert str(tmp_path / "file") in failed.output


def test_an_interrupted_call_has_a_result(tmp_path: Path) -> None:
    """B12, B13: an interrupt is raised; the result has the output so far, or says that the call was not permitted yet."""

    def interrupt(_: ActionRequest) -> Consent:
        raise KeyboardInterrupt

    def stop(output: str) -> Tool:
        def run(_: object, workspace: Workspace) -> Any:
            workspace.progress.keep_output(output)
            raise KeyboardInterrupt

        return Tool("shell", "", CallProgress, lambda *_: ActionRequest("shell", "make"), run)

    shell = ToolCallPart("c1", "shell", "{}")
    asked = toolbox_in(tmp_path, rules=BUILD_RULES, consent=interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(asked, "shell", command="make")
    assert asked.interrupted(shell) == not_started(shell, "the user interrupted before it was permitted")

    for output, said in (("half a\0 line\n", "; until then it had said:\nhalf a\ufffd line"), ("", "")):
        begun = Toolbox({"shell": stop(output)}, Workspace(tmp_path), rules=ALLOWING, consent=never, clock=Ticking())
        with pytest.raises(KeyboardInterrupt):
            run(begun, "shell")
        assert begun.interrupted(shell) == ToolResultPart("c1", "shell", INTERRUPTED + said, "interrupted")


@pytest.mark.parametrize(
    ("tool", "arguments", "summary"),
    [
        ("shell", '{"command": "ls -l"}', "ls -l"),
        ("read", '{"path": "./a/../b"}', "b"),
        ("search", '{"pattern": "def .+", "path": "./src"}', "def .+ in src"),
        ("search", '{"pattern": "x", "glob": "*.py"}', "x in ., *.py"),
        ("list", '{"path": "src", "glob": "*.py"}', "*.py in src"),
        ("list", "{}", "."),
        ("read", "{broken", "{broken"),
        ("none", "{}", "{}"),
    ],
)
def test_a_call_has_a_summary(tmp_path: Path, tool: str, arguments: str, summary: str) -> None:
    """The event of a call shows a command or a path; of a call that cannot be read, the model's text."""
    events: list[AgentEvent] = []
    run_text(toolbox_in(tmp_path, rules=BUILD_RULES), tool, arguments, events)

    assert events[0] == ToolCalled("c1", tool, arguments, summary)


def test_output_can_be_stored(tmp_path: Path) -> None:
    """A name that is not valid text does not keep its result from the log."""
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")  # noqa: PTH102 - a path of bytes

    assert run(toolbox_in(tmp_path), "list").output == "caf\ufffd/"


def test_an_agent_without_tools_is_answered(tmp_path: Path) -> None:
    """A call of a model that was offered no tools gets an error that says so."""
    empty = Toolbox({}, Workspace(tmp_path), rules=(), consent=never, clock=Ticking())

    assert "there are none" in run(empty, "read").output


# Permissions, instructions and snapshots.


def test_the_user_is_asked_where_the_rules_say_so(tmp_path: Path) -> None:
    """A yes holds once, a no forbids, and always holds from then on."""
    user = User("no", "once", "always")
    toolbox = toolbox_in(tmp_path, rules=BUILD_RULES, consent=user)
    outcomes = [run(toolbox, "shell", command="echo hi").status for _ in range(5)]

    assert outcomes == ["error", "completed", "completed", "completed", "completed"]
    assert user.asked == ["echo hi"] * 3


def test_what_is_denied_is_not_asked(tmp_path: Path) -> None:
    """The user is not asked about what the rules deny, and nothing is done."""
    user = User()
    toolbox = toolbox_in(tmp_path, rules=(*BUILD_RULES, *parse_rules({"write": "deny"})), consent=user)

    assert run(toolbox, "write", path="a", content="a").status == "error"
    assert list(tmp_path.iterdir()) == []


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


def test_an_overlong_name_is_an_error(tmp_path: Path) -> None:
    """A path that no file system accepts gives an error, and the next step has its instructions."""
    (tmp_path / "AGENTS.md").write_text("Root rule.")
    toolbox = toolbox_in(tmp_path)
    for path in ("a" * 300, "/".join(["b" * 200] * 30)):
        assert run(toolbox, "read", path=path).status == "error"
        assert run(toolbox, "list", path=path).status == "error"

    assert "Root rule." in toolbox.instructions().text


def test_a_refusal_names_the_rules_that_would_allow_it(tmp_path: Path) -> None:
    """A refusal names the rules that would allow the call; none if a rule denies it."""
    events: list[AgentEvent] = []
    toolbox = toolbox_in(tmp_path, rules=(*BUILD_RULES, *parse_rules({"shell:git push*": "deny"})))
    run(toolbox, "shell", events, command="ls *.py")
    run(toolbox, "shell", events, command="git push")
    run(toolbox, "read", events, path="/etc/hosts")
    refused = [one for one in events if isinstance(one, ToolRefused)]

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
    [description] = [spec.description for spec in toolbox.specs if spec.name == "skill"]

    assert description.endswith("There are:\n- pdf: Fills forms.")


@pytest.mark.slow
def test_an_agent_that_changes_nothing_takes_no_snapshot(tmp_path: Path) -> None:
    """An agent without tools for changing files takes none, however large the folder is."""
    root = tmp_path / "project"
    root.mkdir()
    planning = toolbox_in(root, rules=PLAN_RULES, snapshots=Snapshots(root, tmp_path / "snapshots"))
    planning.tidy()

    assert planning.first_snapshot(lambda _: None, 0) == planning.snapshot() == ""
    assert not (tmp_path / "snapshots").exists()
    freely = (*PLAN_RULES, *parse_rules({"shell": "allow"}))
    assert toolbox_in(root, rules=freely, snapshots=Snapshots(root, tmp_path / "snapshots")).snapshot()


def test_a_slow_snapshot_is_explained(tmp_path: Path) -> None:
    """A snapshot that takes long is explained by a notice; a quick one is not."""
    events: list[AgentEvent] = []
    slow, quick = Waiting(tmp_path, lambda: bool(events)), Waiting(tmp_path, lambda: True)

    assert toolbox_in(tmp_path, snapshots=quick).first_snapshot(events.append, 60) == "a" * 40
    assert events == []
    assert toolbox_in(tmp_path, snapshots=slow).first_snapshot(events.append, 0) == "a" * 40
    assert events == [Notice(SNAPSHOT_NOTICE)]


def test_a_missing_snapshot_is_noticed_once(tmp_path: Path) -> None:
    """Who could not look up afterwards what was changed knows so before."""
    events: list[AgentEvent] = []
    (tmp_path / "place").write_text("a file where the folder should be")
    toolbox = toolbox_in(tmp_path, snapshots=Snapshots(tmp_path, tmp_path / "place"))

    assert [toolbox.first_snapshot(events.append, 60) for _ in range(2)] == ["", ""]
    assert [type(one) for one in events] == [Notice]
    assert f"no snapshot of {tmp_path}" in str(events[0])


@pytest.mark.slow
def test_snapshots_are_taken_if_wanted(tmp_path: Path) -> None:
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
