"""Snapshots of a working tree, which show afterwards what a step, a turn or a session changed.

A snapshot is a git tree in a repository of infold's own, one for each project root. Taking one never fails the agent: if git is
missing or fails, there is no snapshot and a note says why. Left out are what the project's git ignores, repositories inside it,
what cannot be read, files that are likely to hold secrets, and files too large to be source.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from infold.agent.git import Checkout, GitFailed, find_checkout, git_command, read_small_file
from infold.agent.tools.files import is_secret
from infold.agent.tools.project_files import is_ignored
from infold.core.entries import MessageEntry
from infold.core.messages import AssistantMessage, Message, StepFinishPart, StepStartPart, is_genuine_user
from infold.errors import UsageError
from infold.ports import FileDiff, SessionKey, Store
from infold.settings.schema import make_private_folder

# Which snapshots a turn or a session lies between.


class DiffTotals(Struct, frozen=True):
    """The sums of several differences."""

    files: int = 0
    additions: int = 0
    deletions: int = 0


class SnapshotSpan(Struct, frozen=True):
    """The snapshots before and after a turn or a session, empty if none were taken, and the root of their project.

    `sequence` is the number of the user message that began a turn; a whole session has none.
    """

    before: str = ""
    after: str = ""
    sequence: int = -1
    root: str = ""


def turn_spans(numbered: Iterable[tuple[int, Message]]) -> tuple[SnapshotSpan, ...]:
    """Return the span of each turn, from numbered messages, oldest first.

    A turn begins with a message that the user wrote; synthetic user messages belong to the turn they are in.
    """
    turns: list[tuple[int, list[Message]]] = []
    for sequence, message in numbered:
        if is_genuine_user(message):
            turns.append((sequence, []))
        elif turns:
            turns[-1][1].append(message)
    return tuple(replace(session_span(messages), sequence=sequence) for sequence, messages in turns)


def session_span(messages: Sequence[Message]) -> SnapshotSpan:
    """Return the span from the first step's start to the last step's end; an interrupted step ends where it started.

    If the work moved between projects, only messages since it last moved to the newest root count, because a patch between
    snapshots of two projects would delete one and create the other. Results are in the root of the reply before them.
    """
    roots = [_root(message) for message in messages]
    root = next(filter(None, reversed(roots)), "")
    elsewhere = [at for at, one in enumerate(roots) if one not in ("", root)]
    within = messages[roots.index(root, elsewhere[-1]) :] if elsewhere else messages
    parts = [part for message in within for part in message.parts]
    starts = [part.snapshot for part in parts if isinstance(part, StepStartPart) and part.snapshot]
    ends = [part.snapshot for part in parts if isinstance(part, StepFinishPart) and part.snapshot]
    return SnapshotSpan(starts[0], (ends or starts)[-1], root=root) if starts else SnapshotSpan(root=root)


def sum_diffs(diffs: Sequence[FileDiff]) -> DiffTotals:
    """Return how many files and lines changed."""
    return DiffTotals(len(diffs), sum(one.additions for one in diffs), sum(one.deletions for one in diffs))


def session_root(store: Store, key: SessionKey) -> str:
    """Return the project root of a stored session's newest reply that records one, or an empty string."""
    entries = (entry for _, entry in store.newest_first(key) if isinstance(entry, MessageEntry))
    return next(filter(None, (_root(entry.message) for entry in entries)), "")


MOST_CHOICES = 8


def find_span(store: Store, key: SessionKey, wanted: int | None) -> SnapshotSpan:
    """Return the snapshots around the turn that a user message began, or around the whole session.

    Raise `UsageError` for a number that is not a user message's.
    """
    numbered = [(at, entry.message) for at, entry in store.newest_first(key) if isinstance(entry, MessageEntry)][::-1]
    if wanted is None:
        return session_span([one for _, one in numbered])
    spans = turn_spans(numbered)
    found = next((span for span in spans if span.sequence == wanted), None)
    if found is not None:
        return found
    choices = ", ".join(str(span.sequence) for span in spans[-MOST_CHOICES:])
    remedy = f"the newest are: {choices}" if choices else "this session has none"
    raise UsageError(f"entry {wanted} is not a message that a user wrote; {remedy}")


def session_diffs(store: Store, key: SessionKey, message: int | None, folder: Path) -> tuple[FileDiff, ...]:
    """Return what a stored session, or one of its turns, changed, by the snapshots under a folder."""
    span = find_span(store, key, message)
    return Snapshots(Path(span.root), folder).diff(span.before, span.after) if span.root else ()


def _root(message: Message) -> str:
    return message.path.root if isinstance(message, AssistantMessage) and message.path is not None else ""


# The repository.

SETTINGS = ("core.autocrlf=false", "core.safecrlf=false", "core.splitIndex=true")
"""Settings of every command: keep contents as they are, and write only the changes of a large index."""

_SPECIAL = re.compile(r"([\\*?\[\]#! ])")


def locate_project(root: Path) -> Checkout:
    """Return a folder as git sees it."""
    return find_checkout(root) or Checkout(root, root)


