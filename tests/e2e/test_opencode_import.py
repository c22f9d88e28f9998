"""The real `opencode` imports what infold exports, and exports the same messages again.

`agents/install.sh` installs it once, into `.agents/`, as for `test_agents.py`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from infold.cli.render import to_json
from infold.core.entries import Checkpoint, Entry, MessageEntry, Pruning, Title, handle_of
from infold.core.messages import (
    Message,
    ModelRef,
    Part,
    SessionId,
    StepFinishPart,
    StepStartPart,
    Usage,
    WorkPath,
)
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import calls, numbered, replies, result, user
from infold.transcripts.registry import read_bytes, read_transcript
from infold.transcripts.write_opencode import to_opencode

from .agents.clients import AGENTS, PACKAGES, Home

pytestmark = [pytest.mark.slow, pytest.mark.long]

INSTALL = Path(__file__).parent / "agents" / "install.sh"
DATA = Path(__file__).parents[1] / "data" / "transcripts"
NOT_HERE = 3
"""The status of the installation where there is no npm, or no agent for this machine."""

MODEL = ModelRef("lab", "scripted-large")
RUN_SECONDS = 120


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A place where OpenCode is installed and knows nobody; where it cannot be installed, the tests are skipped."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("OpenCode is installed by npm, which is not here")
    ended = subprocess.run([str(INSTALL)], capture_output=True, text=True, check=False)
    if ended.returncode == NOT_HERE:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path_factory.mktemp("opencode")
    (folder / "own").mkdir()
    (folder / "work").mkdir()
    return Home(folder / "own", folder / "work", "http://127.0.0.1:9")


def opencode(home: Home, *words: str) -> str:
    """What OpenCode says; into a file, since it ends before a pipe has taken all of a long answer."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.own), "NO_PROXY": "127.0.0.1", "TERM": "dumb"}
    out = home.own / "out.txt"
    with out.open("wb") as stream:
        ended = subprocess.run(
            [str(next(PACKAGES.glob("opencode-linux-*/bin/opencode"))), *words],
            cwd=home.work,
            env={**environ, **AGENTS[0].environment(home)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.PIPE,
            timeout=RUN_SECONDS,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr.decode()
    return out.read_text("utf-8")


def passed_through(home: Home, document: dict[str, Any]) -> dict[str, Any]:
    """A document imported into OpenCode and exported from it."""
    file = home.own / "session.json"
    file.write_bytes(to_json(document))
    assert "Imported session" in opencode(home, "import", str(file))
    exported: dict[str, Any] = json.loads(opencode(home, "export", document["info"]["id"]))
    return exported


def test_an_exported_session_is_imported(home: Home, tmp_path: Path) -> None:
    """A stored session with steps, tools, a title and a compaction, through `infold export` and OpenCode and back."""
    place = tmp_path / "sessions.sqlite3"
    with SqliteStore(place) as store:
        store.append(SessionKey("", SessionId("kites")), lived(home.work), expected=0)
    file = tmp_path / "session.json"
    words = ("export", "kites", "--to", "opencode", "-o", str(file), "--store", str(place))
    subprocess.run([sys.executable, "-m", "infold", *words], check=True, capture_output=True, timeout=RUN_SECONDS)
    document = json.loads(file.read_bytes())
    exported = passed_through(home, document)
    (session,) = read_bytes(to_json(exported), name="x").sessions

    assert exported["messages"] == document["messages"]
    assert exported["info"]["title"] == session.title == "Paint the kite"
    assert [compaction.summary for compaction in session.compactions] == ["A red kite was wanted."]
    assert session.compactions[0].first_kept is not None


@pytest.mark.long
@pytest.mark.parametrize("name", ["opencode.json", "claude-code.jsonl", "codex.jsonl", "pi.jsonl", "gemini-cli.json"])
def test_other_agents_sessions_are_imported(home: Home, name: str) -> None:
    """What `infold convert --to opencode` makes of other agents' sessions comes back as it was written."""
    document = to_opencode(read_transcript(DATA / name).sessions[0])

    assert passed_through(home, document)["messages"] == document["messages"]


def lived(root: Path) -> list[Entry]:
    """A session as infold's agent leaves it: steps marked, one result pruned, the first turn folded, the last broken off."""
    where, usage = WorkPath(str(root), str(root)), Usage(1_200, 50, 7, 300, 0)
    known = {"model": MODEL, "path": where, "usage": usage, "cost": 0.0123, "agent": "build", "mode": "build"}
    drafts = (
        user("Paint the kite red."),
        replace(_marked(calls("bash", "read", arguments='{"path":"kite.py"}'), StepStartPart("a" * 40)), **known),
        result(output="ok"),
        _marked(result(output="gone", status="error"), StepFinishPart("tool-calls", "b" * 40, usage, 0.0123)),
        replace(
            _marked(replies("Painted.", reasoning="red it is"), StepStartPart("b" * 40), StepFinishPart("stop")),
            **known,
        ),
        user("And the string?"),
        replace(calls("bash"), **known),
        result(output="half", status="interrupted"),
        user("Well?"),
        replace(replies("Blu", finish="abort"), **known),
    )
    said: list[Entry] = [
        MessageEntry(replace(message, created_ms=1_767_607_200_000 + 1_000 * number))
        for number, message in enumerate(numbered(drafts))
    ]
    folded = (Pruning((handle_of(3, 0),), 300), Checkpoint("A red kite was wanted.", first_kept=6, tokens_before=9_000))
    return [said[0], Title("Paint the kite"), *said[1:7], *folded, *said[7:]]


def _marked(message: Message, *parts: Part) -> Message:
    return replace(message, parts=(*message.parts, *parts))
