"""B41: `infold run` keeps its keys from the commands it runs, also by way of `/proc`, and its data from other users."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infold.core.messages import ToolResultPart
from infold.testing.script import Say
from infold.testing.scripted_server import ScriptedServer

from .agent_stage import LIMIT_SECONDS, Director, base_of, place_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and prctl are Linux's"),
]

NOBODY = 65534
ONLY_TO_FIND_PYTHON = "-all,+dac_read_search"
"""The one capability left: Python itself may lie in a folder of root's. It does not open `/proc`."""

KEY = "sk-of-this-test-alone"
LOOK = (
    "for place in /proc/[0-9]*; do "
    f'if tr "\\0" "\\n" < $place/environ | grep -q {KEY}; then echo "$place has it"; fi; '
    "done 2>/dev/null; echo looked"
)


def as_ordinary_user(folder: Path) -> list[str]:
    """What stands before a command so that it runs without root's rights, as the owner of everything in a folder."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv, which gives up root's rights, is not installed")
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(folder)], check=True)
    capabilities = (f"--{kind}={ONLY_TO_FIND_PYTHON}" for kind in ("inh-caps", "bounding-set", "ambient-caps"))
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *capabilities]


def test_no_process_shows_a_command_the_keys(tmp_path: Path) -> None:
    """B41: a command that looks into every process of the user, the agent's among them, finds no key of a provider."""
    place = place_in(tmp_path)
    director = Director([Say(calls=(("shell", {"command": LOOK}),)), Say("Done.")])
    with ScriptedServer(director) as server:
        ran = subprocess.run(
            [
                *as_ordinary_user(tmp_path),
                *(sys.executable, "-m", "infold", "run", "Look around.", "--yes"),
                *("--model", "openai-chat/m", "--base-url", base_of("openai-chat", server.url)),
            ],
            cwd=place.root,
            env={**place.environ, "OPENAI_API_KEY": KEY},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )

    assert ran.returncode == 0, ran.stderr
    result = director.main[-1].messages[-1].parts[-1]
    assert isinstance(result, ToolResultPart)
    assert result.output == "looked"


def test_data_are_for_their_owner_alone(tmp_path: Path) -> None:
    """B41: infold's folders and files are closed to others, whatever the umask."""
    place = place_in(tmp_path, {"AGENTS.md": "Be kind.\n"})
    with ScriptedServer(Director([Say("Done.")])) as server:
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "infold", "run", "Look around.", "--trust"),
                *("--model", "openai-chat/m", "--base-url", base_of("openai-chat", server.url)),
            ],
            cwd=place.root,
            env=place.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            umask=0,
        )
    made = [place.home / "data", *(place.home / "data").glob("*"), *(place.home / "data" / "infold").glob("*")]
    (repository,) = (path for path in (place.home / "data" / "infold" / "snapshots").iterdir() if path.is_dir())

    assert ran.returncode == 0, ran.stderr
    assert {path.name for path in made} >= {"data", "infold", "sessions.sqlite3", "snapshots", "trust.json"}
    assert [path for path in (*made, repository) if path.stat().st_mode & 0o077] == []
