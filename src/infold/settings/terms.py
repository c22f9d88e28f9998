"""What holds for one session, given what all sources say: its policy, its window, who summarises, and every value's origin."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from msgspec import Struct

from infold.core.policy import OPENCODE, Policy, prefixes_for, preset
from infold.settings.chain import Chain, chain_of
from infold.settings.environment import environment_layer, switch_layer
from infold.settings.layers import Layer, Stated
from infold.settings.policies import policy_of, preset_value, used_by
from infold.settings.schema import BORROWED, BY_NAME

_NOTHING: Mapping[str, Stated] = MappingProxyType({})

BORROWING_PRESET = "turn-window"
"""The preset of document 003, for which that document's own variables count."""


class Permissions(Struct, frozen=True):
    """Rules for an agent's tools, as they are written: `shell`, `shell:git status*`."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class SessionTerms(Struct, frozen=True):
    """What a session is kept by, and where each value came from.

    `window_tokens` is none where the model's own window holds. `summariser` names a model; none leaves summaries to code, or
    to the client's own model. `recovers` is none where whoever sends the requests decides it. `values` has every
    setting that may differ by session, under its key.
    """

    model: str | None
    agent: str | None
    policy: Policy
    window_tokens: int | None
    summariser: str | None
    background: bool
    recovers: bool | None
    permissions: Permissions
    values: Mapping[str, Stated]


def terms_of(
    layers: Sequence[Layer],
    variables: Mapping[str, str],
    *,
    model: str | None = None,
    agent: str | None = None,
    given: Mapping[str, Stated] = _NOTHING,
) -> SessionTerms:
    """Return the terms of a session.

    `layers` are those of all sources, weakest first, `variables` what the environment holds, `given` what the command line
    says by key: it wins over all but the switches. Raises `SettingsError` where values contradict each other.
    """
    layers = (*layers, Layer("command", given))
    chain = chain_of(layers, model=model, agent=agent)
    chain = chain_of((*layers, *_as_preset_has_it(chain, variables)), model=model, agent=agent)
    base = preset(str(chain.get("preset").value))
    used = used_by(base, chain)
    policy = policy_of(base, used)
    values = {key: used.get(key) or _unstated(key, chain, policy) for key in BY_NAME if BY_NAME[key].per_session}
    return SessionTerms(
        model=model,
        agent=agent,
        policy=policy,
        window_tokens=policy.window_tokens,
        summariser=cast(str | None, values["compaction.model"].value),
        background=values["compaction.background"].value is True,
        recovers=cast("bool | None", values["compaction.recovers"].value),
        permissions=Permissions(
            *(cast("tuple[str, ...]", values[f"permissions.{name}"].value) for name in Permissions.__struct_fields__)
        ),
        values=values,
    )


def _as_preset_has_it(chain: Chain, variables: Mapping[str, str]) -> tuple[Layer, ...]:
    """What variables of other programs say under a preset that is theirs (S8.1, S8.2); under others they are not even read."""
    name = str(chain.get("preset").value)
    if name == BORROWING_PRESET:
        return (environment_layer(variables, BORROWED),)
    return (switch_layer(variables, OPENCODE),) if OPENCODE in prefixes_for(name) else ()


def _unstated(key: str, chain: Chain, policy: Policy) -> Stated:
    return preset_value(key, policy) or chain.get(key)
