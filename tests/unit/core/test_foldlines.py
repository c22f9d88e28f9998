"""How the facts of a ledger read."""

import pytest

from infold.core.checkpoint_text import (
    TextRoom,
    changed_lines,
    command_line,
    excerpt_lines,
    file_lines,
    quote_beginning,
    quote_verbatim,
    render_checkpoint,
    shared_folder,
)
from infold.core.ledger import CommandFact, ErrorFact, FileFact, Ledger, Quote


def read(*paths: str) -> list[FileFact]:
    """Files that were read."""
    return [FileFact(path, "read", 0, "1.0") for path in paths]


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        (("/srv/project/src/a.py", "/srv/project/src/b.py"), "/srv/project/"),
        (("/srv/project/src/a.py", "/srv/project/tests/b.py", "/tmp/c.py"), "/srv/project/"),
        (("/srv/project/src/a.py",), ""),
        (("src/a.py", "src/b.py"), ""),
        (("/a/b/c.py", "/a/b/d.py"), ""),
        ((), ""),
    ],
)
def test_a_folder_most_paths_share_is_found(paths: tuple[str, ...], folder: str) -> None:
    """The longest folder above most files' own is shared; a short one, or one of a single path, is not worth naming."""
    assert shared_folder(read(*paths)) == folder


def test_a_changed_file_tells_what_was_done_to_it() -> None:
    """A line has the path, the last operation, and how often it was changed."""
    fact = FileFact("/srv/project/src/a.py", "edited", 3, "5.0")

    assert changed_lines([fact], "/srv/project/", True, whole=1) == ("- src/a.py: edited (3 times) [5.0]",)
    assert changed_lines([FileFact("b.md", "written", 1, "6.0")], "", False, whole=1) == ("- b.md: written",)


def test_changed_files_are_listed_by_operation_where_room_is_short() -> None:
    """Beyond the newest that are told whole, files share lines with others of the same operation."""
    files = [
        FileFact("a.py", "edited", 2, "1.0"),
        FileFact("b.py", "written", 1, "2.0"),
        FileFact("c.py", "edited", 1, "3.0"),
    ]

    assert changed_lines(files, "", False, whole=1) == ("- a.py: edited (2 times)", "- written: b.py", "- edited: c.py")
    assert changed_lines(files, "", False, whole=0) == ("- edited: a.py, c.py", "- written: b.py")


def test_a_bare_name_is_never_left_of_a_path() -> None:
    """A file that lies in the shared folder itself keeps its whole path."""
    assert file_lines("read", read("/srv/project/a.py", "/srv/project/src/b.py"), "/srv/project/") == (
        "- read: /srv/project/a.py, src/b.py",
    )


def test_files_read_share_lines() -> None:
    """Three files stand on a line."""
    lines = file_lines("read", read(*(f"src/{number}.py" for number in range(8))), "")

    assert [line.count(".py") for line in lines] == [3, 3, 2]
    assert all(line.startswith("- read: ") for line in lines)


def test_a_command_is_told_without_its_folder() -> None:
    """What a command begins by changing into is left out; how it ended is not."""
    commands = [CommandFact("cd /srv/project && make test", "1.0", 2, "3 failed"), CommandFact("cd /srv", "2.0")]

    lines = [command_line(fact, recall=False) for fact in commands]

    assert lines == ["- `make test` → exit 2 (3 failed)", "- `cd /srv`"]


def test_an_error_tells_its_origin() -> None:
    """A file's error is told by its short path, a command's without its folder."""
    errors = [ErrorFact("/srv/project/src/a.py", "no match", "3.0"), ErrorFact("cd /x && make", "fatal", "4.0")]

    files = read("/srv/project/src/a.py", "/srv/project/src/b.py")

    folded = render_checkpoint(
        Ledger(files=tuple(files), errors=tuple(errors)),
        TextRoom(500, 100),
        rule="features",
        recall=True,
    )

    assert "newest first:\n- make: fatal [4.0]\n- src/a.py: no match [3.0]\n" in folded.text


def test_quotations_are_shortened_only_as_excerpts() -> None:
    """A quotation is word for word, an excerpt is one line, a stub says how long the whole is."""
    long = Quote("7.0", "word " * 100)

    assert quote_verbatim(Quote("7.0", "a\nb"), True) == '- """a\nb""" [7.0]'
    assert quote_verbatim(Quote("7.0", "a"), False) == "- a"
    assert excerpt_lines([long, long], False) == ("- " + ("word " * 47).strip() + "…",)
    assert excerpt_lines([Quote("8.0", "w" * 300)], False) == ("- " + "w" * 239 + "…",)
    assert quote_beginning(long, True).endswith("… [500 characters in all; recall 7.0]")
    assert quote_beginning(Quote("7.0", "short"), False) == "- short [5 characters in all]"
