"""Resolve the layers of settings to one frozen value: `read_settings` for a process, `Settings.for_session` for a session.

Callers pass their own environment and folder; nothing is global and nothing is written. Everything is checked at
once, so an error is raised when settings are read, not when they are used.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import Prices, lookup
from infold.core.gauge import NativeUse
from infold.core.policy import LARGEST_TOKENS, OPENCODE, PRESETS, Amount, Policy, prefixes_for, preset
from infold.errors import PolicyError, SettingsError
from infold.settings.load import (
    Chain,
    Faults,
    Layer,
    StatedValue,
    build_chain,
    environment_layer,
    find_files,
    read_layers,
    relevant_variables,
    switch_layer,
)
from infold.settings.schema import DOCUMENT_VARIABLES, KEYS, KEYS_BY_NAME, POLICY_FIELDS, UPSTREAM, Value, find_key

_TAIL_RULES = MappingProxyType(
    {"compaction.keep_turns": "turns", "compaction.tail_turns": "tokens", "compaction.preserve_recent_tokens": "tokens"}
)
"""The keys that only one rule for the tail uses, and which rule."""

_RESERVING = frozenset({"less-reserve", "input-less-reserve", "scaled-reserve"})
"""The rules for the usable window that use a reserve."""


def select_values(base: Policy, chain: Chain) -> Mapping[str, StatedValue]:
    """Return the stated values that a preset uses, and the target that follows from a trigger.

    A value that the preset does not use is dropped if it was stated with a weaker preset; otherwise raise
    `SettingsError`.
    """
    stated = {key: found for key in POLICY_FIELDS if (found := chain.find(key)) is not None}
    for key, remedy in _unused_keys(base):
        if key in stated and chain.rank(key) <= chain.rank("preset"):
            problem = f"the preset {base.name} has no use for it"
            raise SettingsError(key, problem, where=stated[key].origin, remedy=remedy)
        stated.pop(key, None)
    return {**_following_target(base, stated), **stated}


def build_policy(base: Policy, used: Mapping[str, StatedValue]) -> Policy:
    """Return a preset with these values; raise `SettingsError` if they contradict each other."""
    try:
        return replace(base, **_changes(base, used))
    except PolicyError as error:
        raise _contradiction(error, used) from error


def preset_value(key: str, policy: Policy) -> StatedValue | None:
    """Return a policy's own value of a key, or `None` if the key does not set a field of it."""
    if key not in POLICY_FIELDS:
        return None
    value: Value = attrgetter(POLICY_FIELDS[key])(policy)
    if key in ("window", "working_window") and value is None:
        return None
    has_none = key in _TAIL_RULES and not (key == "compaction.keep_turns" and policy.tail.rule == "turns")
    return StatedValue(None if has_none else value, f"preset {policy.name}")


def _unused_keys(base: Policy) -> Iterator[tuple[str, str]]:
    """Yield the keys that a preset ignores, each with the remedy."""
    for key, rule in _TAIL_RULES.items():
        if base.tail.rule != rule:
            fitting = ", ".join(sorted(name for name, policy in PRESETS.items() if policy.tail.rule == rule))
            yield key, f"remove it, or choose a preset that counts its tail in {rule} ({fitting})"
    if base.usable not in _RESERVING:
        yield "compaction.reserved", "remove it; a lower compaction.trigger leaves room for the reply as well"


def _following_target(base: Policy, stated: Mapping[str, StatedValue]) -> Mapping[str, StatedValue]:
    """Return a target in the preset's proportion to the trigger if the trigger alone was set and leaves no room for it.

    A trigger in tokens always moves the target, since the two cannot be compared without a window.
    """
    trigger = stated["compaction.trigger"].value if "compaction.trigger" in stated else None
    if base.target is None or not isinstance(trigger, Amount) or "compaction.target" in stated:
        return {}
    if trigger.unit == "remaining" or (trigger.unit == "share" and base.target.value < trigger.value):
        return {}
    value = trigger.value * base.target.value / base.trigger.value
    target = Amount(trigger.unit, int(value) if trigger.unit == "tokens" else round(value, 4))
    return {"compaction.target": StatedValue(target, "in proportion to compaction.trigger")}


