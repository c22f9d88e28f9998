"""The command `infold`: finds the verb that was asked for and tells an error in one line.

Verbs are named in a table and loaded when they are used, so that `infold --help` stays quick whatever they import.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from msgspec import Struct

from infold.errors import InfoldError


class Verb(Struct, frozen=True):
    """Where a verb's command is (`module:attribute`), and its one line of help."""

    target: str
    help: str


VERBS = {
    "chat": Verb("infold.cli.chat.verb:chat", "Talk with the agent, in this folder."),
    "compact": Verb("infold.cli.compact:compact_verb", "Fold a session into a window and show what was done."),
    "config": Verb("infold.cli.config:config", "Show every setting and where its value came from."),
    "convert": Verb("infold.cli.convert:convert", "Write a session in another shape."),
    "delete": Verb("infold.cli.delete:delete", "Remove sessions for good."),
    "demo": Verb("infold.cli.demo:demo", "Watch a long coding session being kept inside small windows."),
    "diff": Verb("infold.cli.diff:diff", "Show what a session changed on disk."),
    "export": Verb("infold.cli.export:export", "Write a session as markdown, as infold's log or for OpenCode."),
    "inspect": Verb("infold.cli.inspect:inspect", "Show what fills the window of a recorded session."),
    "mcp": Verb("infold.cli.mcp:mcp", "Give any agent recall, as a server of the Model Context Protocol."),
    "models": Verb("infold.cli.models:models", "Show limits and prices of models."),
    "recall": Verb("infold.cli.recall:recall", "Find something that was said in a session."),
    "replay": Verb("infold.cli.replay:replay", "See what policies would have cost on your own transcripts."),
    "run": Verb("infold.cli.run:run", "Carry out one task with the agent, in this folder."),
    "serve": Verb("infold.cli.serve:serve", "Keep any agent inside its window by its base URL."),
    "sessions": Verb("infold.cli.sessions:sessions", "List the sessions there are."),
    "show": Verb("infold.cli.show:show", "Read a session."),
    "undo": Verb("infold.cli.undo:undo", "Undo a session's newest compaction."),
}


EXTRAS = {
    **dict.fromkeys(("click", "rich"), "cli"),
    **dict.fromkeys(("httpcore2", "httpx2", "jinja2", "markupsafe", "starlette", "uvicorn"), "gateway"),
    "mcp": "mcp",
    "prompt_toolkit": "agent",
    "psycopg": "postgres",
}
"""Which extra brings a package that a verb needs."""


class BadUsage(click.ClickException):
    """The command line is wrong: one line that says how, exit status 2."""

    exit_code = 2


class LazyGroup(click.Group):
    """A group whose verbs are imported when they are called, not when they are listed."""

    def __init__(self, *, verbs: dict[str, Verb], **settings: Any) -> None:
        super().__init__(**settings)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all verbs."""
        return sorted({*self.verbs, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of that name, imported now."""
        if cmd_name not in self.verbs:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.verbs[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; one that does not exist is refused with those that are nearest to it."""
        near = [] if args[0] in self.list_commands(ctx) else get_close_matches(args[0], self.list_commands(ctx), n=2)
        if near and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(map(repr, near))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table, importing none."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in sorted(self.verbs.items())])

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        """Read the command line; what is wrong with it is told in one line."""
        with _told_in_one_line():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; what goes wrong is told in one line."""
        with _told_in_one_line():
            return super().invoke(ctx)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
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
        if isinstance(error.__context__, BrokenPipeError):  # rich ends the program by itself
            raise click.exceptions.Exit(_status_without_reader()) from error
        raise
    except InfoldError as error:
        raise click.ClickException(_line(error)) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of the output has gone, as after `| head`
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
    """Return the status of a verb whose reader has gone: the agent's work is cut short, a page is not."""
    context = click.get_current_context(silent=True)
    return 1 if context is not None and context.invoked_subcommand == "run" else 0


def _discard_output() -> None:
    """Send what is still in the buffer nowhere, so that the interpreter can end without an error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


@click.group("infold", cls=LazyGroup, verbs=VERBS)
@click.version_option(package_name="infold", message="infold %(version)s")
def main() -> None:
    """Keep an agent's conversation inside its model's context window, and lose nothing.

    infold decides when and what to cut, prunes old tool results, folds old turns into a checkpoint that keeps your
    requests and rules word for word, and proves that the next request fits.

    Start with `infold demo`, then `infold inspect FILE` on a session of your own agent. No verb needs a key or a network
    but those that ask a model: run and chat with --model, serve with an upstream.
    """
