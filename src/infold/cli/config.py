"""Settings: `infold config` shows every one and where its value came from, `infold init` writes a file with all of them."""

import os
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from textwrap import wrap

import click
import msgspec

from infold.catalogue import lookup
from infold.cli import options
from infold.cli.files import write_file
from infold.cli.render import make_table, open_console, print_json
from infold.core.budget import budget_for
from infold.core.policy import INFOLD, Amount
from infold.errors import PolicyError, UsageError
from infold.reports.text import plural, printable
from infold.session.settings import resolve_window
from infold.settings.load import StatedValue, project_file, user_file
from infold.settings.resolve import SessionOptions, Settings, preset_value, read_settings
from infold.settings.schema import (
    KEYS,
    POLICY_FIELDS,
    UPSTREAM,
    Key,
    Value,
    find_key,
    format_value,
    make_private_folder,
    nearest_name,
)

PLAIN_WIDTH = 400
"""Columns if there is no terminal: room for any path, so that none is cut."""

PROJECT_FILE = "infold.toml"

EXAMPLES: Mapping[str, Value] = {
    "model": "anthropic/claude-sonnet-5-5",
    "window": 200_000,
    "working_window": 128_000,
    "prices.input": 3.0,
    "prices.output": 15.0,
    "prices.cache_read": 0.3,
    "prices.cache_write": 3.75,
    "store": "~/sessions.sqlite3",
    "compaction.reserved": 16_000,
    "compaction.target": Amount("share", 0.5),
    "compaction.keep_turns": 3,
    "compaction.tail_turns": 2,
    "compaction.preserve_recent_tokens": 8_000,
    "compaction.attempts": 3,
    "compaction.model": "anthropic/claude-haiku-5",
    "compaction.recovers": False,
    "compaction.cache_seconds": 300,
    "plugins.enabled": ("my-plugin",),
    "permissions.allow": ("shell:git status*",),
    "permissions.ask": ("shell",),
    "permissions.deny": ("shell:git push*",),
    "agent.environment": ("OPENAI_API_KEY",),
    "gateway.allowed_hosts": ("infold.local",),
    "gateway.tenant": "me",
    "upstreams.<provider>.base_url": "https://api.openai.com",
    "store_limits.max_age_days": 90,
    "store_limits.max_bytes": 5_000_000_000,
}
"""What a written file shows for settings that have no value of their own."""

HEADER = """\
# Settings of infold{whose}. Every setting is a comment, so this file changes nothing as it is: remove the #
# before one (and keep the [table] above it) to set it. `infold config` shows what holds, `infold doctor` what is wrong.
"""

FOOTER = """\
# For some models or one agent only:
#
# [models."claude-*"]
# compaction.trigger = "80%"
#
# [agents.reviewer]
# compaction.auto = false
"""

COMMENT_WIDTH = 100


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


# Writing a file.


@click.command("init")
@click.option("--project", "place", flag_value="project", help="Write infold.toml in this folder; this is the default.")
@click.option("--user", "place", flag_value="user", help="Write your own file, which counts in all folders.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(place: str | None, *, force: bool) -> None:
    """Write a settings file that has every setting as a comment: what it does, and its default.

    The file changes nothing until you remove the # before a setting. A project's file has only what a project may set; your
    own file, ~/.config/infold/config.toml, has all settings.

    \b
    Examples:
      infold init
      infold init --user
    """
    is_user = place == "user"
    path = _user_place() if is_user else Path.cwd() / PROJECT_FILE
    _refuse_second_file(path, is_user=is_user, force=force)
    make_private_folder(path.parent)
    if path.exists() and not force:
        raise UsageError(f"{path} exists; edit it, or add --force to overwrite it")
    write_file(path, settings_template(is_user=is_user).encode(), source=Path(os.devnull), force=force)
    click.echo(f"written: {path}")
    if os.environ.get("INFOLD_CONFIG"):
        click.echo("note: it is not read while INFOLD_CONFIG names another file", err=True)


def _user_place() -> Path:
    path = user_file(os.environ)
    if path is None:
        raise UsageError("the environment names no home; set HOME or XDG_CONFIG_HOME, or write a file with --project")
    return path


def _refuse_second_file(path: Path, *, is_user: bool, force: bool) -> None:
    """Raise `UsageError` if settings stand in another file, which the new one would hide."""
    other = path.with_suffix(".json") if is_user else project_file(Path.cwd())
    if other is not None and other.is_file() and other != path and not force:
        raise UsageError(f"there are settings in {other}, which {path} would hide; edit that file, or add --force")


def settings_template(*, is_user: bool) -> str:
    """Return a settings file that states nothing: all keys, or those of a project, as comments by table."""
    keys = [key for key in KEYS if is_user or key.per_project]
    whose = "" if is_user else " for this project"
    blocks = [HEADER.format(whose=whose)]
    tables = sorted(keys, key=lambda key: "." in key.name)  # keys without a table stand first, as TOML requires
    for table, members in groupby(tables, key=lambda key: key.name.rpartition(".")[0].replace("<provider>", "openai")):
        if table:
            blocks.append(f"\n[{table}]\n")
        blocks += [f"\n{_commented(key)}" for key in members]
    return "".join((*blocks, f"\n{FOOTER}"))


def _commented(key: Key) -> str:
    own = preset_value(key.name, INFOLD)
    default = key.default if own is None else own.value
    shown = default if default not in (None, ()) else EXAMPLES[key.name]
    unset = "" if shown is default else f" Without it: {key.unset or 'none'}."
    of_preset = " The value shown is the preset's." if key.name in POLICY_FIELDS and not unset else ""
    help_lines = wrap(f"{key.help}{unset}{of_preset}", COMMENT_WIDTH)
    return "".join((*(f"# {line}\n" for line in help_lines), f"# {key.name.rpartition('.')[2]} = {_toml(shown)}\n"))


def _toml(value: Value) -> str:
    """Return a value as TOML writes it."""
    match value:
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case Amount(unit="tokens") | bool() | int() | float():
            return format_value(value)
        case _:
            return msgspec.json.encode(format_value(value)).decode()
