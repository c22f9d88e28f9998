"""Where a store is, as people write it: `memory`, a file's path, `sqlite:PATH` or a `postgresql://` address."""

from pathlib import Path

PLACES = "give 'memory', the path of a file, or a postgresql:// address"
"""What to give, in words."""

ELSEWHERE = ("postgresql://", "postgres://")
"""How the address of a store begins that is no file."""


def problem_with(place: str) -> str:
    """What is wrong with a place, without anything secret in it; empty if it can be one."""
    scheme, is_address, _ = place.partition("://")
    if not is_address or place.startswith(ELSEWHERE):
        return ""
    if scheme == "sqlite":
        return "a SQLite file is named by its path, as in sqlite:sessions.sqlite3, without slashes before it"
    return f"infold has no store for addresses that begin with {scheme}://"


def path_of(place: str) -> Path:
    """The file of a place that is one; `~` is the user's home, for programs start commands without a shell."""
    return Path(place.removeprefix("sqlite:")).expanduser()
