"""The command as a user starts it: the installed `infold`, a process of its own, its output a pipe."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DATA = PROJECT / "tests" / "data" / "transcripts"
GUIDE = PROJECT / "docs" / "guides" / "transcripts.md"
INFOLD = Path(sys.executable).with_name("infold")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INFOLD.exists(), reason="the command is not installed beside this Python"),
]


def start(*arguments: object, cwd: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Run `infold` to its end."""
    command = [str(INFOLD), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, check=False, timeout=60, cwd=cwd, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("inspect", DATA / "pi.jsonl"), b"By category"),
        (("compact", DATA / "codex.jsonl", "--window", "8k"), b"fits"),
        (("convert", DATA / "pi.jsonl", "--to", "markdown"), b"# Session pi-1"),
        (("recall", DATA / "claude-code.jsonl", "kites"), b"kite"),
        (("models", "gpt-4o"), b"window: 128,000 tokens"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_each_verb_runs(arguments: tuple[object, ...], shown: bytes) -> None:
    """A pipe gets plain lines without control characters, and status 0."""
    ended = start(*arguments)

    assert ended.returncode == 0
    assert shown in ended.stdout
    assert b"\x1b" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_poor_terminal_is_no_crash(encoding: str) -> None:
    """What the encoding cannot show becomes a question mark; JSON and converted text stay UTF-8."""
    page = start("recall", DATA / "specstory.md", "kite", PYTHONIOENCODING=encoding)
    converted = start("convert", DATA / "specstory.md", "--to", "jsonl", PYTHONIOENCODING=encoding)

    assert (page.returncode, converted.returncode) == (0, 0)
    assert all(json.loads(line) for line in converted.stdout.decode("utf-8").splitlines())


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("inspect", PROJECT / "pyproject.toml"), 1),
        (("compact", DATA / "swe-agent.traj"), 1),
        (("recall", DATA / "pi.jsonl"), 2),
        (("convert", DATA / "none.jsonl", "--to", "jsonl"), 2),
        (("models", "--nothing"), 2),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_a_failure_is_one_line(arguments: tuple[object, ...], status: int) -> None:
    """Nothing on stdout, one line on stderr, no traceback."""
    ended = start(*arguments)

    assert (ended.returncode, ended.stdout) == (status, b"")
    assert len(ended.stderr.splitlines()) == 1
    assert b"Traceback" not in ended.stderr


def test_a_reader_that_leaves_is_no_crash() -> None:
    """`infold … | head -1` ends quietly."""
    command = f"{shlex.quote(str(INFOLD))} models | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=60)

    assert ended.stderr == b""
    assert len(ended.stdout.splitlines()) == 1


def commands() -> list[list[str]]:
    """Every command of the guide, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


def test_the_commands_of_the_guide_run(tmp_path: Path) -> None:
    """Each command of the guide to transcripts, one after the other, ends with status 0 and says something."""
    (tmp_path / "session.jsonl").write_bytes((DATA / "claude-code.jsonl").read_bytes())
    request = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Count kites."}]}
    (tmp_path / "request.json").write_text(json.dumps(request), "utf-8")
    for command in commands():
        ended = start(*command, cwd=tmp_path)
        assert ended.returncode == 0, (command, ended.stderr)
        assert ended.stdout or ended.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"small.json", "smaller.json", "session.md", "log.jsonl"}
    assert len(commands()) > 15
