"""`python -m infold`: the same as the command `infold`.

Python puts the current folder first on its path for `-m`. It is removed before anything else is imported: a project must not
bring modules that infold then takes for its own dependencies.
"""

import os
import sys

if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109
    del sys.path[0]

from infold.command import main

if __name__ == "__main__":
    main()
