"""`fit`: plain messages in, the same shape out, inside the window. No key, no network, no state.

The history is played through the core as a session would have lived it, so the same history always gives the same cuts, and
a growing one keeps its prefix between them. The caller's list and objects are never changed.
"""

import os
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import Override, Prices
from infold.core.budget import Window, budget_for
from infold.core.compact import Simulation, advance, compact
from infold.core.gauge import PlanInputs, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, SessionId
from infold.core.plan import Stuck
from infold.core.policy import Policy
from infold.core.tokens import measure
from infold.core.view import view
from infold.formats.codec import Decoded
from infold.formats.harness_text import mark_foreign, marks_of
from infold.formats.registry import edited_positions
from infold.session.context import window_exceeded
from infold.session.counting import count_overhead, extra_text, split_preamble
from infold.session.report import Report
from infold.session.settings import (
    ResolvedSettings,
    check_prices,
    check_settings,
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


def fit(
    messages: Sequence[object],
    *,
    model: str | None = None,
    window: int | Window | None = None,
    working_window: int | None = None,
    system: object = None,
    tools: object = None,
    policy: str | Policy = "infold",
    format: str | None = None,  # noqa: A002 - the word users know
    overrides: Mapping[str, Override] | None = None,
    recall: bool = False,
    exact: bool = True,
    environ: Mapping[str, str] | None = None,
    bound_thinking: bool | None = None,
    prices: Prices | None = None,
) -> Fitted:
    """Make messages fit a model's window; give `model`, or `window` in tokens, or both.

    `working_window`: how many tokens of it to work in; what cannot be made smaller may still fill the window.
    `messages` are of OpenAI Chat, OpenAI Responses, Anthropic or Gemini shape, as dicts, JSON bytes or SDK objects; `system`
    and `tools` are what is sent with them, in any shape. `recall`: name handles in stubs, because the request offers a way
    to ask for them. `exact` off keeps to the estimate even if a tokeniser is installed. `environ` has the off switches
    (`INFOLD_DISABLE_AUTOCOMPACT`, `INFOLD_DISABLE_PRUNE`); by default it is the environment of the process.
    `bound_thinking`: whether the model refuses thinking once something before it changed; by default as the catalogue says. Use
    `False` if the request asks the provider to drop such blocks itself. `prices`: the model's, in US dollars per million tokens,
    in place of the catalogue's.

    Raise `WindowExceeded` if even the smallest view does not fit, `UnknownFormat` or `BrokenInput` for messages that
    cannot be read, `UsageError` if neither model nor window is given or a value has a wrong type.
    """
    check_settings(model, window, policy, working_window)
    if prices is not None:
        check_prices(prices)
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
    report = _compact(decoded, settings, system, tools)
    items, sources = wire.encode_with_sources(report.sent, decoded)
    return Fitted(items, replace(report, sources=sources, edited=edited_positions(items, sources, messages)))


def _compact(decoded: Decoded, settings: ResolvedSettings, system: object, tools: object) -> Report:
    """Play the messages as a session would have lived them, compact what is left, and report what was done."""
    preamble, history = split_preamble(decoded.messages)
    policy, counting = settings.policy, settings.counting
    inputs = PlanInputs(
        policy,
        budget_for(settings.window, policy),
        overhead_tokens=count_overhead(preamble, system, tools, counting.ruler).tokens,
        bound=counting.margin,
        wide_bound=counting.wide_margin,
        rates=settings.rates,
        reports_usage=False,
    )
    played = _CACHE.play(history, inputs, settings.rendering)
    compaction = compact(played.log, inputs)
    if isinstance(compaction.final, Stuck):
        raise window_exceeded(compaction.final)
    extras = {name: value for name, value in (("system", system), ("tools", tools)) if value}
    return Report(
        format=decoded.format,
        policy=policy.name,
        budget=inputs.budget,
        tokens_after=estimated_tokens(compaction.log, inputs),
        upper_tokens=gauge(compaction.log, inputs).upper_tokens,
        overhead_tokens=inputs.overhead_tokens,
        counting=counting,
        events=(*played.events, *compaction.events),
        model=settings.known,
        prices=settings.stated_prices,
        history=decoded.messages,
        sent=(*preamble, *view(compaction.log, policy.summary, brought=True)),
        sequences=(*(-1 for _ in preamble), *played.sequences),
        items=tuple(len(sources) for sources in decoded.sources),
        beside={name: measure(extra_text(value), counting.ruler) for name, value in extras.items()},
    )


class FitCache:
    """How far growing histories were played, so that the next call of `fit` begins there.

    It saves time and changes nothing else: a simulation carried on gives what one from the beginning gives. One is taken out
    while it is used, so that two callers never share it.
    """

    def __init__(self, most: int = 16) -> None:
        self.most = most
        self._known: OrderedDict[tuple[int, int], _Played] = OrderedDict()

    def play(self, history: tuple[Message, ...], inputs: PlanInputs, rendering: Rendering) -> Simulation:
        """Play a history, from where the longest known beginning of it ended."""
        conditions = (inputs, rendering)
        digests = _chain(history, conditions)
        begun = self._take(digests, history, conditions) or Simulation(Log(SessionId("fit"), rendering))
        played = advance(begun, history[len(begun.sequences) :], inputs)
        self._known[len(history), digests[-1]] = _Played(history, conditions, played)
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return played

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
