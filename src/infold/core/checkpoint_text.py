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
from msgspec.structs import replace

from infold.core.later_words import MOST_TEXTS, may_lift, remember
from infold.core.ledger import (
    MOST_FILES,
    OWN_FOLDER,
    CommandFact,
    ErrorFact,
    FileFact,
    FileOperation,
    Ledger,
    Quote,
    forbids,
    is_check,
    is_for_one_turn,
    is_lookup,
    spoken_sentences,
    without_filters,
)
from infold.core.messages import recall_name
from infold.core.policy import LARGEST_TOKENS, Ruler
from infold.core.tokens import cache_by_text, estimate

LONGEST_EXCERPT, LONGEST_STUB, LONGEST_BRIEF = 240, 160, 60
"""Characters of a sentence in an excerpt, of an instruction that became a stub, and of one with hardly any room."""


FILES_PER_LINE = 3


FOLDER_SHARE, SHORTEST_FOLDER = 0.6, 8
"""A folder is named once if this share of the paths is in it and its name is long enough to be worth it."""


_LISTED = tuple(f"- {operation}: " for operation in get_args(FileOperation))


_HERE_DOCUMENT = re.compile(r"(<<-?\s*['\"]?\w+['\"]?)\s.*", re.DOTALL)


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


def changed_lines(files: Sequence[FileFact], folder: str, recall: bool | str, *, whole: int) -> tuple[str, ...]:
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


def command_line(fact: CommandFact, recall: bool | str) -> str:
    """Return the line for a command with how it ended."""
    status = "ok" if fact.exit_status == 0 else "" if fact.exit_status is None else f"exit {fact.exit_status}"
    outcome = f" ({fact.outcome})" if status and fact.outcome else fact.outcome
    ended = f" → {status}{outcome}" if status or outcome else ""
    return f"- `{shorten_command(fact.command)}`{ended}{handle_suffix(fact.handle, recall)}"


def shorten_command(command: str) -> str:
    """Return a command line without the folder it changes into and the text that is given to it, shortened if long."""
    return _one_line(_HERE_DOCUMENT.sub(r"\1…", OWN_FOLDER.sub("", command)), LONGEST_STUB)


def excerpt_lines(quotes: Iterable[Quote], recall: bool | str) -> tuple[str, ...]:
    """Return one line per quote, shortened if long, each once."""
    return tuple(
        dict.fromkeys(
            f"- {_one_line(quote.text, LONGEST_EXCERPT)}{handle_suffix(quote.handle, recall)}" for quote in quotes
        )
    )


def quote_verbatim(quote: Quote, recall: bool | str) -> str:
    """Return a quote verbatim; if it has several lines, between marks, because its lines may look like ours."""
    told = f'"""{quote.text}"""' if "\n" in quote.text else quote.text
    asked = f' (asked: "{_one_line(quote.asked, LONGEST_EXCERPT)}")' if quote.asked else ""
    return f"- {told}{asked}{handle_suffix(quote.handle, recall)}"


def quote_beginning(quote: Quote, recall: bool | str) -> str:
    """Return the beginning of a quote that does not fit."""
    return f"- {_one_line(quote.text, LONGEST_STUB)} {length_note(quote, recall)}"


def length_note(quote: Quote, recall: bool | str) -> str:
    """Return how long the whole of a shortened quote is."""
    hint = f"; {recall_name(recall)} {quote.handle}" if recall else ""
    return f"[{len(quote.text):,} characters in all{hint}]"


def quote_briefly(quote: Quote, recall: bool | str) -> str:
    """Return the first words of a quote if there is hardly any room."""
    return f"- {_one_line(quote.text, LONGEST_BRIEF)}{handle_suffix(quote.handle, recall)}"


def handle_suffix(handle: str, recall: bool | str) -> str:
    """Return the handle by which something can be recalled, as a suffix."""
    return f" [{handle}]" if recall else ""


