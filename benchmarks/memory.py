"""How much memory reading a large transcript takes, as a multiple of the file's size.

Run `python benchmarks/memory.py` (`--megabytes 200`, `--write`). Two files are generated from a seed: lines as Claude Code
writes them, and one JSON document as OpenCode exports it. Each is read in a process of its own, twice: once for the peak of
resident memory, once under `tracemalloc` for the peak of what Python allocated. All messages are held at the end, since a
transcript is a value; target: a peak of at most three times the file. Not measured here: time, and files that are compressed.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from infold.transcripts.registry import read_transcript

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.trajectory import trajectory

Row: TypeAlias = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
MEGABYTE = 1_000_000
TARGET_RATIO = 3.0


def main() -> int:
    """Generate, read in children, print, and say whether the target is met."""
    parser = argparse.ArgumentParser(description="How much memory reading a large transcript takes.")
    parser.add_argument("--megabytes", type=int, default=200, help="size of each generated file")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--read", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read:
        print(json.dumps(reading(Path(chosen.read), trace=chosen.trace)))
        return 0
    rows = [row for name, make in FILES for row in [measured(name, make, chosen.megabytes)]]
    print(table(rows))
    if chosen.write:
        keep(rows, chosen.megabytes)
    return 0 if all(row["rss_ratio"] <= TARGET_RATIO for row in rows) else 1


# The files.


def claude_code(path: Path, size: int) -> None:
    """Lines of a session that goes on and on."""
    steps = endless()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(json.dumps(claude_line(*next(steps))).encode() + b"\n")


def claude_line(number: int, message: Row) -> Row:
    """One line, its text new with each number."""
    return {
        "parentUuid": f"u{number - 1}" if number else None,
        "isSidechain": False,
        "cwd": "/home/ada/ferry",
        "sessionId": "5f0c",
        "type": "assistant" if message["role"] == "assistant" else "user",
        "uuid": f"u{number}",
        "timestamp": "2026-01-05T10:00:01.000Z",
        "message": {"role": message["role"] if message["role"] != "tool" else "user", "content": claude_blocks(message)}
        | ({"id": f"msg_{number}", "model": "claude-opus-4-6"} if message["role"] == "assistant" else {}),
    }


def claude_blocks(message: Row) -> list[Row]:
    """The blocks of a message."""
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
    calls = [
        {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {"path": "a"}}
        for call in message.get("tool_calls", ())
    ]
    return [{"type": "text", "text": message["content"]}, *calls]


def opencode(path: Path, size: int) -> None:
    """One document on one line, as exports are."""
    session = {"id": "ses_1", "directory": "/home/ada/ferry", "title": "Ferry", "time": {"created": 1_767_607_201_000}}
    steps = endless()
    with path.open("wb") as file:
        file.write(b'{"info":' + json.dumps(session).encode() + b',"messages":[')
        file.write(json.dumps(opencode_message(*next(steps))).encode())
        while file.tell() < size:
            file.write(b"," + json.dumps(opencode_message(*next(steps))).encode())
        file.write(b"]}")


def opencode_message(number: int, message: Row) -> Row:
    """One message with its parts; a tool's call and output are one part."""
    role = "user" if message["role"] == "user" else "assistant"
    info = {
        "id": f"msg_{number:09}",
        "role": role,
        "sessionID": "ses_1",
        "time": {"created": 1_767_607_201_000 + number},
    }
    part: Row = {"id": f"prt_{number:09}", "type": "text", "text": message["content"]}
    if message["role"] == "tool":
        state = {"status": "completed", "input": {"path": "a"}, "output": message["content"], "title": "a"}
        part = {"id": f"prt_{number:09}", "type": "tool", "callID": f"c{number}", "tool": "read", "state": state}
    return {"info": info, "parts": [part]}


def endless() -> Iterator[tuple[int, Row]]:
    """Messages of one trajectory over and over, with ids of their own in each round."""
    numbers, messages = count(), trajectory()
    for turn in count():
        for message in messages:
            yield next(numbers), told_apart(message, f"r{turn}")


def told_apart(message: Row, mark: str) -> Row:
    """A message whose call ids are those of one round."""
    renamed = dict(message)
    if "tool_call_id" in message:
        renamed["tool_call_id"] = f"{mark}_{message['tool_call_id']}"
    if "tool_calls" in message:
        renamed["tool_calls"] = [{**call, "id": f"{mark}_{call['id']}"} for call in message["tool_calls"]]
    return renamed


FILES: tuple[tuple[str, Callable[[Path, int], None]], ...] = (
    ("claude-code.jsonl", claude_code),
    ("opencode.json", opencode),
)


# The measurements.


def measured(name: str, make: Callable[[Path, int], None], megabytes: int) -> Row:
    """One file, made, read twice and removed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        make(path, megabytes * MEGABYTE)
        size = path.stat().st_size
        plain, traced = child(path), child(path, "--trace")
    return {
        "file": name,
        "megabytes": round(size / MEGABYTE, 1),
        "messages": plain["messages"],
        "seconds": plain["seconds"],
        "rss_megabytes": round(plain["rss"] / MEGABYTE, 1),
        "rss_ratio": round(plain["rss"] / size, 2),
        "traced_ratio": round(traced["traced"] / size, 2),
        "kept_ratio": round(traced["kept"] / size, 2),
    }


def child(path: Path, *more: str) -> Row:
    """What a fresh process that reads the file reports."""
    command = [sys.executable, __file__, "--read", str(path), *more]
    told: Row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return told


def reading(path: Path, *, trace: bool) -> Row:
    """Read the file here; the peak of resident memory is this whole process's, interpreter included."""
    if trace:
        tracemalloc.start()
    started = time.process_time()
    transcript = read_transcript(path)
    seconds = round(time.process_time() - started, 2)
    kept, peak = tracemalloc.get_traced_memory()
    messages = sum(len(session.messages) for session in transcript.sessions)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"messages": messages, "seconds": seconds, "rss": rss, "traced": peak, "kept": kept}


def table(rows: list[Row]) -> str:
    """The figures as text, with the target beside them."""
    heads = f"{'file':<20}{'MB':>7}{'messages':>10}{'CPU s':>7}{'peak MB':>9}{'RSS x':>7}{'traced x':>9}{'kept x':>8}"
    return "\n".join(
        [heads, *map(row_line, rows), f"x: multiples of the file's size; target for the peak: {TARGET_RATIO}"]
    )


def row_line(row: Row) -> str:
    """One file's figures."""
    return (
        f"{row['file']:<20}{row['megabytes']:>7}{row['messages']:>10,}{row['seconds']:>7}{row['rss_megabytes']:>9}"
        f"{row['rss_ratio']:>7}{row['traced_ratio']:>9}{row['kept_ratio']:>8}"
    )


def keep(rows: list[Row], megabytes: int) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    command = f"python benchmarks/memory.py --megabytes {megabytes} --write"
    record = {"command": command, "commit": commit, "machine": machine, "files": rows}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "memory.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "memory.txt").write_text(f"{machine}, commit {commit}\n{table(rows)}\n")


if __name__ == "__main__":
    sys.exit(main())
