"""What a setting can be, and how it is shown: as it can be written back, but for passwords, which are never shown."""

import re
from typing import TypeAlias, assert_never

from infold.core.policy import Amount

Value: TypeAlias = bool | int | str | Amount | tuple[str, ...] | None
"""What a setting can be; none is one that is not set."""

HIDDEN = "***"
SMALLEST_GROUPED = 10_000

_PASSWORD = re.compile(r"(?<=://)([^/@\s]*?):\S*(?=@)|(?<=[?&])((?:ssl)?password=)[^&\s]*", re.IGNORECASE)


def told(value: Value) -> str:
    """A value as it can be written back; a password inside an address is hidden."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int():
            return _digits(value)
        case Amount():
            return _amount(value)
        case tuple():
            return ", ".join(value) or "none"
        case str():
            return _PASSWORD.sub(_hidden, value)
        case _:
            assert_never(value)


def has_password(value: Value) -> bool:
    """Whether a value is an address with a password in it."""
    return isinstance(value, str) and _PASSWORD.search(value) is not None


def _digits(number: int) -> str:
    return f"{number:_}" if number >= SMALLEST_GROUPED else str(number)


def _amount(amount: Amount) -> str:
    if amount.unit == "share":
        return f"{amount.value * 100:.4g}%"
    return f"{'remaining ' if amount.unit == 'remaining' else ''}{_digits(int(amount.value))}"


def _hidden(found: re.Match[str]) -> str:
    return f"{found[2]}{HIDDEN}" if found[2] else f"{found[1]}:{HIDDEN}"
