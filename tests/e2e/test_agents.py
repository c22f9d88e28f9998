"""Real coding agents, unchanged, through `infold serve`: OpenCode, Codex and pi do their work and never outgrow the window.

The agents are told of a window that they never fill, so that their own compaction stays out of reach; the upstream refuses what
is larger than a small one. `agents/install.sh` installs them once, into `.agents/`.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct
from tests.support.provider_rules import problems

from infold.core.entries import Checkpoint, Clipping, Entry, MessageEntry, Pruning
from infold.core.messages import calls_of
from infold.formats.registry import format_named
from infold.stores.sqlite import SqliteStore
from infold.testing.script import ScriptedRequest
from infold.testing.scripted_server import ScriptedServer

from .agents.clients import AGENTS, Agent, Finished, Home, run
from .agents.jobs import NEXT_TASK, RULE, TASK, TOTAL, Job, is_main, make_files
from .agents.serving import serving

pytestmark = [pytest.mark.slow, pytest.mark.long]

INSTALL = Path(__file__).parent / "agents" / "install.sh"
NOT_HERE = 3
"""The status of the installation where there is no npm, or no agent for this machine."""

WINDOW = 20_000
LARGE_WINDOW = 200_000
FEW_FILES, MANY_FILES, SHIPS = 2, 18, 60
"""Files of some 1,300 tokens each: many are more than the window holds, beside an agent's own prompt."""

ONE_OF_EACH = (AGENTS[0], AGENTS[2], AGENTS[4])
"""Each agent once: by chat completions, responses and messages."""

COMPACTIONS = (Checkpoint, Pruning, Clipping)


def name_of(agent: Agent) -> str:
    """What an agent is called in a test's name."""
    return agent.name


class Ended(Struct, frozen=True):
    """A run: how it ended, what the upstream was asked, and the sessions that the gateway kept of it."""

    finished: Finished
    total: str
    requests: tuple[ScriptedRequest, ...]
    sessions: dict[str, tuple[Entry, ...]]

    @property
    def main(self) -> list[ScriptedRequest]:
        """The requests of the agent's own loop."""
        return [request for request in self.requests if is_main(request)]

    @property
    def work(self) -> list[tuple[Entry, ...]]:
        """The sessions in which a tool was called."""
        return [entries for entries in self.sessions.values() if any(map(_has_calls, entries))]


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """The agents, installed on first use; where that is not possible, the tests are skipped."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("the agents need Node.js 20 or newer with npm, which is not installed")
    ended = subprocess.run([str(INSTALL)], capture_output=True, text=True, check=False)
    if ended.returncode == NOT_HERE:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr


def work(agent: Agent, folder: Path, *files: int, window: int, told_window: int | None = None) -> Ended:
    """Let an agent count the ships in so many files, through a gateway told of a window, to an upstream that has one.

    Further numbers are further tasks of the same session, each through a gateway that was just started.
    """
    home = [folder / name for name in ("own", "work", "gateway")]
    for place in home:
        place.mkdir()
    make_files(home[1], max(files), SHIPS)
    total = home[1] / "total.txt"
    with ScriptedServer(Job(agent.shell, *files), window_tokens=window) as upstream:
        for number in range(len(files)):
            total.unlink(missing_ok=True)
            command = agent.again(NEXT_TASK) if number else agent.command(TASK)
            with serving(home[2], upstream.url, told_window or window) as address:
                finished = run(agent, Home(home[0], home[1], address), command)
    return Ended(finished, total.read_text() if total.exists() else "", upstream.requests, _sessions(home[2]))


def _sessions(folder: Path) -> dict[str, tuple[Entry, ...]]:
    with SqliteStore(next(folder.glob("*.sqlite3"))) as store:
        keys = [stored.key for tenant in store.tenants() for stored in store.sessions(tenant)]
        return {key.session_id: tuple(entry for _, entry in store.newest_first(key)) for key in keys}


def _has_calls(entry: Entry) -> bool:
    return isinstance(entry, MessageEntry) and bool(calls_of(entry.message))


def check_finished(ended: Ended) -> None:
    """The work is done, by the agent's own tools, and kept as one session."""
    assert ended.finished.status == 0, ended.finished
    assert ended.total.strip() == str(TOTAL), ended.finished
    assert len(ended.work) == 1, {name: len(entries) for name, entries in ended.sessions.items()}
    for request in ended.main:
        wire = format_named(request.format)
        assert problems(wire, request.body[wire.items_field]) == ()
        assert RULE in msgspec.json.encode(request.body[wire.items_field]).decode()


def check_small(ended: Ended) -> None:
    """The session was compacted, no request was too large, and only compactions break the provider's cache."""
    compactions = sum(isinstance(entry, COMPACTIONS) for entry in ended.work[0])
    assert compactions > 0
    assert max(request.tokens for request in ended.requests) <= WINDOW
    assert breaks(ended.main) <= compactions


def items_of(request: ScriptedRequest) -> list[str]:
    """The messages of a request as text, without the marks for the provider's cache, which agents move."""
    items = request.body[format_named(request.format).items_field]
    return [json.dumps(_unmarked(item), sort_keys=True) for item in items]


def _unmarked(value: object) -> object:
    if isinstance(value, dict):
        return {name: _unmarked(inner) for name, inner in value.items() if name != "cache_control"}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value


def breaks(requests: Sequence[ScriptedRequest]) -> int:
    """How often a request does not go on from the one before it."""
    pairs = pairwise(map(items_of, requests))
    return sum(later[: len(earlier)] != earlier for earlier, later in pairs)


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_agent_works_below_its_window(agent: Agent, tmp_path: Path) -> None:
    """B29: an agent finishes its task through the gateway, streaming and with tools, and nothing is compacted."""
    ended = work(agent, tmp_path, FEW_FILES, window=LARGE_WINDOW)

    check_finished(ended)
    assert breaks(ended.main) == 0
    assert all(isinstance(entry, MessageEntry) for entry in ended.work[0])


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_agent_works_past_its_window(agent: Agent, tmp_path: Path) -> None:
    """B7: an agent whose work is larger than the window finishes it; no request is too large, and each holds the user's rule."""
    ended = work(agent, tmp_path, MANY_FILES, window=WINDOW)

    check_finished(ended)
    check_small(ended)


@pytest.mark.parametrize("agent", ONE_OF_EACH, ids=name_of)
def test_agent_goes_on_after_a_restart(agent: Agent, tmp_path: Path) -> None:
    """An agent that goes on with its session through a gateway just started finds it as it was left, compacted."""
    ended = work(agent, tmp_path, MANY_FILES, FEW_FILES, window=WINDOW)

    check_finished(ended)
    check_small(ended)


@pytest.mark.parametrize("agent", ONE_OF_EACH, ids=name_of)
def test_agent_works_past_a_window_nobody_knew(agent: Agent, tmp_path: Path) -> None:
    """B8: where the upstream holds less than was said, its refusal is recovered within the request, unseen by the agent."""
    ended = work(agent, tmp_path, MANY_FILES, window=WINDOW, told_window=2 * WINDOW)
    accepted = [request for request in ended.main if request.tokens <= WINDOW]

    check_finished(ended)
    assert len(accepted) == MANY_FILES + 2
    assert len(ended.main) - len(accepted) <= 2
