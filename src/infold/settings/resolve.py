"""Reads files and environment once and gives one frozen value; nothing is global and nothing is written.

Every face passes its own environment and folder. What is wrong anywhere is a `SettingsError` now, not when it is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.core.policy import LARGEST_TOKENS, OPENCODE, PRESETS, Amount, Policy, prefixes_for, preset
from infold.errors import PolicyError, SettingsError
from infold.settings.load import (
    Chain,
    Layer,
    Stated,
    chain_of,
    environment_layer,
    file_layers,
    relevant,
    sources,
    switch_layer,
)
from infold.settings.schema import BORROWED, BY_NAME, KEYS, UPSTREAM, Value

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


S = TypeVar("S", bound=Struct)


class RecallSettings(Struct, frozen=True):
    """Whether recall is offered to models, and how much one answer may hold."""

    enabled: bool
    budget_tokens: int


class PluginSettings(Struct, frozen=True):
    """Which of the installed plugins are used, none meaning all, and whether the bundled template is one of them."""

    enabled: tuple[str, ...] | None
    seven_sections: bool


class AgentSettings(Struct, frozen=True):
    """How far the terminal agent goes, and what it keeps beside the session."""

    steps: int
    result_tokens: int
    titles: bool
    snapshots: bool
    trust: bool = False
    environment: tuple[str, ...] | None = ()


class GatewaySettings(Struct, frozen=True):
    """Where the gateway listens, whom it answers, whose sessions are whose, and how long a client may take."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    tenant: str | None
    max_connections: int
    header_seconds: int
    body_seconds: int
    idle_seconds: int


class StoreLimits(Struct, frozen=True):
    """From what age or size on sessions are deleted; none is never (B27). `media_bytes`: up to what size a medium is kept."""

    max_age_days: int | None
    max_bytes: int | None
    media_bytes: int | None = 20_000_000


class Settings(Struct, frozen=True):
    """All that files and environment say.

    `files` are those that were read, weakest first; `upstreams` has addresses by provider. What may differ by model and agent
    is given by `for_session`.
    """

    model: str | None
    store: str
    recall: RecallSettings
    plugins: PluginSettings
    agent: AgentSettings
    gateway: GatewaySettings
    store_limits: StoreLimits
    upstreams: Mapping[str, str]
    files: tuple[str, ...]
    layers: tuple[Layer, ...]
    variables: Mapping[str, str]

    def __repr__(self) -> str:
        """The files alone: a store's address may hold a password."""
        return f"Settings(files={self.files})"

    @property
    def is_store_stated(self) -> bool:
        """Whether anybody says where sessions are kept; where nobody does, a face may have a place of its own for them."""
        return chain_of(self.layers).find("store") is not None

    def for_session(
        self, *, model: str | None = None, agent: str | None = None, preset: str = "", window: int = 0
    ) -> SessionTerms:
        """Return what holds for a session with that model, else the one set, and that agent; raises `SettingsError`.

        `preset` and `window` are what a command line says, empty and 0 where it says nothing; all other settings hold.
        """
        options: dict[str, tuple[str, Value]] = {"preset": ("--policy", preset), "window": ("--window", window)}
        given = {key: Stated(value, option) for key, (option, value) in options.items() if value}
        return terms_of(self.layers, self.variables, model=model or self.model, agent=agent, given=given)

    def effective(self, *, model: str | None = None, agent: str | None = None) -> Mapping[str, Stated]:
        """Every setting as it holds for such a session, and where it came from, in the order of the reference."""
        of_session = self.for_session(model=model, agent=agent).values
        chain = chain_of(self.layers)
        stated = [f"upstreams.{provider}.base_url" for provider in self.upstreams]
        families = {UPSTREAM.name: stated or [UPSTREAM.name]}
        names = [name for key in KEYS for name in families.get(key.name, [key.name])]
        return {name: of_session.get(name) or chain.get(name) for name in names}


def read_settings(environ: Mapping[str, str], folder: Path | None) -> Settings:
    """The settings of a process in that folder with that environment; raises `SettingsError` for what is wrong.

    Without a folder, no project's file is read.
    """
    files = sources(environ, folder)
    variables = relevant(environ)
    layers = (
        *(layer for source in files for layer in file_layers(source, home=environ.get("HOME", ""))),
        environment_layer(variables),
        switch_layer(variables),
    )
    _check(layers, variables)
    chain = chain_of(layers)
    return Settings(
        model=cast(str | None, chain.get("model").value),
        store=cast(str | None, chain.get("store").value) or "memory",
        recall=_section(RecallSettings, "recall", chain),
        plugins=_section(PluginSettings, "plugins", chain),
        agent=_section(AgentSettings, "agent", chain),
        gateway=_section(GatewaySettings, "gateway", chain),
        store_limits=_section(StoreLimits, "store_limits", chain),
        upstreams=_upstreams(chain),
        files=tuple(str(source.path) for source in files),
        layers=layers,
        variables=variables,
    )


def _section(section: type[S], name: str, chain: Chain) -> S:
    values = {field: chain.get(f"{name}.{field}").value for field in section.__struct_fields__}
    return msgspec.convert(values, section)


def _upstreams(chain: Chain) -> Mapping[str, str]:
    stated = {key for layer in chain.layers for key in layer.values if key.startswith("upstreams.")}
    return {key.split(".")[1]: str(chain.get(key).value) for key in sorted(stated)}


def _check(layers: Sequence[Layer], variables: Mapping[str, str]) -> None:
    """Make every table's terms once, so that a contradiction is told when settings are read."""
    for_all = [layer for layer in layers if layer.scope not in ("model", "agent")]
    terms_of(for_all, variables)
    for layer in layers:
        if layer.scope in ("model", "agent"):
            terms_of((*for_all, replace(layer, scope="agent", name="checked")), variables, agent="checked")
