"""`fit`: plain messages in, the same shape out, inside the window. No key, no network, no state.

The history is played through the core as a session would have lived it, so the same history always gives the same cuts, and
a growing one keeps its prefix between them. The caller's list and objects are never changed. The single steps of a compaction
are calls of their own: whether a usage overflows, and what pruning hides.
"""

import os
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, get_args

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from infold.catalogue import Override, Prices
from infold.core.budget import NOTHING_ASKED, AskedOutput, Window, budget_for, usage_tokens
from infold.core.budget import is_overflow as reaches_trigger
from infold.core.compact import Simulation, advance, compact, prune_now
from infold.core.entries import MessageEntry
from infold.core.events import OutputLowered
from infold.core.gauge import PlanInputs, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, SessionId, Usage
from infold.core.plan import Stuck
from infold.core.policy import EstimateRule, Policy
from infold.core.tokens import estimate as tokens_by_rule
from infold.core.tokens import measure
from infold.core.view import view
from infold.errors import BrokenInput, UsageError, did_you_mean, kind_of
from infold.formats.codec import NO_OWN_ITEMS, Decoded, MalformedError, OwnItems, as_dict, dict_or_empty
from infold.formats.harness_text import mark_foreign, marks_of
from infold.formats.registry import FORMATS, OPENAI_CHAT, WireFormat, edited_positions, format_of_reply
from infold.session.context import check_output, window_exceeded
from infold.session.counting import count_overhead, extra_text, split_preamble
from infold.session.report import Report
from infold.session.settings import (
    ResolvedSettings,
    check_prices,
    check_settings,
    checks_keywords,
    require_str,
    resolve_policy,
    resolve_settings,
    wire_format,
)


class Fitted(NamedTuple):
    """Messages that fit, in the shape they came in, and the report of what was done.

    They are typed as anything, so that a checker lets them be sent with whatever SDK they are for.
    """

    messages: list[Any]
    report: Report

    @property
    def sources(self) -> tuple[int | None, ...]:
        """For each message the index of the given one that it is or was made from; `None` for what infold wrote."""
        return self.report.sources

    @property
    def edited(self) -> frozenset[int]:
        """The positions of messages with a source whose content differs from it; all others are the given objects."""
        return self.report.edited

    @property
    def output_tokens(self) -> int:
        """The most to ask for in reply: what was given, or less if the window has no room for both; 0 if nothing was."""
        return self.report.output_tokens

    def explain(self) -> str:
        """Return what was done and why in words, a line each."""
        return self.report.explain()


