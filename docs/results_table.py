"""Write or check the tables of results: five rows in `README.md`, all of them in `docs/concepts/measurements.md`.

    python docs/results_table.py           exits 1 and shows the difference if a table is stale
    python docs/results_table.py --write   brings them up to date

Every number comes from a file in `benchmarks/results/`, which the command in the same row writes. A figure of the core that was
not recorded is called so; all other rows appear once their files exist.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["TABLES", "current", "headlines", "main", "refreshed", "rows"]

PROJECT = Path(__file__).parents[1]
README = PROJECT / "README.md"
MEASUREMENTS = PROJECT / "docs" / "concepts" / "measurements.md"
RESULTS = PROJECT / "benchmarks" / "results"

BEGIN = "<!-- begin results: written by docs/results_table.py -->"
END = "<!-- end results: written by docs/results_table.py -->"

MISSING = "not recorded yet"
CORE = "python benchmarks/core.py --write"
ERRORS = "python benchmarks/estimate_error.py --write"
FORMATS = "python benchmarks/formats.py --write"
ENGINE = "python benchmarks/engine.py --write"
STORES = "python benchmarks/stores.py --write"

PEERS = "python benchmarks/peers.py --write"
UNPRICED = "infold, no prices"
"""The strategy of infold where tokens cost nothing or their price is not known: the window alone is a reason to fold."""

SHOWN = {
    "infold": "`infold`",
    UNPRICED: "`infold`, by the window alone",
    "harness clear results and inputs, usage": "pydantic-ai-harness, results and inputs cleared",
    "inspect summary": "inspect_ai, summary",
    "langchain summarisation, usage": "LangChain, summarisation",
    "agents trim outputs, one turn": "OpenAI Agents, outputs trimmed",
    "none": "nothing done",
}

FIRST_LOOK = {"infold": "infold", "langchain summarisation, usage": "LangChain's summarisation", "none": "nothing done"}

Row = tuple[str, str, str]
Record = Mapping[str, Any]
Choice = Callable[[Callable[[str], Record]], Iterator[Row]]


def main(arguments: list[str] | None = None) -> int:
    """Check the tables or, asked to, write them; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check the tables of results, or bring them up to date")
    parser.add_argument("--write", action="store_true", help="write the tables instead of checking them")
    write = parser.parse_args(arguments).write
    stale = [_check(path, chosen, write=write) for path, chosen in TABLES]
    return int(any(stale))


def _check(path: Path, chosen: Choice, *, write: bool) -> bool:
    """Whether the table of a page stays stale: it is written, or the difference is shown."""
    page = path.read_text("utf-8")
    wanted = current(page, chosen=chosen)
    if write:
        path.write_text(wanted, "utf-8")
        return False
    before, after = page.splitlines(keepends=True), wanted.splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(before, after, path.name, "as it should be", n=0))
    return page != wanted


def current(page: str, results: Path = RESULTS, *, chosen: Choice | None = None) -> str:
    """The page with its table as the recorded results have it now; all rows unless others are chosen."""
    return refreshed(page, _block(results, chosen or rows))


def refreshed(page: str, text: str) -> str:
    """A page with this text between the two marks; raises `ValueError` where the marks are not there."""
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def headlines(recorded: Callable[[str], Record]) -> Iterator[Row]:
    """Five rows for a first look; one whose results are not recorded is left out."""
    yield from _peer_headlines(recorded("peers"))
    for what, figure, command in _engine_rows(recorded("engine")):
        if what.startswith("`prepare_new`"):
            yield "CPU time that a stored session adds to a request", figure.replace(" CPU", ""), command
    servers = {row["server"]: row["cpu_ms"] for row in recorded("gateway").get("servers", ())}
    if {"infold", "relay", "litellm"} <= servers.keys():
        shown = (("infold", "infold"), ("litellm", "LiteLLM's proxy"))
        times = ", ".join(f"{name} {servers[server] / servers['relay']:.1f} times" for server, name in shown)
        what = "CPU of the server under 50 streams, against a relay that changes nothing"
        yield what, times, f"`{recorded('gateway')['command']}`"
    errors = recorded("estimate_error")
    kinds = errors.get("passages", {})
    if {"code", "zh"} <= kinds.keys():
        ours, quarter = (
            f"{kinds['code'][field]:g} % in code, {kinds['zh'][field]:g} % in Chinese"
            for field in ("error", "error_of_quarter")
        )
        figure = f"infold {ours}; characters / 4: {quarter}"
        yield "mean error of a token count without a tokeniser", figure, f"`{errors.get('command', ERRORS)}`"


