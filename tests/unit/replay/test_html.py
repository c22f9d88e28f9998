"""The page."""

import re
from html.parser import HTMLParser

from infold.replay.html import to_html
from infold.replay.outcome import BrokenFile, FileOutcome, ReplayPlan, ReplayReport
from infold.replay.run import replay_session

from .recorded import RULER, session, with_usage, work

PLAN = ReplayPlan(("infold", "none"), (16_000, 32_000), model="claude-opus-4-6")


def page(plan: ReplayPlan = PLAN, broken: str = "no <b>reply</b>") -> str:
    """A page of one file and a broken one."""
    told = replay_session(session(with_usage(work(30))), plan, RULER)
    files = (FileOutcome('a"<script>.jsonl', "pi", (told, told)), BrokenFile("b.jsonl", broken))
    return to_html(ReplayReport(plan, "2026-01-01", files))


class _Balance(HTMLParser):
    VOID = frozenset({"meta", "path", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_page_is_whole_and_needs_nothing_beside_itself() -> None:
    """Every element is closed, and there is no script, no link and no address to load anything from."""
    parser = _Balance()
    parser.feed(page())

    assert parser.open == []
    assert not parser.seen & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?:|url\(|@import|src=", page())


def test_text_of_a_transcript_is_escaped() -> None:
    """A file's name and a reason are text, whatever they hold."""
    assert "&lt;script&gt;" in page()
    assert "no &lt;b&gt;reply&lt;/b&gt;" in page()


def test_page_shows_each_window_and_follows_the_reader() -> None:
    """A picture for each policy and window, in all and by file, in light and dark, as wide as the reader's screen."""
    text = page()

    assert text.count("<svg") == 2 + 4 + 2
    assert "prefers-color-scheme:dark" in text
    assert "width=device-width" in text
    assert "How far to trust it" in text
    assert page() == text


def test_page_without_prices_has_no_cost_pictures() -> None:
    """Where no price is known the tokens are shown alone."""
    told = replay_session(session(work(5)), ReplayPlan(("infold",), (16_000,)), RULER)
    text = to_html(ReplayReport(PLAN, "2026-01-01", (FileOutcome("a", "pi", (told,)),)))

    assert text.count("<svg") == 1
    assert "How far to trust it" not in text
