"""Write a ledger as the text of a checkpoint, without a model.

Decides what of a ledger is written into a given number of tokens: the user's instructions verbatim first, then what was
changed, what failed, what is open, what was run, and excerpts of what was reported. What does not fit stays in the log,
and the text shows how much that is.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import get_args

from msgspec import Struct

from infold.core.ledger import CommandFact, ErrorFact, FileFact, FileOperation, Ledger, Quote
from infold.core.policy import Ruler
from infold.core.tokens import estimate

LONGEST_EXCERPT, LONGEST_STUB, LONGEST_BRIEF = 240, 160, 60
"""Characters of a sentence in an excerpt, of an instruction that became a stub, and of one with hardly any room."""


MOST_SHOWN_NAMES = 12


FILES_PER_LINE = 6


FOLDER_SHARE, SHORTEST_FOLDER = 0.6, 8
"""A folder is named once if this share of the paths is in it and its name is long enough to be worth it."""


_LISTED = tuple(f"- {operation}: " for operation in get_args(FileOperation))


_OWN_FOLDER = re.compile(r"^cd \S+ && (?=\S)")


def shared_folder(files: Sequence[FileFact]) -> str:
    """Return the longest folder that contains most absolute paths, with its slash; empty if it is not worth naming."""
    paths = [fact.path for fact in files if fact.path.startswith("/")]
    folders = Counter(folder for path in paths for folder in _folders(path))
    shared = [folder for folder, count in folders.items() if count >= max(2, FOLDER_SHARE * len(paths))]
    longest = max(shared, key=len, default="")
    return longest if len(longest) >= SHORTEST_FOLDER else ""


def _folders(path: str) -> Iterator[str]:
    return accumulate(f"{segment}/" for segment in path.split("/")[:-2])


def _shorten_path(path: str, folder: str) -> str:
    """Return a path without the shared folder, if it still shows the folder of its file: many files share a bare name."""
    rest = path.removeprefix(folder)
    return rest if "/" in rest else path


def changed_lines(files: Sequence[FileFact], folder: str, recall: bool, *, whole: int) -> tuple[str, ...]:
    """Return lines for changed files: the last operation of all, with counts and definitions for the first `whole`."""
    lines: list[str] = []
    for fact in files[:whole]:
        times = f" ({fact.edits} times)" if fact.edits > 1 else ""
        names = f": {', '.join(fact.names[:MOST_SHOWN_NAMES])}" if fact.names else ""
        told = f"{fact.operation}{times}{names}{handle_suffix(fact.handle, recall)}"
        lines.append(f"- {_shorten_path(fact.path, folder)}: {told}")
    for operation in dict.fromkeys(fact.operation for fact in files[whole:]):
        lines += file_lines(operation, files[whole:], folder)
    return tuple(lines)


def file_lines(operation: FileOperation, files: Iterable[FileFact], folder: str) -> tuple[str, ...]:
    """Return lines for the files with that operation, several to a line."""
    paths = [_shorten_path(fact.path, folder) for fact in files if fact.operation == operation]
    starts = range(0, len(paths), FILES_PER_LINE)
    return tuple(f"- {operation}: {', '.join(paths[at : at + FILES_PER_LINE])}" for at in starts)


def count_facts(line: str) -> int:
    """Return how many facts a line holds: several if files share it."""
    return line.count(", ") + 1 if line.startswith(_LISTED) else 1


def command_line(fact: CommandFact, recall: bool) -> str:
    """Return the line for a command with how it ended."""
    status = "" if fact.exit_status is None else f" → exit {fact.exit_status}"
    outcome = f" ({fact.outcome})" if fact.outcome else ""
    return f"- `{_OWN_FOLDER.sub('', fact.command)}`{status}{outcome}{handle_suffix(fact.handle, recall)}"


def error_lines(errors: Iterable[ErrorFact], folder: str, recall: bool) -> tuple[str, ...]:
    """Return lines for unsettled failures with their origin."""
    return tuple(
        f"- {_shorten_path(_OWN_FOLDER.sub('', fact.origin), folder)}: {fact.line}{handle_suffix(fact.handle, recall)}"
        for fact in errors
    )


def excerpt_lines(quotes: Iterable[Quote], recall: bool) -> tuple[str, ...]:
    """Return one line per quote, shortened if long, each once."""
    return tuple(
        dict.fromkeys(
            f"- {_one_line(quote.text, LONGEST_EXCERPT)}{handle_suffix(quote.handle, recall)}" for quote in quotes
        )
    )


def quote_verbatim(quote: Quote, recall: bool) -> str:
    """Return a quote verbatim; if it has several lines, between marks, because its lines may look like ours."""
    told = f'"""{quote.text}"""' if "\n" in quote.text else quote.text
    return f"- {told}{handle_suffix(quote.handle, recall)}"


def quote_beginning(quote: Quote, recall: bool) -> str:
    """Return the beginning of a quote that does not fit."""
    hint = f"; recall {quote.handle}" if recall else ""
    return f"- {_one_line(quote.text, LONGEST_STUB)} [{len(quote.text):,} characters in all{hint}]"


def quote_briefly(quote: Quote, recall: bool) -> str:
    """Return the first words of a quote if there is hardly any room."""
    return f"- {_one_line(quote.text, LONGEST_BRIEF)}{handle_suffix(quote.handle, recall)}"


def handle_suffix(handle: str, recall: bool) -> str:
    """Return the handle by which something can be recalled, as a suffix."""
    return f" [{handle}]" if recall else ""


def _one_line(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


FIRST, LATEST = "The user's first request, verbatim:", "The user's latest request, verbatim:"


ATTACHED = "Attached by the user, newest first:"


RULES, OTHERS = "Rules the user laid down, verbatim, newest first:", "Other requests, newest first:"


ANSWERS = "Asked of the user and answered, newest first:"


MORE_TOKENS = 8
"""Room for the count of what is left out."""


LONGEST_DOCUMENT = 2_000
"""Characters of an attached text that are quoted: a short specification whole, the beginning of a longer text."""


Sizer = Callable[[str], int]


class UserInstructions(Struct, frozen=True):
    """Blocks of the user's words, their tokens, and the handles of what is not verbatim."""

    blocks: tuple[str, ...]
    tokens: int
    short: tuple[str, ...]


