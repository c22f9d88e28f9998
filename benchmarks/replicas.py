"""Whether several gateways on one PostgreSQL do the work of one: their CPU, what is lost when one is killed, their memory.

Run `python benchmarks/replicas.py` (`make replicas`; `--write` keeps the figures in `benchmarks/results/`). Scripted agents send
the requests of coding sessions that outgrow a small window and are folded on the way, at a fixed rate. A front gives each request
to the next replica of `infold serve`, so that consecutive requests of a session reach different ones. Two questions in one run:

- *cpu*: CPU of all replicas' processes by request, with one, two and four of them, in turn and several times; the least counts;
- *soak*: with two and with four replicas for `--minutes`, one of them is killed (SIGKILL) every `--kill-seconds` and started
  again. The agents repeat a request whose connection broke. In the end the store is compared with what they sent and
  received: a message that is missing or is there twice counts. The first replica is not killed; its memory is sampled.

PostgreSQL is that of a wheel, on a Unix socket and without waiting for the disk; its CPU is not counted. The machine should be
idle for the ratios. Not measured: TLS, other wire formats, a network between the parts.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gateway import RESULTS, Row, cpu_seconds, resident_mb, wait_for
from benchmarks.replica_load import HEADERS, Agent, Front, Job, Traffic, Upstream, marks_in, run_agents
from tests.contract.postgres_server import database, postgres_server

from infold.core.entries import Amendment, MessageEntry
from infold.core.messages import SessionId
from infold.gateway.tenants import Tenants
from infold.ports import FullStore, SessionKey
from infold.stores.postgres import PostgresStore

CPU_TARGET, MEMORY_TARGET = 1.15, 1.05
SIZES = (1, 2, 4)
SECRET = "the same for all replicas"
WINDOW_TOKENS = 16_000
WARM_SECONDS = 20.0
DOWN_SECONDS = 2.0
DELAY_SECONDS = 0.3
"""How long the upstream takes to answer: so long that a few requests are under way whenever a replica is killed."""
SAMPLE_SECONDS = 5.0
END_SECONDS = 60


def main() -> int:
    """Measure, print, and report by the status whether anything was lost."""
    parser = argparse.ArgumentParser(description="Whether several gateways on one PostgreSQL do the work of one.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long each soak lasts")
    parser.add_argument("--kill-seconds", type=float, default=60.0, help="how often a replica is killed")
    parser.add_argument("--cpu-seconds", type=float, default=60.0, help="how long each measurement of CPU lasts")
    parser.add_argument("--runs", type=int, default=2, help="how often CPU is measured with each number of replicas")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second, of all agents together")
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument("--no-cpu", action="store_true", help="the soak alone")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    chosen = parser.parse_args()
    job = Job(agents=chosen.agents, requests_per_second=chosen.rate)
    figures: Row = {"load": msgspec.to_builtins(job), "window_tokens": WINDOW_TOKENS}
    with postgres_server() as server:
        if not chosen.no_cpu:
            runs = [[cpu_row(server, size, job, chosen.cpu_seconds) for size in SIZES] for _ in range(chosen.runs)]
            figures["cpu"] = [min(rows, key=lambda row: float(row["cpu_ms"])) for rows in zip(*runs, strict=True)]
        if chosen.minutes > 0:
            figures["soak"] = [soak_row(server, size, job, chosen) for size in SIZES[1:]]
    print(table(figures))
    if chosen.write:
        keep(figures)
    faults = ("lost", "doubled", "out_of_order", "unanswered")
    return int(any(row[fault] for row in figures.get("soak", ()) for fault in faults))


# Replicas.


class Replicas:
    """Gateways of one store, each a process with a port of its own; ended by their own ids."""

    def __init__(self, store: str, upstream: str, size: int, folder: Path) -> None:
        self._folder = folder
        self.ports = [free_port() for _ in range(size)]
        self._commands = [
            [
                *(sys.executable, "-m", "infold", "serve", "--port", str(port), "--store", store),
                *("--upstream", f"openai={upstream}", "--window", str(WINDOW_TOKENS)),
            ]
            for port in self.ports
        ]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ended_cpu = 0.0
        for place in range(size):
            self._processes.append(self._start(place))

    def _start(self, place: int) -> "subprocess.Popen[bytes]":
        with self.log(place).open("ab") as log:
            environment = {**os.environ, "INFOLD_SECRET": SECRET}
            return subprocess.Popen(self._commands[place], cwd=self._folder, env=environment, stdout=log, stderr=log)

    def log(self, place: int) -> Path:
        """Where a replica's output is kept."""
        return self._folder / f"log-{place}"

    def wait(self) -> None:
        """Return when all of them listen."""
        for place, port in enumerate(self.ports):
            wait_for(port, self._processes[place], self.log(place))

    def kill(self, place: int) -> None:
        """End one in the middle of whatever it does."""
        self._ended_cpu += cpu_seconds(self._processes[place].pid)
        self._processes[place].kill()
        self._processes[place].wait()

    def start_again(self, place: int) -> None:
        """Start one that was killed, at the same port."""
        self._processes[place] = self._start(place)

    def cpu(self) -> float:
        """User and system time of all of them, those that were killed included."""
        return self._ended_cpu + sum(cpu_seconds(process.pid) for process in self._processes)

    def resident(self) -> list[float]:
        """Resident memory of each, in MB."""
        return [resident_mb(process.pid) for process in self._processes]

    def first_resident(self) -> float:
        """Resident memory of the first, which is never killed."""
        return resident_mb(self._processes[0].pid)

    def end(self) -> None:
        """Stop all of them."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


@contextmanager
def empty_store(server: str) -> Iterator[str]:
    """The address of an empty database, as a URL: anything else is a file to `infold serve`."""
    with database(server) as address:
        parts = conninfo_to_dict(address)
        host = quote(str(parts["host"]), safe="")
        yield f"postgresql://{parts['user']}@/{parts['dbname']}?host={host}"


@contextmanager
def replicas(store: str, upstream: str, size: int) -> Iterator[Replicas]:
    """So many replicas, ended with the block."""
    with tempfile.TemporaryDirectory() as folder:
        started = Replicas(store, upstream, size, Path(folder))
        try:
            started.wait()
            yield started
        finally:
            started.end()


# CPU.


def cpu_row(server: str, size: int, job: Job, seconds: float) -> Row:
    """CPU of so many replicas by request; the first seconds of the sessions are not counted."""
    with empty_store(server) as store:
        row = asyncio.run(_cpu_row(store, size, job, seconds))
    print(f"cpu, {size} replicas: {row}", file=sys.stderr)
    return row


async def _cpu_row(store: str, size: int, job: Job, seconds: float) -> Row:
    upstream = Upstream(WINDOW_TOKENS, DELAY_SECONDS)
    provider = await asyncio.start_server(upstream, "127.0.0.1", 0)
    with replicas(store, f"http://127.0.0.1:{port_of(provider)}", size) as started:
        front = await asyncio.start_server(Front(started.ports), "127.0.0.1", 0, limit=2**20)
        ends_at = time.monotonic() + WARM_SECONDS + seconds
        working = asyncio.create_task(
            run_agents(("127.0.0.1", port_of(front)), job, "cpu", lambda: time.monotonic() >= ends_at)
        )
        await asyncio.sleep(WARM_SECONDS)
        before, requests = started.cpu(), upstream.requests
        _, traffic = await working
        spent, answered = started.cpu() - before, upstream.requests - requests
        resident = started.resident()
        front.close()
    provider.close()
    return {
        "replicas": size,
        "requests": answered,
        "cpu_ms": round(spent * 1e3 / answered, 2),
        "resident_mb": resident,
        "summaries": upstream.summaries,
        "notes": dict(traffic.notes),
    }


def port_of(server: asyncio.Server) -> int:
    """The port of a server of this process."""
    return int(server.sockets[0].getsockname()[1])


# Soak.


def soak_row(server: str, size: int, job: Job, chosen: argparse.Namespace) -> Row:
    """So many replicas under load, one of them killed every so often; what the store has in the end."""
    with empty_store(server) as store:
        row, agents = asyncio.run(_soak_row(store, size, job, chosen))
        with PostgresStore(store) as opened:
            row |= compared(opened, agents)
        row["database_mb"] = database_mb(store)
    print(f"soak, {size} replicas: {row}", file=sys.stderr)
    return row


async def _soak_row(store: str, size: int, job: Job, chosen: argparse.Namespace) -> tuple[Row, list[Agent]]:
    upstream = Upstream(WINDOW_TOKENS, DELAY_SECONDS)
    provider = await asyncio.start_server(upstream, "127.0.0.1", 0)
    with replicas(store, f"http://127.0.0.1:{port_of(provider)}", size) as started:
        front = await asyncio.start_server(Front(started.ports), "127.0.0.1", 0, limit=2**20)
        ends_at = time.monotonic() + chosen.minutes * 60
        working = asyncio.create_task(
            run_agents(("127.0.0.1", port_of(front)), job, "soak", lambda: time.monotonic() >= ends_at)
        )
        samples: list[float] = []
        sampling = asyncio.create_task(sample(started, samples))
        kills = await kill_in_turn(started, chosen.kill_seconds, ends_at)
        agents, traffic = await working
        sampling.cancel()
        resident = started.resident()
        complaints = log_lines(started)
        front.close()
    provider.close()
    row = {"replicas": size, "minutes": chosen.minutes, "kills": kills, **traffic_row(traffic, upstream)}
    half = samples[len(samples) // 2 :]
    growth = round(half[-1] / half[0], 3) if half else 0.0
    memory = {"samples_mb": thinned(samples), "resident_mb": resident, "growth": growth}
    return {**row, "memory": memory, "log": complaints}, agents


def traffic_row(traffic: Traffic, upstream: Upstream) -> Row:
    """What the agents and the upstream counted."""
    return {
        "answered": traffic.answered,
        "unanswered": len(traffic.lost),
        "repeated": dict(traffic.repeated),
        "notes": dict(traffic.notes),
        "summaries": upstream.summaries,
        "refused": upstream.refused,
    }


async def kill_in_turn(started: Replicas, every: float, ends_at: float) -> int:
    """Kill one replica after the other, but never the first, and start it again; return how often."""
    kills = 0
    while time.monotonic() + every < ends_at:
        await asyncio.sleep(every)
        place = 1 + kills % (len(started.ports) - 1)
        started.kill(place)
        await asyncio.sleep(DOWN_SECONDS)
        started.start_again(place)
        kills += 1
    return kills


async def sample(started: Replicas, samples: list[float]) -> None:
    """Note the memory of the first replica every few seconds."""
    while True:
        await asyncio.sleep(SAMPLE_SECONDS)
        samples.append(started.first_resident())


def thinned(samples: list[float], most: int = 12) -> list[float]:
    """At most so many of the samples, evenly."""
    return samples[:: max(1, len(samples) // most)]


def log_lines(started: Replicas) -> dict[str, int]:
    """The lines that replicas wrote to their logs after their greeting, counted."""
    lines = (line for place in range(len(started.ports)) for line in started.log(place).read_text("utf-8").splitlines())
    return dict(Counter(line.strip()[:160] for line in lines if "WARN" in line or "ERROR" in line or "rror:" in line))


# The store.


def compared(store: FullStore, agents: list[Agent]) -> Row:
    """What the store lacks of what agents sent and received, and what it has twice."""
    tenant = Tenants(SECRET.encode()).of(HEADERS, {})
    lost, doubled, examples = 0, 0, []
    wanted = {name: items for agent in agents for name, items in agent.sessions.items() if items}
    stored = {str(row.key.session_id) for row in store.sessions(tenant)}
    for name, items in wanted.items():
        found = stored_marks(store, SessionKey(tenant, SessionId(name)))
        expected = [mark for item in items for mark in marks_in(json.dumps(item))]
        missing = list((Counter(expected) - Counter(found)).elements())
        extra = list((Counter(found) - Counter(expected)).elements())
        lost, doubled = lost + len(missing), doubled + len(extra)
        if found != expected:
            examples.append(f"{name}: missing {missing[:3]}, twice {extra[:3]}")
    return {
        "sessions": len(wanted),
        "other_sessions": sorted(stored - set(wanted))[:5],
        "lost": lost,
        "doubled": doubled,
        "out_of_order": len(examples) if not lost and not doubled else 0,
        "examples": examples[:5],
    }


def stored_marks(store: FullStore, key: SessionKey) -> list[str]:
    """The marks of a session's messages that were not taken back, in order."""
    entries = sorted(store.newest_first(key), key=lambda numbered: numbered[0])
    messages: dict[int, list[str]] = {}
    for number, entry in entries:
        if isinstance(entry, Amendment):
            messages = {place: marks for place, marks in messages.items() if place < entry.first}
        elif isinstance(entry, MessageEntry):
            messages[number] = marks_in(msgspec.json.encode(entry.message).decode())
    return [mark for marks in messages.values() for mark in marks]


