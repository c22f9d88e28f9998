"""What the HTTP client may raise."""

import httpx2
import pytest

from infold.models.failures import Failure
from infold.models.transport import TRANSPORT


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
def test_a_line_that_was_cut_is_not_one_that_never_was(raised: type[Exception], kind: Failure) -> None:
    """B10: nobody at an address, a model that takes too long and a reply that broke off are three things."""
    assert TRANSPORT.kind_of(raised) == kind


def test_every_exception_of_the_client_is_caught() -> None:
    """B10: whatever the client exports as an exception descends from a class that is caught."""
    exported = [value for value in vars(httpx2).values() if isinstance(value, type) and issubclass(value, Exception)]

    assert [kind.__name__ for kind in exported if not issubclass(kind, TRANSPORT.roots)] == []
