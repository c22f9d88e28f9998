"""`infold chat`: talk with the agent in this folder."""

import sys
from importlib import import_module
from typing import Any

import click

from infold.cli.agent_options import Job, working
from infold.errors import UsageError

TALK = "infold.cli.chat.app"
"""Found by name when a chat begins, so that this help can be read without prompt_toolkit."""


@click.command("chat", short_help="Talk with the agent, in this folder.")
@working
def chat(**given: Any) -> None:
    """Talk with the agent in this folder: it reads, searches, edits and runs commands, and asks where you might mind.

    The session stays inside the model's window and is kept: leave whenever you like and come back with --session. Below the
    prompt stand the model, the session, how full the window is, the cost, the share that came from the provider's cache, and the
    compactions so far. /help lists the commands. Ctrl-C stops a step, not the session.

    \b
    Examples:
      infold chat --model claude-sonnet-4-5
      infold chat --session last
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('infold chat needs a terminal; without one use: infold run "what to do"')
    _talk().talk(Job(**given))


def _talk() -> Any:
    try:
        return import_module(TALK)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"infold chat needs {error.name}, which is not installed; pip install 'infold[agent]'"
        ) from error
