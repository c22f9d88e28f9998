"""What the HTTP client may raise."""

import httpx2
import pytest

from infold.models.failures import TRANSPORT, FailureKind, return_long_waits


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (httpx2.ConnectError, "unreachable"),
        (httpx2.ConnectTimeout, "unreachable"),
        (httpx2.ReadTimeout, "busy"),
        (httpx2.ReadError, "broken"),
        (httpx2.RemoteProtocolError, "broken"),
        (httpx2.UnsupportedProtocol, "unreachable"),
    ],
)
def test_a_line_that_was_cut_is_not_one_that_never_was(raised: type[Exception], kind: FailureKind) -> None:
    """B10: nobody at an address, a model that takes too long and a reply that broke off are three things."""
    assert TRANSPORT.kind_of(raised) == kind


def test_every_exception_of_the_client_is_caught() -> None:
    """B10: whatever the client exports as an exception descends from a class that is caught."""
    exported = [value for value in vars(httpx2).values() if isinstance(value, type) and issubclass(value, Exception)]

    assert [kind.__name__ for kind in exported if not issubclass(kind, TRANSPORT.roots)] == []


@pytest.mark.parametrize(
    ("headers", "is_handed_back"),
    [
        ({}, False),
        ({"retry-after": "60"}, False),
        ({"retry-after": "61"}, True),
        ({"retry-after": "3600", "retry-after-ms": "900"}, False),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, True),
    ],
)
def test_long_waits_are_handed_back(headers: dict[str, str], is_handed_back: bool) -> None:
    """B10: an SDK sleeps without a word, so what asks for more than a minute is given to whoever can tell a person."""
    response = httpx2.Response(429, headers=headers)
    return_long_waits(response)

    assert (response.headers.get("x-should-retry") == "false") == is_handed_back
