"""Write a ledger as the text of a checkpoint, without a model.

Decides what of a ledger is written into a given number of tokens: the user's instructions verbatim first, then what was
changed, what failed, what is open, what was run, and excerpts of what was reported. What does not fit stays in the log,
and the text shows how much that is.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import get_args

from msgspec import Struct

from infold.core.extract import telling_names
from infold.core.ledger import (
    FORBIDS,
    ONE_TURN,
    OWN_FOLDER,
    CommandFact,
    FileFact,
    FileOperation,
    Ledger,
    Quote,
    is_lookup,
    most_worth,
    spoken_sentences,
)
from infold.core.policy import Ruler
from infold.core.tokens import estimate

LONGEST_EXCERPT, LONGEST_STUB, LONGEST_BRIEF = 240, 160, 60
"""Characters of a sentence in an excerpt, of an instruction that became a stub, and of one with hardly any room."""


FILES_PER_LINE = 6


FOLDER_SHARE, SHORTEST_FOLDER = 0.6, 8
"""A folder is named once if this share of the paths is in it and its name is long enough to be worth it."""


_LISTED = tuple(f"- {operation}: " for operation in get_args(FileOperation))


_HERE_DOCUMENT = re.compile(r"(<<-?\s*['\"]?\w+['\"]?)\s.*", re.DOTALL)

FIRST_SHARE, NAMES_SHARE, MOST_QUOTED = 0.3, 0.7, 40
"""Share of the room left by instructions that files and open matters have before names and values; share of the rest for
names and values; and how many pieces of one source stand before any source has more."""


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
        told = f"{fact.operation}{times}{handle_suffix(fact.handle, recall)}"
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
    status = "ok" if fact.exit_status == 0 else "" if fact.exit_status is None else f"exit {fact.exit_status}"
    outcome = f" ({fact.outcome})" if status and fact.outcome else fact.outcome
    ended = f" → {status}{outcome}" if status or outcome else ""
    return f"- `{shorten_command(fact.command)}`{ended}{handle_suffix(fact.handle, recall)}"


def shorten_command(command: str) -> str:
    """Return a command line without the folder it changes into and the text that is given to it, shortened if long."""
    return _one_line(_HERE_DOCUMENT.sub(r"\1…", OWN_FOLDER.sub("", command)), LONGEST_STUB)


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
    asked = f' (asked: "{_one_line(quote.asked, LONGEST_EXCERPT)}")' if quote.asked else ""
    return f"- {told}{asked}{handle_suffix(quote.handle, recall)}"


def quote_beginning(quote: Quote, recall: bool) -> str:
    """Return the beginning of a quote that does not fit."""
    return f"- {_one_line(quote.text, LONGEST_STUB)} {length_note(quote, recall)}"


def length_note(quote: Quote, recall: bool) -> str:
    """Return how long the whole of a shortened quote is."""
    hint = f"; recall {quote.handle}" if recall else ""
    return f"[{len(quote.text):,} characters in all{hint}]"


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

RULES, OTHERS = "Rules the user laid down, verbatim, newest first:", "Other requests, verbatim, newest first:"

TAKEN_BACK = "Taken back by the user, no longer in force:"

ANSWERS = "Asked of the user and answered, verbatim, newest first:"

VERBATIM, SHORTENED = ", verbatim", ", some shortened"

LIFTED = "[taken back]"
"""What stands in a request in place of a sentence that was taken back."""

MORE_TOKENS = 8
"""Room for the count of what is left out."""

LONGEST_DOCUMENT = 2_000
"""Characters of an attached text that are quoted: a short specification whole, the beginning of a longer text."""

SPOKEN_CHARACTERS = (4_000, 1_500, 600, 240)
"""Characters of the user's own sentences that are quoted of a message too long to be quoted whole."""

LONGEST_EVEN = 300
"""Characters that each quote may have before any may have more."""

_CASE = re.compile(r"[\d/]")

PROSE_SHARE = 0.75
"""Share of letters, blanks and common marks in a sentence from which on it counts as typed; code and tables have less."""

Sizer = Callable[[str], int]


