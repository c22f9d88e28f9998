"""What a model, a window and the things sent beside the messages come to, for `fit`, the session handler and the command line."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from infold.catalogue import Known, Lookup, binds_thinking, lookup
from infold.core.budget import Window
from infold.core.gauge import Rates
from infold.core.logged_message import Rendering
from infold.core.messages import Message, Overhead, SystemMessage
from infold.core.policy import Policy, Ruler, preset, switched
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure, measure_message
from infold.errors import UsageError
from infold.session.counting import Counting, counting_for, least_for

_NO_SWITCHES: Mapping[str, str] = MappingProxyType({})


class Terms(Struct, frozen=True, kw_only=True):
    """What a session is kept on: the policy and the window, how its text is counted, and how its summaries come about.

    `summarises`: a model can be asked; `summariser_tokens` is its window where it is not the session's own model, and
    `shares_prefix` says that it is sent what the session's model is sent. `defers`: summaries are written in the background.
    `stops`: a failed summary may end the caller's loop, where the policy wants that.
    `patience_seconds`: how long to wait for another process that is compacting. `recovers`: a request that the provider refuses
    as too large is made smaller and sent again within the same call. `media_limit_bytes`: how large a medium may be
    whose bytes are kept; 0 keeps none.
    """

    policy: Policy
    window: Window
    counting: Counting
    rendering: Rendering
    model: str = ""
    rates: Rates | None = None
    format: str | None = None
    summarises: bool = False
    summariser_tokens: int = 0
    shares_prefix: bool = False
    has_hooks: bool = False
    defers: bool = False
    stops: bool = False
    patience_seconds: float = 30.0
    media_limit_bytes: int = 0
    recovers: bool = False


def terms_for(
    model: str | None,
    window: int | Window | None,
    policy: str | Policy = "infold",
    *,
    recall: bool = False,
    environ: Mapping[str, str] = _NO_SWITCHES,
    bound_thinking: bool | None = None,
) -> Terms:
    """Return the terms for a model, a window in tokens or both; raises `UsageError` where neither is given.

    `environ` has the off switches.
    """
    chosen = policy_under(policy, environ)
    known = None if model is None else lookup(model)
    family = known.entry.family if known else None
    counting = counting_for(family or "o200k", scaled=chosen.estimate == "features")
    ruler = counting.ruler if chosen.estimate == "features" else chosen.estimate
    return Terms(
        policy=chosen,
        window=window_of(window, known),
        counting=counting,
        rendering=Rendering(
            ruler, chosen.stub, recall, least_for(family, ruler), is_thinking_bound(model, known, bound_thinking)
        ),
        model=model or "",
        rates=rates_of(known),
    )


def policy_under(policy: str | Policy, environ: Mapping[str, str]) -> Policy:
    """Return the policy, or the preset of that name, with everything off that the switches in `environ` turn off."""
    return switched(preset(policy) if isinstance(policy, str) else policy, environ)


def is_thinking_bound(model: str | None, known: Lookup | None, stated: bool | None) -> bool:
    """Whether a request's thinking is bound to what stands before it: as stated, else as the catalogue has it for the model."""
    if stated is not None or model is None:
        return bool(stated)
    return binds_thinking(model) or (known is not None and binds_thinking(known.entry.name))


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


def overhead_of(preamble: tuple[Message, ...], system: object, tools: object, ruler: Ruler) -> Overhead:
    """What is sent in every request beside the conversation: opening system messages, system prompt, tool schemas."""
    inside = sum(MESSAGE_OVERHEAD_TOKENS + sum(measure_message(message, ruler)) for message in preamble)
    said, offered = (measure(as_text(beside), ruler) if beside else 0 for beside in (system, tools))
    return Overhead(inside + said, offered)


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
