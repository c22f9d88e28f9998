"""By what a session is measured: a way of counting, a window, prices."""

from msgspec import Struct

from infold.catalogue import Assumed, Lookup, Prices, lookup
from infold.engine.counting import Counting, counting_for
from infold.transcripts.record import RecordedSession


class Yardstick(Struct, frozen=True):
    """What a session is measured by: the way of counting, the window if one is known, and the model it is from."""

    counting: Counting
    window_tokens: int | None
    model: Lookup | None

    def prices_at(self, tokens: int) -> Prices | None:
        """The model's prices for a request of that size, where they are known."""
        return None if self.model is None else self.model.entry.prices_at(tokens)


def yardstick_for(session: RecordedSession, model: str | None, window_tokens: int | None) -> Yardstick:
    """How to measure a session: by the model asked for, else by the one it recorded if that is known."""
    name = model or (session.model.id if session.model else None)
    found = None if name is None else lookup(name)
    if model is None and isinstance(found, Assumed):
        found = None
    window = window_tokens or (None if found is None else found.entry.input_limit_tokens)
    return Yardstick(counting_for(found.entry.family if found else "o200k"), window, found)
