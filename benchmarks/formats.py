"""What formats and `fit` cost, and what LangChain's `trim_messages` does with the same history.

Run `python benchmarks/formats.py` (`--write` keeps the figures in `benchmarks/results/`). Times are CPU time, the best of
several runs. Three questions:

- *fit*: mean CPU of `fit` before each request of the seeded trajectory (150 steps, window 60,000), against the least anyone
  could do who reads the whole history each time: decode the same dicts and hash their content (blake2b).
- *wire*: 10,000 chat messages from JSON bytes to JSON bytes, through decode and encode against msgspec alone (typed, tagged
  structs of exactly the fields there are). Both parse, both build typed messages, both write; infold's also pairs calls and
  results and keeps what it does not know.
- *langchain*: `trim_messages` of `langchain-core`, in a venv of its own that this program makes, before the same requests
  with the same budget; an exact tokeniser and the provider's rules judge both.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from hashlib import blake2b
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

import infold.session.fit as front_door
from infold import fit
from infold.formats.registry import OPENAI_CHAT
from infold.session.fit import FitCache

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.provider_rules import problems
from tests.support.trajectory import TRAJECTORY_RULE, trajectory

Row: TypeAlias = dict[str, Any]
Chat: TypeAlias = list[dict[str, Any]]

RESULTS = Path(__file__).parent / "results"
WINDOW = 60_000
USABLE = 51_000
"""What `fit` leaves for the request at this window, and so the budget `trim_messages` is given."""
MESSAGES = 10_000
SHORT_CHARACTERS = 80
RUNS = 5
FRAME_TOKENS = 4


def main() -> int:
    """Measure, print, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description="What formats and `fit` cost.")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    parser.add_argument("--no-langchain", action="store_true", help="leave out what needs a package registry")
    chosen = parser.parse_args()
    figures: Row = {"fit": fit_cost(), "wire": [wire_cost("real"), wire_cost("short")], "requests": [judged_fit()]}
    if not chosen.no_langchain:
        figures["requests"] += judged_langchain()
    print(table(figures))
    if chosen.write:
        keep(figures)
    return 0 if figures["fit"]["ratio"] <= 2 and figures["wire"][0]["ratio"] <= 2 else 1


# What fit costs.


def request_points(messages: Chat) -> list[int]:
    """How many messages there were before each request."""
    return [*(place for place, message in enumerate(messages) if message["role"] == "assistant"), len(messages)]


def fit_cost() -> Row:
    """Milliseconds a request: `fit` over the growing history, and what it is measured against.

    The first pass counts every text for the first time, as a session does; the tokeniser's vocabulary is loaded before it,
    once for the process.
    """
    messages = trajectory()
    points = request_points(messages)
    loading = milliseconds(lambda: fit(messages[:1], window=WINDOW), 1, runs=1)
    first = milliseconds(lambda: fit_all(messages, points), len(points), runs=1)
    again = milliseconds(lambda: fit_all(messages, points), len(points))
    parsed = round(min(fit_parsed(messages, points) for _ in range(RUNS)) * 1e3 / len(points), 3)
    forgetful = milliseconds(lambda: fit_all(messages, points, remember=False), len(points))
    baseline = milliseconds(lambda: decode_and_hash_all(messages, points), len(points))
    return {
        "requests": len(points),
        "decode_and_hash_ms": baseline,
        "fit_ms": first,
        "ratio": round(first / baseline, 2),
        "fit_again_ms": again,
        "again_ratio": round(again / baseline, 2),
        "fit_parsed_ms": parsed,
        "parsed_ratio": round(parsed / baseline, 2),
        "fit_without_memory_ms": forgetful,
        "without_memory_ratio": round(forgetful / baseline, 2),
        "load_vocabulary_ms": loading,
    }


