"""The numbers a user may set, the rules a preset may choose among, and the presets.

One `Policy` type serves every preset: a preset changes values and picks rules by name, never a code path of its own. A
policy that contradicts itself cannot be built: `PolicyError` names the field and the fix. The documents' numbers are
theirs; `docs/reference/behaviour.md` gives the origin of each of `infold`'s.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from types import MappingProxyType, NoneType
from typing import Any, Literal, Self, TypeAlias, assert_never, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.errors import PolicyError, SettingsError, UnknownKeyword, UnknownPreset

LARGEST_TOKENS = 1_000_000_000
"""No window or threshold is near a thousand million tokens; a larger number is a unit mistake."""


SMALL_MUST_KEEP_TOKENS, LARGEST_MUST_KEEP_SHARE = 1_400, 0.8
"""Instructions may take this many tokens of a small summary, up to that share of it: a person's words are not shorter
in a small window, and less is done in it."""


EstimateRule: TypeAlias = Literal["features", "round", "ceil"]
"""How text is sized: our feature model, or UTF-16 units over four, rounded half up or always up."""


Ruler: TypeAlias = EstimateRule | Callable[[str], int]
"""A rule by name, or an exact tokeniser's count in place of the feature model."""


CountRule: TypeAlias = Literal["input+cache-read+output", "total", "estimate", "anchored"]
"""What is compared with the trigger: reported usage, an estimate of everything, or reported usage plus the calibrated
estimate of what is new."""


ContinueRule: TypeAlias = Literal["always", "after-reply", "adrift"]
"""When a synthetic user message after an automatic compaction asks the model to go on."""


UsableRule: TypeAlias = Literal[
    "input-else-less-ceiling", "less-reserve", "input-less-reserve", "scaled-reserve", "whole"
]
"""How much of the window may be filled: as in OpenCode 1.1.23, 1.1.57 and 1.18, `infold`'s own rule, or all of it."""


PriceUse: TypeAlias = Literal["auto", "never", "always"]
"""Whether to fold for price: where tokens are known to cost money, never, or also by assumed ratios of prices."""


# Defined before its users: the defaults below are checked on import.
def _expect(fine: bool, field: str, problem: str, remedy: str) -> None:
    if not fine:
        raise PolicyError(field, problem, remedy=remedy)


def _expect_types(policy: Struct, prefix: str = "") -> None:
    """Raise `PolicyError` for the first field whose value has the wrong type, with what to pass."""
    for name, kind in _kinds(type(policy)).items():
        value = getattr(policy, name)
        if type(value) is not kind and not _is_of(value, kind):
            remedy = f"give {_describe_kind(kind)}"
            raise PolicyError(f"{prefix}{name}", f"{value!r} ({type(value).__name__})", remedy=remedy)


def _is_of(value: object, kind: Any) -> bool:
    try:
        return bool(msgspec.convert(value, kind) == value)
    except msgspec.ValidationError:
        return False


