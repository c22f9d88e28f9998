"""Templates and error pages."""

from collections.abc import Iterator

import pytest
from jinja2 import UndefinedError
from starlette.requests import Request

from infold.core.entries import Entry
from infold.errors import (
    InfoldError,
    ModelError,
    StoreBroken,
    StoreClosed,
    StoreConflict,
    UnknownReference,
    UnknownSession,
    UsageError,
)
from infold.gateway.page.templates import STATIC, Templates, status_of
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import user

from ...reports.stored_sessions import stored  # noqa: TID252 - `tests` is no package to name
from .page_client import HERE, RecordedActions, client


def request(root_path: str = "") -> Request:
    """A request that reached us below a path."""
    return Request({"type": "http", "root_path": root_path, "headers": [], "method": "GET"})


def rendered(root_path: str = "", problem: str = "no") -> str:
    """The plainest page there is."""
    page = Templates().render(request(root_path), "error", status=404, title="Not found", problem=problem, address="")
    assert page.status_code == 404
    return bytes(page.body).decode()


def test_links_know_where_the_page_is() -> None:
    """Below another path, every link and file of the page is below it too."""
    assert 'href="/"' in rendered()
    below = rendered("/infold/")
    assert 'href="/infold/"' in below
    assert 'src="/infold/static/page.js?' in below


def test_everything_given_is_escaped() -> None:
    """No text becomes markup."""
    assert "<script>alert" not in rendered(problem="<script>alert(1)</script>")


def test_a_forgotten_value_is_a_failure() -> None:
    """A template that names what it was not given does not print an empty place."""
    with pytest.raises(UndefinedError):
        Templates().render(request(), "error")


def test_nothing_is_fetched_from_elsewhere() -> None:
    """Style, scripts and pictures name no other address; what they need is installed."""
    for path in STATIC.iterdir():
        assert "http" not in path.read_text("utf-8").replace("http://www.w3.org/2000/svg", ""), path.name


# Errors.


class Broken(MemoryStore):
    """A store that cannot be read."""

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Fail."""
        del key, before
        raise StoreBroken("sessions.sqlite3", "entry 4 is <damaged>", remedy="restore it from a copy")

    def tenants(self) -> tuple[str, ...]:
        """Fail."""
        raise StoreClosed("sessions.sqlite3")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownSession("x"), 404),
        (UnknownReference("part", "1.0", remedy="look"), 404),
        (StoreConflict("s", expected=1, actual=2), 409),
        (StoreBroken("x", "y", remedy="z"), 503),
        (StoreClosed("x"), 503),
        (ModelError("m", "is gone"), 502),
        (UsageError("no"), 400),
    ],
)
def test_the_status_says_who_can_act(error: InfoldError, status: int) -> None:
    """Whoever asked, an operator, or time."""
    assert status_of(error) == status


def test_a_broken_store_is_told_in_one_sentence() -> None:
    """With what to do, escaped, and a way back to where one can be."""
    page = client(Broken()).get(HERE)

    assert page.status_code == 503
    assert "The store cannot be read" in page.text
    assert "Sessions.sqlite3: entry 4 is &lt;damaged&gt;; restore it from a copy." in page.text
    assert f'href="{HERE}"' in page.text
    assert client(Broken()).get("/").status_code == 503


def test_an_act_that_the_store_refused_says_that_nothing_was_changed() -> None:
    """A store that is busy with another's writing can be read all the same."""
    busy = RecordedActions(refusal=StoreBroken("x", "it is busy", remedy="try again"))
    page = client(stored(user("a")), busy).post(f"{HERE}/pin", data={"handle": "0.0", "pinned": "yes"})

    assert page.status_code == 503
    assert "Nothing was changed" in page.text
    assert "cannot be read" not in page.text


def test_an_unknown_session_leads_back_to_the_list() -> None:
    """There is no way back to what is not there."""
    page = client(stored(user("a"))).get("/sessions/nope")

    assert page.status_code == 404
    assert "Back to all sessions" in page.text
    assert client(stored(user("a"))).get(f"{HERE}/messages/77").status_code == 404
