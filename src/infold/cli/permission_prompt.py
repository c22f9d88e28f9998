"""Ask at the terminal for permissions, which are refused without one."""

import shlex
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.text import Text

from infold.agent.events import ToolRefused
from infold.agent.permissions import Consent, format_rules, granted_rules
from infold.agent.tools.tool import ActionRequest
from infold.reports.text import one_line, printable

MOST_NAMED, LONGEST_NAME = 5, 80
"""How many refused actions or files are named, and how much of each."""

LONGEST_GRANT = 240
"""Characters that describe what "always" would allow."""

LONGEST_RULE = 200
"""Longer rules are not suggested."""

_ANSWERS: dict[str, Consent] = {"y": "once", "yes": "once", "a": "always", "always": "always", "n": "no", "no": "no"}


def can_ask(source: IO[str] | None) -> bool:
    """Whether input comes from a terminal."""
    return source is not None and source.isatty()


def denied_hint(refused: Sequence[ToolRefused]) -> str:
    """Return what was refused for lack of a terminal to ask on, and the options that would have allowed it."""
    actions = list(dict.fromkeys(one_line(f"{one.tool}:{one.what}", LONGEST_NAME) for one in refused))
    more = f" and {len(actions) - MOST_NAMED} more" if len(actions) > MOST_NAMED else ""
    rules = dict.fromkeys(rule for one in refused[:MOST_NAMED] for rule in one.allow)
    short = [shlex.quote(rule) for rule in rules if rule == one_line(rule, LONGEST_RULE)]
    allow = " ".join(f"--allow {rule}" for rule in short) or "an --allow rule for the whole command"
    return f"not permitted without a terminal to ask on: {', '.join(actions[:MOST_NAMED])}{more}; allow it with {allow}"


def discard_typed(source: IO[str]) -> None:
    """Discard what was typed at a terminal and not yet read."""
    with suppress(termios.error, ValueError, OSError):
        termios.tcflush(source, termios.TCIFLUSH)


def trust_prompt(source: IO[str] | None, console: Console) -> Callable[[Path, Sequence[str]], bool] | None:
    """Return a function that asks whether a folder is trusted; `None` without a terminal."""
    if source is None or not can_ask(source):
        return None

    def ask(folder: Path, brought: Sequence[str]) -> bool:
        more = f" and {len(brought) - MOST_NAMED} more" if len(brought) > MOST_NAMED else ""
        files = ", ".join(one_line(name, LONGEST_NAME) for name in brought[:MOST_NAMED])
        console.print(
            Text(printable(f"? This folder has rules of its own for the agent: {files}{more}"), "bold yellow")
        )
        console.print(Text("  Use them only if you trust those who wrote them. You are asked once.", "dim"))
        console.print(Text(printable(f"  Trust {folder} and all below it?")))
        discard_typed(source)
        answer = _read_answer(source, console, "  [bold]y[/]es or [bold]n[/]o: ")
        return answer in ("once", "always")

    return ask


def _read_answer(source: IO[str], console: Console, question: str) -> Consent:
    """Ask until the answer is valid; no if the terminal is gone."""
    while True:
        console.print(question, end="")
        line = source.readline()
        if not line:
            return "no"
        answer = _ANSWERS.get(line.strip().lower())
        if answer is not None:
            return answer


def permission_prompt(source: IO[str] | None, console: Console) -> Callable[[ActionRequest], Consent]:
    """Return a function that asks whether an action is allowed; without a terminal it always answers no."""
    if source is None or not can_ask(source):
        return lambda _: "no"

    def ask(action: ActionRequest) -> Consent:
        where = f" ({action.why or 'outside the project'})" if action.outside else ""
        console.print(Text(printable(f"? {action.tool}{where}: {action.what}"), style="bold yellow"))
        console.print(
            Text(f"  always would allow {one_line(format_rules(granted_rules(action)), LONGEST_GRANT)}", style="dim")
        )
        discard_typed(source)  # typed before the question
        return _read_answer(source, console, "  [bold]y[/]es, [bold]a[/]lways in this session, or [bold]n[/]o: ")

    return ask
