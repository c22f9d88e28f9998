"""Record `docs/guides/demo.txt`: what `infold demo --fast` leaves on a terminal.

    python docs/demo_recording.py

Needs tmux and the extra `tokens`.
"""

import os
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

from tests.e2e.terminal import terminal  # noqa: E402 - after the path to the tests

__all__ = ["main"]

RECORDING = PROJECT / "docs" / "guides" / "demo.txt"
SIZE = (100, 120)
"""Columns and lines; what has scrolled away is drawn only once, so all of it stays in sight."""


def main() -> None:
    """Play the demo to its end and keep the screen."""
    command = [sys.executable, "-m", "infold", "demo", "--fast"]
    with terminal(command, folder=PROJECT, environ={**os.environ, "LANG": "C.UTF-8"}, size=SIZE) as shown:
        status = shown.wait_end()
        lines = [line.rstrip() for line in shown.screen.splitlines()]
    if status:
        sys.exit(f"the demo ended with status {status}")
    RECORDING.write_text(
        "\n".join(line for line in lines if not line.startswith("Pane is dead")).rstrip() + "\n", "utf-8"
    )


if __name__ == "__main__":
    main()
