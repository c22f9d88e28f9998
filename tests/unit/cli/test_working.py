"""An agent opened for a verb: options, store, session and model, and the signal that ends it."""

import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from infold.agent.work import Person
from infold.cli.working import TERMINATED, Job, interrupted_by_sigterm, opened, working
from infold.core.entries import MessageEntry
from infold.core.messages import MessageId, SessionId, TextPart, UserMessage
from infold.errors import StoreBroken, UsageError
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.scripted import ScriptedServer

NOBODY = Person(lambda _: None, lambda _: "no")


@click.command()
@working
def shown(**given: Any) -> None:
    """Show what the options come to."""
    job = Job(**given)
    click.echo(f"{job.agent} {job.window} {job.rules} {job.model}")


def job_in(folder: Path, **given: Any) -> Job:
    """A command line for work in a folder that keeps nothing elsewhere, with a store in it."""
    (folder / "infold.toml").write_text("[agent]\nsnapshots = false\ntitles = false\n")
    plain: dict[str, Any] = {
        "model": "openai-chat/scripted",
        "base_url": "http://127.0.0.1:9/v1",
        "agent": "build",
        "session": None,
        "folder": folder,
        "allow": (),
        "yes": False,
        "steps": None,
        "policy": None,
        "window": 32_000,
        "store": str(folder / "kept" / "sessions.db"),
    }
    return Job(**{**plain, **given})


def test_options_are_read() -> None:
    """Rules may be repeated, sizes have units, and an agent is named."""
    run = CliRunner().invoke(shown, ["--allow", "shell:ls*", "--allow", "edit", "--window", "16k", "--agent", "plan"])

    assert run.stdout == "plan 16000 ('shell:ls*', 'edit') None\n"


def test_yes_allows_everything() -> None:
    """It is leave for what lies outside and for secrets too."""
    assert "('*', 'outside', 'secrets')" in CliRunner().invoke(shown, ["--yes"]).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--agent", "title"), "'title' is not one of 'build', 'plan', 'talk'"),
        (("--allow", "bash"), "there is no tool 'bash'; name one of"),
        (("--steps", "0"), "0 is not in the range"),
        (("--policy", "none"), "'none' is not one of"),
    ],
)
def test_a_wrong_word_is_the_command_lines(arguments: tuple[str, ...], told: str) -> None:
    """What the command line alone can tell to be wrong is bad usage."""
    run = CliRunner().invoke(shown, arguments)

    assert run.exit_code == 2
    assert told in run.stderr


@pytest.mark.slow
def test_a_store_gets_its_folder(tmp_path: Path) -> None:
    """The first session is kept in a folder that was not there, under an id that begins with the day."""
    with opened(job_in(tmp_path), NOBODY) as work:
        session_id = work.session.log.session_id

    assert (tmp_path / "kept" / "sessions.db").exists()
    assert len(session_id) == len("20260131-01234567")


def test_a_store_in_memory_needs_no_place(tmp_path: Path) -> None:
    """Work that is to leave nothing behind is done in memory, and ends as any other."""
    with opened(job_in(tmp_path, store="memory"), NOBODY) as work:
        work.session.title("nothing kept")

    assert not (tmp_path / "kept").exists()


def test_a_session_is_taken_up(tmp_path: Path) -> None:
    """The last one, or one by the beginning of its id, is the same session again."""
    with opened(job_in(tmp_path), NOBODY) as work:
        work.session.add((UserMessage(work.session.log.session_id, (TextPart("Hello?"),)),))  # type: ignore[arg-type]
        session_id = work.session.log.session_id
    for name in ("last", session_id, session_id[:-2]):
        with opened(job_in(tmp_path, session=name), NOBODY) as work:
            assert (work.session.log.session_id, len(work.session.log.live)) == (session_id, 1)


def test_a_tenants_session_stays_the_tenants(tmp_path: Path) -> None:
    """B28: what a gateway kept for somebody is taken up as theirs, not begun anew under the same id."""
    job = job_in(tmp_path)
    (tmp_path / "kept").mkdir()
    key = SessionKey("tenant", SessionId("ferry"))
    with closing(SqliteStore(tmp_path / "kept" / "sessions.db")) as store:
        store.append(key, (MessageEntry(UserMessage(MessageId("m0"), (TextPart("Hello?"),))),), expected=0)
    with opened(replace(job, session="last"), NOBODY) as work:
        assert work.key == key
        assert len(work.session.log.live) == 1


def test_an_unknown_session_is_told(tmp_path: Path) -> None:
    """No new session begins under a mistyped id."""
    with (
        pytest.raises(UsageError, match="there is no session 'nope'"),
        opened(job_in(tmp_path, session="nope"), NOBODY),
    ):
        pass


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """Where the store cannot be, the remedy names the option."""
    (tmp_path / "file").touch()
    job = job_in(tmp_path, store=str(tmp_path / "file" / "below" / "sessions.db"))
    with pytest.raises(StoreBroken, match="name a place you may write to with --store"), opened(job, NOBODY):
        pass


def test_a_model_nobody_offers_is_told(tmp_path: Path) -> None:
    """A name that is in no catalogue needs a provider or an address."""
    job = job_in(tmp_path, model="frobnicator-9", base_url="")
    with pytest.raises(UsageError, match="nobody knows who offers 'frobnicator-9'"), opened(job, NOBODY):
        pass


def test_an_agent_works(tmp_path: Path) -> None:
    """What was opened answers."""
    with ScriptedServer() as server, opened(job_in(tmp_path, base_url=f"{server.url}/v1"), NOBODY) as work:
        assert work.run("Hello?").text == "All is well."


def test_sigterm_ends_the_work() -> None:
    """B13: within the block it raises, so that everything is put away; afterwards it is what it was."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, interrupted_by_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)

    assert ended.value.code == TERMINATED
    assert signal.getsignal(signal.SIGTERM) == before