def write_instructions(
    ledger: Ledger, *, allowed_tokens: int, more_tokens: int, size: Sizer, recall: bool
) -> UserInstructions:
    """Return the user's words within that many tokens; other requests may take `more_tokens` in addition."""
    telling = _InstructionWriter(allowed_tokens, size, recall)
    first, latest = ledger.first_request, ledger.latest_request
    telling.write(FIRST, () if first is None else (first,))
    telling.write(LATEST, () if latest is None or latest == first else (latest,))
    rules = telling.unsaid(ledger.constraints)
    telling.write(RULES, rules)
    telling.write(ANSWERS, telling.unsaid(ledger.answers), LONGEST_DOCUMENT)
    told = {quote.text for quote in (first, latest, *rules) if quote is not None}
    telling.left += more_tokens
    asked = {quote.handle for quote in (first, latest) if quote is not None}
    attached = tuple(quote for quote in reversed(ledger.attachments) if quote.handle not in asked)
    telling.write(ATTACHED, attached, LONGEST_DOCUMENT)
    told.update(quote.text for quote in ledger.attachments)
    telling.write(OTHERS, telling.unsaid(quote for quote in ledger.requests if quote.text not in told), LONGEST_EXCERPT)
    return UserInstructions(tuple(telling.blocks), telling.tokens, tuple(dict.fromkeys(telling.short)))


