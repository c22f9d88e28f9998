"""Settings of a session: as a caller writes them, checked, and resolved with what the catalogue knows of the model."""

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from math import inf
from time import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, cast, get_args

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from infold.catalogue import (
    USUAL_PRICES,
    Assumed,
    FamilyName,
    Known,
    Lookup,
    Override,
    Prices,
    binds_thinking,
    compacts_natively,
    is_subscription,
    lookup,
)
from infold.core.budget import LARGEST_OUTPUT_TOKENS, Window
from infold.core.events import Compacted, Event
from infold.core.gauge import NativeUse, Rates
from infold.core.logged_message import Rendering
from infold.core.policy import Changeable, Policy, PriceUse, apply_switches, memory_size, parse_number, preset
from infold.errors import UnknownKeyword, UsageError, kind_of
from infold.formats.registry import ANTHROPIC_MESSAGES, WireFormat, detect, format_named
from infold.formats.requests import NATIVE_FORMATS
from infold.ports import AsyncSummariser, FullStore, Summariser
from infold.session.counting import Counting, counting_for, least_for

MEDIA_LIMIT_BYTES = 20_000_000
"""The largest image or document that providers accept is 5 to 20 MB, a PDF 32."""

CACHE_SECONDS = 300
"""How long providers keep a request in their cache after its last use, if the catalogue has no figure for the model."""

_NO_SWITCHES: Mapping[str, str] = MappingProxyType({})

P = ParamSpec("P")
T = TypeVar("T")


# Defined before its user, as its default; settings can then be pickled.
def _now_ms() -> int:
    return int(time() * 1000)


TIMED_TOKENS = 4_800
"""The longest summary for which `summary_seconds` holds; a longer one may take longer in proportion. A slow model writes as many
tokens in the default time."""


if TYPE_CHECKING:
    from msgspec import StructMeta as CheckedMeta
else:

    class CheckedMeta(type(Struct)):
        """The class of settings: a keyword that they do not have gets an error that names the nearest."""

        def __call__(cls, *args, **keywords):
            check_keywords(cls.__name__, keywords, cls.__struct_fields__)
            return super().__call__(*args, **keywords)


