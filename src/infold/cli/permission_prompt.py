"""Ask the person at the terminal whether an agent may do what it wishes; without a terminal nobody is asked, which is a no."""

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
from infold.cli.render import legible, one_line

MOST_WISHES, LONGEST_WISH = 5, 80
"""How many refused wishes are named at the end, and how much of each."""


LONGEST_GRANT = 240
"""Characters that what leave for good would mean is told in."""


LONGEST_RULE = 200
"""A rule for a longer command is none that anybody would copy."""


_ANSWERS: dict[str, Consent] = {"y": "once", "yes": "once", "a": "always", "always": "always", "n": "no", "no": "no"}


def can_ask(source: IO[str] | None) -> bool:
    """Whether a person sits there who can be asked."""
    return source is not None and source.isatty()


def leave_wanted(refused: Sequence[ToolRefused]) -> str:
    """What was not permitted because nobody could be asked, and the options that would have given leave."""
    wishes = list(dict.fromkeys(one_line(f"{one.tool}:{one.what}", LONGEST_WISH) for one in refused))
    more = f" and {len(wishes) - MOST_WISHES} more" if len(wishes) > MOST_WISHES else ""
    rules = dict.fromkeys(rule for one in refused[:MOST_WISHES] for rule in one.allow)
    short = [shlex.quote(rule) for rule in rules if rule == one_line(rule, LONGEST_RULE)]
    leave = " ".join(f"--allow {rule}" for rule in short) or "a rule for --allow that is as long as that"
    return f"not permitted, as nobody could be asked: {', '.join(wishes[:MOST_WISHES])}{more}; give leave with {leave}"


def forget_typed(source: IO[str]) -> None:
    """Forget what was typed at a terminal and not yet read."""
    with suppress(termios.error, ValueError, OSError):
        termios.tcflush(source, termios.TCIFLUSH)


def trust_for(source: IO[str] | None, console: Console) -> Callable[[Path, Sequence[str]], bool] | None:
    """Return what asks the person at this terminal whether a folder is trusted; `None` without a terminal."""
    if source is None or not can_ask(source):
        return None

    def ask(folder: Path, brought: Sequence[str]) -> bool:
        more = f" and {len(brought) - MOST_WISHES} more" if len(brought) > MOST_WISHES else ""
        files = ", ".join(one_line(name, LONGEST_WISH) for name in brought[:MOST_WISHES])
        console.print(Text(legible(f"? This folder has rules of its own for the agent: {files}{more}"), "bold yellow"))
        console.print(Text("  Use them only if you trust those who wrote them. You are asked once.", "dim"))
        console.print(Text(legible(f"  Trust {folder} and all below it?")))
        forget_typed(source)
        answer = _answered(source, console, "  [bold]y[/]es or [bold]n[/]o: ")
        return answer in ("once", "always")

    return ask


def _answered(source: IO[str], console: Console, question: str) -> Consent:
    """Return what is answered, asking until it is an answer; no where the terminal has gone."""
    while True:
        console.print(question, end="")
        line = source.readline()
        if not line:
            return "no"
        answer = _ANSWERS.get(line.strip().lower())
        if answer is not None:
            return answer


def consent_for(source: IO[str] | None, console: Console) -> Callable[[ActionRequest], Consent]:
    """Who decides on wishes: the person at this terminal, or nobody."""
    if source is None or not can_ask(source):
        return lambda _: "no"

    def ask(action: ActionRequest) -> Consent:
        where = f" ({action.why or 'outside the project'})" if action.outside else ""
        console.print(Text(legible(f"? {action.tool}{where}: {action.what}"), style="bold yellow"))
        console.print(
            Text(f"  always would allow {one_line(format_rules(granted_rules(action)), LONGEST_GRANT)}", style="dim")
        )
        forget_typed(source)  # none of it is an answer to this question
        return _answered(source, console, "  [bold]y[/]es, [bold]a[/]lways in this session, or [bold]n[/]o: ")

    return ask
