"""`infold models`: show limits and prices of models, and how a name is matched."""

from collections.abc import Iterable, Iterator

import click
from msgspec.structs import asdict
from rich.table import Table

from infold.catalogue import USUAL_PRICES, Assumed, Lookup, ModelEntry, Prices, lookup, shipped_table
from infold.catalogue.served import ServedModel, ServedWindows
from infold.cli import options
from infold.cli.render import make_table, open_console, print_json
from infold.reports.text import plural, printable, short_number
from infold.wiring import open_model

MOST_LIKE = 10
COLUMNS = ("window", "input", "output", "$ in", "$ out", "$ read", "$ write", "family")

PLAIN_WIDTH = 400
"""Columns if there is no terminal: room for any name, so that none is cut."""


@click.command("models")
@click.argument("name", required=False)
@click.option("--search", metavar="TEXT", help="List only models whose name, provider or family contains this text.")
@click.option("--base-url", metavar="URL", help="Ask the server there, such as vLLM or Ollama, for the window of NAME.")
@options.as_json
def models(name: str | None, search: str | None, base_url: str | None, as_json: bool) -> None:
    """Show limits and prices of a model, NAME in any of its usual spellings, and how it was matched.

    Without NAME all models are listed. Prices are US dollars per million tokens. An unknown name gets a
    cautious window, and the output says why. With --base-url the server is asked for the window it serves.

    \b
    Examples:
      infold models anthropic/claude-sonnet-4-5
      infold models --search gemini
      infold models qwen3-coder --base-url http://localhost:8000/v1
    """
    if name is not None and search is not None:
        raise click.UsageError("give NAME to look one up, or --search TEXT to list several, not both")
    if base_url and name is None:
        raise click.UsageError("--base-url needs NAME, the model to ask the server for")
    if name is not None and base_url:
        _show_served(name, base_url, as_json=as_json)
    elif name is not None:
        _show_one(lookup(name), name, as_json=as_json)
    else:
        _show_list(_matching(search or ""), as_json=as_json)


def _matching(text: str) -> list[ModelEntry]:
    wanted = text.lower()
    entries = (
        entry for entry in shipped_table().models if wanted in f"{entry.name} {entry.provider} {entry.family}".lower()
    )
    return sorted(entries, key=lambda entry: entry.name)


# One model.


def _show_one(found: Lookup, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"asked": name, **_lookup_json(found)})
        return
    for line in _describe(found, name):
        click.echo(printable(line))


def _show_served(name: str, base_url: str, *, as_json: bool) -> None:
    """Show the window that a server reports for a model."""
    with open_model(name, base_url) as model:
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
        like = sorted(_matching(name), key=lambda one: len(one.name))[:MOST_LIKE]
        if like:
            yield f"  names that contain it: {', '.join(one.name for one in like)}"
    else:
        yield f"{found.matched}: {entry.provider or 'provider not known'} (matched by: {', '.join(found.how)})"
    yield f"  window: {entry.context_tokens:,} tokens"
    for name, most in (("input", entry.input_tokens), ("output", entry.output_tokens)):
        if most is not None:
            yield f"  {name}: at most {most:,} tokens"
    if entry.prices is not None:
        yield f"  dollars per million tokens: {_prices(entry.prices)}"
    else:
        yield f"  prices: not known; their usual ratios are assumed ({_prices(USUAL_PRICES[entry.family])})"
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
    if not entries:
        click.echo("no name, provider or family of a model contains this text; try a shorter one", err=True)
        return
    console = open_console(plain_width=PLAIN_WIDTH)
    console.print(_table(entries))
    units = "dollars per million tokens: input, output, read from cache, written to cache"
    console.print(f"{plural(len(entries), 'model')}, as of {shipped_table().as_of}; {units}")


def _table(entries: Iterable[ModelEntry]) -> Table:
    table = make_table(header_style="bold")
    table.add_column("model", no_wrap=True, overflow="ellipsis")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "family" else "right", no_wrap=True, min_width=len(name))
    for entry in entries:
        prices = entry.prices
        costs = (prices.input, prices.output, prices.cache_read, prices.cache_write) if prices else (None,) * 4
        sizes = (entry.context_tokens, entry.input_tokens, entry.output_tokens)
        table.add_row(entry.name, *map(_size, sizes), *map(_price, costs), entry.family)
    return table


def _size(tokens: int | None) -> str:
    return "" if tokens is None else short_number(tokens)


def _price(dollars: float | None) -> str:
    return "" if dollars is None else f"{dollars:.4g}"
