"""Snapshots of a working tree, so that it can be said afterwards what a step, a turn or a session changed (S6.1).

A snapshot is a git tree in a repository of infold's own, one for each project root. Taking one never fails the agent: where git
is missing or does not do it, there is no snapshot and a note says why. Left out are what the project's git leaves out,
repositories inside it, what cannot be read, and files too large to be source.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from time import monotonic

from msgspec import Struct

from infold.agent.git import (
    Git,
    GitFailed,
    GitProcess,
    find_checkout,
    git_command,
    kill_git,
    read_small_file,
    start_git,
    wait_for_git,
)
from infold.agent.tools.project_files import is_ignored
from infold.core.entries import MessageEntry
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    StepFinishPart,
    StepStartPart,
    UserMessage,
    is_genuine_user,
)
from infold.errors import UsageError
from infold.ports import SessionKey, Store

NO_MESSAGE = MessageId("")
"""The message of a whole session: none in particular."""


class FileDiff(Struct, frozen=True):
    """One file's difference: its contents before and after (empty where it was not there, or is no text) and its lines."""

    file: str
    before: str = ""
    after: str = ""
    additions: int = 0
    deletions: int = 0


class DiffTotals(Struct, frozen=True):
    """What several differences come to."""

    files: int = 0
    additions: int = 0
    deletions: int = 0


class SnapshotSpan(Struct, frozen=True):
    """The snapshots that something lies between, empty where none were taken, and the root of the project they are of.

    `sequence` and `message_id` name the user message that a turn began with; a whole session has none.
    """

    before: str = ""
    after: str = ""
    sequence: int = -1
    message_id: MessageId = NO_MESSAGE
    root: str = ""


def turn_spans(numbered: Iterable[tuple[int, Message]]) -> tuple[SnapshotSpan, ...]:
    """The span of each turn a person began, from numbered messages, oldest first.

    A turn lies between its first step's beginning and its last step's end. What programs say under the user's role goes on
    with the turn.
    """
    turns: list[tuple[int, UserMessage, list[Message]]] = []
    for sequence, message in numbered:
        if isinstance(message, UserMessage) and is_genuine_user(message):
            turns.append((sequence, message, []))
        elif turns:
            turns[-1][2].append(message)
    return tuple(_span(said, sequence, user.id) for sequence, user, said in turns)


def session_span(messages: Iterable[Message]) -> SnapshotSpan:
    """The span from a session's first step to its last; of one that went from project to project, in the last one alone.

    Snapshots of two projects have nothing to do with each other: a patch between them would delete the one for the other.
    """
    return _span(tuple(messages))


def sum_diffs(diffs: Sequence[FileDiff]) -> DiffTotals:
    """How many files and lines these differences are."""
    return DiffTotals(len(diffs), sum(one.additions for one in diffs), sum(one.deletions for one in diffs))


def newest_root(messages: Sequence[Message]) -> str:
    """The project's root as the newest reply has it; empty where none was recorded."""
    return next(filter(None, map(_root, reversed(messages))), "")


def session_root(store: Store, key: SessionKey) -> str:
    """The same of a stored session, of which no more is read than that takes."""
    entries = (entry for _, entry in store.newest_first(key) if isinstance(entry, MessageEntry))
    return next(filter(None, (_root(entry.message) for entry in entries)), "")


def _root(message: Message) -> str:
    """Where a reply was worked on, if it tells."""
    return message.path.root if isinstance(message, AssistantMessage) and message.path is not None else ""


def _span(messages: Sequence[Message], sequence: int = -1, message_id: MessageId = NO_MESSAGE) -> SnapshotSpan:
    """From the first beginning to the last end; a step that was broken off has none, and its beginning stands for it."""
    root = newest_root(messages)
    parts = [part for message in _at_last_in(root, messages) for part in message.parts]
    starts = [part.snapshot for part in parts if isinstance(part, StepStartPart) and part.snapshot]
    ends = [part.snapshot for part in parts if isinstance(part, StepFinishPart) and part.snapshot]
    if not starts:
        return SnapshotSpan("", "", sequence, message_id, root)
    return SnapshotSpan(starts[0], (ends or starts)[-1], sequence, message_id, root)


