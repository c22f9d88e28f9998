"""A git repository of infold's own beside a project: its objects, its index and its lock, and git run on nothing else.

Every command names this repository and is kept from whatever the user has set for git: variables, files, hooks, signing. The
project's own repository, if it has one, is asked where its top and its excludes are, and never written to.
"""

import fcntl
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from msgspec import Struct

__all__ = ["GitFailed", "Project", "Shadow", "is_left_out", "project_at"]

OWNER_ONLY = 0o700
PROBE_SECONDS = 10.0
"""How long git may take to say where a repository is."""

QUIET = (
    *("core.hooksPath=" + os.devnull, "core.fsmonitor=false", "core.autocrlf=false", "core.safecrlf=false"),
    *("core.quotePath=false", "core.splitIndex=true", "gc.autoDetach=false", "maintenance.auto=false"),
)
"""What every command is told: it runs nobody's programs, leaves nothing running, and writes of its index what changed alone."""

_SPECIAL = re.compile(r"([\\*?\[\]#! ])")


class GitFailed(Exception):
    """git did not do what it was asked, in words for a note; never leaves the agent.

    `is_lasting`: it will not do it the next time either.
    """

    def __init__(self, problem: str, *, is_lasting: bool = False) -> None:
        self.is_lasting = is_lasting
        super().__init__(problem)


class Project(Struct, frozen=True):
    """Where a project stands for git: the top of its working tree, and the file of what its repository leaves out."""

    root: Path
    top: Path
    excludes: Path | None = None


def project_at(root: Path, environ: Mapping[str, str]) -> Project:
    """A folder as git sees it; one in no repository is its own top."""
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-path", "info/exclude")
    try:
        told = _ended(_begun(("git", "-C", str(root), *asked), _unsteered(environ)), seconds=PROBE_SECONDS)
        top, excludes = (Path(os.fsdecode(line)) for line in told.splitlines())
    except GitFailed as error:
        if error.is_lasting:
            raise
        return Project(root, root)
    return Project(root, top, excludes) if root.is_relative_to(top) else Project(root, root)


def is_left_out(project: Project, environ: Mapping[str, str]) -> bool:
    """Whether the repository that a project stands in ignores it as a whole, and so has no say in it."""
    try:
        _ended(
            _begun(("git", "-C", str(project.root), "check-ignore", "-q", "."), _unsteered(environ)),
            seconds=PROBE_SECONDS,
        )
    except GitFailed:
        return False
    return True


class Shadow:
    """The repository in a folder, which is made where it is needed.

    `environ` is what of the process's environment git may see, `seconds` how long a block or a command may take.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], seconds: float) -> None:
        self.folder = folder
        self._environ = _unsteered(environ)
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
        return _ended(self._begun(words, project), seconds=self._left, given=given)

    def both(self, first: Sequence[str], second: Sequence[str], project: Project) -> bytes:
        """What two commands that only read say, run at the same time."""
        begun = self._begun(first, project)
        try:
            said = self.git(*second, project=project)
        except BaseException:
            _stop(begun)
            raise
        return _ended(begun, seconds=self._left) + said

    @property
    def _left(self) -> float:
        return self._seconds if self._until is None else max(0.0, self._until - monotonic())

    def _begun(self, words: Sequence[str], project: Project | None) -> subprocess.Popen[bytes]:
        where = () if project is None else ("-C", str(project.root), f"--work-tree={project.top}")
        options = [word for value in QUIET for word in ("-c", value)]
        return _begun(("git", f"--git-dir={self.folder}", *where, *options, *words), self._environ, self._held)


def _begun(command: Sequence[str], environ: Mapping[str, str], kept: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, pass_fds=kept)
    except OSError as error:
        raise GitFailed(f"git cannot be run ({error.strerror})", is_lasting=True) from error


def _ended(begun: subprocess.Popen[bytes], *, seconds: float, given: bytes = b"") -> bytes:
    """What a command says until its end; whatever breaks off the waiting stops the command."""
    try:
        said, complaint = begun.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        _stop(begun)
        raise GitFailed("git takes too long", is_lasting=True) from error
    except BaseException:
        _stop(begun)
        raise
    if begun.returncode:
        told = complaint.decode("utf-8", "replace").strip().splitlines() or [f"exit status {begun.returncode}"]
        raise GitFailed(told[-1])
    return said


def _stop(begun: subprocess.Popen[bytes]) -> None:
    begun.kill()
    begun.communicate()


def _unsteered(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without anything that steers git, and git without anybody's settings."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    return {**kept, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def _text(path: Path) -> str:
    """What a file says, whatever its bytes; nothing where there is none."""
    return path.read_text("utf-8", "surrogateescape") if path.is_file() else ""


def _pattern(path: Path) -> str:
    """The line of an exclude file that stands for one folder."""
    return "/" + _SPECIAL.sub(r"\\\1", path.as_posix()) + "/"
