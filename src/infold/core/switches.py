"""The off switches: environment variables that win over every policy and setting.

Reads a mapping that the caller passes; which environment that is, and when it is read, is left to the caller.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from infold.core.policy import Policy
from infold.errors import SettingsError

PREFIX, OPENCODE = "INFOLD_", "OPENCODE_"
"""How infold's own variables begin, and how those of OpenCode do."""

SWITCHES = MappingProxyType({"DISABLE_AUTOCOMPACT": "compaction.auto", "DISABLE_PRUNE": "compaction.prune"})
"""The switches without their prefix, and the setting that each turns off."""

YES, NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def is_true(text: str) -> bool:
    """Return whether a variable says yes or no; raises `ValueError` for any other word."""
    word = text.strip().lower()
    if word not in YES | NO:
        raise ValueError(f"{text!r} is neither yes nor no")
    return word in YES


def prefixes_for(preset: str) -> tuple[str, ...]:
    """Return the prefixes of the switches that a preset obeys: OpenCode's own too under its presets and `proactive`."""
    return (PREFIX, OPENCODE) if preset.startswith("opencode-") or preset == "proactive" else (PREFIX,)


def switches_on(variables: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return each setting that a switch with that prefix turns off, with the variable that does; an empty one says nothing.

    Raises `SettingsError` for a word that is neither yes nor no.
    """
    stated = {key: prefix + name for name, key in SWITCHES.items() if variables.get(prefix + name, "").strip()}
    return {key: variable for key, variable in stated.items() if _is_on(variable, variables[variable])}


def switched(policy: Policy, variables: Mapping[str, str]) -> Policy:
    """Return a policy with everything off that the switches turn off; raises `SettingsError` for a word that is not yes or no."""
    off = {key for prefix in prefixes_for(policy.name) for key in switches_on(variables, prefix)}
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
