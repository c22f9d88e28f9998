"""What people wrote for agents that work in a project: AGENTS.md files, read from disk each time they are wanted.

The user's own come first, then the project's, then those of folders further down once something in them was touched, so that the
nearest has the last word. Where a folder has no AGENTS.md its CLAUDE.md counts. They are never summarised: whoever sends them
reads them anew.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["instructions_for"]

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


def instructions_for(root: Path, touched_paths: Iterable[Path], home: Path | None = None) -> str:
    """The instructions that hold for work in a project in which these paths were touched; empty where there are none.

    A file that is too long is cut, one that cannot be read is named: both with a note, so that a model knows that it does not
    know everything.
    """
    place = Path(os.path.realpath(root))
    texts: list[str] = []
    room = MOST_IN_ALL
    for file, name in _files(place, touched_paths, home):
        leads_out = not name.startswith("~") and not Path(os.path.realpath(file)).is_relative_to(place)
        text = f"[{name} leads out of the project and is not read]" if leads_out else _text(file, name, room)
        room = max(0, room - len(text))
        texts += [text] if text else []
    return "\n\n".join(texts)


def _files(root: Path, touched_paths: Iterable[Path], home: Path | None) -> Iterator[tuple[Path, str]]:
    """The files to read, in the order in which they are given, and how each is named."""
    if home is not None:
        yield home / OWN, f"~/{OWN}"
    for folder in _folders(root, touched_paths):
        found = next((folder / name for name in NAMES if os.path.lexists(folder / name)), None)
        if found is not None:
            yield found, str(found.relative_to(root))


def _folders(root: Path, touched_paths: Iterable[Path]) -> list[Path]:
    """The root and every folder on the way from it to a touched path, those further up first; nothing outside the root."""
    found = {root}
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


def _text(file: Path, name: str, room: int) -> str:
    """A file under a heading that says where it is from, cut to the room there is."""
    try:
        text = _read(file).decode("utf-8-sig", "replace").replace("\0", "\ufffd").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"[{name} could not be read: {error.strerror or error}]"
    most = min(room, MOST_CHARACTERS)
    if len(text) > most:
        text = f"{text[:most]}\n[the rest of {name} is left out for its length; read the file for it]"
    return f"Instructions from {name}:\n\n{text}" if text else ""


def _read(file: Path) -> bytes:
    """The beginning of a file; raises `OSError` for what is none, since reading a pipe would wait for ever."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError("it is no file")
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES)