def fit_all(messages: Chat, points: list[int], *, remember: bool = True) -> None:
    """`fit` before each request; forgetful, each one is played from the first message."""
    front_door._CACHE = FitCache()  # noqa: SLF001 - a fresh memory is what is measured
    for point in points:
        fit(messages[:point], window=WINDOW)
        if not remember:
            front_door._CACHE = FitCache()  # noqa: SLF001


def fit_parsed(messages: Chat, points: list[int]) -> float:
    """CPU seconds of `fit` alone where each request is parsed from JSON anew, so that no text is the object it was."""
    front_door._CACHE = FitCache()  # noqa: SLF001
    content = [msgspec.json.encode(messages[:point]) for point in points]
    return sum(spent(partial(fit, msgspec.json.decode(request), window=WINDOW)) for request in content)


def decode_and_hash_all(messages: Chat, points: list[int]) -> None:
    """Decode each beginning and hash every text in it."""
    for point in points:
        digest = blake2b()
        for message in OPENAI_CHAT.decode(messages[:point]).messages:
            for part in message.parts:
                for field in ("text", "output", "arguments"):
                    digest.update(getattr(part, field, "").encode())
        digest.digest()


def milliseconds(action: Callable[[], object], times: int, runs: int = RUNS) -> float:
    """CPU milliseconds of an action for each of so many times it does its work, best of several runs."""
    return round(min(spent(action) for _ in range(runs)) * 1e3 / times, 3)


def spent(action: Callable[[], object]) -> float:
    """CPU seconds of an action."""
    started = time.process_time()
    action()
    return time.process_time() - started


# What decoding and encoding cost.


class Function(Struct):
    """What is called."""

    name: str
    arguments: str


class Call(Struct):
    """A tool call."""

    id: str
    function: Function
    type: str


class User(Struct, tag_field="role", tag="user"):
    """A user's message."""

    content: str


class Assistant(Struct, tag_field="role", tag="assistant"):
    """A reply."""

    content: str | None
    tool_calls: list[Call] | UnsetType = UNSET


class Tool(Struct, tag_field="role", tag="tool"):
    """A result."""

    tool_call_id: str
    content: str


TYPED = msgspec.json.Decoder(list[User | Assistant | Tool])


def wire_cost(sizes: str) -> Row:
    """Milliseconds for ten thousand messages, of the trajectory's own size or cut short."""
    items = many(MESSAGES, None if sizes == "real" else SHORT_CHARACTERS)
    content = msgspec.json.encode(items)
    assert through_infold(content) == content
    assert msgspec.json.decode(through_msgspec(content)) == items
    ours, alone, plain = (
        milliseconds(partial(through, content), 1) for through in (through_infold, through_msgspec, through_dicts)
    )
    return {
        "sizes": sizes,
        "megabytes": round(len(content) / 1e6, 1),
        "infold_ms": ours,
        "msgspec_ms": alone,
        "ratio": round(ours / alone, 2),
        "msgspec_dicts_ms": plain,
        "over_dicts_us_a_message": round((ours - plain) / MESSAGES * 1e3, 2),
    }


def through_infold(content: bytes) -> bytes:
    """Bytes to messages of the core and back."""
    decoded = OPENAI_CHAT.decode(msgspec.json.decode(content))
    return msgspec.json.encode(OPENAI_CHAT.encode(decoded.messages, decoded))


def through_msgspec(content: bytes) -> bytes:
    """Bytes to typed structs and back."""
    return msgspec.json.encode(TYPED.decode(content))


def through_dicts(content: bytes) -> bytes:
    """Bytes to dicts and back."""
    return msgspec.json.encode(msgspec.json.decode(content))


def many(size: int, characters: int | None) -> Chat:
    """That many messages of one trajectory after another, each with call ids of its own."""
    messages: Chat = []
    while len(messages) < size:
        mark = f"r{len(messages)}"
        messages += [told_apart(message, mark, characters) for message in trajectory()]
    return messages[:size]


