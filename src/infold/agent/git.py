"""Run git so that nothing in a project can make it run a program.

git runs whatever a repository's settings name: a file-system monitor, hooks, filters, diff drivers, ssh commands, credential
programs. No list of such settings stays complete, so none of them is read. Every command names a repository of infold's own
(`--git-dir`), and the project is its work tree only: its ignore rules, attributes and index count, its settings do not. The
settings of the user and the machine are not read either, because attributes in a project choose among the filters they define.
Fetching is refused as a second line of defence.

This is the only module that finds repositories and starts git.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from infold.agent.tools.files import read_beginning
from infold.agent.tools.processes import command_environment, find_program

SETTINGS = (
    *("safe.bareRepository=explicit", "core.fsmonitor=false", "core.hooksPath=" + os.devnull, "core.quotePath=false"),
    *("submodule.recurse=false", "diff.ignoreSubmodules=all", "gc.autoDetach=false", "maintenance.auto=false"),
)
"""Settings of every command. The repository is infold's own, so these matter only if a later change reads another one."""

ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "false",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}
"""Variables of every command; all other `GIT_` variables are removed."""

LIMIT_SECONDS = 30.0
MOST_BYTES = 1_000_000
"""Bytes of a repository's small files that are read: pointers and exclude rules."""


class GitFailed(Exception):
    """A git command failed; the message is for a note and never leaves the agent.

    `is_lasting`: another try would fail too. `status` is the exit status, 0 if the command did not end by itself.
    """

    def __init__(self, problem: str, *, is_lasting: bool = False, status: int = 0) -> None:
        self.is_lasting = is_lasting
        self.status = status
        super().__init__(problem)


class Checkout(Struct, frozen=True):
    """A folder as git sees it: the top of its working tree, its index, and its file of rules that are not part of the project.

    A folder outside any repository is its own top and has no such files.
    """

    folder: Path
    top: Path
    index: Path | None = None
    excludes: Path | None = None

    @property
    def prefix(self) -> str:
        """The path from the top to the folder, with a slash at its end; empty if they are the same."""
        below = self.folder.relative_to(self.top).as_posix()
        return "" if below == "." else f"{below}/"


class Git(Struct, frozen=True):
    """git on one repository and perhaps one work tree: the words before a command, and the environment."""

    words: tuple[str, ...]
    environ: Mapping[str, str]

    def run(self, *words: str, seconds: float = LIMIT_SECONDS, given: bytes = b"", kept: Sequence[int] = ()) -> bytes:
        """Return what a command prints, with `given` on its standard input; raise `GitFailed` if it fails.

        The command inherits the descriptors in `kept`. Any exception while waiting stops it.
        """
        command = (*self.words, *words)
        try:
            ended = subprocess.run(
                command, input=given, capture_output=True, env=self.environ, pass_fds=kept, timeout=seconds, check=False
            )
        except OSError as error:
            raise GitFailed(f"git cannot be run ({error.strerror})", is_lasting=True) from error
        except subprocess.TimeoutExpired as error:
            raise GitFailed("git takes too long", is_lasting=True) from error
        if ended.returncode:
            lines = ended.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {ended.returncode}"]
            raise GitFailed(lines[-1], status=ended.returncode)
        return ended.stdout


def find_checkout(folder: Path) -> Checkout | None:
    """Return the working tree that a folder is in, or `None`.

    A repository counts only if it has the owner of the folder: in a folder that everyone may write to, anyone can make one.
    """
    owner = folder.stat().st_uid
    for place in (folder, *folder.parents):
        if place.name == ".git":
            return None
        repository = _repository_of(place)
        if repository is not None:
            excludes = _common_of(repository) / "info" / "exclude"
            is_owned = place.stat().st_uid == owner
            return Checkout(folder, place, repository / "index", excludes) if is_owned else None
    return None


@contextmanager
def open_read_only(folder: Path, *, with_index: bool = True) -> Iterator[Git | None]:
    """Yield git on the working tree that a folder is in, for commands that only read; `None` without git or such a tree.

    The repository is made for the block and holds nothing but the project's exclude rules. Files that the project tracks
    although it ignores them are known by its index.
    """
    found = find_checkout(folder) if find_program("git", os.environ) else None
    if found is None:
        yield None
        return
    with TemporaryDirectory(prefix="infold-git-") as temporary:
        own = Path(temporary)
        for name in ("objects", "refs", "info"):
            (own / name).mkdir()
        (own / "HEAD").write_text("ref: refs/heads/none\n")
        (own / "info" / "exclude").write_bytes(read_small_file(found.excludes))
        excludes = _users_excludes(*(os.environ.get(name, "") for name in _CONFIG_PLACES))
        git = git_command(own, os.environ, found, settings=(f"core.excludesFile={excludes}",) if excludes else ())
        has_index = with_index and found.index is not None and found.index.is_file()
        yield Git(git.words, {**git.environ, "GIT_INDEX_FILE": str(found.index)}) if has_index else git


def git_command(
    repository: Path, environ: Mapping[str, str], tree: Checkout | None = None, *, settings: Iterable[str] = ()
) -> Git:
    """Return git on a repository of infold's own, with a project as its work tree and run in its folder.

    Raise `GitFailed` if git is not installed.
    """
    program = find_program("git", environ)
    if program is None:
        raise GitFailed("git cannot be run (it is not installed)", is_lasting=True)
    place = () if tree is None else ("-C", str(tree.folder), f"--work-tree={tree.top}")
    options = [word for setting in (*SETTINGS, *settings) for word in ("-c", setting)]
    kept = {name: value for name, value in command_environment(environ, ()).items() if not name.startswith("GIT_")}
    return Git((program, *place, f"--git-dir={repository}", *options), {**kept, **ENVIRONMENT})


def read_small_file(path: Path | None) -> bytes:
    """Return the beginning of a file; nothing if it does not exist, is not a regular file, or is a database in use."""
    try:
        return b"" if path is None else read_beginning(path, MOST_BYTES)
    except OSError:
        return b""


# Finding repositories, without git: asking git would read their settings.


def _repository_of(place: Path) -> Path | None:
    """Return the repository folder of the working tree with its top at `place`, or `None`."""
    pointer = place / ".git"
    target = pointer
    if pointer.is_file():
        text = os.fsdecode(read_small_file(pointer)).strip()
        if not text.startswith("gitdir:") or "\0" in text:
            return None
        target = place / text.removeprefix("gitdir:").strip()
    try:
        is_repository = (target / "HEAD").is_file() and any(
            (target / name).exists() for name in ("objects", "commondir")
        )
    except OSError:
        return None
    return Path(os.path.realpath(target)) if is_repository else None


def _common_of(repository: Path) -> Path:
    """Return the folder that a linked working tree's repository shares with the main one; else the repository itself."""
    text = os.fsdecode(read_small_file(repository / "commondir")).strip()
    return Path(os.path.realpath(repository / text)) if text and "\0" not in text else repository


# What the user ignores everywhere.

_CONFIG_PLACES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")


@cache
def _users_excludes(*places: str) -> str:
    """Return the user's own file of ignore rules (`core.excludesFile`), the one user setting that listings go by."""
    git = git_command(Path(os.devnull), os.environ)
    variables = {**git.environ, **dict(zip(_CONFIG_PLACES, places, strict=True))}
    environ = {name: value for name, value in variables.items() if value}
    try:
        words = ("config", "--global", "--includes", "--type=path", "--get", "core.excludesFile")
        return os.fsdecode(Git(git.words, environ).run(*words)).strip()
    except GitFailed:
        return ""
