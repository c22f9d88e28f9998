"""Take the pictures of `docs/guides/page.md`.

    python docs/page_screenshots.py           into docs/guides
    python docs/page_screenshots.py FOLDER    somewhere else

Needs playwright and a Chromium. Sessions are that of the demo, and those of the browser tests: a long coding run, played through
a small window.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

from playwright.sync_api import Browser, Page  # noqa: E402 - after the path to the tests
from tests.e2e.page_stage import Player, browser, serving  # noqa: E402

from infold.cli.demo import Demo  # noqa: E402
from infold.core.messages import SessionId  # noqa: E402
from infold.core.policy import INFOLD  # noqa: E402
from infold.gateway.page.routes import encode_key  # noqa: E402
from infold.ports import SessionKey  # noqa: E402
from infold.stores.sqlite import SqliteStore  # noqa: E402

__all__ = ["main"]

LONG = "ferry-timetable-import"
SESSIONS = (
    ("docs-feed", "Describe the new feed in docs/feed.md", 9, 3_100),
    ("billing-crossings", "Billing counts cancelled crossings", 56, 190),
)
"""Other sessions in the list: their ids, titles, requests, and how many minutes ago they changed."""

WIDE, PHONE = (1280, 900), (390, 844)


class Clock:
    """Says that it is so many minutes ago."""

    minutes_ago = 0

    def now_ms(self) -> int:
        """The time then."""
        return int(time() * 1000) - self.minutes_ago * 60_000


def main() -> None:
    """Fill a store, show it, and take the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "docs" / "guides"
    with TemporaryDirectory() as place:
        clock = Clock()
        with SqliteStore(Path(place) / "page.sqlite3", clock) as store:
            with serving(store) as url, browser() as opened, window(opened, WIDE, "light") as page:
                page.goto(url)
                page.screenshot(path=folder / "page-empty.png", clip={"x": 0, "y": 0, "width": 1280, "height": 640})
            for name, title, requests, clock.minutes_ago in SESSIONS:
                other = Player(store, name)
                other.play(requests)
                other.session.title(title)
            clock.minutes_ago = 12
            played = Player(store, LONG)
            played.play(74)
            played.session.undo()
            played.play(3)
            played.refuse()
            played.play(58)
            clock.minutes_ago = 0
            demo = Demo(store, 8_000, INFOLD)
            for _ in demo.play():
                pass
            demo.session.title(demo.script.title)
            with serving(store) as url, browser() as opened:
                take(opened, url, folder)


def take(opened: Browser, url: str, folder: Path) -> None:
    """All pictures."""
    demo, long = (f"{url}/sessions/{encode_key(SessionKey('', SessionId(name)))}" for name in ("demo-8k", LONG))
    with window(opened, WIDE, "light") as page:
        page.goto(url)
        page.screenshot(path=folder / "page-sessions.png", clip={"x": 0, "y": 0, "width": 1280, "height": 660})
        show(page, demo)
        page.screenshot(path=folder / "page-session.png")
        show(page, long)
        page.locator("#changes li.compaction:not(.undone) a").first.click()
        page.wait_for_selector("#judge-title")
        page.screenshot(
            path=folder / "page-compaction.png", clip={"x": 0, "y": 0, "width": 1280, "height": 1320}, full_page=True
        )
    with window(opened, WIDE, "dark") as page:
        show(page, long)
        page.screenshot(path=folder / "page-session-dark.png")
    with window(opened, PHONE, "light") as page:
        show(page, demo)
        page.screenshot(path=folder / "page-phone.png")


def show(page: Page, session: str) -> None:
    """Open a session and wait until the page is live."""
    page.goto(session)
    page.wait_for_selector("#line[data-state=open]")


@contextmanager
def window(opened: Browser, size: tuple[int, int], scheme: str) -> Iterator[Page]:
    """A page of that size, light or dark."""
    context = opened.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    yield context.new_page()
    context.close()


if __name__ == "__main__":
    main()
