"""An agent opened for a verb: options, store, session and model, and the signal that ends it."""

import logging
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from infold.agent.events import Notice
from infold.agent.run import RunEvent, UserInterface
from infold.cli.agent_options import (
    SUMMARIES,
    TERMINATING,
    AgentOptions,
    agent_options,
    decide_trust,
    exit_on_signals,
    open_agent,
    open_agent_on,
)
from infold.core.entries import MessageEntry
from infold.core.messages import AssistantMessage, MessageId, ModelRef, SessionId, TextPart, UserMessage
from infold.core.policy import share
from infold.errors import SettingsError, StoreBroken, UsageError
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.stores.sqlite import SqliteStore
from infold.testing.scripted_server import ScriptedServer

NOBODY = UserInterface(lambda _: None, lambda _: "no")


@pytest.fixture(autouse=True)
def nothing_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot is taken and no title is asked for."""
    for name in ("SNAPSHOTS", "TITLES"):
        monkeypatch.setenv(f"INFOLD_AGENT_{name}", "no")


@click.command()
@agent_options
def shown(**given: Any) -> None:
    """Show what the options come to."""
    job = AgentOptions(**given)
    click.echo(f"{job.agent} {job.window} {job.rules} {job.model}")


def job_in(folder: Path, **given: Any) -> AgentOptions:
    """A command line for work in a folder that keeps nothing elsewhere, with a store in it."""
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
    return AgentOptions(**{**plain, **given})


def test_a_session_goes_on_as_it_began(tmp_path: Path) -> None:
    """The command that is told names the model, its address and all that was said, so that nobody else answers."""
    given = {"agent": "plan", "allow": ("shell:git *", "read"), "yes": True, "steps": 3, "policy": "infold"}
    job = job_in(tmp_path, **given)
    begun = CliRunner().invoke(shown, shlex.split(job.resume_command("run", "s1"))[2:])
    few = replace(job_in(tmp_path), model=None, base_url="", window=None, folder=None, store="postgresql://a:b@db/x")

    assert begun.stdout == f"plan 32000 {job.rules} openai-chat/scripted\n"
    assert few.resume_command("chat", "s1") == "infold chat --session s1 --store 'postgresql://a:***@db/x'"


def test_what_is_kept_in_memory_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command is told for a session that ends with its process, whoever said so."""
    monkeypatch.setenv("INFOLD_STORE", "memory")

    assert job_in(tmp_path, store=None).resume_command("run", "s1") == ""
    assert job_in(tmp_path, store="memory").resume_command("chat", "s1") == ""


@pytest.mark.parametrize("policy", ["opencode-1.1.23", "proactive", "turn-window"])
def test_a_preset_of_the_command_line_keeps_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """S8.1, S8.2: every verb that puts an agent to work, `run` and `chat`, keeps switches and settings under `--policy`."""
    monkeypatch.setenv("INFOLD_DISABLE_AUTOCOMPACT", "1")
    monkeypatch.setenv("INFOLD_COMPACTION_TRIGGER", "77%")
    store, key = MemoryStore(), SessionKey("", SessionId("s"))
    with open_agent_on(job_in(tmp_path, policy=policy), NOBODY, store, key) as work:
        kept = work.session.policy

    assert (kept.name, kept.auto, kept.trigger) == (policy, False, share(0.77))
    assert kept.window_tokens == 32_000


LATE = """
import os, signal, sys, time
from infold.cli.agent_options import exit_on_signals

class Late:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.01)

with exit_on_signals():
    Late()
    time.sleep(20)
    print("outlived it")
"""
"""A signal arrives while Python runs a callback, whose exceptions it ignores: a finaliser, or one of an import's."""

IN_A_LOOP = """
import asyncio, os, sys
from infold.cli.agent_options import exit_on_signals

async def wait():
    def interrupted():
        os.kill(os.getpid(), int(sys.argv[1]))
        print("finished")
    asyncio.get_running_loop().call_soon(interrupted)
    await asyncio.sleep(20)
    print("outlived it")

with exit_on_signals():
    asyncio.run(wait())
"""
"""A signal arrives while an event loop runs a callback, as at the chat's prompt."""

