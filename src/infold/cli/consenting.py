"""Ask the person at the terminal whether an agent may do what it wishes; without a terminal, nobody is asked."""

from collections.abc import Callable
from typing import IO

from rich.console import Console
from rich.text import Text

from infold.agent.permissions import Consent
from infold.agent.tools.tool import Wish
from infold.cli.render import legible

__all__ = ["consent_for"]

_ANSWERS: dict[str, Consent] = {"y": "once", "yes": "once", "a": "always", "always": "always", "n": "no", "no": "no"}


def consent_for(source: IO[str] | None, console: Console) -> Callable[[Wish], Consent]:
    """Who decides on wishes: the person at this terminal, or nobody, which is a no."""
    if source is None or not source.isatty():
        return lambda _: "no"

    def ask(wish: Wish) -> Consent:
        where = " (outside the project)" if wish.outside else ""
        console.print(Text(legible(f"? {wish.tool}{where}: {wish.what}"), style="bold yellow"))
        while True:
            console.print("  [bold]y[/]es, [bold]a[/]lways in this session, or [bold]n[/]o: ", end="")
            line = source.readline()
            if not line:  # the terminal has gone
                return "no"
            answer = _ANSWERS.get(line.strip().lower())
            if answer is not None:
                return answer

    return ask
