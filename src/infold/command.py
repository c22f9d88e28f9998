"""The command `infold`, also where its packages are missing: then it says which extra brings them.

Needs nothing itself, for it is what a bare install starts.
"""

import sys
from importlib import import_module

FACE = "infold.cli.main"
NEEDED = ("click", "rich")
"""What the extra `cli` brings."""


def main() -> None:
    """Start the command line; without its packages one line tells how to get them, and the status is 1."""
    try:
        face = import_module(FACE)
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.exit("Error: the command needs more packages; run: pip install 'infold[cli]'")
    face.main(prog_name="infold")