class SessionSettings(Changeable, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """Settings of a session: the model or the window, the policy, the summariser, plugins and callbacks.

    `window` is in tokens, as a number or a text such as "200k", or a `Window`. `summariser` is any callable, or the name of a
    model; `summariser_tokens` its window if it is not the session's own model; `summary_seconds` how long it may take, in
    proportion longer if more than 4,800 tokens are asked for. `background`: write summaries ahead of need, so that no request
    waits for one. `format` names the wire format if the first messages do not show it; `recall`: stubs name handles, because
    the requests offer a way to ask for them. `compact_tool`: the requests offer `compact`, by which the model asks for a
    compaction. `plugins` are objects with hooks or what `installed_plugins()` returns. `patience_seconds`: how long to wait for
    another process that is compacting this session. `environ` has the off switches (`INFOLD_DISABLE_AUTOCOMPACT`,
    `INFOLD_DISABLE_PRUNE`), read when a session is opened; by default the process environment. `working_window`: how many
    tokens of the window to work in; a request that cannot be made smaller may still fill the window. `bound_thinking`: whether
    the model refuses thinking once something before it changed; `None`: as a refusal shows, and where the caller does not
    recover, as the catalogue says. Use `False` if the requests ask the provider to drop such blocks itself. `account`: a text
    that stands for the credential of the requests, such as a hash; what a refusal of thinking shows is stored under a keyed
    hash of it, for all sessions of this account with this model. Empty: the tenant stands for it. `media_limit_bytes`: the
    bytes of images, documents and sound up to this size are stored, so that recall brings them back; 0 stores none.
    `recovers`: the server refuses what is too large instead of truncating it, and the caller passes the refusal to `recover` and
    sends the result. Then the expected size decides, not the largest one possible, and the window is filled further. If unset,
    `wrap`, the gateway and the agent, which recover by themselves, decide by the server's address. `native`: whether the provider
    itself may write the summary, by its
    own compaction: `auto` if that keeps more or costs less, `always`, or `never`. `offers_native`: the summariser carries out
    requests with `is_native`, and requests are sent with `Ready.betas`; `wrap` and the gateway do so themselves. `stops`: the
    caller is an agent's loop that ends at `SummaryFailed`, which `prepare` raises under a policy that gives a compaction up
    when its summary fails; otherwise the head is folded without a model. `cache_seconds`: how long the provider keeps a request
    in its cache after its last use, where neither a request nor a reply states it; `None`: as the catalogue says. `prices`: the
    model's prices in US dollars per million tokens, in place of the catalogue's. `priced`: whether the head is also folded where
    that is cheaper: `auto` where tokens are known to cost money (`wrap`, the gateway and the agent also go by the server's
    address and the credential), `always` also at the usual ratios of prices, from which no sum of money is computed, `never`,
    or `None` for the policy's own. `memory`: how much of the usable window a fold may leave in place of what it folds: `lean`,
    `balanced`, `rich` (5, 11 or 22 %), a share such as 0.15, or `None` for the policy's own: 11 %, and a fifth of what
    that is above 7,500 tokens.
    `defer_tools`: `wrap` and the gateway leave tools that were never called to the provider's tool search, where it has one.
    `recall` may be the name of the tool, if that is not `recall`.
    """

    model: str | None = None
    window: int | str | Window | None = None
    working_window: int | str | None = None
    policy: str | Policy = "infold"
    summariser: Summariser | AsyncSummariser | str | None = None
    summariser_tokens: int = 0
    summary_seconds: float | None = 120.0
    shares_prefix: bool = False
    background: bool = False
    format: str | None = None
    recall: bool | str = False
    compact_tool: bool = False
    plugins: Sequence[object] = ()
    on_event: Callable[[Event], None] | None = None
    on_compacted: Callable[[Compacted], None] | None = None
    now_ms: Callable[[], int] = _now_ms
    patience_seconds: float = 30.0
    environ: Mapping[str, str] | None = None
    bound_thinking: bool | None = None
    account: str = ""
    media_limit_bytes: int = MEDIA_LIMIT_BYTES
    recovers: bool | None = None
    stops: bool = False
    native: NativeUse = "auto"
    offers_native: bool = False
    cache_seconds: int | None = None
    defer_tools: bool = False
    prices: Prices | None = None
    priced: PriceUse | None = None
    memory: str | float | None = None

    def __post_init__(self) -> None:
        """Reject values of a wrong type where they were written; read windows that are written as text."""
        check_settings(self.model, self.window, self.policy, self.working_window)
        for name in ("window", "working_window"):
            if isinstance(written := getattr(self, name), str):
                force_setattr(self, name, read_tokens(written))
        if self.prices is not None:
            check_prices(self.prices)
        if self.native not in get_args(NativeUse):
            raise UsageError(f"native is {self.native!r}; give 'auto', 'always' or 'never'")
        if self.priced is not None and self.priced not in get_args(PriceUse):
            raise UsageError(f"priced is {self.priced!r}; give 'auto', 'always' or 'never'")
        if self.memory is not None:
            memory_size(self.memory)
        if self.cache_seconds is not None and require_int("cache_seconds", self.cache_seconds) < 1:
            raise UsageError(
                f"cache_seconds is {self.cache_seconds}; give a number from 1 on, or None for the model's own"
            )
        if isinstance(self.plugins, str):  # it would be taken letter by letter
            raise UsageError(f"the plugins are one text; give a list, such as installed_plugins([{self.plugins!r}])")

    @property
    def stated_window(self) -> int | Window | None:
        """The window as it is stated, in tokens or with its parts; `None` if the model's own holds."""
        return read_tokens(self.window) if isinstance(self.window, str) else self.window

    def resolve(self) -> "ResolvedSettings":
        """Resolve with the catalogue and the off switches; raise `UsageError` if neither model nor window is set."""
        environ = os.environ if self.environ is None else self.environ
        resolved = resolve_settings(
            self.model,
            self.window,
            self._policy(environ),
            recall=self.recall,
            environ=environ,
            bound_thinking=False if self._learns_thinking else self.bound_thinking,
            prices=self.prices,
        )
        native = self._native(resolved)
        return replace(
            resolved,
            rendering=replace(resolved.rendering, shows_native=native != "never"),
            native=native,
            format=self.format,
            summarises=self.summariser is not None,
            summariser_tokens=self.summariser_tokens,
            summary_seconds=self.summary_seconds,
            shares_prefix=self.shares_prefix,
            compact_tool=self.compact_tool,
            defers=self.background and self.summariser is not None,
            stops=self.stops,
            patience_seconds=self.patience_seconds,
            media_limit_bytes=self.media_limit_bytes,
            cache_seconds=self.cache_seconds or resolved.cache_seconds,
            learns_thinking=self._learns_thinking,
            # A document says itself when to act; if that would be too late, the upper bound decides.
            recovers=bool(self.recovers) and resolved.policy.usable == "scaled-reserve",
        )

    @property
    def _learns_thinking(self) -> bool:
        """Whether a refusal shows that thinking is bound: it costs a moment where it is recovered, a wrong guess the thinking."""
        return self.bound_thinking is None and bool(self.recovers)

    def for_server(self, *, is_paid: bool) -> "SessionSettings":
        """Return the settings for a server: without folds for price where its tokens cost nothing and no prices are stated."""
        stated = self.priced or (preset(self.policy) if isinstance(self.policy, str) else self.policy).priced
        is_free = stated == "auto" and self.prices is None and not is_paid
        return replace(self, priced="never") if is_free else self

    def _policy(self, environ: Mapping[str, str]) -> Policy:
        """Return the policy with what these settings state of it; a subscription's tokens cost nothing each."""
        policy = resolve_policy(self.policy, environ, self.working_window)
        priced = self.priced or policy.priced
        if priced == "auto" and self.prices is None and is_subscription(self.model or ""):
            priced = "never"
        policy = replace(policy, priced=priced)
        return policy if self.memory is None else policy.with_memory(self.memory)

    def _native(self, resolved: "ResolvedSettings") -> NativeUse:
        """Return when the provider itself writes summaries, given what it offers; documents know nothing of that."""
        is_possible = self.offers_native and self.summariser is not None and self.format in NATIVE_FORMATS
        if not is_possible or resolved.policy.summary.shape != "marked":
            return "never"
        is_known = self.format != ANTHROPIC_MESSAGES.name or compacts_natively(self.model or "")
        return self.native if is_known or self.native == "always" else "never"


class SessionKeywords(TypedDict, total=False):
    """The settings of a session as keywords of `Session`, `AsyncSession.open` and `wrap`: the fields of `SessionSettings`."""

    model: str | None
    window: int | str | Window | None
    working_window: int | str | None
    policy: str | Policy
    summariser: Summariser | AsyncSummariser | str | None
    summariser_tokens: int
    summary_seconds: float | None
    shares_prefix: bool
    background: bool
    format: str | None
    recall: bool | str
    compact_tool: bool
    plugins: Sequence[object]
    on_event: Callable[[Event], None] | None
    on_compacted: Callable[[Compacted], None] | None
    now_ms: Callable[[], int]
    patience_seconds: float
    environ: Mapping[str, str] | None
    bound_thinking: bool | None
    account: str
    media_limit_bytes: int
    recovers: bool | None
    stops: bool
    native: NativeUse
    offers_native: bool
    cache_seconds: int | None
    defer_tools: bool
    prices: Prices | None
    priced: PriceUse | None
    memory: str | float | None


def settings_with(given: SessionSettings | None, keywords: Mapping[str, Any], call: str) -> SessionSettings:
    """Return settings with what was given as keywords, which win; raise `UnknownKeyword` for one that does not exist."""
    if given is not None and not isinstance(given, SessionSettings):
        raise UsageError(f"the settings are {kind_of(given)}; give SessionSettings(window=…), or window=… itself")
    check_keywords(call, keywords, SessionSettings.__struct_fields__)
    return SessionSettings(**keywords) if given is None else given.but(**keywords) if keywords else given


class ResolvedSettings(Struct, frozen=True, kw_only=True):
    """Settings with the model's window, prices and way of counting filled in.

    `known` is the catalogue's answer, `None` if no model was named. `summarises`: a model can be asked; `summariser_tokens` is
    its window if it is not the session's own model, and `shares_prefix` says that it is sent what the session's model is sent.
    `defers`: summaries are written in the background. `compact_tool`: a tool named `compact` is infold's
    own. `is_window_assumed`: the window is a guess. `learns_thinking`: thinking is kept until a refusal shows that it is bound.
    `prices` are stated or the catalogue's, `stated_prices` only the former; `rates` are assumed if neither are known.
    """

    policy: Policy
    window: Window
    counting: Counting
    rendering: Rendering
    model: str = ""
    known: Lookup | None = None
    is_window_assumed: bool = False
    prices: Prices | None = None
    stated_prices: Prices | None = None
    rates: Rates | None = None
    format: str | None = None
    summarises: bool = False
    summariser_tokens: int = 0
    summary_seconds: float | None = None
    shares_prefix: bool = False
    defers: bool = False
    compact_tool: bool = False
    stops: bool = False
    patience_seconds: float = 30.0
    media_limit_bytes: int = 0
    recovers: bool = False
    native: NativeUse = "never"
    cache_seconds: int = CACHE_SECONDS
    learns_thinking: bool = False

    @property
    def binding_fact(self) -> str:
        """What is remembered of an account once it was refused bound thinking."""
        return f"binds thinking: {self.model}"

    def rates_for(self, *, hourly: bool) -> Rates:
        """Return the rates of a cache that keeps requests for an hour or longer, or for less."""
        return rates_of(self.prices, self.known.entry.family if self.known else None, hourly=hourly)

    def seconds_for(self, output_tokens: int) -> float | None:
        """Return how long a summary of at most so many tokens may take; `None`: as long as it likes."""
        seconds = self.summary_seconds
        longer = min(output_tokens, LARGEST_OUTPUT_TOKENS) / TIMED_TOKENS
        return None if seconds is None else seconds * max(1.0, longer)


def resolve_settings(
    model: str | None,
    window: int | str | Window | None,
    policy: str | Policy = "infold",
    *,
    recall: bool | str = False,
    environ: Mapping[str, str] = _NO_SWITCHES,
    bound_thinking: bool | None = None,
    overrides: Mapping[str, Override] | None = None,
    exact: bool = True,
    prices: Prices | None = None,
) -> ResolvedSettings:
    """Resolve a model, a window in tokens or both; raise `UsageError` if neither is given.

    `environ` has the off switches; `exact` off keeps to the estimate even if a tokeniser is installed. `prices` are used in
    place of the catalogue's, tiers included.
    """
    chosen = resolve_policy(policy, environ)
    known = None if model is None else lookup(model, overrides=overrides)
    if isinstance(known, Assumed) and chosen.usable == "whole":  # the document's number stands whatever the model has
        assumed = max(known.entry.context_tokens, chosen.working_window_tokens or 0)
        known = replace(known, entry=replace(known.entry, context_tokens=assumed))
    if known is not None and prices is not None:
        known = replace(known, entry=replace(known.entry, prices=prices, tiers=()))
    known_prices = prices or (known.entry.prices if known else None)
    family = known.entry.family if known else None
    is_own_rule = chosen.estimate == "features"
    counting = counting_for(family or "o200k", exact=exact, scaled=is_own_rule)
    ruler = counting.ruler if is_own_rule else chosen.estimate
    binds = is_thinking_bound(model, known, bound_thinking)
    return ResolvedSettings(
        policy=chosen,
        window=resolve_window(window, known),
        counting=counting,
        rendering=Rendering(ruler, chosen.stub, recall, least_for(family, ruler), binds),
        model=model or "",
        known=known,
        is_window_assumed=window is None and isinstance(known, Assumed),
        prices=known_prices,
        stated_prices=prices,
        rates=rates_of(known_prices, family),
        cache_seconds=(known.entry.cache_lifetime_seconds if known else None) or CACHE_SECONDS,
    )


def resolve_policy(policy: str | Policy, environ: Mapping[str, str], working_window: int | str | None = None) -> Policy:
    """Return the policy, or the preset of that name, with what the switches in `environ` turn off.

    `working_window` wins over the policy's own; raise `PolicyError` if it is not a number of tokens above 0.
    """
    chosen = apply_switches(preset(policy) if isinstance(policy, str) else policy, environ)
    if isinstance(working_window, str):
        working_window = read_tokens(working_window)
    return chosen if working_window is None else replace(chosen, working_window_tokens=working_window)


def resolve_window(given: int | str | Window | None, known: Lookup | None) -> Window:
    """Return the window as given, else the model's; raise `UsageError` if both are missing."""
    if isinstance(given, Window):
        return given
    if isinstance(given, str):
        given = read_tokens(given)
    if given is not None:
        output = known.entry.output_tokens if isinstance(known, Known) else None
        return Window(given, output_tokens=None if output is None or output >= given else output)
    if known is None:
        raise UsageError("neither a model nor a window is given; pass model='…' or window=… in tokens")
    entry = known.entry
    return Window(entry.context_tokens, entry.input_tokens, entry.output_tokens)


def rates_of(stated: Prices | None, family: FamilyName | None, *, hourly: bool = False) -> Rates:
    """Return the model's prices as rates, or the usual ones of its family, which are `is_assumed`, if they are not known.

    Without a cache price, everything is read at the full price each time. `hourly`: the cache keeps requests for an hour or
    longer, which some providers charge more for.
    """
    prices = stated or USUAL_PRICES[family or "other"]
    fresh = prices.input if prices.cache_write is None else prices.cache_write
    if hourly and prices.cache_write_hour is not None:
        fresh = prices.cache_write_hour
    cached = prices.input if prices.cache_read is None else prices.cache_read
    return Rates(fresh, cached, prices.output, is_assumed=stated is None)


def account_of(*credentials: str) -> str:
    """Return what stands for credentials where facts about them are remembered: a digest; empty if all are empty."""
    return hashlib.sha256("\n".join(credentials).encode("utf-8", "replace")).hexdigest() if any(credentials) else ""


def is_thinking_bound(model: str | None, known: Lookup | None, stated: bool | None) -> bool:
    """Return whether thinking is bound to what stands before it: as stated, else as the catalogue says for the model."""
    if stated is not None or model is None:
        return bool(stated)
    return binds_thinking(model) or (known is not None and binds_thinking(known.entry.name))


def wire_format(messages: Sequence[object], name: str | None) -> WireFormat:
    """Return the named format, or that of the messages; OpenAI Chat if there are none."""
    if name is None and messages:
        return detect(messages)
    return format_named("openai-chat" if name is None else name)


# Checks of what callers pass.


def check_settings(model: object, window: object, policy: object, working_window: object = None) -> None:
    """Raise `UsageError` for a model, a window, a policy or a working window of a wrong type."""
    if model is not None and not isinstance(model, str):
        raise UsageError(f"the model is {kind_of(model)}; give its name as text, such as 'gpt-5'")
    if isinstance(window, str):
        read_tokens(window)
    elif window is not None and not isinstance(window, Window) and not _is_int(window):
        raise UsageError(f"the window is {window!r}; give a number of tokens such as 8000 or '200k', or a Window")
    working = read_tokens(working_window, "working window") if isinstance(working_window, str) else working_window
    if working is not None and not (isinstance(working, int) and _is_int(working) and working > 0):
        raise UsageError(
            f"the working window is {working_window!r}; give a number of tokens such as 200_000 or '200k', or leave it out"
        )
    if not isinstance(policy, str | Policy):
        raise UsageError(f"the policy is {kind_of(policy)}; give a preset's name such as 'infold', or a Policy")


def check_prices(prices: object) -> None:
    """Raise `UsageError` if these are not prices: a value of a wrong type, or a number that no token costs."""
    if not isinstance(prices, Prices):
        raise UsageError(f"the prices are {kind_of(prices)}; give Prices(input=…, output=…) of infold.catalogue")
    for field in Prices.__struct_fields__:
        value = getattr(prices, field)
        is_needed = field in ("input", "output")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and 0 <= value < inf) and (is_needed or value is not None):
            raise UsageError(f"prices.{field} is {value!r}; give dollars per million tokens, zero or more")


