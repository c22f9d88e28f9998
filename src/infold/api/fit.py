"""`fit`: plain messages in, the same shape out, inside the window. No key, no network, no state.

The history is played through the core as a session would have lived it, so the same history always gives the same cuts, and
a growing one keeps its prefix between them (B29). The caller's list and objects are never changed (B25).
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from infold.api.checking import check_terms
from infold.api.rehearsals import Rehearsals
from infold.api.report import Report
from infold.catalogue import Lookup, Override, lookup
from infold.core.budget import Window, budget_for
from infold.core.compact import Compaction, compact
from infold.core.gauge import Situation, estimated_tokens, gauge
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.plan import Stuck
from infold.core.policy import Policy
from infold.core.tokens import measure
from infold.core.view import view
from infold.engine.counting import Counting, counting_for
from infold.engine.terms import as_text, divided, is_thinking_bound, overhead_of, policy_under, rates_of, window_of
from infold.errors import WindowExceeded
from infold.formats.codec import Decoded
from infold.formats.harness_text import mark_foreign, marks_of
from infold.formats.registry import WireFormat, detect, format_named

_REHEARSALS = Rehearsals()


class Fitted(NamedTuple):
    """Messages that fit, in the shape they came in, and the report of what was done.

    They are typed as anything, so that a checker lets them be sent with whatever SDK they are for.
    """

    messages: list[Any]
    report: Report


def fit(
    messages: Sequence[object],
    *,
    model: str | None = None,
    window: int | Window | None = None,
    system: object = None,
    tools: object = None,
    policy: str | Policy = "infold",
    format: str | None = None,  # noqa: A002 - the word users know
    overrides: Mapping[str, Override] | None = None,
    recall: bool = False,
    exact: bool = True,
    environ: Mapping[str, str] | None = None,
    bound_thinking: bool | None = None,
) -> Fitted:
    """Make messages fit a model's window; give `model`, or `window` in tokens, or both.

    `messages` are of OpenAI Chat, OpenAI Responses, Anthropic or Gemini shape, as dicts, JSON bytes or SDK objects; `system`
    and `tools` are what is sent beside them, in any shape. `recall`: name handles in stubs, because the request offers a way
    to ask for them. `exact` off keeps to the estimate even where a tokeniser is installed. `environ` has the off switches
    (`INFOLD_DISABLE_AUTOCOMPACT`, `INFOLD_DISABLE_PRUNE`); by default it is the environment of the process.
    `bound_thinking`: whether the model refuses thinking once something before it changed; by default as the catalogue says. Say
    `False` where the request asks the provider to drop such blocks itself.

    Raises `WindowExceeded` when even the smallest view does not fit, `UnknownFormat` or `BrokenInput` for messages that
    cannot be read, `UsageError` when neither model nor window is given or something is of a wrong kind.
    """
    check_terms(model, window, policy)
    chosen = policy_under(policy, os.environ if environ is None else environ)
    wire = _wire_format(messages, format)
    decoded = wire.decode(messages)
    decoded = replace(decoded, messages=mark_foreign(decoded.messages, marks_of((chosen,))))
    known = None if model is None else lookup(model, overrides=overrides)
    counting = _counting(chosen, known, exact=exact)
    situation = Situation(
        chosen,
        budget_for(window_of(window, known), chosen),
        overhead_tokens=overhead_of(divided(decoded.messages)[0], system, tools, counting.ruler).tokens,
        bound=counting.margin,
        wide_bound=counting.wide_margin,
        rates=rates_of(known),
        reports_usage=False,
    )
    beside = {name: value for name, value in (("system", system), ("tools", tools)) if value}
    binds = is_thinking_bound(model, known, bound_thinking)
    return _played(decoded, wire, situation, _Terms(counting, known, beside, recall, binds))


class _Terms(NamedTuple):
    """What the messages are counted by and sent with."""

    counting: Counting
    known: Lookup | None
    beside: Mapping[str, object]
    recall: bool
    binds_thinking: bool


def _played(decoded: Decoded, wire: WireFormat, situation: Situation, terms: _Terms) -> Fitted:
    """Play the history, compact for the request that is due, and tell what was done."""
    policy, counting = situation.policy, terms.counting
    preamble, history = divided(decoded.messages)
    played = _REHEARSALS.play(history, situation, _rendering(policy, terms))
    compaction = _compacted(played.log, situation)
    sent = (*preamble, *view(compaction.log, policy.summary, brought=True))
    report = Report(
        format=wire.name,
        policy=policy.name,
        budget=situation.budget,
        tokens_after=estimated_tokens(compaction.log, situation),
        upper_tokens=gauge(compaction.log, situation).upper_tokens,
        overhead_tokens=situation.overhead_tokens,
        counting=counting,
        events=(*played.events, *compaction.events),
        model=terms.known,
        history=decoded.messages,
        sent=sent,
        sequences=(*(-1 for _ in preamble), *played.sequences),
        items=tuple(len(sources) for sources in decoded.sources),
        beside={name: measure(as_text(value), counting.ruler) for name, value in terms.beside.items()},
    )
    return Fitted(wire.encode(sent, decoded), report)


def _wire_format(messages: Sequence[object], name: str | None) -> WireFormat:
    if name is not None:
        return format_named(name)
    return detect(messages) if messages else format_named("openai-chat")


def _counting(policy: Policy, known: Lookup | None, *, exact: bool) -> Counting:
    """How text is counted; a document that has a rule of its own is not counted exactly."""
    family = known.entry.family if known else "o200k"
    own = policy.estimate == "features"
    return counting_for(family, exact=exact and own, scaled=own)


def _rendering(policy: Policy, terms: _Terms) -> Rendering:
    """A document's rule stays its own; `infold` sizes as it counts."""
    ruler = terms.counting.ruler if policy.estimate == "features" else policy.estimate
    return Rendering(ruler, policy.stub, terms.recall, binds_thinking=terms.binds_thinking)


def _compacted(log: Log, situation: Situation) -> Compaction:
    """The log ready for the next request; raises `WindowExceeded` with the numbers where none fits."""
    compaction = compact(log, situation)
    if isinstance(compaction.final, Stuck):
        raise WindowExceeded(
            floor_tokens=compaction.final.floor_tokens,
            usable_tokens=compaction.final.usable_tokens,
            overhead_tokens=compaction.final.overhead_tokens,
        )
    return compaction
