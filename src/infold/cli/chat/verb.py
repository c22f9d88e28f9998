"""`infold chat`: chat with the agent in this folder."""

import sys
from importlib import import_module
from typing import Any

import click

from infold.cli.agent_options import AgentOptions, agent_options
from infold.errors import UsageError

CHAT_APP = "infold.cli.chat.app"
"""Imported by name, so that --help works without prompt_toolkit."""


@click.command("chat")
@agent_options
def chat(**given: Any) -> None:
    """Chat with the agent in this folder: it reads, searches, edits and runs commands, and asks before risky ones.

    The session stays inside the model's window and is stored: leave whenever you like and come back with --session. The line
    below the prompt shows the model, the session, how full the window is, the cost, the share that came from the provider's
    cache, and the compactions so far. /help lists the commands. Ctrl-C stops a step, not the session.

    \b
    Examples:
      infold chat --model claude-sonnet-4-5
      infold chat --session last
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('infold chat needs a terminal; without one use: infold run "what to do"')
    _import_app().run_chat(AgentOptions(**given))


def _import_app() -> Any:
    try:
        return import_module(CHAT_APP)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"infold chat needs {error.name}, which is not installed; pip install 'infold[agent]'"
        ) from error
