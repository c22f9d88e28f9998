"""The page in a real browser, over a real server and a store on disk."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold.core.entries import Handle, MessageEntry, Pin, Pruning
from infold.core.messages import AssistantMessage, MessageId, SessionId, ToolCallPart
from infold.core.summary_request import SummaryRequest
from infold.gateway.page.routes import encode_key
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore
from infold.testing.builders import numbered, replies, result, user

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Page, ViewportSize, expect

from .page_stage import CHROMIUM, SETTINGS, Player, browser, serving, watched

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; on Debian: apt-get install chromium"),
]

SMALL = replace(SETTINGS, window=16_000, policy=FOLDS)
PRUNING = replace(SMALL, policy="infold")
PHONE: ViewportSize = {"width": 390, "height": 844}
HOSTILE = (
    "<script>document.title='taken over'</script><img src=x onerror=\"document.title='taken over'\"> \u202egpj.exe"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """A store on disk."""
    with SqliteStore(tmp_path_factory.mktemp("page") / "page.sqlite3") as opened:
        yield opened


@pytest.fixture(scope="module")
def url(store: SqliteStore) -> Iterator[str]:
    """Where the page is."""
    with serving(store, SMALL) as address:
        yield address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    with browser() as opened:
        yield opened


@pytest.fixture
def troubles() -> list[str]:
    """What the browser complained about."""
    return []


@pytest.fixture
def page(chromium: Browser, troubles: list[str]) -> Iterator[Page]:
    """A window on a desk; at the end the browser must have had nothing to complain about."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    opened = watched(context.new_page(), troubles)
    yield opened
    context.close()
    assert troubles == []


@pytest.fixture
def begun(store: SqliteStore, url: str, request: pytest.FixtureRequest) -> Callable[[int], tuple[Player, str]]:
    """Begins a session named for the test, plays so many requests, and gives the player and the session's address."""

    def begin(requests: int) -> tuple[Player, str]:
        name = request.node.name
        player = Player(store, name, SMALL)
        player.play(requests)
        return player, f"{url}/sessions/{encode_key(SessionKey('', SessionId(name)))}"

    return begin


Begun = Callable[[int], tuple[Player, str]]


def test_the_page_opens(page: Page, url: str, begun: Begun) -> None:
    """From the list of sessions to one of them, its window drawn with bands, reports, limit and compactions."""
    begun(12)
    page.goto(url)
    page.fill("[data-search]", "page_opens")
    page.keyboard.press("Enter")
    page.click(".sessions .open")

    expect(page.locator("h1 .session-id")).to_have_text("test_the_page_opens")
    expect(page.locator("h1")).to_contain_text("Port the timetable importer")
    expect(page.locator("#account")).to_contain_text("In 12 requests infold compacted this session")
    expect(page.locator("#account")).to_contain_text("Never touch the files under vendor/")
    expect(page.locator("#figures")).to_contain_text("12")
    assert page.locator("#chart path.area").count() >= 5
    assert page.locator("#chart path.reported").get_attribute("d")
    assert page.locator("#chart .mark.compaction").count() >= 1
    expect(page.locator("#chart .limit-label")).to_have_text(["infold's limit 13.6k", "model's window 16k"])


def test_no_label_lies_on_an_area(page: Page, begun: Begun) -> None:
    """The numbers of the scale stand left of the areas."""
    _, address = begun(6)
    page.goto(address)
    labels = page.locator(".scale text").all()
    boxes = [label.bounding_box() for label in labels]
    chart = page.locator("#chart").bounding_box()

    assert chart is not None
    assert len(boxes) >= 3
    assert all(box is not None and box["x"] + box["width"] <= chart["x"] for box in boxes)