def told_apart(message: dict[str, Any], mark: str, characters: int | None) -> dict[str, Any]:
    """A message with ids of its round, its text cut to so many characters."""
    renamed = {**message, "content": message["content"][:characters]}
    if "tool_call_id" in message:
        renamed["tool_call_id"] = f"{mark}_{message['tool_call_id']}"
    if "tool_calls" in message:
        renamed["tool_calls"] = [{**call, "id": f"{mark}_{call['id']}"} for call in message["tool_calls"]]
    return renamed


# What is sent, by fit and by LangChain.


def judged_fit() -> Row:
    """What `fit` makes of each request, by a tokeniser and the provider's rules."""
    messages = trajectory()
    points = request_points(messages)
    requests = [fit(messages[:point], window=WINDOW).messages for point in points]
    return {
        "who": "infold fit",
        "cpu_ms": milliseconds(lambda: fit_all(messages, points), len(points)),
        **judged(requests),
    }


def judged(requests: list[Any]) -> Row:
    """Requests over the budget, refused by the provider, empty, or without the user's rule; and broken prefixes."""
    sizes = [sum(map(exact_tokens, request)) for request in requests]
    return {
        "requests": len(requests),
        "over": sum(size > WINDOW for size in sizes),
        "refused": sum(bool(problems(OPENAI_CHAT, request)) for request in requests),
        "empty": sum(not request for request in requests),
        "with_rule": sum(any(TRAJECTORY_RULE in str(m["content"]) for m in request) for request in requests),
        "breaks": sum(later[: len(earlier)] != earlier for earlier, later in pairwise(requests)),
        "largest": max(sizes),
    }


def exact_tokens(message: Any) -> int:
    """Content, names and arguments by o200k, and the message's frame."""
    functions = [call["function"] for call in message.get("tool_calls", ())]
    said = [message["content"] or "", *(function[key] for function in functions for key in ("name", "arguments"))]
    return FRAME_TOKENS + sum(map(tokens, said))


@cache
def tokens(text: str) -> int:
    """Tokens of a text; the tokeniser is loaded once."""
    return len(tokeniser().encode(text))


@cache
def tokeniser() -> Any:
    """The o200k vocabulary of the `tokens` extra."""
    return import_module("splintr").Tokenizer.from_pretrained("o200k_base")


CHILD = """
import json, sys, time
from importlib.metadata import version
from langchain_core.messages import convert_to_messages, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

given = json.load(sys.stdin)
sizes, messages = given["sizes"], convert_to_messages(given["messages"])
for place, message in enumerate(messages):
    message.id = str(place)

def looked_up(counted):
    return sum(sizes[int(message.id)] for message in counted)

counter = looked_up if given["exact"] else count_tokens_approximately
kept, started = [], time.process_time()
for point in given["points"]:
    kept.append(trim_messages(messages[:point], max_tokens=given["budget"], strategy="last",
                              token_counter=counter, **given["options"]))
spent = time.process_time() - started
told = [[int(message.id) for message in request] for request in kept]
print(json.dumps({"kept": told, "seconds": spent, "version": version("langchain-core")}))
"""
"""Conversion is left out of the time, and exact counts are looked up; messages that are kept are told by their place."""

DOCUMENTED: Row = {"start_on": "human", "end_on": ["human", "tool"], "include_system": True}
"""What LangChain's own guide advises, so that a request begins with a person's words."""


class Variant(Struct, frozen=True):
    """A way to call `trim_messages`; `exact`: with the sizes of the tokeniser that judges instead of its own guess."""

    name: str
    options: Row
    exact: bool


VARIANTS = (
    Variant("defaults", {}, exact=False),
    Variant("documented", DOCUMENTED, exact=False),
    Variant("documented, exact", DOCUMENTED, exact=True),
)


def judged_langchain() -> list[Row]:
    """The same requests by `trim_messages`, with its defaults and with what its documentation advises."""
    python, messages = langchain_python(), trajectory()
    return [{"who": f"trim_messages, {variant.name}", **trimmed(python, messages, variant)} for variant in VARIANTS]


