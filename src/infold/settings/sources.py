"""Where files of settings are looked for, and what TOML or JSON they hold.

Decides which files count and in what order; what their keys mean is decided in `layers.py`.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from infold.errors import SettingsError

PROJECT_FILES = ("infold.toml", "infold.json")
"""The names of a project's own file; of two in one folder the first counts."""

_COMMENT = re.compile(r'("(?:[^"\\]|\\(?s:.)?)*+(?:"|\Z))|//[^\n]*')
"""A text, which is kept, or a comment at the end of a line, which documents put into their JSON."""


class Source(Struct, frozen=True):
    """A file of settings and its table.

    `found`: it is a file of a project, which anyone may have written, so it may hold few keys (`Key.per_project`).
    """

    path: Path
    table: Mapping[str, object]
    found: bool = False


def sources(environ: Mapping[str, str], folder: Path | None) -> tuple[Source, ...]:
    """The files that count, weakest first: the user's, then the project's; or the one that `INFOLD_CONFIG` names.

    Without a folder there is no project.

    Raises `SettingsError` for a file that is named but not there, and for one that cannot be read.
    """
    named = environ.get("INFOLD_CONFIG")
    if named:
        return (Source(Path(named), _table(Path(named))),)
    named_by_user = user_file(environ)
    places = () if named_by_user is None else (named_by_user, named_by_user.with_suffix(".json"))
    own = tuple(Source(path, _table(path)) for path in [path for path in places if path.is_file()][:1])
    return own if folder is None else (*own, *_of_project(folder))


def project_file(folder: Path) -> Path | None:
    """Return the project's file of settings for a folder, whatever it holds; `None` if there is none."""
    return next((path for path in _project_files(folder) if path.name in PROJECT_FILES or _mentions_us(path)), None)


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Where the user's file would be; none where the environment knows no home."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        return base / "infold" / "config.toml"
    home = environ.get("HOME")
    return Path(home) / ".config" / "infold" / "config.toml" if home else None


def _of_project(folder: Path) -> tuple[Source, ...]:
    """The nearest project file at or above a folder."""
    for path in _project_files(folder):
        table = _table(path) if path.name in PROJECT_FILES else _tool_table(path)
        if table is not None:
            return (Source(path, table, found=True),)
    return ()


def _project_files(folder: Path) -> Iterator[Path]:
    """The files that may hold a project's settings, nearest first: no further up than the repository goes, and not from a
    folder of another owner, such as one that everyone may write to."""
    here = folder.resolve()
    for place in (here, *here.parents):
        if _owner(place) != _owner(here):
            return
        yield from filter(_is_file, (*(place / name for name in PROJECT_FILES), place / "pyproject.toml"))
        if _is_repository(place):
            return


def _owner(place: Path) -> int | None:
    try:
        return place.stat().st_uid
    except OSError:
        return None


def _mentions_us(path: Path) -> bool:
    """Whether a `pyproject.toml` may have a table for infold."""
    try:
        return b"tool.infold" in path.read_bytes()
    except OSError:
        return False


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
    text = _text(path)
    return _parsed_json(text, path) if path.suffix.lower() == ".json" else _parsed(text, path)


def _parsed_json(text: str, path: Path) -> dict[str, object]:
    # Comments become blanks of the same length, so that an error names the place in the file.
    plain = _COMMENT.sub(lambda found: found[1] or " " * len(found[0].encode()), text)
    try:
        return msgspec.json.decode(plain if plain.strip() else "{}", type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = f"the file is not a JSON object ({error})"
        raise SettingsError("", problem, where=str(path), remedy="correct that place, or remove the file") from error


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
