"""`infold models`: show limits and prices of models, and how a name is matched."""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from importlib import import_module

import click
from msgspec import Struct
from msgspec.structs import asdict

from infold.catalogue import USUAL_PRICES, Assumed, Lookup, ModelEntry, Prices, lookup, shipped_table
from infold.catalogue.served import ServedModel, ServedWindows
from infold.cli import options
from infold.cli.render import print_json, working
from infold.errors import did_you_mean, nearest_names
from infold.ports import Model
from infold.reports.text import plural, printable, short_number

WIRING = "infold.wiring"
"""Imported by name: only --base-url opens a model, and the catalogue is read without what that loads."""

MOST_NEAR, LIKENESS = 8, 0.5
"""How many names are suggested for one that is not known, and how similar they must be."""

FIRST_PROVIDERS = ("anthropic", "openai", "google")
"""Whose models stand first in the list; all others follow by name."""

SHORTEST_NAME = 24
"""Columns of a model's name below which other columns are left out."""


class Column(Struct, frozen=True):
    """A column of the list; those with the highest `rank` are left out first in a narrow terminal."""

    title: str
    cell: Callable[[ModelEntry], str]
    rank: int = 0
    is_text: bool = False


@click.command("models")
@click.argument("pattern", required=False, shell_complete=options.complete_model)
@click.option("--provider", metavar="NAME", help="List only the models of this provider.")
@click.option(
    "--min-window", metavar="TOKENS", callback=options.parse_tokens, help="List only models with at least this window."
)
@click.option(
    "--base-url", metavar="URL", help="Ask the server there, such as vLLM or Ollama, for the window of PATTERN."
)
@options.as_json
def models(
    pattern: str | None, provider: str | None, min_window: int | None, base_url: str | None, *, as_json: bool
) -> None:
    """Show limits and prices of a model, PATTERN being its name in any of its usual spellings, and how it was matched.

    Any other text lists the models whose name, provider or family contains it; * and ? stand for any characters. Without PATTERN
    all models are listed. Prices are US dollars per million tokens. If there is no such model, the nearest names are shown, with
    the cautious window that infold would assume, and the exit status is 1. With --base-url the server is asked for the window it
    serves.

    \b
    Examples:
      infold models anthropic/claude-sonnet-4-5
      infold models gemini --min-window 1m
      infold models qwen3-coder --base-url http://localhost:8000/v1
    """
    if base_url and pattern is None:
        raise click.UsageError("--base-url needs PATTERN, the name of the model to ask the server for")
    if provider is not None:
        _check_provider(provider)
    if pattern is not None and base_url:
        _show_served(pattern, base_url, as_json=as_json)
        return
    is_filtered = provider is not None or min_window is not None
    found = None if pattern is None or is_filtered else lookup(pattern)
    if found is not None and pattern is not None and not isinstance(found, Assumed):
        _show_one(found, pattern, as_json=as_json)
        return
    entries = [
        entry
        for entry in _matching(pattern or "")
        if provider in (None, entry.provider) and entry.context_tokens >= (min_window or 0)
    ]
    if entries:
        _show_list(entries, as_json=as_json)
    else:
        _show_nothing(pattern, found, as_json=as_json)


def _check_provider(provider: str) -> None:
    known = {entry.provider for entry in shipped_table().models}
    if provider not in known:
        meant = did_you_mean(provider, known) or f"the catalogue has {', '.join(sorted(known))}"
        raise click.BadParameter(f"{provider!r} is not known; {meant}", param_hint="'--provider'")


def _matching(text: str) -> list[ModelEntry]:
    """Return the models that a text is part of, or that match a pattern with * or ?, in the order of the list."""
    wanted = text.lower()
    has_wildcard = "*" in wanted or "?" in wanted

    def is_match(entry: ModelEntry) -> bool:
        if has_wildcard:
            return fnmatchcase(entry.name.lower(), wanted)
        return wanted in f"{entry.name} {entry.provider} {entry.family}".lower()

    places = {provider: place for place, provider in enumerate(FIRST_PROVIDERS)}
    last = len(FIRST_PROVIDERS)
    found = filter(is_match, shipped_table().models)
    return sorted(found, key=lambda entry: (places.get(entry.provider, last), entry.name))


def _show_nothing(pattern: str | None, found: Lookup | None, *, as_json: bool) -> None:
    """Show the nearest names and what is assumed for an unknown name; the status is 1."""
    if pattern is None or found is None:
        click.echo("no model of the catalogue is like that; leave out a filter, or ask for less", err=True)
        if as_json:
            print_json({"as_of": shipped_table().as_of, "models": []})
        raise click.exceptions.Exit(1)
    bare = pattern.lower().rpartition("/")[2]
    near = nearest_names(bare, (entry.name for entry in shipped_table().models), most=MOST_NEAR, likeness=LIKENESS)
    if as_json:
        print_json({"asked": pattern, **_lookup_json(found), "nearest": near})
    else:
        _show_one(found, pattern, as_json=False)
        if near:
            click.echo(f"nearest names: {', '.join(near)}", err=True)
    raise click.exceptions.Exit(1)


# One model.


def _show_one(found: Lookup, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"asked": name, **_lookup_json(found)})
        return
    for line in _describe(found, name):
        click.echo(printable(line))


