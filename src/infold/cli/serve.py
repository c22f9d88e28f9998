"""`infold serve`: the gateway and its page, on one address. What is asked for is read here; `serving` does it."""

from importlib import import_module

import click

from infold.cli import options

SERVING = "infold.cli.serve_app"
"""Found by name when it is started, so that this help can be read without what a server needs."""


@click.command(short_help="Keep any agent inside its window by its base URL.")
@click.option("--host", default=None, help="Where to listen; other addresses than loopback need INFOLD_TOKEN.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="The port; 0 for any that is free.")
@click.option("--store", default=None, help="Where sessions live: a file, postgresql://… or memory.")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="PROVIDER=URL",
    help="Where requests go: openai=https://api.openai.com, anthropic=…, gemini=… May be repeated.",
)
@click.option(
    "--window",
    metavar="TOKENS",
    callback=options.tokens_of,
    help="The window in tokens, such as 32k, in place of every model's own.",
)
def serve(
    host: str | None, port: int | None, store: str | None, upstreams: tuple[str, ...], window: int | None
) -> None:
    """Listen for agents and keep each of their sessions inside its model's window.

    Point any client at the address that is printed; it needs no other change. Requests go on to the upstream of their
    provider with the client's own credentials, which are never stored. Without an upstream the small embedded model answers,
    so that it works at once with no key. The page at / shows every session.

    \b
    Example:
      infold serve --upstream openai=https://api.openai.com --upstream anthropic=https://api.anthropic.com
    """
    import_module(SERVING).serve_until_told(host=host, port=port, store=store, upstreams=upstreams, window=window)