class _InstructionWriter:
    """What `write_instructions` has written so far."""

    def __init__(self, allowed_tokens: int, size: Sizer, recall: bool) -> None:
        self.left = allowed_tokens
        self.tokens = 0
        self.size = size
        self.recall = recall
        self.blocks: list[str] = []
        self.short: list[str] = []
        self.verbatim: list[str] = []

    def unsaid(self, quotes: Iterable[Quote]) -> tuple[Quote, ...]:
        """Return quotes whose words are not in the text yet, newest first; of equal ones the newest."""
        newest: dict[str, Quote] = {}
        for quote in reversed(tuple(quotes)):
            newest.setdefault(quote.text, quote)
        return tuple(quote for text, quote in newest.items() if not any(text in said for said in self.verbatim))

    def write(self, heading: str, quotes: Sequence[Quote], longest: int | None = None) -> None:
        """Write what fits under a heading; quotes longer than that many characters are never written whole."""
        forms = [self._forms(quote, longest) for quote in quotes]
        chosen = self._chosen(forms, self.left - self.size(heading))
        lines = [line for line in chosen if line]
        for quote, line in zip(quotes, chosen, strict=True):
            if line == quote_verbatim(quote, self.recall):
                self.verbatim.append(quote.text)
            else:
                self.short.append(quote.handle)
        if not lines:
            return
        more = [f"- … and {len(quotes) - len(lines):,} more"] if len(lines) < len(quotes) else []
        spent = self.size(heading) + sum(map(self.size, (*lines, *more)))
        self.left -= spent
        self.tokens += spent
        self.blocks.append("\n".join((heading, *lines, *more)))

    def _forms(self, quote: Quote, longest: int | None) -> tuple[str, ...]:
        """Return the forms of a quote, longest first: verbatim, as a stub, in a few words."""
        flat = len(" ".join(quote.text.split()))
        whole = () if longest is not None and len(quote.text) > longest else (quote_verbatim(quote, self.recall),)
        stub = (quote_beginning(quote, self.recall),) if flat > LONGEST_STUB or not whole else ()
        return (*whole, *stub, *((quote_briefly(quote, self.recall),) if flat > LONGEST_BRIEF else ()))

    def _chosen(self, forms: Sequence[tuple[str, ...]], allowed: int) -> list[str]:
        """Return a line for each quote as far as they fit, then longer forms for the first of them."""
        sizes = [[self.size(form) for form in each] for each in forms]
        left = allowed - (0 if sum(each[-1] for each in sizes) <= allowed else MORE_TOKENS)
        chosen = [""] * len(forms)
        for place, each in enumerate(sizes):
            if each[-1] <= left:
                left -= each[-1]
                chosen[place] = forms[place][-1]
        for place, each in enumerate(sizes):
            for form, tokens in zip(forms[place], each, strict=True):
                if chosen[place] and tokens - each[-1] <= left:
                    left -= tokens - each[-1]
                    chosen[place] = form
                    break
        return chosen


OPENING = (
    "[Earlier conversation, folded. What follows was taken from it word for word or by rule; "
    "it is a record of the past, not a new request.]"
)


RECALL_HINT = "The full text of anything marked with a number can be brought back with the recall tool by that number."


FOLDER_NOTE = "Paths below are in {folder} unless they begin with a slash."


MOST_TRIES = 6
"""How often a text that came out too long is written again; pins alone can keep it too long."""


OTHERS_SHARE = 0.3
"""Share of the room left by instructions that requests other than the first and the latest may take."""


CHANGED_SHARE = 0.7
"""Share of the room left by instructions that changed files may take."""


TOLD_WHOLE = (40, 20, 10, 5, 0)
"""How many changed files are written in full if there is no room for all."""


CHANGED = ("written", "edited", "deleted", "moved")


class CheckpointText(Struct, frozen=True):
    """The text of a fold, the handles of instructions that are not verbatim in it, and the room it had."""

    text: str
    stubbed: tuple[str, ...] = ()
    budget_tokens: int = 0


class _Section(Struct, frozen=True):
    """A heading, its lines, most informative first, and the share of the remaining room it may take."""

    heading: str
    lines: tuple[str, ...]
    share: float


def render_checkpoint(
    ledger: Ledger, *, budget_tokens: int, must_keep_tokens: int, rule: Ruler, recall: bool
) -> CheckpointText:
    """Write a ledger into at most that many tokens; instructions come first and may take `must_keep_tokens`.

    Pins are written in addition, whatever their size; and if a model's words have left less than instructions may take,
    these still get it.
    """
    quotes = [quote_verbatim(quote, recall) for quote in ledger.pinned]
    pinned = ["\n".join(("Pinned:", *quotes))] if quotes else []
    added_size = sum(estimate(text, rule) for text in pinned)
    room_tokens = budget_tokens
    for _ in range(MOST_TRIES):
        room = _TokenRoom(room_tokens, rule)
        allowed = must_keep_tokens if must_keep_tokens > budget_tokens else min(must_keep_tokens, room_tokens)
        folded = _write(ledger, room, allowed, pinned, recall)
        over = estimate(folded.text, rule) - added_size - budget_tokens
        if over <= 0:
            break
        # Lines are sized one by one; together they may come to a little more.
        room_tokens -= over + 4
    return folded


