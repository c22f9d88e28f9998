"""The command `infold`, also as `python -m infold`; without its packages it names the extra to install.

Imports nothing but the standard library, because a bare install starts it.
"""

import os
import sys
from importlib import import_module

FACE = "infold.cli.main"
NEEDED = ("click", "rich")
"""What the extra `cli` installs."""


def main() -> None:
    """Start the command line; without its packages print how to get them and exit with status 1."""
    try:
        face = import_module(FACE)
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.exit("Error: the command needs more packages; run: pip install 'infold[cli]'")
    face.main(prog_name="infold")


if __name__ == "__main__":
    # Python puts the current folder first on its path for `-m`. It is removed before anything else is imported: a project must
    # not bring modules that infold then takes for its own dependencies.
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109
        del sys.path[0]
    main()