def _show_served(name: str, base_url: str, *, as_json: bool) -> None:
    """Show the window that a server reports for a model."""
    opened: AbstractContextManager[Model] = import_module(WIRING).open_model(name, base_url)
    with working(f"asking {printable(base_url)}"), opened as model:
        found = (
            ServedWindows().find(base_url, model.ref.id, model.ask_server) if isinstance(model, ServedModel) else None
        )
    if as_json:
        served = {
            "window_tokens": None if found is None else found.tokens,
            "source": None if found is None else found.source,
        }
        print_json({"asked": name, "served": served, **_lookup_json(lookup(name))})
    elif found is None:
        click.echo(f"the server at {printable(base_url)} reports no window for {printable(name)}")
        _show_one(lookup(name), name, as_json=False)
    else:
        click.echo(f"{printable(name)}: a window of {found.tokens:,} tokens, as {printable(found.source)} reports")


def _describe(found: Lookup, name: str) -> Iterator[str]:
    entry = found.entry
    if isinstance(found, Assumed):
        yield f"{name}: not known"
        yield f"  {found.reason}"
        yield f"  {found.advice.replace('window=…', '--window TOKENS')}"
    else:
        yield f"{found.matched}: {entry.provider or 'provider not known'} (matched by: {', '.join(found.how)})"
    yield f"  window: {entry.context_tokens:,} tokens"
    for name, most in (("input", entry.input_tokens), ("output", entry.output_tokens)):
        if most is not None:
            yield f"  {name}: at most {most:,} tokens"
    if entry.prices is not None:
        yield f"  dollars per million tokens: {_prices(entry.prices)}"
    else:
        yield (
            "  prices: not known, so that no fold is made for its price; with --priced always their usual ratios are assumed "
            f"({_prices(USUAL_PRICES[entry.family])})"
        )
    for tier in entry.tiers:
        yield f"  above {tier.above_tokens:,} tokens: {_prices(tier.prices)}"
    yield f"  counted as: {entry.family}"
    if entry.source and entry.as_of:
        yield f"  from: {entry.source}, {entry.as_of}"


def _prices(prices: Prices) -> str:
    named = {
        "in": prices.input,
        "out": prices.output,
        "cache read": prices.cache_read,
        "cache write": prices.cache_write,
    }
    return ", ".join(f"{label} {_price(price)}" for label, price in named.items() if price is not None)


def _lookup_json(found: Lookup) -> dict[str, object]:
    stated = {name: getattr(found, name, None) for name in ("matched", "how", "reason", "advice")}
    return {"known": not isinstance(found, Assumed), **stated, "model": asdict(found.entry)}


# The list.


def _show_list(entries: list[ModelEntry], *, as_json: bool) -> None:
    if as_json:
        print_json({"as_of": shipped_table().as_of, "models": [asdict(entry) for entry in entries]})
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    footer = f"{plural(len(entries), 'model')}, as of {shipped_table().as_of}; dollars per million tokens"
    click.echo("\n".join((*_lines(entries, width), footer)))


COLUMNS = (
    Column("provider", lambda entry: entry.provider, rank=2, is_text=True),
    Column("window", lambda entry: _size(entry.context_tokens)),
    Column("input", lambda entry: _size(entry.input_tokens), rank=4),
    Column("output", lambda entry: _size(entry.output_tokens), rank=1),
    Column("$ in", lambda entry: _price_of(entry, "input")),
    Column("$ out", lambda entry: _price_of(entry, "output")),
    Column("$ read", lambda entry: _price_of(entry, "cache_read"), rank=3),
    Column("$ write", lambda entry: _price_of(entry, "cache_write"), rank=3),
    Column("family", lambda entry: entry.family, rank=5, is_text=True),
)


def _lines(entries: Iterable[ModelEntry], width: int | None) -> Iterator[str]:
    """Yield the list as lines of aligned columns, in `width` cells if given: whole columns are left out, and names cut last.

    Written by hand, because a table of rich takes a second for two thousand rows.
    """
    rows = {column: [column.title, *map(column.cell, entries)] for column in COLUMNS}
    sizes = {column: max(map(len, cells)) for column, cells in rows.items()}
    names = ["model", *(entry.name for entry in entries)]
    longest = max(map(len, names))
    shown = list(COLUMNS)
    while width is not None and shown and min(longest, SHORTEST_NAME) + _room(shown, sizes) > width:
        dearest = max(column.rank for column in shown)
        if dearest == 0:
            break
        shown = [column for column in shown if column.rank < dearest]
    space = longest if width is None else max(1, min(longest, width - _room(shown, sizes)))
    for number, name in enumerate(names):
        cut = name if len(name) <= space else f"{name[: space - 1]}…"
        cells = (
            rows[column][number].ljust(sizes[column]) if column.is_text else rows[column][number].rjust(sizes[column])
            for column in shown
        )
        yield printable("  ".join((cut.ljust(space), *cells)).rstrip())


def _room(shown: Iterable[Column], sizes: dict[Column, int]) -> int:
    return sum(sizes[column] + 2 for column in shown)


def _size(tokens: int | None) -> str:
    return "" if tokens is None else short_number(tokens)


def _price_of(entry: ModelEntry, field: str) -> str:
    return _price(getattr(entry.prices, field, None))


def _price(dollars: float | None) -> str:
    return "" if dollars is None else f"{dollars:.4g}"
