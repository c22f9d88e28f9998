"""The user's own words in a checkpoint: what stands word for word, what as a stub, and what there is no room for (B2).

The first request comes before the latest, then rules, newest first, then what was attached, then what else was asked. Each of
these kinds is given a line for all it has before any is given more, so that a long new one does not push short old ones out.
Whatever does not stand word for word is named by its handle, so that it can be told.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from infold.core.foldlines import LONGEST_BRIEF, LONGEST_EXCERPT, LONGEST_STUB, brief, quoted, stubbed
from infold.core.ledger import Ledger, Quote

FIRST, LATEST = "The user's first request, verbatim:", "The user's latest request, verbatim:"
ATTACHED = "Attached by the user, newest first:"
RULES, OTHERS = "Rules the user laid down, verbatim, newest first:", "Other requests, newest first:"

MORE_TOKENS = 8
"""Room for the count of what is left out."""

LONGEST_DOCUMENT = 2_000
"""Characters of an attached text that are quoted: a short specification whole, of a longer text its beginning."""

Sizer = Callable[[str], int]


class Instructions(Struct, frozen=True):
    """Blocks of the user's words, the tokens they take, and the handles of what does not stand word for word."""

    blocks: tuple[str, ...]
    tokens: int
    short: tuple[str, ...]


def told_instructions(
    ledger: Ledger, *, allowed_tokens: int, more_tokens: int, size: Sizer, recall: bool
) -> Instructions:
    """The user's words within so many tokens; other requests may take `more_tokens` beside what is left of them."""
    telling = _Telling(allowed_tokens, size, recall)
    first, latest = ledger.first_request, ledger.latest_request
    telling.write(FIRST, () if first is None else (first,))
    telling.write(LATEST, () if latest is None or latest == first else (latest,))
    rules = telling.unsaid(ledger.constraints)
    telling.write(RULES, rules)
    told = {quote.text for quote in (first, latest, *rules) if quote is not None}
    telling.left += more_tokens
    asked = {quote.handle for quote in (first, latest) if quote is not None}
    attached = tuple(quote for quote in reversed(ledger.attachments) if quote.handle not in asked)
    telling.write(ATTACHED, attached, LONGEST_DOCUMENT)
    told.update(quote.text for quote in ledger.attachments)
    telling.write(OTHERS, telling.unsaid(quote for quote in ledger.requests if quote.text not in told), LONGEST_EXCERPT)
    return Instructions(tuple(telling.blocks), telling.tokens, tuple(dict.fromkeys(telling.short)))


class _Telling:
    """What has been written so far; a scratch pad of `told_instructions`."""

    def __init__(self, allowed_tokens: int, size: Sizer, recall: bool) -> None:
        self.left = allowed_tokens
        self.tokens = 0
        self.size = size
        self.recall = recall
        self.blocks: list[str] = []
        self.short: list[str] = []
        self.verbatim: list[str] = []

    def unsaid(self, quotes: Iterable[Quote]) -> tuple[Quote, ...]:
        """Quotations whose words do not stand in the text yet, newest first; of those with the same words the newest."""
        newest: dict[str, Quote] = {}
        for quote in reversed(tuple(quotes)):
            newest.setdefault(quote.text, quote)
        return tuple(quote for text, quote in newest.items() if not any(text in said for said in self.verbatim))

    def write(self, heading: str, quotes: Sequence[Quote], longest: int | None = None) -> None:
        """Write what fits under a heading; what is longer than that many characters is never written whole."""
        forms = [self._forms(quote, longest) for quote in quotes]
        chosen = self._chosen(forms, self.left - self.size(heading))
        lines = [line for line in chosen if line]
        for quote, line in zip(quotes, chosen, strict=True):
            if line == quoted(quote, self.recall):
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
        """The ways to tell a quotation, the longest first: word for word, as a stub, in a few words."""
        flat = len(" ".join(quote.text.split()))
        whole = () if longest is not None and len(quote.text) > longest else (quoted(quote, self.recall),)
        stub = (stubbed(quote, self.recall),) if flat > LONGEST_STUB or not whole else ()
        return (*whole, *stub, *((brief(quote, self.recall),) if flat > LONGEST_BRIEF else ()))

    def _chosen(self, forms: Sequence[tuple[str, ...]], allowed: int) -> list[str]:
        """A line for each as far as they fit, then longer ones for the first of them; nothing for those without room."""
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