def langchain_python() -> Path:
    """An interpreter with `langchain-core` and nothing of ours, made on first use."""
    folder = Path(tempfile.gettempdir()) / "infold-benchmarks" / "langchain"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}") or "uv"
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), "langchain-core"], check=True)
        (folder / "ready").touch()
    return python


def trimmed(python: Path, messages: Chat, variant: Variant) -> Row:
    """One variant: its CPU per call, and what its requests are worth."""
    points, sizes = request_points(messages), [exact_tokens(message) for message in messages]
    given = {"messages": messages, "sizes": sizes, "points": points, "budget": USABLE}
    given |= {"options": variant.options, "exact": variant.exact}
    answers = [asked(python, given) for _ in range(3)]
    requests = [[messages[place] for place in kept] for kept in answers[0]["kept"]]
    best = min(answer["seconds"] for answer in answers)
    return {"cpu_ms": round(best * 1e3 / len(points), 3), **judged(requests), "version": answers[0]["version"]}


def asked(python: Path, given: Row) -> Row:
    """What the child says."""
    ended = subprocess.run([python, "-c", CHILD], input=json.dumps(given), check=True, capture_output=True, text=True)
    told: Row = json.loads(ended.stdout)
    return told


# The report.


def table(figures: Row) -> str:
    """The figures as text, with the targets beside them."""
    return "\n".join([*fit_lines(figures["fit"]), *wire_lines(figures["wire"]), *request_lines(figures["requests"])])


def fit_lines(row: Row) -> Iterable[str]:
    """What `fit` costs."""
    yield f"fit, mean of {row['requests']} growing requests: {row['fit_ms']} ms CPU"
    yield f"decode + hash of the same: {row['decode_and_hash_ms']} ms; ratio {row['ratio']} (target 2)"
    yield f"the same pass again, all texts counted before: {row['fit_again_ms']} ms, ratio {row['again_ratio']}"
    yield f"each request parsed from JSON anew (parsing not counted): {row['fit_parsed_ms']} ms, ratio {row['parsed_ratio']}"
    yield f"without the rehearsal memory: {row['fit_without_memory_ms']} ms, ratio {row['without_memory_ratio']}"
    yield f"loading the vocabulary, once a process: {row['load_vocabulary_ms']} ms"


def wire_lines(rows: list[Row]) -> Iterable[str]:
    """What decode and encode cost."""
    yield f"{MESSAGES:,} chat messages, JSON bytes to JSON bytes (target 2 for real sizes):"
    for row in rows:
        yield (
            f"  {row['sizes']} sizes, {row['megabytes']} MB: {row['infold_ms']} ms, msgspec alone {row['msgspec_ms']} ms; "
            f"ratio {row['ratio']} ({row['over_dicts_us_a_message']} µs a message over plain dicts)"
        )


COLUMNS = (("cpu_ms", 8), ("over", 6), ("refused", 9), ("empty", 7), ("with_rule", 11), ("breaks", 8), ("largest", 9))


def request_lines(rows: list[Row]) -> Iterable[str]:
    """What is sent, by whom."""
    yield f"of {rows[0]['requests']} requests".ljust(35) + "".join(f"{name:>{width}}" for name, width in COLUMNS)
    for row in rows:
        yield f"{row['who']:<35}" + "".join(f"{row[name]:>{width}}" for name, width in COLUMNS)
    versions = {row["version"] for row in rows if "version" in row}
    yield f"window {WINDOW:,}, budget {USABLE:,}; langchain-core {', '.join(versions) or 'not run'}"


def keep(figures: Row) -> None:
    """Write the figures with machine, commit and command."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    record = {"command": "python benchmarks/formats.py --write", "commit": commit, "machine": machine, **figures}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "formats.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "formats.txt").write_text(f"{machine}, commit {commit}\n{table(figures)}\n")


if __name__ == "__main__":
    sys.exit(main())
