"""Options that several verbs share: sizes in tokens, a policy, a model, JSON; and whether a verb can ask."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from infold.catalogue import shipped_table
from infold.core.policy import PRESETS
from infold.settings.schema import TOKENS

EXISTING = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
WRITABLE = click.Path(dir_okay=False, writable=True, path_type=Path)

Verb = TypeVar("Verb", bound=Callable[..., Any])


def combine(*options: Callable[[Any], Any]) -> Callable[[Verb], Verb]:
    """Return one decorator that adds all of these options, in this order."""
    return lambda function: reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


def can_ask(source: IO[str] | None) -> bool:
    """Whether input comes from a terminal."""
    return source is not None and source.isatty()


def parse_tokens(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Parse a number of tokens, with k or m for thousands and millions: 8000, 64k, 1m, 1.5m, 200_000."""
    if value is None:
        return None
    try:
        tokens = TOKENS.read(value.replace(",", ""))
    except ValueError:
        tokens = 0
    if not isinstance(tokens, int) or tokens < 1:
        raise click.BadParameter(f"{value!r} is not a number of tokens; use one such as 8000, 64k or 1m", ctx, param)
    return tokens


window = click.option(
    "--window", metavar="TOKENS", callback=parse_tokens, help="The window in tokens, such as 8k, 64k or 1m."
)
working_window = click.option(
    "--working-window",
    metavar="TOKENS",
    callback=parse_tokens,
    help="How much of the window to work in, such as 200k; what cannot be made smaller may still fill the window.",
)


priced = click.option(
    "--priced",
    type=click.Choice(("auto", "never", "always")),
    help="Whether to fold where that is cheaper: auto at the known prices of a paid API, always also at assumed ones.",
)


memory = click.option(
    "--memory",
    metavar="lean|balanced|rich|SHARE",
    help="How much of the usable window a compaction may leave in place of what it folds: 5, 11 or 22 %, or a share.",
)


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the catalogue that begin so, for the shell."""
    del ctx, param
    return [entry.name for entry in shipped_table().models if entry.name.startswith(incomplete.lower())]


model = click.option(
    "--model",
    metavar="NAME",
    shell_complete=complete_model,
    help="The model whose window, prices and tokeniser to use.",
)
policy = click.option(
    "--policy", type=click.Choice(sorted(PRESETS)), default="infold", show_default=True, help="The preset to use."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON instead of text.")
force = click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
output = click.option(
    "-o", "output", type=click.Path(path_type=Path), metavar="OUT", help="Write there instead of to stdout."
)
