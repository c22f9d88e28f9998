"""`infold chat` says what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from infold.cli.main import main

WITHOUT = (
    "import sys; sys.modules['prompt_toolkit'] = None; from infold.cli.chat.verb import _import_app; _import_app()"
)


def test_without_a_terminal_run_is_named() -> None:
    """Where nobody can type or see, the verb for pipes is named in one line."""
    outcome = CliRunner().invoke(main, ["chat"], input="hello\n")

    assert outcome.exit_code == 1
    assert outcome.output == 'Error: infold chat needs a terminal; without one use: infold run "what to do"\n'


@pytest.mark.slow
def test_without_its_extra_the_command_to_install_is_named(tmp_path: Path) -> None:
    """Where prompt_toolkit is missing, the error says what to install."""
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=tmp_path)

    assert "pip install 'infold[agent]'" in ran.stderr.splitlines()[-1]
