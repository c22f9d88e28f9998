"""`infold replay`: compute what policies would have cost on recorded sessions, as tables, JSON, CSV, Parquet and an HTML page.

Files are replayed in separate processes, or on a Ray cluster, and shown in the given order.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from infold.catalogue import lookup, shipped_table
from infold.cli.options import WRITABLE, parse_tokens
from infold.cli.render import open_console
from infold.errors import UnknownPreset
from infold.replay.engines import Batch, run_here, run_in_processes, run_on_ray
from infold.replay.html import to_html
from infold.replay.outcome import ALL_FILES, BrokenFile, ReplayPlan, ReplayReport, Shard
from infold.replay.policies import POLICY_NAMES, check_policies
from infold.replay.results import (
    CALL_COLUMNS,
    RESULT_COLUMNS,
    Row,
    call_rows,
    merge_shards,
    read_report,
    result_rows,
    table_writer,
)
from infold.replay.retention import Measurement, measure_file, pair_neighbours, render_retention, summarise_retention
from infold.replay.run import replay_counted
from infold.replay.table import build_tables, to_json

Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_POLICIES = "infold,opencode-1.1.57,turn-window,none"
OWN_WINDOW = "model"

OUTPUTS = ("json_file", "html_file", "results_file", "calls_file")
PLAN = ("policies", "windows", "model", "overhead", "no_refetch", "no_cache", "jobs", "engine", "shard")
"""The parameters that say how to replay, which a merge takes from the shards."""

SUFFIXES = (".json", ".jsonl", ".md", ".traj", ".txt")
"""How the names of transcripts in a folder end, besides `.gz`; a file that is named itself may have any name."""


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


def _shard(ctx: click.Context, param: click.Parameter, value: str | None) -> Shard:
    if value is None:
        return ALL_FILES
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value.strip(), re.ASCII)
    shard = Shard(int(found[1]), int(found[2])) if found else Shard(0)
    if not 1 <= shard.number <= shard.of:
        raise click.BadParameter(f"{value!r} is not a shard; use 1/4 for the first of four, up to 4/4", ctx, param)
    return shard


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
@click.option(
    "--results",
    "results_file",
    type=WRITABLE,
    metavar="OUT",
    help="Write a row per session and policy, .csv or .parquet.",
)
@click.option("--calls", "calls_file", type=WRITABLE, metavar="OUT", help="Write a row per call, .csv or .parquet.")
@click.option("--retention", is_flag=True, help="Measure how many facts a fold keeps, instead of what policies cost.")
@click.option("--no-refetch", is_flag=True, help="Do not charge what a policy lost and the agent then needed.")
@click.option("--no-cache", is_flag=True, help="Replay as if the provider had no prompt cache.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Files at once; one per processor by default.")
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    show_default=True,
    help="Replay in processes here, or on the Ray cluster of RAY_ADDRESS or of this machine.",
)
@click.option("--shard", metavar="I/N", callback=_shard, help="Replay the I-th of N parts of the files.")
@click.option("--merge", is_flag=True, help="Put shards together: FILES are what --json wrote for each of them.")
@click.option("--plain", is_flag=True, help="No colours, and no boxes beyond ASCII.")
@click.pass_context
def replay(ctx: click.Context, /, **given: object) -> None:
    """Replay recorded sessions with the requests a policy would have sent, and bill them.

    FILES are transcripts of any agent infold reads, or folders with them. Policies are the presets, `none`, `as-recorded`
    and a few simple rules; the recorded run is always simulated too, which shows how accurate the numbers are.

    Example: infold replay session.jsonl --window 64k,128k --html report.html
    """
    del given  # the context has the same values with their types
    params = ctx.params
    _check_options(ctx)
    if params["retention"]:
        _print_retention(params)
        return
    report = merge_shards([read_report(path) for path in params["files"]]) if params["merge"] else _replay(params)
    console = open_console(plain=params["plain"])
    console.print(build_tables(report, plain=params["plain"] or not console.is_terminal))
    _write(params["json_file"], lambda: to_json(report))
    _write(params["html_file"], lambda: to_html(report).encode())
    _write_table(params["results_file"], RESULT_COLUMNS, result_rows(report))
    _write_table(params["calls_file"], CALL_COLUMNS, call_rows(report))
    if report.files and not report.replayed:
        raise click.ClickException("none of the files could be replayed")


def _check_options(ctx: click.Context) -> None:
    """Refuse options that contradict each other and outputs that cannot be written, before the work begins."""
    params = ctx.params
    given = {name for name in params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    flags = {param.name: param.opts[0] for param in ctx.command.params}
    if params["retention"] and given & {*OUTPUTS[1:], "shard", "merge"}:
        named = ", ".join(flags[name] for name in sorted(given & {*OUTPUTS[1:], "shard", "merge"}))
        raise click.UsageError(
            f"--retention measures each file with its neighbour and writes --json only; remove {named}"
        )
    if params["merge"] and given & {*PLAN}:
        named = ", ".join(flags[name] for name in sorted(given & {*PLAN}))
        raise click.UsageError(f"--merge takes how to replay from the shards; remove {named}")
    for name in OUTPUTS:
        path = params[name]
        if path is not None and not os.access(path.parent, os.W_OK | os.X_OK):
            raise click.ClickException(
                f"cannot write {path}: {path.parent} is not a folder to write in; choose another place"
            )
        if path is not None and name in ("results_file", "calls_file"):
            table_writer(path)


def _replay(params: dict[str, Any]) -> ReplayReport:
    plan = ReplayPlan(
        policies=params["policies"],
        windows=params["windows"],
        model=params["model"],
        caching=not params["no_cache"],
        overhead_tokens=params["overhead"],
    )
    shard: Shard = params["shard"]
    files = find_files(params["files"])[shard.number - 1 :: shard.of]
    if not files:
        click.echo(f"shard {shard} has no files: there are fewer files than shards", err=True)
    batch = Batch(
        work=partial(replay_counted, plan=plan, refetch=not params["no_refetch"]),
        items=files,
        sizes=[_size(path) for path in files],
        crashed=_crashed,
    )
    return ReplayReport(plan, shipped_table().as_of, tuple(_run(batch, params)), shard)


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return files in the given order, a folder's in the order of their names; hidden ones in it are left out."""
    files: list[Path] = []
    for path in paths:
        inside = (
            sorted(_files_inside(path), key=lambda found: found.relative_to(path).parts) if path.is_dir() else [path]
        )
        if not inside:
            ends = ", ".join(SUFFIXES)
            raise click.ClickException(
                f"no transcript is in {path}; name a folder with files that end in {ends} or .gz"
            )
        files += inside
    return files


