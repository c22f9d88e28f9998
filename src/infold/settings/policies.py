"""The policy that settings amount to: a preset with the stated values in their places.

Decides which of the stated values a preset has a use for and what follows from a trigger of one's own; that the numbers agree
is checked by the policy itself.
"""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

from msgspec.structs import replace

from infold.core.policy import LARGEST_TOKENS, PRESETS, Amount, Policy
from infold.errors import PolicyError, SettingsError
from infold.settings.chain import Chain
from infold.settings.layers import Stated
from infold.settings.values import Value

_FIELDS = MappingProxyType(
    {
        "window": "window_tokens",
        "compaction.auto": "auto",
        "compaction.prune": "prune.enabled",
        "compaction.reserved": "reserve_tokens",
        "compaction.trigger": "trigger",
        "compaction.target": "target",
        "compaction.keep_turns": "tail.turns",
        "compaction.tail_turns": "tail.turns",
        "compaction.preserve_recent_tokens": "tail.size",
        "compaction.attempts": "attempts",
        "compaction.price": "priced",
    }
)
"""Where in a policy each key stands."""

_TAIL_RULES = MappingProxyType(
    {
        "compaction.keep_turns": "turns",
        "compaction.tail_turns": "tokens",
        "compaction.preserve_recent_tokens": "tokens",
    }
)
"""The keys that only one rule for the tail looks at, and which."""

_RESERVING = frozenset({"less-reserve", "input-less-reserve", "scaled-reserve"})
"""The rules for what is usable that look at a reserve."""


def used_by(base: Policy, chain: Chain) -> Mapping[str, Stated]:
    """The stated values that a preset uses, and the target that follows from a trigger.

    A value that the preset has no use for is left out where it was stated for a weaker preset; stated for this one, it is a
    `SettingsError`.
    """
    stated = {key: found for key in _FIELDS if (found := chain.find(key)) is not None}
    for key, remedy in _without_use(base):
        if key in stated and chain.rank(key) <= chain.rank("preset"):
            problem = f"the preset {base.name} has no use for it"
            raise SettingsError(key, problem, where=stated[key].origin, remedy=remedy)
        stated.pop(key, None)
    return {**_following_target(base, stated), **stated}


def policy_of(base: Policy, used: Mapping[str, Stated]) -> Policy:
    """A preset with these values in their places; raises `SettingsError` where they contradict each other."""
    try:
        return replace(base, **_changes(base, used))
    except PolicyError as error:
        raise _contradiction(error, used) from error


def preset_value(key: str, policy: Policy) -> Stated | None:
    """What a policy itself says of a key; none where it says nothing of it."""
    if key not in _FIELDS or (key == "window" and policy.window_tokens is None):
        return None
    value: Value = attrgetter(_FIELDS[key])(policy)
    has_none = key in _TAIL_RULES and not (key == "compaction.keep_turns" and policy.tail.rule == "turns")
    return Stated(None if has_none else value, f"preset {policy.name}")


def _without_use(base: Policy) -> Iterator[tuple[str, str]]:
    """The keys that a preset ignores, each with what to do instead."""
    for key, rule in _TAIL_RULES.items():
        if base.tail.rule != rule:
            fitting = ", ".join(sorted(name for name, policy in PRESETS.items() if policy.tail.rule == rule))
            yield key, f"remove it, or choose a preset that counts its tail in {rule} ({fitting})"
    if base.usable not in _RESERVING:
        yield "compaction.reserved", "remove it; a lower compaction.trigger leaves room for the reply as well"


def _following_target(base: Policy, stated: Mapping[str, Stated]) -> Mapping[str, Stated]:
    """A target in the preset's own proportion to a trigger that left it no room, so that one number can be set alone.

    A trigger in tokens takes the target along, since no window is known here to compare them in.
    """
    trigger = stated["compaction.trigger"].value if "compaction.trigger" in stated else None
    if base.target is None or not isinstance(trigger, Amount) or "compaction.target" in stated:
        return {}
    if trigger.unit == "remaining" or (trigger.unit == "share" and base.target.value < trigger.value):
        return {}
    value = trigger.value * base.target.value / base.trigger.value
    target = Amount(trigger.unit, int(value) if trigger.unit == "tokens" else round(value, 4))
    return {"compaction.target": Stated(target, "in proportion to compaction.trigger")}


def _changes(base: Policy, used: Mapping[str, Stated]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for key, stated in used.items():
        part, _, field = _FIELDS[key].rpartition(".")
        made = _fields(key, field, stated.value)
        changes.update({part: replace(changes.get(part, getattr(base, part)), **made)} if part else made)
    return changes


def _fields(key: str, field: str, value: Value) -> dict[str, Any]:
    """Return the fields that a key sets; OpenCode's tail of so many tokens is exactly that, and one of no turns is none."""
    if key == "compaction.preserve_recent_tokens":
        return {"size": Amount("tokens", cast(int, value)), "minimum_tokens": 0, "maximum_tokens": LARGEST_TOKENS}
    return {"rule": "none"} if key == "compaction.tail_turns" and value == 0 else {field: value}


def _contradiction(error: PolicyError, used: Mapping[str, Stated]) -> SettingsError:
    key = next(
        key for key, field in _FIELDS.items() if field == error.field and (key in used or key == "compaction.target")
    )
    concerned = ("compaction.trigger", "compaction.target") if key == "compaction.target" else (key,)
    where = ", ".join(f"{one} from {used[one].origin}" for one in concerned if one in used)
    return SettingsError(key, error.problem, where=where, remedy=error.remedy)
