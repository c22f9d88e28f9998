"""`infold run`: a task from the command line or a pipe, an answer on standard output, an exit status."""

import json
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner, Result

from infold.agent.events import Ending
from infold.cli import run
from infold.cli.main import main
from infold.core.messages import results_of, text_of
from infold.testing.script import Fail, Say, ScriptedAnswer, in_turn
from infold.testing.scripted_server import ScriptedServer

LISTS = Say("I look.", (("shell", {"command": "echo hi"}),))


class Desk:
    """A project, a server that answers in turn, and the verb."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: ScriptedServer

    def run(
        self,
        *arguments: str,
        answers: tuple[ScriptedAnswer, ...] = (Say("Well."),),
        piped: str | bytes = "",
        charset: str = "utf-8",
    ) -> Result:
        """The verb's outcome, with nobody at a terminal."""
        environ = {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "INFOLD_AGENT_SNAPSHOTS": "false",
            "INFOLD_AGENT_TITLES": "false",
            "OPENAI_API_KEY": "none",
        }
        with ScriptedServer(in_turn(*answers)) as self.server:
            where = ("--model", "openai-chat/scripted", "--base-url", f"{self.server.url}/v1", "--window", "32k")
            kept = ("--folder", str(self.folder), "--store", str(self.folder / "sessions.db"))
            return CliRunner(charset).invoke(main, ["run", *arguments, *where, *kept], input=piped, env=environ)

    @property
    def prompt(self) -> str:
        """What the model was asked last."""
        return text_of(self.server.requests[-1].messages[-1])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A place to run the verb in."""
    return Desk(tmp_path)


def test_the_answer_is_on_standard_output(desk: Desk) -> None:
    """The last reply goes there, everything else to standard error, and the exit status is 0."""
    ran = desk.run("List", "it.", "--allow", "shell", answers=(LISTS, Say("It says hi.")))

    assert (ran.exit_code, ran.stdout) == (0, "It says hi.\n")
    assert ran.stderr.splitlines()[:2] == ["I look.", "• shell  echo hi"]


@pytest.mark.parametrize(("options", "shown"), [((), b"A ??? 4\n"), (("--json",), "A 数据库 4".encode())])
def test_an_encoding_ends_nothing(desk: Desk, options: tuple[str, ...], shown: bytes) -> None:
    """What standard output cannot show becomes a question mark; lines of JSON are UTF-8 whatever it is."""
    ran = desk.run("Count.", *options, answers=(Say("A 数据库 4"),), charset="ascii")

    assert ran.exit_code == 0
    assert shown in ran.stdout_bytes


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_error_leaves_a_session_to_go_on_with(desk: Desk, options: tuple[str, ...]) -> None:
    """A person is told the command, a program the event; nothing else is on standard output."""
    ran = desk.run("Count.", *options, answers=(Fail(401),))
    events = [json.loads(line) for line in ran.stdout.splitlines()]

    assert ran.exit_code == 1
    if options:
        assert events[-1] == {**events[-1], "event": "ended", "ending": "failed"}
        assert events[-1]["session_id"].startswith("20")
        assert "OPENAI_API_KEY" in events[-1]["problem"]
    else:
        assert events == []
        assert "go on with: infold run --session 20" in ran.stderr
    assert ran.stderr.count("OPENAI_API_KEY") == 1


def test_events_are_lines_of_json(desk: Desk) -> None:
    """With --json every happening is a line, and nothing else is written."""
    ran = desk.run("List it.", "--allow", "shell", "--json", answers=(LISTS, Say("It says hi.")))
    events = [json.loads(line) for line in ran.stdout.splitlines()]

    assert ran.stderr == ""
    assert events[-1] == {**events[-1], "event": "ended", "ending": "done", "steps": 2, "text": "It says hi."}
    assert {"step", "tool-call", "tool-result", "text", "title"} <= {event["event"] for event in events}


@pytest.mark.parametrize(
    ("task", "piped", "prompt"),
    [
        (("Review", "this."), "", "Review this."),
        (("Review this.",), "+ a\n- b\n", "Review this.\n\n+ a\n- b"),
        ((), "Do it.\n", "Do it."),
        (("Look:",), b"caf\xe9 \xff", "Look:\n\ncaf\ufffd \ufffd"),
    ],
)
def test_a_prompt_is_what_was_typed_and_piped(
    desk: Desk, task: tuple[str, ...], piped: str | bytes, prompt: str
) -> None:
    """Words are joined, what was piped comes after them, and bytes that are no text harm nobody."""
    ran = desk.run(*task, piped=piped)

    assert (ran.exit_code, desk.prompt) == (0, prompt)


@pytest.mark.parametrize("piped", ["", " \n"])
def test_no_task_is_bad_usage(desk: Desk, piped: str) -> None:
    """Nothing is asked of anybody."""
    ran = desk.run(piped=piped)

    assert ran.exit_code == 2
    assert ran.stderr == "Error: there is no task; give it in quotes, or pipe it in (see 'infold run --help')\n"
    assert desk.server.requests == ()


def test_too_much_in_the_pipe_is_told(desk: Desk) -> None:
    """A whole disk is no prompt."""
    ran = desk.run("Read.", piped="x" * (run.LONGEST_PIPED + 1))

    assert ran.exit_code == 1
    assert "more than 4,000,000 bytes were piped in; write them to a file and name it" in ran.stderr


def test_nobody_at_a_terminal_means_no(desk: Desk) -> None:
    """Without leave a command is not run, and the model is told so."""
    ran = desk.run("List it.", answers=(LISTS, Say("I may not.")))

    assert ran.exit_code == 0
    assert "this was not permitted: shell: echo hi" in ran.stderr
    told = "not permitted, as nobody could be asked: shell:echo hi; give leave with --allow 'shell:echo hi'"
    assert ran.stderr.splitlines()[-1] == told


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (LISTS, "stopped after as many steps as it may take"),
        (Say("I", finish="content-filter"), "the provider withheld the reply"),
        (Say("And th", finish="length"), "the reply was cut off for length"),
    ],
)
def test_work_that_is_not_done_has_a_status_of_its_own(desk: Desk, answer: ScriptedAnswer, words: str) -> None:
    """Scripts can tell it from an answer and from an error; the session is named to go on with."""
    ran = desk.run("List it.", "--allow", "shell", "--steps", "2", answers=(answer,))
    why, going_on = ran.stderr.splitlines()[-2:]

    assert ran.exit_code == 3
    assert why.startswith(words)
    assert going_on.startswith("go on with: infold run --session 20")
    assert going_on.endswith(f"--store {desk.folder / 'sessions.db'}")


@pytest.mark.parametrize(
    ("stopped", "last"), [(LISTS, "hi"), (Say("I", finish="content-filter"), "Go on."), (Fail(400), "List it.")]
)
def test_without_a_task_a_session_goes_on(desk: Desk, stopped: ScriptedAnswer, last: str) -> None:
    """B13: the command that the person was told takes up what was broken off, and needs no word of theirs."""
    desk.run("List it.", "--allow", "shell", "--steps", "1", answers=(stopped,))
    ran = desk.run("--session", "last")
    newest = desk.server.requests[-1].messages[-1]

    assert (ran.exit_code, ran.stdout) == (0, "Well.\n")
    assert last == (text_of(newest) or results_of(newest)[0].output)


def test_a_task_that_says_nothing_does_not_go_on(desk: Desk) -> None:
    """A script whose task came out empty is told so."""
    desk.run("Count the boats.")

    assert desk.run("", "--session", "last").exit_code == 2


def test_a_session_goes_on(desk: Desk) -> None:
    """The next run of a session is sent what was said before."""
    desk.run("Count the boats.")
    desk.run("And the ships.", "--session", "last")

    assert [text_of(message) for message in desk.server.requests[0].messages][-3:] == [
        "Count the boats.",
        "Well.",
        "And the ships.",
    ]


def test_every_ending_has_a_status() -> None:
    """No ending is left to chance."""
    assert set(run.EXIT_CODES) == set(get_args(Ending))
