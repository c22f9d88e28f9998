"""`infold replay`: compute what policies would have cost on recorded sessions, as a table, as JSON and as an HTML page.

Files are replayed in separate processes and shown in the given order.
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
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from infold.catalogue import lookup, shipped_table
from infold.cli.options import WRITABLE, parse_tokens
from infold.cli.render import open_console
from infold.errors import UnknownPreset
from infold.replay.html import to_html
from infold.replay.outcome import BrokenFile, FileOutcome, ReplayPlan, ReplayReport
from infold.replay.policies import POLICY_NAMES, check_policies
from infold.replay.retention import Measurement, measure_file, pair_neighbours, render_retention, summarise_retention
from infold.replay.run import replay_file
from infold.replay.simulate import make_refetch
from infold.replay.table import build_tables, to_json
from infold.session.counting import counting_for

Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_POLICIES = "infold,opencode-1.1.57,turn-window,none"
OWN_WINDOW = "model"


def _policies(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    try:
        check_policies(names)
    except UnknownPreset as error:
        raise click.BadParameter(str(error), ctx, param) from error
    if not names:
        raise click.BadParameter(f"no policy given; choose from {', '.join(POLICY_NAMES)}", ctx, param)
    return names


def _windows(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    sizes = (0 if text.strip() == OWN_WINDOW else parse_tokens(ctx, param, text) or 0 for text in value.split(","))
    return tuple(dict.fromkeys(sizes))


def _model(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and lookup(value).entry.prices is None:
        raise click.BadParameter(f"the price of {value!r} is not known; see 'infold models'", ctx, param)
    return value


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--policies", default=DEFAULT_POLICIES, show_default=True, callback=_policies, help="Names, separated by commas."
)
@click.option(
    "--window",
    "windows",
    default="64k",
    show_default=True,
    callback=_windows,
    help="Sizes, separated by commas; or 'model'.",
)
@click.option("--model", metavar="NAME", callback=_model, help="Price and limit every session as this model.")
@click.option(
    "--overhead", metavar="TOKENS", callback=parse_tokens, help="Tokens of system prompt and tools, if not as recorded."
)
@click.option("--json", "json_file", type=WRITABLE, metavar="OUT", help="Write all results.")
@click.option("--html", "html_file", type=WRITABLE, metavar="OUT", help="Write one page with charts.")
@click.option("--retention", is_flag=True, help="Measure how many facts a fold keeps, instead of what policies cost.")
@click.option("--no-refetch", is_flag=True, help="Do not charge what a policy lost and the agent then needed.")
@click.option("--no-cache", is_flag=True, help="Replay as if the provider had no prompt cache.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes at once; one per processor by default.")
@click.option("--plain", is_flag=True, help="No colours, and no boxes beyond ASCII.")
@click.pass_context
def replay(ctx: click.Context, /, **given: object) -> None:
    """Replay recorded sessions with the requests a policy would have sent, and bill them.

    FILES are transcripts of any agent infold reads. Policies are the presets, `none`, `as-recorded` and a few simple rules;
    the recorded run is always simulated too, which shows how accurate the numbers are.

    Example: infold replay session.jsonl --window 64k,128k --html report.html
    """
    del given  # the context has the same values with their types
    params = ctx.params
    if params["retention"]:
        _print_retention(params["files"], params["jobs"], params["json_file"])
        return
    plan = ReplayPlan(
        policies=params["policies"],
        windows=params["windows"],
        model=params["model"],
        caching=not params["no_cache"],
        overhead_tokens=params["overhead"],
    )
    console = open_console(plain=params["plain"])
    work = partial(_replay_file, plan=plan, refetch=not params["no_refetch"])
    found = ReplayReport(plan, shipped_table().as_of, tuple(_replay_files(params["files"], work, params["jobs"])))
    console.print(build_tables(found, plain=params["plain"] or not console.is_terminal))
    _write(params["json_file"], to_json(found))
    _write(params["html_file"], to_html(found).encode())
    if not found.replayed:
        raise click.ClickException("none of the files could be replayed")


def _print_retention(files: Sequence[Path], jobs: int | None, json_file: Path | None) -> None:
    """Print how many facts one to ten folds at 4 % of a session keep, in context and by recall."""
    measured: list[Measurement] = []
    for found in _map(measure_file, pair_neighbours(files), jobs):
        if isinstance(found, BrokenFile):
            click.echo(f"{found.path}: {found.problem}", err=True)
        else:
            measured += found
    if not measured:
        raise click.ClickException("none of the files holds a session long enough to measure; give longer transcripts")
    summary = summarise_retention(measured)
    click.echo(render_retention(summary), nl=False)
    _write(json_file, msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")


def _replay_files(
    files: Sequence[Path], work: Callable[[Path], FileOutcome | BrokenFile], jobs: int | None
) -> Iterator[FileOutcome | BrokenFile]:
    """Yield each file's outcome in order, with a progress bar on stderr."""
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    stderr = Console(stderr=True)
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=len(files))
        for path, outcome in zip(files, _map(work, files, jobs), strict=True):
            progress.update(task, advance=1, description=path.name)
            yield outcome


def _map(work: Callable[[Item], Result], items: Sequence[Item], jobs: int | None) -> Iterator[Result]:
    """Yield the result of each item in order, computed in parallel."""
    wanted = min(len(items), jobs or os.cpu_count() or 1)
    if wanted == 1:
        yield from map(work, items)
        return
    # Not fork: a child would inherit the locks that the progress bar's thread may hold.
    with ProcessPoolExecutor(wanted, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, items)


def _replay_file(path: Path, *, plan: ReplayPlan, refetch: bool) -> FileOutcome | BrokenFile:
    ruler = counting_for("o200k").ruler
    return replay_file(path, plan, ruler, refetch_for=partial(make_refetch, ruler=ruler) if refetch else None)


def _write(path: Path | None, content: bytes) -> None:
    if path is None:
        return
    try:
        path.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}; choose another place") from error
