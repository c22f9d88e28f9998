"""The command where its packages are, and where they are not."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def started(
    *missing: str, module: str = "infold.__main__", arguments: tuple[str, ...] = ("--help",)
) -> tuple[int, str]:
    """The status and all that is said by the command in a process without these packages."""
    code = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); sys.argv[1:] = {list(arguments)!r}; "
    code += (
        f"import runpy; runpy.run_module('infold') if {module == 'infold'} else __import__('{module}').__main__.main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


def test_the_command_starts_the_command_line() -> None:
    """With its packages it is the command that is documented."""
    status, said = started()

    assert status == 0
    assert said.startswith("Usage: infold [OPTIONS] COMMAND")


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_a_bare_install_says_what_to_install(missing: str) -> None:
    """Without the extra there is one line and no traceback, whichever package is met first."""
    status, said = started(missing, arguments=("models",))

    assert (status, said.count("\n")) == (1, 1)
    assert "pip install 'infold[cli]'" in said


@pytest.mark.parametrize(
    ("verb", "extra"), [("serve", "server"), ("run", "agent"), ("mcp", "mcp"), ("no such verb", "cli")]
)
def test_the_line_names_the_extra_of_the_verb(verb: str, extra: str) -> None:
    """One install is enough for the verb that was asked for."""
    assert f"pip install 'infold[{extra}]'" in started("click", arguments=(verb,))[1]


def uvx(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The same as `uvx` starts it: without packages, in an environment of its cache, and with its program in `UV`."""
    program = folder / "uv"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    code = (
        "import sys; sys.modules['click'] = None; "
        f"sys.prefix = {str(folder / 'archive-v0' / 'x')!r}; sys.argv[1:] = {list(arguments)!r}; "
        "__import__('infold.__main__').__main__.main()"
    )
    environment = {**os.environ, "UV": str(program), **variables}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    return run.returncode, run.stdout + run.stderr


def test_uvx_needs_no_extra_to_be_named(tmp_path: Path) -> None:
    """`uvx infold demo` goes on with the packages of its extra, from where infold itself was installed."""
    status, said = uvx(tmp_path, "demo", "--window", "16k")
    lines = said.splitlines()

    assert (status, lines[:3], lines[4:]) == (0, ["tool", "run", "--from"], ["infold", "demo", "--window", "16k"])
    assert lines[3].startswith(("infold[cli] @ file://", f"infold[cli]=={version('infold')}"))
    assert "infold[server]" in uvx(tmp_path, "serve")[1]


def test_uvx_is_started_once_more_only(tmp_path: Path) -> None:
    """If the packages are missing there too, or `UV` names no program, the line is printed."""
    for variables in ({"INFOLD_STARTED_AGAIN": "1"}, {"UV": "uv"}, {"UV": ""}):
        status, said = uvx(tmp_path, "demo", **variables)
        assert (status, said) == (1, "Error: the command needs more packages; run: pip install 'infold[cli]'\n")


def test_another_missing_module_is_not_explained_away() -> None:
    """A mistake of ours is no missing extra."""
    status, said = started("msgspec")

    assert status == 1
    assert "ModuleNotFoundError" in said


def test_serve_has_help_without_what_a_server_needs() -> None:
    """What a verb does can be read before its extra is installed; serving then names the extra."""
    assert started("uvicorn", "starlette", "httpx2", arguments=("serve", "--help"))[0] == 0
    status, said = started("uvicorn", arguments=("serve",))
    assert (status, said) == (1, "Error: uvicorn is not installed; pip install 'infold[gateway]'\n")


def test_every_public_name_can_be_had_on_a_bare_install() -> None:
    """`wrap` needs an SDK only when it wraps, and then says which extra brings it."""
    code = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from infold import *\n"
        "class AsyncAnthropic:\n    def with_options(self): ...\n"
        "try: wrap(AsyncAnthropic())\n"
        "except UsageError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert run.stderr == ""
    assert "httpx2" in run.stdout
    assert run.stdout.endswith("pip install --upgrade 'infold[anthropic]'\n")
