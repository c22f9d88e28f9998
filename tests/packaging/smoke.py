"""What an installed infold is asked to do, with the packages of one extra: `python smoke.py EXTRA VERSION`.

Run by the Python of an environment that has infold and this extra alone; needs the standard library and infold. Prints each check
that passed, in one line; fails with the traceback of the first that did not.
"""

import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

COMMAND = Path(sysconfig.get_path("scripts")) / "infold"
SECONDS = 180
CLIENTS = {"anthropic": "Anthropic", "openai": "OpenAI", "google": "Client"}


def library(version: str) -> None:
    """Import infold, compare its version, and make a list of messages fit."""
    import infold

    assert infold.__version__ == version, infold.__version__
    messages = [{"role": "user", "content": "Port the feed. Never touch vendor/."}]
    for n in range(60):
        messages.append({"role": "assistant", "content": f"Step {n} is done."})
        messages.append({"role": "user", "content": f"Step {n + 1}: " + "compiling the ferry feed\n" * 40})
    fitted = infold.fit(messages, window=8_000)
    assert len(fitted.messages) < len(messages)
    assert "Never touch vendor/." in str(fitted.messages)


def bare_command() -> None:
    """Without its packages the command prints one line that names the extra."""
    ended = run("--help", status=1)
    assert (ended.stdout, ended.stderr.count("\n")) == ("", 1), ended
    assert "pip install 'infold[cli]'" in ended.stderr


def help_page() -> None:
    """The command lists its verbs."""
    assert "demo" in run("--help").stdout


def demo() -> None:
    """The demo plays to its end, and every request fits."""
    assert "all requests fitted" in run("demo", "--fast", "--plain").stdout


def tokens() -> None:
    """Tokens are counted exactly."""
    import infold

    report = infold.fit([{"role": "user", "content": "Count this."}], model="gpt-4o").report
    assert "counted exactly" in report.explain(), report.explain()


def served() -> None:
    """The gateway answers on its health route, and stops when it is asked to."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(COMMAND), "serve", "--port", "0", "--store", "memory", "--upstream", "openai=http://127.0.0.1:9"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                address = process.stdout.readline().split()[4]
                with urllib.request.urlopen(f"{address}/healthz", timeout=30) as answer:
                    assert answer.read().strip() == b"ok"
            finally:
                process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def client(extra: str) -> None:
    """A client of the SDK can be wrapped."""
    import infold

    if extra == "bedrock":
        made = import_module("boto3").client("bedrock-runtime", region_name="us-east-1")
    else:
        module = import_module("google.genai" if extra == "google" else extra)
        made = getattr(module, CLIENTS[extra])(api_key="none")
    assert infold.wrap(made) is not None


def imported(*modules: str) -> None:
    """These modules of infold can be imported, with what they need."""
    for module in modules:
        import_module(f"infold.{module}")


CHECKS: dict[str, tuple[tuple[str, ...], Callable[[], None]]] = {
    "serve": (("server", "all"), served),
    "gateway": (("gateway",), lambda: imported("gateway.app", "gateway.server", "gateway.page.routes")),
    "tokens": (("tokens", "server", "all"), tokens),
    "postgres": (("postgres", "server", "all"), lambda: imported("stores.postgres")),
    "traces": (("otel", "all"), lambda: imported("observers.traces")),
    "mcp": (("mcp", "all"), lambda: imported("mcp.server")),
    "agent": (("agent", "all"), lambda: imported("agent.loop", "cli.chat.app", "models.openai")),
    "wrap anthropic": (("anthropic", "all"), lambda: client("anthropic")),
    "wrap openai": (("openai", "agent", "all"), lambda: client("openai")),
    "wrap google": (("google", "all"), lambda: client("google")),
    "wrap bedrock": (("bedrock", "all"), lambda: client("bedrock")),
}
"""By name, the extras with which a check is made, and the check."""


def checks_of(extra: str) -> dict[str, Callable[[], None]]:
    """The checks for an extra, by name, after those for all."""
    has_click, has_rich = find_spec("click"), find_spec("rich")  # some frameworks bring one or both of them
    found = {"help": help_page} if has_click else {"bare command": bare_command}
    if has_click and has_rich:
        found["demo"] = demo
    found |= {name: check for name, (extras, check) in CHECKS.items() if extra in extras}
    plug = extra.replace("-", "_")
    if find_spec(f"infold.integrations.{plug}") and extra != "all":
        found["plug"] = lambda: imported(f"integrations.{plug}")
    return found


def run(*arguments: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
    """Run the command in an empty folder; an `AssertionError` with all it printed if its status is another."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [COMMAND, *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=SECONDS,
        )
    assert ended.returncode == status, (arguments, ended.returncode, ended.stdout[-500:], ended.stderr[-2_000:])
    return ended


def main(extra: str, version: str) -> None:
    """Run all checks of an extra."""
    passed = ["fit"]
    library(version)
    for name, check in checks_of(extra).items():
        check()
        passed.append(name)
    print(", ".join(passed))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