@checks_keywords
def fit(
    messages: Sequence[object],
    *,
    model: str | None = None,
    window: int | str | Window | None = None,
    working_window: int | str | None = None,
    system: object = None,
    tools: object = None,
    policy: str | Policy = "infold",
    format: str | None = None,  # noqa: A002 - the word users know
    overrides: Mapping[str, Override] | None = None,
    recall: bool | str = False,
    exact: bool = True,
    environ: Mapping[str, str] | None = None,
    bound_thinking: bool | None = None,
    prices: Prices | None = None,
    output_tokens: int | AskedOutput = 0,
) -> Fitted:
    """Make messages fit a model's window; give `model`, or `window` in tokens (a number, or text such as "200k"), or both.

    `working_window`: how many tokens of it to work in; what cannot be made smaller may still fill the window. `messages` are of
    OpenAI Chat, OpenAI Responses, Anthropic, Gemini or Bedrock, as dicts, JSON bytes or SDK objects; `system` and `tools` are
    what is sent with them, in any shape; an empty list says that no tools are offered. `recall`: name handles in stubs, because
    the request offers a way to ask for them. `exact` off keeps to the estimate even if a tokeniser is installed. `environ` has
    the off switches (`INFOLD_DISABLE_AUTOCOMPACT`, `INFOLD_DISABLE_PRUNE`); by default it is the environment of the process.
    `bound_thinking`: whether the model refuses thinking once something before it changed; by default as the catalogue says. Use
    `False` if the request asks the provider to drop such blocks itself. `prices`: the model's, in US dollars per million
    tokens, in place of the catalogue's. `output_tokens`: the most that the request asks for in reply, with a budget for
    thinking as `AskedOutput`; send `Fitted.output_tokens`, which is less if both do not fit.

    Raise `WindowExceeded` if even the smallest view does not fit, `UnknownFormat` or `BrokenInput` for messages that
    cannot be read, `UsageError` if neither model nor window is given or a value has a wrong type.
    """
    check_settings(model, window, policy, working_window)
    if prices is not None:
        check_prices(prices)
    asked = check_output(output_tokens if isinstance(output_tokens, AskedOutput) else AskedOutput(output_tokens))
    environ = os.environ if environ is None else environ
    policy = resolve_policy(policy, environ, working_window)
    wire = wire_format(messages, format)
    decoded = wire.decode(messages)
    decoded = replace(decoded, messages=mark_foreign(decoded.messages, marks_of((policy,))))
    settings = resolve_settings(
        model,
        window,
        policy,
        recall=recall,
        environ=environ,
        bound_thinking=bound_thinking,
        overrides=overrides,
        exact=exact and policy.estimate == "features",  # a document with a rule of its own is not counted exactly
        prices=prices,
    )
    preamble, history = split_preamble(decoded.messages)
    overhead = count_overhead(preamble, system, tools, settings.counting.ruler).tokens
    inputs = replace(_plan_inputs(settings, overhead, asked), offers_tools=tools is None or bool(tools))
    played = _CACHE.play(history, inputs, settings.rendering)
    compaction = played.next or compact(played.log, inputs)
    if isinstance(compaction.final, Stuck):
        raise window_exceeded(compaction.final)
    played = replace(played, log=compaction.log, events=(*played.events, *compaction.events))
    window_tokens = settings.window.context_tokens if policy.window_tokens is None else policy.window_tokens
    report = _with_output(_report(decoded, played, inputs, settings), asked, inputs, window_tokens)
    extras = {name: value for name, value in (("system", system), ("tools", tools)) if value}
    beside = {name: measure(extra_text(value), settings.counting.ruler) for name, value in extras.items()}
    own = _CACHE.own_items(wire, compaction.log.kept, decoded.aliases)
    return _encode(wire, messages, decoded, replace(report, beside=beside), own)


def _plan_inputs(
    settings: ResolvedSettings, overhead_tokens: int = 0, asked: AskedOutput = NOTHING_ASKED
) -> PlanInputs:
    policy, counting = settings.policy, settings.counting
    return PlanInputs(
        policy,
        budget_for(asked.narrow(settings.window, policy, overhead_tokens), policy),
        overhead_tokens=overhead_tokens,
        bound=counting.margin,
        wide_bound=counting.wide_margin,
        rates=settings.rates,
        reports_usage=False,
    )


def _report(decoded: Decoded, played: Simulation, inputs: PlanInputs, settings: ResolvedSettings) -> Report:
    """Report what was done to messages that were played into a log."""
    preamble, _ = split_preamble(decoded.messages)
    return Report(
        format=decoded.format,
        policy=inputs.policy.name,
        budget=inputs.budget,
        tokens_after=estimated_tokens(played.log, inputs),
        upper_tokens=gauge(played.log, inputs).upper_tokens,
        overhead_tokens=inputs.overhead_tokens,
        counting=settings.counting,
        events=played.events,
        model=settings.known,
        prices=settings.stated_prices,
        history=decoded.messages,
        sent=(*preamble, *view(played.log, inputs.policy.summary, brought=True)),
        sequences=(*(-1 for _ in preamble), *played.sequences),
        items=tuple(len(sources) for sources in decoded.sources),
    )


def _with_output(report: Report, asked: AskedOutput, inputs: PlanInputs, window_tokens: int) -> Report:
    """Return the report with the most to ask for in reply; less than was given is one of its events."""
    prompt = report.upper_tokens
    output = (
        asked.fitting(window_tokens, expected_tokens=prompt, most_tokens=prompt) if inputs.policy.auto else asked.tokens
    )
    lowered = () if output == asked.tokens else (OutputLowered("fit", asked.tokens, output),)
    return replace(report, output_tokens=output, events=(*report.events, *lowered))


