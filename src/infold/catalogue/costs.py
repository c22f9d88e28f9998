"""What a request cost, by the catalogue's prices."""

from infold.catalogue.lookup import lookup
from infold.core.messages import Usage


def cost_of(model: str, usage: Usage | None) -> float:
    """US dollars for one request of that usage; 0 where usage or prices are not known."""
    if usage is None:
        return 0.0
    prices = lookup(model).entry.prices_at(usage.prompt)
    if prices is None:
        return 0.0
    read = prices.input if prices.cache_read is None else prices.cache_read
    written = prices.input if prices.cache_write is None else prices.cache_write
    sent = usage.input * prices.input + usage.cache_read * read + usage.cache_write * written
    return (sent + (usage.output + usage.reasoning) * prices.output) / 1_000_000