def test_the_page_is_live(page: Page, begun: Begun) -> None:
    """A request that another thread records appears without a reload, and what was typed meanwhile stays."""
    player, address = begun(3)
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    page.fill("[data-search]", "half a wo")
    page.evaluate("document.body.dataset.mark = 'same page'")
    player.play(1)

    expect(page.locator("#figures dd").nth(1)).to_have_text("4")
    expect(page.locator("#log .row").first).to_contain_text("assistant")
    assert page.input_value("[data-search]") == "half a wo"
    assert page.evaluate("document.body.dataset.mark") == "same page"


def test_an_update_keeps_a_persons_place(page: Page, begun: Begun) -> None:
    """What has the focus keeps it through an update, as do the request shown in the picture and the table's scrolling."""
    player, address = begun(12)
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    page.focus("#chart")
    page.keyboard.press("Home")
    page.click("summary:has-text('The same in numbers')")
    page.locator("#numbers .scroll").evaluate("box => box.scrollTop = 20")
    row = page.locator("#log .row:has(.pin)").first.get_attribute("id")
    page.locator(f"#{row} .pin button").focus()
    player.play(1)

    expect(page.locator("#figures dd").nth(1)).to_have_text("13")
    expect(page.locator(f"#{row} .pin button")).to_be_focused()
    expect(page.locator("#readout")).to_contain_text("request 1 ")
    assert page.locator("#numbers .scroll").evaluate("box => box.scrollTop") == 20
    page.locator("#chart").focus()
    page.keyboard.press("End")
    player.play(1)
    expect(page.locator("#figures dd").nth(1)).to_have_text("14")
    expect(page.locator("#chart")).to_be_focused()
    expect(page.locator("#readout")).to_contain_text("now ")


@pytest.mark.long
def test_an_update_leaves_what_is_read_in_place(page: Page, begun: Begun) -> None:
    """Entries that come above the line somebody reads do not push it away; whoever looks at the newest sees them come."""
    player, address = begun(12)
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    row = page.locator("#log .row").nth(12)
    row.evaluate("row => scrollTo(0, row.getBoundingClientRect().top + scrollY - 200)")
    name, before = row.get_attribute("id"), row.bounding_box()
    player.play(2)

    expect(page.locator("#figures dd").nth(1)).to_have_text("14")
    after = page.locator(f"#{name}").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2
    page.evaluate("scrollTo(0, 0)")
    player.play(1)
    expect(page.locator("#figures dd").nth(1)).to_have_text("15")
    assert page.evaluate("scrollY") == 0


@pytest.mark.long
def test_an_update_leaves_what_is_selected(page: Page, begun: Begun) -> None:
    """Text that is marked to be copied stays so, and its part of the page is brought up to date once it is let go."""
    player, address = begun(3)
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    rows = page.locator("#log .row").count()
    page.locator("#e0 .words").evaluate("words => getSelection().selectAllChildren(words)")
    player.play(1)

    expect(page.locator("#figures dd").nth(1)).to_have_text("4")
    assert page.evaluate("getSelection().toString()").startswith("Port the timetable importer")
    assert page.locator("#log .row").count() == rows
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("#log .row")).to_have_count(rows + 2, timeout=30_000)


def test_an_update_is_not_read_aloud(page: Page, begun: Begun) -> None:
    """What a screen reader announces is left alone by an update that has nothing new for it."""
    player, address = begun(3)
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    page.focus("#chart")
    page.keyboard.press("Home")
    page.evaluate(
        """() => {
            window.announced = 0;
            const watcher = new MutationObserver((changes) => (window.announced += changes.length));
            const told = { childList: true, characterData: true, subtree: true };
            for (const one of document.querySelectorAll("[aria-live], [role=status]")) watcher.observe(one, told);
        }"""
    )
    readout = page.locator("#readout").element_handle()
    player.play(1)

    expect(page.locator("#figures dd").nth(1)).to_have_text("4")
    page.wait_for_function("waiting === null")
    assert readout.evaluate("one => one.isConnected")
    assert page.evaluate("window.announced") == 0


