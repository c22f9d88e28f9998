"""`infold run` interrupted, told to end and killed: in a stream, in a tool, in a compaction; and how it goes on afterwards."""

import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from threading import Event
from time import monotonic, sleep
from typing import Any

import pytest
from msgspec import Struct

from infold.core.entries import Entry
from infold.core.messages import AssistantMessage, results_of, text_of
from infold.testing.script import Hang, Say, ScriptedAnswer, ScriptedRequest, Trouble
from infold.testing.scripted_server import ScriptedServer

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
    started,
)

TASK = "Count the boats. Never touch vendor/."
PARTIAL = "The first boat is "
SLOWLY = Say(PARTIAL + "red, and the next one is as red as the first. " * 80, trouble=Trouble(chunk_delay_seconds=0.02))
PATIENCE_SECONDS = 60
MOMENT_SECONDS = 0.01
EXITS = {SIGINT: 130, SIGTERM: 143, SIGKILL: -SIGKILL}

each_signal = pytest.mark.parametrize(
    "number", [SIGINT, pytest.param(SIGTERM, marks=pytest.mark.long), SIGKILL], ids=lambda number: number.name
)
pytestmark = pytest.mark.slow


class Stopped(Struct, frozen=True):
    """How a run ended: its exit status, what it told as JSON, and its standard error."""

    status: int
    told: list[dict[str, Any]]
    stderr: str


@each_signal
def test_in_a_stream(tmp_path: Path, number: Signals) -> None:
    """B13: what a reply had said when it was broken off is kept, unless the process had no chance to; the next is answered."""
    place = place_in(tmp_path)
    with ScriptedServer(Director([looks("one"), SLOWLY, Say("Two boats.")])) as server:
        stopped = stopped_at(place, server.url, number, lambda told: PARTIAL in said(told))
        entries = entries_of(place)
        check_end(stopped, number)
        check_kept(stopped, entries)
        goes_on(place, server, "Two boats.")

    replies = [message for message in messages_of(entries) if isinstance(message, AssistantMessage)]
    if number is SIGKILL:
        assert len(replies) == 1
    else:
        assert replies[-1].finish == "abort"
        assert text_of(replies[-1]).startswith(PARTIAL)
        assert said(stopped.told).endswith(text_of(replies[-1]))
        assert PARTIAL in " ".join(flat(server.requests[-1]).split())


@each_signal
def test_in_a_tool(tmp_path: Path, number: Signals) -> None:
    """B13, B12: the command and all it started are gone, what was done before is in the log, and every call has its answer."""
    place = place_in(tmp_path)
    calls = (
        ("write", {"path": "boats.txt", "content": "red\n"}),
        ("shell", {"command": "echo $$ > pid; sleep 60 & sleep 60"}),
        ("read", {"path": "boats.txt"}),
    )
    with ScriptedServer(Director([Say("", calls), Say("One boat.")])) as server:
        stopped = stopped_at(place, server.url, number, lambda _: is_written(place.root / "pid"))
        group = int((place.root / "pid").read_text())
        try:
            assert number is SIGKILL or is_gone(group)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(group, SIGKILL)
        entries = entries_of(place)
        check_end(stopped, number)
        check_kept(stopped, entries)
        goes_on(place, server, "One boat.")

    answers = {result.tool: result for message in messages_of(entries) for result in results_of(message)}
    assert answers["write"].output == "made boats.txt: 1 line"
    if number is not SIGKILL:
        assert [answers[tool].status for tool in ("write", "shell", "read")] == ["completed", *["interrupted"] * 2]
    assert "interrupted" in str(server.requests[-1].body)


@each_signal
def test_in_a_compaction(tmp_path: Path, number: Signals) -> None:
    """S3.1, B13: a compaction that was broken off is carried out by the next run, which then answers."""
    place, begun = place_in(tmp_path), Event()

    def summarise(request: ScriptedRequest) -> ScriptedAnswer:
        if begun.is_set():
            return Say("The boats are being counted one by one, and each of them was looked at.")
        begun.set()
        return Hang(PATIENCE_SECONDS)

    director = Director([*(looks(f"boat {count}") for count in range(14)), Say("Many boats.")], summarise)
    with ScriptedServer(director) as server:
        stopped = stopped_at(place, server.url, number, lambda _: begun.is_set())
        entries = entries_of(place)
        check_end(stopped, number)
        check_kept(stopped, entries)
        goes_on(place, server, None)

    assert director.summaries > 1
    assert not [one for one in stopped.told if one["event"] == "session.compacted"]
    assert len(messages_of(entries)) > 5