def _at_last_in(root: str, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages since the work came to that root and stayed there; results stand with the reply that called for them."""
    roots = [_root(message) for message in messages]
    elsewhere = [at for at, one in enumerate(roots) if one not in ("", root)]
    return messages[roots.index(root, elsewhere[-1]) :] if elsewhere else messages


OWNER_ONLY = 0o700


SETTINGS = ("core.autocrlf=false", "core.safecrlf=false", "core.splitIndex=true")
"""Settings of every command on snapshots: contents are kept as they are, and of a large index only the changes are written."""


_SPECIAL = re.compile(r"([\\*?\[\]#! ])")


class Project(Struct, frozen=True):
    """Where a project stands for git: the top of its working tree, and the file of what its repository leaves out."""

    root: Path
    top: Path
    excludes: Path | None = None


def locate_project(root: Path) -> Project:
    """A folder as git sees it; one in no repository is its own top."""
    found = find_checkout(root)
    return Project(root, root) if found is None else Project(root, found.top, found.excludes)


class SnapshotRepository:
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
        return wait_for_git(self._begun(words, project), seconds=self._left, given=given)

    def both(self, first: Sequence[str], second: Sequence[str], project: Project) -> bytes:
        """What two commands that only read say, run at the same time."""
        begun = self._begun(first, project)
        try:
            said = self.git(*second, project=project)
        except BaseException:
            kill_git(begun)
            raise
        return wait_for_git(begun, seconds=self._left) + said

    @property
    def _left(self) -> float:
        return self._seconds if self._until is None else max(0.0, self._until - monotonic())

    def _begun(self, words: Sequence[str], project: Project | None) -> GitProcess:
        top, folder = (None, None) if project is None else (project.top, project.root)
        git = git_command(self.folder, self._environ, top=top, folder=folder)
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        return start_git(Git((*git.words, *settings), git.environ), words, kept=self._held)


def _text(path: Path) -> str:
    """What a file says, whatever its bytes; nothing where there is none."""
    return read_small_file(path).decode("utf-8", "surrogateescape")


def _pattern(path: Path) -> str:
    """The line of an exclude file that stands for one folder."""
    return "/" + _SPECIAL.sub(r"\\\1", path.as_posix()) + "/"


LARGEST_BYTES = 20_000_000
"""The largest file that is kept; larger ones are data, and no person reads a diff of them."""


TIMEOUT_SECONDS = 120.0
"""How long a snapshot may take; a tree that needs longer gets none."""


RETENTION = "30.days.ago"
"""Since when snapshots are kept when a repository is tidied."""


UNKNOWN = ("ls-files", "-z", "--others", "--exclude-standard")


CHANGED = ("diff-files", "-z", "--name-only", "--relative", "--ignore-submodules=all")


COMPARED = ("diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")


PATCHED = ("diff-tree", "-r", "--patch", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")


NEWLINE, NUL = b"\n", b"\0"


_ID = re.compile(r"[0-9a-f]{40,64}")


class Snapshots:
    """The snapshots of the tree at `root`, kept under the folder `place`; `note` says why the last one was not taken.

    May be used by several processes at once: each waits until the other has taken its own.
    """

    def __init__(
        self,
        root: Path,
        place: Path,
        *,
        environ: Mapping[str, str] | None = None,
        patience_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.note = ""
        self._root = root.resolve()
        self._environ = os.environ if environ is None else environ
        name = sha256(os.fsencode(self._root)).hexdigest()[:20]
        self._shadow = SnapshotRepository(place.absolute() / name, self._environ, patience_seconds)
        self._is_off = False
        self._project: Project | None = None
        self._has_repository = False

    def take(self) -> str:
        """The tree as it is now, as an id; empty, with a note, where there is none to be had.

        After a failure that lasts no further one is tried: every step would wait for it again.
        """
        if self._is_off:
            return ""
        try:
            self._refuse()
            with self._shadow.alone():
                taken = self._taken()
            self.note = ""
            return taken
        except (GitFailed, OSError) as error:
            self._is_off = isinstance(error, GitFailed) and error.is_lasting
            self.note = f"no snapshot of {self._root}: {error}"
            return ""

    def diff(self, before: str, after: str) -> tuple[FileDiff, ...]:
        """What changed between two snapshots, file by file; nothing where either is empty.

        A file that moved is one that went and one that came; one that is not text has no lines and no contents. Raises
        `UsageError` where a snapshot is no longer kept.
        """
        if not before or not after or before == after:
            return ()
        changes = _changes(self._compared(COMPARED, before, after))
        blobs = self._contents([blob for one in changes if one.lines is not None for blob in (one.old, one.new)])
        return tuple(_file_diff(one, blobs) for one in changes)

    def patch(self, before: str, after: str) -> bytes:
        """The same as a unified diff, as git writes it and takes it: names are from the repository's top, if there is one."""
        if not before or not after or before == after:
            return b""
        return self._compared((*PATCHED, *self._prefixes()), before, after)

    def tidy(self) -> None:
        """Pack what has piled up, and let go of what is older than a month; a failure leaves everything as it is."""
        try:
            with self._shadow.alone():
                self._shadow.git("gc", "--auto", "--quiet", f"--prune={RETENTION}")
        except (GitFailed, OSError) as error:
            self.note = f"the snapshots of {self._root} were not tidied: {error}"

    # How it is done.

    def _refuse(self) -> None:
        if self._root in (Path(self._root.anchor), Path.home()):
            raise GitFailed("it is no project's folder", is_lasting=True)

    def _taken(self) -> str:
        project = self._placed()
        self._shadow.prepare(project)
        changed = set(filter(None, self._shadow.both(UNKNOWN, CHANGED, project).split(NUL)))
        kept = {path for path in changed if self._is_kept(path)}
        self._update(kept, project, "--add", "--remove", "--replace")
        self._update(changed - kept, project, "--force-remove")
        return self._tree(project)

    def _placed(self) -> Project:
        """Where the project stands, asked once; again where a repository may have come or gone since. One that ignores all of the
        project is none of its own."""
        has_repository = (self._root / ".git").exists()
        if self._project is None or has_repository != self._has_repository:
            found = locate_project(self._root)
            alone = found.top != found.root and is_ignored(self._root)
            self._project, self._has_repository = Project(found.root, found.root) if alone else found, has_repository
        return self._project

    def _is_kept(self, path: bytes) -> bool:
        """Whether a changed path is for the snapshot: a link, a readable file of a sensible size, or one that has gone.

        A repository inside the project never is: git would look into it, with the settings it has.
        """
        full = self._root / os.fsdecode(path)
        if path.endswith(b"/") or os.path.lexists(full / ".git"):
            return False
        try:
            found = full.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        if stat.S_ISREG(found.st_mode):
            return found.st_size <= LARGEST_BYTES and os.access(full, os.R_OK)
        return stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode)

    def _update(self, paths: set[bytes], project: Project, *options: str) -> None:
        if paths:
            # What became a folder goes before what is in it.
            given = b"".join(path + NUL for path in sorted(paths))
            self._shadow.git("update-index", *options, "-z", "--stdin", project=project, given=given)

    def _tree(self, project: Project) -> str:
        """The id of the root's tree, which is not the whole where the project stands inside a larger repository."""
        below = _below(project)
        options = (f"--prefix={below}",) if below else ()
        try:
            tree = self._shadow.git("write-tree", *options, project=project)
        except GitFailed as error:
            if "not found" not in str(error):
                raise
            tree = self._shadow.git("mktree")  # nothing there is to be kept
        return tree.decode().strip()

    def _prefixes(self) -> tuple[str, ...]:
        """What stands before names in a patch: git takes one made elsewhere than at the top for one of other files."""
        below = _below(locate_project(self._root)) if self._root.is_dir() else ""
        return (f"--src-prefix=a/{below}", f"--dst-prefix=b/{below}")

    def _compared(self, command: Sequence[str], before: str, after: str) -> bytes:
        """What git says of two trees; the project's own attributes say what is text, where the project still is."""
        if not (_ID.fullmatch(before) and _ID.fullmatch(after)):
            raise UsageError(f"{before[:40]!r} and {after[:40]!r} are no two snapshots; give what take() gave")
        project = Project(self._root, self._root) if self._root.is_dir() else None
        try:
            return self._shadow.git(*command, before, after, project=project)
        except GitFailed as error:
            remedy = f"snapshots are kept where they were taken, in {self._shadow.folder.parent}, for a month"
            raise UsageError(
                f"the snapshots {before[:12]} and {after[:12]} cannot be read ({error}); {remedy}"
            ) from error

    def _contents(self, blobs: Sequence[str]) -> dict[str, str]:
        """Contents by blob, each asked for once."""
        wanted = sorted({blob for blob in blobs if blob.strip("0")})
        said = self._shadow.git("cat-file", "--batch", given="".join(f"{blob}\n" for blob in wanted).encode())
        return dict(_batch(said))


