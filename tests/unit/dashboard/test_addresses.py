"""A session's key as one piece of a URL."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.messages import SessionId
from infold.dashboard.addresses import address_of, key_at
from infold.errors import UnknownSession
from infold.ports import SessionKey

TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=40)


@given(TEXT, TEXT.filter(bool))
def test_every_key_has_an_address(tenant: str, session_id: str) -> None:
    """Whatever a key is made of, its address is plain, and leads back to it."""
    key = SessionKey(tenant, SessionId(session_id))

    assert re.fullmatch(r"[\w-]+", address_of(key), re.ASCII)
    assert key_at(address_of(key)) == key


@pytest.mark.parametrize("address", ["", "x", "äöü", "....", "AAAA", "c2Vzc2lvbg", "A" * 9_999, "_w"])
def test_anything_else_is_no_session(address: str) -> None:
    """What is no address is told as a session that is not there."""
    with pytest.raises(UnknownSession):
        key_at(address)
