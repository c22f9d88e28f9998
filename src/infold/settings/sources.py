"""Where files of settings are looked for, and what TOML they hold.

Decides which files count and in what order; what their keys mean is decided in `layers.py`.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from infold.errors import SettingsError

__all__ = ["Source", "sources", "user_file"]

PROJECT_FILE = "infold.toml"


class Source(Struct, frozen=True):
    """A file of settings and its table.

    `found`: it was met in a project's folder, not put in place by the user, so it may not say which servers are used.
    """

    path: Path
    table: Mapping[str, object]
    found: bool = False


def sources(environ: Mapping[str, str], folder: Path) -> tuple[Source, ...]:
    """The files that count, weakest first: the user's, then the project's; or the one that `INFOLD_CONFIG` names.

    Raises `SettingsError` for a file that is named but not there, and for one that cannot be read.
    """
    named = environ.get("INFOLD_CONFIG")
    if named:
        return (Source(Path(named), _table(Path(named))),)
    own = user_file(environ)
    first = () if own is None or not own.is_file() else (Source(own, _table(own)),)
    return (*first, *_of_project(folder))


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Where the user's file would be; none where the environment knows no home."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        return base / "infold" / "config.toml"
    home = environ.get("HOME")
    return Path(home) / ".config" / "infold" / "config.toml" if home else None


def _of_project(folder: Path) -> tuple[Source, ...]:
    """The nearest project file at or above a folder, no further up than the repository goes."""
    here = folder.resolve()
    for place in (here, *here.parents):
        own, shared = place / PROJECT_FILE, place / "pyproject.toml"
        if _is_file(own):
            return (Source(own, _table(own), found=True),)
        if _is_file(shared) and (table := _tool_table(shared)) is not None:
            return (Source(shared, table, found=True),)
        if _is_repository(place):
            break
    return ()


def _is_repository(place: Path) -> bool:
    try:
        return (place / ".git").exists()
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    """Whether there is a file that can be seen; a folder closed to us has none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _tool_table(path: Path) -> Mapping[str, object] | None:
    """`[tool.infold]` of a `pyproject.toml`; a file that does not speak of infold need not even be TOML."""
    text = _text(path)
    if "infold" not in text:
        return None
    tool = _parsed(text, path).get("tool")
    table = tool.get("infold") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError("tool.infold", "it is no table", where=str(path), remedy="write [tool.infold] above it")
    return table


def _table(path: Path) -> Mapping[str, object]:
    return _parsed(_text(path), path)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror})"
        raise SettingsError("", problem, where=str(path), remedy="mend its path or its permissions") from error
    except UnicodeDecodeError as error:
        raise SettingsError("", "the file is not UTF-8", where=str(path), remedy="save it as UTF-8") from error


def _parsed(text: str, path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = f"the file is no TOML ({error})"
        raise SettingsError("", problem, where=str(path), remedy="mend that place, or remove the file") from error