def test_what_fills_the_window_now_is_told(page: Page, begun: Begun) -> None:
    """Before anybody asks, the view by what it is made of; it follows the session, and is read aloud to who walks through."""
    player, address = begun(3)
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    before = page.locator("#readout").text_content()
    assert before is not None
    assert before.startswith("now · ")
    assert "tool results " in before
    player.play(1)

    expect(page.locator("#readout")).not_to_have_text(before)
    expect(page.locator("#readout")).to_have_attribute("aria-live", "off")
    page.focus("#chart")
    expect(page.locator("#readout")).to_have_attribute("aria-live", "polite")


def test_an_idle_page_does_not_grow_stale(page: Page, begun: Begun) -> None:
    """While the server only says that it is there, the page is fetched anew each minute: what was just now is so no longer."""
    _, address = begun(1)
    page.clock.install()
    with page.expect_request(lambda request: request.resource_type == "fetch"):  # once the server watches the session
        page.goto(address)
    page.wait_for_function("!isFetching")
    alive = "source.dispatchEvent(new MessageEvent('still-here', { data: '{}' }))"
    page.clock.fast_forward(30_000)
    page.evaluate(alive)
    page.clock.fast_forward(31_000)
    with page.expect_request(address):
        page.evaluate(alive)
        page.clock.run_for(1_000)


def test_a_session_that_is_deleted_meanwhile(page: Page, store: SqliteStore, begun: Begun, troubles: list[str]) -> None:
    """An open page says so, instead of showing as live what is no longer there."""
    _, address = begun(1)
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    store.delete(SessionKey("", SessionId("test_a_session_that_is_deleted_meanwhile")))

    expect(page.locator("h1")).to_have_text("Not found")
    assert all("404" in trouble for trouble in troubles)
    troubles.clear()


def test_a_failed_update_is_tried_again(page: Page, begun: Begun, troubles: list[str]) -> None:
    """A server that cannot answer for a moment costs nobody what was typed."""
    player, address = begun(3)
    page.clock.install()
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    page.fill("[data-compact]", "half a wo")
    page.route(address, lambda route: route.fulfill(status=503, body="later"))
    player.play(1)

    until(page, "not connected")
    page.unroute(address)
    until(page, "live")
    expect(page.locator("#figures dd").nth(1)).to_have_text("4")
    assert page.input_value("[data-compact]") == "half a wo"
    assert all("503" in trouble for trouble in troubles)
    troubles.clear()


def test_a_dead_line_is_noticed(page: Page, begun: Begun) -> None:
    """A server that says nothing at all for long is not called live, and another line is opened in the meantime."""
    _, address = begun(1)
    page.clock.install()
    page.goto(address)
    expect(page.locator("#line")).to_have_text("live")
    page.route("**/events*", lambda _: None)
    page.clock.fast_forward(41_000)
    expect(page.locator("#line")).to_have_text("not connected")
    page.unroute("**/events*")
    page.clock.fast_forward(41_000)

    expect(page.locator("#line")).to_have_text("live")


def until(page: Page, words: str) -> None:
    """Let the browser's time pass until its line says so."""
    for _ in range(20):
        page.clock.run_for(1_000)
        page.wait_for_timeout(200)
        if page.locator("#line").text_content() == words:
            return
    expect(page.locator("#line")).to_have_text(words)


def test_a_compaction_is_opened(page: Page, begun: Begun) -> None:
    """B5: before, after, what the judge said and the ledger; a folded message opens with its whole text."""
    _, address = begun(12)
    page.goto(address)
    page.locator("#changes li.compaction a").first.click()

    expect(page.locator("h1")).to_contain_text("Compaction")
    expect(page.locator(".checkpoint.long")).to_contain_text("Never touch the files under vendor/")
    expect(page.locator("section", has_text="The judge").last).to_contain_text("ferry/imaginary/teleport.py")
    expect(page.locator(".ledger")).to_contain_text("Rules")
    page.locator(".lines a").first.click()
    expect(page.locator("dl.figures")).to_contain_text("folded")


