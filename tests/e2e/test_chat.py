"""`infold chat` as a person uses it: a terminal, keys, and what is to be seen, with a scripted server as the model."""

import importlib.util
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from infold.agent.agents import TITLE
from infold.core.entries import Checkpoint, Restoration
from infold.core.messages import AssistantMessage, ToolMessage, results_of, text_of
from infold.core.summary_request import COMPACTION_AGENT
from infold.models.embedded import NEEDED
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest, Trouble
from infold.testing.scripted_server import ScriptedServer

from .agent_stage import Place, entries_of, messages_of, place_in, told_to
from .terminal import IS_THERE, Terminal, terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not IS_THERE, reason="needs tmux")]

ABSENT = [name for name in NEEDED if importlib.util.find_spec(name) is None]
ANSWER = "# Kites\n\nA **red** one, and 漢字.\n\n- tail\n- string\n\nThat is all."
HOSTILE = "before\x1b[2J\x1b]0;owned\x07after \u202eevil &#27;[31m"
SLOWLY = Trouble(chunk_delay_seconds=0.1)
HELLO = "Hello from the model."
PROMPT = "\n›"
QUESTION = "(y)es, (a)lways in this chat, (n)o:"


def script(request: ScriptedRequest) -> ScriptedAnswer:
    """Answers by what was said last."""
    told = told_to(request)
    if TITLE.system_text in told:
        return Say("Flying kites")
    if COMPACTION_AGENT.system_text in told:
        return Say(
            "## Goal\nA red kite was wanted.\n\n## Done\nNothing was painted so far, only talked about at length."
        )
    last = request.messages[-1]
    if results_of(last):
        return Say(f"It said: {results_of(last)[-1].output[:40]}")
    return _spoken(text_of(last))


