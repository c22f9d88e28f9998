"""A git repository of infold's own for each project, in which snapshots are kept: its objects, its index and its lock.

The project's own repository, if it has one, is only looked at for its top and its exclude rules, and never written to.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from msgspec import Struct

from infold.agent.git import Git, Started, checkout_at, finish, git_on, small_file, start, stop

OWNER_ONLY = 0o700
SETTINGS = ("core.autocrlf=false", "core.safecrlf=false", "core.splitIndex=true")
"""Settings of every command on snapshots: contents are kept as they are, and of a large index only the changes are written."""

_SPECIAL = re.compile(r"([\\*?\[\]#! ])")


class Project(Struct, frozen=True):
    """Where a project stands for git: the top of its working tree, and the file of what its repository leaves out."""

    root: Path
    top: Path
    excludes: Path | None = None


def project_at(root: Path) -> Project:
    """A folder as git sees it; one in no repository is its own top."""
    found = checkout_at(root)
    return Project(root, root) if found is None else Project(root, found.top, found.excludes)


class Shadow:
    """The repository in a folder, which is made where it is needed.

    `environ` is what of the process's environment git may see, `seconds` how long a block or a command may take.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], seconds: float) -> None:
        self.folder = folder
        self._environ = environ
        self._seconds = seconds
        self._until: float | None = None
        self._held: tuple[int, ...] = ()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the repository's lock while the block runs, waiting for whoever has it.

        Commands inherit the lock: one that outlives its caller keeps others away until it ends. So an index that is still
        locked here was left by something that is no more.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=OWNER_ONLY)
        descriptor = os.open(self.folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._held, self._until = (descriptor,), monotonic() + self._seconds
            (self.folder / "index.lock").unlink(missing_ok=True)
            yield
        finally:
            self._held, self._until = (), None
            os.close(descriptor)

    def prepare(self, project: Project) -> None:
        """Make the repository if it is not there, and let it leave out what the project's own does, and itself."""
        if not (self.folder / "HEAD").is_file():
            self.git("init", "--quiet", "--bare", "--template=")
        own = self.folder.parent
        lines = [_pattern(own.relative_to(project.top))] if own.is_relative_to(project.top) else []
        theirs = _text(project.excludes) if project.excludes is not None else ""
        wanted = "\n".join((theirs, *lines, ""))
        excludes = self.folder / "info" / "exclude"
        if _text(excludes) != wanted:
            excludes.parent.mkdir(exist_ok=True)
            excludes.write_text(wanted, "utf-8", "surrogateescape")

    def git(self, *words: str, project: Project | None = None, given: bytes = b"") -> bytes:
        """What a command on this repository says, given that on its standard input; raises `GitFailed`."""
        return finish(self._begun(words, project), seconds=self._left, given=given)

    def both(self, first: Sequence[str], second: Sequence[str], project: Project) -> bytes:
        """What two commands that only read say, run at the same time."""
        begun = self._begun(first, project)
        try:
            said = self.git(*second, project=project)
        except BaseException:
            stop(begun)
            raise
        return finish(begun, seconds=self._left) + said

    @property
    def _left(self) -> float:
        return self._seconds if self._until is None else max(0.0, self._until - monotonic())

    def _begun(self, words: Sequence[str], project: Project | None) -> Started:
        top, folder = (None, None) if project is None else (project.top, project.root)
        git = git_on(self.folder, self._environ, top=top, folder=folder)
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        return start(Git((*git.words, *settings), git.environ), words, kept=self._held)


def _text(path: Path) -> str:
    """What a file says, whatever its bytes; nothing where there is none."""
    return small_file(path).decode("utf-8", "surrogateescape")


def _pattern(path: Path) -> str:
    """The line of an exclude file that stands for one folder."""
    return "/" + _SPECIAL.sub(r"\\\1", path.as_posix()) + "/"
