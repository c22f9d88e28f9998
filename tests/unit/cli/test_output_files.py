"""Files are written whole or not at all, and never over what was read."""

import os
from pathlib import Path

import click
import pytest

from infold.cli.files import write_file


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The file that was read."""
    path = tmp_path / "source.json"
    path.write_bytes(b"read")
    return path


def test_nothing_is_left_beside(tmp_path: Path, source: Path) -> None:
    """After a write there is the file, and no part of one."""
    write_file(tmp_path / "out", b"whole", source=source, force=False)

    assert (tmp_path / "out").read_bytes() == b"whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source.json"]


def test_an_existing_file_needs_force(tmp_path: Path, source: Path) -> None:
    """Without --force it stays as it was; with it, it is replaced and keeps its permissions."""
    out = tmp_path / "out"
    out.write_bytes(b"old")
    out.chmod(0o640)
    with pytest.raises(click.ClickException, match="--force"):
        write_file(out, b"new", source=source, force=False)
    assert out.read_bytes() == b"old"

    write_file(out, b"new", source=source, force=True)
    assert out.read_bytes() == b"new"
    assert out.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", ["itself", "symlink", "hardlink"])
def test_the_input_is_never_overwritten(tmp_path: Path, source: Path, kind: str) -> None:
    """Not even with --force, and not by another name."""
    out = source if kind == "itself" else tmp_path / "other"
    if kind == "symlink":
        out.symlink_to(source)
    elif kind == "hardlink":
        os.link(source, out)

    with pytest.raises(click.ClickException, match="never overwritten"):
        write_file(out, b"new", source=source, force=True)
    assert source.read_bytes() == b"read"


def test_a_failed_write_leaves_nothing(tmp_path: Path, source: Path) -> None:
    """A folder that is not there, and a folder in the place of the file, are told and change nothing."""
    with pytest.raises(click.ClickException, match="cannot write"):
        write_file(tmp_path / "none" / "out", b"new", source=source, force=False)
    with pytest.raises(click.ClickException, match="is a folder"):
        write_file(tmp_path, b"new", source=source, force=True)

    assert [path.name for path in tmp_path.iterdir()] == ["source.json"]


def test_a_link_is_followed(tmp_path: Path, source: Path) -> None:
    """Writing to a link replaces what it points to, and the link stays."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_file(tmp_path / "link", b"new", source=source, force=True)

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_device_is_written_to(source: Path) -> None:
    """Output to /dev/null goes there, and the device stays what it is."""
    write_file(Path("/dev/null"), b"content", source=source, force=False)

    assert Path("/dev/null").is_char_device()