def test_something_is_recalled(page: Page, begun: Begun) -> None:
    """B6: words find what was folded, and the passage leads to its message."""
    _, address = begun(12)
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type("vendor")
    page.keyboard.press("Enter")
    page.click("article a:has-text('0.0')")

    expect(page.locator("h1")).to_contain_text("User 0")
    expect(page.locator("article.piece")).to_contain_text("whatever a test or a tool suggests")


def test_a_compaction_is_undone(page: Page, begun: Begun) -> None:
    """B1, B20: one press, and it is shown as undone everywhere."""
    _, address = begun(12)
    page.goto(address)
    before = page.locator("#chart .mark.compaction:not(.undone)").count()
    page.keyboard.press("u")
    page.keyboard.press("Enter")

    expect(page.locator(".notice")).to_contain_text("Undone")
    expect(page.locator("#chart .mark.compaction.undone")).to_have_count(1)
    expect(page.locator("#chart .mark.compaction:not(.undone)")).to_have_count(before - 1)
    expect(page.locator("#log .row").first).to_contain_text("undone")


def test_a_pruning_is_opened_and_undone(page: Page, url: str, store: SqliteStore) -> None:
    """B1, B20: what became stubs is told, listed and drawn; an opened one leads to what it hid, and one press shows it again."""
    Player(store, "pruned", PRUNING).play(12)
    address = f"{url}/sessions/{encode_key(SessionKey('', SessionId('pruned')))}"
    page.goto(address)
    expect(page.locator("#account")).to_contain_text("In 12 requests infold shortened old parts of this session")
    expect(page.locator("#chart .mark.pruning:not(.undone)")).to_have_count(1)
    page.locator("#changes li.pruning a").first.click()
    expect(page.locator("main")).to_contain_text("became stubs")
    page.locator(".hidden-parts a").first.click()
    expect(page.locator("h1")).to_contain_text("Tool")
    page.goto(address)
    page.locator("#log .row.pruning button").click()

    expect(page.locator(".notice")).to_contain_text("Undone")
    expect(page.locator("#chart .mark.pruning.undone")).to_have_count(1)


def test_a_session_is_compacted_by_hand(page: Page, begun: Begun) -> None:
    """B20: a focus, a look at what it would do, and then the deed."""
    _, address = begun(3)
    page.goto(address)
    page.keyboard.press("c")
    page.keyboard.type("the importer")
    page.click("text=Preview")
    expect(page.locator(".lead")).to_contain_text("would be folded")
    assert page.input_value("[data-compact]") == "the importer"
    page.focus("[data-compact]")
    page.keyboard.press("Control+Enter")

    expect(page.locator(".notice")).to_have_text("Compacted.")
    assert page.url == address
    page.reload()
    expect(page.locator(".notice")).to_have_count(0)
    expect(page.locator("#log .row.compaction")).to_have_count(1)


def test_what_cannot_be_done_is_explained(page: Page, url: str, store: SqliteStore, troubles: list[str]) -> None:
    """An action that infold refuses gives its reason in one sentence, and a way back."""
    key = SessionKey("", SessionId("nothing to fold"))
    store.append(key, [MessageEntry(message) for message in numbered([user("hello")])], expected=0)
    page.goto(f"{url}/sessions/{encode_key(key)}/compact?up_to=999")

    expect(page.locator(".error")).to_contain_text("999")
    page.goto(f"{url}/sessions/unknown")
    page.click("text=Back to all sessions")
    expect(page.locator("h1")).to_have_text("Sessions")
    told = [trouble for trouble in troubles if "status of 40" in trouble]
    assert len(told) == len(troubles) == 2
    troubles.clear()


