"""`infold demo`: one coding session, kept by infold in a file and played through small windows, without a model or a network.

The command line, and the verdict at the end. What is played stands in `demo_scene.py`, how in `demo_play.py` and `demo_acts.py`,
what is checked in `demo_checks.py`, how it looks in `demo_page.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console

from infold.cli.demo_acts import acts_on
from infold.cli.demo_page import show, show_acts, sum_up
from infold.cli.demo_play import Stage
from infold.cli.demo_scene import Scene, scene_for
from infold.cli.render import checkpoint_panel, console_for
from infold.core.policy import Policy, preset
from infold.errors import UnknownPreset

SMALLEST_WINDOW, LARGEST_WINDOW = 8_000, 2_000_000
"""Below 8k the session's system prompt and rules alone fill the window."""

MOST_FAULTS = 10
UNITS = {"k": 1_000, "m": 1_000_000}
INTRODUCTION = """\
A coding agent's session outgrows its model's window many times over.
infold prepares every request so that it fits, and keeps what the user laid down word for word.
Nothing is sent: no key, no network, no model. The log keeps everything, the request gets smaller:
old tool results are pruned, old turns are folded into a checkpoint, a part too large is clipped.
The log is a SQLite file. Summaries were recorded, and are judged before they stand for anything.
"""


def _window_sizes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(_window_size(ctx, param, value) for value in values)


def _window_size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """A number of tokens, with k or m for thousands and millions."""
    text = value.lower().replace(",", "").replace("_", "")
    digits, unit = (text[:-1], UNITS[text[-1]]) if text[-1:] in UNITS else (text, 1)
    tokens = int(digits) * unit if digits.isdecimal() and len(digits) < 10 else 0
    if not SMALLEST_WINDOW <= tokens <= LARGEST_WINDOW:
        problem = f"{value!r} is no window the demo can play; give tokens from 8k to 2m, such as 64k"
        raise click.BadParameter(problem, ctx, param)
    return tokens


def _preset(ctx: click.Context, param: click.Parameter, value: str) -> Policy:
    try:
        return preset(value)
    except UnknownPreset as error:
        raise click.BadParameter(str(error), ctx, param) from error


@click.command(short_help="Watch a long coding session being kept inside small windows.")
@click.option(
    "--window", "windows", multiple=True, default=("8k", "64k"), callback=_window_sizes, help="May be repeated."
)
@click.option("--policy", default="infold", show_default=True, callback=_preset, help="Which preset decides.")
@click.option("--plain", is_flag=True, help="Lines only: no colour, no movement. Always so outside a terminal.")
@click.option("--fast", is_flag=True, help="No pauses.")
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the sessions in this SQLite file, for `infold serve --store` to show; those it has are not played again.",
)
def demo(windows: tuple[int, ...], policy: Policy, plain: bool, fast: bool, keep: Path | None) -> None:
    """Watch a long coding session being kept inside small windows (8k and 64k, if no other is given).

    Each request of the session is prepared as an agent would send it. Nothing is sent: no key, no network, no model. At
    the end every request is checked; the exit status is 1 if one of them did not hold.
    """
    console = console_for(plain=plain)
    plain = plain or not console.is_terminal
    console.print(INTRODUCTION)
    faults: list[str] = []
    for place, window_tokens in enumerate(windows, start=1):
        scene = scene_for(window_tokens, policy)
        with _stage(scene, keep) as stage:
            if stage.is_played:
                console.print(f"{stage.name} is in {keep} already")
                continue
            found = _play(console, stage, plain=plain, fast=fast, last=place == len(windows))
            stage.session.title(f"A coding session in a window of {window_tokens:,} tokens")
        faults += [f"window {window_tokens:,}, {fault}" for fault in found]
    raise click.exceptions.Exit(_verdict(console, faults))


def _play(console: Console, stage: Stage, *, plain: bool, fast: bool, last: bool) -> list[str]:
    """Play and show one scene; gives what did not hold."""
    requests = show(console, stage, plain=plain, fast=fast)
    if not requests:
        return [stage.stopped]
    if last and requests[-1].checkpoint:
        console.print(checkpoint_panel(requests[-1].checkpoint, plain=plain))
    sum_up(console, stage.scene, requests)
    faults = [fault for request in requests for fault in request.faults]
    if stage.stopped:
        return [*faults, stage.stopped]
    return [*faults, *show_acts(console, acts_on(stage, requests))]


@contextmanager
def _stage(scene: Scene, keep: Path | None) -> Iterator[Stage]:
    """A stage in the file to keep, else in a folder of its own, which is gone afterwards."""
    with TemporaryDirectory(prefix="infold-demo-") as folder:
        name = f"demo-{scene.window.context_tokens // 1_000}k" if keep else "demo"
        stage = Stage(scene, keep or Path(folder) / "demo.sqlite3", name)
        try:
            yield stage
        finally:
            stage.close()


def _verdict(console: Console, faults: list[str]) -> int:
    """Say whether everything held; the exit status."""
    if not faults:
        console.print("all requests fitted", style="bold green")
        return 0
    for fault in faults[:MOST_FAULTS]:
        console.print(fault, style="red")
    console.print(f"faults in all: {len(faults)}; try --policy infold or a larger --window", style="bold red")
    return 1
