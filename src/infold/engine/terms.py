"""What a model, a window and the things sent beside the messages come to, for `fit`, the session handler and the command line."""

import msgspec

from infold.catalogue import Known, Lookup
from infold.core.budget import Window
from infold.core.economics import Rates
from infold.core.messages import Message, SystemMessage
from infold.core.policy import Ruler
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure, measure_message
from infold.errors import UsageError

__all__ = ["as_text", "divided", "overhead_of", "rates_of", "window_of"]


def divided(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """System messages that open the list, which always stay, and the rest."""
    count = next((n for n, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    return messages[:count], messages[count:]


def window_of(given: int | Window | None, known: Lookup | None) -> Window:
    """The window to keep to: as given, else the model's; raises `UsageError` where neither is there."""
    if isinstance(given, Window):
        return given
    if given is not None:
        output = known.entry.output_tokens if isinstance(known, Known) else None
        return Window(given, output_tokens=None if output is None or output >= given else output)
    if known is None:
        raise UsageError("neither a model nor a window is given; pass model='…' or window=… in tokens")
    entry = known.entry
    return Window(entry.context_tokens, entry.input_tokens, entry.output_tokens)


def rates_of(known: Lookup | None) -> Rates | None:
    """The model's prices where they are known; where it has no cache, everything is read afresh each time."""
    prices = known.entry.prices if isinstance(known, Known) else None
    if prices is None:
        return None
    fresh = prices.input if prices.cache_write is None else prices.cache_write
    cached = prices.input if prices.cache_read is None else prices.cache_read
    return Rates(fresh, cached, prices.output)


def overhead_of(preamble: tuple[Message, ...], system: object, tools: object, ruler: Ruler) -> int:
    """What is sent in every request beside the conversation: opening system messages, system prompt, tool schemas."""
    inside = sum(MESSAGE_OVERHEAD_TOKENS + sum(measure_message(message, ruler)) for message in preamble)
    return inside + sum(measure(as_text(beside), ruler) for beside in (system, tools) if beside)


def as_text(value: object) -> str:
    """System prompt or tools as the text they amount to; raises `UsageError` for what is no JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, enc_hook=_dumped).decode()
    except (TypeError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(
            f"system or tools cannot be read as JSON ({error}); give text, dicts or SDK objects"
        ) from error


def _dumped(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {type(value).__name__}")
    return dump(mode="json", exclude_none=True)
