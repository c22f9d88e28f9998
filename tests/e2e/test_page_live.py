"""What somebody does on the page while a session grows: updates leave it alone, and come in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import SessionId
from infold.gateway.page.routes import encode_key
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import APIResponse, Page, Route, expect

from .page_stage import CHROMIUM, SETTINGS, Player, browser, serving, watched

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; on Debian: apt-get install chromium"),
]

NAME = "growing"


class Live(Struct, frozen=True):
    """A session of twelve requests on an open page, and who plays more of it."""

    page: Page
    player: Player


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """The page, live; at the end the browser must have had nothing to complain about."""
    troubles: list[str] = []
    settings = replace(SETTINGS, window=16_000)
    with SqliteStore(tmp_path / "page.sqlite3") as store, serving(store, settings) as url, browser() as opened:
        player = Player(store, NAME, settings)
        player.play(12)
        page = watched(opened.new_page(viewport={"width": 1280, "height": 900}), troubles)
        page.goto(f"{url}/sessions/{encode_key(SessionKey('', SessionId(NAME)))}")
        expect(page.locator("#line")).to_have_text("live")
        yield Live(page, player)
    assert troubles == []


def test_an_update_leaves_a_form_in_place(live: Live) -> None:
    """Whoever types beside the log goes on seeing what they type, though entries come into the log."""
    page, player = live.page, live.player
    page.locator("#focus").evaluate("field => scrollTo(0, field.getBoundingClientRect().top + scrollY - 120)")
    page.locator("#focus").press_sequentially("the tests")
    assert page.locator("#log .log").evaluate("log => log.getBoundingClientRect().top") < 0
    before = page.locator("#focus").bounding_box()
    player.play(2)

    expect(page.locator("#figures dd").nth(1)).to_have_text("14")
    after = page.locator("#focus").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2
    expect(page.locator("#focus")).to_be_focused()


def test_a_selection_beyond_a_section_is_left(live: Live) -> None:
    """Three clicks on the last line of a section mark it up to the next one; it stays marked, and no more than it."""
    page, player = live.page, live.player
    page.locator("#figures dd").last.click(click_count=3)
    before = page.evaluate("getSelection().toString()")
    rows = page.locator("#log .row").count()
    player.play(1)

    expect(page.locator("#log .row")).to_have_count(rows + 2)
    assert before.strip() == "gpt-5"
    assert page.evaluate("getSelection().toString()") == before


@pytest.mark.long
def test_the_picture_waits_for_its_numbers(live: Live) -> None:
    """While numbers are marked to be copied, the picture stays as they tell it; then both go on, and so do the words."""
    page, player = live.page, live.player
    before = page.locator("#readout").text_content()
    page.click("summary:has-text('The same in numbers')")
    page.locator("#numbers tbody tr").first.evaluate("row => getSelection().selectAllChildren(row)")
    player.play(1)

    expect(page.locator("#figures dd").nth(1)).to_have_text("13")
    expect(page.locator("#chart")).to_have_attribute("data-columns", "13")
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("#numbers tbody tr")).to_have_count(14, timeout=30_000)
    expect(page.locator("#chart")).to_have_attribute("data-columns", "14")
    expect(page.locator("#readout")).not_to_have_text(before or "")


@pytest.mark.long
def test_updates_come_one_after_the_other(live: Live) -> None:
    """While one is fetched no other is, so none is overtaken; what came meanwhile is seen after it."""
    page, player = live.page, live.player
    page.evaluate("source.addEventListener('message', () => document.body.toggleAttribute('data-heard', true))")
    asked: list[Route] = []
    answers: list[APIResponse] = []

    def hold_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()
        else:
            answers.append(route.fetch())

    page.route(page.url, hold_the_first)
    player.play(1)
    while not answers:
        page.wait_for_timeout(50)
    page.evaluate("document.body.removeAttribute('data-heard')")
    player.play(1)
    page.wait_for_selector("body[data-heard]")
    page.wait_for_timeout(1_000)  # longer than a page that fetches at once would wait

    assert len(asked) == 1
    asked[0].fulfill(response=answers[0])
    expect(page.locator("#figures dd").nth(1)).to_have_text("14")
