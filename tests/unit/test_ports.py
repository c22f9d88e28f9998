"""The keys that sessions are kept under."""

import pytest

from infold.core.messages import SessionId
from infold.errors import UnusableKey
from infold.ports import LONGEST_KEY, SessionKey


def test_ordinary_keys_are_taken() -> None:
    """Ids in any script, with spaces and slashes, up to the longest; an empty tenant is the only user's."""
    for tenant, session_id in (("", "a"), ("日本", "x/y z"), ("t" * LONGEST_KEY, "s" * LONGEST_KEY)):
        assert SessionKey(tenant, SessionId(session_id)).session_id == session_id


@pytest.mark.parametrize(
    ("tenant", "session_id", "name"),
    [
        ("t", "", "session id"),
        ("t", "a\0b", "session id"),
        ("t\n", "a", "tenant"),
        ("t", "\ud800", "session id"),
        ("t" * (LONGEST_KEY + 1), "a", "tenant"),
    ],
)
def test_unusable_keys_are_refused(tenant: str, session_id: str, name: str) -> None:
    """B28: what databases might cut, refuse or confuse is refused before it reaches one."""
    with pytest.raises(UnusableKey) as caught:
        SessionKey(tenant, SessionId(session_id))

    assert caught.value.name == name
