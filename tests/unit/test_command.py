"""The command where its packages are, and where they are not."""

import subprocess
import sys

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