def _peer_headlines(peers: Record) -> Iterator[Row]:
    command = f"`{peers.get('command', PEERS)}`"
    played = {row["strategy"]: row["figures"] for row in peers.get("rows", ()) if _is_shown(row)}
    names = {name: shown for name, shown in FIRST_LOOK.items() if name in played}
    if names:
        costs = ", ".join(f"{shown} ${played[name]['cost']:.2f}" for name, shown in names.items())
        yield "cost of an agent's session of 156 requests in a window of 60,000 tokens", costs, command
        faults = ", ".join(f"{shown} {_faulty(played[name])}" for name, shown in names.items())
        yield (
            "requests of it that were too large, or lacked the user's rule (faked summaries do not repeat it)",
            faults,
            command,
        )


def _is_shown(row: Record) -> bool:
    return (row["history"], row["window_tokens"]) == ("trajectory", 60_000)


def _faulty(figures: Record) -> str:
    faults = [
        f"{figures[name]} {words}"
        for name, words in (("over_window", "too large"), ("without_rule", "without it"))
        if figures[name]
    ]
    return ", ".join(faults) or "0"


def rows(recorded: Callable[[str], Record]) -> Iterator[Row]:
    """What was measured, the figure, and the command that measures it again; an empty record has no figures."""
    yield from _peer_rows(recorded("peers"))
    yield from _format_rows(recorded("formats"))
    yield from _engine_rows(recorded("engine"))
    yield from _store_rows(recorded("stores"))
    yield from _gateway_rows(recorded("gateway"))
    yield from _snapshot_rows(recorded("snapshots"))
    yield from _replay_rows(recorded("replay_jobs"))
    yield from _error_rows(recorded("estimate_error"))
    yield from _core_rows(recorded("core"))


def _block(results: Path, chosen: Choice) -> str:
    def recorded(name: str) -> Record:
        return _recorded(results / f"{name}.json")

    table = [("what", "result", "reproduce with"), ("---", "---", "---"), *chosen(recorded)]
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    machine = recorded("core").get("machine")
    return "\n".join([*lines, "", f"Run on {machine}."] if machine else lines)


def _recorded(path: Path) -> Record:
    """A file of results, or nothing where there is none."""
    if not path.exists():
        return {}
    record: Record = json.loads(path.read_text("utf-8"))
    return record


# Beside other libraries.


def _peer_rows(peers: Record) -> Iterator[Row]:
    """What each strategy costs on the trajectory, and how often `infold` is no dearer than the cheapest without a fault."""
    command = f"`{peers.get('command', PEERS)}`"
    cells: dict[tuple[str, int], list[Record]] = {}
    for row in peers.get("rows", ()):
        cells.setdefault((row["history"], row["window_tokens"]), []).append(row)
    if not cells:
        return
    yield (
        "sessions and windows where `infold` has no fault and the cheapest peer without one does not cost less",
        _won(cells, "infold"),
        command,
    )
    yield "the same by the window alone, as where no price is known", _won(cells, UNPRICED), command
    for strategy, name in SHOWN.items():
        found = [row for row in cells.get(("trajectory", 60_000), ()) if row["strategy"] == strategy]
        for row in found:
            yield f"cost of a 150-step trajectory in 60k: {name}", _cost(row), command


def _won(cells: Mapping[tuple[str, int], list[Record]], strategy: str) -> str:
    won = 0
    for rows_of_cell in cells.values():
        own = next(row for row in rows_of_cell if row["strategy"] == strategy)
        others = [row for row in rows_of_cell if not row["strategy"].startswith("infold") and row["safe"]]
        won += own["safe"] and all(own["figures"]["cost"] <= row["figures"]["cost"] for row in others)
    return f"{won} of {len(cells)}"


def _cost(row: Record) -> str:
    figures = row["figures"]
    faults = (
        ("over_window", "over the window"),
        ("broken_pairs", "with broken pairs"),
        ("without_rule", "without the user's rule"),
    )
    told = [f"{figures[name]} calls {words}" for name, words in faults if figures[name]]
    return ", ".join([f"{figures['cost']:.2f}", *told])


# What a session costs.


def _engine_rows(engine: Record) -> Iterator[Row]:
    """What the two calls around a request cost, and how long one waits for a summary."""
    command = f"`{engine.get('command', ENGINE)}`"
    chosen = [
        row for row in engine.get("cost", ()) if (row["format"], row.get("class", "sync")) == ("openai-chat", "sync")
    ]
    means = {row["store"]: row["mean_ms"] for row in chosen}
    if {"memory", "sqlite"} <= means.keys():
        told = f"{means['memory']:.2f} ms CPU in memory, {means['sqlite']:.2f} ms in a SQLite file"
        yield "`prepare_new` and `record`, the mean request of the 150-step trajectory", told, command
    waits = {row["background"]: row for row in reversed(engine.get("wait", ()))}
    if waits.keys() == {True, False}:
        told = (
            f"{waits[True]['waits']} with the background, {waits[False]['waits']} of {waits[False]['requests']} without"
        )
        yield "requests of it that wait for a summary that takes 3 s", told, command


