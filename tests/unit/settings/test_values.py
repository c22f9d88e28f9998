"""How values are shown."""

import pytest

from infold.core.policy import remaining, share, tokens
from infold.settings.schema import Value, has_password, told


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "true"),
        (0, "0"),
        (8377, "8377"),
        (200_000, "200_000"),
        (share(0.95), "95%"),
        (share(0.4737), "47.37%"),
        (tokens(48_000), "48_000"),
        (remaining(20_000), "remaining 20_000"),
        (("a", "b"), "a, b"),
        ((), "none"),
        ("claude-opus-4-5", "claude-opus-4-5"),
    ],
)
def test_a_value_is_shown_as_it_can_be_written(value: Value, shown: str) -> None:
    """Numbers are grouped as TOML allows it, amounts keep their unit."""
    assert told(value) == shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ada:kite@db/infold", "postgresql://ada:***@db/infold"),
        ("postgresql://ada:k@t/e@db:5432/infold", "postgresql://ada:***@db:5432/infold"),
        (
            "postgresql://db/infold?user=ada&password=kite&sslmode=on",
            "postgresql://db/infold?user=ada&password=***&sslmode=on",
        ),
        ("https://ada:kite@example.com/v1", "https://ada:***@example.com/v1"),
        ("postgresql://:kite@db", "postgresql://:***@db"),
    ],
)
def test_a_password_is_never_shown(address: str, shown: str) -> None:
    """S8.1: what stands for a password inside an address is hidden, wherever it stands."""
    assert told(address) == shown
    assert has_password(address)


@pytest.mark.parametrize(
    "place", ["postgresql://ada@db:5432/infold", "https://example.com:8443/v1", "a:b@c.db", "memory"]
)
def test_other_places_are_shown_whole(place: str) -> None:
    """A port, a user and a path with odd characters are no password."""
    assert told(place) == place
    assert not has_password(place)
