"""The command `infold`, also as `python -P -m infold`; without its packages it names the extra to install.

Without `-P` Python looks into the current folder first, before anything here runs, and imports a project's own `infold.py`.
Imports nothing but the standard library, because a bare install starts it.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

FACE = "infold.cli.main"
NEEDED = ("click", "rich")
"""What the extra `cli` installs."""

EXTRAS = {"chat": "agent", "mcp": "mcp", "run": "agent", "serve": "server"}
"""The extra that a verb needs; for all others it is `cli`."""

STARTED_AGAIN = "INFOLD_STARTED_AGAIN"
"""Set for a command that this one started, so that it does not start another."""


def main() -> None:
    """Start the command line; without its packages print how to get them and exit with status 1."""
    try:
        face = import_module(FACE)
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        extra = EXTRAS.get(sys.argv[1] if len(sys.argv) > 1 else "", "cli")
        _start_again(extra)
        sys.exit(f"Error: the command needs more packages; run: pip install 'infold[{extra}]'")
    face.main(prog_name="infold")


def _start_again(extra: str) -> None:
    """Run the same command with an extra if `uvx` started this one; return otherwise.

    The environments of `uvx` last for one command, so nothing can be installed into them. `uvx` sets `UV` to its own program and
    keeps them in folders `archive-v…` of its cache.
    """
    uv, kept = os.environ.get("UV", ""), Path(sys.prefix).parent.name.startswith("archive-v")
    if not kept or not Path(uv).is_absolute() or STARTED_AGAIN in os.environ:
        return
    os.environ[STARTED_AGAIN] = "1"
    os.execv(uv, (uv, "tool", "run", "--from", _requirement(extra), "infold", *sys.argv[1:]))


def _requirement(extra: str) -> str:
    """Return this version of infold with an extra, from the place it was installed from."""
    import json
    from importlib.metadata import distribution

    own = distribution("infold")
    place = json.loads(own.read_text("direct_url.json") or "{}").get("url")
    return f"infold[{extra}] @ {place}" if place else f"infold[{extra}]=={own.version}"


if __name__ == "__main__":
    # Python puts the current folder first on its path for `-m`. It is removed before anything else is imported: a project must
    # not bring modules that infold then takes for its own dependencies.
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109
        del sys.path[0]
    main()
