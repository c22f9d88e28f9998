"""Reads files and environment once and gives one frozen value; nothing is global and nothing is written.

Every face passes its own environment and folder. What is wrong anywhere is a `SettingsError` now, not when it is needed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.settings.chain import Chain, chain_of
from infold.settings.environment import environment_layer, relevant, switch_layer
from infold.settings.layers import Layer, Stated
from infold.settings.schema import KEYS, UPSTREAM
from infold.settings.sources import sources
from infold.settings.tables import file_layers
from infold.settings.terms import SessionTerms, terms_of
from infold.settings.values import Value

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
