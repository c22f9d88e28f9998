"""`infold export` writes a stored session for others."""

import json
import shutil
from pathlib import Path

import pytest

from infold import Session, SessionSettings, Window
from infold.agent.trust import default_snapshot_folder
from infold.core.entries import Checkpoint, decode_entry
from infold.core.events import Compacted
from infold.core.messages import SessionId
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.transcripts.registry import read_bytes

from .stored_sessions import KITE, folded_entries, infold, keep, kite_entries, painted


def exported(home: Path, shape: str) -> bytes:
    """The session in that shape."""
    keep(home, {KITE: kite_entries()})
    told = infold(home, "export", "last", "--to", shape)
    assert told.exit_code == 0, told.stderr
    return told.stdout_bytes


def test_markdown_is_for_people(tmp_path: Path) -> None:
    """The title, everything that was said, and the compaction where it happened."""
    page = exported(tmp_path, "markdown").decode()

    assert page.startswith(f"# Paint the kite\n\nSession {KITE}\n\n## User\n")
    assert "line 19" in page
    assert "## Compaction\n\nA red kite was wanted.\n\n## User\n\nAnd the string?" in page


def test_jsonl_is_the_log(tmp_path: Path) -> None:
    """B1: every entry is a line, and read as a file it is the session it was."""
    lines = exported(tmp_path, "jsonl")

    assert [decode_entry(line) for line in lines.splitlines()] == kite_entries()
    (session,) = read_bytes(lines, name="x").sessions
    assert (session.id, session.title, len(session.messages), len(session.compactions)) == (
        KITE,
        "Paint the kite",
        6,
        1,
    )


def test_kept_steps_are_in_the_log_alone(tmp_path: Path) -> None:
    """B1, B52: a line of the log has the steps that its fold kept; other shapes have each message once, where it was said, and
    the fold's text without the line that announces steps."""
    keep(tmp_path, {KITE: folded_entries()})
    shapes = {
        shape: infold(tmp_path, "export", "last", "--to", shape).stdout_bytes
        for shape in ("jsonl", "markdown", "opencode")
    }
    entries = [decode_entry(line) for line in shapes["jsonl"].splitlines()]

    assert entries == folded_entries()
    assert isinstance(entries[-1], Checkpoint)
    assert [step.sequence for step in entries[-1].steps] == [3, 5]
    for shape in ("markdown", "opencode"):
        page = shapes[shape].decode()
        assert "A red kite was wanted." in page
        assert "excerpts of earlier steps" not in page
        assert [page.count(f"make part-{number}") for number in range(3)] == [1, 1, 1]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_opencode_has_the_files_that_a_turn_changed(tmp_path: Path) -> None:
    """S6.1: in the summary of the user message that began the turn; where the snapshots are gone, nothing is there."""
    painted(tmp_path)
    asked = json.loads(infold(tmp_path, "export", KITE, "--to", "opencode").stdout)["messages"][0]["info"]
    shutil.rmtree(default_snapshot_folder({"HOME": str(tmp_path)}))
    gone = json.loads(infold(tmp_path, "export", KITE, "--to", "opencode").stdout)["messages"]

    assert [(one["file"], one["after"], one["additions"], one["deletions"]) for one in asked["summary"]["diffs"]] == [
        ("kite.png", "", 0, 0),
        ("kite.py", "one\ntwo\tred\n", 1, 0),
    ]
    assert not any("summary" in message["info"] for message in gone if message["info"]["role"] == "user")


def test_opencode_has_its_own_shape(tmp_path: Path) -> None:
    """What `opencode import` takes: the title, and a compaction as request and summary."""
    document = json.loads(exported(tmp_path, "opencode"))
    kinds = [[part["type"] for part in message["parts"]] for message in document["messages"]]

    assert document["info"]["title"] == "Paint the kite"
    assert kinds == [
        ["text"],
        ["step-start", "tool", "step-finish"],
        ["reasoning", "text"],
        ["compaction"],
        ["text"],
        ["text"],
        ["step-start", "text", "step-finish"],
    ]


def test_a_session_without_a_title_is_named_by_its_words(tmp_path: Path) -> None:
    """S6.2: what code makes of the first message stands where no title was given."""
    keep(tmp_path, {"plain": kite_entries()[:1]})
    document = json.loads(infold(tmp_path, "export", "plain", "--to", "opencode").stdout)

    assert document["info"]["title"] == "Paint the kite red. Never touch vendor/."


def test_a_file_is_written_whole_and_once(tmp_path: Path) -> None:
    """-o writes beside and moves into place; another file is overwritten by --force alone, the store never."""
    place = keep(tmp_path, {KITE: kite_entries()})
    out = tmp_path / "kite.md"
    command = ("export", KITE, "--to", "markdown", "-o")

    assert infold(tmp_path, *command, out).stderr == f"written to {out}\n"
    assert out.read_text().startswith("# Paint the kite")
    assert "add --force" in infold(tmp_path, *command, out).stderr
    assert infold(tmp_path, *command, out, "--force").exit_code == 0
    assert "never overwritten" in infold(tmp_path, *command, place, "--force").stderr


@pytest.mark.parametrize("policy", ["opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive", "infold"])
def test_each_compaction_is_asked_for_once(tmp_path: Path, policy: str) -> None:
    """S3.1: OpenCode gets one request and one summary for each compaction that a session lived through."""
    told: list[Compacted] = []
    settings = SessionSettings(
        window=Window(40_000, output_tokens=4_000),
        policy=policy,
        format="openai-chat",
        summariser=lambda _: "The pages were read one after the other; the next one is to be read now.",
        on_compacted=told.append,
    )
    store = MemoryStore()
    session = Session(store, KITE, settings)
    for n in range(6):
        session.prepare_new([{"role": "user", "content": f"Read page {n}. " * 900}])
        message = {"role": "assistant", "content": "Read it. " * 900}
        usage = {"prompt_tokens": 38_000, "completion_tokens": 100, "total_tokens": 38_100}
        session.record({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})
    entries = [entry for _, entry in store.newest_first(SessionKey("", SessionId(KITE)))][::-1]
    keep(tmp_path, {KITE: entries})
    document = json.loads(infold(tmp_path, "export", "last", "--to", "opencode").stdout_bytes)
    parts = [part["type"] for message in document["messages"] for part in message["parts"]]
    summaries = [message for message in document["messages"] if message["info"].get("summary")]

    assert len(told) >= 2
    assert (parts.count("compaction"), len(summaries)) == (len(told), len(told))
