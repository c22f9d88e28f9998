"""`infold run` in trouble: each trouble is one line that says what to do, with its exit status, and harms no later run."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infold.core.entries import Rejection
from infold.core.messages import AssistantMessage, text_of
from infold.testing import wire_replies
from infold.testing.script import Fail, Say, ScriptedAnswer, Trouble
from infold.testing.scripted_server import ScriptedServer

from .agent_stage import (
    Director,
    Place,
    base_of,
    entries_of,
    events_in,
    infold,
    messages_of,
    place_in,
    problems_of,
    session_ids,
)

AN_ERROR, A_WRONG_COMMAND_LINE = 1, 2
OVERFLOWS = {
    "openai-chat": wire_replies.chat_overflow,
    "openai": wire_replies.responses_overflow,
    "anthropic": wire_replies.anthropic_overflow,
}
AT_ONCE = {"x-should-retry": "false"}
"""What leaves a second try to the agent, where the SDK would make it unseen."""

each_provider = pytest.mark.parametrize(
    "provider", ["openai-chat", *(pytest.param(name, marks=pytest.mark.long) for name in ("anthropic", "openai"))]
)
pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project."""
    return place_in(tmp_path)


# A model that does not answer.


@each_provider
@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "set {}_API_KEY to a key that may use this model"), (404, "check the name with --model")],
)
def test_a_refusal_is_told(place: Place, provider: str, status: int, remedy: str) -> None:
    """A wrong key and an unknown model are told with what to do about them, and a script learns the session; the next run
    answers."""
    with ScriptedServer(Director([Fail(status), Say("Well.")])) as server:
        ran = asked(place, server.url, "Hello?", provider=provider)
        check_line(ran, remedy.format(provider.partition("-")[0].upper()))
        first, last = events_in(ran.stdout)
        assert (first["event"], last["event"], last["ending"]) == ("started", "ended", "failed")
        assert first["session_id"] == last["session_id"]
        assert last["problem"] in ran.stderr
        works(place, server.url, "Well.", provider=provider)


