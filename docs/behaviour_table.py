"""Write or check the tables of `docs/reference/behaviour.md` that are made from other files.

    python docs/behaviour_table.py           exits 1 and shows the difference if a table is stale
    python docs/behaviour_table.py --write   brings them up to date

*numbers*: infold's default numbers as the code has them, with the reasons that `docs/reference/behaviour.toml` gives.
*state*: each id, its state and who decides it, from the same file, and what proves it, from the docstrings of the tests, where
an id counts as named wherever it stands as a word of its own.
"""

import argparse
import ast
import difflib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infold.core.budget import LARGEST_OUTPUT_TOKENS, RESERVE_SHARE, SMALLEST_RESERVE_TOKENS, Window, budget_for
from infold.core.logged_message import LONGEST_KEPT_VALUE
from infold.core.plan import LEAST_GAIN_SHARE, LEAST_NEWS_SHARE
from infold.core.policy import INFOLD, LARGEST_MUST_KEEP_SHARE, SMALL_MUST_KEEP_TOKENS, Amount

__all__ = ["Behaviour", "current", "expected_ids", "main", "named_ids", "proofs", "read", "refreshed", "state_table"]

PROJECT = Path(__file__).parents[1]
STATED = PROJECT / "docs" / "reference" / "behaviour.toml"
PAGE = PROJECT / "docs" / "reference" / "behaviour.md"
TESTS = PROJECT / "tests"

WINDOWS = (4_096, 8_192, 32_768, 128_000, 200_000, 1_000_000, 2_000_000)

ID = re.compile(r"\bS\d+\.\d+\b|\bB\d+\b")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One id: what it is about, whether all of it is there, which modules decide it, and what is there if not all is."""

    id: str
    title: str
    state: str
    modules: tuple[str, ...]
    note: str


def main(arguments: list[str] | None = None) -> int:
    """Check the tables or, asked to, write them; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check the tables of behaviour.md, or bring them up to date")
    parser.add_argument("--write", action="store_true", help="write the tables instead of checking them")
    write = parser.parse_args(arguments).write
    page = PAGE.read_text("utf-8")
    wanted = current(page)
    if write:
        PAGE.write_text(wanted, "utf-8")
        return 0
    sys.stdout.writelines(_difference(page, wanted))
    return int(page != wanted)


def current(page: str) -> str:
    """The page with both tables as they should be now."""
    stated = STATED.read_text("utf-8")
    numbers = number_tables(tomllib.loads(stated)["numbers"])
    return refreshed(refreshed(page, "numbers", numbers), "state", state_table(read(stated), proofs(_test_sources())))


