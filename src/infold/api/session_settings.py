"""How a session is kept, as a caller says it; and what of the world that makes for its flows."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import time

from msgspec import Struct
from msgspec.structs import replace

from infold.api.checking import check_plugins, check_store, check_terms
from infold.core.budget import Window
from infold.core.entries import Checkpoint, Entry
from infold.core.events import Compacted, Event, SummaryProgressed
from infold.core.judge import Told
from infold.core.load import load
from infold.core.log import Log
from infold.core.messages import SessionId
from infold.core.policy import Policy
from infold.core.summary_request import SummaryRequest
from infold.engine.ahead import Preparation
from infold.engine.asking import AsyncSummariser, Summariser
from infold.engine.drive import AsyncWorld, World
from infold.engine.effects import Guidance
from infold.engine.terms import Terms, terms_for
from infold.errors import UsageError, kind_of
from infold.observers.bus import Bus
from infold.plugins.runner import PluginHooks, installed_plugins
from infold.ports import FullStore, MediaStore, Occasion, SessionKey
from infold.settings import Settings

MEDIA_LIMIT_BYTES = 20_000_000
"""What providers take at most of one image or document is no larger: 5 to 20 MB, of a PDF 32."""


# Defined before its user, as its default; settings can then be pickled.
def _now_ms() -> int:
    return int(time() * 1000)


class SessionSettings(Struct, frozen=True, kw_only=True):
    """How a session is kept: the model or the window, the policy, who summarises, who is asked and who is told.

    `summariser` is any callable, or the name of a model; `summariser_tokens` its window, where it is not the session's own
    model; `summary_seconds` how long it may take. `background`: summaries are written ahead, in a thread or a task, so that no
    request waits for one. `format` names the wire format where the first messages do not tell; `recall`: whether stubs
    name handles, because the requests offer a way to ask for them. `plugins` are objects with hooks or what
    `installed_plugins()` gives. `patience_seconds`: how long to wait for another process that is compacting this session.
    `environ` has the off switches (`INFOLD_DISABLE_AUTOCOMPACT`, `INFOLD_DISABLE_PRUNE`), read when a session is opened.
    Without it they are those of the process.
    `bound_thinking`: whether the model refuses thinking once something before it changed; `None`: as the catalogue says, or a
    refusal. Say `False` where the requests ask the provider to drop such blocks itself. `media_limit_bytes`: the bytes of images,
    documents and sound up to this size are kept in the store, so that recall brings them back; 0 keeps none.
    `recovers`: the server refuses what is too large instead of truncating it, and whoever sends the requests passes the refusal
    to `recover` and sends what it gives. Then the expected size decides, not the largest one possible, and the window is filled
    further. Unset, `wrap`, the gateway and the agent, which recover by themselves, decide by the server's address.
    `stops`: the caller is an agent's loop that ends at `SummaryFailed`, which `prepare` raises under a policy whose document
    gives a compaction up when its summary fails; else code folds the head.
    """

    model: str | None = None
    window: int | Window | None = None
    policy: str | Policy = "infold"
    summariser: Summariser | AsyncSummariser | str | None = None
    summariser_tokens: int = 0
    summary_seconds: float | None = 120.0
    shares_prefix: bool = False
    background: bool = False
    format: str | None = None
    recall: bool = False
    plugins: Sequence[object] = ()
    on_event: Callable[[Event], None] | None = None
    on_compacted: Callable[[Compacted], None] | None = None
    now_ms: Callable[[], int] = _now_ms
    patience_seconds: float = 30.0
    environ: Mapping[str, str] | None = None
    bound_thinking: bool | None = None
    media_limit_bytes: int = MEDIA_LIMIT_BYTES
    recovers: bool | None = None
    stops: bool = False

    def __post_init__(self) -> None:
        """Reject what is of a wrong kind, where it was written."""
        check_terms(self.model, self.window, self.policy)
        check_plugins(self.plugins)

    @property
    def terms(self) -> Terms:
        """The terms these settings amount to; raises `UsageError` where they name neither a model nor a window."""
        environ = os.environ if self.environ is None else self.environ
        terms = terms_for(
            self.model,
            self.window,
            self.policy,
            recall=self.recall,
            environ=environ,
            bound_thinking=self.bound_thinking,
        )
        return replace(
            terms,
            format=self.format,
            summarises=self.summariser is not None,
            summariser_tokens=self.summariser_tokens,
            shares_prefix=self.shares_prefix,
            has_hooks=bool(self.plugins),
            defers=self.background and self.summariser is not None,
            stops=self.stops,
            patience_seconds=self.patience_seconds,
            media_limit_bytes=self.media_limit_bytes,
            # A document says itself when to act; where that would be too late the upper bound steps in.
            recovers=bool(self.recovers) and terms.policy.usable == "scaled-reserve",
        )


def settings_from(
    process: Settings,
    *,
    model: str | None = None,
    agent: str | None = None,
    preset: str = "",
    window: int = 0,
    plugins: Sequence[object] = (),
) -> SessionSettings:
    """How a session is kept by the settings of the process, for that model and that agent.

    `preset` and `window` are what a command line says; it wins over the settings of that name and over nothing else.
    """
    terms = process.for_session(model=model, agent=agent, preset=preset, window=window)
    return SessionSettings(
        model=model or process.model,
        window=terms.window_tokens,
        policy=terms.policy,
        summariser=terms.summariser,
        background=terms.background,
        recall=False,
        plugins=plugins,
        environ=process.variables,
        media_limit_bytes=process.store_limits.media_bytes or 0,
        recovers=terms.recovers,
    )


def plugins_from(process: Settings) -> tuple[object, ...]:
    """The plugins that the settings of the process ask for; nothing is imported yet. Raises `UsageError` for an unknown name."""
    bundled = installed_plugins(["seven-sections"]) if process.plugins.seven_sections else ()
    return (*installed_plugins(process.plugins.enabled), *bundled)


class Place:
    """One session in a store, with those who are told and asked of it; raises `UsageError` for what is of a wrong kind."""

    def __init__(self, store: FullStore, key: SessionKey, settings: SessionSettings) -> None:
        check_store(store)
        if not isinstance(settings, SessionSettings):
            raise UsageError(f"the settings are {kind_of(settings)}; give SessionSettings(window=…) or the like")
        self.store = store
        self.key = key
        self.terms = settings.terms
        if not isinstance(store, MediaStore):
            self.terms = replace(self.terms, media_limit_bytes=0)
        self.bus = Bus()
        if settings.on_event is not None:
            self.bus.subscribe(Event, settings.on_event)
        if settings.on_compacted is not None:
            self.bus.on_compacted(settings.on_compacted)
        self._hooks = PluginHooks(settings.plugins, self.bus.observe) if settings.plugins else None

    def world(self, ask: Callable[[SummaryRequest], Told], fetch: Callable[[bool], Preparation | None]) -> World:
        """What sync flows of this session may touch."""
        return World(
            append=self._append,
            load=self.load,
            hold=lambda: self.store.hold(self.key),
            publish=self.bus.observe,
            consult=self._consult,
            announce=self._announce,
            keep_media=self._keep_media,
            read_media=self._read_media,
            ask=ask,
            fetch=fetch,
        )

    def async_world(
        self,
        ask: Callable[[SummaryRequest], Awaitable[Told]],
        fetch: Callable[[bool], Awaitable[Preparation | None]],
    ) -> AsyncWorld:
        """What async flows of this session may touch."""
        return AsyncWorld(
            append=self._append,
            load=self.load,
            hold=lambda: self.store.hold(self.key),
            publish=self.bus.observe,
            consult=self._consult,
            announce=self._announce,
            keep_media=self._keep_media,
            read_media=self._read_media,
            ask=ask,
            fetch=fetch,
        )

    def load(self) -> Log:
        """The session as its store has it."""
        return load(self.key.session_id, self.store.newest_first(self.key), self.terms.rendering)

    def progress(self, text: str) -> None:
        """Tell of a piece of a summary."""
        self.bus.observe(SummaryProgressed(self.key.session_id, text))

    def _append(self, entries: Sequence[Entry], expected: int) -> int:
        return self.store.append(self.key, entries, expected=expected)

    def _keep_media(self, media: Mapping[str, bytes]) -> None:
        if isinstance(self.store, MediaStore):
            self.store.keep_media(self.key, media)

    def _read_media(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        if not isinstance(self.store, MediaStore):
            return {}
        found = {digest: self.store.medium(self.key, digest) for digest in digests}
        return {digest: data for digest, data in found.items() if data is not None}

    def _consult(self, occasion: Occasion) -> Guidance:
        hooks = self._hooks
        if hooks is None:
            return Guidance()
        session_id = SessionId(self.key.session_id)
        return Guidance(hooks.additions(occasion), hooks.decide(occasion), hooks.may_continue(session_id))

    def _announce(self, checkpoint: Checkpoint) -> None:
        if self._hooks is not None:
            self._hooks.compacted(self.key.session_id, checkpoint)