def _one_line(text: str, most: int) -> str:
    """Return a text on one line, cut behind a word if it is long."""
    flat = _flat(text, most + 1)
    if len(flat) <= most:
        return flat
    cut = flat[: most - 1]
    return f"{cut.rsplit(None, 1)[0] if ' ' in cut[most // 2 :] else cut}…"


def _flat(text: str, least: int) -> str:
    """Return a text on one line, of a long text at least that many characters from its beginning."""
    flat = " ".join(text[: 2 * least].split())
    return flat if len(flat) >= least else " ".join(text.split())


FIRST, LATEST = "The user's first request, verbatim:", "The user's latest request, verbatim:"

ATTACHED = "Attached by the user, newest first:"

RULES, OTHERS = "Rules the user laid down, verbatim, newest first:", "Other requests, verbatim, newest first:"

ANSWERS = "Asked of the user and answered, verbatim, newest first:"

VERBATIM, SHORTENED = ", verbatim", ", some shortened"

LATER, LATER_CHARACTERS = ' (later: "{words}")', (200, 60, 0)
"""How words that the user said later stand behind a sentence, and how many characters of them; in the least room the second
number counts."""

MORE_TOKENS, FEWEST_TOKENS = 8, 3
"""Room for the count of what is left out, and for the shortest line: what has no room even so is not looked at."""

LONGEST_DOCUMENT = 2_000
"""Characters of an attached text that are quoted: a short specification whole, the beginning of a longer text."""

SPOKEN_CHARACTERS = (4_000, 1_500, 600, 240)
"""Characters of the user's own sentences that are quoted of a message too long to be quoted whole."""

LONGEST_EVEN = 300
"""Characters that each quote may have before any may have more."""

_CASE = re.compile(r"[\d/]")

_TYPED = re.compile(r"[^\W\d_ ]|[ ,.'’、，。]")
"""The characters of prose."""

_BEGINNING, _GAPS = re.compile(rf"\s*(?:\S\s*){{0,{LONGEST_STUB - 1}}}\S?"), re.compile(r"…(?: …)+")
"""The beginning of a long request that is never left out, and marks of sentences that are, next to one another."""

PROSE_SHARE = 0.75
"""Share of letters, blanks and common marks in a sentence from which on it counts as typed; code and tables have less."""

Sizer = Callable[[str], int]


class UserInstructions(Struct, frozen=True):
    """Blocks of the user's words, their tokens, and the handles of what is not verbatim."""

    blocks: tuple[str, ...]
    tokens: int
    short: tuple[str, ...]


