"""The site has every page: the navigation is read from `docs/README.md`, and links are rewritten to where pages stand."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

from .sources import PROJECT
from .test_docs import DOCS, links, pages


def load_site() -> ModuleType:
    """The program beside the docs; `docs` is no package."""
    spec = spec_from_file_location("site_builder", DOCS / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = load_site()
FOUND = SITE.pages()


def test_the_navigation_has_every_page_once() -> None:
    """Each page of the repository is in one section; the index itself is a page, but not an entry."""
    entries = [file for section in SITE.navigation() for _, file, _ in section.entries]

    assert len(entries) == len(set(entries))
    assert set(pages()) - {DOCS / "README.md"} <= set(entries)
    assert [section.title for section in SITE.navigation()][:3] == ["Start", "Guides", "Frameworks and agents"]


def test_pages_stand_apart() -> None:
    """No two files have the same place, and the README is the first page."""
    places = [page.place for page in FOUND.values()]

    assert len(places) == len(set(places))
    assert str(FOUND[PROJECT / "README.md"].place) == "index.md"


def test_links_lead_to_pages_of_the_site(tmp_path: Path) -> None:
    """Every relative link of a written page leads to a file that was written with it."""
    SITE.write_pages(tmp_path)
    written = sorted((tmp_path / "docs").rglob("*.md"))
    broken = [
        (page.name, link)
        for page in written
        for link in links(page.read_text("utf-8"))
        if not (page.parent / link.partition("#")[0]).exists()
    ]

    assert len(written) > len(pages())
    assert broken == []


def test_programs_find_every_page(tmp_path: Path) -> None:
    """`llms.txt` lists the pages of the navigation as Markdown files that are there, and `llms-full.txt` holds their text."""
    SITE.write_pages(tmp_path)
    listing = (tmp_path / "docs" / "llms.txt").read_text("utf-8")
    whole = (tmp_path / "docs" / "llms-full.txt").read_text("utf-8")
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", listing, re.MULTILINE)

    assert listing.startswith("# infold\n\n> ")
    assert len(listed) == sum(len(section.entries) for section in SITE.navigation())
    assert [place for place in listed if not (tmp_path / "docs" / place).exists()] == []
    assert whole.count("\n<!-- ") >= len(listed) - 1
    assert "### WindowExceeded" in whole


def test_a_notebook_becomes_a_page(tmp_path: Path) -> None:
    """Its text, code, printed lines and drawings are shown in order."""
    drawn = {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {"cell_type": "code", "source": ["draw()"], "outputs": [{"output_type": "stream", "text": ["1\n"]}, drawn]},
    ]
    file = tmp_path / "example.ipynb"
    file.write_text(json.dumps({"cells": cells}), "utf-8")
    page = SITE.render(SITE.Page(file, PurePosixPath("example.md")), FOUND)

    assert page.startswith("# Title\nText.\n\n```python\ndraw()\n```\n\n```text\n1\n```\n\n![")
    assert "data:image/png;base64,AAAA" in page
    assert "<Figure>" not in page


def test_other_folders_are_spared(tmp_path: Path) -> None:
    """A folder with files that are not a site is neither emptied nor written to."""
    (tmp_path / "mine.txt").write_text("mine", "utf-8")

    with pytest.raises(SystemExit):
        SITE.main([str(tmp_path)])
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_page_is_rewritten() -> None:
    """Fences name a language alone; links to sources lead to a page with the source; examples in code stay as they are."""
    guide = SITE.render(FOUND[DOCS / "guides" / "fit.md"], FOUND)
    tour = SITE.render(FOUND[DOCS / "tour.md"], FOUND)
    home = SITE.render(FOUND[PROJECT / "README.md"], FOUND)
    source = SITE.render(FOUND[PROJECT / "src" / "infold" / "session" / "fit.py"], FOUND)

    assert "```python run" not in guide
    assert "```output" not in guide
    assert "](source/src/infold/session/fit.py.md)" in tour
    assert "](guides/page-session.png#only-light)" in home
    assert "](guides/page-session-dark.png#only-dark)" in home
    assert "\n`````python\n" in source