def _encode(
    wire: WireFormat, messages: Sequence[object], decoded: Decoded, report: Report, own: OwnItems = NO_OWN_ITEMS
) -> Fitted:
    items, sources = wire.encode_with_sources(report.sent, decoded, own)
    return Fitted(items, replace(report, sources=sources, edited=edited_positions(items, sources, messages)))


# The steps of a compaction, one by one.


def estimate(text: str, rule: EstimateRule = "features") -> int:
    """Return the tokens of a text by infold's own estimate, or by the documents': a quarter of its length, `round` or `ceil`.

    Raise `UsageError` for a rule of another name, or for something else than text.
    """
    if rule not in get_args(EstimateRule):
        advice = did_you_mean(str(rule), get_args(EstimateRule)) or "give 'features', 'round' or 'ceil'"
        raise UsageError(f"the rule is {rule!r}; {advice}")
    return tokens_by_rule(require_str("text", text, example="hello"), rule)


@checks_keywords
def is_overflow(
    usage: object,
    *,
    model: str | None = None,
    window: int | str | Window | None = None,
    policy: str | Policy = "infold",
    environ: Mapping[str, str] | None = None,
) -> bool:
    """Return whether the usage of a reply reaches the policy's trigger in a model's window, so that a compaction is due.

    `usage` is a `Usage`, a provider's reply (its body or SDK object), a number of tokens, or a mapping as OpenCode has it:
    `input`, `output`, `reasoning`, `cache.read`, `cache.write`, `total`. Never true if automatic compaction is off, by the policy
    or by a switch in `environ`, or if the window is declared to have no limit (0). Raise `UsageError` if neither model nor window
    is given, or the usage is something else.
    """
    settings = _settings_for_step(model, window, policy, environ)
    chosen = settings.policy
    count = usage if isinstance(usage, int) and not isinstance(usage, bool) else None
    tokens = usage_tokens(_read_usage(usage), chosen.count) if count is None else count
    return reaches_trigger(tokens, budget_for(settings.window, chosen), chosen)


@checks_keywords
def prune(
    messages: Sequence[object],
    *,
    model: str | None = None,
    window: int | str | Window | None = None,
    policy: str | Policy = "infold",
    format: str | None = None,  # noqa: A002 - the word users know
    environ: Mapping[str, str] | None = None,
) -> Fitted:
    """Make stubs of old tool results, as the policy says, in one walk from newest to oldest; nothing is folded.

    Messages come and go in the shapes that `fit` takes. A model or a window is needed where the policy's amounts are shares of
    it, as in `infold`. Raise `UsageError` if it is missing, `UnknownFormat` or `BrokenInput` for messages that cannot be read.
    """
    settings = _settings_for_step(model, window, policy, environ)
    wire = wire_format(messages, format)
    decoded = wire.decode(messages)
    decoded = replace(decoded, messages=mark_foreign(decoded.messages, marks_of((settings.policy,))))
    _, history = split_preamble(decoded.messages)
    inputs = _plan_inputs(settings)
    log = Log(SessionId("prune"), settings.rendering)
    log = log.extend(MessageEntry(message) for message in history)
    pruned = prune_now(log, inputs)
    played = Simulation(pruned.log, pruned.events, tuple(range(len(history))))
    return _encode(wire, messages, decoded, _report(decoded, played, inputs, settings))


def _settings_for_step(
    model: str | None, window: int | str | Window | None, policy: str | Policy, environ: Mapping[str, str] | None
) -> ResolvedSettings:
    """Resolve what one step needs; a policy that needs no window gets one without limit."""
    check_settings(model, window, policy)
    environ = os.environ if environ is None else environ
    chosen = resolve_policy(policy, environ)
    if model is None and window is None:
        is_stated = chosen.prune.keep.unit == chosen.prune.minimum.unit == "tokens"
        window = chosen.window_tokens or chosen.working_window_tokens or (0 if is_stated else None)
    return resolve_settings(model, window, chosen, environ=environ, exact=False)


