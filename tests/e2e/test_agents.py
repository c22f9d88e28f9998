"""Real coding agents, unchanged, through `infold serve`: each does its work and never outgrows the window.

The agents are told of a window that they never fill, so that their own compaction stays out of reach; the upstream refuses what
is larger than a small one. `agents/install.sh` installs them once, into `.agents/`.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from .agents.clients import AGENTS, Agent, reason_missing
from .agents.runs import FEW_FILES, LARGE_WINDOW, check_finished, check_small, check_untouched, work

pytestmark = [pytest.mark.slow, pytest.mark.long]

INSTALL = Path(__file__).parent / "agents" / "install.sh"
NOT_HERE = 3
"""The status of the installation where there is no npm, or no agent for this machine."""

ONE_OF_EACH = (AGENTS[0], AGENTS[2], AGENTS[4])
"""One agent by chat completions, one by responses and one by messages."""


def name_of(agent: Agent) -> str:
    """What an agent is called in a test's name."""
    return agent.name


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """The agents, installed on first use; where that is not possible, the tests are skipped."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("the agents need Node.js 20 or newer with npm, which is not installed")
    ended = subprocess.run([str(INSTALL)], capture_output=True, text=True, check=False)
    if ended.returncode == NOT_HERE:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(autouse=True)
def is_here(request: pytest.FixtureRequest) -> None:
    """The agent of a test; where it could not be installed, the test is skipped with the reason."""
    if reason := reason_missing(request.getfixturevalue("agent")):
        pytest.skip(reason)


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_agent_works_below_its_window(agent: Agent, tmp_path: Path) -> None:
    """B29: an agent finishes its task through the gateway, streaming and with tools, and nothing is compacted."""
    ended = work(agent, tmp_path, FEW_FILES, window=LARGE_WINDOW)

    check_finished(ended)
    check_untouched(ended)


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_agent_works_past_its_window(agent: Agent, tmp_path: Path) -> None:
    """B7: an agent whose work is larger than the window finishes it; no request is too large, and each holds the user's rule."""
    ended = work(agent, tmp_path, agent.many_files, window=agent.window)

    check_finished(ended)
    check_small(ended)


@pytest.mark.parametrize("agent", ONE_OF_EACH, ids=name_of)
def test_agent_goes_on_after_a_restart(agent: Agent, tmp_path: Path) -> None:
    """An agent that goes on with its session through a gateway just started finds it as it was left, compacted."""
    ended = work(agent, tmp_path, agent.many_files, FEW_FILES, window=agent.window)

    check_finished(ended)
    check_small(ended)


@pytest.mark.parametrize("agent", ONE_OF_EACH, ids=name_of)
def test_agent_works_past_a_window_nobody_knew(agent: Agent, tmp_path: Path) -> None:
    """B8: where the upstream holds less than was said, its refusal is recovered within the request, unseen by the agent."""
    ended = work(agent, tmp_path, agent.many_files, window=agent.window, told_window=2 * agent.window)
    accepted = [request for request in ended.main if request.tokens <= agent.window]

    check_finished(ended)
    assert len(accepted) == agent.many_files + 2
    assert len(ended.main) - len(accepted) <= 2