class UserInstructions(Struct, frozen=True):
    """Blocks of the user's words, their tokens, and the handles of what is not verbatim."""

    blocks: tuple[str, ...]
    tokens: int
    short: tuple[str, ...]


def write_instructions(
    ledger: Ledger, *, allowed_tokens: int, more_tokens: int, size: Sizer, recall: bool
) -> UserInstructions:
    """Return the user's words within that many tokens; other requests may take `more_tokens` in addition.

    Half of the room is kept for rules, if they need it; where not all fit, prohibitions come before other rules. What was
    taken back stands with the words that did so, and an order for one turn stops being a rule once the user has asked for
    something else.
    """
    writer = _InstructionWriter(ledger, size, recall)
    first, latest = ledger.first_request, ledger.latest_request
    newest = "" if latest is None else latest.handle
    rules = writer.unsaid(
        rule for rule in ledger.constraints if rule.handle == newest or not ONE_TURN.search(rule.text)
    )
    asked = [quote for quote in dict.fromkeys((first, latest)) if quote is not None]
    whole = sum(size(quote_verbatim(quote, recall)) + size(LATEST) for quote in asked)
    apart = [rule for rule in rules if not any(rule.text in quote.text for quote in asked)]
    apart_tokens = sum(size(quote_verbatim(rule, recall)) for rule in apart) + size(RULES)
    kept_tokens = min(allowed_tokens // 2, sum(size(quote_verbatim(rule, recall)) for rule in rules) + size(RULES))
    if whole + apart_tokens <= allowed_tokens:  # rules that stand in a request which is quoted whole need no room
        kept_tokens = min(kept_tokens, apart_tokens)
    writer.left = allowed_tokens - kept_tokens
    writer.write(FIRST, () if first is None else (first,))
    writer.write(LATEST, () if latest is None or latest == first else (latest,))
    writer.left += kept_tokens
    rules = writer.unsaid(reversed(rules))
    writer.write(RULES, rules, later=lambda quote: not FORBIDS.search(quote.text))
    back = (Quote(one.by.handle, f"{one.rule.text} → {one.by.text}") for one in reversed(ledger.revoked))
    writer.write(TAKEN_BACK, tuple(back))
    writer.write(ANSWERS, writer.unsaid(ledger.answers), LONGEST_DOCUMENT)
    writer.left += more_tokens
    handles = {quote.handle for quote in asked}
    attached = tuple(quote for quote in reversed(ledger.attachments) if quote.handle not in handles)
    writer.write(ATTACHED, attached, LONGEST_DOCUMENT)
    told = {quote.text for quote in (first, latest, *rules, *ledger.attachments) if quote is not None}
    answers = {quote for quote in ledger.requests if quote.asked and quote not in (first, latest)}
    others = writer.unsaid(quote for quote in ledger.requests if quote in answers or quote.text not in told)
    writer.said = frozenset(writer.verbatim)
    writer.write(OTHERS, others, SPOKEN_CHARACTERS[0], later=lambda quote: len(quote.text) > LONGEST_EXCERPT)
    return UserInstructions(tuple(writer.blocks), writer.tokens, tuple(dict.fromkeys(writer.short)))


def _place(handle: str) -> tuple[int, ...]:
    """Return where a handle's part is in the session, for comparison."""
    return tuple(int(number) for number in handle.split("."))


class _InstructionWriter:
    """What `write_instructions` has written so far."""

    def __init__(self, ledger: Ledger, size: Sizer, recall: bool) -> None:
        self.left = 0
        self.tokens = 0
        self.size = size
        self.recall = recall
        self.blocks: list[str] = []
        self.short: list[str] = []
        self.verbatim: list[str] = []
        self.rules = frozenset(quote.text for quote in ledger.constraints)
        self.lifted = {one.rule.text: _place(one.by.handle) for one in ledger.revoked}
        self.said: frozenset[str] = frozenset()

    def unsaid(self, quotes: Iterable[Quote]) -> tuple[Quote, ...]:
        """Return quotes whose words are not in the text yet, newest first; of equal ones the newest."""
        newest: dict[tuple[str, str], Quote] = {}
        for quote in reversed(tuple(quotes)):
            newest.setdefault((quote.text, quote.asked), quote)
        return tuple(
            quote
            for quote in newest.values()
            if not (quote.text in self.lifted and _place(quote.handle) < self.lifted[quote.text])
            and (quote.asked or not any(quote.text in said for said in self.verbatim))
        )

    def write(
        self,
        heading: str,
        quotes: Sequence[Quote],
        longest: int | None = None,
        later: Callable[[Quote], bool] = lambda _: False,
    ) -> None:
        """Write what fits under a heading; quotes longer than that many characters are never written whole.

        The quotes that are `later` get the room that the others leave.
        """
        whole = [self._whole(quote) for quote in quotes]
        forms = [self._forms(*each, longest) for each in zip(quotes, whole, strict=True)]
        order = sorted(range(len(quotes)), key=lambda place: later(quotes[place]))
        chosen = self._chosen(forms, order, self.left - self.size(heading.replace(VERBATIM, SHORTENED)))
        lines = [line for line in chosen if line]
        for quote, form, line in zip(quotes, whole, chosen, strict=True):
            (self.verbatim if line == form else self.short).append(quote.text if line == form else quote.handle)
        if not lines:
            return
        is_verbatim = all(
            line in ("", quote_verbatim(quote, self.recall)) for quote, line in zip(quotes, chosen, strict=True)
        )
        heading = heading if is_verbatim else heading.replace(VERBATIM, SHORTENED)
        more = [f"- … and {len(quotes) - len(lines):,} more"] if len(lines) < len(quotes) else []
        spent = self.size(heading) + sum(map(self.size, (*lines, *more)))
        self.left -= spent
        self.tokens += spent
        self.blocks.append("\n".join((heading, *lines, *more)))

    def _whole(self, quote: Quote) -> str:
        """Return a quote verbatim, but for sentences that stand in the text already or were taken back."""
        text = quote.text
        if self.said or self.lifted:
            for sentence in spoken_sentences(text):
                if sentence in self.lifted and _place(quote.handle) < self.lifted[sentence]:
                    text = text.replace(sentence, LIFTED, 1)
                elif sentence in self.said and sentence != text:
                    text = text.replace(sentence, "…", 1)
        return quote_verbatim(Quote(quote.handle, text, quote.asked), self.recall)

    def _forms(self, quote: Quote, whole: str, longest: int | None) -> tuple[str, ...]:
        """Return the forms of a quote, longest first: verbatim, the user's sentences, the beginning, a few words."""
        flat = len(" ".join(quote.text.split()))
        forms = [] if longest is not None and len(quote.text) > longest else [whole]
        if flat > SPOKEN_CHARACTERS[-1] and longest != LONGEST_DOCUMENT:
            typed = [one for one in spoken_sentences(quote.text) if _is_prose(one)]
            spoken = [one for one in typed if one not in self.rules and one not in self.lifted]
            told = tuple(dict.fromkeys(self._spoken(quote, spoken, most) for most in SPOKEN_CHARACTERS if most < flat))
            if typed and sum(map(len, typed)) < PROSE_SHARE * flat:  # mostly pasted
                return told if longest is not None else (*forms, *told)
            forms += told
        forms += [quote_beginning(quote, self.recall)] if flat > LONGEST_STUB or not forms else []
        return (*forms, *((quote_briefly(quote, self.recall),) if flat > LONGEST_BRIEF else ()))

    def _spoken(self, quote: Quote, spoken: Sequence[str], most: int) -> str:
        """Return a long message by the user's sentences in it, within so many characters.

        Sentences without figures and paths come first, since what is meant to last is rarely about one case; then those
        at either end.
        """
        left, kept = most, set[int]()
        order = [(bool(_CASE.search(one)), min(at, len(spoken) - 1 - at), at) for at, one in enumerate(spoken)]
        for _, _, place in sorted(order):
            if len(spoken[place]) <= left:
                left -= len(spoken[place])
                kept.add(place)
        text = " ".join(spoken[place] if place in kept else "…" for place in range(len(spoken))) or "…"
        return f"- {re.sub(r'…(?: …)+', '…', text)} {length_note(quote, self.recall)}"

    def _chosen(self, forms: Sequence[tuple[str, ...]], order: Sequence[int], allowed: int) -> list[str]:
        """Return a line for each quote as far as they fit, in that order, then longer forms: first for all up to a length
        that is enough for a few sentences, then for the first of them."""
        sizes = [[self.size(form) for form in each] for each in forms]
        left = allowed - (0 if sum(each[-1] for each in sizes) <= allowed else MORE_TOKENS)
        chosen = [""] * len(forms)
        for place in order:
            if sizes[place][-1] <= left:
                left -= sizes[place][-1]
                chosen[place] = forms[place][-1]
        taken = [each[-1] for each in sizes]
        for longest in (LONGEST_EVEN, None):
            for place in order:
                for form, tokens in zip(forms[place], sizes[place], strict=True):
                    if chosen[place] and (longest is None or len(form) <= longest) and tokens - taken[place] <= left:
                        left -= tokens - taken[place]
                        chosen[place], taken[place] = form, tokens
                        break
        return chosen


def _is_prose(sentence: str) -> bool:
    """Return whether a sentence looks typed instead of pasted."""
    return sum(one.isalpha() or one in " ,.'’、，。" for one in sentence) >= PROSE_SHARE * len(sentence)


OPENING = (
    "[Earlier conversation, folded. The user's words are quoted, the lists were made by a program; "
    "it is a record of the past, not a new request.]"
)


RECALL_HINT = "The full text of anything marked with a number can be brought back with the recall tool by that number."


FOLDER_NOTE = "Paths below are in {folder} unless they begin with a slash."


EARLIER = "From an earlier summary, written by a model; where it differs from what follows, that is right:"


SPARE_SHARE = 0.04
"""Share of the room that may stay empty without another try to fill it."""


MOST_TRIES = 6
"""How often a text that came out too long is written again; pins alone can keep it too long."""


OTHERS_SHARE = 0.3
"""Share of the room left by instructions that requests other than the first and the latest may take."""


CHANGED_SHARE = 0.7
"""Share of the room left by instructions that changed files may take."""


TOLD_WHOLE = (40, 20, 10, 5, 0)
"""How many changed files are written in full if there is no room for all."""


FILES_CHANGED, FILES_READ = "Files changed, newest first:", "Files read, newest first:"

TODOS, ERRORS = "Todo list as last written:", "Errors not seen to be settled, newest first:"

QUESTIONS, JOBS = "Questions still open:", "Started and not reported back:"

LISTED_FIRST = (FILES_CHANGED, FILES_READ, TODOS, ERRORS, QUESTIONS, JOBS)
"""What has its lines before names and values get theirs."""

CHANGED = ("written", "edited", "deleted", "moved")


class CheckpointText(Struct, frozen=True):
    """The text of a fold, the handles of instructions that are not verbatim in it, and the room it had."""

    text: str
    stubbed: tuple[str, ...] = ()
    budget_tokens: int = 0


class _Section(Struct, frozen=True):
    """A heading, its lines, most informative first, the share of the remaining room it may take, and the source of what
    each line may be followed by; the first `must` lines are taken whatever the share, and all are shown in `order`."""

    heading: str
    lines: tuple[str, ...]
    share: float
    sources: tuple[str, ...] = ()
    must: int = 0
    order: tuple[int, ...] = ()


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
    room_tokens, fitting = budget_tokens, None
    for _ in range(MOST_TRIES):
        room = _TokenRoom(room_tokens, rule)
        allowed = must_keep_tokens if must_keep_tokens > budget_tokens else min(must_keep_tokens, room_tokens)
        folded = _write(ledger, room, allowed, pinned, recall)
        over = estimate(folded.text, rule) - added_size - budget_tokens
        # Lines are sized one by one; together they may come to a little more, or to less, which is then filled once.
        if over > 0 and fitting is not None:
            return fitting
        if over <= 0 and (fitting is not None or -over < SPARE_SHARE * budget_tokens):
            break
        fitting = folded if over <= 0 else None
        room_tokens -= over + 4
    return folded


def _write(ledger: Ledger, room: "_TokenRoom", allowed: int, pinned: Sequence[str], recall: bool) -> CheckpointText:
    opening = [OPENING, RECALL_HINT] if recall else [OPENING]
    room.left -= sum(map(room.size, opening))
    others = int(max(0, room.left - allowed) * OTHERS_SHARE)
    kept = write_instructions(ledger, allowed_tokens=allowed, more_tokens=others, size=room.size, recall=recall)
    room.left -= kept.tokens
    told = [line for quote in reversed(ledger.narratives) for line in quote.text.splitlines() if line.strip()]
    narrative = room.fill((_Section(EARLIER, tuple(told), 0.5),))
    folder = shared_folder(ledger.files)
    where = [FOLDER_NOTE.format(folder=folder)] if folder else []
    plain = (*_sections(ledger, folder, recall, {}), _changed_files(ledger, room, folder, recall))
    sizes = {
        section.heading: sum(map(room.size, (section.heading, *section.lines))) for section in plain if section.lines
    }
    note = sum(map(room.size, where)) + MORE_TOKENS
    changed = min(int(room.left * CHANGED_SHARE), sizes.get(FILES_CHANGED, 0)) + note
    first = max(changed, min(int(room.left * FIRST_SHARE), sum(sizes.get(heading, 0) for heading in LISTED_FIRST)))
    allowed = max(int((room.left - first) * NAMES_SHARE), room.left - sum(sizes.values()) - note)
    quoted = room.quote_names(ledger, allowed)
    listed = (_changed_files(ledger, room, folder, recall), *_sections(ledger, folder, recall, quoted))
    sections = room.fill(listed, *where, quoted=quoted)
    return CheckpointText("\n\n".join((*opening, *narrative, *pinned, *kept.blocks, *sections)), kept.short)


NOTHING_QUOTED: Mapping[str, Sequence[str]] = {}


class _TokenRoom:
    """The tokens still free while `render_checkpoint` writes."""

    def __init__(self, budget_tokens: int, rule: Ruler) -> None:
        self.left = budget_tokens
        self.rule: Ruler = rule

    def size(self, text: str) -> int:
        return estimate(text, self.rule) + 1

    def quote_names(self, ledger: Ledger, allowed: int) -> dict[str, list[str]]:
        """Return pieces of lines by the file or call that they are from, for the names most worth it in so many tokens."""
        quoted: dict[str, list[str]] = {}
        listed = {fact.path for fact in ledger.files if fact.operation in CHANGED}
        names = most_worth(ledger.names)
        shown: set[str] = set()
        for fact, most in (*((fact, MOST_QUOTED) for fact in names), *((fact, len(names)) for fact in names)):
            lines = quoted.get(fact.source)
            if fact.name in shown or (lines is not None and len(lines) >= most):
                continue
            heading = 0 if lines is not None or fact.source in listed else self.size(shorten_command(fact.source)) + 4
            line = "" if fact.name in shorten_command(fact.source) else fact.line
            tokens = (self.size(line) + 1 if line else 0) + heading
            if tokens <= allowed:
                allowed -= tokens
                self.left -= tokens
                quoted.setdefault(fact.source, []).extend([line] if line else ())
                shown.update((fact.name, *telling_names(line)))
        return quoted

    def fill(
        self, sections: Sequence[_Section], *notes: str, quoted: Mapping[str, Sequence[str]] = NOTHING_QUOTED
    ) -> list[str]:
        """Return as many lines of each section as its share holds, then more of each while there is room; notes come
        first.

        Unused room goes to the other sections; a count shows what is left out. Notes appear only with sections.
        """
        self.left -= sum(map(self.size, notes))
        taken = [
            section.must + self._lines_within(section, section.must, int(self.left * section.share))
            for section in sections
        ]
        for place, section in enumerate(sections):
            waiting = sum(
                count < len(other.lines) for count, other in zip(taken[place:], sections[place:], strict=True)
            )
            taken[place] += self._lines_within(section, taken[place], self.left // max(1, waiting))
        blocks: list[str] = []
        for section, count in zip(sections, taken, strict=True):
            left_out = sum(map(count_facts, section.lines[count:]))
            more = [f"- … and {left_out:,} more"] if left_out else []
            lines = list(section.lines[:count])
            for place, source in enumerate(section.sources[:count]):
                lines[place] += f" — {' · '.join(quoted[source])}" if quoted.get(source) else ""
            if section.order:
                lines = [lines[place] for place in sorted(range(count), key=section.order.__getitem__)]
            blocks += ["\n".join((section.heading, *lines, *more))] if lines else []
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


def _changed_files(ledger: Ledger, room: _TokenRoom, folder: str, recall: bool) -> _Section:
    """Return the section of changed files: all of them, as many as possible in full."""
    files = [fact for fact in reversed(ledger.files) if fact.operation in CHANGED]
    allowed = room.left * CHANGED_SHARE - room.size(FOLDER_NOTE) - room.size(folder) - MORE_TOKENS
    lines: tuple[str, ...] = ()
    for whole in (len(files), *TOLD_WHOLE):
        lines = changed_lines(files, folder, recall, whole=whole)
        if sum(map(room.size, lines)) <= allowed:
            break
    sources = tuple(fact.path for fact in files[:whole])
    return _Section(FILES_CHANGED, lines, CHANGED_SHARE, (*sources, *[""] * (len(lines) - len(sources))))


def _sections(ledger: Ledger, folder: str, recall: bool, quoted: Mapping[str, Sequence[str]]) -> Iterator[_Section]:
    todos = tuple(f"- [{fact.status}] {fact.item}" for fact in ledger.todos or ())
    yield _Section(TODOS, todos, 0.4)
    errors = (
        f"- {_shorten_path(OWN_FOLDER.sub('', fact.origin), folder)}: {fact.line}{handle_suffix(fact.handle, recall)}"
        for fact in reversed(ledger.errors)
    )
    yield _Section(ERRORS, tuple(errors), 0.35)
    yield _Section(QUESTIONS, tuple(quote_verbatim(quote, recall) for quote in ledger.questions), 0.3)
    jobs = tuple(f"- {fact.description}{handle_suffix(fact.handle, recall)}" for fact in ledger.jobs)
    yield _Section(JOBS, jobs, 0.3)
    yield _Section("Decisions, newest first:", excerpt_lines(reversed(ledger.decisions), recall), 0.3)
    yield _Section("Figures and references, newest first:", excerpt_lines(reversed(ledger.findings), recall), 0.3)
    read = [fact for fact in reversed(ledger.files) if fact.operation == "read"]
    paths = [f"- {_shorten_path(fact.path, folder)}: read{handle_suffix(fact.handle, recall)}" for fact in read]
    yield _quoting_section(FILES_READ, paths, [fact.path for fact in read], quoted, 0.3)
    commands = [fact for fact in reversed(ledger.commands) if not is_lookup(fact.command)]
    lines = [command_line(fact, recall) for fact in commands]
    run = [fact.command for fact in commands]
    yield _quoting_section("Commands run, newest first:", lines, run, quoted, 0.4)
    known = {*(fact.path for fact in ledger.files), *run}
    handles = {fact.source: fact.handle for fact in ledger.names if fact.source in quoted and fact.source not in known}
    others = sorted(handles, key=lambda source: _place(handles[source]), reverse=True)
    lines = [f"- {shorten_command(source)}{handle_suffix(handles[source], recall)}" for source in others]
    yield _quoting_section("Looked up, newest first:", lines, others, quoted, 0)
    yield _Section("Reported to the user, newest first:", excerpt_lines(reversed(ledger.reports), recall), 1.0)


def _quoting_section(
    heading: str, lines: Sequence[str], sources: Sequence[str], quoted: Mapping[str, Sequence[str]], share: float
) -> _Section:
    """Return a section whose lines are taken first, and in any case, if something of their source is quoted."""
    order = sorted(range(len(lines)), key=lambda place: sources[place] not in quoted)
    must = sum(source in quoted for source in sources)
    return _Section(
        heading, tuple(lines[at] for at in order), share, tuple(sources[at] for at in order), must, tuple(order)
    )
