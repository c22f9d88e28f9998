"""Carry out the steps of `deploy/Dockerfile` in a plain root file system, and use the resulting gateway. Needs root, no Docker.

python -m tests.packaging.image DIR

DIR is made with `debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie DIR`; it stands for the base
image and is not changed. Each stage is a copy of it. What an image adds to a root file system (layers, namespaces, the network
of containers) is not tried. Prints each step and each check; the status reports whether all passed.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from msgspec import Struct

from infold.testing import ScriptedServer

from .run import PROJECT, copy_network_files

DOCKERFILE = PROJECT / "deploy" / "Dockerfile"
KNOWN = frozenset(
    ["ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER", "WORKDIR"]
)
"""The instructions that are carried out here; `ARG` and `EXPOSE` change nothing."""

CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"
PORT = 8377
TOKEN = "a-token-for-this-run-only"
START_SECONDS, STOP_SECONDS = 60, 40


class Stage(Struct):
    """A stage of the build: its root, and what later instructions and the container inherit."""

    root: Path
    folder: str = "/"
    user: str = "root"
    variables: dict[str, str] = {}
    entrypoint: list[str] = []
    command: list[str] = []
    health: list[str] = []


def main(base: str) -> int:
    """Build, start, use and stop; the status reports whether all passed."""
    with tempfile.TemporaryDirectory(prefix="infold-image-") as folder:
        stage = build(Path(base).resolve(), Path(folder))
        faults = use(stage)
    print(*(faults or ["all checks passed"]), sep="\n")
    return int(bool(faults))


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments; continued lines are joined."""
    kept = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(kept))
    pairs = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [(name, rest.strip()) for name, rest in pairs]


def build(base: Path, folder: Path) -> Stage:
    """Carry out all instructions; return the last stage."""
    stages: dict[str, Stage] = {}
    stage = Stage(base)
    for name, rest in instructions(DOCKERFILE.read_text("utf-8")):
        print(name, rest, flush=True)
        if name == "FROM":
            stage = begin(base, folder / str(len(stages)))
            stages[rest.partition(" AS ")[2] or "last"] = stage
        elif name == "COPY":
            copy(stage, rest, stages)
        elif name == "RUN":
            in_root(stage, ["/bin/sh", "-ec", rest], check=True)
        elif name == "WORKDIR":
            stage.folder = rest
            inside(stage, rest).mkdir(parents=True, exist_ok=True)
        elif name == "ENV":
            stage.variables |= dict(pair.split("=", 1) for pair in rest.split())
        elif name == "USER":
            stage.user = rest
        elif name == "HEALTHCHECK":
            stage.health = json.loads(rest[rest.index("[") :])
        elif name in ("ENTRYPOINT", "CMD"):
            setattr(stage, name.lower().replace("cmd", "command"), json.loads(rest))
        else:
            assert name in KNOWN, f"{name} is not known here; teach it to tests/packaging/image.py"
    return stage


def begin(base: Path, root: Path) -> Stage:
    """A stage on the base image, with the name that Python has there, name resolution and certificates."""
    shutil.copytree(base, root, symlinks=True, ignore=shutil.ignore_patterns("dev", "proc", "sys", "infold-*"))
    (root / "dev").mkdir()
    subprocess.run(["mknod", "-m", "666", root / "dev" / "null", "c", "1", "3"], check=True)
    subprocess.run(["mknod", "-m", "666", root / "dev" / "urandom", "c", "1", "9"], check=True)
    (root / "tmp").chmod(0o1777)
    (root / "usr" / "local" / "bin" / "python").symlink_to("/usr/bin/python3")
    copy_network_files(root)
    return Stage(root, "/", "root", {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, [], [], [])


def inside(stage: Stage, path: str) -> Path:
    """A path of the stage as this process sees it."""
    return stage.root / (Path(stage.folder) / path).relative_to("/")


def copy(stage: Stage, rest: str, stages: dict[str, Stage]) -> None:
    """Copy files of the project, or of another stage."""
    *sources, target = rest.split()
    other = stages[sources.pop(0).partition("=")[2]] if sources[0].startswith("--from=") else None
    for source in sources:
        found = inside(other, source) if other else PROJECT / source
        place = inside(stage, target)
        if found.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(found, place, symlinks=True, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copy(found, place)


def in_root(stage: Stage, command: list[str], *, check: bool = False) -> "subprocess.CompletedProcess[bytes]":
    """Run a command in the stage to its end."""
    return subprocess.run(rooted(stage, command), check=check, env=environment(stage))


def rooted(stage: Stage, command: list[str]) -> list[str]:
    """A command as it is started in the stage, by its user and in its folder."""
    return [CHROOT, f"--userspec={stage.user}:", str(stage.root), "/usr/bin/env", "-C", stage.folder, *command]


def environment(stage: Stage) -> dict[str, str]:
    """The variables of the stage, and what this machine's network needs."""
    network = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_CERT", "SSL_CERT"))}
    return {**network, **stage.variables}


def use(stage: Stage) -> list[str]:
    """Start the gateway as a container would be, send it a request, and stop it; return what was wrong."""
    faults = []
    with ScriptedServer() as provider:
        variables = {
            "INFOLD_TOKEN": TOKEN,
            "INFOLD_STORE": "sessions.sqlite3",
            "INFOLD_UPSTREAMS_OPENAI_BASE_URL": provider.url,
        }
        stage.variables |= variables
        command = rooted(stage, [*stage.entrypoint, *stage.command])
        with subprocess.Popen(command, env=environment(stage), stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                print(process.stdout.readline().strip())
                faults = used(stage, process.pid)
            finally:
                process.send_signal(signal.SIGTERM)
            status = process.wait(STOP_SECONDS)
        if len(provider.requests) != 1:
            faults.append(f"the provider received {len(provider.requests)} requests, not 1")
    return [*faults, *([f"the gateway ended with {status}, not 0"] if status else [])]


def used(stage: Stage, pid: int) -> list[str]:
    """Check the running gateway: its user, its health check, its store, a request with the token and one without."""
    user = Path(f"/proc/{pid}/status").read_text("ascii").partition("Uid:")[2].split()[0]
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello."}]}
    sessions = inside(stage, "sessions.sqlite3")
    results = {
        "it does not run as root": user not in ("0", ""),
        "its health check passes": in_root(stage, stage.health).returncode == 0,
        "its store answers": status_of("/readyz") == 200,
        "a request with the token is answered": status_of(f"/t/{TOKEN}/v1/chat/completions", body) == 200,
        "a request without it is refused": status_of("/v1/chat/completions", body) == 401,
        "sessions are stored, for its user alone": sessions.exists() and sessions.stat().st_mode & 0o77 == 0,
    }
    print(*(f"{'passed' if passed else 'FAILED'}: {name}" for name, passed in results.items()), sep="\n")
    return [f"not so: {name}" for name, passed in results.items() if not passed]


def status_of(path: str, body: object = None) -> int:
    """The status of an answer; with a body the request is a POST."""
    content = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", content, headers)
    try:
        with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
