"""The command `infold` finds its verbs and tells errors in one line."""

import subprocess
import sys
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from infold.cli.main import VERBS, LazyGroup, Verb, main
from infold.errors import WindowExceeded


def test_the_version_is_the_packages() -> None:
    """`infold --version` names the program and its version."""
    assert CliRunner().invoke(main, ["--version"]).output == f"infold {version('infold')}\n"


def test_help_lists_every_verb() -> None:
    """Each verb stands in the help with its line."""
    output = CliRunner().invoke(main, ["--help"]).output

    assert all(name in output and verb.help in output for name, verb in VERBS.items())


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_can_be_imported(name: str) -> None:
    """The table names a command for each verb."""
    assert main.get_command(click.Context(main), name) is not None


@pytest.mark.slow
def test_help_imports_no_verb() -> None:
    """Listing the verbs loads none of them, nor what they draw with."""
    script = (
        "import sys\nfrom infold.cli.main import main\nmain(['--help'], standalone_mode=False)\n"
        "sys.exit('rich' in sys.modules or 'infold.cli.demo' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("arguments", "named"), [(["nothing"], "nothing"), (["--nothing"], "--nothing")])
def test_bad_usage_is_told_in_one_line(arguments: list[str], named: str) -> None:
    """A verb or option that does not exist ends with status 2 and one line that points to the help."""
    told = CliRunner().invoke(main, arguments)

    assert told.exit_code == 2
    assert len(told.stderr.splitlines()) == 1
    assert named in told.stderr
    assert "infold --help" in told.stderr


def test_nothing_said_shows_the_help() -> None:
    """`infold` alone shows what there is to ask for."""
    told = CliRunner().invoke(main, [])

    assert told.exit_code == 2
    assert "demo" in told.output


def test_an_error_of_ours_is_one_line_and_status_1() -> None:
    """What infold raises is told without a traceback."""
    told = CliRunner().invoke(LazyGroup(name="infold", verbs={"burst": Verb(f"{__name__}:burst", "Fail.")}), ["burst"])

    assert told.exit_code == 1
    assert len(told.stderr.splitlines()) == 1
    assert "choose a larger model" in told.stderr


@click.command()
def burst() -> None:
    """Fail."""
    raise WindowExceeded(floor_tokens=9_000, usable_tokens=8_000, overhead_tokens=100)
