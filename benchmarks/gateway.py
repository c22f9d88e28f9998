"""What the gateway costs under load, beside a bare relay on the same stack and beside LiteLLM's proxy.

Run `python benchmarks/gateway.py` (`--write` keeps the figures in `benchmarks/results/`). Fifty coding sessions at once send a
request at a fixed rate, 100 kB on average, each longer than the one before by a step; an upstream answers after 50 ms and streams
for as long as the rate leaves, so that fifty streams are open all the time. Three servers stand between them in turn:

- *relay*: Starlette, httpx2 and uvicorn, some thirty lines that read nothing (`peers/bare_relay.py`), over the connections that
  httpx2 brings; infold has its own (decision 0017), and what that gains is part of the comparison;
- *infold*: `infold serve` with a SQLite file;
- *litellm*: its proxy with one worker, in an environment of its own that is made with uv on the first run in `--cache`.

CPU is that of the server's process, by request; the first byte is the client's wait for it, the upstream's 50 ms included. Each
is played several times in turn, and the least of either counts. Then infold alone answers 10,000 requests as fast as it
can, in sessions that come and go, and its resident memory is sampled. Load and upstream run in this process; on a machine with
one core they would slow the server.

Last, one client at a time asks for complete replies of 10 kB, each from the upstream itself, through the relay and through infold
in turn, on connections that stay open: the median until the last byte, and what each server adds to it. `--latency` measures
this alone, in half a minute, and with `--write` replaces only these figures. The machine must be idle: these are milliseconds.

Not measured: compactions (`engine.py`), TLS, other wire formats.
"""

import argparse
import asyncio
import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import mean, median, quantiles
from threading import Thread
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gateway_load import KEY, Call, Load, Story, Upstream, play, stories

Row: TypeAlias = dict[str, Any]

HERE = Path(__file__).parent
RESULTS, PEERS = HERE / "results", HERE / "peers"
CPU_TARGET, PEER_TARGET, MEMORY_TARGET, ADDED_MS_TARGET = 1.3, 5.0, 1.05, 5.0
START_SECONDS, END_SECONDS = 120, 30
RUNS = 2
MEMORY_REQUESTS, MEMORY_CALLS = 10_000, 20
REPLY_BYTES, REPLY_SESSIONS, REPLY_CALLS = 10_000, 40, 5
TICKS = os.sysconf("SC_CLK_TCK")


class Server(Struct, frozen=True):
    """A server to measure: its command for an upstream, a port and a folder of its own."""

    name: str
    command: Callable[[str, int, Path], list[str]]
    environment: dict[str, str] = {}


RELAY = Server("relay", lambda upstream, port, _: [sys.executable, str(PEERS / "bare_relay.py"), upstream, str(port)])
INFOLD = Server(
    "infold",
    lambda upstream, port, folder: [
        *(sys.executable, "-m", "infold", "serve", "--port", str(port), "--store", str(folder / "sessions.sqlite3")),
        *("--upstream", f"openai={upstream}"),
    ],
)


def main() -> int:
    """Measure, print, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description="What the gateway costs under load.")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "infold-peers", help="for LiteLLM")
    parser.add_argument("--no-litellm", action="store_true", help="leave out what needs a package registry")
    parser.add_argument("--no-memory", action="store_true", help="leave out the 10,000 requests")
    parser.add_argument("--latency", action="store_true", help="measure only complete replies of 10 kB")
    parser.add_argument("--runs", type=int, default=RUNS, help="how often each server is measured")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second, of all streams together")
    chosen = parser.parse_args()
    figures = {"replies": replies()} if chosen.latency else under_load(chosen)
    print(table(figures))
    if chosen.write:
        keep(figures, "--latency --write" if chosen.latency else "--write")
    return 0


def under_load(chosen: argparse.Namespace) -> Row:
    """Measure everything."""
    load = paced(chosen.rate)
    servers = [RELAY, INFOLD, *([] if chosen.no_litellm else [litellm(chosen.cache)])]
    told = stories(load)
    rows = [[measured(server, told, load) for server in servers] for _ in range(chosen.runs)]
    figures: Row = {"load": shown(load, told), "servers": [best(runs) for runs in zip(*rows, strict=True)]}
    if not chosen.no_memory:
        figures["memory"] = memory(INFOLD)
    return {**figures, "replies": replies()}


def paced(rate: float) -> Load:
    """Fifty streams that together send so many requests a second, each open until shortly before its next."""
    period = Load().streams / rate
    return Load(period_seconds=period, stream_seconds=period - 0.25)


# One server under load.


def measured(server: Server, told: tuple[Story, ...], load: Load) -> Row:
    """Put a server between the clients and the upstream, and see what it takes."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(server, told, load, Path(folder)))