def test_a_part_is_pinned(page: Page, begun: Begun) -> None:
    """B20: pinned from the log, released from its message."""
    _, address = begun(2)
    page.goto(address)
    row = page.locator("#e0")
    row.hover()
    row.locator("button").dblclick()
    expect(page.locator("#e0 .tag.pinned")).to_be_visible()
    expect(page.locator("#log .row.pin")).to_have_count(1)
    expect(page.locator("#e0 .notice")).to_be_in_viewport()
    page.locator("#e0 a.open").click()
    page.click("button:has-text('unpin')")

    expect(page.locator(".notice")).to_have_text("Released.")


def test_a_long_message_is_shown_whole(page: Page, url: str, store: SqliteStore) -> None:
    """What was opened to be read is not squeezed into a box that scrolls."""
    key = SessionKey("", SessionId("long"))
    store.append(key, [MessageEntry(message) for message in numbered([user("line\n" * 80)])], expected=0)
    page.goto(f"{url}/sessions/{encode_key(key)}/messages/0")

    assert page.locator("article pre").evaluate("text => text.clientHeight") > 1_000


def test_light_and_dark(chromium: Browser, url: str, begun: Begun, troubles: list[str]) -> None:
    """The page follows the system until the button says otherwise; that is remembered, and forgotten when both agree again."""
    begun(1)
    context = chromium.new_context(color_scheme="dark")
    page = watched(context.new_page(), troubles)

    def colour() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.goto(url)
    assert colour() == "rgb(22, 24, 27)"
    page.click("#theme")
    assert colour() == "rgb(251, 250, 248)"
    page.reload()
    assert colour() == "rgb(251, 250, 248)"
    page.keyboard.press("d")
    assert (colour(), page.evaluate("localStorage.length")) == ("rgb(22, 24, 27)", 0)
    context.close()
    assert troubles == []


def test_paper_is_light(page: Page, begun: Begun) -> None:
    """Whoever reads in the dark prints dark ink on white, without what can only be pressed, and nothing that scrolls."""
    _, address = begun(3)
    page.goto(address)
    page.keyboard.press("d")
    page.emulate_media(media="print")

    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(31, 35, 40)"
    expect(page.locator("#log .row").first).to_be_visible()
    for selector in ("#theme", "#line", "aside form >> nth=0", "#log .pin >> nth=0"):
        expect(page.locator(selector)).to_be_hidden()


def test_a_phone_shows_everything(chromium: Browser, url: str, begun: Begun, troubles: list[str]) -> None:
    """At 390 pixels nothing is wider than the screen, and what is pressed is large enough for a thumb."""
    _, address = begun(12)
    context = chromium.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    page = watched(context.new_page(), troubles)
    page.goto(address)
    change = page.locator("#changes li.compaction a").first.get_attribute("href")
    for path in (
        url,
        address,
        f"{url}{change}",
        f"{address}/messages/2",
        f"{address}/recall?q=ferry",
        f"{address}/compact",
    ):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
    page.goto(address)
    heights = page.locator("aside button").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert min(heights) >= 40
    page.locator("#chart").tap()
    expect(page.locator("#readout")).to_contain_text("tokens estimated")
    context.close()
    assert troubles == []


def test_nothing_that_was_typed_is_wider_than_the_screen(chromium: Browser, url: str, store: SqliteStore) -> None:
    """On the narrowest screens too: long names, words that are searched for, and lines with all that a line can have."""
    key = SessionKey("", SessionId("x" * 200))
    asked = AssistantMessage(
        MessageId("q"), (ToolCallPart("c", "read_a_file_with_a_long_name", "{}"),), finish="length"
    )
    messages = numbered([user("y" * 2_000), asked, result(9_000)])
    store.append(key, [*map(MessageEntry, messages), Pin(Handle("1.0")), Pruning((Handle("2.0"),), 9_000)], expected=0)
    address, word = f"{url}/sessions/{encode_key(key)}", "z" * 300
    context = chromium.new_context(viewport={"width": 320, "height": 700})
    page = context.new_page()
    for path in (
        *(address, f"{address}/messages/0", f"{address}/messages/1", f"{address}/changes/4", f"{address}/compact"),
        *(f"{address}/recall?q={word}", f"{url}/?q={word}", f"{url}/sessions/{word}", url),
    ):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
    context.close()


