"""A coding task of three hundred steps in a real repository, at a window of 16k: real tools, real HTTP, the official SDKs."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from infold.agent.events import RunEnded, StepFinished, ToolAnswered
from infold.agent.run import AgentRun, RunEvent, RunOptions, UserInterface, open_run
from infold.agent.snapshots import DiffTotals, Snapshots, session_span, sum_diffs, turn_spans
from infold.agent.trust import default_snapshot_folder
from infold.core.entries import Entry, MessageEntry
from infold.core.events import Compacted, Rejected, SummaryRejected
from infold.core.messages import ModelRef, SessionId
from infold.models.anthropic import AnthropicMessages
from infold.models.openai import OpenAIResponses
from infold.ports import FileDiff, Model, SessionKey
from infold.settings import read_settings
from infold.stores.memory import MemoryStore
from infold.testing.script import Fail, Say, Script, in_turn
from infold.testing.scripted_model import ScriptedModel
from infold.testing.scripted_server import ScriptedServer
from infold.wiring import system_clock

from .agent_plan import FIRST, LATER, NAMES, RULES, TASK, expected_tree, initial_tree, replies_for
from .agent_stage import (
    Director,
    Place,
    base_of,
    entries_of,
    events_in,
    flat,
    infold,
    messages_of,
    place_in,
    problems_of,
    tree_of,
)

KEY = SessionKey("", SessionId("s"))
WINDOW = 16_384
STEPS = 300
AT_FIRST, THEN = NAMES[:20], NAMES[20:]
ON = "Now the others, in the same way."
REPLIES = (*replies_for(AT_FIRST, (), FIRST), *replies_for(THEN, AT_FIRST, LATER))

SENSIBLE: Script = in_turn(
    Say(
        "The package harbour is built module by module: each module is written, its test is run with sh check, what fails is "
        "mended, and the module is put into the index in harbour/__init__.py. The modules so far pass their tests."
    )
)
MODELS: dict[str, Callable[..., Model]] = {"openai": OpenAIResponses, "anthropic": AnthropicMessages}
AT_ONCE = {"x-should-retry": "false"}
"""What keeps an SDK from trying again by itself, with a pause each time."""

RUBBISH: tuple[Say | Fail, ...] = (
    Say(""),
    Say("I'm sorry, but I can't help with that."),
    Say("", calls=(("shell", {"command": "ls"}),)),
    Fail(500, headers=AT_ONCE),
    Say("港の仕事は順調に進んでおり、各部分を確認しました。"),
    Say("The ferry was moved to harbour/ferry_planner_v2.py and the tests to spec/ferry_spec.rb."),
    Say("cut off in the mid", finish="length"),
    Fail(429, headers=AT_ONCE),
    Say("word " * 3_000),
    Fail(400),
)

pytestmark = pytest.mark.slow


def rubbish() -> Script:
    """A summariser that never says anything of use."""
    return in_turn(*RUBBISH * 20)


@pytest.mark.long
@pytest.mark.parametrize(
    ("provider", "summaries", "factor"),
    [("openai", SENSIBLE, 1.15), ("anthropic", rubbish(), 0.9)],
    ids=["openai-sensible", "anthropic-rubbish"],
)
def test_a_long_task_is_done(tmp_path: Path, provider: str, summaries: Script, factor: float) -> None:
    """S5.5, B2, B8, B10: three hundred steps, with a summariser or in spite of it: the right files, no request refused."""
    place = place_in(tmp_path, initial_tree())
    director, told = Director(REPLIES, summaries), list[RunEvent]()
    with ScriptedServer(director, window_tokens=WINDOW, factor=factor) as server:
        model = MODELS[provider](ModelRef(provider, "scripted"), url=base_of(provider, server.url), key="none")
        work = put_to_work(place, model, told)
        ends = [work.run(TASK), work.run(ON)]
        requests = server.requests

    assert [(end.ending, end.text) for end in ends] == [("done", FIRST), ("done", LATER)]
    assert len(requests) == len(director.main) + director.titles + director.summaries
    check_story(told, director)
    assert tree_of(place) == expected_tree()
    assert any(isinstance(one, SummaryRejected) for one in told) is (summaries is not SENSIBLE)
    outcomes = {one.outcome for one in told if isinstance(one, Compacted)}
    assert outcomes == {"summarised"} if summaries is SENSIBLE else "folded" in outcomes


@pytest.mark.long
def test_the_command_does_a_long_task(tmp_path: Path) -> None:
    """S5.5, S6.1: the same by `infold run`, over chat; its diffs are what git says of the turns and of the whole."""
    place = place_in(tmp_path, initial_tree())
    director = Director(REPLIES, SENSIBLE)
    with ScriptedServer(director, window_tokens=WINDOW) as server:
        lines = commanded(place, server.url, TASK)
        place.git("add", "-A")
        place.git("commit", "-q", "-m", "the first turn")
        lines += commanded(place, server.url, ON, "--session", "last")
        place.git("add", "-A")
        place.git("commit", "-q", "-m", "the second turn")

    check_rules(director)
    assert [line["ending"] for line in lines if line["event"] == "ended"] == ["done", "done"]
    assert sum(line["event"] == "step" for line in lines) == STEPS == len(director.main)
    assert sum(line["event"] == "session.compacted" for line in lines) >= 5
    assert not [line for line in lines if line["event"] in ("rejected", "retry")]
    assert tree_of(place) == expected_tree()
    check_diffs(place, entries_of(place))


def test_the_scripted_model_does_a_long_task(tmp_path: Path) -> None:
    """S5.5, B8: the same with a model in the process, which counts as it says and refuses what is too large."""
    place, told = place_in(tmp_path, initial_tree()), list[RunEvent]()
    director = Director(REPLIES, SENSIBLE)
    model = ScriptedModel(director, window_tokens=WINDOW)
    work = put_to_work(place, model, told)
    ends = [work.run(TASK), work.run(ON)]

    assert [end.ending for end in ends] == ["done", "done"]
    check_story(told, director)
    assert tree_of(place) == expected_tree()


def check_story(told: Sequence[RunEvent], director: Director) -> None:
    """All steps were taken, each call was carried out, nothing was refused, the window was compacted time and again."""
    results = [one for one in told if isinstance(one, ToolAnswered)]
    check_rules(director)

    assert sum(isinstance(one, StepFinished) for one in told) == STEPS == len(director.main)
    assert [one.output for one in results if one.status != "completed"] == []
    assert sum(one.exit_status == 1 for one in results) == len(NAMES)  # every test failed once, then passed
    assert sum(isinstance(one, Compacted) for one in told) >= 5
    assert not any(isinstance(one, Rejected) for one in told)
    assert [one.ending for one in told if isinstance(one, RunEnded)] == ["done", "done"]


def check_rules(director: Director) -> None:
    """Every rule of the first message stands word for word in every request of the agent, which fits its window."""
    lost = [(number, rule) for number, one in enumerate(director.main) for rule in RULES if rule not in flat(one)]

    assert lost == []
    assert [problem for one in director.main for problem in problems_of(one)] == []
    assert max(one.tokens for one in director.main) <= WINDOW
    assert director.titles == 1


def check_diffs(place: Place, entries: Sequence[Entry]) -> None:
    """What snapshots say of each turn, and of all of it, is what git says of the commits made after them."""
    numbered = [(at, entry.message) for at, entry in enumerate(entries) if isinstance(entry, MessageEntry)]
    snapshots = Snapshots(place.root, default_snapshot_folder(place.environ), environ=place.environ)
    turns = turn_spans(numbered)
    whole = session_span(messages_of(entries))

    assert len(turns) == 2
    for span, commits in (
        (turns[0], ("HEAD~2", "HEAD~1")),
        (turns[1], ("HEAD~1", "HEAD")),
        (whole, ("HEAD~2", "HEAD")),
    ):
        diffs = snapshots.diff(span.before, span.after)

        assert {one.file: (one.additions, one.deletions) for one in diffs} == numstat(place, *commits)
        check_contents(place, diffs, *commits)
    files = numstat(place, "HEAD~2", "HEAD").values()
    assert sum_diffs(diffs) == DiffTotals(len(files), sum(added for added, _ in files), sum(gone for _, gone in files))


def check_contents(place: Place, diffs: Sequence[FileDiff], before: str, after: str) -> None:
    """A file's contents before and after are those of the commits."""
    index = next(one for one in diffs if one.file == "harbour/__init__.py")

    assert index.before == place.git("show", f"{before}:{index.file}")
    assert index.after == place.git("show", f"{after}:{index.file}")


