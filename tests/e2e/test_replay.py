"""`infold replay` in its own process: interrupts, and a Ray cluster."""

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import pytest

DATA = Path(__file__).parents[1] / "data" / "transcripts"
COMMAND = (sys.executable, "-m", "infold", "replay")
PATIENCE_SECONDS = 60.0


def children_of(pid: int) -> list[int]:
    """The processes that a process started, without those that only watch over it."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_interrupt_ends_the_children(tmp_path: Path) -> None:
    """Ctrl-C in the middle of the work ends all processes at once, without a traceback and with a status."""
    files = [tmp_path / f"{name}.jsonl" for name in "ab"]
    for path in files:
        os.mkfifo(path)  # who reads it waits for ever
    with subprocess.Popen(
        [*COMMAND, *map(str, files), "--jobs", "2"], stderr=subprocess.PIPE, start_new_session=True, text=True
    ) as replay:
        try:
            started = wait_for_children(replay.pid, 2)
            os.killpg(replay.pid, signal.SIGINT)  # as a terminal does
            _, shown = replay.communicate(timeout=PATIENCE_SECONDS)
        finally:
            replay.kill()

    assert replay.returncode == 1
    assert "Traceback" not in shown
    assert not [child for child in started if Path(f"/proc/{child}").exists()]


def wait_for_children(pid: int, number: int) -> list[int]:
    """The children of a process, as soon as there are so many."""
    end = monotonic() + PATIENCE_SECONDS
    while len(found := children_of(pid)) < number:
        assert monotonic() < end, "the processes did not start"
        sleep(0.02)
    return found


CLUSTER = """
import sys, ray
options = {"include_dashboard": False, "object_store_memory": 100_000_000, "log_to_driver": False, "logging_level": "ERROR"}
found = ray.init(address="local", num_cpus=2, _temp_dir=sys.argv[1], **options)
print(found.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
"""
"""A cluster that runs until its input is closed."""


CRASH = """
import os
from infold.replay.engines import Batch, run_on_ray
print(*run_on_ray(Batch(work=os._exit, items=[3], sizes=[1], crashed=lambda item, reason: reason), None))
"""
"""Work that ends its worker."""


@pytest.mark.long
def test_ray_gives_identical_results(tmp_path: Path) -> None:
    """On a cluster that is running already the tables, JSON and rows are those of one process, byte for byte."""
    pytest.importorskip("ray", reason="make test-all installs it")
    # Ray listens beyond loopback whatever it is told, so the cluster demands a token that only this test knows.
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    with (
        TemporaryDirectory(prefix="ray") as folder,  # a short path: Ray puts sockets into it
        subprocess.Popen(
            [sys.executable, "-c", CLUSTER, folder],
            env=os.environ | secret,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as cluster,
    ):
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        try:
            address = {"RAY_ADDRESS": cluster.stdout.readline().strip()}
            together = replayed(tmp_path, "--engine", "ray", variables=address | secret)
            crash = subprocess.run(
                [sys.executable, "-c", CRASH],
                env=os.environ | address | secret,
                capture_output=True,
                text=True,
                check=True,
            )
            nowhere = refused({"RAY_ADDRESS": "127.0.0.1:9"} | secret)
        finally:
            cluster.stdin.close()  # ends it, and the processes it started
            cluster.wait(PATIENCE_SECONDS)

    assert together == replayed(tmp_path, "--jobs", "1", variables={})
    assert "its worker on the Ray cluster crashed" in crash.stdout
    assert "cannot connect to a Ray cluster" in nowhere
    assert "ray start --head" in nowhere


def refused(variables: dict[str, str]) -> str:
    """The last line of a replay that finds no cluster."""
    command = [*COMMAND, str(DATA / "pi.jsonl"), "--engine", "ray"]
    ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    return ran.stderr.splitlines()[-1]


def replayed(folder: Path, *options: str, variables: dict[str, str]) -> list[bytes]:
    """What a replay of all transcripts prints and writes; paths are relative to the data, one of them is broken."""
    outputs = [folder / name for name in ("out.json", "out.csv", "calls.csv")]
    written = zip(("--json", "--results", "--calls"), map(str, outputs), strict=True)
    ran = subprocess.run(
        [*COMMAND, ".", "missing.jsonl", "--window", "8k", *options, *(word for option in written for word in option)],
        cwd=DATA,
        env=os.environ | variables,
        capture_output=True,
        check=True,
    )
    return [ran.stdout, *(path.read_bytes() for path in outputs)]
