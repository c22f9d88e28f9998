"""`infold config`: show every setting and where its value came from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from infold.catalogue import lookup
from infold.cli import options
from infold.cli.render import make_table, open_console, print_json
from infold.core.budget import budget_for
from infold.core.policy import Amount
from infold.errors import PolicyError
from infold.reports.text import plural, printable
from infold.session.settings import resolve_window
from infold.settings.load import StatedValue, user_file
from infold.settings.resolve import SessionOptions, Settings, read_settings
from infold.settings.schema import KEYS, UPSTREAM, Value, find_key, format_value, nearest_name

PLAIN_WIDTH = 400
"""Columns if there is no terminal: room for any path, so that none is cut."""


@click.command("config")
@click.argument("key", required=False)
@click.option("--model", metavar="NAME", help="Show the settings for this model.")
@click.option("--agent", metavar="NAME", help="Show the settings for this agent.")
@options.as_json
def config(key: str | None, model: str | None, agent: str | None, as_json: bool) -> None:
    """Show the settings of this folder: each value, and the file or variable it came from.

    KEY shows one of them, or a group such as compaction. Files are infold.toml (or [tool.infold] in pyproject.toml) in this
    folder or above it, and config.toml in ~/.config/infold; INFOLD_CONFIG names another in their place. Variables such as
    INFOLD_COMPACTION_TRIGGER override files. Tables such as [models."claude-*"] and [agents.reviewer] apply to these only.
    Nothing is written, and passwords are not shown.

    \b
    Examples:
      infold config
      infold config compaction.trigger
      infold config --model claude-opus-4-5 --agent reviewer
    """
    settings = read_settings(os.environ, Path.cwd())
    terms = settings.for_session(model=model, agent=agent)
    named = {} if model is None else {"model": StatedValue(model, "--model")}
    shown = _choose({**settings.effective(model=model, agent=agent), **named}, key)
    if as_json:
        print_json(_to_json(settings, terms, shown))
    elif key is not None and not any(name.startswith(f"{key}.") for name in shown):
        click.echo("\n".join(printable(_format(name, stated)) for name, stated in shown.items()))
    else:
        _show(shown, _notes(settings, terms))


def _choose(values: Mapping[str, StatedValue], key: str | None) -> Mapping[str, StatedValue]:
    """Return all values, those of a group, or one by its name or an alias."""
    group = {name: stated for name, stated in values.items() if key is None or name.startswith(f"{key}.")}
    if group or key is None:
        return group
    if key in values:
        return {key: values[key]}
    meant = find_key(key)
    if meant is None:
        near = nearest_name(key, (*values, *(alias for one in KEYS for alias in one.aliases)))
        raise click.UsageError(f"unknown setting {key!r}" + (f"; did you mean {near}?" if near else ""))
    return {meant.name: values[meant.name]} if meant.name in values else {key: StatedValue(None, "default")}


# Showing.


def _show(values: Mapping[str, StatedValue], notes: Iterator[str]) -> None:
    console = open_console(plain_width=PLAIN_WIDTH)
    table = make_table(header_style="bold")
    table.add_column("setting", no_wrap=True, style="cyan")
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold", style="dim")
    for name, stated in values.items():
        table.add_row(name, printable(_format(name, stated)), printable(stated.origin))
    console.print(table)
    for note in notes:
        console.print(printable(note))


def _format(name: str, stated: StatedValue) -> str:
    key = find_key(name)
    return format_value(stated.value) or (UPSTREAM if key is None else key).unset


def _notes(settings: Settings, terms: SessionOptions) -> Iterator[str]:
    """Yield the files that were read, the numbers in tokens, and what is not shown."""
    yield ""
    if settings.files:
        yield f"read: {', '.join(settings.files)}"
    else:
        own = user_file(os.environ)
        yield f"no settings file found: no infold.toml in this folder or above{f', nor {own}' if own else ''}"
    yield from _in_tokens(terms)
    tables = [layer for layer in settings.layers if layer.scope in ("model", "agent")]
    if terms.agent is not None and not any(layer.scope == "agent" and layer.name == terms.agent for layer in tables):
        yield f"no table [agents.{terms.agent}]: this agent has the general settings"
    elif tables and terms.model is None and terms.agent is None:
        yield f"{plural(len(tables), 'table')} for models and agents not shown: add --model or --agent"


def _in_tokens(terms: SessionOptions) -> Iterator[str]:
    if terms.model is None and terms.window_tokens is None:
        return
    known = None if terms.model is None else lookup(terms.model)
    try:
        budget = budget_for(resolve_window(terms.window_tokens, known), terms.policy)
    except PolicyError as error:
        yield f"in this window these settings contradict each other: {error}"
        return
    if budget.bounded:
        whose = terms.model or "this window"
        trigger = f"compacts at {budget.trigger_tokens:,}" if terms.policy.auto else "never compacts by itself"
        yield f"{whose}: usable {budget.usable_tokens:,} tokens, {trigger}, aims at {budget.target_tokens:,}"
        working = terms.policy.working_window_tokens
        if working is not None and budget.limit_tokens > budget.usable_tokens:
            yield f"works in {working:,}; a request that cannot be made smaller may have {budget.limit_tokens:,}"


def _to_json(settings: Settings, terms: SessionOptions, values: Mapping[str, StatedValue]) -> dict[str, object]:
    rows = [{"key": name, "value": _plain(stated.value), "origin": stated.origin} for name, stated in values.items()]
    return {"model": terms.model, "agent": terms.agent, "files": settings.files, "settings": rows}


def _plain(value: Value) -> object:
    """Return a value for JSON: shares are numbers, remaining tokens are text, passwords are hidden."""
    match value:
        case Amount(unit="remaining") | str():
            return format_value(value)
        case Amount():
            return int(value.value) if value.unit == "tokens" else value.value
        case _:
            return value