def _read_usage(usage: object) -> Usage:
    """Return reported usage; raise `UsageError` if it is something else."""
    if isinstance(usage, Usage):
        return usage
    try:
        stated = as_dict(usage)
        if isinstance(stated.get("input"), int):
            cache = dict_or_empty(stated.get("cache"))
            named = {"cache_read": cache.get("read", 0), "cache_write": cache.get("write", 0), "total": None, **stated}
            return convert({name: named[name] for name in Usage.__struct_fields__ if name in named}, Usage)
        found = format_of_reply(usage, OPENAI_CHAT).usage(usage) or _usage_alone(stated)
    except (BrokenInput, MalformedError, ValidationError) as error:
        raise UsageError(f"the usage is {kind_of(usage)} that cannot be read ({error}); {_USAGE_ADVICE}") from error
    if found is None:
        raise UsageError(f"the usage is {kind_of(usage)} without tokens; {_USAGE_ADVICE}")
    return found


def _usage_alone(stated: Mapping[str, Any]) -> Usage | None:
    """Return the usage of a reply that was given without the reply; `None` if no provider writes it so.

    Of two providers that use the same names, one counts the cache apart; its reading is the larger.
    """
    read = (wire.usage({field: stated}) for wire in FORMATS for field in ("usage", "usageMetadata"))
    return max((one for one in read if one is not None and one.context), key=lambda one: one.context, default=None)


_USAGE_ADVICE = "give a provider's reply, infold.Usage(input=…, output=…), or a number of tokens"


class FitCache:
    """How far growing histories were played, so that the next call of `fit` begins there.

    It saves time and changes nothing else: a simulation carried on gives what one from the beginning gives. One is taken out
    while it is used, so that two callers never share it.
    """

    def __init__(self, most: int = 16) -> None:
        self.most = most
        self._known: OrderedDict[tuple[int, int], _Played] = OrderedDict()
        self._written: tuple[str, Mapping[str, str], OwnItems] = ("", {}, NO_OWN_ITEMS)

    def play(self, history: tuple[Message, ...], inputs: PlanInputs, rendering: Rendering) -> Simulation:
        """Play a history, from where the longest known beginning of it ended."""
        conditions = (inputs, rendering)
        digests = _chain(history, conditions)
        begun = self._take(digests, history, conditions) or Simulation(Log(SessionId("fit"), rendering))
        later = history[len(begun.sequences) :]
        played = advance(begun, later, inputs) if later else begun
        played = replace(played, next=played.next or compact(played.log, inputs))
        self._known[len(history), digests[-1]] = _Played(history, conditions, played)
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return played

    def own_items(self, wire: WireFormat, kept: tuple[Message, ...], aliases: Mapping[str, str]) -> OwnItems:
        """Return items of the steps that a fold kept, which most requests share with the one before."""
        name, known, own = self._written
        if (name, known, own.messages) != (wire.name, aliases, kept):
            own = OwnItems(kept, [item for message in kept for item in wire.encode_new(message, aliases)])
            self._written = (wire.name, aliases, own)
        return own.copied()

    def _take(
        self, digests: Sequence[int], history: tuple[Message, ...], conditions: tuple[PlanInputs, Rendering]
    ) -> Simulation | None:
        for length in range(len(history), 0, -1):
            known = self._known.pop((length, digests[length]), None)
            if known is not None and known.history == history[:length] and known.conditions == conditions:
                return known.simulation
        return None


class _Played(Struct, frozen=True):
    """A history under its conditions, and its simulation: a hash finds it, only equality makes it the one wanted."""

    history: tuple[Message, ...]
    conditions: tuple[PlanInputs, Rendering]
    simulation: Simulation


def _chain(history: Sequence[Message], conditions: Hashable) -> list[int]:
    """Return a hash of each beginning of a history; a text that was hashed before costs nothing."""
    return list(accumulate(history, lambda digest, message: hash((digest, message)), initial=hash(conditions)))


_CACHE = FitCache()
