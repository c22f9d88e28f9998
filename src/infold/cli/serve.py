"""`infold serve`: run the gateway and its page."""

from importlib import import_module
from typing import Any

import click

from infold.cli import options

SERVE_APP = "infold.cli.serve_app"
"""Imported by name, so that --help works without the packages of the gateway."""


@click.command()
@click.option("--host", default=None, help="The address to listen on; other than loopback it needs INFOLD_TOKEN.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="The port; 0 for any free one.")
@click.option("--store", default=None, help="The store: a file, postgresql://… or memory.")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="PROVIDER=URL",
    help="Where requests go: openai=https://api.openai.com, anthropic=…, gemini=…, bedrock=…, vertex=… May be repeated.",
)
@click.option(
    "--window",
    metavar="TOKENS",
    callback=options.parse_tokens,
    help="The window in tokens, such as 32k, in place of every model's own.",
)
@options.working_window
@options.priced
@options.memory
@click.option("--verbose", is_flag=True, help="Write a line to stderr for each request, compaction and upstream error.")
def serve(**given: Any) -> None:
    """Listen for agents and keep each of their sessions inside its model's window.

    Point any client at the printed address; it needs no other change. Requests are relayed to the upstream of their provider
    with the client's own credentials, which are never stored. Without an upstream a small embedded model answers, so it works
    without a key. The page at / shows every session, and so does `infold top` in another terminal. With --verbose there is a line
    for each request (method, path, status, time, session, tokens in and out) and for each compaction; never what was said.

    \b
    Example:
      infold serve --upstream openai=https://api.openai.com --upstream anthropic=https://api.anthropic.com
    """
    import_module(SERVE_APP).serve_until_signal(**given)
