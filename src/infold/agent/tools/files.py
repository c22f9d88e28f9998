"""Files as tools read and write them: what is no text is refused in words, and a file is replaced whole or not at all."""

import os
import stat
from contextlib import suppress
from errno import EACCES
from mimetypes import guess_type
from pathlib import Path
from uuid import uuid4

from infold.agent.tools.paths import missing, named
from infold.agent.tools.tool import ToolFailed, Workplace
from infold.transcripts.source import is_database_in_use

LARGEST_BYTES = 64 * 1024 * 1024
"""Files over this size are for the shell: reading one whole takes longer than it is worth."""

SAMPLED_BYTES = 8_192
"""How far into a file a NUL byte is looked for, which no text has."""

ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def content_of(path: Path, workplace: Workplace) -> bytes:
    """The bytes of a text file; raises `ToolFailed` for a folder, a device, a binary or huge file, and for nothing at all."""
    name = named(path, workplace)
    try:
        found = path.stat()
    except FileNotFoundError:
        raise missing(path, workplace) from None
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed(f"{name} is a folder; use list to see what is in it")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(f"{name} is no regular file but a device, a socket or a pipe; use the shell if you must")
    if found.st_size > LARGEST_BYTES:
        raise ToolFailed(f"{name} has {found.st_size:,} bytes; use search, or head, tail and sed -n in the shell")
    if is_database_in_use(path):
        raise ToolFailed(f"{name} is a SQLite database that is in use, not text; look at it with sqlite3 in the shell")
    content = path.read_bytes()
    if b"\0" in content[:SAMPLED_BYTES]:
        kind = guess_type(path.name)[0] or "of no known kind"
        raise ToolFailed(f"{name} is a binary file ({kind}, {len(content):,} bytes), not text; look at it in the shell")
    return content


def encoded(text: str) -> bytes:
    """Text as it is written: in UTF-8, and bytes that were none as they were before.

    Raises `ToolFailed` for half a surrogate pair, which nothing can hold.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        broken = f"character {error.start + 1} is half of a surrogate pair"
        raise ToolFailed(f"the text cannot be written: {broken}; give the whole character") from None


def replace_file(path: Path, content: bytes) -> None:
    """Put content at a path, so that no reader ever sees half of it; a file that was there keeps its mode.

    Folders on the way are made. Raises `OSError`, which names the path, where it cannot be written; a file that is read-only is
    such a place, though another could be put there in its stead.
    """
    if _is_read_only(path):
        raise PermissionError(EACCES, "the file is read-only", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name[:100]}.{uuid4().hex[:12]}"
    try:
        with beside.open("xb") as file:
            file.write(content)
        with suppress(FileNotFoundError):
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _is_read_only(path: Path) -> bool:
    """Whether a file is there that this user may not write, or that nobody may: who may do anything still keeps to that."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not mode & ANY_WRITE or not os.access(path, os.W_OK)
