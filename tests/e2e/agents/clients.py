"""Coding agents as their users run them, but headless and offline: how each is told of an address, a window and a task.

Each is told of a window that it never fills, so that its own compaction stays out of reach.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

__all__ = ["AGENTS", "MODEL", "Agent", "Finished", "Home", "run"]

FOLDER = Path(os.environ.get("INFOLD_AGENTS") or Path(__file__).parents[3] / ".agents")
PACKAGES = FOLDER / "node_modules"
MODEL = "scripted-large"
HUGE_WINDOW = 2_000_000
OUTPUT_TOKENS = 1_000
CREDENTIAL = "sk-agent"
RUN_SECONDS = 300


class Home(Struct, frozen=True):
    """Where an agent lives and works: its own files, the folder of its task, and the address it speaks to."""

    own: Path
    work: Path
    address: str


class Agent(Struct, frozen=True):
    """One agent: the command for a task, the one to go on with another, what it needs, and the shell tool it offers its model."""

    name: str
    command: Callable[[str], list[str]]
    again: Callable[[str], list[str]]
    environment: Callable[[Home], Mapping[str, str]]
    files: Callable[[Home], Mapping[str, str]]
    shell: Callable[[str], tuple[str, dict[str, Any]]]


class Finished(Struct, frozen=True):
    """How a run ended."""

    status: int
    shown: str
    errors: str


def run(agent: Agent, home: Home, command: list[str]) -> Finished:
    """Let an agent do a task to its end."""
    for name, text in agent.files(home).items():
        path = home.own / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home.own), "NO_PROXY": "127.0.0.1", "TERM": "dumb"}
    ended = subprocess.run(
        command,
        cwd=home.work,
        env={**environment, **agent.environment(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    return Finished(ended.returncode, ended.stdout, ended.stderr)


def nothing(_: Home) -> dict[str, str]:
    """No files, or no variables."""
    return {}


# OpenCode.


def opencode(package: str) -> Agent:
    """OpenCode, speaking to its model through one of the clients that it bundles."""

    def command(*words: str) -> list[str]:
        return [str(_opencode()), "run", "--auto", "--format", "json", "--model", f"lab/{MODEL}", *words]

    return Agent(
        f"opencode-{package.rpartition('/')[2]}",
        command=command,
        again=lambda task: command("--continue", task),
        environment=lambda home: _opencode_environment(home, package),
        files=nothing,
        shell=lambda command: ("bash", {"command": command, "description": "Looks at the work"}),
    )


def _opencode() -> Path:
    return next(PACKAGES.glob("opencode-linux-*/bin/opencode"))


def _opencode_environment(home: Home, package: str) -> dict[str, str]:
    switches = ("PROJECT_CONFIG", "DEFAULT_PLUGINS", "AUTOUPDATE", "MODELS_FETCH", "SHARE", "LSP_DOWNLOAD")
    folders = ("CONFIG", "DATA", "STATE", "CACHE")
    return {
        **{f"OPENCODE_DISABLE_{switch}": "1" for switch in (*switches, "EXTERNAL_SKILLS", "CLAUDE_CODE")},
        **{f"XDG_{folder}_HOME": str(home.own / folder.lower()) for folder in folders},
        "OPENCODE_PURE": "1",
        "OPENCODE_AUTH_CONTENT": "{}",
        "OPENCODE_TEST_HOME": str(home.own),
        "OPENCODE_CONFIG_CONTENT": json.dumps(_opencode_config(home.address, package)),
    }


def _opencode_config(address: str, package: str) -> dict[str, Any]:
    limit = {"context": HUGE_WINDOW, "output": OUTPUT_TOKENS}
    models = {name: {"name": name, "tool_call": True, "limit": limit} for name in (MODEL, "scripted-small")}
    options = {"apiKey": CREDENTIAL, "baseURL": f"{address}/v1", "timeout": False}
    return {
        "autoupdate": False,
        "share": "disabled",
        "formatter": False,
        "lsp": False,
        "snapshot": False,
        "enabled_providers": ["lab"],
        "model": f"lab/{MODEL}",
        "small_model": "lab/scripted-small",
        "permission": {"*": "allow", "webfetch": "deny", "websearch": "deny", "doom_loop": "allow"},
        "compaction": {"auto": False, "prune": False},
        "provider": {"lab": {"name": "Lab", "npm": package, "env": [], "options": options, "models": models}},
    }


# Codex.


def _codex_config(home: Home) -> dict[str, str]:
    lines = (
        f'model = "{MODEL}"',
        'model_provider = "lab"',
        f"model_context_window = {HUGE_WINDOW}",
        f"model_auto_compact_token_limit = {HUGE_WINDOW - 1}",
        "[model_providers.lab]",
        'name = "Lab"',
        f'base_url = "{home.address}/v1"',
        'env_key = "LAB_KEY"',
        'wire_api = "responses"',
        f'[projects."{home.work}"]',
        'trust_level = "trusted"',
    )
    return {"codex/config.toml": "\n".join(lines) + "\n"}


def _codex(*words: str) -> list[str]:
    program = str(PACKAGES / "@openai" / "codex" / "bin" / "codex.js")
    return ["node", program, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *words]


CODEX = Agent(
    "codex",
    command=_codex,
    again=lambda task: _codex("resume", "--last", task),
    environment=lambda home: {"CODEX_HOME": str(home.own / "codex"), "LAB_KEY": CREDENTIAL},
    files=_codex_config,
    shell=lambda command: ("exec_command", {"cmd": command}),
)


# pi.


def pi(interface: str) -> Agent:
    """pi, speaking to its model by one of the interfaces that it knows."""

    def command(*words: str) -> list[str]:
        program = str(PACKAGES / "@mariozechner" / "pi-coding-agent" / "dist" / "cli.js")
        return ["node", program, "--print", "--provider", "lab", "--model", MODEL, *words]

    return Agent(
        f"pi-{interface}",
        command=command,
        again=lambda task: command("--continue", task),
        environment=lambda _: {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        files=lambda home: _pi_files(home, interface),
        shell=lambda command: ("bash", {"command": command}),
    )


def _pi_files(home: Home, interface: str) -> dict[str, str]:
    address = home.address if interface == "anthropic-messages" else f"{home.address}/v1"
    model = {"id": MODEL, "contextWindow": HUGE_WINDOW, "maxTokens": OUTPUT_TOKENS, "input": ["text"]}
    provider = {"baseUrl": address, "api": interface, "apiKey": CREDENTIAL, "models": [model]}
    return {
        ".pi/agent/models.json": json.dumps({"providers": {"lab": provider}}),
        ".pi/agent/settings.json": json.dumps({"compaction": {"enabled": False}, "quietStartup": True}),
    }


AGENTS = (
    opencode("@ai-sdk/openai-compatible"),
    opencode("@ai-sdk/anthropic"),
    CODEX,
    pi("openai-completions"),
    pi("anthropic-messages"),
)
"""The three agents, two of them by two interfaces."""
