"""Find and read instructions for agents: AGENTS.md files, read from disk for each request.

The user's own come first, then those of the repository from its top down to the project, then those of folders further down in
which something was touched, so that the nearest comes last. CLAUDE.md counts in a folder without AGENTS.md. Instructions are
never summarised. If they are too long, each file is cut at the same length, so that the longest lose most.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from infold.agent.tools.files import is_secret, quote_name, read_beginning
from infold.agent.tools.tool import Workspace
from infold.core.tokens import estimate_tokens

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The file names to look for in a folder; the first that exists counts."""

OWN = Path(".config") / "infold" / "AGENTS.md"
"""The user's own instructions, below the home folder."""

MOST_CHARACTERS = 24_000
"""Characters of one file that a model is given: about six thousand tokens."""

MOST_IN_ALL = 60_000
"""Characters of all files together."""

MOST_BYTES = 1_000_000
"""Bytes of a file that are read at all."""


class ProjectInstructions(Struct, frozen=True):
    """Instructions as a model is given them.

    `files` are their sources; `shortened` those that are cut, each with its lengths; `ignored` those of a folder that the user
    does not trust.
    """

    text: str = ""
    files: tuple[str, ...] = ()
    shortened: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class _File(Struct, frozen=True):
    """The text of a file, or a `problem` if it could not be read."""

    name: str
    text: str = ""
    problem: str = ""


def load_instructions(
    workspace: Workspace, touched_paths: Iterable[Path] = (), *, most_tokens: int = 0
) -> ProjectInstructions:
    """Return the instructions for work in a project in which these paths were touched, as they are on disk now.

    `most_tokens` limits all of them together, unless 0. A file that is cut or cannot be read has a note, so that the model knows
    that something is missing. In a folder that is not trusted only the user's own count, and the others are `ignored`, as is
    what the workspace ignores.
    """
    project = Path(os.path.realpath(workspace.root))
    theirs = find_instruction_files(project, touched_paths)
    own = [] if workspace.home is None else [_read(workspace.home / OWN, f"~/{OWN}")]
    trusted, ignored = (theirs, ()) if workspace.is_trusted else ((), theirs)
    files = [one for one in (*own, *_read_project(project, trusted)) if one.text or one.problem]
    most = _longest([one.text[:MOST_CHARACTERS] for one in files], most_tokens)
    return ProjectInstructions(
        "\n\n".join(_format(one, most) for one in files),
        tuple(one.name for one in files),
        tuple(f"{one.name} ({most:,} of {len(one.text):,} characters)" for one in files if len(one.text) > most),
        tuple(dict.fromkeys((*workspace.ignored, *(quote_name(os.path.relpath(file, project)) for file in ignored)))),
    )


def find_instruction_files(root: Path, touched_paths: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the instruction files of a project, those further up first, given its real path and what was touched.

    They are in the folders from the repository's top to the root, and in those from the root to each touched path.
    """
    top = repository_top(root)
    folders = {folder for folder in (root, *root.parents) if folder.is_relative_to(top)}
    for path in touched_paths:
        place = Path(os.path.realpath(root / path))
        below = (folder for folder in (place, *place.parents) if folder.is_relative_to(root))
        folders.update(filter(os.path.isdir, below))  # unlike `Path.is_dir`, accepts a name that is too long
    ordered = sorted(folders, key=lambda folder: (len(folder.parts), folder))
    found = (next((folder / name for name in NAMES if os.path.lexists(folder / name)), None) for folder in ordered)
    return tuple(file for file in found if file is not None)


def repository_top(root: Path) -> Path:
    """Return the top of the repository that the root is in, or else the root.

    A repository counts only if it has the owner of the root: in a folder that everyone may write to, anyone can make one.
    """
    repository = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), root)
    return repository if owner_of(repository) == owner_of(repository / ".git") == owner_of(root) else root


def _longest(texts: Sequence[str], most_tokens: int) -> int:
    """Return the length to cut texts at so that all fit; what short ones do not use is left for the long ones."""
    room, tokens = MOST_IN_ALL, sum(map(estimate_tokens, texts)) if most_tokens else 0
    if tokens > most_tokens:
        room = min(room, sum(map(len, texts)) * most_tokens // tokens)
    for at, length in enumerate(sorted(map(len, texts))):
        share = room // (len(texts) - at)
        if length > share:
            return share
        room -= length
    return MOST_CHARACTERS


def _format(file: _File, most: int) -> str:
    name, text = file.name, file.text
    if file.problem:
        return f"[{name} {file.problem}]"
    if len(text) > most:
        text = f"{text[:most]}\n[the rest of {name} is left out for its length; read the file for it]"
    return f"Instructions from {name}:\n\n{text}"


def _read_project(root: Path, files: Iterable[Path]) -> Iterator[_File]:
    """Read the files of a project; a link out of the project, or to a file of secrets, is named and not read."""
    top = repository_top(root)
    for file in files:
        name, target = quote_name(os.path.relpath(file, root)), Path(os.path.realpath(file))
        if not target.is_relative_to(top):
            yield _File(name, problem="leads out of the project and is not read")
        elif is_secret(str(target.relative_to(top))):
            yield _File(name, problem="leads to a file that may hold secrets and is not read")
        else:
            yield _read(file, name)


def _read(file: Path, name: str) -> _File:
    """Read the beginning of a file; its text is empty if it does not exist."""
    try:
        content = read_beginning(file, MOST_BYTES)
    except FileNotFoundError:
        return _File(name)
    except OSError as error:
        return _File(name, problem=f"could not be read: {error.strerror or error}")
    return _File(name, content.decode("utf-8-sig", "replace").replace("\0", "\ufffd").strip())


def owner_of(path: Path) -> int:
    """Return the user id of a path's owner, without following a link; -1 if the path cannot be looked at."""
    try:
        return path.lstat().st_uid
    except OSError:
        return -1