def _spoken(said: str) -> ScriptedAnswer:
    if "slowly" in said:
        return Say("word " * 500, trouble=SLOWLY)
    if "markdown" in said:
        return Say(ANSWER, reasoning="The user wants a kite.\n")
    if "run" in said:
        thought, _, command = said.partition("run ")
        calls = (("shell", {"command": command}),)
        return Say("hmm " * 60, calls=calls, trouble=SLOWLY) if "think" in thought else Say("Let me see.", calls=calls)
    if "edit" in said:
        return Say("", calls=(("edit", {"path": "README.md", "old": "# A project", "new": "# A kite"}),))
    answers: dict[str, ScriptedAnswer] = {
        "fail": Fail(401),
        "hostile": Say(HOSTILE),
        "much": Say("A kite flies high. " * 120),
    }
    return next((answer for word, answer in answers.items() if word in said), Say(HELLO))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project of its own."""
    return place_in(tmp_path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """The model."""
    with ScriptedServer(script) as started:
        yield started


@contextmanager
def chatting(
    place: Place, server: ScriptedServer, *options: str, size: tuple[int, int] = (100, 40), **variables: str
) -> Iterator[Terminal]:
    """A chat that waits for its first line."""
    model = ("--model", "openai-chat/m", "--base-url", f"{server.url}/v1", "--window", "16k")
    command = [sys.executable, "-m", "infold", "chat", *model, *options]
    environ = {**place.environ, "LANG": "C.UTF-8", **variables}
    with terminal(command, folder=place.root, environ=environ, size=size) as shown:
        shown.wait("/help lists commands", "of 13.6k")
        yield shown


def said(shown: Terminal, line: str, *texts: str) -> str:
    """The screen after a line, once these texts are there and the next one can be typed."""
    shown.say(line)
    shown.wait(*texts)
    return shown.wait(without="Ctrl-C stops")


def session_of(shown: Terminal) -> str:
    """The session that a chat named when it began."""
    found = re.search(r"session (\S+);", shown.screen)
    assert found is not None
    return found[1]


def test_an_answer_streams(place: Place, server: ScriptedServer) -> None:
    """The text is seen while it arrives, thoughts before it, and in the end it is drawn whole above the status line."""
    with chatting(place, server) as shown:
        shown.say("say it slowly")
        arriving = shown.wait("word word word", "Ctrl-C stops")
        assert arriving.count("word") < 500
        shown.type("", "C-c")
        shown.wait("aborted", without="Ctrl-C stops")
        said(shown, "now some markdown", "That is all.")
        screen = shown.wait("That is all.", "cache 0%")

    assert "  The user wants a kite.\n\nKites\n\nA red one, and 漢字.\n\n • tail\n • string\n\nThat is all." in screen
    assert re.search(r"m  \d{8}-\w{8}  [█░]{12}  1\.\dk of 13\.6k  cache 0%$", screen)


def asked(shown: Terminal, line: str) -> str:
    """The screen once the chat asks whether it may do what a line leads to."""
    before = shown.screen.count(QUESTION)
    shown.say(line)
    return shown.wait(QUESTION, times=before + 1)


def test_tools_are_run_with_leave(place: Place, server: ScriptedServer) -> None:
    """A command is asked for; yes holds once, always for good, no refuses; results are folded and opened by number."""
    with chatting(place, server) as shown:
        assert "? shell\n    seq 30\n  always would allow shell:seq 30\n" in asked(shown, "run seq 30")
        assert "  1\n  29 more lines, /show 1\n" in said(shown, "y", "It said: 1 2 3", "29 more lines")
        asked(shown, "run seq 30")
        asked(shown, "what?")
        said(shown, "a", "/show 2")
        said(shown, "run seq 30", "/show 3")
        assert "    rm -r .\n" in asked(shown, "run rm -r .")
        said(shown, "n", "not permitted")
        whole = said(shown, "/show 1", "1  shell  seq 30\n1\n2\n3\n")

    assert whole.count(QUESTION) == 4
    assert (place.root / "README.md").exists()


def test_what_was_typed_before_is_no_answer(place: Place, server: ScriptedServer) -> None:
    """Keys pressed while the model was still speaking do not give leave to anything."""
    with chatting(place, server) as shown:
        shown.say("think about it, then run touch second")
        shown.wait("hmm hmm")
        shown.say("y")
        shown.wait(QUESTION)
        assert not (place.root / "second").exists()
        said(shown, "n", "not permitted")

    assert not (place.root / "second").exists()


def test_what_was_typed_ahead_waits(place: Place, server: ScriptedServer) -> None:
    """Stopping a step does not throw away what is meant for the next prompt."""
    with chatting(place, server) as shown:
        shown.say("speak slowly")
        shown.wait("word word")
        shown.type("hello")
        shown.type("", "C-c")
        shown.wait("aborted", "\n› hello", without="Ctrl-C stops")
        said(shown, "", HELLO)


def test_edits_are_shown(place: Place, server: ScriptedServer) -> None:
    """What an edit changed stands below it."""
    with chatting(place, server) as shown:
        screen = said(shown, "edit it", "It said: edited README.md")

    assert "● edit  README.md\n  edited README.md at line 1\n    -# A project\n    +# A kite\n" in screen


def test_the_window_is_kept_and_shown(place: Place, server: ScriptedServer) -> None:
    """B20: a person compacts, sees what it did and what fills the window, and takes it back."""
    with chatting(place, server) as shown:
        for number in range(4):
            said(shown, f"say much, part {number}", f"say much, part {number}\n\nA kite flies high.")
        before = said(shown, "/context", "Largest parts")
        compacted = said(shown, "/compact the colour", "the newest checkpoint, shortened", "1 compaction")
        undone = said(shown, "/undo", "was undone")
        slip = said(shown, "/compat", "did you mean /compact?")
        session = session_of(shown)

    assert all(re.search(rf" {name} +\S* +[\d.]+k? +\d+%", before) for name in ("system", "tools", "user", "assistant"))
    assert re.search(r"░  reserve +2\.4k  15%", before)
    assert "A red kite was wanted." in compacted
    assert re.search(r"◆ folded \d messages +[\d.]+k -> +[\d.]+k tokens   the user asked for it", compacted)
    assert "say much, part 0" in compacted
    assert "compaction" not in undone.splitlines()[-1]
    assert "unknown command /compat" in slip
    kinds = [type(entry) for entry in entries_of(place, session)]
    assert (kinds.count(Checkpoint), kinds.count(Restoration)) == (1, 1)


def test_an_abort_ends_the_step_alone(place: Place, server: ScriptedServer) -> None:
    """B13: Ctrl-C in mid stream or in a tool keeps what was said and done, and the next prompt is answered."""
    with chatting(place, server, "--allow", "shell") as shown:
        shown.say("speak slowly")
        shown.wait("word word")
        shown.type("", "C-c")
        shown.wait("aborted; the session is stored", without="Ctrl-C stops")
        shown.say("run sleep 60")
        shown.wait("running shell")
        shown.type("", "C-c")
        shown.wait("interrupted by the user", without="Ctrl-C stops")
        shown.say("speak slowly")
        shown.wait("word word", "answering")
        shown.type("", "C-c", "C-c")
        shown.wait("aborted; the session is stored", without="Ctrl-C stops", times=3)
        said(shown, "hello", HELLO)
        session = session_of(shown)

    messages = messages_of(entries_of(place, session))
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    assert replies[0].finish == "abort"
    assert text_of(replies[0]).startswith("word word")
    assert [
        part.status for message in messages if isinstance(message, ToolMessage) for part in results_of(message)
    ] == ["interrupted"]
    assert text_of(replies[-1]) == HELLO


def test_a_session_is_gone_on_with(place: Place, server: ScriptedServer) -> None:
    """A second chat shows the last exchange of the first, under its title, and the model is told what was said before."""
    with chatting(place, server) as shown:
        said(shown, "hello", HELLO)
        shown.type("", "C-d")
        assert shown.wait_end() == 0
        assert f"continue with: infold chat --session {session_of(shown)}" in shown.screen
        session = session_of(shown)
    with chatting(place, server, "--session", session) as shown:
        begun = shown.wait(HELLO)
        said(shown, "some markdown", "That is all.")

    assert f"Flying kites\n\n› hello\n\n{HELLO}\n" in begun
    assert "interrupted" not in begun
    assert "hello" in str(server.requests[-1].body["messages"])


def test_a_killed_session_is_gone_on_with(place: Place, server: ScriptedServer) -> None:
    """B13: after a kill in mid stream, the next chat says so, and goes on without a word of the person's."""
    with chatting(place, server) as shown:
        shown.say("speak slowly")
        shown.wait("word word")
        os.kill(shown.process, signal.SIGKILL)
        assert shown.wait_end() == 128 + signal.SIGKILL
    with chatting(place, server, "--session", "last") as shown:
        assert "This turn was interrupted. Say how to continue, or use /continue." in shown.wait("› speak slowly")
        shown.say("/continue")
        shown.wait("word word")
        shown.type("", "C-c")
        shown.wait("aborted", without="Ctrl-C stops")
        said(shown, "hello", HELLO)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("is_busy", [False, True])