class SnapshotRepository:
    """A private git repository in a folder, made when it is first needed.

    `environ` is the environment that git may see; a `locked` block or a single command may take up to `seconds`.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], seconds: float) -> None:
        self.folder = folder
        self._environ = environ
        self._seconds = seconds
        self._deadline: float | None = None
        self._lock: tuple[int, ...] = ()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the repository's lock during the block, after waiting for other processes.

        Commands inherit the lock: one that outlives its caller keeps others away until it ends. So an index that is still
        locked here was left by a command that has ended.
        """
        make_private_folder(self.folder)
        descriptor = os.open(self.folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._lock, self._deadline = (descriptor,), monotonic() + self._seconds
            (self.folder / "index.lock").unlink(missing_ok=True)
            yield
        finally:
            self._lock, self._deadline = (), None
            os.close(descriptor)

    def prepare(self, project: Checkout) -> None:
        """Make the repository if it does not exist, and exclude what the project's own excludes, and the repository itself."""
        if not (self.folder / "HEAD").is_file():
            self.git("init", "--quiet", "--bare", "--template=")
        place = self.folder.parent
        lines: list[bytes] = []
        if place.is_relative_to(project.top):
            lines.append(os.fsencode("/" + _SPECIAL.sub(r"\\\1", place.relative_to(project.top).as_posix()) + "/"))
        wanted = NEWLINE.join((read_small_file(project.excludes), *lines, b""))
        excludes = self.folder / "info" / "exclude"
        if read_small_file(excludes) != wanted:
            excludes.parent.mkdir(exist_ok=True)
            excludes.write_bytes(wanted)

    def git(self, *words: str, project: Checkout | None = None, given: bytes = b"") -> bytes:
        """Return what a command prints, with `given` on its standard input; raise `GitFailed` if it fails."""
        seconds = self._seconds if self._deadline is None else max(0.0, self._deadline - monotonic())
        git = git_command(self.folder, self._environ, project, settings=SETTINGS)
        return git.run(*words, seconds=seconds, given=given, kept=self._lock)


# Taking and comparing snapshots.

LARGEST_BYTES = 20_000_000
"""The largest file that is kept; larger ones are data, of which a diff is of no use."""

TIMEOUT_SECONDS = 120.0
"""How long a snapshot may take; a tree that needs longer gets none."""

RETENTION = "30.days.ago"
"""The oldest snapshots that `tidy` keeps."""

UNKNOWN = ("ls-files", "-z", "--others", "--exclude-standard")
CHANGED = ("diff-files", "-z", "--name-only", "--relative", "--ignore-submodules=all")
COMPARED = ("diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
PATCHED = ("diff-tree", "-r", "--patch", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")
NEWLINE, NUL = b"\n", b"\0"
_ID = re.compile(r"[0-9a-f]{40,64}")


class Snapshots:
    """Snapshots of the tree at `root`, stored under the folder `place`; `note` says why the last one was not taken.

    Several processes may use them at once; each waits for the others.
    """

    def __init__(
        self,
        root: Path,
        place: Path,
        *,
        environ: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.note = ""
        self._root = root.resolve()
        name = sha256(os.fsencode(self._root)).hexdigest()[:20]
        environ = os.environ if environ is None else environ
        self._repository = SnapshotRepository(place.absolute() / name, environ, timeout_seconds)
        self._is_off = False
        self._project: Checkout | None = None
        self._has_repository = False

    def take(self) -> str:
        """Return the id of a snapshot of the tree as it is now; empty, with a note, if it cannot be taken.

        After a lasting failure no further one is tried: every step would wait for it again.
        """
        if self._is_off:
            return ""
        try:
            if self._root in (Path(self._root.anchor), Path.home()):
                raise GitFailed("it is not the folder of a project", is_lasting=True)
            with self._repository.locked():
                snapshot = self._write_tree()
            self.note = ""
            return snapshot
        except (GitFailed, OSError) as error:
            self._is_off = isinstance(error, GitFailed) and error.is_lasting
            self.note = f"no snapshot of {self._root}: {error}"
            return ""

    def diff(self, before: str, after: str) -> tuple[FileDiff, ...]:
        """Return what changed between two snapshots, file by file; nothing if either is empty.

        A file that moved is one deleted and one added; one that is not text has neither lines nor contents. Raise
        `UsageError` if a snapshot is no longer kept.
        """
        if not before or not after or before == after:
            return ()
        changes = _parse_changes(self._compare(COMPARED, before, after))
        blobs = {blob for one in changes if one.lines is not None for blob in (one.old, one.new) if blob.strip("0")}
        names = "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
        contents = dict(_parse_blobs(self._repository.git("cat-file", "--batch", given=names)))
        return tuple(
            FileDiff(file)
            if one.lines is None
            else FileDiff(file, contents.get(one.old, ""), contents.get(one.new, ""), *one.lines)
            for one in changes
            for file in [one.path.decode("utf-8", "replace")]
        )

    def patch(self, before: str, after: str) -> bytes:
        """Return the same as a patch that git can apply: names are from the repository's top, if there is one."""
        if not before or not after or before == after:
            return b""
        prefix = locate_project(self._root).prefix if self._root.is_dir() else ""
        return self._compare((*PATCHED, f"--src-prefix=a/{prefix}", f"--dst-prefix=b/{prefix}"), before, after)

    def tidy(self) -> None:
        """Pack the repository and remove snapshots older than a month; a failure changes nothing."""
        try:
            with self._repository.locked():
                self._repository.git("gc", "--auto", "--quiet", f"--prune={RETENTION}")
        except (GitFailed, OSError) as error:
            self.note = f"the snapshots of {self._root} were not tidied: {error}"

    def _write_tree(self) -> str:
        """Update the index and return the id of the root's tree, which is a part if the repository's top is further up."""
        project = self._locate()
        self._repository.prepare(project)
        with ThreadPoolExecutor() as threads:
            listings = threads.map(lambda words: self._repository.git(*words, project=project), (UNKNOWN, CHANGED))
            changed = set(filter(None, NUL.join(listings).split(NUL)))
        kept = {path for path in changed if self._is_kept(path)}
        for paths, options in ((kept, ("--add", "--remove", "--replace")), (changed - kept, ("--force-remove",))):
            if paths:
                # Sorted, so that a path that became a folder comes before what is in it.
                given = b"".join(path + NUL for path in sorted(paths))
                self._repository.git("update-index", *options, "-z", "--stdin", project=project, given=given)
        part = (f"--prefix={project.prefix}",) if project.prefix else ()
        try:
            tree = self._repository.git("write-tree", *part, project=project)
        except GitFailed as error:
            if "not found" not in str(error):
                raise
            tree = self._repository.git("mktree")  # an empty tree: nothing below the root is kept
        return tree.decode().strip()

    def _locate(self) -> Checkout:
        """Return the project, located again if a repository may have appeared or gone since.

        A repository that ignores all of the project does not count.
        """
        has_repository = (self._root / ".git").exists()
        if self._project is None or has_repository != self._has_repository:
            found = locate_project(self._root)
            is_apart = found.top != self._root and is_ignored(self._root)
            self._project = Checkout(self._root, self._root) if is_apart else found
            self._has_repository = has_repository
        return self._project

    def _is_kept(self, path: bytes) -> bool:
        """Return whether a changed path belongs in the snapshot: a link, a readable file, or a deleted one.

        Large files, and files that may hold secrets, do not. A repository inside the project never does: git would look into it,
        with the settings it has.
        """
        full = self._root / os.fsdecode(path)
        if path.endswith(b"/") or os.path.lexists(full / ".git"):
            return False
        try:
            found = full.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        if stat.S_ISREG(found.st_mode):
            is_fit = found.st_size <= LARGEST_BYTES and not is_secret(os.fsdecode(path))
            return is_fit and os.access(full, os.R_OK)
        return stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode)

    def _compare(self, command: Sequence[str], before: str, after: str) -> bytes:
        """Return git's comparison of two trees; the project's attributes say what is text, if the project still exists."""
        if not (_ID.fullmatch(before) and _ID.fullmatch(after)):
            raise UsageError(f"Not snapshot ids: {before[:40]!r}, {after[:40]!r}. Use ids that take() returned.")
        project = Checkout(self._root, self._root) if self._root.is_dir() else None
        try:
            return self._repository.git(*command, before, after, project=project)
        except GitFailed as error:
            remedy = f"snapshots are kept where they were taken, in {self._repository.folder.parent}, for a month"
            raise UsageError(
                f"the snapshots {before[:12]} and {after[:12]} cannot be read ({error}); {remedy}"
            ) from error


class _Change(Struct, frozen=True):
    """One path of a comparison: its blobs before and after (zeros if missing) and its line counts (`None` if not text)."""

    path: bytes
    old: str
    new: str
    lines: tuple[int, int] | None


def _parse_changes(output: bytes) -> list[_Change]:
    """Parse raw lines and the counts after them; a path whose type changed has one count for each type."""
    fields = iter(output.split(NUL))
    blobs: dict[bytes, tuple[str, str]] = {}
    counts: dict[bytes, tuple[int, int] | None] = {}
    for field in fields:
        if field.startswith(b":"):
            _, _, old, new, _ = field.decode().split(" ")
            blobs[next(fields)] = (old, new)
        elif field:
            added, removed, path = field.split(b"\t", 2)
            earlier = counts.get(path) or (0, 0)
            counts[path] = None if added == b"-" else (earlier[0] + int(added), earlier[1] + int(removed))
    return [_Change(path, *pair, counts.get(path)) for path, pair in blobs.items()]


def _parse_blobs(output: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(output):
        end = output.index(NEWLINE, at)
        blob, kind, size = output[at:end].decode().split(" ")
        at = end + 1 + int(size) + 1
        if kind == "blob":
            yield blob, output[end + 1 : at - 1].decode("utf-8", "replace")