async def _measured(server: Server, told: tuple[Story, ...], load: Load, folder: Path) -> Row:
    loop = asyncio.get_running_loop()
    upstream = await loop.create_server(lambda: Upstream(told, load), "127.0.0.1", 0)
    with running(server, address_of(upstream), folder) as (process, address):
        playing = asyncio.create_task(play(address, told, load))
        await asyncio.sleep(load.warm_calls * load.period_seconds)
        before, began = cpu_seconds(process.pid), time.perf_counter()
        calls = [call for call in await playing if call.began >= began]
        spent = cpu_seconds(process.pid) - before
        row = {**costs(calls, spent), "resident_mb": resident_mb(process.pid)}
    upstream.close()
    print(f"{server.name}: {row}", file=sys.stderr)
    return {"server": server.name, **row}


def costs(calls: list[Call], cpu: float) -> Row:
    """What the calls took."""
    first_ms = [call.first_seconds * 1e3 for call in calls]
    return {
        "requests": len(calls),
        "cpu_ms": round(cpu * 1e3 / len(calls), 2),
        "first_byte_ms": round(median(first_ms), 1),
        "first_byte_p95_ms": round(quantiles(first_ms, n=20)[-1], 1),
        "notes": sorted({call.note for call in calls}),
    }


def best(runs: tuple[Row, ...]) -> Row:
    """The least CPU and the least wait of all runs; other programs on the machine only ever add to them."""
    waited = min(runs, key=lambda row: float(row["first_byte_ms"]))
    waits = {name: waited[name] for name in ("first_byte_ms", "first_byte_p95_ms")}
    return min(runs, key=lambda row: float(row["cpu_ms"])) | waits


@contextmanager
def running(server: Server, upstream: str, folder: Path) -> "Iterator[tuple[subprocess.Popen[bytes], str]]":
    """The server's process and its address; it is stopped by its own id."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    command = server.command(upstream, port, folder)
    log = (folder / "log").open("wb")
    environment = {**os.environ, **server.environment}
    with log, subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log) as process:
        try:
            wait_for(port, process, folder / "log")
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return when somebody listens there; raises `RuntimeError` with what the server said if nobody does."""
    started = time.monotonic()
    while time.monotonic() - started < START_SECONDS and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the server did not start; it said: {log.read_text('utf-8', 'replace')[-2_000:]}")


def address_of(server: asyncio.Server) -> str:
    """Where a server of this process listens."""
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


# Memory over many requests.


def memory(server: Server) -> Row:
    """Resident memory after each thousand of 10,000 requests, in sessions that come and go."""
    load = Load(calls=MEMORY_CALLS, warm_calls=0, period_seconds=0.0, stream_seconds=0.0)
    days = MEMORY_REQUESTS // (load.streams * MEMORY_CALLS)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_memory(server, load, days, Path(folder)))