DEAD_TERMINAL = """
import os, signal
from infold.cli.agent_options import exit_on_signals

with exit_on_signals():
    try:
        signal.raise_signal(signal.SIGHUP)
    finally:
        raise OSError(5, "Input/output error")
"""


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_not_lost(number: signal.Signals) -> None:
    """B13: a signal whose exception Python ignores, as within a finaliser, ends the process all the same."""
    ran = subprocess.run(
        [sys.executable, "-c", LATE, str(number.value)], capture_output=True, text=True, timeout=15, check=False
    )

    assert (ran.returncode, ran.stdout) == (128 + number, "")


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_event_loop_ends_between_two_callbacks(number: signal.Signals) -> None:
    """B13: a signal within an event loop interrupts none of its callbacks, which could leave a task that never ends."""
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_LOOP, str(number.value)], capture_output=True, text=True, timeout=15, check=False
    )

    assert (ran.returncode, ran.stdout) == (128 + number, "finished\n")


@pytest.mark.usefixtures("hangups")
def test_a_terminal_that_is_gone_is_no_error() -> None:
    """B13: what cannot be written to a closed terminal while leaving does not change the exit status."""
    ran = subprocess.run([sys.executable, "-c", DEAD_TERMINAL], capture_output=True, text=True, timeout=15, check=False)

    assert (ran.returncode, ran.stderr) == (128 + signal.SIGHUP, "")


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
    with open_agent(job_in(tmp_path), NOBODY) as work:
        session_id = work.session.log.session_id

    assert (tmp_path / "kept" / "sessions.db").exists()
    assert len(session_id) == len("20260131-01234567")


def test_a_store_is_held_to_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B27: where a size is set, what is beyond it is gone when the work begins."""
    job, key = job_in(tmp_path), SessionKey("", SessionId("old"))
    (tmp_path / "kept").mkdir()
    with closing(SqliteStore(tmp_path / "kept" / "sessions.db")) as store:
        store.append(key, [MessageEntry(UserMessage(MessageId("m0"), (TextPart("fly"),)))], expected=0)
    monkeypatch.setenv("INFOLD_STORE_LIMITS_MAX_BYTES", "1")
    with open_agent(job, NOBODY):
        pass

    with closing(SqliteStore(tmp_path / "kept" / "sessions.db")) as store:
        assert list(store.sessions("")) == []


def test_a_store_in_memory_needs_no_place(tmp_path: Path) -> None:
    """Work that is to leave nothing behind is done in memory, and ends as any other."""
    with open_agent(job_in(tmp_path, store="memory"), NOBODY) as work:
        work.session.title("nothing kept")

    assert not (tmp_path / "kept").exists()


def answered(store: MemoryStore, model: ModelRef, window: int = 0) -> SessionKey:
    """A session with one reply of a model."""
    key = SessionKey("", SessionId("old"))
    reply = AssistantMessage(MessageId("m1"), (TextPart("yes"),), model=model, window_tokens=window, finish="stop")
    asked = UserMessage(MessageId("m0"), (TextPart("fly"),))
    store.append(key, [MessageEntry(asked), MessageEntry(reply)], expected=0)
    return key


@pytest.mark.parametrize(
    ("model", "named", "base_url", "opened"),
    [
        (ModelRef("anthropic", "claude-sonnet-5-5"), None, "", "anthropic/claude-sonnet-5-5"),
        (ModelRef("", "claude-sonnet-5-5"), None, "", "anthropic/claude-sonnet-5-5"),
        (ModelRef("openai", "my-own"), None, "http://127.0.0.1:9/v1", "openai/my-own"),
        (ModelRef("anthropic", "claude-sonnet-5-5"), "openai/gpt-5", "", "openai/gpt-5"),
        (ModelRef("embedded", "smollm2"), None, "", "openai/gpt-5-mini"),
    ],
)
def test_a_stored_session_keeps_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: ModelRef, named: str | None, base_url: str, opened: str
) -> None:
    """A session goes on with the model that answered it, unless another is named; the embedded one gives way to a set one."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "k")
    monkeypatch.setenv("INFOLD_MODEL", "openai/gpt-5-mini")
    store = MemoryStore()
    key = answered(store, model)

    with open_agent_on(job_in(tmp_path, model=named, base_url=base_url, window=None), NOBODY, store, key) as work:
        assert work.model.ref.full_name == opened


def test_a_stored_window_is_better_than_a_guess(tmp_path: Path) -> None:
    """For a model that neither the settings nor the catalogue know, the recorded window holds; a stated one wins."""
    store, url = MemoryStore(), "http://127.0.0.1:9/v1"
    key = answered(store, ModelRef("openai", "my-own"), window=12_345)

    def window(**given: Any) -> int:
        with open_agent_on(job_in(tmp_path, base_url=url, **given), NOBODY, store, key) as work:
            return work.session.window_tokens

    assert window(model=None, window=None) == 12_345
    assert window(model=None, window=16_000) == 16_000
    assert window(model="openai-chat/other", window=None) != 12_345


