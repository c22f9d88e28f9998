"""What the command line writes of sessions: conversions, exports, recall, the answers of `infold mcp`, an agent's requests."""

import io
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from .faces import environ
from .inputs import History
from .library import acts_cases
from .upstream import Upstream

ROOT = Path(__file__).parents[2]
SHAPES = ("openai", "anthropic", "markdown", "jsonl", "opencode")
STORED_SHAPES = ("markdown", "jsonl", "opencode")
QUERIES = ("tests", "the file", "错误", "0.0", "1.0")
TASK = "Port the importer to the new feed. Never touch the files under vendor/."
STARTED = (
    ("openai-chat/gpt-4o", "/v1", "build"),
    ("openai-chat/gpt-4o", "/v1", "plan"),
    ("openai-chat/gpt-4o", "/v1", "talk"),
    ("openai/gpt-5", "/v1", "build"),
    ("anthropic/claude-sonnet-4-5", "", "build"),
)
"""Which agents are started: the model, the path of its interface, the agent."""

Cases = dict[str, bytes]


def convert_cases(transcript: Path, folder: Path) -> Cases:
    """Convert a transcript to every shape, and search it."""
    found: Cases = {}
    for shape in SHAPES:
        out = folder / f"out.{shape}"
        code, _ = run_command("convert", str(transcript), "--to", shape, "-o", str(out))
        found[f"convert/{shape}"] = out.read_bytes() if code == 0 else f"status {code}\n".encode()
    for query in QUERIES:
        code, told = run_command("recall", str(transcript), query, "--json")
        hits = json.loads(told)["hits"] if code == 0 else f"status {code}"
        found[f"recall/{query}"] = json.dumps(hits, ensure_ascii=False).encode()
    return found


def stored_cases(history: History, folder: Path) -> Cases:
    """Do everything in one stored session, then export it, import the export, and ask `infold mcp` about it."""
    path = folder / "acts.sqlite3"
    found = {f"acts/{name}": content for name, content in acts_cases(history, path).items()}
    for shape in STORED_SHAPES:
        out = folder / f"out.{shape}"
        run_command("export", "acts", "--to", shape, "--store", str(path), "--tenant", "", "-o", str(out))
        found[f"export/{shape}"] = out.read_bytes()
    for shape in SHAPES:
        out = folder / f"again.{shape}"
        run_command("convert", str(folder / "out.jsonl"), "--to", shape, "-o", str(out))
        found[f"export-convert/{shape}"] = out.read_bytes()
    return {**found, **mcp_cases(path, folder)}


def run_command(*arguments: str) -> tuple[int, bytes]:
    """Run a verb in this process; return its status and what it wrote to standard output."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, _, name = scripts["infold"].partition(":")
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with redirect_stdout(out), redirect_stderr(io.StringIO()), _settled(["infold", *arguments]):
        try:
            getattr(import_module(module), name)()
            code: Any = 0
        except SystemExit as ended:
            code = ended.code or 0
    return int(code), out.buffer.getvalue() if isinstance(out.buffer, io.BytesIO) else b""


@contextmanager
def _settled(arguments: list[str]) -> Iterator[None]:
    """Give this process a command line and an environment without settings while the block runs."""
    before, variables = sys.argv, dict(os.environ)
    sys.argv = arguments
    for name in [name for name in os.environ if name.startswith("INFOLD_")]:
        del os.environ[name]
    os.environ["XDG_CONFIG_HOME"] = os.devnull
    try:
        yield
    finally:
        sys.argv = before
        os.environ.clear()
        os.environ.update(variables)


def mcp_cases(store: Path, folder: Path) -> Cases:
    """Ask `infold mcp` what its tools are, and call those that tell no time."""
    asked = [
        ("tools/list", {}),
        *(
            ("tools/call", {"name": "recall", "arguments": {"query": query}})
            for query in ("vendor", "harbour route", "0.0 2.0")
        ),
        *(
            ("tools/call", {"name": "read", "arguments": {"handle": handle}})
            for handle in ("2.0", "4.0", "2.0+40", "999.0")
        ),
    ]
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "golden", "version": "1"}}
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}]
    lines.append({"jsonrpc": "2.0", "method": "notifications/initialized"})
    command = [sys.executable, "-m", "infold", "mcp", "--store", str(store), "--session", "acts", "--tenant", ""]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, text=True, env=environ(folder)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told: list[Any] = []
        for number, (method, params) in enumerate(asked, 1):
            lines.append({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
            process.stdin.flush()
            lines = []
            replies = (json.loads(line) for line in process.stdout)
            told.append(next(reply for reply in replies if reply.get("id") == number)["result"])
        process.stdin.close()
    tools = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in told[0]["tools"]]
    answers = [
        {"asked": params, "content": reply["content"]} for (_, params), reply in zip(asked, told, strict=True) if params
    ]
    return {"mcp/tools": _lines(tools), "mcp/answers": _lines(answers)}


def _lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def agent_cases(folder: Path) -> Cases:
    """Start a task with agents; the model is asked for the work, and for a title of it."""
    found: Cases = {}
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    for model, base, agent in STARTED:
        provider = model.partition("/")[0]
        place = folder / f"{provider}-{agent}"
        place.mkdir()
        with Upstream() as upstream:
            given = ["--model", model, "--base-url", upstream.url + base, "--agent", agent, "--store", "s.sqlite3"]
            command = [sys.executable, "-m", "infold", "run", TASK, *given]
            variables = environ(folder, **keys)
            subprocess.run(command, check=True, cwd=place, capture_output=True, stdin=subprocess.DEVNULL, env=variables)
            found[f"{provider}/{agent}"] = upstream.taken()
    return found
