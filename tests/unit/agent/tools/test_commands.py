"""Shell commands taken apart."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infold.agent.tools.commands import parse_command, split_words


@pytest.mark.parametrize(
    ("command", "pieces"),
    [
        ("git status", ["git status"]),
        ("a; b && c || d | e & f\ng", list("abcdefg")),
        ("a|&b;;c", list("abc")),
        ("echo 'a; b' \"c | d\" e\\;f", ["echo 'a; b' \"c | d\" e\\;f"]),
        ('echo "a \\" ; b"', ['echo "a \\" ; b"']),
        ("make 2>&1 | tail -5", ["make", "tail -5"]),
        ("make >/dev/null 2> /dev/null; ls", ["make", "ls"]),
        ("make &>/dev/null", ["make"]),
        ("git log -1>/dev/null", ["git log -1"]),
        ('echo $HOME "$HOME" cost: 5$', ['echo $HOME "$HOME" cost: 5$']),
        ("  \n ", []),
    ],
)
def test_plain_commands_are_understood(command: str, pieces: list[str]) -> None:
    """Operators part a line; quotes and escapes keep it together; redirections to nowhere are left out."""
    assert parse_command(command) == (tuple(pieces), True)


@pytest.mark.parametrize(
    "command",
    [
        "git status > file",
        "git status >> file",
        "git status >&file",
        "git status < file",
        "cat <<EOF\nx\nEOF",
        "echo $(rm x)",
        'echo "$(rm x)"',
        "echo `rm x`",
        'echo "`rm x`"',
        "(rm x)",
        "diff <(a) b",
        "echo ${x:-`rm x`}",
        'echo "${x}"',
        "echo $((1+1))",
        "echo $[1+1]",
        "echo $'a'",
        'echo $"a"',
        "git status # it's\nrm x\n# it's",
        "git status $'\\'' ; rm x ; '",
        "git sta\\\ntus",
        "git= rm x",
        "git status; PAGER='rm x' git log",
        "git status >&1\r",
        "git status >/dev/null\x0b",
        "echo 'open",
        'echo "open',
        "echo \\",
    ],
)
def test_the_rest_is_not_plain(command: str) -> None:
    """Substitutions, groups, redirections, comments, joined lines and loose quotes are never taken for understood."""
    assert not parse_command(command).plain


@pytest.mark.parametrize(
    "command",
    ["echo $(rm x)", 'echo "$(rm x)"', "echo `rm x`", "(rm x)", "a; (b && rm x)", "diff <(rm x)", "x # y\nrm x"],
)
def test_what_is_nested_is_seen(command: str) -> None:
    """A piece inside a substitution or a group is there for rules that deny."""
    assert "rm x" in parse_command(command).pieces


def test_words_have_no_quotes() -> None:
    """Words are what stands between spaces, operators and quotes; an option's value is one of its own."""
    assert split_words("cat 'a b' --file=/x/y >out;ls") == ("cat", "a", "b", "--file", "/x/y", "out", "ls")


PIECES = ("listed", "evil", *" ;&|\n'\"\\$#{}\t[2!<>()`", "&1", ">&1", "evil;", "\\\n")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["bash", "sh"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    command=st.lists(st.sampled_from(PIECES), max_size=14).map("".join).filter(lambda text: parse_command(text).plain)
)
def test_what_a_shell_runs_is_among_the_pieces(tmp_path: Path, program: str, command: str) -> None:
    """A command that is called plain and whose pieces are all listed runs nothing else in a real shell, and writes no file."""
    command = f"listed {command}"
    apart = parse_command(command)
    if not apart.plain or not all(piece.startswith("listed") for piece in apart.pieces):
        return
    (tmp_path / "folder").mkdir(exist_ok=True)
    (tmp_path / "ran").write_text("")
    shell = shutil.which(program)
    assert shell is not None
    environ = {"PATH": str(programs_in(tmp_path)), "RAN": str(tmp_path / "ran")}
    subprocess.run(
        [shell, "-c", command],
        cwd=tmp_path / "folder",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )

    assert "evil" not in (tmp_path / "ran").read_text().split()
    assert list((tmp_path / "folder").iterdir()) == []


def programs_in(folder: Path) -> Path:
    """A folder with two programs that write down that they ran."""
    programs = folder / "programs"
    if not programs.exists():
        programs.mkdir()
        for name in ("listed", "evil"):
            (programs / name).write_text(f'#!/bin/sh\necho {name} >> "$RAN"\n')
            (programs / name).chmod(0o755)
    return programs