@cache
def _kinds(policy: type[Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(policy)}


def _describe_kind(kind: Any) -> str:
    """Return what to pass for a field, in words and by example."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    if NoneType in get_args(kind):
        return " or ".join((*(_describe_kind(one) for one in get_args(kind) if one is not NoneType), "None"))
    return {
        Amount: "share(0.8), tokens(100_000) or remaining(20_000)",
        bool: "True or False",
        float: "a number such as 0.5",
        frozenset[str]: "a frozenset of names",
        int: "a whole number such as 2_000",
        str: "text",
    }.get(kind, f"a {getattr(kind, '__name__', kind)}")


class Amount(Struct, frozen=True):
    """A threshold in the unit its user thinks in: tokens, a share of the usable window, or tokens remaining."""

    unit: Literal["tokens", "share", "remaining"]
    value: float

    def __post_init__(self) -> None:
        """Reject amounts that fit no window."""
        units = get_args(_kinds(Amount)["unit"])
        _expect(
            self.unit in units, "amount", f"{self.unit!r} is not a unit", f"give one of {', '.join(map(repr, units))}"
        )
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not is_number or not isfinite(self.value) or self.value < 0 or self.value > LARGEST_TOKENS:
            raise PolicyError(
                "amount",
                f"{self.value!r} {self.unit} is not an amount",
                remedy="give a number from 0 to a thousand million",
            )
        if self.unit == "share" and self.value > 1:
            raise PolicyError(
                "amount",
                f"a share of {self.value} is more than the whole",
                remedy="give a share from 0 to 1, or tokens",
            )

    def of(self, usable_tokens: int) -> int:
        """Return this amount in tokens, for a usable window of that size; never negative."""
        match self.unit:
            case "tokens":
                return int(self.value)
            case "share":
                return max(0, int(usable_tokens * self.value))
            case "remaining":
                return max(0, usable_tokens - int(self.value))
            case _:
                assert_never(self.unit)


_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d+)?|\.\d+) ?([km]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_number(text: str) -> float:
    """Parse a number with k or m for thousands and millions: 8000, 64k, 1.5m, 200_000; raise `ValueError` for other text."""
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= len("1_000_000_000.000") + 1 else None
    if found is None:
        raise ValueError(f"{text!r} is not a number")
    return round(float(found[1].replace("_", "")) * _UNITS[found[2].lower()], 6)


def tokens(value: int) -> Amount:
    """Return an amount of that many tokens, whatever the window."""
    return Amount("tokens", value)


def share(value: float) -> Amount:
    """Return an amount that is a share of the usable window, from 0 to 1."""
    return Amount("share", value)


def remaining(value: int) -> Amount:
    """Return an amount that is the usable window less that many tokens."""
    return Amount("remaining", value)


MEMORY_SHARES: Mapping[str, float] = MappingProxyType({"lean": 0.05, "balanced": 0.11, "rich": 0.22})
"""Shares of the usable window that a fold may leave in place of what it folds, by name."""

LARGEST_MEMORY = 0.4
"""Largest share of the usable window for what a fold leaves: above that, folds would follow one another."""


def memory_size(memory: str | float) -> Amount:
    """Return how much a fold may leave, by name or as a share of the usable window; raise `PolicyError` for anything else."""
    wanted = MEMORY_SHARES.get(memory) if isinstance(memory, str) else memory
    is_share = isinstance(wanted, int | float) and not isinstance(wanted, bool) and 0 < wanted <= LARGEST_MEMORY
    _expect(
        is_share, "memory", f"{memory!r}", f"give 'lean', 'balanced', 'rich' or a share from 0.01 to {LARGEST_MEMORY}"
    )
    assert wanted is not None
    return share(float(wanted))


class Changeable(Struct, frozen=True):
    """A value that never changes: `but` returns another one."""

    def but(self, **changes: Any) -> Self:
        """Return a copy with other values in these fields: `preset("infold").but(trigger=share(0.7))`.

        Raise `UnknownKeyword` for a field that it does not have, and `UsageError` for a value that cannot be.
        """
        for name in changes:
            if name not in self.__struct_fields__:
                raise UnknownKeyword(type(self).__name__, name, known=self.__struct_fields__)
        return replace(self, **changes)


class PrunePolicy(Changeable, frozen=True):
    """When old tool results become stubs, and which.

    `timing`: at every request, or only once the trigger is reached, so that the provider's cache rarely breaks.
    `enough`: at the trigger, how full the window may still be after pruning alone; above that the head is folded
    instead. `spare_turns`: how many of the newest user turns are never touched; with 0 only the newest step is spared.
    `genuine_turns`: whether only messages of a person count as turns. `arguments`: whether large values in old
    call arguments are pruned too.
    """

    enabled: bool = True
    timing: Literal["every-request", "at-trigger"] = "every-request"
    keep: Amount = tokens(40_000)
    minimum: Amount = tokens(20_000)
    enough: Amount = share(1.0)
    spare_turns: int = 2
    genuine_turns: bool = False
    protected_tools: frozenset[str] = frozenset({"skill"})
    arguments: bool = False

    def __post_init__(self) -> None:
        """Reject values of the wrong type, and a negative or absurd number of turns."""
        _expect_types(self, "prune.")
        _expect(
            0 <= self.spare_turns <= 1_000,
            "prune.spare_turns",
            f"{self.spare_turns}",
            "give 0 to 1,000 turns",
        )


class TailPolicy(Changeable, frozen=True):
    """What stays verbatim after the cut.

    `rule`: nothing, the last `turns` user turns, or newest messages within a token budget, which is `size` of the
    usable window held between `minimum_tokens` and `maximum_tokens`, and of at most `turns` turns if given. Under a policy
    with a target, what a checkpoint without kept steps is not expected to need of its room is tail too.
    `split_turns`: whether the cut may fall inside a turn. `whole_head`: what to do if everything would be tail:
    fold it all, or leave it. `task_share`: where a person's request begins a tail of at least that share of what
    the rule would keep, the cut falls there, so that no task is cut in two; 0 for never. `recut`: whether turns are
    dropped from the tail once the summary is known and still over target.
    """

    rule: Literal["none", "turns", "tokens"] = "none"
    turns: int = 0
    size: Amount = share(0.25)
    minimum_tokens: int = 0
    maximum_tokens: int = LARGEST_TOKENS
    split_turns: bool = False
    whole_head: bool = True
    task_share: float = 0.0
    recut: bool = False

    def __post_init__(self) -> None:
        """Reject values of the wrong type, and a tail that contradicts itself."""
        _expect_types(self, "tail.")
        _expect(
            0 <= self.task_share <= 1, "tail.task_share", f"{self.task_share}", "give a share of the tail from 0 to 1"
        )
        _expect(0 <= self.turns <= 10_000, "tail.turns", f"{self.turns}", "give 0 to 10,000 turns")
        _expect(
            0 <= self.minimum_tokens <= self.maximum_tokens <= LARGEST_TOKENS,
            "tail.minimum_tokens",
            f"{self.minimum_tokens} to {self.maximum_tokens}",
            "give a minimum from 0 up to the maximum",
        )
        _expect(
            self.rule != "turns" or self.turns > 0,
            "tail.turns",
            "a tail of turns without any",
            "give at least one turn, or rule='none'",
        )

    def budget_tokens(self, usable_tokens: int) -> int:
        """Return the tokens of verbatim tail that a usable window of that size has room for."""
        return min(self.maximum_tokens, max(self.minimum_tokens, self.size.of(usable_tokens)))


class SummaryPolicy(Changeable, frozen=True):
    """What replaces the folded head.

    `shape`: a pair of request and summary message as in OpenCode, the summary alone, or one marked user message.
    `prefix` opens the summary's text. `fallback`: what happens if no model can summarise: the deterministic fold,
    mechanical cleaning alone, or `stop`: an agent's loop ends, and without such a loop the deterministic fold is used.
    `growth`: of what `size` is above `maximum_tokens`, the share that is added to that maximum.
    `ledger`: whether facts extracted by code, the user's instructions first, are added to a model's words.
    `must_keep_share` is the maximum share of a summary for verbatim instructions; a small summary gives them more.
    `steps_share` is the share of the room for old steps in their own form behind the text, which takes what they leave.
    `judged`: whether a summary's content is judged; otherwise any complete answer is accepted as written. `shows`: what
    the summariser reads: the whole history as messages, the folded part as one flattened text, or that with the
    beginning and end of what stays.
    """

    shape: Literal["pair", "alone", "marked"] = "pair"
    prefix: str = ""
    fallback: Literal["fold", "clean", "stop"] = "fold"
    ledger: bool = False
    size: Amount = share(0.1)
    minimum_tokens: int = 256
    maximum_tokens: int = 8_000
    growth: float = 0.0
    must_keep_share: float = 0.6
    steps_share: float = 0.0
    judged: bool = True
    shows: Literal["messages", "head", "head-and-tail"] = "head-and-tail"

    def __post_init__(self) -> None:
        """Reject values of the wrong type, and sizes that cannot hold a summary."""
        _expect_types(self, "summary.")
        _expect(
            0 < self.minimum_tokens <= self.maximum_tokens <= LARGEST_TOKENS,
            "summary.minimum_tokens",
            f"{self.minimum_tokens} to {self.maximum_tokens}",
            "give a minimum from 1 up to the maximum",
        )
        _expect(
            0 <= self.must_keep_share <= 1,
            "summary.must_keep_share",
            f"{self.must_keep_share}",
            "give a share from 0 to 1",
        )
        _expect(0 <= self.growth <= 1, "summary.growth", f"{self.growth}", "give a share from 0 to 1")
        _expect(0 <= self.steps_share <= 1, "summary.steps_share", f"{self.steps_share}", "give a share from 0 to 1")

    def budget_tokens(self, usable_tokens: int) -> int:
        """Return the maximum tokens of a summary in a usable window of that size."""
        asked = max(self.minimum_tokens, self.size.of(usable_tokens))
        return min(asked, self.maximum_tokens) + int(max(0, asked - self.maximum_tokens) * self.growth)

    def must_keep_tokens(self, budget_tokens: int) -> int:
        """Return how many tokens of a summary that large the user's own words may take; 0 if the share is 0."""
        small = min(SMALL_MUST_KEEP_TOKENS, int(budget_tokens * LARGEST_MUST_KEEP_SHARE)) if self.must_keep_share else 0
        return max(small, int(budget_tokens * self.must_keep_share))


class Policy(Changeable, frozen=True):
    """Everything that decides when and how a session is compacted.

    `auto` off means off. `reached`: whether a count equal to the trigger acts. `window_tokens` overrides the model's
    window; `working_window_tokens` is how much of it to work in: trigger and target follow from it as if it were the
    window, but a request that cannot be made smaller may fill the window itself; with the rule `whole` it holds for smaller
    models too. `attempts` limits compactions per user prompt, `None` means no limit. `less_freed`: whether the tokens freed
    by pruning are subtracted from reported usage. `clip`: whether a single part too large for the window is shortened.
    `priced`: whether the head is also folded if that is cheaper: `auto` at known prices, `always` also at assumed ones, or
    `never`. `task_band`: the share of the trigger below it in which the head is folded once a task has ended; 0 for never.
    `continues`: when a continue message follows an automatic compaction: always, if the view would end with a reply or a
    summary of the model's, or only if work is in progress and nothing of it is kept.
    """

    name: str
    auto: bool = True
    estimate: EstimateRule = "features"
    count: CountRule = "anchored"
    usable: UsableRule = "scaled-reserve"
    reached: bool = True
    window_tokens: int | None = None
    working_window_tokens: int | None = None
    reserve_tokens: int | None = None
    trigger: Amount = share(1.0)
    target: Amount | None = None
    prune: PrunePolicy = PrunePolicy()
    tail: TailPolicy = TailPolicy()
    summary: SummaryPolicy = SummaryPolicy()
    stub: str = ""
    attempts: int | None = None
    force_on_length: bool = False
    less_freed: bool = False
    clip: bool = False
    priced: PriceUse = "never"
    task_band: float = 0.0
    continues: ContinueRule = "always"

    @property
    def compares_usage(self) -> bool:
        """Whether only the usage reported for a step is compared with the trigger."""
        return self.count in ("input+cache-read+output", "total")

    def __post_init__(self) -> None:
        """Reject values of the wrong type, and numbers that contradict each other."""
        _expect_types(self)
        _expect(
            self.window_tokens is None or 0 <= self.window_tokens <= LARGEST_TOKENS,
            "window_tokens",
            f"{self.window_tokens}",
            "give the model's window in tokens, or leave it out",
        )
        _expect(
            self.working_window_tokens is None or 0 < self.working_window_tokens <= LARGEST_TOKENS,
            "working_window_tokens",
            f"{self.working_window_tokens}",
            "give the tokens to work in, such as 200_000, or leave it out to use the whole window",
        )
        _expect(
            self.reserve_tokens is None or 0 <= self.reserve_tokens <= LARGEST_TOKENS,
            "reserve_tokens",
            f"{self.reserve_tokens}",
            "give the tokens to keep free for the reply, or leave it out",
        )
        _expect(
            0 <= self.task_band <= 0.5,
            "task_band",
            f"{self.task_band}",
            "give a share of the trigger from 0 to 0.5; 0 waits for the trigger",
        )
        _expect(
            self.attempts is None or self.attempts > 0,
            "attempts",
            f"{self.attempts}",
            "give at least 1, or auto=False",
        )
        _expect(
            self.target is None or self.target.unit != self.trigger.unit or self._target_is_below(),
            "target",
            f"{self.target and self.target.value} is not below the trigger {self.trigger.value}",
            "lower the target or raise the trigger, so that a compaction lasts",
        )

    def with_memory(self, memory: str | float) -> Self:
        """Return the policy with other room for what a fold leaves (see `memory_size`)."""
        return replace(self, summary=replace(self.summary, size=memory_size(memory), maximum_tokens=LARGEST_TOKENS))

    def _target_is_below(self) -> bool:
        assert self.target is not None
        if self.trigger.unit == "remaining":
            return self.target.value > self.trigger.value
        return self.target.value < self.trigger.value


INFOLD = Policy(
    name="infold",
    trigger=share(0.95),
    target=share(0.45),
    prune=PrunePolicy(
        timing="at-trigger",
        keep=share(0.1),
        minimum=share(0.1),
        enough=share(0.6),
        spare_turns=0,
        genuine_turns=True,
        arguments=True,
    ),
    tail=TailPolicy(
        rule="tokens",
        size=share(0.075),
        minimum_tokens=4_000,
        maximum_tokens=20_000,
        split_turns=True,
        whole_head=False,
        task_share=0.8,
    ),
    summary=SummaryPolicy(
        shape="marked",
        ledger=True,
        size=share(0.11),
        minimum_tokens=200,
        maximum_tokens=7_500,
        growth=0.2,
        steps_share=0.7,
    ),
    force_on_length=True,
    clip=True,
    priced="auto",
    task_band=0.06,
    continues="adrift",
)


_OPENCODE_1_1_23 = Policy(
    name="opencode-1.1.23",
    estimate="round",
    count="input+cache-read+output",
    usable="input-else-less-ceiling",
    reached=False,
    summary=SummaryPolicy(fallback="stop", judged=False, shows="messages"),
    stub="[Old tool result content cleared]",
)


_OPENCODE_1_1_57 = Policy(
    name="opencode-1.1.57",
    estimate="ceil",
    count="total",
    usable="less-reserve",
    tail=TailPolicy(rule="turns", turns=1),
    summary=SummaryPolicy(fallback="stop", judged=False, shows="messages"),
    stub="[output truncated by compaction]",
    less_freed=True,
)


_PROACTIVE = replace(
    _OPENCODE_1_1_57,
    name="proactive",
    estimate="round",
    tail=TailPolicy(rule="turns", turns=2),
    summary=SummaryPolicy(prefix="[Conversation Summary]", judged=False, shows="messages"),
    stub="[Output pruned]",
    continues="after-reply",
)


_TURN_WINDOW = Policy(
    name="turn-window",
    estimate="ceil",
    count="estimate",
    usable="whole",
    working_window_tokens=64_000,
    trigger=share(0.75),
    target=share(0.5),
    prune=PrunePolicy(enabled=False),
    tail=TailPolicy(rule="turns", turns=6, whole_head=False, recut=True),
    summary=SummaryPolicy(shape="alone", prefix="[COMPACTED_CONTEXT]", fallback="clean", judged=False, shows="head"),
    attempts=2,
    force_on_length=True,
    continues="after-reply",
)


_OPENCODE_1_18 = replace(
    _OPENCODE_1_1_23,
    name="opencode-1.18",
    count="total",
    usable="input-less-reserve",
    reached=True,
    prune=PrunePolicy(enabled=False),
    tail=TailPolicy(rule="tokens", size=share(0.25), minimum_tokens=2_000, maximum_tokens=15_000, split_turns=True),
    summary=SummaryPolicy(fallback="stop", judged=False, shows="head"),
)


PRESETS: dict[str, Policy] = {
    policy.name: policy
    for policy in (INFOLD, _OPENCODE_1_1_23, _OPENCODE_1_1_57, _OPENCODE_1_18, _PROACTIVE, _TURN_WINDOW)
}


def preset(name: str) -> Policy:
    """Return the preset of that name; raise `UnknownPreset` with the known names."""
    if name not in PRESETS:
        raise UnknownPreset(name, known=tuple(sorted(PRESETS)))
    return PRESETS[name]


PREFIX, OPENCODE = "INFOLD_", "OPENCODE_"
"""Prefixes of infold's own environment variables, and of OpenCode's."""


SWITCHES = MappingProxyType({"DISABLE_AUTOCOMPACT": "compaction.auto", "DISABLE_PRUNE": "compaction.prune"})
"""The switches without their prefix, and the setting that each turns off."""


YES, NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def is_true(text: str) -> bool:
    """Return whether a variable means yes or no; raise `ValueError` for any other word."""
    word = text.strip().lower()
    if word not in YES | NO:
        raise ValueError(f"{text!r} is neither yes nor no")
    return word in YES


def prefixes_for(preset: str) -> tuple[str, ...]:
    """Return the prefixes of the switches that a preset obeys: OpenCode's own too under its presets and `proactive`."""
    return (PREFIX, OPENCODE) if preset.startswith("opencode-") or preset == "proactive" else (PREFIX,)


def settings_switched_off(variables: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return each setting that a switch with that prefix turns off, with the variable that does; empty variables are
    ignored.

    Raise `SettingsError` for a word that is neither yes nor no.
    """
    stated = {key: prefix + name for name, key in SWITCHES.items() if variables.get(prefix + name, "").strip()}
    return {key: variable for key, variable in stated.items() if _is_on(variable, variables[variable])}


def apply_switches(policy: Policy, variables: Mapping[str, str]) -> Policy:
    """Return a policy with everything off that the switches turn off; raise `SettingsError` for an unknown word."""
    off = {key for prefix in prefixes_for(policy.name) for key in settings_switched_off(variables, prefix)}
    if not off:
        return policy
    prune = replace(policy.prune, enabled=policy.prune.enabled and "compaction.prune" not in off)
    return replace(policy, auto=policy.auto and "compaction.auto" not in off, prune=prune)


def _is_on(variable: str, text: str) -> bool:
    try:
        return is_true(text)
    except ValueError as error:
        remedy = "give 1, true, yes or on, or else 0, false, no or off"
        raise SettingsError("", str(error), where=variable, remedy=remedy) from error
