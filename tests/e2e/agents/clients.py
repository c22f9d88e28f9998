"""Coding agents as their users run them, but headless and offline: how each is told of an address, a window and a task.

Each is told of a window that it never fills, so that its own compaction stays out of reach.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["AGENTS", "DEFAULT_OUTPUT", "MODEL", "Agent", "Finished", "Home", "reason_missing", "run", "version_of"]

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
    """One agent: the command for a task, the one to go on with another, what it needs, and the shell tool it offers its model.

    `package` is what npm or PyPI calls it. An agent without `shell` is shown the files by what is `typed` into it. `many_files`
    are more than `window` tokens hold. `last_command` tells it that the work is done. `moves_messages`: its requests do not go
    on from one another, so that the provider's cache breaks with or without infold.
    """

    name: str
    package: str
    wire: str
    command: Callable[[str], list[str]]
    again: Callable[[str], list[str]] | None
    environment: Callable[[Home], Mapping[str, str]]
    files: Callable[[Home], Mapping[str, str]]
    shell: Callable[[str], tuple[str, dict[str, Any]]] | None
    typed: Callable[[str, int], str] | None = None
    window: int = 20_000
    many_files: int = 18
    last_command: str = ""
    moves_messages: bool = False
    remarks: str = ""


class Finished(Struct, frozen=True):
    """How a run ended."""

    status: int
    shown: str
    errors: str


def run(agent: Agent, home: Home, command: list[str], typed: str = "") -> Finished:
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
        input=typed,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    return Finished(ended.returncode, ended.stdout, ended.stderr)


def _node() -> str:
    """Node.js as some of the agents need it: a newer one than may be installed."""
    return str(next(PACKAGES.glob("node-linux-*/bin/node")))


def version_of(agent: Agent) -> str:
    """The version that is installed."""
    manifest = next(PACKAGES.glob(f"{agent.package}/package.json"), None)
    if manifest is not None:
        return str(json.loads(manifest.read_text())["version"])
    name = agent.package.replace("-", "_")
    return next((FOLDER / agent.package).glob(f"lib/*/site-packages/{name}-*.dist-info")).stem.rpartition("-")[2]


def reason_missing(agent: Agent) -> str:
    """Why an agent could not be installed here; empty if it was."""
    path = FOLDER / "missing"
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith(f"{agent.package}:")), "")


def nothing(_: Home) -> dict[str, str]:
    """No files, or no variables."""
    return {}


# OpenCode.


def opencode(package: str, output: int = OUTPUT_TOKENS) -> Agent:
    """OpenCode, speaking to its model, of that output limit, through one of the clients that it bundles."""

    def command(*words: str) -> list[str]:
        return [str(_opencode()), "run", "--auto", "--format", "json", "--model", f"lab/{MODEL}", *words]

    return Agent(
        f"opencode-{package.rpartition('/')[2]}",
        package="opencode-linux-*",
        wire="anthropic-messages" if package.endswith("anthropic") else "openai-chat",
        command=command,
        again=lambda task: command("--continue", task),
        environment=lambda home: _opencode_environment(home, package, output),
        files=nothing,
        shell=lambda command: ("bash", {"command": command, "description": "Looks at the work"}),
    )


def _opencode() -> Path:
    return next(PACKAGES.glob("opencode-linux-*/bin/opencode"))


def _opencode_environment(home: Home, package: str, output: int) -> dict[str, str]:
    switches = ("PROJECT_CONFIG", "DEFAULT_PLUGINS", "AUTOUPDATE", "MODELS_FETCH", "SHARE", "LSP_DOWNLOAD")
    folders = ("CONFIG", "DATA", "STATE", "CACHE")
    return {
        **{f"OPENCODE_DISABLE_{switch}": "1" for switch in (*switches, "EXTERNAL_SKILLS", "CLAUDE_CODE")},
        **{f"XDG_{folder}_HOME": str(home.own / folder.lower()) for folder in folders},
        "OPENCODE_PURE": "1",
        "OPENCODE_AUTH_CONTENT": "{}",
        "OPENCODE_TEST_HOME": str(home.own),
        "OPENCODE_CONFIG_CONTENT": json.dumps(_opencode_config(home.address, package, output)),
    }


def _opencode_config(address: str, package: str, output: int) -> dict[str, Any]:
    limit = {"context": HUGE_WINDOW, "output": output}
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
    package="@openai/codex",
    wire="openai-responses",
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
        package="@mariozechner/pi-coding-agent",
        wire="anthropic-messages" if interface.startswith("anthropic") else "openai-chat",
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


# Claude Code.


def _claude_code(*words: str) -> list[str]:
    program = next(PACKAGES.glob("@anthropic-ai/claude-code-linux-*/claude"))
    return [str(program), "--print", "--model", MODEL, "--allowedTools", "Bash", *words]


def _claude_code_environment(home: Home) -> dict[str, str]:
    switches = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTO_COMPACT", "DISABLE_AUTOUPDATER")
    return {
        **dict.fromkeys(switches, "1"),
        "ANTHROPIC_BASE_URL": home.address,
        "ANTHROPIC_API_KEY": CREDENTIAL,
        "ANTHROPIC_SMALL_FAST_MODEL": "scripted-small",
    }


CLAUDE_CODE = Agent(
    "claude-code",
    package="@anthropic-ai/claude-code",
    wire="anthropic-messages",
    command=lambda task: _claude_code("--", task),
    again=lambda task: _claude_code("--continue", "--", task),
    environment=_claude_code_environment,
    files=nothing,
    shell=lambda command: ("Bash", {"command": command, "description": "Looks at the work"}),
    window=30_000,
    many_files=24,
)


# Gemini CLI and Qwen Code, which grew out of it.


def _gemini(*words: str) -> list[str]:
    program = PACKAGES / "@google" / "gemini-cli" / "bundle" / "gemini.js"
    return [_node(), str(program), "--yolo", "--model", MODEL, *words]


def _gemini_environment(home: Home) -> dict[str, str]:
    return {
        "GOOGLE_GEMINI_BASE_URL": home.address,
        "GEMINI_API_KEY": CREDENTIAL,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    }


def _gemini_settings(home: Home) -> dict[str, str]:
    settings = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    return {".gemini/settings.json": json.dumps(settings)}


GEMINI_CLI = Agent(
    "gemini-cli",
    package="@google/gemini-cli",
    wire="gemini",
    command=lambda task: _gemini("--prompt", task),
    again=lambda task: _gemini("--resume", "latest", "--prompt", task),
    environment=_gemini_environment,
    files=_gemini_settings,
    shell=lambda command: ("run_shell_command", {"command": command}),
    window=30_000,
    many_files=24,
)


def _qwen(*words: str) -> list[str]:
    program = PACKAGES / "@qwen-code" / "qwen-code" / "cli-entry.js"
    return [_node(), str(program), "--yolo", "--auth-type", "openai", "--model", MODEL, *words]


def _qwen_settings(home: Home, **generation: object) -> dict[str, str]:
    generation = {"contextWindowSize": HUGE_WINDOW, **generation}
    settings = {
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": MODEL, "generationConfig": generation},
    }
    return {".qwen/settings.json": json.dumps(settings)}


QWEN_CODE = Agent(
    "qwen-code",
    package="@qwen-code/qwen-code",
    wire="openai-chat",
    command=lambda task: _qwen("--prompt", task),
    again=lambda task: _qwen("--continue", "--prompt", task),
    environment=lambda home: {"OPENAI_BASE_URL": f"{home.address}/v1", "OPENAI_API_KEY": CREDENTIAL},
    files=lambda home: _qwen_settings(home, samplingParams={"max_tokens": OUTPUT_TOKENS}),
    shell=lambda command: ("run_shell_command", {"command": command, "is_background": False}),
    window=40_000,
    many_files=30,
    remarks="with `samplingParams.max_tokens` set",
)


# Continue and Cline.


def _continue(*words: str) -> list[str]:
    program = PACKAGES / "@continuedev" / "cli" / "dist" / "cn.js"
    return [_node(), str(program), "--print", "--auto", *words]


def _continue_config(home: Home) -> dict[str, str]:
    options = {"contextLength": HUGE_WINDOW, "maxTokens": OUTPUT_TOKENS}
    model = {"name": MODEL, "provider": "openai", "model": MODEL, "apiBase": f"{home.address}/v1", "apiKey": CREDENTIAL}
    models = [{**model, "roles": ["chat"], "capabilities": ["tool_use"], "defaultCompletionOptions": options}]
    return {".continue/config.yaml": json.dumps({"name": "Lab", "version": "1.0.0", "schema": "v1", "models": models})}


CONTINUE = Agent(
    "continue",
    package="@continuedev/cli",
    wire="openai-chat",
    command=_continue,
    again=lambda task: _continue("--resume", task),
    environment=lambda _: {"CONTINUE_TELEMETRY_ENABLED": "0"},
    files=_continue_config,
    shell=lambda command: ("Bash", {"command": command}),
)


def _cline(*words: str) -> list[str]:
    program = next(PACKAGES.glob("@cline/cli-linux-*/bin/cline"))
    return [str(program), "--compaction", "off", "--provider", "openai-compatible", "--model", MODEL, *words]


def _cline_settings(home: Home) -> dict[str, str]:
    kind = "openai-compatible"
    settings = {"provider": kind, "apiKey": CREDENTIAL, "model": MODEL, "baseUrl": f"{home.address}/v1"}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    stored = {"version": 1, "lastUsedProvider": kind, "modes": {}, "providers": {kind: provider}}
    return {".cline/data/settings/providers.json": json.dumps(stored)}


CLINE = Agent(
    "cline",
    package="cline",
    wire="openai-chat",
    command=_cline,
    again=None,
    environment=lambda _: {"CLINE_SESSION_BACKEND_MODE": "local"},
    files=_cline_settings,
    shell=lambda command: ("run_commands", {"commands": [command]}),
)


# Kimi CLI, mini-swe-agent and aider.


def _kimi(*words: str) -> list[str]:
    return [str(FOLDER / "kimi-cli" / "bin" / "kimi"), "--print", *words]


def _kimi_config(home: Home) -> dict[str, str]:
    lines = (
        'default_model = "lab"',
        "[models.lab]",
        'provider = "lab"',
        f'model = "{MODEL}"',
        f"max_context_size = {HUGE_WINDOW}",
        "[providers.lab]",
        'type = "kimi"',
        f'base_url = "{home.address}/v1"',
        f'api_key = "{CREDENTIAL}"',
    )
    return {".kimi/config.toml": "\n".join(lines) + "\n"}


KIMI_CLI = Agent(
    "kimi-cli",
    package="kimi-cli",
    wire="openai-chat",
    command=lambda task: _kimi("--prompt", task),
    again=lambda task: _kimi("--continue", "--prompt", task),
    environment=lambda _: {"KIMI_CLI_NO_AUTO_UPDATE": "1"},
    files=_kimi_config,
    shell=lambda command: ("Shell", {"command": command}),
    window=30_000,
    many_files=24,
    remarks="the last release that works; its successor is Kimi Code",
)


def _mini(task: str) -> list[str]:
    program = str(FOLDER / "mini-swe-agent" / "bin" / "mini")
    return [program, "--yolo", "--exit-immediately", "--cost-limit", "0", "--model", f"openai/{MODEL}", "--task", task]


def _mini_environment(home: Home) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": f"{home.address}/v1",
        "OPENAI_API_KEY": CREDENTIAL,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


MINI = Agent(
    "mini-swe-agent",
    package="mini-swe-agent",
    wire="openai-chat",
    command=_mini,
    again=None,
    environment=_mini_environment,
    files=nothing,
    shell=lambda command: ("bash", {"command": command}),
    remarks="its LiteLLM needs the package `mcp`",
    last_command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
)


def _aider(_: str) -> list[str]:
    switches = ("git", "pretty", "check-update", "show-model-warnings", "analytics", "show-release-notes", "gitignore")
    program = str(FOLDER / "aider-chat" / "bin" / "aider")
    options = [
        "--yes-always",
        "--edit-format",
        "whole",
        "--map-tokens",
        "0",
        "--max-chat-history-tokens",
        str(HUGE_WINDOW),
    ]
    return [program, "--model", f"openai/{MODEL}", *options, *(f"--no-{switch}" for switch in switches)]


def _aider_lines(task: str, files: int) -> str:
    shown = (f"/run cat harbour_{number}.txt\nThis is harbour {number}." for number in range(files))
    return "\n".join([task, *shown, "That was the last one: write the sum.", "/exit", ""])


AIDER = Agent(
    "aider",
    package="aider-chat",
    wire="openai-chat",
    command=_aider,
    again=None,
    environment=lambda home: {"OPENAI_API_BASE": f"{home.address}/v1", "OPENAI_API_KEY": CREDENTIAL},
    files=nothing,
    shell=None,
    typed=_aider_lines,
    moves_messages=True,
    remarks="has no tools: the files are shown with `/run`; its reminder moves with each request, which breaks the cache",
)


# SDKs: the examples of the guide, with the address and the folder of a run.

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "agents.md"
GUIDE_ADDRESS = "http://127.0.0.1:8377"


def example(fence: str) -> str:
    """The block of the guide that begins with this fence."""
    found = re.search(rf"^```{fence}\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found, f"{GUIDE.name} has no block ```{fence}"
    return found[1]


def _vercel_example(home: Home, variant: str) -> dict[str, str]:
    lines = example("js agent").splitlines()
    for other in example(f"js agent {variant}").splitlines() if variant else ():
        start = other.partition("{ create")[0] if other.startswith("import") else "const provider"
        lines = [other if line.startswith(start) and ("create" in line) else line for line in lines]
    return {"example.mjs": "\n".join(lines).replace(GUIDE_ADDRESS, home.address)}


def vercel(package: str, variant: str, wire: str) -> Agent:
    """A loop of the Vercel AI SDK with one of its providers."""
    find = f'ln -sfn "{PACKAGES}" "$HOME/node_modules" && exec "$0" "$HOME/example.mjs" "$1"'
    return Agent(
        f"vercel-ai-sdk-{package.rpartition('/')[2]}",
        package="ai",
        wire=wire,
        command=lambda task: ["bash", "-c", find, _node(), task],
        again=None,
        environment=lambda _: {"API_KEY": CREDENTIAL, "MODEL": MODEL},
        files=lambda home: _vercel_example(home, variant),
        shell=lambda command: ("shell", {"command": command}),
        remarks=f"the example above, `{package}`",
    )


def _claude_sdk(task: str) -> list[str]:
    return [
        "bash",
        "-c",
        'exec "$0" "$HOME/example.py" "$1"',
        str(FOLDER / "claude-agent-sdk" / "bin" / "python"),
        task,
    ]


CLAUDE_AGENT_SDK = replace(
    CLAUDE_CODE,
    name="claude-agent-sdk",
    package="claude-agent-sdk",
    command=_claude_sdk,
    again=None,
    environment=lambda _: {"API_KEY": CREDENTIAL, "MODEL": MODEL, "DISABLE_AUTO_COMPACT": "1"},
    files=lambda home: {"example.py": example("python agent").replace(GUIDE_ADDRESS, home.address)},
    remarks="the example above",
)


AGENTS = (
    opencode("@ai-sdk/openai-compatible"),
    opencode("@ai-sdk/anthropic"),
    CODEX,
    pi("openai-completions"),
    pi("anthropic-messages"),
    CLAUDE_CODE,
    GEMINI_CLI,
    QWEN_CODE,
    CONTINUE,
    CLINE,
    KIMI_CLI,
    MINI,
    AIDER,
    vercel("@ai-sdk/openai-compatible", "", "openai-chat"),
    vercel("@ai-sdk/anthropic", "anthropic", "anthropic-messages"),
    CLAUDE_AGENT_SDK,
)
"""The agents and SDKs, some of them by two interfaces."""


LARGE_OUTPUT = 64_000
"""The output limit of a model, of which OpenCode asks for 32,000."""

DEFAULT_OUTPUT = (
    CLAUDE_CODE,
    replace(QWEN_CODE, files=_qwen_settings, remarks=""),
    opencode("@ai-sdk/openai-compatible", LARGE_OUTPUT),
    opencode("@ai-sdk/anthropic", LARGE_OUTPUT),
)
"""Agents that ask for as much output as they do by default."""
