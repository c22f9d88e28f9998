"""Where paths lead, and whether that is inside the project."""

from pathlib import Path

import pytest

from infold.agent.tools.paths import RUNS_LATER, change_wish, folder_at, located, missing, named, path_wish
from infold.agent.tools.tool import ToolFailed, Wish, Workplace


@pytest.mark.parametrize("path", ["src/a.py", "./src/a.py", "src/../src/a.py", "not/there"])
def test_a_path_inside_is_named_from_the_root(workplace: Workplace, path: str) -> None:
    """However it is written, a path in the project is inside, and there need be nothing at it."""
    wish = path_wish("read", path, workplace)

    assert wish == Wish(
        "read", path.replace("./", "", 1) if path.startswith(".") else str(Path("src/a.py" if ".." in path else path))
    )


@pytest.mark.parametrize("path", ["/etc/passwd", "../beside", "src/../../beside", "~/x", "~nobody-at-all/../../.."])
def test_a_path_outside_is_told_so(workplace: Workplace, path: str) -> None:
    """What leads out of the project is outside, and named in full."""
    wish = path_wish("read", path, workplace)

    assert wish.outside
    assert Path(wish.what).is_absolute()


def test_a_link_counts_as_where_it_leads(root: Path, workplace: Workplace, tmp_path: Path) -> None:
    """A link in the project to something outside is outside, as is a file that would be made through one."""
    (tmp_path / "beside").mkdir()
    (root / "link").symlink_to(tmp_path / "beside")
    (root / "alias").symlink_to(root / "src")

    assert path_wish("write", "link/new.txt", workplace) == Wish(
        "write", str(tmp_path / "beside" / "new.txt"), outside=True
    )
    assert path_wish("write", "alias/new.txt", workplace) == Wish("write", "src/new.txt")


def test_a_linked_root_is_the_project(root: Path, tmp_path: Path) -> None:
    """A project that is reached through a link is inside itself."""
    (tmp_path / "door").symlink_to(root)

    assert path_wish("read", str(tmp_path / "door" / "a"), Workplace(tmp_path / "door")) == Wish("read", "a")


def test_links_in_a_circle_lead_nowhere(root: Path, workplace: Workplace) -> None:
    """A link to itself is no error until somebody opens it."""
    (root / "loop").symlink_to(root / "loop")

    assert not path_wish("read", "loop", workplace).outside


def test_a_path_without_sense_is_refused(workplace: Workplace) -> None:
    """A NUL character is in no path."""
    with pytest.raises(ToolFailed, match="NUL"):
        located("a\0b", workplace)


def test_a_missing_path_tells_what_is_near(root: Path, workplace: Workplace) -> None:
    """Names that look alike are proposed; where there are none, the deepest folder there is."""
    (root / "src").mkdir()
    (root / "src" / "parser.py").touch()

    assert "did you mean src/parser.py?" in str(missing(located("src/parsr.py", workplace), workplace))
    assert "did you mean src?" in str(missing(located("sr/parser.py", workplace), workplace))
    assert "use list on src " in str(missing(located("src/zzz/q", workplace), workplace))
    assert named(located("", workplace), workplace) == "."


def test_a_folder_is_asked_for(root: Path, workplace: Workplace) -> None:
    """A file and a missing folder are refused, each in its own words."""
    (root / "file").touch()

    assert folder_at("", workplace) == root
    with pytest.raises(ToolFailed, match="file is a file"):
        folder_at("file", workplace)
    with pytest.raises(ToolFailed, match="there is no zzz"):
        folder_at("zzz", workplace)


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
def test_gits_own_files_are_not_the_projects_to_change(root: Path, workplace: Workplace, path: str) -> None:
    """What git reads programs to run from is outside for whoever would change it, however it is reached, and for no reader."""
    (root / ".git").mkdir()
    (root / "link").symlink_to(".git")

    assert change_wish("write", path, workplace).outside
    assert not path_wish("read", path, workplace).outside


def test_a_repository_under_another_name_is_gits_own(root: Path, workplace: Workplace) -> None:
    """A repository that a `.git` leads to, or a bare one, may have any name; it is known by what is in it."""
    for name in ("HEAD", "objects", "refs"):
        (root / "store" / name).mkdir(parents=True)
    (root / ".git").symlink_to("store")

    assert change_wish("edit", "store/config", workplace).outside
    assert change_wish("edit", ".git/config", workplace).outside
    assert change_wish("write", "store/hooks/post-checkout", workplace).outside
    assert change_wish("write", "new/HEAD", workplace).outside


@pytest.mark.parametrize("path", [".gitignore", "src/git/config", "x.git/a", "docs/HEAD.md", "a"])
def test_other_names_are_the_projects(workplace: Workplace, path: str) -> None:
    """What only looks like git's own is changed unasked."""
    assert change_wish("write", path, workplace) == Wish("write", path)


@pytest.mark.parametrize(
    "path",
    [
        *(".husky/pre-commit", ".envrc", "sub/.envrc", ".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile"),
        *(".vscode/tasks.json", ".vscode/settings.json", ".venv/bin/python", "venv/lib/python3.12/site-packages/x.pth"),
        *(".pre-commit-config.yaml", "node_modules/.bin/eslint", ".claude/settings.json", "web/.circleci/config.yml"),
    ],
)
def test_files_that_run_later_are_asked_for(workplace: Workplace, path: str) -> None:
    """B41: writing and editing what a hook, a shell, an editor or a build server runs is asked for, with the reason; reading is
    not."""
    for tool in ("write", "edit"):
        wish = change_wish(tool, path, workplace)
        assert (wish.outside, wish.why) == (True, RUNS_LATER)
    assert not path_wish("read", path, workplace).outside


@pytest.mark.parametrize(
    "path", ["Makefile", "package.json", "src/bin/run.py", ".github/CODEOWNERS", "envrc.md", "env.py"]
)
def test_files_that_a_person_starts_are_the_agents_work(workplace: Workplace, path: str) -> None:
    """What runs only when somebody starts it is changed unasked."""
    assert not change_wish("write", path, workplace).outside