@each_provider
def test_nobody_at_the_address(place: Place, provider: str) -> None:
    """An address where nobody listens is named."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    check_line(asked(place, url, "Hello?", provider=provider), f"no answer at {url}", "check the address")
    with ScriptedServer() as server:
        works(place, server.url, "All is well.", provider=provider)


@each_provider
def test_no_key(place: Place, provider: str) -> None:
    """Without a key nothing is sent anywhere, and no session begins."""
    keyless = {name: value for name, value in place.environ.items() if not name.endswith("_API_KEY")}
    ran = infold(place, "run", "Hello?", "--model", f"{provider}/scripted", environ=keyless)

    check_line(ran, "there is no key for it", f"set {provider.partition('-')[0].upper()}_API_KEY")
    assert session_ids(place) == []


# A wrong word on the command line or in a file.


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("--model", "frobnicator-9"), AN_ERROR, "unknown provider for model 'frobnicator-9'; put one of anthropic"),
        (("--session", "nope"), AN_ERROR, "there is no session 'nope', nor any other; start one with"),
        (("--session", "last"), AN_ERROR, "there are no sessions yet; start one with"),
        (("--agent", "nope"), A_WRONG_COMMAND_LINE, "'--agent': 'nope' is not one of 'build', 'plan', 'talk'"),
        (("--agent", "compaction"), A_WRONG_COMMAND_LINE, "'compaction' is not one of"),
        (("--allow", "bash:ls"), A_WRONG_COMMAND_LINE, "'--allow': permissions: there is no tool 'bash'; name one of"),
        (("--window", "big"), A_WRONG_COMMAND_LINE, "'big' is not a number of tokens; use one such as"),
        (("--folder", "nowhere"), A_WRONG_COMMAND_LINE, "'nowhere' does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_word(place: Place, arguments: tuple[str, ...], status: int, told: str) -> None:
    """What is wrong on the command line is said, with what would be right; nothing has begun."""
    model = () if "--model" in arguments else ("--model", "openai/scripted")

    check_line(infold(place, "run", "Hello?", *model, *arguments), told, status=status)
    assert session_ids(place) == []


def test_a_window_that_holds_nothing(place: Place) -> None:
    """B9: a window without room for the smallest request is told with its numbers; a larger one helps."""
    with ScriptedServer() as server:
        check_line(
            asked(place, server.url, "Hello?", "--window", "500"), "the usable window is 244; shorten the system"
        )
        works(place, server.url, "All is well.", "--session", "last")


def test_nothing_to_do(place: Place) -> None:
    """A run without a task says how to give one."""
    check_line(infold(place, "run"), "no task given; give it in quotes, or pipe it in", status=A_WRONG_COMMAND_LINE)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[compaction\n", ("the file is not valid TOML", "correct that place, or remove the file")),
        ("frob = 1\n", ("frob", "unknown setting; correct the name or remove the line")),
        ('[compaction]\ntrigger = "often"\n', ("compaction.trigger", "infold.toml")),
        ('[permissions]\nallow = ["shell"]\n', ("a file that belongs to a project cannot set it",)),
    ],
)
def test_a_wrong_file_of_settings(place: Place, text: str, told: tuple[str, ...]) -> None:
    """A file that cannot be used is named with its place; once it is mended the run works."""
    settings = place.root / "infold.toml"
    settings.write_text(text)
    with ScriptedServer() as server:
        check_line(asked(place, server.url, "Hello?", "--trust"), str(settings), *told)
        settings.unlink()
        works(place, server.url, "All is well.")


# A store that cannot be written.


def test_a_store_that_is_none(place: Place) -> None:
    """A file of another kind is left as it is, and a folder is none."""
    readme = place.root / "README.md"
    before = readme.read_text()
    with ScriptedServer() as server:
        check_line(
            asked(place, server.url, "Hello?", "--store", str(readme)), "it is not an infold store", "name another"
        )
        check_line(asked(place, server.url, "Hello?", "--store", str(place.root)), "it is not a regular file")

    assert readme.read_text() == before


def test_a_folder_that_cannot_be_written(place: Place) -> None:
    """A store in a folder that is read-only is told at once, before a model is asked; elsewhere the run works."""
    with ScriptedServer() as server, mounted(place.home / "data", "size=1m,mode=700,ro"):
        check_line(asked(place, server.url, "Hello?"), "cannot create its folder (Read-only file system)", "--store")

        assert server.requests == ()
        works(place, server.url, "All is well.", "--store", str(place.home / "elsewhere.sqlite3"))


def test_a_full_disk(place: Place) -> None:
    """B13: where the disk is full the run ends with one line; once there is room, the session goes on with all it had."""
    data, much = place.home / "data", "seq -f 'line %07g of the log' 1 40000"
    steps: list[ScriptedAnswer] = [Say(f"Look {count}.", (("shell", {"command": much}),)) for count in range(8)]
    with mounted(data, "size=6m,mode=700"), ScriptedServer(Director([*steps, Say("Well.")])) as server:
        (data / "filler").write_bytes(b"x" * 2_000_000)
        ran = asked(place, server.url, "Look at the log.", "--allow", "shell")
        check_line(ran, str(place.store), "full")
        told = [one["event"] for one in events_in(ran.stdout)]
        (data / "filler").unlink()
        kept = [message for message in messages_of(entries_of(place)) if isinstance(message, AssistantMessage)]

        assert told.count("step") == len(kept)
        server_answers(place, server.url)


def server_answers(place: Place, url: str) -> None:
    """The session that ran into trouble goes on."""
    ran = asked(place, url, "go on", "--session", "last", "--steps", "1")

    assert ran.returncode == 3
    assert events_in(ran.stdout)[-1]["ending"] == "steps"


# Trouble that passes.


@each_provider
def test_a_busy_model_is_asked_again(place: Place, provider: str) -> None:
    """A refusal for now is told and tried once more; the SDK's own second try is not even seen."""
    answers: list[ScriptedAnswer] = [
        Fail(429, headers={"retry-after-ms": "1"}),
        Fail(429, headers=AT_ONCE),
        Say("Well."),
    ]
    with ScriptedServer(Director(answers)) as server:
        told = works(place, server.url, "Well.", provider=provider)

    assert [one["event"] for one in told].count("retry") == 1


