"""What a request to the page carries."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from infold.core.messages import SessionId
from infold.errors import UnknownSession, UsageError
from infold.gateway.page.routes import LARGEST_FORM, decode_key, encode_key, int_param, read_form
from infold.ports import SessionKey

FORM = "application/x-www-form-urlencoded"


def form(body: bytes, kind: str = FORM) -> dict[str, str]:
    """The form of a request with this body."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return asyncio.run(read_form(Request(scope, receive)))


def test_numbers_are_read_or_refused() -> None:
    """Empty is none; what is no number is refused with what it was."""
    assert (int_param({"a": " 12 "}, "a"), int_param({"a": ""}, "a"), int_param({}, "a")) == (12, None, None)
    for text in ("-1", "1.5", "x", "9" * 19):
        with pytest.raises(UsageError, match="a must be a number"):
            int_param({"a": text}, "a")


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


# The session in the path.

TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=40)


@given(TEXT, TEXT.filter(bool))
def test_every_key_has_an_address(tenant: str, session_id: str) -> None:
    """Whatever a key is made of, its address is plain, and leads back to it."""
    key = SessionKey(tenant, SessionId(session_id))

    assert re.fullmatch(r"[\w-]+", encode_key(key), re.ASCII)
    assert decode_key(encode_key(key)) == key


@pytest.mark.parametrize("address", ["", "x", "äöü", "....", "AAAA", "c2Vzc2lvbg", "A" * 9_999, "_w"])
def test_anything_else_is_no_session(address: str) -> None:
    """What is no address is told as a session that is not there."""
    with pytest.raises(UnknownSession):
        decode_key(address)
