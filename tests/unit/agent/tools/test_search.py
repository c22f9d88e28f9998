"""The search tool."""

import os
import shutil
from pathlib import Path

import pytest

from infold.agent.tools.processes import run_process
from infold.agent.tools.search import LONGEST_LINE, MOST_HITS, SEARCH, SearchArguments, rg_command, run_git_grep
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput

from .conftest import ActionOf, RunTool


def test_lines_are_found(repository: Path, run_tool: RunTool, action_of: ActionOf) -> None:
    """S5.5: matching lines are given by file with their numbers; what git ignores is passed over."""
    assert run_tool(SEARCH, pattern=r"n\w+le in") == ToolOutput(
        "README.md\n1\t# needle in README.md\n"
        "kept.log\n1\t# needle in kept.log\n"
        "src/app.py\n1\t# needle in src/app.py\n"
        "src/deep/util.py\n1\t# needle in src/deep/util.py"
    )
    assert action_of(SEARCH, pattern="x", path="src") == ActionRequest("search", "src")
    assert action_of(SEARCH, pattern="x") == ActionRequest("search", ".")


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"glob": "*.py"}, ["src/app.py", "src/deep/util.py"]),
        ({"glob": "src/*.{py,md}"}, ["src/app.py"]),
        ({"path": "src", "glob": "deep/**"}, ["src/deep/util.py"]),
        ({"path": "src/deep"}, ["src/deep/util.py"]),
        ({"path": "kept.log"}, ["kept.log"]),
        ({"path": "debug.log"}, ["debug.log"]),
        ({"path": "build"}, ["build/made.py"]),
        ({"glob": "*.none"}, []),
        ({"glob": "/README.md"}, ["README.md"]),
        ({"glob": "!*.{py,log}"}, ["README.md"]),
        ({"path": "src", "glob": "!deep/**"}, ["src/app.py"]),
        ({"glob": "!{deep,*.log}"}, ["README.md", "src/app.py"]),
        ({"glob": "!src/"}, ["README.md", "kept.log"]),
    ],
)
def test_a_search_is_narrowed(repository: Path, run_tool: RunTool, given: dict[str, str], files: list[str]) -> None:
    """A path and a glob narrow a search; what is ignored is searched where it is named."""
    message = run_tool(SEARCH, pattern="needle", **given).output

    assert [line for line in message.split("\n") if "\t" not in line] == (files or ["[nothing matches]"])


def test_outside_a_repository_too(root: Path, run_tool: RunTool) -> None:
    """A folder that git does not know is searched like any other, binary files and git's own left out."""
    (root / "a").write_text("one needle\r\ntwo\n")
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "sub" / ".git" / "needle").write_text("needle")
    (root / "sub" / "b").write_text("needle")
    (root / "b").write_bytes(b"needle\0\n")

    assert run_tool(SEARCH, pattern="(?i)NEEDLE").output == "a\n1\tone needle\nsub/b\n1\tneedle"


def test_secrets_are_passed_over(repository: Path, run_tool: RunTool) -> None:
    """A file of secrets is named, not shown, unless it was asked for."""
    (repository / ".env").write_text("TOKEN=needle\n")

    assert run_tool(SEARCH, pattern="TOKEN").output == "[passed over, since they may hold secrets: .env]"
    assert run_tool(SEARCH, pattern="TOKEN", path=".env").output == ".env\n1\tTOKEN=needle"


@pytest.mark.parametrize("with_rg", [True, False])
def test_odd_names_are_whole_and_on_one_line(
    repository: Path, run_tool: RunTool, monkeypatch: pytest.MonkeyPatch, *, with_rg: bool
) -> None:
    """B41: a name with a line break is one file, escaped as in JSON; its end is not taken for another file's name."""
    for name in ("a\nREADME.md", "b\x1b[2J", "c\u202egnp", "secret\n.env"):
        (repository / "src" / name).write_text("needle\n\nneedle again\n")
    if not with_rg:
        tools = repository.parent / "tools"
        tools.mkdir()
        (tools / "git").symlink_to(str(shutil.which("git")))
        monkeypatch.setenv("PATH", str(tools))
    found = run_tool(SEARCH, pattern="^needle", path="src").output.split("\n")

    expected = [r"a\nREADME.md", r"b\u001b[2J", r"c\u202egnp"]
    assert found == [
        *(line for name in expected for line in (f'"src/{name}"', "1\tneedle", "3\tneedle again")),
        r'[passed over, since they may hold secrets: "secret\n.env"]',
    ]


def test_an_answer_has_a_bound(root: Path, run_tool: RunTool) -> None:
    """Of very many lines the first are shown, and of a long line the beginning."""
    (root / "a").write_text(f"needle {'x' * LONGEST_LINE}\n" + "needle\n" * (MOST_HITS + 5))
    lines = run_tool(SEARCH, pattern="needle").output.split("\n")

    assert len(lines) == MOST_HITS + 2
    assert lines[1].endswith("x [7 more characters in this line]")
    assert lines[-1].startswith(f"[the first {MOST_HITS} of {MOST_HITS + 6} lines;")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pattern": "("}, "mend the pattern"),
        ({"pattern": ""}, "give a regular expression"),
        ({"pattern": "x", "path": "srcc"}, "did you mean src?"),
    ],
)
def test_what_cannot_be_searched_is_explained(
    repository: Path, run_tool: RunTool, given: dict[str, str], message: str
) -> None:
    """A broken expression and a missing path say what to do."""
    with pytest.raises(ToolFailed, match=message.replace("?", r"\?")):
        run_tool(SEARCH, **given)


def test_a_pattern_is_never_an_option(root: Path, run_tool: RunTool) -> None:
    """What begins with a dash is looked for like anything else."""
    (root / "a").write_text("--open-files-in-pager=x\n")

    assert run_tool(SEARCH, pattern="--open-files-in-pager=x", path="a").output.startswith("a\n1\t--open")


def _files(message: str) -> list[str]:
    return sorted(line.partition("\0")[0].removeprefix("./") for line in message.splitlines())


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@pytest.mark.parametrize(
    ("given", "file"),
    [
        ({}, ""),
        ({"glob": "*.py"}, ""),
        ({"glob": "src/**/*.{py,md}"}, ""),
        ({"glob": "!*.py"}, ""),
        ({"glob": "!deep"}, ""),
        ({}, "debug.log"),
    ],
)
def test_both_programs_find_the_same(repository: Path, given: dict[str, str], file: str) -> None:
    """Whichever of the two is installed, a search finds the same files."""
    arguments = SearchArguments("needle", **given)
    program = os.fsdecode(shutil.which("rg") or "")

    by_rg = run_process(rg_command(program, arguments, file), repository, limit_seconds=10)
    assert _files(by_rg.output) == _files(run_git_grep(arguments, repository, file).output)


def test_git_searches_a_folder_in_no_repository(root: Path) -> None:
    """Without ripgrep all files of such a folder are searched, and nothing above it."""
    (root / "a").write_text("one needle\n")
    (root.parent / "above").write_text("needle\n")

    assert _files(run_git_grep(SearchArguments("needle"), root, "").output) == ["a"]
    assert "above" not in _files(run_git_grep(SearchArguments("needle", glob="../*"), root, "").output)
