"""The repository names no machine and no package registry, and holds no lock file of one tool."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .sources import PROJECT

FOLDERS = ("src", "deploy", "docs", "tests", "benchmarks", "examples", ".ci")
DATA = PROJECT / "tests" / "data"
TEXT = {".py", ".md", ".toml", ".json", ".yaml", ".yml", ".txt", ".html", ".css", ".js", ".cfg", ".sh", ""}
TEXT |= {".conf", ".env", ".service"}

# Put together from pieces, so that this file does not name what it looks for.
HOSTS = tuple(
    ".".join(pieces)
    for pieces in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
    )
)
INVENTED = ("ada", "dev")
"""Whose home folders stand in examples of other programs' output; nobody's real ones."""

MACHINE_PATH = re.compile(rf"(?<![\w.:/~$}}-])/(?:work|root|Users|home(?!/(?:{'|'.join(INVENTED)})/))/")


def files() -> Iterator[Path]:
    """The text files of the repository, without recorded data and what tools leave behind."""
    yield from (path for path in PROJECT.iterdir() if path.suffix in (".md", ".toml") or path.name == "Makefile")
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts and DATA not in path.parents:
                yield path


def found_in(text: str) -> list[str]:
    """The registry hosts and machine paths that a text mentions."""
    lowered = text.lower()
    return [host for host in HOSTS if host in lowered] + MACHINE_PATH.findall(text)


def test_no_file_names_a_machine_or_a_registry() -> None:
    """A clone on any machine reads the same: no registry host and no absolute path of a machine in any file."""
    told = {str(path.relative_to(PROJECT)): found_in(path.read_text("utf-8")) for path in files()}

    assert {name: found for name, found in told.items() if found} == {}


def test_no_lock_file() -> None:
    """Dependencies are stated in `pyproject.toml` alone."""
    assert not (PROJECT / "uv.lock").exists()


@pytest.mark.parametrize(
    "text",
    [
        f"see https://{HOSTS[0]}/simple",
        "cd " + "/work" + "/main",
        '"' + "/root" + '/.cache"',
        "(" + "/home" + "/jane/project)",
        "/Users" + "/jane/project",
    ],
)
def test_mention_is_found(text: str) -> None:
    """A host in an address, and a path in a command, a string or a sentence, are found."""
    assert found_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "src/infold/work/x",
        "https://example.com/home/page",
        "~/work/x",
        "/home/ada/kites",
        "homework/",
        "/tmp/x",
        "/rooted/",
    ],
)
def test_harmless_text_is_let_be(text: str) -> None:
    """Relative paths, addresses, invented homes and other words are not machine paths."""
    assert found_in(text) == []