def _changes(base: Policy, used: Mapping[str, StatedValue]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for key, stated in used.items():
        part, _, field = POLICY_FIELDS[key].rpartition(".")
        made = _fields(key, field, stated.value)
        changes.update({part: replace(changes.get(part, getattr(base, part)), **made)} if part else made)
    return changes


def _fields(key: str, field: str, value: Value) -> dict[str, Any]:
    """Return the fields that a key sets: OpenCode's tail has exactly the tokens stated, zero turns mean no tail, and stated
    memory has no other limit."""
    if key == "compaction.memory":
        return {field: value, "maximum_tokens": LARGEST_TOKENS}
    if key == "compaction.preserve_recent_tokens":
        return {"size": Amount("tokens", cast(int, value)), "minimum_tokens": 0, "maximum_tokens": LARGEST_TOKENS}
    return {"rule": "none"} if key == "compaction.tail_turns" and value == 0 else {field: value}


def _contradiction(error: PolicyError, used: Mapping[str, StatedValue]) -> SettingsError:
    key = next(
        key
        for key, field in POLICY_FIELDS.items()
        if field == error.field and (key in used or key == "compaction.target")
    )
    concerned = ("compaction.trigger", "compaction.target") if key == "compaction.target" else (key,)
    where = ", ".join(f"{one} from {used[one].origin}" for one in concerned if one in used)
    return SettingsError(key, error.problem, where=where, remedy=error.remedy)


_NOTHING: Mapping[str, StatedValue] = MappingProxyType({})

DOCUMENT_PRESET = "turn-window"
"""The preset of document 003, which uses that document's own variables."""


class Permissions(Struct, frozen=True):
    """Rules for an agent's tools, as written: `shell`, `shell:git status*`."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class SessionOptions(Struct, frozen=True):
    """The settings of one session, and where each value came from.

    `window_tokens` is `None` for the model's own window. `summariser` names a model; `None` leaves summaries to code,
    or to the client's own model. `recovers` is `None` if the sender of the requests decides, `cache_seconds` and `prices`
    if the model does. `values` has every setting that may differ by session, by key.
    """

    model: str | None
    agent: str | None
    policy: Policy
    window_tokens: int | None
    summariser: str | None
    background: bool
    native: NativeUse
    recovers: bool | None
    cache_seconds: int | None
    prices: Prices | None
    defer_tools: bool
    permissions: Permissions
    values: Mapping[str, StatedValue]


def resolve_session(
    layers: Sequence[Layer],
    variables: Mapping[str, str],
    *,
    model: str | None = None,
    agent: str | None = None,
    given: Mapping[str, StatedValue] = _NOTHING,
) -> SessionOptions:
    """Return the settings of a session.

    `layers` are those of all sources, weakest first; `variables` are the environment's; `given` has the command
    line's values by key, which win over all but the switches. Raise `SettingsError` if values contradict each other.
    """
    layers = (*layers, Layer("command", given))
    chain = build_chain(layers, model=model, agent=agent)
    chain = build_chain((*layers, *_preset_layers(chain, variables)), model=model, agent=agent)
    base = preset(str(chain.get("preset").value))
    used = select_values(base, chain)
    policy = build_policy(base, used)
    values = {
        key: used.get(key) or preset_value(key, policy) or chain.get(key)
        for key in KEYS_BY_NAME
        if KEYS_BY_NAME[key].per_session
    }
    return SessionOptions(
        model=model,
        agent=agent,
        policy=policy,
        window_tokens=policy.window_tokens,
        summariser=cast(str | None, values["compaction.model"].value),
        background=values["compaction.background"].value is True,
        native=cast(NativeUse, values["compaction.native"].value),
        recovers=cast("bool | None", values["compaction.recovers"].value),
        cache_seconds=cast("int | None", values["compaction.cache_seconds"].value),
        prices=_stated_prices(values, model),
        defer_tools=values["defer_tools"].value is True,
        permissions=Permissions(
            *(cast("tuple[str, ...]", values[f"permissions.{name}"].value) for name in Permissions.__struct_fields__)
        ),
        values=values,
    )


def _stated_prices(values: Mapping[str, StatedValue], model: str | None) -> Prices | None:
    """Return the model's prices with the stated ones in place of the catalogue's; `None` if none are stated, or neither the
    settings nor the catalogue have those of input and output."""
    names = Prices.__struct_fields__
    stated = {name: values[key].value for name in names if (key := f"prices.{name}") in values}
    if not any(value is not None for value in stated.values()):
        return None
    known = lookup(model).entry.prices if model else None
    prices = {name: getattr(known, name, None) if stated.get(name) is None else stated[name] for name in names}
    return None if prices["input"] is None or prices["output"] is None else Prices(**cast("dict[str, float]", prices))


def _preset_layers(chain: Chain, variables: Mapping[str, str]) -> tuple[Layer, ...]:
    """Return the layers of other programs' variables that the chosen preset uses."""
    name = str(chain.get("preset").value)
    if name == DOCUMENT_PRESET:
        return (environment_layer(variables, DOCUMENT_VARIABLES),)
    return (switch_layer(variables, OPENCODE),) if OPENCODE in prefixes_for(name) else ()


S = TypeVar("S", bound=Struct)


class RecallSettings(Struct, frozen=True):
    """Whether recall is offered to models, and the size of one answer."""

    enabled: bool
    budget_tokens: int


class PluginSettings(Struct, frozen=True):
    """Which installed plugins are used (`None` for all), and whether the bundled template is one of them."""

    enabled: tuple[str, ...] | None
    seven_sections: bool


class AgentSettings(Struct, frozen=True):
    """Limits of the terminal agent, and what it keeps apart from the session."""

    steps: int
    result_tokens: int
    titles: bool
    snapshots: bool
    trust: bool = False
    environment: tuple[str, ...] | None = ()
    compact_tool: bool = True


class GatewaySettings(Struct, frozen=True):
    """Where the gateway listens, which hosts and tenant it serves, and how long a client may take."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    tenant: str | None
    max_connections: int
    header_seconds: int
    body_seconds: int
    idle_seconds: int


class StoreLimits(Struct, frozen=True):
    """Age and size from which sessions are deleted, `None` for never; `media_bytes` is the largest medium that is kept."""

    max_age_days: int | None
    max_bytes: int | None
    media_bytes: int | None = 20_000_000


class Settings(Struct, frozen=True):
    """The settings of a process.

    `files` are those that were read, weakest first; `upstreams` has addresses by provider. `for_session` returns what
    may differ by model and agent.
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
        """Show only the files: a store's address may hold a password."""
        return f"Settings(files={self.files})"

    @property
    def is_store_stated(self) -> bool:
        """Whether the store is stated anywhere; if not, a caller may choose its own default."""
        return build_chain(self.layers).find("store") is not None

    def for_session(
        self, *, model: str | None = None, agent: str | None = None, preset: str = "", window: int = 0
    ) -> SessionOptions:
        """Return the settings of a session with that agent and that model, by default the one set; raise `SettingsError`.

        `preset` and `window` are the command line's, empty and 0 if it gives none; they change no other setting.
        """
        options: dict[str, tuple[str, Value]] = {"preset": ("--policy", preset), "window": ("--window", window)}
        given = {key: StatedValue(value, option) for key, (option, value) in options.items() if value}
        return resolve_session(self.layers, self.variables, model=model or self.model, agent=agent, given=given)

    def effective(self, *, model: str | None = None, agent: str | None = None) -> Mapping[str, StatedValue]:
        """Return every setting as it applies to such a session, with its origin, in the order of the reference."""
        of_session = self.for_session(model=model, agent=agent).values
        chain = build_chain(self.layers)
        stated = [f"upstreams.{provider}.base_url" for provider in self.upstreams]
        families = {UPSTREAM.name: stated or [UPSTREAM.name]}
        names = [name for key in KEYS for name in families.get(key.name, [key.name])]
        return {name: of_session.get(name) or chain.get(name) for name in names}


def read_settings(environ: Mapping[str, str], folder: Path | None) -> Settings:
    """Return the settings of a process with that environment in that folder; raise `SettingsError` if any is wrong.

    Without a folder no project's file is read. The error holds all other faults of these settings as `others`.
    """
    with Faults.collecting() as faults:
        files = find_files(environ, folder, faults)
        variables = relevant_variables(environ, faults)
        layers = (
            *(layer for source in files for layer in read_layers(source, home=environ.get("HOME", ""), faults=faults)),
            environment_layer(variables, faults=faults),
        )
        with faults.note():
            layers = (*layers, switch_layer(variables))
        _check(layers, variables, faults)
    chain = build_chain(layers)
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


def _check(layers: Sequence[Layer], variables: Mapping[str, str], faults: Faults) -> None:
    """Resolve every table once, so that a contradiction is reported when settings are read.

    Without a value that could not be read, what is left of a policy may contradict itself; then nothing is resolved.
    """
    named = {key.name for fault in faults.found if (key := find_key(fault.key)) is not None}
    if named & {"preset", *POLICY_FIELDS}:
        return
    for_all = [layer for layer in layers if layer.scope not in ("model", "agent")]
    known = len(faults.found)
    with faults.note():
        resolve_session(for_all, variables)
    for layer in layers if len(faults.found) == known else ():
        if layer.scope in ("model", "agent"):
            with faults.note():
                resolve_session((*for_all, replace(layer, scope="agent", name="checked")), variables, agent="checked")
