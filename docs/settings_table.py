"""Write or check the tables of `docs/reference/settings.md`, which are made from the schema of the settings.

python docs/settings_table.py           exits 1 and shows the difference if a table is stale
python docs/settings_table.py --write   brings them up to date
"""

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from infold.core.policy import INFOLD
from infold.settings import KEYS, Key, format_value
from infold.settings.resolve import preset_value
from infold.settings.schema import DOCUMENT_VARIABLES, POLICY_FIELDS, variable_name

__all__ = ["PAGE", "current", "main", "refreshed"]

PAGE = Path(__file__).parent / "reference" / "settings.md"


def main(arguments: list[str] | None = None) -> int:
    """Check the tables or, asked to, write them; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check the tables of settings.md, or bring them up to date")
    parser.add_argument("--write", action="store_true", help="write the tables instead of checking them")
    write = parser.parse_args(arguments).write
    page = PAGE.read_text("utf-8")
    wanted = current(page)
    if write:
        PAGE.write_text(wanted, "utf-8")
        return 0
    before, after = page.splitlines(keepends=True), wanted.splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(before, after, PAGE.name, "as it should be", n=0))
    return int(page != wanted)


def current(page: str) -> str:
    """The page with its tables as they should be now."""
    tables = {"keys": _keys(), "kinds": _kinds(), "aliases": _aliases()}
    for name, rows in tables.items():
        page = refreshed(page, name, rows)
    return page


def refreshed(page: str, name: str, rows: Iterable[str]) -> str:
    """A page with these rows between the two marks of that name; raises `ValueError` where the marks are not there."""
    begin, end = (f"<!-- {edge} {name}: written by docs/settings_table.py -->" for edge in ("begin", "end"))
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{PAGE.name} lacks {begin} or {end}")
    return f"{before}{begin}\n\n{chr(10).join(rows)}\n\n{end}{after}"


def _keys() -> Iterator[str]:
    yield "| setting | what it says | written as | without it | variable |"
    yield "|---|---|---|---|---|"
    for key in KEYS:
        yield f"| `{key.name}` | {key.help} | {key.kind.name} | {_default(key)} | `{key.variable}` |"


def _default(key: Key) -> str:
    """What holds where nobody sets it; for a number of the preset, `infold`'s."""
    own = preset_value(key.name, INFOLD)
    value = format_value(key.default if own is None else own.value)
    stated = f"`{value}`" if value else key.unset
    return f"the preset's; `infold`: {stated}" if key.name in POLICY_FIELDS else stated


def _kinds() -> Iterator[str]:
    yield "| written as | |"
    yield "|---|---|"
    kinds = {key.kind.name: key.kind.remedy for key in KEYS}
    yield from (f"| {name} | {remedy} |" for name, remedy in kinds.items())


def _aliases() -> Iterator[str]:
    yield "| alias in a file | stands for | variable | variable without prefix |"
    yield "|---|---|---|---|"
    for key in KEYS:
        for alias in key.aliases:
            bare = f"`{alias}`, with the preset `turn-window`" if alias in DOCUMENT_VARIABLES else "–"
            yield f"| `{alias}` | `{key.name}` | `{variable_name(alias)}` | {bare} |"


if __name__ == "__main__":
    sys.exit(main())
