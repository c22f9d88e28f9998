"""What several verbs are asked in the same words: sizes in tokens, a policy, a model, a format, a session."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from infold.core.policy import LARGEST_TOKENS, PRESETS
from infold.formats.registry import FORMATS
from infold.transcripts.registry import FORMAT_NAMES

UNITS = {"k": 1_000, "m": 1_000_000}
WIRE_NAMES: tuple[str, ...] = tuple(wire.name for wire in FORMATS)
EXISTING = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)

F = TypeVar("F", bound=Callable[..., Any])


def tokens_of(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A number of tokens, with k or m for thousands and millions: 8000, 64k, 1m, 1.5m, 200_000."""
    tokens = None if value is None else _tokens(value)
    if tokens is not None and not 1 <= tokens <= LARGEST_TOKENS:
        raise click.BadParameter(f"{value!r} is no number of tokens; give one such as 8000, 64k or 1m", ctx, param)
    return tokens


def _tokens(text: str) -> int:
    text = text.strip().lower().replace(",", "").replace("_", "")
    digits, unit = (text[:-1], UNITS[text[-1]]) if text[-1:] in UNITS else (text, 1)
    whole, dot, fraction = digits.partition(".")
    is_number = len(digits) < 12 and (whole + fraction).isdecimal() and bool(whole) and bool(fraction) == bool(dot)
    return round(float(digits) * unit) if is_number else 0


window = click.option(
    "--window", metavar="TOKENS", callback=tokens_of, help="The window in tokens, such as 8k, 64k or 1m."
)
model = click.option("--model", metavar="NAME", help="Which model's window, prices and way of counting to use.")
policy = click.option(
    "--policy", type=click.Choice(sorted(PRESETS)), default="infold", show_default=True, help="Which preset decides."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON instead of a page.")
force = click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")

_FORMAT = click.option(
    "--format",
    type=click.Choice((*FORMAT_NAMES, *WIRE_NAMES)),
    metavar="NAME",
    help="Say what FILE is where that is not told by its content.",
)
_SESSION = click.option(
    "--session", metavar="ID", help="Take this session of FILE, named by its id or the beginning of it."
)


def reading(function: F) -> F:
    """The options of every verb that reads a file: its format, and which of its sessions."""
    return reduce(lambda wrapped, option: option(wrapped), (_SESSION, _FORMAT), function)
