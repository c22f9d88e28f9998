"""How each kind of value is written and shown."""

from math import inf, nan

import pytest

from infold.core.policy import Amount, remaining, share, tokens
from infold.settings.schema import (
    ADDRESS,
    AMOUNT,
    CAP,
    COUNT,
    HOST,
    HOSTS,
    NAMES,
    PLACE,
    PORT,
    PRESET,
    SWITCH,
    TENANT,
    TEXT,
    TOKENS,
    Value,
    ValueKind,
    format_value,
    has_password,
)


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        (0.75, share(0.75)),
        (1, share(1.0)),
        (2, tokens(2)),
        (48_000, tokens(48_000)),
        (48_000.0, tokens(48_000)),
        ("0.75", share(0.75)),
        (".75", share(0.75)),
        ("48000", tokens(48_000)),
        ("48_000", tokens(48_000)),
        ("48k", tokens(48_000)),
        ("1.5m", tokens(1_500_000)),
        ("90%", share(0.9)),
        ("90 %", share(0.9)),
        ("remaining 20000", remaining(20_000)),
        ("Remaining 20k", remaining(20_000)),
        ("remaining 0", remaining(0)),
    ],
)
def test_amounts_come_in_three_units(written: object, amount: Amount) -> None:
    """B19, S8.1: up to 1 is a share, more is tokens, and a text may be percent or remaining."""
    assert AMOUNT.read(written) == amount


@pytest.mark.parametrize(
    "written",
    [
        -1,
        -0.5,
        0,
        0.0,
        1.5,
        "1.5",
        True,
        nan,
        inf,
        "",
        "much",
        "150%",
        "-5%",
        "remaining",
        "remaining much",
        "remaining 1.5",
        [],
        None,
        10**10,
        "9" * 40,
        "0%",
    ],
)
def test_no_amount_is_refused(written: object) -> None:
    """B19: a negative, an empty, a fractional or an endless amount is none, nor is more than the whole."""
    with pytest.raises(ValueError, match=r"."):
        AMOUNT.read(written)


@pytest.mark.parametrize("amount", [share(0.9), share(0.4737), tokens(48_000), remaining(20_000)])
def test_what_is_shown_can_be_written(amount: Amount) -> None:
    """An amount as it is shown is read as the same amount."""
    assert AMOUNT.read(format_value(amount)) == amount


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (SWITCH, True, True),
        (TOKENS, 0, 0),
        (TOKENS, "64k", 64_000),
        (TOKENS, 200_000, 200_000),
        (COUNT, 1, 1),
        (PORT, 0, 0),
        (CAP, 30, 30),
        (CAP, "off", None),
        (TEXT, "gpt-4o", "gpt-4o"),
        (TEXT, "  ", None),
        (PLACE, "memory", "memory"),
        (ADDRESS, "https://example.com/v1/", "https://example.com/v1"),
        (HOST, "::1", "::1"),
        (HOSTS, "a.lan, ::1", ("a.lan", "::1")),
        (HOSTS, ["a.lan"], ("a.lan",)),
        (HOSTS, "none", ()),
        (TENANT, "ada@example.com", "ada@example.com"),
        (PRESET, "proactive", "proactive"),
        (NAMES, ["a", "b"], ("a", "b")),
        (NAMES, [], ()),
        (NAMES, "a, b", ("a", "b")),
        (NAMES, "all", None),
        (NAMES, "none", ()),
    ],
)
def test_a_right_value_is_read(kind: ValueKind, written: object, value: Value) -> None:
    """Each kind reads what its remedy asks for."""
    assert kind.read(written) == value


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (SWITCH, "true"),
        (SWITCH, 1),
        (TOKENS, -1),
        (TOKENS, 0.5),
        (TOKENS, True),
        (TOKENS, "many"),
        (TOKENS, "1.5"),
        (COUNT, 0),
        (COUNT, True),
        (COUNT, "3"),
        (PORT, 65_536),
        (CAP, 0),
        (CAP, "never"),
        (TEXT, 3),
        (TEXT, "two\nlines"),
        (PLACE, ""),
        (ADDRESS, "example.com"),
        (ADDRESS, "file:///x"),
        (HOST, "a b"),
        (HOSTS, 7),
        (HOSTS, [7]),
        (HOSTS, "a b"),
        (TENANT, "a b"),
        (TENANT, "x" * 65),
        (PRESET, "fast"),
        (PRESET, ["infold"]),
        (NAMES, [1]),
        (NAMES, 1),
    ],
)
def test_a_wrong_value_is_refused(kind: ValueKind, written: object) -> None:
    """What is of another type or out of range is a `ValueError` that says so."""
    with pytest.raises(ValueError, match=r" "):
        kind.read(written)


@pytest.mark.parametrize("word", ["1", "true", "YES", "on"])
def test_words_for_yes(word: str) -> None:
    """S8.2: four words turn something on, in any case."""
    assert SWITCH.of_text(word) is True


@pytest.mark.parametrize("word", ["0", "False", "no", "off"])
def test_words_for_no(word: str) -> None:
    """S8.2: four words turn something off, in any case."""
    assert SWITCH.of_text(word) is False


def test_a_wrong_address_keeps_its_password() -> None:
    """S8.1: a message about an address never holds the password in it."""
    with pytest.raises(ValueError, match="not an address") as told_of:
        ADDRESS.read("ftp://ada:kite@example.com")

    assert "kite" not in str(told_of.value)


@pytest.mark.parametrize(
    ("kind", "written", "problem"),
    [
        (AMOUNT, -5, "-5 is not an amount"),
        (AMOUNT, "150%", "a share of 1.5 is more than the whole"),
        (PLACE, "mysql://ada:hidden@h/d", "infold has no store for addresses that begin with mysql://"),
        (
            PLACE,
            "sqlite:///x.db",
            "a SQLite file is named by its path, as in sqlite:sessions.sqlite3, without slashes before it",
        ),
    ],
)
def test_a_problem_is_a_sentence(kind: ValueKind, written: object, problem: str) -> None:
    """What is wrong is said once, and without anything secret."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        kind.read(written)
    assert str(caught.value) == problem


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
    assert format_value(value) == shown


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
    assert format_value(address) == shown
    assert has_password(address)


@pytest.mark.parametrize(
    "place", ["postgresql://ada@db:5432/infold", "https://example.com:8443/v1", "a:b@c.db", "memory"]
)
def test_other_places_are_shown_whole(place: str) -> None:
    """A port, a user and a path with odd characters are no password."""
    assert format_value(place) == place
    assert not has_password(place)