def write_instructions(
    ledger: Ledger,
    *,
    allowed_tokens: int,
    more_tokens: int,
    size: Sizer,
    recall: bool | str,
    asked_tokens: int = LARGEST_TOKENS,
) -> UserInstructions:
    """Return the user's words within that many tokens; other requests may take `more_tokens` in addition.

    All but the rules and the first and the latest request have to do with `asked_tokens`: an agent is lost without its task,
    whatever else it sees.

    Half of the room is kept for rules, if they need it; where not all fit, prohibitions come before other rules. Behind a
    sentence stands what the user said later about the same thing, and an order for one turn stops being a rule once the
    user has asked for something else.
    """
    writer = _InstructionWriter(ledger, size, recall)
    first, latest = ledger.first_request, ledger.latest_request
    newest = "" if latest is None else latest.handle
    rules = writer.unsaid(
        rule for rule in ledger.constraints if rule.handle == newest or not is_for_one_turn(rule.text)
    )
    asked = [quote for quote in dict.fromkeys((first, latest)) if quote is not None]
    whole = sum(size(writer.whole(quote)) + size(LATEST) for quote in asked)
    apart = (rule for rule in rules if not any(rule.text in quote.text for quote in asked))
    apart_tokens = writer.tokens_up_to(allowed_tokens, apart) + size(RULES)
    kept_tokens = min(allowed_tokens // 2, writer.tokens_up_to(allowed_tokens, rules) + size(RULES))
    if whole + apart_tokens <= allowed_tokens:  # rules that stand in a request which is quoted whole need no room
        kept_tokens = min(kept_tokens, apart_tokens)
    writer.left = allowed_tokens - kept_tokens
    writer.write(FIRST, () if first is None else (first,))
    writer.write(LATEST, () if latest is None or latest == first else (latest,))
    asked_left = allowed_tokens
    if asked_tokens < allowed_tokens:
        asked_left = max(asked_tokens // 3, min(allowed_tokens - kept_tokens, asked_tokens) - writer.tokens)
    writer.left = allowed_tokens - writer.tokens
    rules = writer.unsaid(reversed(rules))
    writer.write(RULES, rules, last=lambda quote: not forbids(quote.text))
    writer.left = min(writer.left, asked_left)
    writer.write(ANSWERS, writer.unsaid(ledger.answers), LONGEST_DOCUMENT)
    writer.left += more_tokens
    handles = {quote.handle for quote in asked}
    attached = tuple(quote for quote in reversed(ledger.attachments) if quote.handle not in handles)
    writer.write(ATTACHED, attached, LONGEST_DOCUMENT)
    told = {quote.text for quote in (first, latest, *rules, *ledger.attachments) if quote is not None}
    answers = {quote for quote in ledger.requests if quote.asked and quote not in (first, latest)}
    others = writer.unsaid(quote for quote in ledger.requests if quote in answers or quote.text not in told)
    writer.said = frozenset(writer.verbatim)
    writer.write(OTHERS, others, SPOKEN_CHARACTERS[0], last=lambda quote: len(quote.text) > LONGEST_EXCERPT)
    return UserInstructions(tuple(writer.blocks), writer.tokens, tuple(dict.fromkeys(writer.short)))


def _place(handle: str) -> tuple[int, ...]:
    """Return where a handle's part is in the session, for comparison."""
    return tuple(int(number) for number in handle.split("."))


class _InstructionWriter:
    """What `write_instructions` has written so far."""

    def __init__(self, ledger: Ledger, size: Sizer, recall: bool | str) -> None:
        self.left = 0
        self.tokens = 0
        self.size = size
        self.recall = recall
        self.blocks: list[str] = []
        self.short: list[str] = []
        self.verbatim: list[str] = []
        self.rules = frozenset(quote.text for quote in ledger.constraints)
        self.newest = max((_place(quote.handle) for quote in ledger.requests), default=())
        self.later: dict[str, list[Quote]] = {}
        for pair in ledger.later:
            self.later.setdefault(pair.sentence.text, []).append(pair.words)
        self.said: frozenset[str] = frozenset()
        self._sentences: dict[str, tuple[str, ...]] = {}

    def unsaid(self, quotes: Iterable[Quote]) -> tuple[Quote, ...]:
        """Return quotes whose words are not in the text yet, newest first; of equal ones the newest."""
        newest: dict[tuple[str, str], Quote] = {}
        for quote in reversed(tuple(quotes)):
            newest.setdefault((quote.text, quote.asked), quote)
        return tuple(
            quote for quote in newest.values() if quote.asked or not any(quote.text in said for said in self.verbatim)
        )

    def write(
        self,
        heading: str,
        quotes: Sequence[Quote],
        longest: int | None = None,
        last: Callable[[Quote], bool] = lambda _: False,
    ) -> None:
        """Write what fits under a heading; quotes longer than that many characters are never written whole.

        The quotes that come `last` get the room that the others leave.
        """
        order = sorted(range(len(quotes)), key=lambda place: last(quotes[place]))[: max(0, self.left) // FEWEST_TOKENS]
        allowed = self.left - self.size(heading.replace(VERBATIM, SHORTENED))
        shortest = self._shortest(quotes, order, allowed, longest)
        whole = {place: self._whole_forms(quotes[place], longest) for place in shortest}
        chosen = self._lengthened(quotes, shortest, whole, allowed, longest)
        for place, quote in enumerate(quotes):
            is_whole = place in chosen and chosen[place] in whole[place]
            (self.verbatim if is_whole else self.short).append(quote.text if is_whole else quote.handle)
        if not chosen:
            return
        lines = [chosen[place] for place in sorted(chosen)]
        is_verbatim = all(line in whole[place] and not self._said_in(quotes[place]) for place, line in chosen.items())
        heading = heading if is_verbatim else heading.replace(VERBATIM, SHORTENED)
        more = [f"- … and {len(quotes) - len(lines):,} more"] if len(lines) < len(quotes) else []
        spent = self.size(heading) + sum(map(self.size, (*lines, *more)))
        self.left -= spent
        self.tokens += spent
        self.blocks.append("\n".join((heading, *lines, *more)))

    def tokens_up_to(self, most: int, quotes: Iterable[Quote]) -> int:
        """Return the tokens of whole quotes, counted until they are more than `most`."""
        tokens = 0
        for quote in quotes:
            if tokens > most:
                break
            tokens += self.size(self.whole(quote))
        return tokens

    def whole(self, quote: Quote, longest: int = LATER_CHARACTERS[0]) -> str:
        """Return a quote verbatim, with later words behind their sentences, without sentences that stand in the text
        already."""
        text = self._with_later(quote, len(quote.text), longest)
        return quote_verbatim(Quote(quote.handle, text, quote.asked), self.recall)

    def _with_later(self, quote: Quote, end: int, longest: int = LATER_CHARACTERS[0]) -> str:
        """Return the text of `whole` up to a place."""
        said, spoken, pieces, at = self._said_in(quote), self._spoken_in(quote.text), list[str](), 0
        for sentence in () if not said and self.later.keys().isdisjoint(spoken) else spoken:
            start = quote.text.index(sentence, at)
            if start + len(sentence) > end:
                break
            shown = "…" if sentence in said else sentence + self._later(quote, sentence, longest)
            pieces += (quote.text[at:start], shown)
            at = start + len(sentence)
        return "".join((*pieces, quote.text[at:end]))

    def _said_in(self, quote: Quote) -> frozenset[str]:
        """Return the sentences of a quote that stand in the text already."""
        return self.said.intersection(self._spoken_in(quote.text)) - {quote.text}

    def _spoken_in(self, text: str) -> tuple[str, ...]:
        if text not in self._sentences:
            self._sentences[text] = spoken_sentences(text)
        return self._sentences[text]

    def _later(self, quote: Quote, sentence: str, longest: int = LATER_CHARACTERS[0]) -> str:
        """Return what the user said later about a sentence of a quote, unless the sentence was said again since.

        Later words that are a rule themselves are shortened, since they stand among the rules. In the least room, what stands
        there or in the kept messages is left out unless it may take the sentence back.
        """
        told: list[str] = []
        for words in self.later.get(sentence, ()):
            stands = words.text in self.rules or _place(words.handle) > self.newest
            if _place(quote.handle) <= _place(words.handle) and (longest or not stands or may_lift(words.text)):
                most = LATER_CHARACTERS[1] if words.text in self.rules else longest or LATER_CHARACTERS[1]
                told.append(LATER.format(words=_one_line(words.text, most).replace('") ', "”) ")))
        return "".join(told)

    def _shortened(self, quote: Quote, line: str, most: int) -> str:
        """Return the beginning of a quote with the later words about what it shows."""
        shown = (quote.text, *spoken_sentences(quote.text[:most])) if self.later else ()
        return line + "".join(self._later(quote, one, LATER_CHARACTERS[-1]) for one in dict.fromkeys(shown))

    def _whole_forms(self, quote: Quote, longest: int | None) -> tuple[str, ...]:
        """Return the forms in which a quote is verbatim, longest first; none if it is too long."""
        if longest is not None and len(quote.text) > longest:
            return ()
        return tuple(dict.fromkeys(self.whole(quote, most) for most in LATER_CHARACTERS))

    def _forms(self, quote: Quote, whole: Sequence[str], longest: int | None) -> tuple[str, ...]:
        """Return the forms of a quote, longest first: verbatim, the user's sentences, the beginning, a few words."""
        told = self._told(quote, longest, SPOKEN_CHARACTERS)
        if told and longest is not None and _is_mostly_pasted(quote.text):
            return told
        forms = [*whole, *told]
        if not forms or len(_flat(quote.text, LONGEST_STUB + 1)) > LONGEST_STUB:
            forms.append(self._shortened(quote, quote_beginning(quote, self.recall), LONGEST_STUB))
        return tuple(dict.fromkeys((*forms, self._shortest_form(quote, longest))))

    def _shortest_form(self, quote: Quote, longest: int | None) -> str:
        """Return the last form of a quote, which is made for many quotes that turn out to have no room."""
        if longest is not None and _is_mostly_pasted(quote.text):
            told = self._told(quote, longest, SPOKEN_CHARACTERS[-1:])
            if told:
                return told[-1]
        if quote.text in self.later or len(_flat(quote.text, LONGEST_BRIEF + 1)) > LONGEST_BRIEF:
            return self._shortened(quote, quote_briefly(quote, self.recall), LONGEST_BRIEF)
        if longest is None or len(quote.text) <= longest:
            return self.whole(quote, LATER_CHARACTERS[-1])
        return self._shortened(quote, quote_beginning(quote, self.recall), LONGEST_STUB)

    def _told(self, quote: Quote, longest: int | None, lengths: Sequence[int]) -> tuple[str, ...]:
        """Return a long message by the user's sentences in it, within each of these numbers of characters; nothing for a
        rule or a document."""
        flat = len(_flat(quote.text, SPOKEN_CHARACTERS[0] + 1))
        if flat <= SPOKEN_CHARACTERS[-1] or longest == LONGEST_DOCUMENT or quote.text in self.rules:
            return ()
        typed = _typed_sentences(quote.text)
        spoken = {one: one + self._later(quote, one) for one in typed if one not in self.rules}
        write = self._spoken if longest is not None else self._opened
        return tuple(dict.fromkeys(write(quote, spoken, most) for most in lengths if most < flat))

    def _spoken(self, quote: Quote, spoken: Mapping[str, str], most: int) -> str:
        """Return a long message by those of its sentences that last, within so many characters."""
        text = _most_lasting([spoken[one] for one in self._spoken_in(quote.text) if one in spoken], most) or "…"
        return f"- {text} {length_note(quote, self.recall)}"

    def _opened(self, quote: Quote, spoken: Mapping[str, str], most: int) -> str:
        """Return a long request by its beginning, which stands in one piece whatever it holds, and by those of the sentences
        behind it that last, within so many characters."""
        sentences, ends, at = self._spoken_in(quote.text), list[int](), 0
        for sentence in sentences:
            at = quote.text.index(sentence, at) + len(sentence)
            ends.append(at)
        start = _BEGINNING.match(quote.text)
        assert start is not None, "the expression matches any text"
        cut = start.end()
        begun = (end for one, end in zip(sentences, ends, strict=True) if end - len(one) < cut <= end <= most)
        cut = next(begun, cut)
        opening = " ".join(self._with_later(quote, cut).split()) + ("" if cut in ends else " …")
        rest = [spoken[one] for one, end in zip(sentences, ends, strict=True) if end > cut and one in spoken]
        text = f"{opening} {_most_lasting(rest, most + LONGEST_STUB - len(opening))}".strip()
        return f"- {_GAPS.sub('…', text)} {length_note(quote, self.recall)}"

    def _shortest(
        self, quotes: Sequence[Quote], order: Sequence[int], allowed: int, longest: int | None
    ) -> dict[int, str]:
        """Return the shortest forms that fit, by place, taken in that order."""
        shortest = {place: self._shortest_form(quotes[place], longest) for place in order}
        sizes = {place: self.size(form) for place, form in shortest.items()}
        is_all = len(order) == len(quotes) and sum(sizes.values()) <= allowed
        left = allowed - (0 if is_all else MORE_TOKENS)
        chosen: dict[int, str] = {}
        for place, tokens in sizes.items():
            if tokens <= left:
                left -= tokens
                chosen[place] = shortest[place]
        return chosen

    def _lengthened(
        self,
        quotes: Sequence[Quote],
        shortest: Mapping[int, str],
        whole: Mapping[int, tuple[str, ...]],
        allowed: int,
        longest: int | None,
    ) -> dict[int, str]:
        """Return longer forms of what is written as far as they fit: first for all up to a length that is enough for a few
        sentences, with as few later words as there may be, then for the first of them."""
        forms = {place: self._forms(quotes[place], whole[place], longest) for place in shortest}
        sizes = {place: [self.size(form) for form in each] for place, each in forms.items()}
        leanest = {
            place: each.index(whole[place][-1]) if whole[place] and whole[place][-1] in each else 0
            for place, each in forms.items()
        }
        chosen, taken = dict(shortest), {place: each[-1] for place, each in sizes.items()}
        left = allowed - (0 if len(shortest) == len(quotes) else MORE_TOKENS) - sum(taken.values())
        for most, is_lean in ((LONGEST_EVEN, True), (LONGEST_EVEN, False), (None, False)):
            for place in chosen:
                for at in range(leanest[place] if is_lean else 0, len(forms[place])):
                    form, tokens = forms[place][at], sizes[place][at]
                    if (most is None or len(form) <= most) and tokens - taken[place] <= left:
                        left -= tokens - taken[place]
                        chosen[place], taken[place] = form, tokens
                        break
        return chosen


def _most_lasting(spoken: Sequence[str], most: int) -> str:
    """Return the sentences that fit into so many characters, with "…" in place of others.

    Sentences without figures and paths come first, since what is meant to last is rarely about one case; then those at either
    end.
    """
    left, kept = most, set[int]()
    order = [(bool(_CASE.search(one)), min(at, len(spoken) - 1 - at), at) for at, one in enumerate(spoken)]
    for _, _, place in sorted(order):
        if len(spoken[place]) <= left:
            left -= len(spoken[place])
            kept.add(place)
    text = " ".join(spoken[place] if place in kept else "…" for place in range(len(spoken)))
    return _GAPS.sub("…", text)


def _is_prose(sentence: str) -> bool:
    """Return whether a sentence looks typed instead of pasted."""
    return len(_TYPED.findall(sentence)) >= PROSE_SHARE * len(sentence)


@remember(MOST_TEXTS)
def _typed_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a user's text that look typed."""
    return tuple(filter(_is_prose, spoken_sentences(text)))


@cache_by_text
def _is_mostly_pasted(text: str) -> bool:
    """Return whether there are sentences in a text that look typed, and most of it does not."""
    typed = sum(map(len, _typed_sentences(text)))
    return 0 < typed < PROSE_SHARE * len(" ".join(text.split()))


OPENING = (
    "[Earlier conversation, folded. The user's words are quoted, the lists were made by a program; "
    "it is a record of the past, not a new request.]"
)


RECALL_HINT = "The full text of anything marked with a number can be brought back with the {tool} tool by that number."


FOLDER_NOTE = "Paths below are in {folder} unless they begin with a slash."


EARLIER = "From an earlier summary, written by a model; where it differs from what follows, that is right:"


SPARE_SHARE = 0.04
"""Share of the room that may stay empty without another try to fill it."""


MOST_TRIES = 6
"""How often a text that came out too long is written again; pins alone can keep it too long."""


OTHERS_SHARE = 0.3
"""Share of the room left by instructions that requests other than the first and the latest may take."""


LEAST_LIST_SHARE = 0.3
"""Share of their room that lists have whatever the user's words take."""


CHANGED_SHARE = 0.7
"""Share of the room left by instructions that changed files may take."""


TOLD_WHOLE = (40, 20, 10, 5, 0)
"""How many changed files are written in full if there is no room for all."""


FILES_CHANGED, FILES_READ = "Files changed, newest first:", "Files read, newest first:"

TODOS, ERRORS = "Todo list as last written:", "Errors not seen to be settled, newest first:"

QUESTIONS, JOBS = "Questions still open:", "Started and not reported back:"

OVERCOME = "Failed at first and succeeded since, newest first:"

CHECKS, VALUES = "Checks run, last outcome of each, newest first:", "Results, the newest of each call first:"

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


class TextRoom(Struct, frozen=True):
    """The tokens that a checkpoint's text may take.

    `budget_tokens` in all; `must_keep_tokens` for the user's words, of which `asked_tokens` for those that are neither rules nor
    the first or the latest request;
    `state_tokens` for changed files, todos, open errors, questions and jobs; `list_tokens` for the other lists, which give way
    to the user's words where both together are more than `shared_tokens`.
    """

    budget_tokens: int
    must_keep_tokens: int
    asked_tokens: int = LARGEST_TOKENS
    list_tokens: int = LARGEST_TOKENS
    shared_tokens: int = LARGEST_TOKENS
    state_tokens: int = 0

    def list_tokens_beside(self, words_tokens: int) -> int:
        """Return the tokens for the lists next to so many of the user's words."""
        return min(self.list_tokens, max(int(self.list_tokens * LEAST_LIST_SHARE), self.shared_tokens - words_tokens))


def render_checkpoint(ledger: Ledger, allowed: TextRoom, *, rule: Ruler, recall: bool | str) -> CheckpointText:
    """Write a ledger into a room; instructions come first and may take `must_keep_tokens`.

    Pins are written in addition, whatever their size; and if a model's words have left less than instructions may take,
    these still get it.
    """
    quotes = [quote_verbatim(quote, recall) for quote in ledger.pinned]
    pinned = ["\n".join(("Pinned:", *quotes))] if quotes else []
    added_size = sum(estimate(text, rule) for text in pinned)
    budget_tokens = allowed.budget_tokens
    room_tokens, fitting = budget_tokens, None
    for _ in range(MOST_TRIES):
        room = _TokenRoom(room_tokens, rule)
        must_keep = allowed.must_keep_tokens
        if must_keep <= budget_tokens:
            must_keep = min(must_keep, room_tokens)
        folded = _write(ledger, room, replace(allowed, must_keep_tokens=must_keep), pinned, recall)
        over = estimate(folded.text, rule) - added_size - budget_tokens
        # Lines are sized one by one; together they may come to a little more, or to less, which is then filled once.
        if over > 0 and fitting is not None:
            return fitting
        if over <= 0 and (fitting is not None or -over < SPARE_SHARE * budget_tokens):
            break
        fitting = folded if over <= 0 else None
        room_tokens -= over + 4
    return folded


def _write(
    ledger: Ledger, room: "_TokenRoom", allowed: TextRoom, pinned: Sequence[str], recall: bool | str
) -> CheckpointText:
    opening = [OPENING, RECALL_HINT.format(tool=recall_name(recall))] if recall else [OPENING]
    room.left -= sum(map(room.size, opening))
    others = int(max(0, min(room.left, allowed.shared_tokens) - allowed.must_keep_tokens) * OTHERS_SHARE)
    kept = write_instructions(
        ledger,
        allowed_tokens=allowed.must_keep_tokens,
        asked_tokens=allowed.asked_tokens,
        more_tokens=others,
        size=room.size,
        recall=recall,
    )
    folder = shared_folder(ledger.files)
    state = tuple(_state_sections(ledger, folder, recall))
    changed = changed_lines(_changed(ledger), folder, recall, whole=MOST_FILES)
    of_state = sum(map(room.size, (*changed, *(line for one in state for line in (one.heading, *one.lines)))))
    lists = allowed.list_tokens_beside(kept.tokens) + min(allowed.state_tokens, of_state)
    room.left = min(room.left - kept.tokens, lists)
    told = [line for quote in reversed(ledger.narratives) for line in quote.text.splitlines() if line.strip()]
    narrative = room.fill((_Section(EARLIER, tuple(told), 0.5),))
    where = [FOLDER_NOTE.format(folder=folder)] if folder else []
    listed = (*state, _changed_files(ledger, room, folder, recall), *_sections(ledger, folder, recall))
    sections = room.fill(listed, *where)
    return CheckpointText("\n\n".join((*opening, *narrative, *pinned, *kept.blocks, *sections)), kept.short)


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
        blocks: list[str] = []
        for section, count in zip(sections, taken, strict=True):
            left_out = sum(map(count_facts, section.lines[count:]))
            more = [f"- … and {left_out:,} more"] if left_out else []
            blocks += ["\n".join((section.heading, *section.lines[:count], *more))] if count else []
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


def _changed(ledger: Ledger) -> list[FileFact]:
    return [fact for fact in reversed(ledger.files) if fact.operation in CHANGED]


def _changed_files(ledger: Ledger, room: _TokenRoom, folder: str, recall: bool | str) -> _Section:
    """Return the section of changed files: all of them, as many as possible in full."""
    files = _changed(ledger)
    allowed = room.left * CHANGED_SHARE - room.size(FOLDER_NOTE) - room.size(folder) - MORE_TOKENS
    lines: tuple[str, ...] = ()
    for whole in (len(files), *TOLD_WHOLE):
        lines = changed_lines(files, folder, recall, whole=whole)
        if sum(map(room.size, lines)) <= allowed:
            break
    return _Section(FILES_CHANGED, lines, CHANGED_SHARE)


def _state_sections(ledger: Ledger, folder: str, recall: bool | str) -> Iterator[_Section]:
    """Yield what is open: todos, errors, questions and jobs."""
    todos = tuple(f"- [{fact.status}] {fact.item}" for fact in ledger.todos or ())
    yield _Section(TODOS, todos, 0.4)
    yield _Section(ERRORS, _error_lines(ledger.errors, folder, recall), 0.35)
    yield _Section(QUESTIONS, tuple(quote_verbatim(quote, recall) for quote in ledger.questions), 0.3)
    jobs = tuple(f"- {fact.description}{handle_suffix(fact.handle, recall)}" for fact in ledger.jobs)
    yield _Section(JOBS, jobs, 0.3)


def _sections(ledger: Ledger, folder: str, recall: bool | str) -> Iterator[_Section]:
    """Yield the other lists but for the changed files."""
    yield _Section(FILES_READ, file_lines("read", reversed(ledger.files), folder), 0.5)
    commands = [fact for fact in reversed(ledger.commands) if not is_lookup(fact.command)]
    checks = [fact for fact in commands if is_check(fact)]
    newest = {without_filters(fact.command): fact for fact in reversed(checks)}
    yield _Section(CHECKS, tuple(command_line(fact, recall) for fact in checks if fact in newest.values()), 0.4)
    yield _Section("Decisions, newest first:", excerpt_lines(reversed(ledger.decisions), recall), 0.3)
    files = {fact.path for fact in ledger.files}
    overcome = sorted(ledger.overcome, key=lambda fact: fact.origin not in files)  # of files, mostly edits that missed
    yield _Section(OVERCOME, _error_lines(overcome, folder, recall), 0.3)
    if not ledger.files:
        values = (
            f"- {_one_line(fact.call, LONGEST_STUB)} → {_one_line(fact.value, LONGEST_EXCERPT)}"
            f"{handle_suffix(fact.handle, recall)}"
            for fact in reversed(ledger.values)
        )
        yield _Section(VALUES, tuple(values), 0.4)
    yield _Section("Figures and references, newest first:", excerpt_lines(reversed(ledger.findings), recall), 0.3)
    others = (command_line(fact, recall) for fact in commands if fact not in checks)
    yield _Section("Commands run, newest first:", tuple(others), 0.3)
    yield _Section("Reported to the user, newest first:", excerpt_lines(reversed(ledger.reports), recall), 1.0)


def _error_lines(errors: Sequence[ErrorFact], folder: str, recall: bool | str) -> tuple[str, ...]:
    return tuple(
        f"- {_shorten_path(shorten_command(fact.origin), folder)}: {fact.line}{handle_suffix(fact.handle, recall)}"
        for fact in reversed(errors)
    )