def test_signals_leave_cleanly(place: Place, server: ScriptedServer, is_busy: bool, number: signal.Signals) -> None:
    """Asked to end, at the prompt or in mid stream, the chat keeps what was said and says how to come back."""
    with chatting(place, server) as shown:
        said(shown, "hello", HELLO)
        if is_busy:
            shown.say("speak slowly")
            shown.wait("word word")
        os.kill(shown.process, number)
        assert shown.wait_end() == 128 + number
        assert "continue with: infold chat --session" in shown.screen
        session = session_of(shown)

    newest = messages_of(entries_of(place, session))[-1]
    assert text_of(newest).startswith("word" if is_busy else HELLO)


@pytest.mark.long
def test_a_closed_terminal_ends_the_work(place: Place, server: ScriptedServer) -> None:
    """B13: a half-written answer is kept and a command is stopped when the window they are seen in goes away."""
    for line, sign in (("speak slowly", "word word"), ("run sleep 4; touch late", "running shell")):
        with chatting(place, server, "--allow", "shell") as shown:
            shown.say(line)
            shown.wait(sign)
            session, process = session_of(shown), shown.process
            shown.tmux("respawn-pane", "-k", "sleep 60")
            gone(process)
        newest = messages_of(entries_of(place, session))[-1]
        assert text_of(newest).startswith("word") or results_of(newest)[0].status == "interrupted"
    sleep(4)

    assert not (place.root / "late").exists()


def gone(process: int) -> None:
    """Wait until a process has ended."""
    deadline = monotonic() + 30
    while Path(f"/proc/{process}").exists():
        assert monotonic() < deadline, "the process did not end"
        sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("line", ["/quit", "/quit now", "/Quit", " /exit please"])
def test_leaving_is_said_in_many_ways(place: Place, server: ScriptedServer, line: str) -> None:
    """A command is what its name says, however it is written and whatever follows it."""
    with chatting(place, server) as shown:
        shown.say(line)
        assert shown.wait_end() == 0


