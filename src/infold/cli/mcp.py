"""`infold mcp`: recall as tools for any agent that speaks the Model Context Protocol."""

import signal
import sys
from importlib import import_module
from typing import Any

import click

from infold.cli import options
from infold.cli.session_lookup import reading_store
from infold.errors import UsageError
from infold.mcp.tools import RecallTools

SERVER = "infold.mcp.server"
"""Found by name when it is started, so that this help can be read without the SDK."""


@click.command("mcp", short_help="Give any agent recall, as a server of the Model Context Protocol.")
@click.option(
    "--store",
    metavar="PLACE",
    help="Where the sessions are: a file's path or a postgresql:// address; else as INFOLD_STORE or a file of settings says, "
    "else your own.",
)
@click.option("--session", metavar="ID", default="", help="The session to recall from; else the last changed one.")
@click.option("--tenant", metavar="NAME", help="Whose sessions, in the store of a gateway for several.")
@click.option(
    "--budget",
    metavar="TOKENS",
    default="2k",
    show_default=True,
    callback=options.tokens_of,
    help="The most that one answer may hold, such as 4000 or 8k.",
)
def mcp(store: str | None, session: str, tenant: str | None, budget: int) -> None:
    """Serve recall over standard input and output, for a client that starts this command by itself.

    Its tools: recall searches a session or reads parts by their handles, read reads one part, sessions lists what there is.
    No session is ever changed. Needs the extra mcp: pip install 'infold[mcp]'.

    \b
    Examples:
      claude mcp add infold -- infold mcp
      claude mcp add infold -- infold mcp --store ~/gateway.sqlite3
    """
    server = _server()
    with reading_store(store) as opened:
        if sys.stdin.isatty():
            click.echo("infold mcp speaks to a program, not to a person; end it with Ctrl-C", err=True)
        # The SDK waits for input in a thread that no exception reaches. Nothing is being written that could be cut short.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        server.serve(RecallTools(opened, tenant, session, budget))


def _server() -> Any:
    try:
        return import_module(SERVER)
    except ModuleNotFoundError as error:
        problem = f"the MCP SDK is not installed (there is no module {error.name})"
        raise UsageError(f"{problem}; pip install 'infold[mcp]'") from error