def _below(project: Project) -> str:
    """The way from the top of the working tree to the root, with a slash at its end; empty where they are one."""
    below = project.root.relative_to(project.top).as_posix()
    return "" if below == "." else f"{below}/"


# What git says of a difference.


class _Change(Struct, frozen=True):
    """One path of a difference: its blobs before and after (zeros where there is none) and its lines (none: not text)."""

    path: bytes
    old: str
    new: str
    lines: tuple[int, int] | None


def _changes(said: bytes) -> list[_Change]:
    """The changes that raw lines and, after them, counts tell of; a path whose kind changed is told once for each kind."""
    fields = iter(said.split(NUL))
    blobs: dict[bytes, tuple[str, str]] = {}
    counts: dict[bytes, tuple[int, int] | None] = {}
    for field in fields:
        if field.startswith(b":"):
            _, _, old, new, _ = field.decode().split(" ")
            blobs[next(fields)] = (old, new)
        elif field:
            added, removed, path = field.split(b"\t", 2)
            counts[path] = None if added == b"-" else _sum(counts.get(path), (int(added), int(removed)))
    return [_Change(path, *pair, counts.get(path)) for path, pair in blobs.items()]


def _sum(earlier: tuple[int, int] | None, more: tuple[int, int]) -> tuple[int, int]:
    return more if earlier is None else (earlier[0] + more[0], earlier[1] + more[1])


def _batch(said: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(said):
        end = said.index(NEWLINE, at)
        blob, kind, size = said[at:end].decode().split(" ")
        at = end + 1 + int(size) + 1
        if kind == "blob":
            yield blob, said[end + 1 : at - 1].decode("utf-8", "replace")


def _file_diff(change: _Change, blobs: dict[str, str]) -> FileDiff:
    file = change.path.decode("utf-8", "replace")
    if change.lines is None:
        return FileDiff(file)
    return FileDiff(file, blobs.get(change.old, ""), blobs.get(change.new, ""), *change.lines)
