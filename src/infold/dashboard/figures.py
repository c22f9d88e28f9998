"""Numbers and times as a person reads them."""

from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3_600, 86_400
LEAST_COST = 0.0001
"""Dollars below which a price is told no finer."""

NOTHING = "–"
"""What stands where a number is not known."""


def short(number: int) -> str:
    """A count in three figures or so: 980, 4.2k, 61k, 1.05M."""
    if number < 1_000:
        return str(number)
    if number < 999_500:
        return f"{number / 1_000:.1f}k" if number < 9_950 else f"{number / 1_000:.0f}k"
    return f"{number / 1_000_000:.2f}M" if number < 9_995_000 else f"{number / 1_000_000:.0f}M"


def size(stored_bytes: int) -> str:
    """A size in bytes, kilobytes or megabytes."""
    if stored_bytes < 1_000:
        return f"{stored_bytes} B"
    return f"{stored_bytes / 1_000:.0f} kB" if stored_bytes < 999_500 else f"{stored_bytes / 1_000_000:.1f} MB"


def dollars(cost: float) -> str:
    """A price, finer the smaller it is; a dash where nobody knows what anything cost."""
    if cost <= 0:
        return NOTHING
    if cost < LEAST_COST:
        return f"< ${LEAST_COST}"
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.3f}" if cost >= 0.01 else f"${cost:.4f}"


def percent(share: float | None) -> str:
    """A share of one; a dash where it is not known."""
    return NOTHING if share is None else f"{share:.0%}"


def seconds(duration_ms: int) -> str:
    """A duration; a dash where none was measured."""
    return f"{duration_ms / 1_000:.1f} s" if duration_ms else NOTHING


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 request, 2 requests."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def moment(time_ms: int | None) -> str:
    """A time to the minute; a dash where it was not told."""
    return NOTHING if time_ms is None else f"{datetime.fromtimestamp(time_ms / 1_000, UTC):%Y-%m-%d %H:%M} UTC"


def stamp(time_ms: int) -> str:
    """A time as programs read it."""
    return f"{datetime.fromtimestamp(time_ms / 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def ago(time_ms: int | None, now_ms: int) -> str:
    """How long ago something was; after a month its date."""
    if time_ms is None:
        return NOTHING
    passed = (now_ms - time_ms) // 1_000
    if passed < MINUTE:
        return "just now"
    if passed < HOUR:
        return f"{passed // MINUTE} min ago"
    if passed < DAY:
        return f"{passed // HOUR} h ago"
    return plural(passed // DAY, "day") + " ago" if passed < 30 * DAY else moment(time_ms)[:10]
