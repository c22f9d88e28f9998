"""What acting now saves and costs at the model's prices (B16).

Sending a long view again and again costs its cached price each time; cutting it makes the provider read what is left afresh,
once. Both are weighed as a shop weighs holding stock against ordering anew: act when what the surplus has cost since the last
cut has come to what a cut costs, and only if the calls still to come will earn it back. Too early and the cache is rewritten
for nothing, too late and every call carries what it does not need; near that point the total hardly changes, so a rough
forecast will do.
"""

from msgspec import Struct

MOST_CALLS_AHEAD = 100
"""A session is expected to go on for as many calls as it has had, but not for ever."""

LEAST_CALLS = 20
"""Calls that must have been made in a session before its price is weighed: a history that arrives complete says nothing of how
long the work with it will go on, and nothing was paid for it here."""

LEAST_RATIO = 2.0
"""A cut for its price alone must at least halve the view: what is folded has a value that no price list has."""


class Rates(Struct, frozen=True):
    """Prices per million tokens, in US dollars: read afresh (and written to the cache), read from the cache, written."""

    fresh: float
    cached: float
    output: float = 0.0


class Outlook(Struct, frozen=True):
    """What a cut now would mean.

    `after_tokens`: the request after it; `overhead_tokens` of that stay cached. `sent_tokens` were sent in `calls` calls since
    the last cut; `calls_before` is all calls of the session. Only calls whose replies were recorded count. `summary_tokens` a
    model would write; none where code folds. `is_cold`: the cache has expired, so that the next request is read afresh anyway.
    """

    view_tokens: int
    after_tokens: int
    overhead_tokens: int
    sent_tokens: int
    calls: int
    calls_before: int
    summary_tokens: int = 0
    is_cold: bool = False


def saving(outlook: Outlook, rates: Rates) -> float:
    """Return what cutting now is expected to save, in the currency of the rates; 0.0 where it does not pay.

    It never pays for less than half of the view, nor in a session of few calls.
    """
    surplus = outlook.view_tokens - outlook.after_tokens
    if outlook.calls_before < LEAST_CALLS or outlook.view_tokens < LEAST_RATIO * outlook.after_tokens:
        return 0.0
    price = _price_of_cut(outlook, rates)
    ahead = min(outlook.calls_before, MOST_CALLS_AHEAD) * surplus * rates.cached
    if outlook.is_cold:
        gain = surplus * rates.fresh - price
        return gain + ahead if gain > 0 else 0.0
    carried = max(0, outlook.sent_tokens - outlook.calls * outlook.after_tokens)
    return max(0.0, ahead - price) if carried * rates.cached >= price else 0.0


def _price_of_cut(outlook: Outlook, rates: Rates) -> float:
    """What is left behind the overhead is read afresh instead of from the cache; a model's summary is asked and paid for."""
    rewritten = max(0, outlook.after_tokens - outlook.overhead_tokens)
    rewrite = 0.0 if outlook.is_cold else rewritten * (rates.fresh - rates.cached)
    asked = outlook.view_tokens * rates.cached if outlook.summary_tokens else 0.0
    return rewrite + asked + outlook.summary_tokens * rates.output
