"""What a user does to a session on the page: compact, undo, pin. The next request of its client finds it done."""

from msgspec.structs import replace

from infold.catalogue import Prices, lookup
from infold.core.budget import Window, budget_for
from infold.core.messages import ModelRef
from infold.core.policy import Policy
from infold.errors import PolicyError, UnknownSession
from infold.gateway.tenants import TenantSessions
from infold.ports import SessionKey
from infold.reports.stored_log import RecordedModel, recorded_model
from infold.session.compaction import Preview
from infold.session.session import Session
from infold.session.settings import SessionSettings

FORMAT = "openai-chat"
"""Any format will do, since nothing is sent from here."""


class SessionActions:
    """Acts on stored sessions; summaries are written by the configured model or by code, without a client's credential."""

    def __init__(self, sessions: TenantSessions) -> None:
        self._sessions = sessions

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> bool:
        """Compact a session now; return whether anything was done."""
        ready = await self._sessions.threads.prepare(lambda: self._open(key).compact(focus, up_to=up_to))
        return bool(ready.events)

    async def undo(self, key: SessionKey, sequence: int | None) -> None:
        """Undo its newest compaction, or the entry of that number."""
        await self._sessions.threads.prepare(lambda: self._open(key).undo(sequence))

    async def pin(self, key: SessionKey, handle: str, pinned: bool) -> None:
        """Pin a part or release it."""

        def pin() -> None:
            session = self._open(key)
            (session.pin if pinned else session.unpin)(handle)

        await self._sessions.threads.prepare(pin)

    async def preview(self, key: SessionKey, up_to: int | None) -> Preview:
        """Return what compacting would do, without doing it."""
        return await self._sessions.threads.prepare(lambda: self._open(key).preview(up_to=up_to))

    def window_of(self, key: SessionKey) -> int | None:
        """Return the window that the newest reply was requested with, or that of its model; `None` if neither is known."""
        last = self._recorded(key)
        if last.window_tokens or not last.id:
            return last.window_tokens or None
        return self._sessions.settings_for(last.id).resolve().window.context_tokens

    def working_window_of(self, key: SessionKey) -> int | None:
        """Return the working window set for the model of a session; `None` if none is set."""
        settings = self._sessions.settings_for(self._recorded(key).id)
        if isinstance(settings.policy, Policy):
            return settings.policy.working_window_tokens
        return settings.working_window if isinstance(settings.working_window, int) else None

    def usable_tokens(self, model: str, window_tokens: int) -> int:
        """Return how much of a model's window of that size infold fills: without the room for the reply, and at most the
        working window."""
        settings = self._recorded_settings(RecordedModel(ModelRef("", model), window_tokens)).resolve()
        try:
            return budget_for(settings.window, settings.policy).usable_tokens
        except PolicyError:  # the settings contradict this window; requests report it
            return window_tokens

    def prices_of(self, model: str) -> Prices | None:
        """Return the prices of a model, stated in the settings or from the catalogue; `None` if they are not known."""
        return self._sessions.settings_for(model).resolve().prices if model else None

    def summarises(self, key: SessionKey) -> bool:
        """Whether a configured model writes the summaries of a session."""
        return self._sessions.settings_for(self._recorded(key).id).summariser is not None

    def _open(self, key: SessionKey) -> Session:
        settings = self._recorded_settings(self._recorded(key), key.tenant)
        recovers = settings.recovers is not False  # its requests come through the gateway
        session = Session(
            self._sessions.store,
            key.session_id,
            replace(settings, format=FORMAT, background=False, recovers=recovers),
            tenant=key.tenant,
        )
        if session.log.next_sequence == 0:
            raise UnknownSession(key.session_id)
        return session

    def _recorded_settings(self, last: RecordedModel, tenant: str | None = None) -> SessionSettings:
        """Return the settings of a session whose last reply came from that model, in that window.

        The recorded window wins over a stated one, which counts for the requests that this gateway manages from now on.
        """
        settings, entry = self._sessions.settings_for(last.id, tenant), lookup(last.id).entry
        if not last.window_tokens:
            return replace(settings, window=settings.window or entry.context_tokens)
        policy = settings.policy
        if isinstance(policy, Policy) and policy.usable == "scaled-reserve":
            policy = replace(policy, window_tokens=None)
        own = Window(entry.context_tokens, entry.input_tokens, entry.output_tokens)
        is_own = last.window_tokens == own.context_tokens
        return replace(settings, window=own if is_own else last.window_tokens, policy=policy)

    def _recorded(self, key: SessionKey) -> RecordedModel:
        return recorded_model(self._sessions.store, key)