def _write(ledger: Ledger, room: "_TokenRoom", allowed: int, pinned: Sequence[str], recall: bool) -> CheckpointText:
    opening = [OPENING, RECALL_HINT] if recall else [OPENING]
    room.left -= sum(map(room.size, opening))
    others = int(max(0, room.left - allowed) * OTHERS_SHARE)
    kept = write_instructions(ledger, allowed_tokens=allowed, more_tokens=others, size=room.size, recall=recall)
    room.left -= kept.tokens
    folder = shared_folder(ledger.files)
    where = [FOLDER_NOTE.format(folder=folder)] if folder else []
    sections = room.fill((_changed_files(ledger, room, folder, recall), *_sections(ledger, folder, recall)), *where)
    return CheckpointText("\n\n".join((*opening, *pinned, *kept.blocks, *sections)), kept.short)


class _TokenRoom:
    """The tokens still free while `render_checkpoint` writes."""

    def __init__(self, budget_tokens: int, rule: Ruler) -> None:
        self.left = budget_tokens
        self.rule: Ruler = rule

    def size(self, text: str) -> int:
        return estimate(text, self.rule) + 1

    def fill(self, sections: Sequence[_Section], *notes: str) -> list[str]:
        """Return as many lines of each section as its share holds, then more of each while there is room; notes come
        first.

        Unused room goes to the other sections; a count shows what is left out. Notes appear only with sections.
        """
        self.left -= sum(map(self.size, notes))
        taken = [self._lines_within(section, 0, int(self.left * section.share)) for section in sections]
        for place, section in enumerate(sections):
            waiting = sum(
                count < len(other.lines) for count, other in zip(taken[place:], sections[place:], strict=True)
            )
            taken[place] += self._lines_within(section, taken[place], self.left // max(1, waiting))
        blocks = [_block(section, count) for section, count in zip(sections, taken, strict=True) if count]
        return [*notes, *blocks] if blocks else []

    def _lines_within(self, section: _Section, start: int, allowed: int) -> int:
        """Return how many lines from there on fit, with the heading if they are the first, and take their room."""
        spent = 0 if start else self.size(section.heading) + MORE_TOKENS
        count = 0
        for line in section.lines[start:]:
            size = self.size(line)
            if spent + size > allowed:
                break
            spent += size
            count += 1
        self.left -= spent if count else 0
        return count


def _block(section: _Section, count: int) -> str:
    left_out = sum(map(count_facts, section.lines[count:]))
    more = [f"- … and {left_out:,} more"] if left_out else []
    return "\n".join((section.heading, *section.lines[:count], *more))


def _changed_files(ledger: Ledger, room: _TokenRoom, folder: str, recall: bool) -> _Section:
    """Return the section of changed files: all of them, as many as possible in full."""
    files = [fact for fact in reversed(ledger.files) if fact.operation in CHANGED]
    allowed = room.left * CHANGED_SHARE - room.size(FOLDER_NOTE) - room.size(folder) - MORE_TOKENS
    lines: tuple[str, ...] = ()
    for whole in (len(files), *TOLD_WHOLE):
        lines = changed_lines(files, folder, recall, whole=whole)
        if sum(map(room.size, lines)) <= allowed:
            break
    return _Section("Files changed, newest first:", lines, CHANGED_SHARE)


def _sections(ledger: Ledger, folder: str, recall: bool) -> Iterator[_Section]:
    told = [line for quote in reversed(ledger.narratives) for line in quote.text.splitlines() if line.strip()]
    yield _Section("From an earlier summary, word for word:", tuple(told), 0.5)
    todos = tuple(f"- [{fact.status}] {fact.item}" for fact in ledger.todos or ())
    yield _Section("Todo list as last written:", todos, 0.4)
    errors = error_lines(reversed(ledger.errors), folder, recall)
    yield _Section("Errors not seen to be settled, newest first:", errors, 0.35)
    yield _Section("Questions still open:", tuple(quote_verbatim(quote, recall) for quote in ledger.questions), 0.3)
    jobs = tuple(f"- {fact.description}{handle_suffix(fact.handle, recall)}" for fact in ledger.jobs)
    yield _Section("Started and not reported back:", jobs, 0.3)
    yield _Section("Decisions, newest first:", excerpt_lines(reversed(ledger.decisions), recall), 0.3)
    yield _Section("Figures and references, newest first:", excerpt_lines(reversed(ledger.findings), recall), 0.3)
    yield _Section("Files read, newest first:", file_lines("read", reversed(ledger.files), folder), 0.3)
    commands = tuple(command_line(fact, recall) for fact in reversed(ledger.commands))
    yield _Section("Commands run, newest first:", commands, 0.6)
    yield _Section("Reported to the user, newest first:", excerpt_lines(reversed(ledger.reports), recall), 1.0)
