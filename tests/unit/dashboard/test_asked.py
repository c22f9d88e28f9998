"""What a request asks for."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from infold.dashboard.asked import LARGEST_FORM, form_of, number_in
from infold.errors import UsageError

FORM = "application/x-www-form-urlencoded"


def form(body: bytes, kind: str = FORM) -> dict[str, str]:
    """The form of a request with this body."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return asyncio.run(form_of(Request(scope, receive)))


def test_numbers_are_read_or_refused() -> None:
    """Empty is none; what is no number is refused with what it was."""
    assert (number_in({"a": " 12 "}, "a"), number_in({"a": ""}, "a"), number_in({}, "a")) == (12, None, None)
    for text in ("-1", "1.5", "x", "9" * 19):
        with pytest.raises(UsageError, match="a should be a number"):
            number_in({"a": text}, "a")


def test_forms_are_read() -> None:
    """Fields as a browser sends them, empty ones too; broken bytes break nothing."""
    assert form(b"focus=the+parser%26more&up_to=&x=%ff") == {"focus": "the parser&more", "up_to": "", "x": "\ufffd"}
    assert form(b"a=1", f"{FORM}; charset=utf-8") == {"a": "1"}


def test_what_is_no_form_is_refused() -> None:
    """Neither another kind of body nor an endless one is read."""
    with pytest.raises(UsageError, match="use its buttons"):
        form(b"{}", "application/json")
    with pytest.raises(UsageError, match="shorten it"):
        form(b"a" * (LARGEST_FORM + 1))
