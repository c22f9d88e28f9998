"""Where paths lead, and whether that is inside the project."""

from pathlib import Path

import pytest

from infold.agent.tools.files import (
    RUNS_LATER,
    display_path,
    missing_path,
    path_action,
    resolve_folder,
    resolve_path,
)
from infold.agent.tools.tool import ActionRequest, ToolFailed, Workspace


@pytest.mark.parametrize("path", ["src/a.py", "./src/a.py", "src/../src/a.py", "not/there"])
def test_a_path_inside_is_named_from_the_root(workspace: Workspace, path: str) -> None:
    """However it is written, a path in the project is inside, and there need be nothing at it."""
    action = path_action("read", path, workspace)

    assert action == ActionRequest(
        "read", path.replace("./", "", 1) if path.startswith(".") else str(Path("src/a.py" if ".." in path else path))
    )


@pytest.mark.parametrize("path", ["/etc/passwd", "../beside", "src/../../beside", "~/x", "~nobody-at-all/../../.."])
def test_a_path_outside_is_marked(workspace: Workspace, path: str) -> None:
    """What leads out of the project is outside, and named in full."""
    action = path_action("read", path, workspace)

    assert action.outside
    assert Path(action.what).is_absolute()


def test_a_link_counts_as_where_it_leads(root: Path, workspace: Workspace, tmp_path: Path) -> None:
    """A link in the project to something outside is outside, as is a file that would be made through one."""
    (tmp_path / "beside").mkdir()
    (root / "link").symlink_to(tmp_path / "beside")
    (root / "alias").symlink_to(root / "src")

    assert path_action("write", "link/new.txt", workspace) == ActionRequest(
        "write", str(tmp_path / "beside" / "new.txt"), outside=True
    )
    assert path_action("write", "alias/new.txt", workspace) == ActionRequest("write", "src/new.txt")


def test_a_linked_root_is_the_project(root: Path, tmp_path: Path) -> None:
    """A project that is reached through a link is inside itself."""
    (tmp_path / "door").symlink_to(root)

    assert path_action("read", str(tmp_path / "door" / "a"), Workspace(tmp_path / "door")) == ActionRequest("read", "a")


def test_links_in_a_circle_lead_nowhere(root: Path, workspace: Workspace) -> None:
    """A link to itself is not an error until it is opened."""
    (root / "loop").symlink_to(root / "loop")

    assert not path_action("read", "loop", workspace).outside


def test_a_path_without_sense_is_refused(workspace: Workspace) -> None:
    """A NUL character is in no path."""
    with pytest.raises(ToolFailed, match="NUL"):
        resolve_path("a\0b", workspace)


def test_a_missing_path_tells_what_is_near(root: Path, workspace: Workspace) -> None:
    """Names that look alike are proposed; where there are none, the deepest folder there is."""
    (root / "src").mkdir()
    (root / "src" / "parser.py").touch()

    assert "did you mean src/parser.py?" in str(missing_path(resolve_path("src/parsr.py", workspace), workspace))
    assert "did you mean src?" in str(missing_path(resolve_path("sr/parser.py", workspace), workspace))
    assert "use list on src " in str(missing_path(resolve_path("src/zzz/q", workspace), workspace))
    assert display_path(resolve_path("", workspace), workspace) == "."


def test_a_folder_is_asked_for(root: Path, workspace: Workspace) -> None:
    """A file and a missing folder are refused, each in its own words."""
    (root / "file").touch()

    assert resolve_folder("", workspace) == root
    with pytest.raises(ToolFailed, match="file is a file"):
        resolve_folder("file", workspace)
    with pytest.raises(ToolFailed, match="there is no zzz"):
        resolve_folder("zzz", workspace)


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        "./.git/hooks/pre-commit",
        ".GIT/config",
        "sub/.git/config",
        "link/config",
        "sub/../.git/x",
    ],
)
def test_gits_own_files_are_not_the_projects_to_change(root: Path, workspace: Workspace, path: str) -> None:
    """Files from which git reads programs to run count as outside for changes, however they are reached, but not for
    reading."""
    (root / ".git").mkdir()
    (root / "link").symlink_to(".git")

    assert path_action("write", path, workspace, changes=True).outside
    assert not path_action("read", path, workspace).outside


def test_a_repository_under_another_name_is_gits_own(root: Path, workspace: Workspace) -> None:
    """A repository that a `.git` leads to, or a bare one, may have any name; it is known by what is in it."""
    for name in ("HEAD", "objects", "refs"):
        (root / "store" / name).mkdir(parents=True)
    (root / ".git").symlink_to("store")

    assert path_action("edit", "store/config", workspace, changes=True).outside
    assert path_action("edit", ".git/config", workspace, changes=True).outside
    assert path_action("write", "store/hooks/post-checkout", workspace, changes=True).outside
    assert path_action("write", "new/HEAD", workspace, changes=True).outside


@pytest.mark.parametrize("path", [".gitignore", "src/git/config", "x.git/a", "docs/HEAD.md", "a"])
def test_other_names_are_the_projects(workspace: Workspace, path: str) -> None:
    """What only looks like git's own is changed unasked."""
    assert path_action("write", path, workspace, changes=True) == ActionRequest("write", path)


@pytest.mark.parametrize(
    "path",
    [
        *(".husky/pre-commit", ".envrc", "sub/.envrc", ".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile"),
        *(".vscode/tasks.json", ".vscode/settings.json", ".venv/bin/python", "venv/lib/python3.12/site-packages/x.pth"),
        *(".pre-commit-config.yaml", "node_modules/.bin/eslint", ".claude/settings.json", "web/.circleci/config.yml"),
        *(
            "AGENTS.md",
            "web/CLAUDE.md",
            "infold.toml",
            "infold.json",
            ".infold/skills/x/SKILL.md",
            ".agents/skills/x/a",
        ),
        *(".github/copilot-instructions.md", "GEMINI.md", ".cursorrules", ".aider.conf.yml"),
    ],
)
def test_files_that_run_later_are_asked_for(workspace: Workspace, path: str) -> None:
    """B41: writing and editing what a hook, a shell, an editor or a build server runs is asked for, with the reason; reading is
    not."""
    for tool in ("write", "edit"):
        action = path_action(tool, path, workspace, changes=True)
        assert (action.outside, action.why) == (True, RUNS_LATER)
    assert not path_action("read", path, workspace).outside


@pytest.mark.parametrize(
    "path", ["Makefile", "package.json", "src/bin/run.py", ".github/CODEOWNERS", "envrc.md", "env.py"]
)
def test_files_that_a_person_starts_are_the_agents_work(workspace: Workspace, path: str) -> None:
    """Files that run only when they are started may be changed without asking."""
    assert not path_action("write", path, workspace, changes=True).outside
