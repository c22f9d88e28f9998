"""A short account of a session: what was sent in place of everything, the rules that were kept, recall, and the money.

Sizes are estimates of the same kind on both sides: of the views that were sent, and of the whole history at each request.
Money is counted only for requests with reported usage and a known price.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from infold.catalogue import Prices
from infold.core.entries import Checkpoint, MessageEntry, split_handle
from infold.core.messages import calls_of, is_recall, results_of
from infold.errors import BrokenInput
from infold.formats.tools import recall_query
from infold.reports.stored_log import NumberedEntry
from infold.reports.timeline import RequestPoint, Timeline

LimitOf = Callable[[RequestPoint], int]
"""Returns how many tokens of its window a request might have filled; 0 if that is not known."""

PricesOf = Callable[[str], Prices | None]
"""Returns the prices of a model, `None` if they are not known."""

CHANGES_PREFIX = ("compaction", "pruning", "clipping")
"""Kinds of annotations after which the provider's cache no longer has the request."""

_PASSAGE = re.compile(r"^\[\d+\.\d+\]", re.MULTILINE)
"""A heading of something that recall found."""


class KeptRule(Struct, frozen=True):
    """A rule of the user in its own words, and the number of the message it is from, `None` if that is not known."""

    text: str
    sequence: int | None


class RecallUse(Struct, frozen=True):
    """A call of recall: the number of its entry, what it asked for, and whether anything was found."""

    sequence: int
    query: str
    has_found: bool


class Money(Struct, frozen=True):
    """US dollars: what the tokens that were not sent would have cost, and what it cost not to send them.

    `left_out` is at the price of cached input, the least that they can cost. `cache_misses` is what requests after a change
    of the view cost more because the provider's cache did not have them.
    """

    left_out: float
    summaries: float
    cache_misses: float

    @property
    def saved(self) -> float:
        """The difference; below 0 if more was spent than saved."""
        return self.left_out - self.summaries - self.cache_misses


class SessionAccount(Struct, frozen=True):
    """What happened in a session, or in its newest requests if `is_partial`: then every number is of those alone.

    `compactions` and `shortenings` (prunings and clippings) leave out what was undone. `whole_tokens` is what all requests would
    have been with the whole history in each, `over_limit` how many of them would not have fitted; of a part both are lower
    bounds, since what was folded before it is not counted. `rules` are those of the user that the newest checkpoint quotes.
    `money` is `None` if no price is known.
    """

    requests: int
    compactions: int
    shortenings: int
    sent_tokens: int
    whole_tokens: int
    over_limit: int
    rules: tuple[KeptRule, ...]
    recalls: tuple[RecallUse, ...]
    money: Money | None
    is_partial: bool

    @property
    def left_out_tokens(self) -> int:
        """How many tokens were not sent; 0 if checkpoints were larger than what they replaced."""
        return max(0, self.whole_tokens - self.sent_tokens)


def session_account(
    timeline: Timeline, entries: Sequence[NumberedEntry], *, limit_of: LimitOf, prices_of: PricesOf
) -> SessionAccount:
    """Return the account of a timeline and the entries it was made from."""
    points, checkpoint = timeline.points, timeline.log.checkpoint
    changes = Counter(one.kind for one in timeline.annotations if not one.is_undone)
    return SessionAccount(
        requests=len(points),
        compactions=changes["compaction"],
        shortenings=changes["pruning"] + changes["clipping"],
        sent_tokens=sum(point.tokens for point in points),
        whole_tokens=sum(point.whole_tokens for point in points),
        over_limit=sum(0 < limit_of(point) < point.whole_tokens for point in points),
        rules=() if checkpoint is None else tuple(_kept_rules(checkpoint)),
        recalls=tuple(_recalls(entries)),
        money=_money(timeline, prices_of, sum(entry.cost for _, entry in entries if isinstance(entry, Checkpoint))),
        is_partial=bool(points) and points[0].number > 1,
    )


def _kept_rules(checkpoint: Checkpoint) -> Iterator[KeptRule]:
    """Yield the rules that a checkpoint has room to quote in full."""
    text = " ".join(checkpoint.text.split())
    for rule in checkpoint.ledger.constraints:
        if " ".join(rule.text.split()) in text:
            sequence, _ = split_handle(rule.handle)
            yield KeptRule(rule.text, sequence if sequence >= 0 else None)


def _recalls(entries: Iterable[NumberedEntry]) -> Iterator[RecallUse]:
    """Yield the calls of recall that were answered."""
    asked: dict[str, RecallUse] = {}
    for sequence, entry in entries:
        if not isinstance(entry, MessageEntry):
            continue
        for call in calls_of(entry.message):
            if is_recall(call.tool):
                asked[call.call_id] = RecallUse(sequence, _query(call.arguments), has_found=False)
        for result in results_of(entry.message):
            use = asked.pop(result.call_id, None)
            if use is not None:
                yield RecallUse(use.sequence, use.query, has_found=_PASSAGE.search(result.output) is not None)


def _query(arguments: str) -> str:
    try:
        return recall_query(arguments)
    except BrokenInput:
        return ""


def _money(timeline: Timeline, prices_of: PricesOf, summary_cost: float) -> Money | None:
    changed = {one.request for one in timeline.annotations if one.kind in CHANGES_PREFIX}
    is_cached = any(point.reply.usage and point.reply.usage.cache_read for point in timeline.points)
    left_out = cache_misses = 0.0
    is_known = False
    for before, point in zip((None, *timeline.points), timeline.points, strict=False):
        usage, model = point.reply.usage, point.reply.model
        prices = prices_of(model.id) if usage and usage.prompt and model else None
        if usage is None or prices is None:
            continue
        is_known = True
        cached = prices.input if prices.cache_read is None else prices.cache_read
        fresh = prices.input if prices.cache_write is None else prices.cache_write
        left_out += (point.whole_tokens - point.tokens) * cached
        if is_cached and before is not None and point.number in changed:
            new_tokens = max(0, point.whole_tokens - before.whole_tokens)
            missed = max(0, usage.prompt - usage.cache_read - new_tokens)
            cache_misses += missed * max(0.0, fresh - cached)
    return Money(left_out / 1_000_000, summary_cost, cache_misses / 1_000_000) if is_known else None
