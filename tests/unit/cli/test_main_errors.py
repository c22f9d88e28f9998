"""Whatever goes wrong in a verb is told in one line, and the status says who is to blame."""

import errno
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from infold.cli.main import EXTRAS, LazyGroup, Verb, main


def fail(kind: str) -> Result:
    """The outcome of a verb that fails in that way."""
    group = LazyGroup(name="infold", verbs={"burst": Verb(f"{__name__}:burst", "Fail.")})
    return CliRunner().invoke(group, ["burst", kind])


@pytest.mark.parametrize("kind", ["os", "bug", "click", "deep"])
def test_a_failure_is_one_line_and_status_1(kind: str) -> None:
    """A full disk, a mistake of ours and too deep a nesting are lines, never tracebacks."""
    told = fail(kind)

    assert told.exit_code == 1
    assert len(told.stderr.splitlines()) == 1
    assert "Traceback" not in told.output


def test_a_mistake_of_ours_names_its_kind() -> None:
    """What nobody foresaw says so, for the report that will be made of it."""
    assert "infold failed (ValueError): two lines" in fail("bug").stderr


def test_a_missing_package_names_the_extra_that_brings_it() -> None:
    """A verb whose extra is not installed says what to install; of a package nobody knows, only its name."""
    assert fail("extra").stderr == "Error: uvicorn is not installed; pip install 'infold[gateway]'\n"
    assert fail("package").stderr == "Error: kite is not installed\n"


def test_every_package_of_a_verbs_extras_is_known() -> None:
    """Whatever an extra of a verb requires, its absence names an extra that installs it."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {
        re.split(r"[\[><=~ ]", requirement)[0].replace("-", "_")
        for extra in ("agent", "cli", "gateway", "mcp", "openai", "postgres")
        for requirement in extras[extra]
    }

    assert names - {"infold"} <= EXTRAS.keys()
    assert set(EXTRAS.values()) <= extras.keys()


def test_a_verb_may_choose_its_status() -> None:
    """A status that a verb ends with is passed on as it is."""
    assert fail("exit").exit_code == 3


def test_a_reader_that_left_is_no_error_to_tell() -> None:
    """A closed pipe ends quietly, with status 0."""
    assert (fail("pipe").stderr, fail("pipe").exit_code) == ("", 0)


def test_a_program_that_ends_itself_keeps_its_status() -> None:
    """A status that was not set because of a closed pipe is passed on."""
    assert fail("ended").exit_code == 4


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("models",), ("--help",), ("models", "--json")])
def test_output_to_head_ends_quietly(arguments: Sequence[str]) -> None:
    """`infold … | head` leaves no message and no error status, whatever wrote the output."""
    command = [sys.executable, "-m", "infold", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


def test_a_misspelt_verb_is_refused_with_the_nearest() -> None:
    """A verb that does not exist is refused with those that are spelt almost so."""
    done = CliRunner().invoke(main, ["inspekt"])

    assert (done.exit_code, "No such command 'inspekt'; did you mean 'inspect'?" in done.stderr) == (2, True)
    assert "did you mean" not in CliRunner().invoke(main, ["xyzzy"]).stderr


@click.command()
@click.argument("kind")
def burst(kind: str) -> None:
    """Fail."""
    failures: dict[str, BaseException] = {
        "os": OSError(errno.ENOSPC, "No space left on device"),
        "pipe": BrokenPipeError(errno.EPIPE, "Broken pipe"),
        "bug": ValueError("two\nlines"),
        "deep": RecursionError("too deep"),
        "extra": ModuleNotFoundError("no", name="uvicorn.config"),
        "package": ModuleNotFoundError("no", name="kite"),
        "click": click.ClickException("told"),
        "exit": click.exceptions.Exit(3),
        "ended": SystemExit(4),
    }
    raise failures[kind]
