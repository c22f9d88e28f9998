"""Files as tools read and write them."""

import os
import stat
from pathlib import Path

import pytest

from infold.agent.tools.files import LARGEST_BYTES, encode_text, read_text_file, replace_file
from infold.agent.tools.tool import ToolFailed, Workspace


def test_what_is_no_text_is_refused_in_words(root: Path, workspace: Workspace) -> None:
    """A folder, a pipe, a binary file and a huge one each say what to do instead."""
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    (root / "photo.png").write_bytes(b"\x89PNG\0\0")
    with (root / "huge").open("wb") as huge:
        huge.truncate(LARGEST_BYTES + 1)
    message = {}
    for name in ("folder", "pipe", "photo.png", "huge", "none"):
        with pytest.raises(ToolFailed) as refused:
            read_text_file(root / name, workspace)
        message[name] = str(refused.value)

    assert "use list" in message["folder"]
    assert "a pipe" in message["pipe"]
    assert "binary file (image/png, 6 bytes)" in message["photo.png"]
    assert "use search" in message["huge"]
    assert "there is no none" in message["none"]


def test_a_file_is_replaced_whole(root: Path) -> None:
    """The old content is gone, the mode stays, and no temporary file is left."""
    script = root / "run.sh"
    script.write_text("old, and much longer")
    script.chmod(0o755)
    replace_file(script, b"new")

    assert script.read_bytes() == b"new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert [path.name for path in root.iterdir()] == ["run.sh"]


def test_folders_are_made(root: Path) -> None:
    """A new file has the folders it needs, and the mode of any other new file."""
    (root / "plain").touch()
    replace_file(root / "a" / "b" / "c.txt", b"x")

    assert (root / "a" / "b" / "c.txt").stat().st_mode == (root / "plain").stat().st_mode


def test_a_failure_leaves_nothing_behind(root: Path) -> None:
    """Where a file cannot be put in place, what was there stays, no half is left, and the error names the file that was meant."""
    (root / "folder" / "kept").mkdir(parents=True)
    with pytest.raises(OSError, match="folder") as failed:
        replace_file(root / "folder", b"x")

    assert (failed.value.filename, failed.value.filename2) == (str(root / "folder"), None)
    assert [path.name for path in root.iterdir()] == ["folder"]


def test_a_read_only_file_stays_as_it_is(root: Path) -> None:
    """A read-only file is not replaced, although renaming over it would be possible."""
    kept = root / "kept"
    kept.write_text("old")
    kept.chmod(0o444)
    with pytest.raises(PermissionError, match=r"read-only.*kept"):
        replace_file(kept, b"new")

    assert kept.read_text() == "old"
    assert [path.name for path in root.iterdir()] == ["kept"]


def test_no_link_is_followed(root: Path, workspace: Workspace) -> None:
    """B41: a resolved path has no links; one that appears later, in place of a folder or of the file, is not followed."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("old")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "a")
    for path in (root / "folder" / "a", root / "file"):
        with pytest.raises(ToolFailed, match="is a link now"):
            read_text_file(path, workspace)
    with pytest.raises(ToolFailed, match="is a link now"):
        replace_file(root / "folder" / "a", b"new")
    with pytest.raises(ToolFailed, match="is a link now"):
        replace_file(root / "folder" / "b" / "c", b"new")
    with pytest.raises(ToolFailed, match="is a link now"):
        replace_file(root / "file", b"new")

    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a": "old"}


def test_bytes_that_are_no_text_come_back(root: Path) -> None:
    """What was read as it is, is written as it was; half a surrogate pair is refused."""
    assert encode_text(b"caf\xe9 \xff".decode("utf-8", "surrogateescape")) == b"caf\xe9 \xff"
    with pytest.raises(ToolFailed, match="character 3"):
        encode_text("ab\ud800")