def _files_inside(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.removesuffix(".gz").endswith(SUFFIXES):
                yield Path(place, name)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _crashed(path: Path, reason: str) -> BrokenFile:
    return BrokenFile(str(path), reason)


def _print_retention(params: dict[str, Any]) -> None:
    """Print how many facts one to ten folds at 4 % of a session keep, in context and by recall."""
    measured: list[Measurement] = []
    pairs = pair_neighbours(find_files(params["files"]))
    sizes = [_size(path) for path, _ in pairs]
    batch = Batch(work=measure_file, items=pairs, sizes=sizes, crashed=lambda pair, reason: _crashed(pair[0], reason))
    for found in _run(batch, params):
        if isinstance(found, BrokenFile):
            click.echo(f"{found.path}: {found.problem}", err=True)
        else:
            measured += found
    if not measured:
        raise click.ClickException("none of the files holds a session long enough to measure; give longer transcripts")
    summary = summarise_retention(measured)
    click.echo(render_retention(summary), nl=False)
    _write(params["json_file"], lambda: msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")


def _run(batch: Batch[Item, Result], params: dict[str, Any]) -> list[Result]:
    """Return the results in the order of the items, with a progress bar on stderr."""
    jobs: int | None = params["jobs"]
    if params["engine"] == "ray":
        finished = run_on_ray(batch, jobs)
    else:
        wanted = min(len(batch.items), jobs or _processors())
        finished = run_here(batch) if wanted <= 1 else run_in_processes(batch, wanted)
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    stderr = Console(stderr=True)
    results: dict[int, Result] = {}
    with (
        closing(finished),
        Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(batch.items))
        for done in finished:
            results[done.place] = done.result
            progress.update(task, advance=1)
    return [results[place] for place in range(len(batch.items))]


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _write_table(path: Path | None, columns: Mapping[str, type], rows: Iterable[Row]) -> None:
    if path is not None:
        _write(path, partial(table_writer(path), columns, rows))


def _write(path: Path | None, encode: Callable[[], bytes]) -> None:
    if path is None:
        return
    try:
        path.write_bytes(encode())
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}; choose another place") from error
