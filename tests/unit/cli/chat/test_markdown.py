"""A streamed answer is drawn block by block, and nothing of it commands the terminal."""

import io

import pytest
from rich.console import Console

from infold.cli.chat.markdown import Blocks, draw_block, split_blocks, split_lines

CODE = "```python\na = 1\n\nb = 2\n```"


@pytest.mark.parametrize(
    ("text", "done", "rest"),
    [
        ("", (), ""),
        ("One line", (), "One line"),
        ("One.\n\n", (), "One.\n\n"),
        ("One.\n\nT", (), "One.\n\nT"),
        ("One.\n\nTwo words", ("One.",), "Two words"),
        ("One.\n\n\n\nTwo words\n\nThree words", ("One.", "Two words"), "Three words"),
        (CODE, (), CODE),
        (f"{CODE}\n\nAfter it", (CODE,), "After it"),
        ("````\n```\n\nstill code", (), "````\n```\n\nstill code"),
        ("~~~\n```\n\nstill code", (), "~~~\n```\n\nstill code"),
        ("1. one\n\n2. two\n\nText after", ("1. one\n\n2. two",), "Text after"),
        ("- one\n\n  more of it\n\nText after", ("- one\n\n  more of it",), "Text after"),
        ("\n\nText first\n\nSecond", ("\n\nText first".strip("\n"),), "Second"),
    ],
)
def test_blocks_end_at_blank_lines(text: str, done: tuple[str, ...], rest: str) -> None:
    """A block is complete when the next has certainly begun; code, lists and indented lines are not torn apart."""
    assert split_blocks(text) == Blocks(done, rest)


def test_no_text_is_lost_on_the_way() -> None:
    """Whatever pieces a text arrives in, its blocks are the same."""
    whole = f"# Head\n\nSome *text*.\n\n{CODE}\n\n- a\n\n- b\n\nThe end of it."
    arrived: list[str] = []
    rest = ""
    for character in whole:
        blocks = split_blocks(rest + character)
        arrived += blocks.done
        rest = blocks.rest

    assert (tuple(arrived), rest) == (split_blocks(whole).done, split_blocks(whole).rest)


def test_plain_text_goes_line_by_line() -> None:
    """What has its line end is complete."""
    assert split_lines("a\nb\nc") == Blocks(("a\nb",), "c")
    assert split_lines("a") == Blocks((), "a")


def drawn(text: str, width: int = 40) -> str:
    """A block as a console without colours shows it."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(draw_block(text))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_markdown_is_drawn_without_its_marks() -> None:
    """Headings stand at the left, code keeps its indentation, tabs are spaces, and no blank lines surround it."""
    assert drawn("# Kites\n\nA **red** `kite`.") == "Kites\n\nA red kite."
    assert drawn("```python\nif a:\n\tb()\n```") == " if a:\n     b()"


@pytest.mark.parametrize("text", ["\x1b[31mred", "&#27;[31m &#x202e;", "[link](http://example.com/\x07)", "`\x9b2J`"])
def test_nothing_commands_the_terminal(text: str) -> None:
    """Control characters are shown as question marks, those that markdown makes of entities too; links are not links."""
    shown = drawn(text)

    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "\x1b" not in shown