def _store_rows(stores: Record) -> Iterator[Row]:
    """What a very long session costs at its opening."""
    sizes = [row for row in stores.get("sizes", ()) if "prepare_us" in row]
    if len(sizes) > 1:
        first, *_, last = sizes
        ratio = f"{last['prepare_us'] / first['prepare_us']:.2f} times the CPU time, {last['peak_mb']:.0f} MB"
        what = f"open a SQLite session of {last['messages']:,} messages and prepare a request, against {first['messages']:,}"
        yield what, ratio, f"`{stores.get('command', STORES)}`"


def _gateway_rows(gateway: Record) -> Iterator[Row]:
    """What the gateway takes beside a relay that does nothing, and beside another gateway."""
    servers = {row["server"]: row for row in gateway.get("servers", ())}
    if {"infold", "relay", "litellm"} <= servers.keys():
        cpu, first = ({name: row[field] for name, row in servers.items()} for field in ("cpu_ms", "first_byte_ms"))
        slower = f"{first['infold'] / first['relay']:.2f} times the time to the first byte"
        relay = f"{cpu['infold'] / cpu['relay']:.2f} times the CPU, {slower}"
        what = "gateway with 50 streams of 100 kB requests, against a relay that changes nothing"
        yield what, relay, f"`{gateway['command']}`"
        yield (
            "LiteLLM's proxy under the same load, against it",
            f"{cpu['litellm'] / cpu['infold']:.1f} times the CPU",
            f"`{gateway['command']}`",
        )


def _snapshot_rows(snapshots: Record) -> Iterator[Row]:
    """What the agent's snapshots take beside git itself."""
    if "ratio" in snapshots:
        what = f"snapshot of a tree of {snapshots['files']:,} files of which few changed, against `git add -A`"
        yield what, f"{snapshots['ratio']:.2f} times the time", f"`{snapshots['command']}`"


def _replay_rows(replay: Record) -> Iterator[Row]:
    """How much faster several processes replay the same files."""
    if "ratio" in replay:
        what = f"`infold replay` of 25 sessions in {replay['jobs']} processes, against one"
        yield what, f"{replay['ratio']:.2f} times as fast", f"`{replay['command']}`"


# What the core costs.


def _core_rows(core: Record) -> Iterator[Row]:
    command = f"`{core.get('command', CORE)}`"
    yield "`import infold` with the core, over bare Python", _figure(_import_cost, core), command
    yield "overflow check", _figure(_overflow, core), command
    yield "plan for a view of 2,000 messages that is over its trigger", _figure(_plan, core), command
    yield "one step after 100,000 folded messages, against 1,000", _figure(_folded, core), command


def _figure(read: Callable[[Record], str], record: Record) -> str:
    """The figure, or that it is missing: a file may have been written by an older benchmark."""
    try:
        return read(record)
    except (KeyError, IndexError):
        return MISSING


def _import_cost(core: Record) -> str:
    cost = core["import"][0]
    return f"{cost['cpu_ms']:g} ms CPU, {cost['distributions']} distributions"


def _overflow(core: Record) -> str:
    return f"{max(row['overflow_us'] for row in core['sizes']):g} µs at any length"


def _plan(core: Record) -> str:
    return f"{core['plan'][0]['plan_2000_us']:,.0f} µs"


def _folded(core: Record) -> str:
    return f"{core['folded'][0]['ratio']:.2f} times the CPU time"


# Estimator error and formats, where they were recorded.


def _error_rows(errors: Record) -> Iterator[Row]:
    by_kind = errors.get("passages", {})
    if by_kind:
        ours = _by_kind(by_kind, "error")
        quarter = _by_kind(by_kind, "error_of_quarter")
        command = f"`{errors.get('command', ERRORS)}`"
        yield "mean error of the token estimate, per cent", ours, command
        yield "the same of characters / 4", quarter, command


def _by_kind(errors: Mapping[str, Mapping[str, float]], field: str) -> str:
    return ", ".join(f"{kind} {row[field]:g}" for kind, row in errors.items() if field in row)


def _format_rows(formats: Record) -> Iterator[Row]:
    """What `fit` costs beside reading and hashing the same messages, and what another trimmer does to them."""
    command = f"`{formats.get('command', FORMATS)}`"
    if "fit" in formats:
        yield (
            "`fit` with the whole history, against decoding and hashing it",
            f"{formats['fit']['ratio']:g} times",
            command,
        )
    for row in formats.get("requests", ()):
        yield f"150-step trajectory in 60k: {row['who']}", _faults(row), command


def _faults(row: Record) -> str:
    lost = row["requests"] - row["with_rule"]
    return (
        f"{row['over']} requests over, {row['refused']} refused, {lost} without the user's rule, "
        f"{row['breaks']} prefix breaks, {row['cpu_ms']:.1f} ms"
    )


TABLES: tuple[tuple[Path, Choice], ...] = ((README, headlines), (MEASUREMENTS, rows))
"""Each page with a table, and the rows it has."""

if __name__ == "__main__":
    sys.exit(main())