def test_keys_at_the_prompt(place: Place, server: ScriptedServer) -> None:
    """Several lines are typed or pasted, CJK and emoji too; Ctrl-C forgets a line, and leaves when pressed twice."""
    with chatting(place, server) as shown:
        shown.type("forget this", "C-c")
        shown.wait("Ctrl-C again, or Ctrl-D, leaves", without="forget this")
        shown.type("数据库 🪁", "M-Enter")
        shown.paste("pasted\nlines")
        shown.wait("› 数据库 🪁\n  pasted\n  lines")
        said(shown, "", HELLO)
        shown.type("", "Up")
        shown.wait("lines\n", "› 数据库 🪁\n  pasted\n  lines")
        shown.type("", "C-c", "C-c")
        assert shown.wait_end() == 0
        session = session_of(shown)
    history = place.store.with_name("prompts")

    assert text_of(messages_of(entries_of(place, session))[0]) == "数据库 🪁\npasted\nlines"
    assert history.stat().st_mode & 0o777 == 0o600


def test_commands_are_offered(place: Place, server: ScriptedServer) -> None:
    """What begins with a slash is completed."""
    with chatting(place, server) as shown:
        shown.type("/und")
        shown.wait("/undo  undo the newest compaction")
        shown.type("", "Tab", "Enter")
        shown.wait("there is no compaction to undo")
        shown.say("/quit")
        assert shown.wait_end() == 0
        assert "continue with" not in shown.screen


def test_a_chat_moves_on(place: Place, server: ScriptedServer) -> None:
    """Another session begins and another model answers without leaving; what cannot be opened changes nothing."""
    with chatting(place, server) as shown:
        said(shown, "hello", HELLO)
        first = session_of(shown)
        said(
            shown,
            "/clear",
            f"continue with: infold chat --session {first} --model openai-chat/m",
            "\n\ninfold  m, session ",
        )
        second = re.findall(r"session (\S+);", shown.screen)[-1]
        said(shown, "some markdown", "That is all.")
        said(shown, "/model google/kite", "GEMINI_API_KEY")
        said(shown, "/model", "\nm answers")
        said(shown, "/model openai-chat/another", "\nanother answers")
        said(shown, "hello there", "› hello there\n\nHello from the model.")

    assert first != second
    assert [len(messages_of(entries_of(place, one))) for one in (first, second)] == [2, 4]
    assert server.requests[-1].body["model"] == "another"


def test_errors_are_a_line(place: Place, server: ScriptedServer) -> None:
    """What the model's provider refuses is one line, and the chat goes on."""
    with chatting(place, server) as shown:
        failed = said(shown, "fail", "set OPENAI_API_KEY to a key that may use this model")
        screen = said(shown, "hello", HELLO)

    assert "Traceback" not in screen
    assert failed.count("OPENAI_API_KEY") == 1


def test_models_cannot_command_the_terminal(place: Place, server: ScriptedServer) -> None:
    """Escape sequences in an answer and in a result are shown, not obeyed; those that a result holds whole are left out."""
    with chatting(place, server, "--allow", "shell") as shown:
        said(shown, "be hostile", "before?[2J?]0;owned?after")
        said(shown, r"run printf '\033[2J\033]0;owned\007gone'", "\n  gone\n")
        said(shown, r"run printf '\302\2332J\302\2350;owned\007left'", "?2J?0;owned?left")
        title = shown.tmux("display-message", "-p", "#{pane_title}")

    assert "owned" not in title


def test_a_narrow_terminal_without_colours(place: Place, server: ScriptedServer) -> None:
    """In 80 columns without colours everything is told by signs, and no line is broken that need not be."""
    with chatting(place, server, size=(80, 24), NO_COLOR="1") as shown:
        said(shown, "some markdown", "That is all.")
        screen = said(shown, "/context", "Largest parts")
        colours = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;5;\d+)m", shown.drawn)

    assert re.search(r"^s+o+[ua]*\.+-+$", screen, re.MULTILINE)
    assert colours == []
    assert max(map(len, screen.splitlines())) <= 80


@pytest.mark.skipif(bool(ABSENT), reason=f"needs {ABSENT}")
def test_the_embedded_model_answers(place: Place) -> None:
    """With no key and no server, the model that comes along answers, and says that it is small."""
    command = [sys.executable, "-m", "infold", "chat"]
    environ = {name: value for name, value in place.environ.items() if not name.endswith("_API_KEY")}
    with terminal(command, folder=place.root, environ={**environ, "LANG": "C.UTF-8"}) as shown:
        shown.wait("a very small one answers", PROMPT)
        shown.say("Say hello.")
        shown.wait("› Say hello.")
        shown.wait(" of 7k", without="Ctrl-C stops")
        shown.say("/quit")
        assert shown.wait_end() == 0
        assert "continue with: infold chat --session" in shown.screen
        session = session_of(shown)

    newest = messages_of(entries_of(place, session))[-1]
    assert isinstance(newest, AssistantMessage)
    assert text_of(newest)
