"""What is served where, and under which policy it works."""

import re

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from infold.core.entries import Checkpoint, Clip, Clipping, Handle, Pruning
from infold.dashboard.app import CONTENT_POLICY, page_routes
from infold.dashboard.desk import Desk
from infold.testing.builders import calls, replies, result, user

from .desks import HERE, Acted, Told, client, reported, stored

THINGS = (
    *(user("a"), reported(calls("t"), 900), result(300), Pruning((Handle("2.0"),), 300), reported(replies("b"), 700)),
    *(Clipping((Clip(Handle("0.0"), 1, 1),)), Checkpoint("x", first_kept=4), user("c")),
)
PAGES = (
    *(
        "/",
        HERE,
        f"{HERE}?before=4",
        f"{HERE}/messages/2",
        f"{HERE}/changes/3",
        f"{HERE}/changes/5",
        f"{HERE}/changes/6",
    ),
    *(f"{HERE}/recall", f"{HERE}/recall?q=word", f"{HERE}/compact", "/?q=nothing"),
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_works_under_the_strict_policy(path: str) -> None:
    """No inline script, style or handler, and nothing from elsewhere, so that the strictest content policy holds."""
    page = client(stored(*THINGS)).get(path)

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?! src=\"/static/)", page.text)
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", page.text)
    assert set(re.findall(r"<(\w+)[^>]*\sid=\"main\"", page.text)) == {"main"}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_sound_for_assistive_technology(path: str) -> None:
    """A language, one main heading, ids that occur once, a label for every field, and names for pictures."""
    text = client(stored(*THINGS)).get(path).text
    ids = re.findall(r"\sid=\"([^\"]+)\"", text)

    assert '<html lang="en">' in text
    assert text.count("<h1") == 1
    assert len(ids) == len(set(ids))
    for field in re.findall(r"<(?:input(?! type=\"hidden\")|textarea)[^>]*\sid=\"([^\"]+)\"", text):
        assert f'<label for="{field}"' in text
    assert all("aria-label" in found for found in re.findall(r"<svg[^>]*role=\"img\"[^>]*>", text))


def test_the_policy_allows_nothing_inline_and_nothing_foreign() -> None:
    """The policy is the strictest that these pages need."""
    assert "unsafe" not in CONTENT_POLICY
    assert "http" not in CONTENT_POLICY
    assert CONTENT_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")


def test_style_and_scripts_are_in_the_package() -> None:
    """Each file the pages name is served, under a name that changes with its content."""
    page = client(stored(*THINGS))
    files = set(re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", page.get("/").text))

    assert {name.partition("?")[0].rpartition("/")[2] for name in files} == {
        "mark.svg",
        "page.css",
        "page.js",
        "theme.js",
    }
    assert all(re.search(r"\?[0-9a-f]{10}$", name) and page.get(name).status_code == 200 for name in files)


def test_the_page_may_stand_below_another_path() -> None:
    """Mounted elsewhere, all its links stay where it is."""
    desk = Desk(store=stored(*THINGS), acts=Acted(), feed=Told(), window_of=lambda _: None)
    page = TestClient(Starlette(routes=[Mount("/infold", routes=page_routes(desk))]), follow_redirects=False)
    text = page.get(f"/infold{HERE}").text

    assert all(
        link.startswith("/infold/") for link in re.findall(r"(?:href|action|src|data-events)=\"(/[^\"]*)\"", text)
    )
    assert page.post(f"/infold{HERE}/undo", data={"sequence": "6"}).headers["location"].startswith("/infold/sessions/")


def test_events_are_a_stream() -> None:
    """A page of a session, or the list, hears news as server-sent events."""
    page = client(stored(*THINGS))
    heard = page.get(f"/events?session={HERE.rpartition('/')[2]}")

    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.text.startswith("retry: ")
    assert page.get("/events").status_code == 200
    assert page.get("/events?session=nope").status_code == 404


def test_what_has_a_version_is_kept() -> None:
    """A browser asks once for the style that a page names, and anew where no version is named or another."""
    page = client(stored(user("a")))
    [named] = re.findall(r'href="(/static/page\.css\?\w+)"', page.get("/").text)
    kept = [page.get(path).headers["cache-control"] for path in (named, "/static/page.css", "/static/page.css?other")]

    assert kept == ["private, max-age=31536000, immutable", "no-cache", "no-cache"]
