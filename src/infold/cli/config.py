"""`infold config`: every setting as it holds, and where its value came from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.table import Table

from infold.catalogue import lookup
from infold.cli import options
from infold.cli.output_files import json_bytes
from infold.cli.render import console_for, counted, legible
from infold.core.budget import Budget, budget_for
from infold.core.policy import Amount
from infold.engine.terms import window_of
from infold.errors import PolicyError
from infold.settings import (
    KEYS,
    SessionOptions,
    Settings,
    StatedValue,
    Value,
    find_key,
    format_value,
    nearest_name,
    read_settings,
    user_file,
)
from infold.settings.schema import UPSTREAM

PLAIN_WIDTH = 400
"""Columns where there is no terminal: room for any path, so that none is cut where somebody searches for it."""


@click.command("config", short_help="Show every setting and where its value came from.")
@click.argument("key", required=False)
@click.option("--model", metavar="NAME", help="Show what holds for this model.")
@click.option("--agent", metavar="NAME", help="Show what holds for this agent.")
@options.as_json
def config(key: str | None, model: str | None, agent: str | None, as_json: bool) -> None:
    """Show the settings that hold in this folder: each value, and the file or variable it came from.

    KEY shows one of them, or a group such as compaction. Files are infold.toml (or [tool.infold] in pyproject.toml) in this
    folder or above it, and config.toml in ~/.config/infold; INFOLD_CONFIG names another in their place. Variables such as
    INFOLD_COMPACTION_TRIGGER win over files. Tables such as [models."claude-*"] and [agents.reviewer] hold for these alone.
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
    shown = _chosen({**settings.effective(model=model, agent=agent), **named}, key)
    if as_json:
        click.echo(json_bytes(_page(settings, terms, shown)), nl=False)
    elif key is not None and not any(name.startswith(f"{key}.") for name in shown):
        click.echo("\n".join(legible(_told(name, stated)) for name, stated in shown.items()))
    else:
        _show(shown, _notes(settings, terms))


def _chosen(values: Mapping[str, StatedValue], key: str | None) -> Mapping[str, StatedValue]:
    """The values asked for: all, those of a group, or one by its name or an alias."""
    group = {name: stated for name, stated in values.items() if key is None or name.startswith(f"{key}.")}
    if group or key is None:
        return group
    if key in values:
        return {key: values[key]}
    meant = find_key(key)
    if meant is None:
        near = nearest_name(key, (*values, *(alias for one in KEYS for alias in one.aliases)))
        raise click.UsageError(f"no setting is named {key!r}" + (f"; did you mean {near}?" if near else ""))
    return {meant.name: values[meant.name]} if meant.name in values else {key: StatedValue(None, "default")}


# Showing.


def _show(values: Mapping[str, StatedValue], notes: Iterator[str]) -> None:
    console = console_for(plain=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("setting", no_wrap=True, style="cyan")
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold", style="dim")
    for name, stated in values.items():
        table.add_row(name, legible(_told(name, stated)), legible(stated.origin))
    console.print(table)
    for note in notes:
        console.print(legible(note))


def _told(name: str, stated: StatedValue) -> str:
    key = find_key(name)
    return format_value(stated.value) or (UPSTREAM if key is None else key).unset


def _notes(settings: Settings, terms: SessionOptions) -> Iterator[str]:
    """What a reader asks next: which files were read, what these numbers mean in tokens, what else there is to look at."""
    yield ""
    if settings.files:
        yield f"read: {', '.join(settings.files)}"
    else:
        own = user_file(os.environ)
        yield f"no file of settings here: neither an infold.toml in this folder or above{f', nor {own}' if own else ''}"
    yield from _in_tokens(terms)
    tables = [layer for layer in settings.layers if layer.scope in ("model", "agent")]
    if terms.agent is not None and not any(layer.scope == "agent" and layer.name == terms.agent for layer in tables):
        yield f"no table [agents.{terms.agent}]: what holds for all holds for this agent"
    elif tables and terms.model is None and terms.agent is None:
        yield f"{counted(len(tables), 'table')} for models and agents not shown: add --model or --agent"


def _in_tokens(terms: SessionOptions) -> Iterator[str]:
    try:
        budget = _budget(terms)
    except PolicyError as error:
        yield f"in this window these settings contradict each other: {error}"
        return
    if budget is not None and budget.bounded:
        whose = terms.model or "this window"
        trigger = f"acts at {budget.trigger_tokens:,}" if terms.policy.auto else "never acts unasked"
        yield f"{whose}: usable {budget.usable_tokens:,} tokens, {trigger}, aims at {budget.target_tokens:,}"


def _budget(terms: SessionOptions) -> Budget | None:
    if terms.model is None and terms.window_tokens is None:
        return None
    known = None if terms.model is None else lookup(terms.model)
    return budget_for(window_of(terms.window_tokens, known), terms.policy)


def _page(settings: Settings, terms: SessionOptions, values: Mapping[str, StatedValue]) -> dict[str, object]:
    rows = [{"key": name, "value": _plain(stated.value), "origin": stated.origin} for name, stated in values.items()]
    return {"model": terms.model, "agent": terms.agent, "files": settings.files, "settings": rows}


def _plain(value: Value) -> object:
    """A value as JSON has it; shares are numbers, tokens that remain are words, passwords are hidden."""
    match value:
        case Amount(unit="remaining") | str():
            return format_value(value)
        case Amount(unit="tokens", value=number):
            return int(number)
        case Amount(value=number):
            return number
        case other:
            return other