@each_provider
def test_a_stream_that_breaks_is_asked_for_again(place: Place, provider: str) -> None:
    """What a broken reply had said does not count; the log has the whole one alone."""
    broken = Say("The first half and", trouble=Trouble(cut_after_events=4))
    with ScriptedServer(Director([broken, Say("The whole of it.")])) as server:
        told = works(place, server.url, "The whole of it.", provider=provider)

    assert [one["problem"] for one in told if one["event"] == "retry"] == [
        "scripted: the reply broke off; try again in a while, or name another model"
    ]
    assert replies_in(place) == ["The whole of it."]


@each_provider
def test_an_overflow_in_a_stream_is_recovered(place: Place, provider: str) -> None:
    """S5.2, B7, B8: a reply that ends in an overflow is asked for again with less, and no step before it is lost."""
    looks: list[ScriptedAnswer] = [Say(f"Look {n}.", (("shell", {"command": f"seq {n} 700"}),)) for n in range(6)]
    reported: dict[str, Any] = OVERFLOWS[provider](33_000, 8_000)
    late = Say("And so it is that", trouble=Trouble(cut_after_events=4, error_event=reported))
    director = Director([*looks, late, Say("Six looks.")])
    with ScriptedServer(director) as server:
        told = works(place, server.url, "Six looks.", "--allow", "shell", "--window", "32k", provider=provider)
    refused, again = director.main[-2:]

    assert [one["event"] for one in told].count("retry") == 1
    assert any(isinstance(entry, Rejection) for entry in entries_of(place))
    assert again.tokens < refused.tokens
    assert replies_in(place) == [*(f"Look {n}." for n in range(6)), "Six looks."]


@each_provider
def test_a_model_with_nothing_more_to_say_is_done(place: Place, provider: str) -> None:
    """An empty reply after a tool's result ends the work; it is in the log, and not in the next request."""
    writes = Say("", (("write", {"path": "a", "content": "a"}),))
    director = Director([writes, Say(""), Say("Well.")])
    with ScriptedServer(director) as server:
        works(place, server.url, "", provider=provider)
        works(place, server.url, "Well.", "--session", "last", provider=provider)

    assert replies_in(place) == ["", "", "Well."]
    assert problems_of(director.main[-1]) == ()


# What is done and what must hold.


def asked(place: Place, url: str, *arguments: str, provider: str = "openai-chat") -> "subprocess.CompletedProcess[str]":
    """A run of the command that tells JSON, so that only what is wrong goes to standard error."""
    where = ("--model", f"{provider}/scripted", "--base-url", base_of(provider, url))
    return infold(place, "run", *arguments, *where, "--json")


def works(place: Place, url: str, answer: str, *arguments: str, provider: str = "openai-chat") -> list[dict[str, Any]]:
    """A run that ends well and says so; gives what it told."""
    ran = asked(place, url, "Hello?", *arguments, provider=provider)
    told = events_in(ran.stdout)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert (told[-1]["ending"], told[-1]["text"]) == ("done", answer)
    return told


def check_line(ran: "subprocess.CompletedProcess[str]", *words: str, status: int = AN_ERROR) -> None:
    """One line on standard error, with these words, and that exit status."""
    line = ran.stderr.removesuffix("\n")

    assert line.startswith("Error: ")
    assert "\n" not in line
    assert "Traceback" not in line
    assert [word for word in words if word not in line] == []
    assert ran.returncode == status


def replies_in(place: Place) -> list[str]:
    """What the model said, by the log."""
    return [
        text_of(one) for one in messages_of(entries_of(place)) if isinstance(one, AssistantMessage) and not one.summary
    ]


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own at a folder, while a block runs; skips the test where none may be mounted."""
    folder.mkdir(exist_ok=True)
    tried = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"nothing can be mounted here: {tried.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
