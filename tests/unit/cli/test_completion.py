"""A shell completes verbs, options and their values, by the scripts that the guide installs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from click.testing import CliRunner

from infold.cli.main import VERBS, main

from .stored_sessions import KITE, environ_of, keep, kite_entries

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}


def completed(words: list[str], incomplete: str) -> list[str]:
    """What the shell offers after these words."""
    shell = BashComplete(main, {}, "infold", "_INFOLD_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        ([], "in", {"init", "inspect"}),
        ([], "", set(VERBS)),
        (["serve"], "--ver", {"--verbose"}),
        (["convert", "x.jsonl"], "--", {"--to", "--format", "--session", "--force", "--help"}),
        (["convert", "--to"], "mark", {"markdown"}),
        (["compact", "--model"], "claude-sonnet-4-5", {"claude-sonnet-4-5", "claude-sonnet-4-5-20250929"}),
        (["models"], "gpt-4o-mini", {"gpt-4o-mini"}),
        (["nothing"], "--", {"--help"}),
        (["inspekt"], "--", {"--help"}),
    ],
)
def test_what_can_follow_is_offered(words: list[str], incomplete: str, offered: set[str]) -> None:
    """Verbs, options, choices and names of models; after a verb that does not exist there is no error."""
    found = set(completed(words, incomplete))

    assert offered <= found
    assert all(value.startswith(incomplete) for value in found)


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_script(shell: str) -> None:
    """The documented line prints a script that asks the command again, in that shell's form."""
    script = CliRunner(env={"_INFOLD_COMPLETE": f"{shell}_source"}).invoke(main, [], prog_name="infold").stdout

    assert f"_INFOLD_COMPLETE={shell}_complete" in script
    assert "infold" in script


@pytest.mark.parametrize(
    ("shell", "environ", "offered"),
    [
        ("bash", {"COMP_WORDS": "infold in", "COMP_CWORD": "1"}, "plain,inspect\n"),
        ("zsh", {"COMP_WORDS": "infold in", "COMP_CWORD": "1"}, f"plain\ninspect\n{VERBS['inspect'].help}\n"),
        ("fish", {"COMP_WORDS": "infold in", "COMP_CWORD": "in"}, "inspect"),
    ],
)
def test_each_shell_is_answered(shell: str, environ: dict[str, str], offered: str) -> None:
    """What the script asks is answered in the form that its shell reads."""
    asked = CliRunner(env={"_INFOLD_COMPLETE": f"{shell}_complete", **environ}).invoke(main, [], prog_name="infold")

    assert offered in asked.stdout
    assert asked.stderr == ""


def test_stored_sessions_are_offered_with_their_titles(tmp_path: Path) -> None:
    """The ids that begin so, and `last`; without a store or for another beginning nothing."""
    asked = {"_INFOLD_COMPLETE": "zsh_complete", "COMP_CWORD": "2"}

    def offered(words: str) -> str:
        return CliRunner(env={**environ_of(tmp_path), **asked, "COMP_WORDS": words}).invoke(main, []).stdout

    assert offered("infold show x").strip() == ""
    keep(tmp_path, {KITE: kite_entries()})
    assert f"plain\n{KITE}\nPaint the kite\n" in offered(f"infold show {KITE[:3]}")
    assert "plain\nlast\n" in offered("infold delete la")


@pytest.mark.slow
def test_completing_a_verb_imports_none() -> None:
    """A key press takes no longer than the help."""
    script = (
        "import sys\nfrom infold.cli.main import main\n"
        "try: main(prog_name='infold')\nexcept SystemExit: pass\n"
        "sys.exit('rich' in sys.modules or 'infold.cli.inspect' in sys.modules)"
    )
    asked = {"_INFOLD_COMPLETE": "bash_complete", "COMP_WORDS": "infold ", "COMP_CWORD": "1"}
    run = subprocess.run([sys.executable, "-c", script], env={**os.environ, **asked}, capture_output=True, check=False)

    assert run.returncode == 0
    assert b"plain,doctor" in run.stdout


@pytest.mark.slow
def test_bash_completes_in_practice(tmp_path: Path) -> None:
    """The script in a real bash fills the reply with the verbs that begin so."""
    command = tmp_path / "infold"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m infold "$@"\n', "utf-8")
    command.chmod(0o755)
    script = (
        'eval "$(_INFOLD_COMPLETE=bash_source infold)"; COMP_WORDS=(infold ins); COMP_CWORD=1; '
        '_infold_completion infold; echo "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=True, timeout=60)

    assert run.stdout == "inspect\n"
