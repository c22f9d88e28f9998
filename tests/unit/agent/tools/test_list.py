"""The list tool."""

import subprocess
from pathlib import Path

import pytest

from infold.agent.tools.list import LIST, MOST_NAMES
from infold.agent.tools.project_files import LONGEST_GLOB
from infold.agent.tools.tool import ActionRequest, ToolFailed, ToolOutput

from .conftest import Ran, Wished


def test_a_folder_is_listed(repository: Path, ran: Ran, wished: Wished) -> None:
    """S5.5: what is in a folder is listed, folders with a slash, without what git ignores."""
    assert ran(LIST) == ToolOutput(".gitignore\nREADME.md\nkept.log\nsrc/")
    assert ran(LIST, path="src") == ToolOutput("app.py\ndeep/")
    assert ran(LIST, path="build") == ToolOutput("made.py")
    assert wished(LIST, path="src") == ActionRequest("list", "src")


def test_a_link_to_itself_hides_nothing(root: Path, ran: Ran) -> None:
    """A name that leads nowhere is listed as any other, and keeps no other from being listed."""
    (root / "loop").symlink_to("loop")
    (root / "src").mkdir()

    assert ran(LIST) == ToolOutput("loop\nsrc/")


def test_a_glob_finds_files_at_any_depth(repository: Path, ran: Ran) -> None:
    """Files are given as paths from the project's root; one that git knows but that is gone is not."""
    (repository / "gone.py").touch()
    subprocess.run(["git", "-C", str(repository), "add", "gone.py"], check=True)
    (repository / "gone.py").unlink()
    (repository / "link.py").symlink_to("nowhere")

    assert ran(LIST, glob="*.py") == ToolOutput("link.py\nsrc/app.py\nsrc/deep/util.py")
    assert ran(LIST, path="src", glob="deep/*") == ToolOutput("src/deep/util.py")
    assert ran(LIST, glob="*.rs") == ToolOutput("[no file matches]")


def test_a_list_has_a_bound(root: Path, ran: Ran) -> None:
    """Of very many names the first are shown, and the model is told so."""
    for number in range(MOST_NAMES + 1):
        (root / f"{number:04}").touch()
    for given in ({}, {"glob": "*"}):
        lines = ran(LIST, **given).output.split("\n")

        assert lines[MOST_NAMES - 1 :] == [f"{MOST_NAMES - 1:04}", lines[-1]]
        assert lines[-1].startswith(f"[only the first {MOST_NAMES}")


def test_what_is_no_folder_is_refused(root: Path, ran: Ran) -> None:
    """A missing folder, and a glob that is none, are told in words; an empty folder is one."""
    (root / "empty").mkdir()

    assert ran(LIST, path="empty") == ToolOutput("[the folder is empty]")
    with pytest.raises(ToolFailed, match="there is no none"):
        ran(LIST, path="none")
    with pytest.raises(ToolFailed, match="give one such as"):
        ran(LIST, glob="*" * (LONGEST_GLOB + 1))