def refreshed(page: str, name: str, text: str) -> str:
    """A page with this text between the two marks of that name; raises `ValueError` where the marks are not there."""
    begin, end = (f"<!-- {edge} {name}: written by docs/behaviour_table.py -->" for edge in ("begin", "end"))
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{PAGE.name} lacks {begin} or {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


# The state of each id.


def read(stated: str) -> tuple[Behaviour, ...]:
    """The behaviours that a TOML text states, in its order."""
    return tuple(
        Behaviour(id_, fields["title"], fields["state"], tuple(fields.get("modules", ())), fields.get("note", ""))
        for id_, fields in tomllib.loads(stated)["behaviour"].items()
    )


def expected_ids(stated: str) -> list[str]:
    """The ids that a TOML text says there are, section by section."""
    sections = tomllib.loads(stated)["sections"]
    return [
        f"{name}.{number}" if name.startswith("S") else f"{name}{number}"
        for name, (first, last) in sections.items()
        for number in range(first, last + 1)
    ]


def named_ids(source: str) -> set[str]:
    """The ids that the tests of a module name in their docstrings."""
    return {
        id_
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
        for id_ in ID.findall(ast.get_docstring(node) or "")
    }


def proofs(sources: Iterable[tuple[str, str]] | None = None) -> dict[str, list[str]]:
    """From each id to the test modules that name it, given as pairs of name and source; by default the project's own."""
    found: dict[str, list[str]] = {}
    for name, source in _test_sources() if sources is None else sources:
        for id_ in named_ids(source):
            found.setdefault(id_, []).append(name)
    return {id_: sorted(names) for id_, names in found.items()}


def state_table(behaviours: Iterable[Behaviour], proved: Mapping[str, list[str]]) -> str:
    """One row for each behaviour."""
    rows = (_state_row(behaviour, proved.get(behaviour.id, [])) for behaviour in behaviours)
    return _table(("id", "what", "state", "decided by", "tests", "note"), rows)


def _state_row(behaviour: Behaviour, tests: list[str]) -> tuple[str, ...]:
    modules = " ".join(f"`{module}`" for module in behaviour.modules)
    named = " ".join(f"`{test}`" for test in tests)
    return behaviour.id, behaviour.title, behaviour.state, modules, named, behaviour.note


def _test_sources() -> Iterator[tuple[str, str]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        folder = path.relative_to(TESTS).parent.as_posix()
        yield f"{folder}/{path.stem.removeprefix('test_')}", path.read_text("utf-8")


# infold's numbers.


def number_tables(reasons: Mapping[str, str]) -> str:
    """The default numbers with their reasons, then what they come to for windows of different sizes."""
    named = _table(("number", "value", "where", "reason"), ((*row, reasons[key]) for key, row in _numbers().items()))
    titles = ("window", "reserve", "usable", "trigger", "target", "tail", "prune: keep", "prune: minimum", "summary")
    return f"{named}\n\n{_table(titles, map(_in_tokens, WINDOWS))}"


def _numbers() -> dict[str, tuple[str, str, str]]:
    """Each number's name, its value, and the module it stands in."""
    tail, summary, prune = INFOLD.tail, INFOLD.summary, INFOLD.prune
    reserve = f"{_percent(RESERVE_SHARE)} of the window, {SMALLEST_RESERVE_TOKENS:,} to {LARGEST_OUTPUT_TOKENS:,}"
    written = f"{_amount(summary.size)}, {summary.minimum_tokens:,} to {summary.maximum_tokens:,}"
    grown = f"{written} and {_percent(summary.growth)} of what the share is above that"
    small = f"or {SMALL_MUST_KEEP_TOKENS:,} up to {_percent(LARGEST_MUST_KEEP_SHARE)} of it"
    presets, policy = "`core.presets`", "`core.policy`"
    return {
        "reserve": ("reserve", f"{reserve}; never more than the model's longest reply", "`core.budget`"),
        "trigger": ("trigger", _amount(INFOLD.trigger), presets),
        "target": ("target", "the trigger" if INFOLD.target is None else _amount(INFOLD.target), presets),
        "tail": ("tail", f"{_amount(tail.size)}, at most {tail.maximum_tokens:,}", presets),
        "keep": ("prune: keep", f"{_amount(prune.keep)}, at least {tail.minimum_tokens:,}", presets),
        "minimum": ("prune: minimum", _amount(prune.minimum), presets),
        "summary": ("what a fold leaves", grown, presets),
        "instructions": (
            "verbatim instructions",
            f"{_percent(summary.must_keep_share)} of the summary, {small}",
            policy,
        ),
        "gain": ("least gain", _percent(LEAST_GAIN_SHARE), "`core.worth`"),
        "news": ("least news after a missed target", _percent(LEAST_NEWS_SHARE), "`core.worth`"),
        "turns": ("spared turns", f"{prune.spare_turns}", policy),
        "argument": ("longest argument left alone", f"{LONGEST_KEPT_VALUE} characters", "`core.stubs`"),
    }


def _in_tokens(window: int) -> tuple[str, ...]:
    budget = budget_for(Window(window), INFOLD)
    usable = budget.usable_tokens
    tail, summary = INFOLD.tail.budget_tokens(usable), INFOLD.summary.budget_tokens(usable)
    pruned = (INFOLD.prune.keep.of(usable), INFOLD.prune.minimum.of(usable))
    numbers = (window, window - usable, usable, budget.trigger_tokens, budget.target_tokens, tail, *pruned, summary)
    return tuple(f"{number:,}" for number in numbers)


def _amount(amount: Amount) -> str:
    return _percent(amount.value) if amount.unit == "share" else f"{amount.value:,.0f} {amount.unit}"


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _difference(page: str, wanted: str) -> Iterator[str]:
    before, after = page.splitlines(keepends=True), wanted.splitlines(keepends=True)
    return difflib.unified_diff(before, after, "behaviour.md", "as it should be", n=0)


if __name__ == "__main__":
    sys.exit(main())
