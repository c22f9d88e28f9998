"""How much of a window may be filled, whether a count is over it, and what a provider's refusals teach about it.

Decides usable tokens, trigger and target for a window under a policy, and overflow from reported usage. `tokens.py`
sizes content; `plan.py` decides what follows from an overflow.
"""

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from infold.core.messages import Usage
from infold.core.policy import LARGEST_TOKENS, CountRule, Policy
from infold.core.tokens import Calibration, Size
from infold.errors import PolicyError

SMALLEST_TOKENS = 512
"""The smallest credible limit: below it there is no room for a reply, and a request that small was refused for another
reason."""


UNTOLD_SHARE = 0.9
"""If a provider refuses without a number, the limit is assumed to be this share of the request."""


LARGEST_FACTOR = 4.0
"""No provider counts more than four times our estimate; a larger factor comes from a misread number."""


NEAR_SHARE = 0.5
"""A refusal without a number at this share of the assumed limit, or above, is one for size: a provider's count may be
twice ours if its vocabulary is unknown."""


WIDENING = 1.1
"""Factor by which each reply widens a limit learned from one refusal without a number: it doubles in seven replies."""


LARGEST_LEARNED_TOKENS = 1_000_000_000
"""A limit widened to this value no longer applies."""


BYTES_SHARE = 0.5
"""After a refusal for bytes, at most this share of the refused size is sent."""


FORGETTING = 0.7
"""Share of a learned factor that remains after each later report of usage."""


class LearnedLimits(Struct, frozen=True, omit_defaults=True):
    """What is known of a provider beyond its stated limits.

    `tokens` is the most it accepts, `is_told` whether it reported that number itself; `bytes` the most bytes of media
    in a request. `factor` is how far its count exceeded ours, learned after `reports` reports. `accepted` is the most
    it accepted since its last refusal, `refusals` how often it refused without a number. `binds_thinking`: it refused
    thinking because what precedes it had changed. `refuses_native`: it refused a summary of its own.
    """

    tokens: int | None = None
    is_told: bool = False
    bytes: int | None = None
    factor: float = 1.0
    reports: int = 0
    accepted: int = 0
    refusals: int = 0
    binds_thinking: bool = False
    refuses_native: bool = False

    def after_bytes(self, refused: int) -> "LearnedLimits":
        """Return the limits after that many bytes were refused."""
        most = max(1, int(refused * BYTES_SHARE))
        return replace(self, bytes=most if self.bytes is None else min(self.bytes, most))

    def after_reply(self, reported_tokens: int) -> "LearnedLimits":
        """Return the limits after a reply; `reported_tokens` covers it and its request, 0 if unknown."""
        accepted, tokens = max(self.accepted, reported_tokens), self.tokens
        if tokens is not None:
            widened = int(tokens * WIDENING) if self.refusals == 1 and not self.is_told else tokens
            tokens = max(widened, accepted)
        if (accepted, tokens) == (self.accepted, self.tokens):
            return self
        return replace(self, accepted=accepted, tokens=None if tokens and tokens > LARGEST_LEARNED_TOKENS else tokens)

    def after_tokens(
        self,
        *,
        estimated_tokens: int,
        reported_tokens: int | None,
        limit_tokens: int | None,
        reports: int,
        believed_tokens: int | None = None,
    ) -> "LearnedLimits":
        """Return the limits after a request of that estimate was refused, with the provider's own numbers if there are
        any.

        `believed_tokens` is the limit the request was held to; a refusal near it needs no second one to confirm it.
        """
        factor = 1.0 if not reported_tokens or not estimated_tokens else reported_tokens / estimated_tokens
        learned = replace(
            self, factor=min(LARGEST_FACTOR, max(1.0, factor, self.factor_after(reports))), reports=reports, accepted=0
        )
        if limit_tokens:
            return replace(learned, tokens=max(SMALLEST_TOKENS, limit_tokens), is_told=True)
        most = max(self.accepted, int(estimated_tokens * UNTOLD_SHARE))
        # A limit the provider reported is known: the request was refused for the output asked for. One that fits any model
        # was refused for another reason.
        if self.is_told or most < SMALLEST_TOKENS:
            return learned
        is_near = bool(believed_tokens) and estimated_tokens >= NEAR_SHARE * (believed_tokens or 0)
        return replace(
            learned,
            tokens=most if self.tokens is None else min(self.tokens, most),
            refusals=self.refusals + (2 if is_near else 1),
        )

    def factor_after(self, reports: int) -> float:
        """Return the factor that still applies after that many reports in all."""
        return 1.0 + (self.factor - 1.0) * FORGETTING ** max(0, reports - self.reports)


NOTHING_LEARNED = LearnedLimits()


LARGEST_OUTPUT_TOKENS = 32_000
"""The documents' cap on the room for a reply, and their default if a model states none."""


DEFAULT_RESERVE_TOKENS = 20_000
"""The reserve of documents 000 and 002 if none is configured."""


