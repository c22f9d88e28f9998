"""A piece of work for an agent, and the model that does it: reads many files one after the other, then writes down a total.

The model is scripted, so every agent takes the same course; the files are read and the total is written by the agent's own
shell tool. What is asked beside the work (titles, and infold's own requests for summaries) is answered apart.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest

__all__ = ["DONE", "NEXT_TASK", "RULE", "TASK", "TOTAL", "Job", "is_main", "make_files"]

Shell: TypeAlias = Callable[[str], tuple[str, dict[str, Any]]]

RULE = "Never open anything under vendor/, not even to look."
TASK = f"Count the ships in the harbour files, one file after the other, and write the sum to total.txt. {RULE}"
NEXT_TASK = "Thank you. Look at the first harbours again, and write the sum anew."
TOTAL = 4711
DONE = "The sum of all harbours is in total.txt."
NOTES = (
    "The user wants the ships in the harbour files counted, one file after the other, and the sum written to total.txt; "
    "vendor/ must not be opened. The harbour files so far were read with cat and their ships noted. The next one follows."
)
_NAMES = (
    "Anna",
    "Berta",
    "Clara",
    "Dora",
    "Emma",
    "Frieda",
    "Gerda",
    "Hanna",
    "Ida",
    "Jutta",
    "Lotte",
    "Nora",
    "Paula",
)
_PORTS = ("Husum", "Emden", "Cuxhaven", "Wismar", "Kappeln", "Leer", "Norden", "Varel", "Brake", "Stade", "Tönning")


def make_files(folder: Path, count: int, lines: int) -> None:
    """The harbours: so many files of so many ships each, all different."""
    for number in range(count):
        rng = Random(number)
        ships = (
            f"{rng.choice(_NAMES)} {rng.randrange(100, 999)} of {rng.choice(_PORTS)}, {rng.randrange(5, 90)} m, "
            f"berth {rng.randrange(1, 40)}, leaves at {rng.randrange(24):02}:{rng.randrange(60):02}"
            for _ in range(lines)
        )
        (folder / f"harbour_{number}.txt").write_text("\n".join(ships) + "\n")


class Job:
    """The script of a model that does the work with an agent's shell tool, once for each number of files.

    `last_command` is what an agent wants to be run when its work is done.
    """

    def __init__(self, shell: Shell | None, *files: int, last_command: str = "") -> None:
        self._has_tools = shell is not None
        self._left = (
            step for count in files for step in (_steps(shell, count, last_command) if shell else _said(count))
        )

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """The next step for the agent, and a fitting word to anybody else."""
        if is_main(request, has_tools=self._has_tools):
            return next(self._left)
        return Say(NOTES if _is_summary(request) else "Counting ships")


def _steps(shell: Shell, files: int, last_command: str) -> Iterator[Say]:
    commands = [*(f"cat harbour_{number}.txt" for number in range(files)), f"echo {TOTAL} > total.txt"]
    yield from (Say(f"Next is `{command}`.", (shell(command),)) for command in commands)
    yield Say(DONE, (shell(last_command),) if last_command else ())


def _said(files: int) -> Iterator[Say]:
    yield from (Say(f"I have seen {number} harbours. Show me the next one.") for number in range(files + 1))
    yield Say(f"{DONE}\n\ntotal.txt\n```\n{TOTAL}\n```\n")


def _is_summary(request: ScriptedRequest) -> bool:
    return "Write notes on the conversation so far" in json.dumps(request.body)


def is_main(request: ScriptedRequest, *, has_tools: bool = True) -> bool:
    """Whether a request is one of the agent's own loop: it offers tools and lets them be called, where the agent has any."""
    if not has_tools:
        return not _is_summary(request)
    choice = request.body.get("tool_choice")
    forbidden = choice == "none" or (isinstance(choice, dict) and choice.get("type") == "none")
    return bool(request.body.get("tools")) and not forbidden