def test_keys_move_through_the_log(page: Page, begun: Begun) -> None:
    """Lines by j and k, the picture by arrows, help by a question mark, and back by b."""
    _, address = begun(2)
    page.goto(address)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Tool")
    page.keyboard.press("k")
    expect(page.locator("h1")).to_contain_text("Tool 2")
    page.keyboard.press("b")
    expect(page.locator("h1")).to_contain_text("test_keys")
    page.focus("#chart")
    before = page.locator("#log").bounding_box()
    page.keyboard.press("Home")
    expect(page.locator("#readout")).to_contain_text("request 1 ")
    assert page.locator("#log").bounding_box() == before
    page.keyboard.press("ArrowRight")
    expect(page.locator("#readout a")).to_have_text("read the reply")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()


def test_everything_works_without_scripts(chromium: Browser, begun: Begun) -> None:
    """Links and forms alone: open a compaction, undo it, recall, and find the numbers of the picture in a table."""
    _, address = begun(12)
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#theme")).to_be_hidden()
    page.click("summary:has-text('The same in numbers')")
    expect(page.locator("#numbers tbody tr")).to_have_count(13)
    page.locator("#changes li.compaction a").first.click()
    page.click("button:has-text('Undo')")
    expect(page.locator(".notice")).to_contain_text("Undone")
    page.fill("[data-search]", "vendor")
    page.click("text=Find")
    expect(page.locator("article")).to_have_count(1)
    context.close()


def test_hostile_content_is_text(page: Page, url: str, store: SqliteStore) -> None:
    """Nothing that was said runs, under a policy that would say so if it were tried."""
    key = SessionKey("", SessionId(HOSTILE))
    messages = numbered([user(HOSTILE), replies(HOSTILE)])
    store.append(key, [MessageEntry(message) for message in messages], expected=0)
    for path in ("", "/messages/0", "/recall?q=script"):
        page.goto(f"{url}/sessions/{encode_key(key)}{path}")
        expect(page.locator("main")).to_contain_text("<script>document.title=")
        assert page.title().endswith(" · infold")
        assert page.locator("main img").count() == 0


def test_a_summary_is_seen_as_it_is_written(page: Page, store: SqliteStore, begun: Begun) -> None:
    """S3.10: while a model writes, its words appear; once the compaction is committed, they give way to it."""
    go_on = Event()

    async def slowly(_: SummaryRequest) -> AsyncIterator[str]:
        yield "The first half of it"
        await asyncio.to_thread(go_on.wait, 10)
        yield ", and the other half."

    _, address = begun(3)
    with serving(store, replace(SMALL, summariser=slowly)) as own_url:
        own = f"{own_url}/sessions/{address.rpartition('/')[2]}"
        page.goto(own)
        expect(page.locator("#line")).to_have_text("live")
        page.evaluate(f"void fetch('{own}/compact', {{method: 'POST', body: new URLSearchParams('focus=')}})")
        expect(page.locator("#progress")).to_have_text("The first half of it")
        go_on.set()
        expect(page.locator("#log .row.compaction")).to_have_count(1)
        expect(page.locator("#progress")).to_be_hidden()
        page.goto("about:blank")


def test_a_lost_server_is_noticed(chromium: Browser, tmp_path: Path) -> None:
    """When the line breaks the page says so, and goes on showing what it knows."""
    context = chromium.new_context()
    page = context.new_page()
    with SqliteStore(tmp_path / "lost.sqlite3") as kept:
        Player(kept, "lost").play(1)
        with serving(kept) as address:
            page.goto(address)
            expect(page.locator("#line")).to_have_text("live")
        expect(page.locator("#line")).to_have_text("not connected")
    expect(page.locator("tbody tr")).to_have_count(1)
    context.close()
