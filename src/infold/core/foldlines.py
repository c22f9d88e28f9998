"""How the facts of a ledger read, a line each: short, with the telling part first, and with handles where recall is offered.

Decides wording and what is shortened: paths under the folder most of them are in, a command's own `cd`, long sentences. Which
lines are written, and in how much room, is `fold.py`'s affair.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import get_args

from infold.core.ledger import CommandFact, ErrorFact, FileFact, FileOperation, Quote

LONGEST_EXCERPT, LONGEST_STUB, LONGEST_BRIEF = 240, 160, 60
"""Characters of a sentence that an excerpt shows, of an instruction that has become a stub, and of one with hardly any room."""

MOST_SHOWN_NAMES = 12
FILES_PER_LINE = 6
FOLDER_SHARE, SHORTEST_FOLDER = 0.6, 8
"""A folder is said once if so many of the paths are in it and its name is long enough to be worth it."""

_LISTED = tuple(f"- {operation}: " for operation in get_args(FileOperation))
_OWN_FOLDER = re.compile(r"^cd \S+ && (?=\S)")


def shared_folder(files: Sequence[FileFact]) -> str:
    """The longest folder that most absolute paths are below, with its slash; empty where there is none worth naming."""
    paths = [fact.path for fact in files if fact.path.startswith("/")]
    folders = Counter(folder for path in paths for folder in _folders(path))
    shared = [folder for folder, count in folders.items() if count >= max(2, FOLDER_SHARE * len(paths))]
    longest = max(shared, key=len, default="")
    return longest if len(longest) >= SHORTEST_FOLDER else ""


def _folders(path: str) -> Iterator[str]:
    return accumulate(f"{segment}/" for segment in path.split("/")[:-2])


def _short(path: str, folder: str) -> str:
    """A path without the shared folder, if it still shows the folder its file is in: many files share a bare name."""
    rest = path.removeprefix(folder)
    return rest if "/" in rest else path


def changed_lines(files: Sequence[FileFact], folder: str, recall: bool, *, whole: int) -> tuple[str, ...]:
    """Files that were changed: of so many last operation, how often, what was defined; of the others the operation."""
    lines = [_changed_line(fact, folder, recall) for fact in files[:whole]]
    for operation in dict.fromkeys(fact.operation for fact in files[whole:]):
        lines += _listed(operation, [fact for fact in files[whole:] if fact.operation == operation], folder)
    return tuple(lines)


def _changed_line(fact: FileFact, folder: str, recall: bool) -> str:
    times = f" ({fact.edits} times)" if fact.edits > 1 else ""
    names = f": {', '.join(fact.names[:MOST_SHOWN_NAMES])}" if fact.names else ""
    return f"- {_short(fact.path, folder)}: {fact.operation}{times}{names}{at_handle(fact.handle, recall)}"


def read_lines(files: Sequence[FileFact], folder: str) -> tuple[str, ...]:
    """Files that were only read, several to a line; a path is handle enough to read one again."""
    return tuple(_listed("read", files, folder))


def _listed(operation: str, files: Sequence[FileFact], folder: str) -> Iterator[str]:
    paths = [_short(fact.path, folder) for fact in files]
    for at in range(0, len(paths), FILES_PER_LINE):
        yield f"- {operation}: {', '.join(paths[at : at + FILES_PER_LINE])}"


def facts_on(line: str) -> int:
    """How many facts a line tells: several where files share it."""
    return line.count(", ") + 1 if line.startswith(_LISTED) else 1


def command_lines(commands: Iterable[CommandFact], recall: bool) -> tuple[str, ...]:
    """Commands with how they ended."""
    return tuple(_command_line(fact, recall) for fact in commands)


def _command_line(fact: CommandFact, recall: bool) -> str:
    status = "" if fact.exit_status is None else f" → exit {fact.exit_status}"
    outcome = f" ({fact.outcome})" if fact.outcome else ""
    return f"- `{_OWN_FOLDER.sub('', fact.command)}`{status}{outcome}{at_handle(fact.handle, recall)}"


def error_lines(errors: Iterable[ErrorFact], folder: str, recall: bool) -> tuple[str, ...]:
    """Failures that nothing settled, with where they arose."""
    return tuple(
        f"- {_short(_OWN_FOLDER.sub('', fact.origin), folder)}: {fact.line}{at_handle(fact.handle, recall)}"
        for fact in errors
    )


def excerpts(quotes: Iterable[Quote], recall: bool) -> tuple[str, ...]:
    """Quotations on one line each, shortened where they are long, each once."""
    return tuple(
        dict.fromkeys(
            f"- {_one_line(quote.text, LONGEST_EXCERPT)}{at_handle(quote.handle, recall)}" for quote in quotes
        )
    )


def quoted(quote: Quote, recall: bool) -> str:
    """A quotation word for word; one of several lines between marks, for its own lines may look like ours."""
    told = f'"""{quote.text}"""' if "\n" in quote.text else quote.text
    return f"- {told}{at_handle(quote.handle, recall)}"


def stubbed(quote: Quote, recall: bool) -> str:
    """The beginning of a quotation for which there is no room."""
    hint = f"; recall {quote.handle}" if recall else ""
    return f"- {_one_line(quote.text, LONGEST_STUB)} [{len(quote.text):,} characters in all{hint}]"


def brief(quote: Quote, recall: bool) -> str:
    """The first words of a quotation, where there is hardly any room."""
    return f"- {_one_line(quote.text, LONGEST_BRIEF)}{at_handle(quote.handle, recall)}"


def at_handle(handle: str, recall: bool) -> str:
    """The mark by which something can be brought back."""
    return f" [{handle}]" if recall else ""


def _one_line(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
