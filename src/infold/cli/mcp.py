"""`infold mcp`: serve recall to any agent over the Model Context Protocol."""

import signal
import sys
from importlib import import_module
from typing import Any

import click

from infold.cli import options
from infold.cli.session_lookup import open_existing_store
from infold.errors import UsageError
from infold.mcp.tools import RecallTools

SERVER = "infold.mcp.server"
"""Imported by name, so that --help works without the SDK."""


@click.command("mcp")
@click.option(
    "--store",
    metavar="PLACE",
    help="The store: a file's path or a postgresql:// address; by default as set by INFOLD_STORE or a settings file, else "
    "your own.",
)
@click.option(
    "--session", metavar="ID", default="", help="The session to recall from; by default the last changed one."
)
@click.option("--tenant", metavar="NAME", help="The tenant, in the store of a gateway.")
@click.option(
    "--budget",
    metavar="TOKENS",
    default="2k",
    show_default=True,
    callback=options.parse_tokens,
    help="The largest answer, such as 4000 or 8k.",
)
def mcp(store: str | None, session: str, tenant: str | None, budget: int) -> None:
    """Serve recall over standard input and output, for a client that starts this command itself.

    Tools: recall searches a session or reads parts by their handles, read reads one part, sessions lists the sessions,
    compact asks for a compaction. Sessions are never changed. Needs the extra mcp: pip install 'infold[mcp]'.

    \b
    Examples:
      claude mcp add infold -- infold mcp
      claude mcp add infold -- infold mcp --store ~/gateway.sqlite3
    """
    server = _server()
    with open_existing_store(store) as opened:
        if sys.stdin.isatty():
            click.echo("infold mcp is meant to be started by a program; stop it with Ctrl-C", err=True)
        # The SDK waits for input in a thread that exceptions do not reach; nothing is being written, so the process may die.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        server.serve(RecallTools(opened, tenant, session, budget))


def _server() -> Any:
    try:
        return import_module(SERVER)
    except ModuleNotFoundError as error:
        problem = f"the MCP SDK is not installed (no module {error.name})"
        raise UsageError(f"{problem}; pip install 'infold[mcp]'") from error