RESERVE_SHARE = 0.15
"""Share of the window that `infold` leaves for the reply: 614 tokens of 4k, 30,000 of 200k; larger windows keep the
documents' 32,000."""


SMALLEST_RESERVE_TOKENS = 256
"""Below this a reply is not worth asking for."""


class Window(Struct, frozen=True):
    """What a model can hold: in total, of input if that is limited separately, and of output.

    `context_tokens` 0 declares that there is no limit; an unknown window has a stated default instead. `request_bytes`
    is the most bytes of media that a request may carry, if limited.
    """

    context_tokens: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    request_bytes: int | None = None

    def __post_init__(self) -> None:
        """Reject negative or absurd sizes."""
        for field in ("context_tokens", "input_tokens", "output_tokens"):
            value = getattr(self, field)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_TOKENS:
                problem = f"{value!r} is not a number of tokens"
                raise PolicyError(f"window.{field}", problem, remedy="give the model's limit in tokens")

    @property
    def limit_tokens(self) -> int:
        """The most a provider accepts as input."""
        return self.input_tokens or self.context_tokens


LEAST_OUTPUT_TOKENS = 4_096
"""A request is never made to ask for less output than this: a shorter reply would often be cut off."""


LEAST_ANSWER_TOKENS = 1_024
"""What a budget for thinking leaves for the answer at least; providers refuse an output limit that is not above the budget."""


OUTPUT_SLACK_SHARE = 0.01
"""Share of the window that a lowered output leaves free: counts of single messages differ by a few tokens."""


class AskedOutput(Struct, frozen=True):
    """The most tokens that a request asks for in reply, 0 if it does not say; `thinking_tokens` of them are for thinking."""

    tokens: int = 0
    thinking_tokens: int = 0

    @property
    def least_tokens(self) -> int:
        """The least that the request may be made to ask for."""
        return min(self.tokens, max(LEAST_OUTPUT_TOKENS, self.thinking_tokens + LEAST_ANSWER_TOKENS))

    def narrow(self, window: Window, policy: Policy, overhead_tokens: int) -> Window:
        """Return the window with room for the reply, which takes no more than a share of it, unless the least is more.

        A document's preset leaves room for all that is asked for. If system prompt and tools then leave too little, the
        window stays whole: it must not stop being kept because a request asks for much.
        """
        share = int(window.context_tokens * RESERVE_SHARE)
        is_scaled = policy.usable == "scaled-reserve"
        reserve = min(self.tokens, max(share, self.least_tokens)) if is_scaled else self.tokens
        left = window.context_tokens - reserve
        if not self.tokens or left <= overhead_tokens + (share if is_scaled else 0):
            return window
        return replace(window, input_tokens=min(window.limit_tokens, left))

    def fitting(self, window_tokens: int, *, expected_tokens: int, most_tokens: int) -> int:
        """Return what to ask for with a prompt: less only if both are not expected to fit the window (0: unlimited).

        Then the reply gets what the prompt leaves at its largest, less a little, since providers refuse a single token too much.
        """
        if not window_tokens or expected_tokens + self.tokens <= window_tokens:
            return self.tokens
        left = int(window_tokens * (1 - OUTPUT_SLACK_SHARE)) - most_tokens
        return min(self.tokens, max(self.least_tokens, left))


NOTHING_ASKED = AskedOutput()


class Budget(Struct, frozen=True):
    """A window under a policy: what may be filled, where to act, where to stop.

    `limit_tokens` is the most a request may be: the usable window in `infold`, and what the provider accepts in a
    document preset, whose own trigger comes first. Under a working window the limit is still the model's own, and the other
    numbers are of the working window. Not `bounded`: the window was declared to have no limit.
    `limit_bytes`: the most bytes of media, if limited.
    """

    usable_tokens: int
    limit_tokens: int
    trigger_tokens: int
    target_tokens: int
    bounded: bool = True
    limit_bytes: int | None = None

    def excess_tokens(self, request_tokens: int) -> int:
        """Return how far a request is over the limit; 0 if it fits."""
        return max(0, request_tokens - self.limit_tokens) if self.bounded else 0


def budget_for(window: Window, policy: Policy) -> Budget:
    """Return the budget of a window under a policy; raise `PolicyError` if they contradict each other."""
    stated = policy.window_tokens
    own = window if stated is None else Window(stated, output_tokens=window.output_tokens)
    seen = own if policy.working_window_tokens is None else _working_window(own, policy, policy.working_window_tokens)
    if seen.context_tokens == 0:
        return Budget(0, 0, 0, 0, bounded=False, limit_bytes=window.request_bytes)
    usable = _usable_tokens(seen, policy)
    trigger = policy.trigger.of(usable)
    target = trigger if policy.target is None else policy.target.of(usable)
    if policy.target is not None and target >= trigger:
        problem = f"{target:,} tokens is not below the trigger of {trigger:,} in a usable window of {usable:,}"
        raise PolicyError("target", problem, remedy="give both as shares of the window, or lower the target")
    if own.context_tokens == 0:
        limit = LARGEST_TOKENS
    elif policy.usable == "scaled-reserve":
        limit = usable if seen is own else _usable_tokens(own, policy)
    else:
        limit = window.limit_tokens or own.limit_tokens
    return Budget(usable, limit, trigger, target, limit_bytes=window.request_bytes)