def read_tokens(text: str, what: str = "window") -> int:
    """Return the tokens that a text such as "200k" or "1m" stands for; raise `UsageError` for any other."""
    try:
        number = parse_number(text)
    except ValueError:
        number = -1.0
    if number < 0 or not number.is_integer():
        raise UsageError(f"the {what} is {text!r}; give a number of tokens such as 200_000 or '200k'")
    return int(number)


def check_keywords(call: str, keywords: Collection[str], known: Collection[str]) -> None:
    """Raise `UnknownKeyword` for a keyword that a call does not have."""
    for name in keywords:
        if name not in known:
            raise UnknownKeyword(call, name, known=known)


def checks_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function raise `UnknownKeyword`, with the nearest name, where it is given a keyword that it does not have."""
    code = function.__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @wraps(function)
    def checked(*args: P.args, **keywords: P.kwargs) -> T:
        if not known.issuperset(keywords):
            check_keywords(f"{function.__name__}()", keywords, known)
        return function(*args, **keywords)

    return checked


def needs_arguments(*names: str, example: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a method raise `UsageError` with an example where one of its first arguments is missing."""

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def checked(*args: P.args, **keywords: P.kwargs) -> T:
            missing = [name for name in names[max(0, len(args) - 1) :] if name not in keywords]
            if missing:
                raise UsageError(f"{' and '.join(missing)} must be given; write {example}")
            return method(*args, **keywords)

        return checked

    return decorate


def check_store(store: object) -> FullStore:
    """Return a store; raise `UsageError` if it is something else."""
    if not hasattr(store, "newest_first"):
        raise UsageError(
            f"the store is {kind_of(store)}; give 'memory', a path, an address, or what open_store(…) gives"
        )
    return cast("FullStore", store)


def require_str(what: str, value: str, *, example: str) -> str:
    """Return the value; raise `UsageError` if it is not text."""
    if not isinstance(value, str):
        raise UsageError(f"the {what} is {kind_of(value)}; give text, such as {example!r}")
    return value


def require_int(what: str, value: int) -> int:
    """Return the value; raise `UsageError` if it is not a whole number."""
    if not _is_int(value):
        raise UsageError(f"{what} is {value!r}; give a whole number")
    return value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
