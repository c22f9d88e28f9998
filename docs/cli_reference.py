"""Write or check `docs/reference/cli.md`, which is made from the help that the command itself gives.

python docs/cli_reference.py           exits 1 and shows the difference if the page is stale
python docs/cli_reference.py --write   brings it up to date
"""

import argparse
import difflib
import sys
from pathlib import Path

import click

from infold.cli.main import VERBS
from infold.cli.main import main as infold

__all__ = ["PAGE", "main", "page"]

PAGE = Path(__file__).parent / "reference" / "cli.md"
WIDTH = 100

OPENING = """\
# The command line

Written by `docs/cli_reference.py --write` from the command's own help.

Numbers of tokens may be written 8000, 64k, 1.5m or 200_000. Exit status: 0 done, 1 it could not be done (one line on stderr
says why), 2 bad usage. `--json` puts JSON and nothing else on stdout; notes on what of a file was skipped are on stderr.
`infold recall` handles are `<message>.<part>`, counted from 0, with the id of the session before them where it is not the
longest of the file. A file with several sessions is shown by its longest, sub-agents not counted; `--session` names another.
"""


def main(arguments: list[str] | None = None) -> int:
    """Check the page or, asked to, write it; the answer is the exit status."""
    parser = argparse.ArgumentParser(description="check cli.md, or bring it up to date")
    parser.add_argument("--write", action="store_true", help="write the page instead of checking it")
    wanted = page()
    if parser.parse_args(arguments).write:
        PAGE.write_text(wanted, "utf-8")
        return 0
    found = PAGE.read_text("utf-8") if PAGE.exists() else ""
    before, after = found.splitlines(keepends=True), wanted.splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(before, after, PAGE.name, "as it should be", n=0))
    return int(found != wanted)


def page() -> str:
    """The page as it should be now: the command's help, then each verb's."""
    context = _context(infold, None)
    sections = [f"## infold\n\n{_fenced(infold.get_help(context))}"]
    for name in sorted(VERBS):
        command = infold.get_command(context, name)
        assert command is not None, "a verb of the table can be loaded"
        sections.append(f"## infold {name}\n\n{_fenced(command.get_help(_context(command, context)))}")
    return "\n".join((OPENING, *sections))


def _context(command: click.Command, parent: click.Context | None) -> click.Context:
    return click.Context(command, parent=parent, info_name=command.name, terminal_width=WIDTH, max_content_width=WIDTH)


def _fenced(text: str) -> str:
    return f"```\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
