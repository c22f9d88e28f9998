"""`infold replay`: what policies would have cost on recorded sessions, as a table, as JSON and as one HTML page.

Asks `infold.replay` for everything and shows it. Files are replayed in processes of their own, and told in the order given.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from infold.catalogue import lookup, shipped_table
from infold.cli.options import tokens_of
from infold.cli.render import console_for
from infold.engine.counting import counting_for
from infold.errors import UnknownPreset
from infold.replay.html import to_html
from infold.replay.outcome import BrokenFile, FileOutcome, ReplayPlan, ReplayReport
from infold.replay.policies import POLICY_NAMES, check_policies
from infold.replay.retention import Measurement, measure_file, pair_neighbours, render_retention, summarise_retention
from infold.replay.run import replay_file
from infold.replay.simulate import make_refetch
from infold.replay.table import build_tables, to_json

Given = TypeVar("Given")


Found = TypeVar("Found")


DEFAULT_POLICIES = "infold,opencode-1.1.57,turn-window,none"


OWN_WINDOW = "model"


WRITTEN = click.Path(dir_okay=False, writable=True, path_type=Path)


def _policies(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    try:
        check_policies(names)
    except UnknownPreset as error:
        raise click.BadParameter(str(error), ctx, param) from error
    if not names:
        raise click.BadParameter(f"no policy is named; choose from {', '.join(POLICY_NAMES)}", ctx, param)
    return names


def _windows(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_window(ctx, param, text) for text in value.split(",")))


def _window(ctx: click.Context, param: click.Parameter, value: str) -> int:
    if value.strip() == OWN_WINDOW:
        return 0
    tokens = tokens_of(ctx, param, value)
    assert tokens is not None
    return tokens


def _model(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and lookup(value).entry.prices is None:
        raise click.BadParameter(f"no price is known for {value!r}; see 'infold models'", ctx, param)
    return value


@click.command(short_help="See what policies would have cost on your own transcripts.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--policies", default=DEFAULT_POLICIES, show_default=True, callback=_policies, help="Names, by commas.")
@click.option(
    "--window", "windows", default="64k", show_default=True, callback=_windows, help="Sizes, by commas; or 'model'."
)
@click.option("--model", metavar="NAME", callback=_model, help="Price and limit every session as this model.")
@click.option(
    "--overhead", metavar="TOKENS", callback=tokens_of, help="Tokens of system prompt and tools, if not as recorded."
)
@click.option("--json", "json_file", type=WRITTEN, metavar="OUT", help="Write everything that was found.")
@click.option("--html", "html_file", type=WRITTEN, metavar="OUT", help="Write one page with pictures.")
@click.option(
    "--retention", is_flag=True, help="Measure what a fold keeps of the facts, instead of what policies cost."
)
@click.option("--no-refetch", is_flag=True, help="Do not charge what a policy lost and the agent then needed.")
@click.option("--no-cache", is_flag=True, help="Replay as if the provider had no prompt cache.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes at once; as many as there are processors.")
@click.option("--plain", is_flag=True, help="No colours and no boxes beyond ASCII.")
@click.pass_context
def replay(ctx: click.Context, /, **given: object) -> None:
    """Replay recorded sessions with the requests a policy would have sent, and bill them.

    FILES are transcripts of any agent infold reads. Policies are the presets, `none`, `as-recorded` and a few simple rules;
    the recorded run is always simulated too, so that you see how far the numbers can be trusted.

    Example: infold replay session.jsonl --window 64k,128k --html report.html
    """
    del given  # all of it stands in the context, where it keeps its types
    params = ctx.params
    if params["retention"]:
        _tell_retention(params["files"], params["jobs"], params["json_file"])
        return
    plan = ReplayPlan(
        policies=params["policies"],
        windows=params["windows"],
        model=params["model"],
        caching=not params["no_cache"],
        overhead_tokens=params["overhead"],
    )
    console = console_for(plain=params["plain"])
    found = ReplayReport(
        plan,
        shipped_table().as_of,
        tuple(_replayed(params["files"], _Work(plan, refetch=not params["no_refetch"]), params["jobs"])),
    )
    console.print(build_tables(found, plain=params["plain"] or not console.is_terminal))
    _write(params["json_file"], to_json(found))
    _write(params["html_file"], to_html(found).encode())
    if not found.replayed:
        raise click.ClickException("none of the files could be replayed")


def _tell_retention(files: Sequence[Path], jobs: int | None, json_file: Path | None) -> None:
    """What one to ten folds at 4 % of a session keep of its facts, in context and by recall."""
    measured: list[Measurement] = []
    for found in _mapped(measure_file, pair_neighbours(files), jobs):
        if isinstance(found, BrokenFile):
            click.echo(f"{found.path}: {found.problem}", err=True)
        else:
            measured += found
    if not measured:
        raise click.ClickException("none of the files holds a session long enough to measure; give longer transcripts")
    summary = summarise_retention(measured)
    click.echo(render_retention(summary), nl=False)
    _write(json_file, msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")


def _replayed(files: Sequence[Path], work: "_Work", jobs: int | None) -> Iterator[FileOutcome | BrokenFile]:
    """Each file's outcome, in order, while a bar on the error stream tells how far it is."""
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    stderr = Console(stderr=True)
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=len(files))
        for path, outcome in zip(files, _mapped(work, files, jobs), strict=True):
            progress.update(task, advance=1, description=path.name)
            yield outcome


def _mapped(work: Callable[[Given], Found], given: Sequence[Given], jobs: int | None) -> Iterator[Found]:
    """The work done on each, in order, in as many processes as are wanted."""
    wanted = min(len(given), jobs or os.cpu_count() or 1)
    if wanted == 1:
        yield from map(work, given)
        return
    # A forked child would inherit the threads of the progress bar half-way through whatever they hold.
    with ProcessPoolExecutor(wanted, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, given)


class _Work(Struct, frozen=True):
    """What is done with each file, in whichever process."""

    plan: ReplayPlan
    refetch: bool

    def __call__(self, path: Path) -> FileOutcome | BrokenFile:
        ruler = counting_for("o200k").ruler
        charged = partial(make_refetch, ruler=ruler) if self.refetch else None
        return replay_file(path, self.plan, ruler, refetch_for=charged)


def _write(path: Path | None, content: bytes) -> None:
    if path is None:
        return
    try:
        path.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}; choose another place") from error
