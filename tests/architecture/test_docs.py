"""The pages are true: their Python runs, their links lead somewhere, and nothing a user can name is left out.

A block fenced as `python run` is executed, those of one page in order and in one namespace. A block fenced as `output` right
after it is what it prints.
"""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from infold import SessionSettings
from infold.cli.main import VERBS
from infold.core.events import Event
from infold.core.policy import PRESETS

from .sources import PROJECT

DOCS = PROJECT / "docs"
RUN, OUTPUT = "python run", "output"

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\[]+\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FOREIGN = re.compile(r"^[a-z]+:")


class Block(NamedTuple):
    """A fenced block: what stands after the fence, its text, and whether nothing but blank lines is before it since the last."""

    info: str
    text: str
    follows: bool


class Example(NamedTuple):
    """A piece of Python, and what it is shown to print; none where the page does not show it."""

    code: str
    shown: str | None


def pages() -> list[Path]:
    """Every page a reader may open."""
    return [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def name_of(path: Path) -> str:
    """A page by its path in the repository."""
    return path.relative_to(PROJECT).as_posix()


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page in order."""
    end = 0
    for found in FENCE.finditer(page):
        yield Block(found[1].strip(), found[2], follows=not page[end : found.start()].strip())
        end = found.end()


def examples(page: str, *, code: str = RUN, output: str = OUTPUT) -> list[Example]:
    """The blocks to be run, each with the output block right after it, by what stands after their fences."""
    found = list(blocks(page))
    after: list[Block | None] = [*found[1:], None]
    return [
        Example(one.text, two.text if two is not None and two.info == output and two.follows else None)
        for one, two in zip(found, after, strict=False)
        if one.info == code
    ]


def printed(code: str, namespace: dict[str, Any]) -> str:
    """What a piece of Python prints; names it makes stay in the namespace."""
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "<example>", "exec"), namespace)
    return out.getvalue()


START = DOCS / "start.md"
"""Its commands and examples write files: `tests/e2e/test_start_page.py` runs all of them in a folder of their own."""

PAGES_THAT_RUN = [page for page in pages() if page != START and examples(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=name_of)
def test_examples_run(page: Path) -> None:
    """Each `python run` block of a page runs and prints what the page shows."""
    namespace: dict[str, Any] = {"__name__": "example"}
    for example in examples(page.read_text("utf-8")):
        out = printed(example.code, namespace)
        assert out == (example.shown or "")


def test_guides_have_examples() -> None:
    """Each guide has an example that is run, here or, of an agent, by `tests/e2e/test_agents.py`."""
    guides = sorted((DOCS / "guides").glob("*.md"))
    left = [page for page in guides if page not in PAGES_THAT_RUN]
    assert [name_of(page) for page in left if not examples(page.read_text("utf-8"), code="python agent")] == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_resolve(page: Path) -> None:
    """Each relative link leads to a file that is there and, where it names a heading, to one that the file has."""
    assert [link for link in links(page.read_text("utf-8")) if not resolves(link, page)] == []


def test_index_names_every_page() -> None:
    """The index of the docs links to every page but itself."""
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(index.read_text("utf-8"))}

    assert [name_of(page) for page in sorted(DOCS.rglob("*.md")) if page != index and page not in linked] == []


def test_examples_name_current_models() -> None:
    """No code block of a guide, and not the README, names a model of a generation that is being retired."""
    retired = re.compile(r"gpt-(?:3|4|5\b(?!\.))|claude-(?:\w+-)?[34][-.]|gemini-[12]")
    guides = [PROJECT / "README.md", START, *sorted((DOCS / "guides").rglob("*.md"))]

    assert [
        (name_of(page), found[0])
        for page in guides
        for block in blocks(page.read_text("utf-8"))
        if (found := retired.search(block.text))
    ] == []


def test_presets_are_told() -> None:
    """Each preset is named on some page of the docs."""
    assert [name for name in PRESETS if f"`{name}`" not in _all_docs()] == []


def test_events_are_told() -> None:
    """Each event is named on some page of the docs by its tag."""
    tags = [event.__struct_config__.tag for event in get_args(Event)]

    assert [tag for tag in tags if f"`{tag}`" not in _all_docs()] == []


def test_settings_of_a_session_are_told() -> None:
    """Each setting of a session is named on the page about sessions."""
    page = (DOCS / "guides" / "session.md").read_text("utf-8")

    assert [name for name in SessionSettings.__struct_fields__ if f"`{name}`" not in page] == []


def test_verbs_are_told() -> None:
    """Each verb of the command is named in the reference of the command if there is one, else on some page."""
    reference = DOCS / "reference" / "cli.md"
    told = reference.read_text("utf-8") if reference.exists() else _all_docs()

    assert [verb for verb in VERBS if f"infold {verb}" not in told] == []


# The program that reads the pages.


def links(page: str) -> list[str]:
    """The relative links of a page, those in code left out."""
    prose = re.sub(r"`[^`\n]*`", "``", FENCE.sub("", page))
    return [link for link in LINK.findall(prose) if not FOREIGN.match(link)]


def resolves(link: str, page: Path) -> bool:
    """Whether a link on a page leads to a file and a heading that exist."""
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return False
    return not anchor or anchor in {_slug(heading) for heading in HEADING.findall(target.read_text("utf-8"))}


def test_tables_of_agents_and_frameworks_are_fresh() -> None:
    """The tables are as `benchmarks/results` has them; `python docs/agents_table.py --write` refreshes them."""
    spec = spec_from_file_location("agents_table", DOCS / "agents_table.py")
    assert spec is not None
    assert spec.loader is not None
    table = module_from_spec(spec)
    spec.loader.exec_module(table)

    for one in table.TABLES:
        page = one.page.read_text("utf-8")
        assert table.current(one, page) == page
        with pytest.raises(ValueError, match="lacks"):
            table.current(one, "a page without marks")


def test_blocks_are_read_as_written() -> None:
    """Only blocks of the asked kind are examples, and only an output right after one is its output."""
    page = "```python run\na\n```\n\n```output\n1\n```\n\n```python\nb\n```\n\n```python run\nc\n```\ntext\n```output\n2\n```\n"

    assert examples(page) == [Example("a\n", "1\n"), Example("c\n", None)]
    assert examples(page, code="python") == [Example("b\n", None)]


def test_links_are_read_as_written() -> None:
    """Links in code and addresses elsewhere are not looked up; others are, with their headings."""
    page = "[a](b.md) `[c](d.md)` [e](https://example.com/x) [f](#g)\n```sh\n[h](i.md)\n```\n"

    assert links(page) == ["b.md", "#g"]
    assert resolves("README.md#words-of-the-docs", DOCS / "README.md") is False
    assert resolves("no-such-page.md", DOCS / "README.md") is False


def _slug(heading: str) -> str:
    """A heading as the anchor that renderers make of it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _all_docs() -> str:
    return "\n".join(page.read_text("utf-8") for page in sorted(DOCS.rglob("*.md")))
