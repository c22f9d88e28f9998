"""What people wrote for agents."""

import os
from pathlib import Path

import pytest

from infold.agent.instructions import MOST_CHARACTERS, MOST_IN_ALL, instructions_for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with instructions at its root, in a folder and further down."""
    for path, text in (
        ("project/AGENTS.md", "Root rule."),
        ("project/CLAUDE.md", "Never read."),
        ("project/web/CLAUDE.md", "Web rule."),
        ("project/web/ui/AGENTS.md", "Interface rule."),
        ("project/api/AGENTS.md", "Server rule."),
        ("home/.config/infold/AGENTS.md", "My own rule."),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path / "project"


def test_the_root_holds_always(root: Path) -> None:
    """S5.5: the user's own instructions come first, then the project's; AGENTS.md stands for CLAUDE.md."""
    assert instructions_for(root, (), root.parent / "home") == (
        "Instructions from ~/.config/infold/AGENTS.md:\n\nMy own rule.\n\nInstructions from AGENTS.md:\n\nRoot rule."
    )
    assert instructions_for(root, ()) == "Instructions from AGENTS.md:\n\nRoot rule."


@pytest.mark.parametrize(
    ("touched", "rules"),
    [
        ("web/a.js", ["Root", "Web"]),
        ("web/ui", ["Root", "Web", "Interface"]),
        ("web/ui/deep/new/file", ["Root", "Web", "Interface"]),
        ("api/../web/a.js", ["Root", "Web"]),
        ("../beside", ["Root"]),
        ("/etc/hosts", ["Root"]),
    ],
)
def test_folders_count_once_they_are_touched(root: Path, touched: str, rules: list[str]) -> None:
    """Instructions further down hold where something in their folder was touched, the nearest last."""
    text = instructions_for(root, [Path(touched)])

    assert [line.removesuffix(" rule.") for line in text.split("\n") if line.endswith("rule.")] == rules
    assert instructions_for(root, [root / touched]) == text


def test_several_touched_folders(root: Path) -> None:
    """Each file is given once, those further up first."""
    text = instructions_for(root, [Path("web/ui/a"), Path("api/b"), Path("web/c")])

    assert [text.index(rule) for rule in ("Root", "Server", "Web", "Interface")] == sorted(
        text.index(rule) for rule in ("Root", "Server", "Web", "Interface")
    )
    assert text.count("Web rule.") == 1


def test_files_are_read_anew(root: Path) -> None:
    """What is on disk when it is wanted is what holds."""
    before = instructions_for(root, ())
    (root / "AGENTS.md").write_text("Another rule.")

    assert instructions_for(root, ()) == before.replace("Root", "Another")
    (root / "AGENTS.md").write_text("  \n")
    assert instructions_for(root, ()) == ""


def test_long_files_are_cut_with_a_note(root: Path) -> None:
    """Each file has a bound, and all together, and what is missing is told."""
    for folder in (".", "web", "web/ui", "api"):
        (root / folder / "AGENTS.md").write_text("x" * (MOST_CHARACTERS + 10_000))
    text = instructions_for(root, [Path("web/ui/a"), Path("api/b")])

    assert text.count("is left out for its length; read the file for it]") == 4
    assert len(text) < MOST_IN_ALL + 1_000


def test_what_cannot_be_read_is_told(root: Path) -> None:
    """A folder, a pipe and a link that leads out of the project are named, and nobody waits for them."""
    (root / "AGENTS.md").unlink()
    (root / "AGENTS.md").mkdir()
    (root / "web" / "ui" / "AGENTS.md").unlink()
    os.mkfifo(root / "web" / "ui" / "AGENTS.md")
    (root / "api" / "AGENTS.md").unlink()
    (root / "api" / "AGENTS.md").symlink_to(root.parent / "home" / ".config" / "infold" / "AGENTS.md")
    text = instructions_for(root, [Path("web/ui/a"), Path("api/b")])

    assert "[AGENTS.md could not be read: it is no file]" in text
    assert "[web/ui/AGENTS.md could not be read: it is no file]" in text
    assert "[api/AGENTS.md leads out of the project and is not read]" in text
    assert "My own rule." not in text
    assert "Web rule." in text


def test_a_project_without_any(tmp_path: Path) -> None:
    """Where nobody wrote anything there is nothing, also where a link leads nowhere."""
    (tmp_path / "AGENTS.md").symlink_to("nothing")

    assert instructions_for(tmp_path, [Path("a/b")], tmp_path) == ""


@pytest.mark.parametrize("name", ["a" * 300, "/".join(["b" * 200] * 30)])
def test_a_name_too_long_leads_nowhere(root: Path, name: str) -> None:
    """A path that no file system takes brings no instructions and no error."""
    assert instructions_for(root, [Path("web") / name]) == instructions_for(root, [Path("web")])