def numstat(place: Place, before: str, after: str) -> dict[str, tuple[int, int]]:
    """Lines added and deleted in each file, as git counts them."""
    rows = (line.split("\t") for line in place.git("diff", "--numstat", "--no-renames", before, after).splitlines())
    return {name: (int(added), int(deleted)) for added, deleted, name in rows}


def commanded(place: Place, url: str, *arguments: str) -> list[dict[str, object]]:
    """What `infold run` told, line by line."""
    where = ("--model", "openai-chat/scripted", "--base-url", base_of("openai-chat", url))
    limits = ("--allow", "shell", "--window", str(WINDOW), "--steps", "400", "--json")
    ran = infold(place, "run", *arguments, *where, *limits)

    assert (ran.returncode, ran.stderr) == (0, "")
    return events_in(ran.stdout)


def put_to_work(place: Place, model: Model, told: list[RunEvent]) -> AgentRun:
    """An agent at work in this process; nothing is kept of its steps' trees, which is what takes the time."""
    environ = {**place.environ, "INFOLD_AGENT_SNAPSHOTS": "false"}
    where = RunOptions(
        root=place.root, environ=environ, clock=system_clock(), allow=("shell",), window=WINDOW, steps=400
    )
    nobody = UserInterface(told.append, lambda _: "no")
    settings = read_settings(environ, place.root)
    return open_run(MemoryStore(), KEY, model, options=where, settings=settings, ui=nobody)