def _working_window(own: Window, policy: Policy, working_tokens: int) -> Window:
    """Return the window to work in: the model's own if the stated one is not smaller, except where a document's number holds
    whatever the model has."""
    if policy.usable != "whole" and 0 < own.context_tokens <= working_tokens:
        return own
    output = own.output_tokens
    return Window(
        working_tokens,
        None if own.input_tokens is None else min(own.input_tokens, working_tokens),
        None if output is None or output >= working_tokens else output,
    )


def narrow_window(window: Window, limits: LearnedLimits) -> Window:
    """Return a window narrowed by what rejections taught; one declared to have no limit stays unlimited."""
    tokens = limits.tokens
    if tokens is not None and window.context_tokens:
        window = replace(
            window,
            context_tokens=min(window.context_tokens, tokens),
            input_tokens=None if window.input_tokens is None else min(window.input_tokens, tokens),
            output_tokens=None if (window.output_tokens or 0) >= tokens else window.output_tokens,
        )
    if limits.bytes is None:
        return window
    return replace(window, request_bytes=min(limits.bytes, window.request_bytes or limits.bytes))


def output_ceiling(window: Window) -> int:
    """Return what the documents reserve for the reply: the model's own maximum, at most 32,000, or 32,000 if unset."""
    return min(window.output_tokens or LARGEST_OUTPUT_TOKENS, LARGEST_OUTPUT_TOKENS)


def usage_tokens(usage: Usage, rule: CountRule) -> int:
    """Return reported usage as the rule counts it; rules that do not use usage alone count what is in the window."""
    match rule:
        case "input+cache-read+output":
            return usage.input + usage.cache_read + usage.output
        case "total":
            return usage.total or usage.input + usage.output + usage.cache_read + usage.cache_write
        case "estimate" | "anchored":
            return usage.context
        case _:
            assert_never(rule)


def is_overflow(count_tokens: int, budget: Budget, policy: Policy) -> bool:
    """Return whether a count has reached the policy's trigger (*isOverflow*); never if automatic compaction is off."""
    if not policy.auto or not budget.bounded:
        return False
    return count_tokens >= budget.trigger_tokens if policy.reached else count_tokens > budget.trigger_tokens


def _usable_tokens(window: Window, policy: Policy) -> int:
    match policy.usable:
        case "input-else-less-ceiling":
            return window.input_tokens or window.context_tokens - output_ceiling(window)
        case "less-reserve":
            return window.limit_tokens - _reserve(window, policy)
        case "input-less-reserve":
            if window.input_tokens:
                return max(0, window.input_tokens - _reserve(window, policy))
            return max(0, window.context_tokens - output_ceiling(window))
        case "scaled-reserve":
            reserve = policy.reserve_tokens
            if reserve is None:
                scaled = max(SMALLEST_RESERVE_TOKENS, int(window.context_tokens * RESERVE_SHARE))
                reserve = min(scaled, output_ceiling(window))
            if reserve >= window.context_tokens:
                problem = f"{reserve:,} tokens leave nothing of a window of {window.context_tokens:,}"
                raise PolicyError("reserve_tokens", problem, remedy="lower the reserve or choose a larger model")
            return min(window.limit_tokens, window.context_tokens - reserve)
        case "whole":
            return window.context_tokens
        case _:
            assert_never(policy.usable)


def _reserve(window: Window, policy: Policy) -> int:
    if policy.reserve_tokens is not None:
        return policy.reserve_tokens
    return min(DEFAULT_RESERVE_TOKENS, output_ceiling(window))


LEAST_ESTIMATED = Calibration(prose=0.6, material=0.6, wide=0.4)
"""The smallest share of an estimate that a provider's count can be if its vocabulary is unknown. For ASCII all measured
vocabularies have at least 0.85 of o200k's tokens, and French is overestimated most, by 30 %; outside ASCII both are
less certain."""


def is_plausible_count(reported_tokens: int, size: Size, least: Calibration) -> bool:
    """Return whether text of that size can have that few tokens."""
    loose = max(least.prose, least.material, least.wide) * size.loose
    return reported_tokens >= least.apply(size) - loose


def is_plausible_usage(usage: Usage, sent: Size, answered: Size, least: Calibration) -> bool:
    """Ignore usage reports that are too low to be real (some providers omit cached tokens); return whether this one is
    plausible."""
    counted = max(usage.prompt, usage.context - usage.output - usage.reasoning) + usage.cleared
    whole = usage.context + usage.cleared
    return is_plausible_count(counted, sent, least) and is_plausible_count(whole, sent.plus(answered), least)
