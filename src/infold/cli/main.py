"""The command `infold`: run a verb, and report each error in one line.

Verbs are listed in a table and imported when they are used, so that `infold --help` stays fast.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from infold.errors import InfoldError, SettingsError, did_you_mean


class Verb(Struct, frozen=True):
    """Where a verb's command is (`module:attribute`), and its line of help."""

    target: str
    help: str


VERBS = {
    "chat": Verb("infold.cli.chat.verb:chat", "Chat with the agent, in this folder."),
    "compact": Verb("infold.cli.compact:compact_verb", "Fold a session into a window and show the result."),
    "config": Verb("infold.cli.config:config", "Show every setting and where its value came from."),
    "convert": Verb("infold.cli.convert:convert", "Write a session in another format."),
    "delete": Verb("infold.cli.sessions:delete", "Remove sessions for good."),
    "demo": Verb("infold.cli.demo:demo", "Watch a coding session being kept inside a small window."),
    "diff": Verb("infold.cli.diff:diff", "Show what a session changed on disk."),
    "doctor": Verb("infold.cli.doctor:doctor", "Check this installation, and say how to mend what is wrong."),
    "export": Verb("infold.cli.convert:export", "Write a session as markdown, as infold's log or for OpenCode."),
    "init": Verb("infold.cli.config:init", "Write a settings file with a comment on every setting."),
    "inspect": Verb("infold.cli.inspect:inspect", "Show what fills the window of a recorded session."),
    "mcp": Verb("infold.cli.mcp:mcp", "Serve recall to any agent over the Model Context Protocol."),
    "models": Verb("infold.cli.models:models", "Show limits and prices of models."),
    "recall": Verb("infold.cli.recall:recall", "Search a recorded session."),
    "replay": Verb("infold.cli.replay:replay", "Compute what policies would have cost on your transcripts."),
    "run": Verb("infold.cli.run:run", "Carry out one task with the agent, in this folder."),
    "serve": Verb("infold.cli.serve:serve", "Keep any agent inside its window by its base URL."),
    "sessions": Verb("infold.cli.sessions:sessions", "List the stored sessions."),
    "show": Verb("infold.cli.show:show", "Print a session."),
    "top": Verb("infold.cli.top:top", "Watch the sessions of a running gateway."),
    "undo": Verb("infold.cli.undo:undo", "Undo a session's newest compaction."),
}

EXTRAS = {
    **dict.fromkeys(("click", "rich"), "cli"),
    **dict.fromkeys(("brotli", "prometheus_client", "zstandard"), "gateway"),
    **dict.fromkeys(("anyio", "h11", "httpcore2", "httpx2", "jinja2", "markupsafe", "starlette", "uvicorn"), "gateway"),
    **dict.fromkeys(("psycopg", "psycopg_pool"), "postgres"),
    "anthropic": "anthropic",
    "boto3": "bedrock",
    "google": "google",
    "mcp": "mcp",
    "openai": "openai",
    "opentelemetry": "otel",
    "prompt_toolkit": "agent",
    "pyarrow": "parquet",
    "ray": "ray",
}
"""The extra that installs a package that a verb needs."""


class BadUsage(click.ClickException):
    """An error of the command line, exit status 2."""

    exit_code = 2


class LazyGroup(click.Group):
    """A group whose verbs are imported when they are called, not when they are listed."""

    def __init__(self, *, verbs: dict[str, Verb], **settings: Any) -> None:
        super().__init__(**settings)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        return sorted({*self.verbs, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the verb of that name."""
        if cmd_name not in self.verbs:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.verbs[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or suggest similar ones."""
        known = self.list_commands(ctx)
        is_known = args[0] in known or args[0].startswith("-")
        meant = "" if is_known or ctx.resilient_parsing else did_you_mean(args[0], known, most=2)
        if meant:
            ctx.fail(f"No such command {args[0]!r}; {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in sorted(self.verbs.items())])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a verb without importing any."""
        verbs = {name: verb for name, verb in sorted(self.verbs.items()) if name.startswith(incomplete)}
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=verb.help) for name, verb in verbs.items()), *options]

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        """Parse the command line; report errors in one line."""
        with _errors_in_one_line():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; report errors in one line."""
        with _errors_in_one_line():
            return super().invoke(ctx)


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "infold"
        raise BadUsage(f"{error.format_message()} (see '{path} --help')") from error
    except (click.exceptions.Exit, click.Abort, click.ClickException):
        raise
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich exits by itself
            raise click.exceptions.Exit(_status_without_reader()) from error
        raise
    except InfoldError as error:
        others = error.others if isinstance(error, SettingsError) else ()
        raise click.ClickException("\nError: ".join(map(_line, (error, *others)))) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of the output is gone, as after `| head`
            _discard_output()
            raise click.exceptions.Exit(_status_without_reader()) from error
        raise click.ClickException(_line(error)) from error
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(package)
        remedy = f"; pip install 'infold[{extra}]'" if extra else ""
        raise click.ClickException(f"{package or 'a package'} is not installed{remedy}") from error
    except Exception as error:  # a face never shows a traceback
        raise click.ClickException(f"infold failed ({type(error).__name__}): {_line(error)}") from error


def _status_without_reader() -> int:
    """Return the exit status if the reader of the output is gone: an error for the agent, whose work is cut short."""
    context = click.get_current_context(silent=True)
    return 1 if context is not None and context.invoked_subcommand == "run" else 0


def _discard_output() -> None:
    """Discard buffered output, so that the interpreter can exit without an error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


@click.group("infold", cls=LazyGroup, verbs=VERBS)
@click.version_option(package_name="infold", message="infold %(version)s")
def main() -> None:
    """Keep an agent's conversation inside its model's context window, and lose nothing.

    infold decides when and what to cut, prunes old tool results, folds old turns into a checkpoint that keeps your
    requests and rules word for word, and ensures that the next request fits.

    Start with `infold demo`, then `infold inspect FILE` on a session of your own agent. Only verbs that use a model need a
    key or a network: run and chat with --model, serve with an upstream.
    """
