"""The built site needs nothing from elsewhere, and its search finds what a reader looks for."""

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.architecture.test_site import SITE
from tests.e2e.page_stage import browser

pytest.importorskip("zensical")
pytestmark = pytest.mark.slow

NAMES = Path(__file__).parents[1] / "data" / "documents" / "names.txt"

WANTED = {
    "WindowExceeded": "reference/api.html#windowexceeded",
    "Session.prepare": "reference/api.html#sessionprepare",
    "INFOLD_WINDOW": "reference/settings.html",
    "opencode.json": "guides/agents.html",
    "isOverflow": "guides/coming-from-opencode.html",
    "PRUNE_PROTECT": "guides/coming-from-opencode.html",
    "filterCompacted": "guides/coming-from-opencode.html",
}
"""Words, and where one of the first results leads."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built once."""
    folder = tmp_path_factory.mktemp("site") / "site"
    assert SITE.build(folder) == 0
    return folder


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No page names a script, style, font or image of another server."""
    outside = re.compile(
        r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(?:https?:)?//[^\s>\"]+|@import url\(\"?http"
    )
    found = [(page.name, outside.search(page.read_text("utf-8"))) for page in sorted(site.rglob("*.html"))]

    assert len(found) > 80
    assert [name for name, match in found if match] == []
    assert {"llms.txt", "llms-full.txt", "index.md"} <= {page.name for page in site.iterdir()}


def test_every_name_of_the_documents_is_in_the_index(site: Path) -> None:
    """What the search looks through has each function, constant, flag and setting of the source documents."""
    items = json.loads((site / "search.json").read_text("utf-8"))["items"]
    page = [item for item in items if item["location"].startswith("guides/coming-from-opencode.html")]
    text = unescape(re.sub(r"<[^>]+>", "", " ".join(f"{item['title']} {item['text']}" for item in page)))
    names = [line.split(" ", 1)[1] for line in NAMES.read_text("utf-8").splitlines() if line[:3].isdigit()]

    assert len(names) > 100
    assert [name for name in names if name not in text] == []


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """A link to a page or a heading that does not exist is an error, not a note."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n", "utf-8")
    page = tmp_path / "docs" / "index.md"
    page.write_text("# Home\n\n[here](#home)\n", "utf-8")
    assert SITE.make_html(tmp_path) == 0

    page.write_text("# Home\n\n[nowhere](missing.md)\n", "utf-8")
    assert SITE.make_html(tmp_path) != 0


@pytest.mark.long
def test_search_finds_names(address: str) -> None:
    """Names of the API, of settings and of other programs' files are found, and a result leads to their place."""
    with browser() as opened:
        page = opened.new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        for word, place in WANTED.items():
            page.goto(f"{address}/index.html")
            page.keyboard.press("/")
            page.get_by_label("Search", exact=True).and_(page.locator("input[type=text]")).fill(word)
            page.wait_for_selector("a[role=option]")
            found = [str(result.get_attribute("href")) for result in page.locator("a[role=option]").all()[:5]]
            assert any(place in re.sub(r"\?[^#]*", "", link) for link in found), (word, found)

    assert [url for url in requested if not url.startswith((address, "blob:", "data:"))] == []