@pytest.mark.long
def test_twice(tmp_path: Path) -> None:
    """B13: an impatient second interrupt ends it no worse than the first."""
    place = place_in(tmp_path)
    shell = Say("", (("shell", {"command": "trap '' TERM; echo > pid; sleep 60; sleep 60"}),))
    with ScriptedServer(Director([shell, Say("None.")])) as server:
        with started(place, *command(server.url, TASK)) as process:
            wait_until(lambda: is_written(place.root / "pid"), process)
            process.send_signal(SIGINT)
            sleep(10 * MOMENT_SECONDS)
            process.send_signal(SIGINT)
            process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode in (1, 130)
        goes_on(place, server, "None.")


def test_whoever_listens_may_leave(tmp_path: Path) -> None:
    """B13: a pipe that closes ends the run quietly, and the session goes on."""
    place = place_in(tmp_path)
    with ScriptedServer(Director([SLOWLY, Say("Two boats.")])) as server:
        with started(place, *command(server.url, TASK)) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            stderr = process.stderr.read()
        assert (process.wait(PATIENCE_SECONDS), stderr) == (1, "")
        goes_on(place, server, "Two boats.")


# What is done.


def looks(what: str) -> Say:
    """A step with a command that says much."""
    return Say(f"A look at {what}.", (("shell", {"command": f"seq -f '%g {what} is at its place' 1 200"}),))


def command(url: str, *arguments: str) -> tuple[str, ...]:
    """The command line of a run at a small window."""
    where = ("--model", "openai-chat/scripted", "--base-url", base_of("openai-chat", url))
    return ("run", *arguments, *where, "--allow", "shell", "--window", "8k", "--json")


def stopped_at(place: Place, url: str, number: Signals, is_due: Callable[[list[dict[str, Any]]], bool]) -> Stopped:
    """A run that is sent a signal as soon as it is due, given all that it told so far."""
    told = place.home / "told.jsonl"
    with told.open("w") as out, started(place, *command(url, TASK), out=out) as process:
        wait_until(lambda: is_due(events_in(told.read_text())), process)
        process.send_signal(number)
        begun = monotonic()
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        assert monotonic() - begun < PATIENCE_SECONDS / 4, "it took its time to end"
    return Stopped(process.returncode, events_in(told.read_text()), stderr)


def wait_until(is_due: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait for something while a process runs."""
    deadline = monotonic() + PATIENCE_SECONDS
    while not is_due():
        assert process.poll() is None, "it ended by itself"
        assert monotonic() < deadline, "it never came to that"
        sleep(MOMENT_SECONDS)


def said(told: Sequence[dict[str, Any]]) -> str:
    """What the model was heard to say."""
    return "".join(one["text"] for one in told if one["event"] == "text")


def is_written(path: Path) -> bool:
    """Whether a file is there and has something in it."""
    return path.exists() and path.read_text().endswith("\n")


def is_gone(group: int) -> bool:
    """Whether nothing of a process group runs any more; what has ended and waits for its parent to notice does not run."""
    return not any(_runs_in(group, stat) for stat in Path("/proc").glob("[0-9]*/stat"))


def _runs_in(group: int, stat: Path) -> bool:
    try:
        state, _, its_group, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return False
    return int(its_group) == group and state != "Z"


# What must hold.


def check_end(stopped: Stopped, number: Signals) -> None:
    """The exit status is the signal's, nobody is shown a traceback, and whoever had a chance to has told of session and end."""
    assert stopped.status == EXITS[number]
    assert "Traceback" not in stopped.stderr
    assert [one["event"] for one in stopped.told].index("started") == 0
    assert [one["ending"] for one in stopped.told if one["event"] == "ended"] == ["aborted"] * (number is not SIGKILL)


def check_kept(stopped: Stopped, entries: Sequence[Entry]) -> None:
    """B1: every step and every result that was told is in the log."""
    messages = messages_of(entries)
    steps = [one for one in messages if isinstance(one, AssistantMessage) and not one.summary and one.finish != "abort"]
    results = {result.call_id: result.output for message in messages for result in results_of(message)}

    assert sum(one["event"] == "step" for one in stopped.told) <= len(steps)
    for told in stopped.told:
        if told["event"] == "tool-result":
            assert results[told["call_id"]] == told["output"]


def goes_on(place: Place, server: ScriptedServer, answer: str | None) -> None:
    """The session answers the next prompt, with a request that every provider takes, and remembers the task."""
    before = len(server.requests)
    ran = infold(place, *command(server.url, "go on", "--session", "last"))
    told = events_in(ran.stdout)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert told[-1]["ending"] == "done"
    assert answer is None or told[-1]["text"] == answer
    asked = [one for one in server.requests[before:] if one.body.get("tools")]
    assert [problem for one in asked for problem in problems_of(one)] == []
    assert all(TASK in flat(one) and "go on" in flat(one) for one in asked)
