"""What people wrote for agents that work in a project: AGENTS.md files, read from disk each time they are wanted.

The user's own come first, then those of the repository from its top down to the project, then those of folders further down
once something in them was touched, so that the nearest has the last word. Where a folder has no AGENTS.md its CLAUDE.md counts.
They are never summarised: whoever sends them reads them anew. Where they are too long each keeps its beginning, and the longest
lose most.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from infold.agent.tools.files import is_secret
from infold.core.tokens import estimate_tokens
from infold.transcripts.source import is_database_in_use

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The files that are looked for in a folder; the first that is there counts."""

OWN = Path(".config") / "infold" / "AGENTS.md"
"""Where a user's own instructions are, from the home folder."""

MOST_CHARACTERS = 24_000
"""Characters of one file that are given: some six thousand tokens."""

MOST_IN_ALL = 60_000
"""Characters of all files together."""

MOST_BYTES = 1_000_000
"""Bytes of a file that are read at all."""


class ProjectInstructions(Struct, frozen=True):
    """Instructions as a model is given them; `files` are where they are from, `shortened` those of them that it is not given
    whole, each with how much of it. `ignored` are files of a folder that the user does not trust."""

    text: str = ""
    files: tuple[str, ...] = ()
    shortened: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class _Written(Struct, frozen=True):
    """What a file says; `problem` in its place where it could not be read."""

    name: str
    text: str = ""
    problem: str = ""


def load_instructions(
    root: Path,
    touched_paths: Iterable[Path],
    home: Path | None = None,
    *,
    most_tokens: int = 0,
    is_trusted: bool = True,
) -> ProjectInstructions:
    """The instructions that hold for work in a project in which these paths were touched; empty where there are none.

    All together have at most `most_tokens`, where there is such a bound. A file that is too long is cut, one that cannot be read
    is named: both with a note, so that a model knows that it does not know everything. In a folder that is not trusted the user's
    own count alone, and the others are named in `ignored`.
    """
    place = Path(os.path.realpath(root))
    theirs = find_instruction_files(place, touched_paths)
    own = [] if home is None else [_read(home / OWN, f"~/{OWN}")]
    written = [one for one in (*own, *_written(place, theirs if is_trusted else ())) if one.text or one.problem]
    most = _longest([one.text[:MOST_CHARACTERS] for one in written], most_tokens)
    return ProjectInstructions(
        "\n\n".join(_told(one, most) for one in written),
        tuple(one.name for one in written),
        tuple(f"{one.name} ({most:,} of {len(one.text):,} characters)" for one in written if len(one.text) > most),
        () if is_trusted else tuple(os.path.relpath(file, place) for file in theirs),
    )


def find_instruction_files(root: Path, touched_paths: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the files of instructions in a project, those further up first, given its real path and what was touched."""
    folders = _folders(root, touched_paths, repository_top(root))
    found = (next((folder / name for name in NAMES if os.path.lexists(folder / name)), None) for folder in folders)
    return tuple(file for file in found if file is not None)


def _longest(texts: Sequence[str], most_tokens: int) -> int:
    """The length to which texts are cut so that all fit: what short ones do not need is there for the long ones."""
    room = _room(texts, most_tokens)
    for at, length in enumerate(sorted(map(len, texts))):
        share = room // (len(texts) - at)
        if length > share:
            return share
        room -= length
    return MOST_CHARACTERS


def _room(texts: Sequence[str], most_tokens: int) -> int:
    """Characters there is room for, by how many tokens these texts are."""
    tokens = sum(map(estimate_tokens, texts)) if most_tokens else 0
    is_over = tokens > most_tokens
    return min(MOST_IN_ALL, sum(map(len, texts)) * most_tokens // tokens) if is_over else MOST_IN_ALL


def _told(written: _Written, most: int) -> str:
    """A file under a heading that says where it is from."""
    name, text = written.name, written.text
    if written.problem:
        return f"[{name} {written.problem}]"
    if len(text) > most:
        text = f"{text[:most]}\n[the rest of {name} is left out for its length; read the file for it]"
    return f"Instructions from {name}:\n\n{text}"


# Which files there are.


def _written(root: Path, files: Iterable[Path]) -> Iterator[_Written]:
    """What the files of a project say; one that leads elsewhere, or to a file of secrets, is named and not read."""
    top = repository_top(root)
    for file in files:
        name, place = os.path.relpath(file, root), Path(os.path.realpath(file))
        if not place.is_relative_to(top):
            yield _Written(name, problem="leads out of the project and is not read")
        elif is_secret(str(place.relative_to(top))):
            yield _Written(name, problem="leads to a file that may hold secrets and is not read")
        else:
            yield _read(file, name)


def repository_top(root: Path) -> Path:
    """The top of the repository that the root stands in, or else the root.

    Only of one that belongs to whom the root does: in a folder that everybody may write to, anybody can make a repository.
    """
    repository = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), root)
    return repository if _owner(repository) == _owner(repository / ".git") == _owner(root) else root


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def _folders(root: Path, touched_paths: Iterable[Path], top: Path) -> list[Path]:
    """The folders from the top to the root, and every one from there to a touched path, those further up first."""
    found = {folder for folder in (root, *root.parents) if folder.is_relative_to(top)}
    for path in touched_paths:
        place = Path(os.path.realpath(root / path))
        found.update(folder for folder in (place, *place.parents) if folder.is_relative_to(root) and _is_folder(folder))
    return sorted(found, key=lambda folder: (len(folder.parts), folder))


def _is_folder(path: Path) -> bool:
    """Whether there is a folder; a path that no system takes, such as one with an overlong name, leads to none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _read(file: Path, name: str) -> _Written:
    """What a file says; nothing where there is none."""
    try:
        return _Written(name, _bytes(file).decode("utf-8-sig", "replace").replace("\0", "\ufffd").strip())
    except FileNotFoundError:
        return _Written(name)
    except OSError as error:
        return _Written(name, problem=f"could not be read: {error.strerror or error}")


def _bytes(file: Path) -> bytes:
    """The beginning of a file; raises `OSError` for what is none, since reading a pipe would wait for ever."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError("it is no file")
    if is_database_in_use(file):
        raise OSError("it is a SQLite database in use")
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES)