def test_a_stored_model_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other model answers in its place, and the error names the option that chooses one."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    store = MemoryStore()
    key = answered(store, ModelRef("anthropic", "claude-sonnet-5-5"))

    with (
        pytest.raises(
            UsageError, match=r"old was answered by anthropic/claude-sonnet-5-5, .*ANTHROPIC_API_KEY.* --model"
        ),
        open_agent_on(job_in(tmp_path, model=None, base_url=""), NOBODY, store, key),
    ):
        pass


def test_a_session_is_taken_up(tmp_path: Path) -> None:
    """The last one, or one by the beginning of its id, is the same session again."""
    with open_agent(job_in(tmp_path), NOBODY) as work:
        work.session.add((UserMessage(work.session.log.session_id, (TextPart("Hello?"),)),))  # type: ignore[arg-type]
        session_id = work.session.log.session_id
    for name in ("last", session_id, session_id[:-2]):
        with open_agent(job_in(tmp_path, session=name), NOBODY) as work:
            assert (work.session.log.session_id, len(work.session.log.live)) == (session_id, 1)


def test_a_session_of_another_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its last words were about other files, and whoever goes on with it here should know."""
    (tmp_path / "kites").mkdir()
    (tmp_path / "boats").mkdir()
    store = str(tmp_path / "sessions.db")
    with (
        ScriptedServer() as server,
        open_agent(job_in(tmp_path / "kites", base_url=f"{server.url}/v1", store=store), NOBODY) as work,
    ):
        work.run("Hello?")
    capsys.readouterr()
    for name in (work.key.session_id, "last"):
        with open_agent(job_in(tmp_path / "boats", session=name, store=store), NOBODY):
            told = capsys.readouterr().err
            assert told.count("\n") == 1
            assert str(tmp_path / "kites") in told


def test_what_is_logged_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of the log does not run across what the person looks at; of summaries the agent itself tells."""
    told: list[RunEvent] = []
    log = logging.getLogger("infold.plugins.runner")
    with open_agent(job_in(tmp_path), UserInterface(told.append, lambda _: "no")):
        log.warning("the plugin %s failed", "kites")
        log.info("nothing to see")
        logging.getLogger(SUMMARIES).warning("the summariser failed")
    log.warning("told to nobody any more")

    assert told == [Notice("the plugin kites failed")]
    assert "kites" not in capsys.readouterr().err


def test_a_tenants_session_stays_the_tenants(tmp_path: Path) -> None:
    """B28: what a gateway kept for somebody is taken up as theirs, not begun anew under the same id."""
    job = job_in(tmp_path)
    (tmp_path / "kept").mkdir()
    key = SessionKey("tenant", SessionId("ferry"))
    with closing(SqliteStore(tmp_path / "kept" / "sessions.db")) as store:
        store.append(key, (MessageEntry(UserMessage(MessageId("m0"), (TextPart("Hello?"),))),), expected=0)
    with open_agent(replace(job, session="last"), NOBODY) as work:
        assert work.key == key
        assert len(work.session.log.live) == 1


def test_an_unknown_session_is_told(tmp_path: Path) -> None:
    """No new session begins under a mistyped id."""
    with (
        pytest.raises(UsageError, match="there is no session 'nope'"),
        open_agent(job_in(tmp_path, session="nope"), NOBODY),
    ):
        pass


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """Where the store cannot be, the remedy names the option."""
    (tmp_path / "file").touch()
    job = job_in(tmp_path, store=str(tmp_path / "file" / "below" / "sessions.db"))
    with pytest.raises(StoreBroken, match="name a writable place with --store"), open_agent(job, NOBODY):
        pass


def test_a_model_nobody_offers_is_told(tmp_path: Path) -> None:
    """A name that is in no catalogue needs a provider or an address."""
    job = job_in(tmp_path, model="frobnicator-9", base_url="")
    with pytest.raises(UsageError, match="unknown provider for model 'frobnicator-9'"), open_agent(job, NOBODY):
        pass