async def _memory(server: Server, load: Load, days: int, folder: Path) -> Row:
    told = stories(load)
    loop = asyncio.get_running_loop()
    upstream = await loop.create_server(lambda: Upstream(told, load), "127.0.0.1", 0)
    samples: list[float] = []
    calls: list[Call] = []
    with running(server, address_of(upstream), folder) as (process, address):
        started = time.perf_counter()
        for day in range(days):
            calls += await play(address, told, replace(load, day=day))
            samples.append(resident_mb(process.pid))
        seconds = time.perf_counter() - started
    upstream.close()
    return {
        "requests": len(calls),
        "requests_per_second": round(len(calls) / seconds, 1),
        "resident_mb": samples,
        "growth": round(samples[-1] / samples[days // 2], 3),
        "notes": sorted({call.note for call in calls}),
    }


# Complete replies.


class _Answer(BaseHTTPRequestHandler):
    """Answers each request at once with a complete reply of 10 kB."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one write

    def do_POST(self) -> None:
        """Answer one request."""
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "ferry " * (REPLY_BYTES // len("ferry "))}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def replies() -> Row:
    """Milliseconds until the last byte of complete replies: direct, through the relay, through infold."""
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    Thread(target=upstream.serve_forever, daemon=True).start()
    direct = f"http://127.0.0.1:{upstream.server_address[1]}"
    with ExitStack() as stack:
        addresses = {"direct": direct}
        for server in (RELAY, INFOLD):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            addresses[server.name] = stack.enter_context(running(server, direct, folder))[1]
        clients = {
            name: stack.enter_context(closing(HTTPConnection(at.removeprefix("http://"))))
            for name, at in addresses.items()
        }
        took: dict[str, list[float]] = {name: [] for name in clients}
        for session in range(-1, REPLY_SESSIONS):  # the first one warms up
            for name, milliseconds in asked_in_turn(clients, session):
                if session >= 0:
                    took[name].append(milliseconds)
    upstream.shutdown()
    upstream.server_close()
    return {
        "reply_bytes": REPLY_BYTES,
        "requests": REPLY_SESSIONS * REPLY_CALLS,
        "ms": {name: round(median(values), 2) for name, values in took.items()},
        "p95_ms": {name: round(quantiles(values, n=20)[-1], 2) for name, values in took.items()},
    }


def asked_in_turn(clients: dict[str, HTTPConnection], session: int) -> Iterator[tuple[str, float]]:
    """The calls of one session, which grows by its replies, each by every way; gives the way and its milliseconds."""
    messages: list[Row] = []
    for call in range(REPLY_CALLS):
        messages.append({"role": "user", "content": f"Session {session}: tell me of ferry {call}."})
        body = json.dumps({"model": "gpt-4.1", "messages": messages}).encode()
        for name, client in clients.items():
            began = time.perf_counter()
            client.request("POST", "/v1/chat/completions", body, {"authorization": f"Bearer {KEY}"})
            reply = client.getresponse().read()
            yield name, (time.perf_counter() - began) * 1e3
        messages.append(json.loads(reply)["choices"][0]["message"])


# LiteLLM.


def litellm(cache: Path) -> Server:
    """LiteLLM's proxy in an environment of its own, made on the first run."""
    pinned = PEERS / "litellm.txt"
    folder = cache / f"litellm-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]}"
    program = folder / "bin" / "litellm"
    if not program.exists():
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "-r", str(pinned)]
        subprocess.run(install, check=True)

    def command(upstream: str, port: int, own: Path) -> list[str]:
        told = {"model": "openai/*", "api_base": f"{upstream}/v1", "api_key": KEY}
        config = {"model_list": [{"model_name": "*", "litellm_params": told}], "litellm_settings": {"telemetry": False}}
        (own / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        return [
            str(program),
            "--config",
            "config.yaml",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--num_workers",
            "1",
        ]

    switches = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MASTER_KEY": KEY,
        "LITELLM_MODE": "PRODUCTION",
    }
    return Server("litellm", command, switches)


# Telling.


def shown(load: Load, told: tuple[Story, ...]) -> Row:
    """What was played."""
    counted = range(load.warm_calls, load.warm_calls + load.calls)
    bodies = [len(story.body(0, call, 0)) for story in told for call in counted]
    events = [len(reply) for story in told for reply in story.replies]
    return {
        "streams": load.streams,
        "requests_per_second": round(load.streams / load.period_seconds, 1),
        "request_kb": round(mean(bodies) / 1e3),
        "events_per_reply": round(mean(events)),
        "upstream_ms": load.delay_seconds * 1e3,
    }


def table(figures: Row) -> str:
    """The figures as text, with the targets beside them; those that were measured."""
    loaded = load_lines(figures) if "servers" in figures else []
    return "\n".join([*loaded, *memory_lines(figures.get("memory")), *reply_lines(figures.get("replies"))])


def load_lines(figures: Row) -> list[str]:
    """What each server took under load."""
    load, rows = figures["load"], {row["server"]: row for row in figures["servers"]}
    relay, infold, peer = rows["relay"], rows["infold"], rows.get("litellm")
    lines = [
        f"{load['streams']} open streams, {load['requests_per_second']} requests/s of {load['request_kb']} kB",
        f"replies of {load['events_per_reply']} events, the first after {load['upstream_ms']:.0f} ms",
        "server      CPU ms/request   first byte ms   p95 ms   added ms   resident MB   requests",
        *(line(row, load["upstream_ms"]) for row in figures["servers"]),
        f"CPU against the bare relay: {infold['cpu_ms'] / relay['cpu_ms']:.2f} (target {CPU_TARGET})",
        f"first byte against the bare relay: {infold['first_byte_ms'] / relay['first_byte_ms']:.2f} (target {CPU_TARGET})",
    ]
    if peer is not None:
        added = [row["first_byte_ms"] - load["upstream_ms"] for row in (peer, infold)]
        lines += [
            f"LiteLLM's CPU against infold's: {peer['cpu_ms'] / infold['cpu_ms']:.1f} (target {PEER_TARGET:.0f})",
            f"what LiteLLM adds before the first byte, against infold: {added[0] / added[1]:.1f} (target {PEER_TARGET:.0f})",
        ]
    return lines


def line(row: Row, upstream_ms: float) -> str:
    """One server's row."""
    return (
        f"{row['server']:<8}{row['cpu_ms']:>18.2f}{row['first_byte_ms']:>16.1f}{row['first_byte_p95_ms']:>9.1f}"
        f"{row['first_byte_ms'] - upstream_ms:>11.1f}{row['resident_mb']:>14.1f}{row['requests']:>11,}"
    )


def memory_lines(told: Row | None) -> list[str]:
    """What the long run says of memory."""
    if told is None:
        return []
    samples = ", ".join(f"{sample:.0f}" for sample in told["resident_mb"])
    return [
        f"{told['requests']:,} requests at {told['requests_per_second']}/s: resident {samples} MB",
        f"its second half against its first: {told['growth']:.2f} (target {MEMORY_TARGET})",
    ]


def reply_lines(told: Row | None) -> list[str]:
    """What complete replies waited for."""
    if told is None:
        return []
    direct = told["ms"]["direct"]
    return [
        f"complete replies of {told['reply_bytes'] // 1000} kB, {told['requests']} requests one after the other:",
        "way         ms to the last byte   p95 ms   added ms",
        *(f"{name:<8}{ms:>22.2f}{told['p95_ms'][name]:>9.2f}{ms - direct:>11.2f}" for name, ms in told["ms"].items()),
        f"what infold adds: {told['ms']['infold'] - direct:.2f} ms (target {ADDED_MS_TARGET:.0f})",
    ]


def keep(figures: Row, options: str) -> None:
    """Write the figures with machine, commit and command; what was not measured this time stays."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    origin = {"command": f"python benchmarks/gateway.py {options}", "commit": commit, "machine": machine}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "gateway.json"
    if "servers" in figures:
        record = {**origin, **figures}
    else:
        before = json.loads(path.read_text()) if path.exists() else origin
        record = {**before, "replies": {**figures["replies"], **origin}}
    path.write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "gateway.txt").write_text(f"{record['machine']}, commit {record['commit']}\n{table(record)}\n")


if __name__ == "__main__":
    sys.exit(main())
