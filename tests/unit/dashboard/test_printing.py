"""From templates to responses."""

from typing import get_args

import pytest
from jinja2 import UndefinedError
from starlette.requests import Request

from infold.core.entries import Reason
from infold.dashboard.printing import REASONS, STATIC, Printer


def request(root_path: str = "") -> Request:
    """A request that reached us below a path."""
    return Request({"type": "http", "root_path": root_path, "headers": [], "method": "GET"})


def printed(root_path: str = "", problem: str = "no") -> str:
    """The plainest page there is."""
    page = Printer().page(request(root_path), "trouble", status=404, title="Not here", problem=problem, address="")
    assert page.status_code == 404
    return bytes(page.body).decode()


def test_links_know_where_the_page_is() -> None:
    """Below another path, every link and file of the page is below it too."""
    assert 'href="/"' in printed()
    below = printed("/infold/")
    assert 'href="/infold/"' in below
    assert 'src="/infold/static/page.js?' in below


def test_everything_given_is_escaped() -> None:
    """No text becomes markup."""
    assert "<script>alert" not in printed(problem="<script>alert(1)</script>")


def test_a_forgotten_value_is_a_failure() -> None:
    """A template that names what it was not given does not print an empty place."""
    with pytest.raises(UndefinedError):
        Printer().page(request(), "trouble")


def test_every_reason_has_words() -> None:
    """B22: why a compaction happened is always told."""
    assert REASONS.keys() == set(get_args(Reason))


def test_nothing_is_fetched_from_elsewhere() -> None:
    """Style, scripts and pictures name no other address; what they need is installed."""
    for path in STATIC.iterdir():
        assert "http" not in path.read_text("utf-8").replace("http://www.w3.org/2000/svg", ""), path.name