def database_mb(store: str) -> float:
    """The size of a database."""
    with psycopg.connect(store) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return round(int(row[0]) / 2**20, 1)


# Telling.


def table(figures: Row) -> str:
    """The figures as text, with the targets."""
    load = figures["load"]
    sessions = f"sessions of {load['requests_per_session']} requests, window {figures['window_tokens']:,} tokens"
    first = f"{load['agents']} agents, {load['requests_per_second']:g} requests/s, {sessions}, PostgreSQL"
    return "\n".join([first, *cpu_lines(figures.get("cpu", [])), *soak_lines(figures.get("soak", []))])


def cpu_lines(rows: list[Row]) -> list[str]:
    """CPU by number of replicas."""
    if not rows:
        return []
    one = float(rows[0]["cpu_ms"])
    lines = ["replicas   CPU ms/request   against one   requests   summaries   resident MB"]
    for row in rows:
        resident = ", ".join(f"{each:.0f}" for each in row["resident_mb"])
        cpu = f"{row['replicas']:>8}{row['cpu_ms']:>17.2f}{row['cpu_ms'] / one:>14.2f}"
        lines.append(f"{cpu}{row['requests']:>11,}{row['summaries']:>12}   {resident}")
    return [*lines, f"CPU by request with four, against one: {rows[-1]['cpu_ms'] / one:.2f} (target {CPU_TARGET})"]


def soak_lines(rows: list[Row]) -> list[str]:
    """What came of the soaks."""
    lines: list[str] = []
    for row in rows:
        memory = row["memory"]
        answers = f"{row['answered']:,} requests of {row['sessions']:,} sessions answered, {row['unanswered']} not"
        samples = ", ".join(f"{each:.0f}" for each in memory["samples_mb"])
        lines += [
            f"{row['replicas']} replicas for {row['minutes']:g} minutes, {row['kills']} killed:",
            f"  {answers}, {sum(row['repeated'].values())} sent again after a broken connection",
            f"  messages lost: {row['lost']}, twice: {row['doubled']} (target 0)",
            f"  resident of the one that was not killed: {samples} MB",
            f"  its end against its middle: {memory['growth']:.2f} (target {MEMORY_TARGET})",
        ]
    return lines


def keep(figures: dict[str, Any]) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    command = " ".join(["python benchmarks/replicas.py", *sys.argv[1:]])
    record = {"command": command, "commit": commit, "machine": machine, **figures}
    (RESULTS / "replicas.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "replicas.txt").write_text(f"{machine}, commit {commit}\n{table(figures)}\n")


if __name__ == "__main__":
    sys.exit(main())