def test_an_agent_works(tmp_path: Path) -> None:
    """What was opened answers."""
    with ScriptedServer() as server, open_agent(job_in(tmp_path, base_url=f"{server.url}/v1"), NOBODY) as work:
        assert work.run("Hello?").text == "All is well."


@pytest.fixture
def hangups() -> Iterator[None]:
    """Hangups are heard, also where the tests themselves were started by something that ignores them."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", TERMINATING)
def test_signals_end_the_work(number: signal.Signals) -> None:
    """B13: within the block they raise, so that everything is put away; afterwards they do what they did."""
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, exit_on_signals():
        os.kill(os.getpid(), number)

    assert ended.value.code == 128 + number
    assert signal.getsignal(number) == before


@pytest.mark.usefixtures("hangups")
def test_a_second_hangup_breaks_nothing_off() -> None:
    """B13: shell and terminal both tell of a closed window, and what is being put away is put away."""
    kept: list[str] = []

    def put_away() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        kept.append("half an answer")

    stack = ExitStack()
    stack.callback(put_away)
    with pytest.raises(SystemExit), exit_on_signals(), stack:
        os.kill(os.getpid(), signal.SIGHUP)

    assert kept


def test_what_ignores_hangups_goes_on() -> None:
    """Under nohup a closed terminal ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with exit_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


# Trust.


def test_trust_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B41: a folder that brings something is asked about once, whatever the answer; --trust changes it for good."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    asked: list[tuple[Path, tuple[str, ...]]] = []

    def no(folder: Path, brought: Sequence[str]) -> bool:
        asked.append((folder, tuple(brought)))
        return False

    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    job = job_in(root)
    assert not decide_trust(job, no).trust  # nothing to trust, so nothing to ask
    (root / "AGENTS.md").write_text("Sing.")
    assert not decide_trust(job, None).trust
    assert asked == []
    assert [decide_trust(job, no).trust for _ in range(2)] == [False, False]
    assert asked == [(root, ("AGENTS.md",))]
    assert decide_trust(replace(job, trust=True), no).trust
    assert decide_trust(job, None).trust
    assert decide_trust(job_in(root / "sub"), None).trust
    assert len(asked) == 1


def test_settings_and_yes_trust_for_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B41: `agent.trust` and --yes hold for this process and leave no answer behind."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "AGENTS.md").write_text("Sing.")
    assert decide_trust(job_in(tmp_path, yes=True), None).trust
    with monkeypatch.context() as patch:
        patch.setenv("INFOLD_AGENT_TRUST", "1")
        assert decide_trust(job_in(tmp_path), None).trust

    assert not decide_trust(job_in(tmp_path), None).trust


def test_an_answer_that_cannot_be_kept_still_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """B41: where nothing can be written, the answer is for now, and the person is told."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    (tmp_path / "AGENTS.md").write_text("Sing.")

    assert decide_trust(job_in(tmp_path), lambda *_: True).trust
    assert "could not remember" in capsys.readouterr().err


def test_an_untrusted_folder_sets_nothing(tmp_path: Path) -> None:
    """B41: the settings of a folder count once it is trusted; until then not even a broken file is read."""
    (tmp_path / "infold.toml").write_text("window = 9000\n[permissions]\ndeny = ['read']\n")
    for trust, window in ((False, None), (True, 9_000)):
        with closing(MemoryStore()) as store:
            job = job_in(tmp_path, window=None, trust=trust)
            with open_agent_on(job, NOBODY, store, SessionKey("", SessionId("s"))) as work:
                assert (work.session.window_tokens == window) is (window is not None)
    (tmp_path / "infold.toml").write_text("nonsense [")
    with open_agent(job_in(tmp_path), NOBODY):
        pass


def test_a_project_deletes_no_sessions(tmp_path: Path) -> None:
    """B41, B27: limits in a project's file are never applied, even where it is trusted: they are refused."""
    (tmp_path / "infold.toml").write_text("[store_limits]\nmax_bytes = 1\n")
    job = job_in(tmp_path)
    key = SessionKey("", SessionId("old"))
    (tmp_path / "kept").mkdir()
    with closing(SqliteStore(tmp_path / "kept" / "sessions.db")) as store:
        store.append(key, [MessageEntry(UserMessage(MessageId("m"), (TextPart("Hello"),)))], expected=0)
    with open_agent(job, NOBODY) as work:
        assert [stored.key for stored in work.store.sessions("")] == [key]
    with pytest.raises(SettingsError, match="it deletes sessions"), open_agent(replace(job, trust=True), NOBODY):
        pass
