"""What a person does to a session from the page: compact, undo, pin. The next request of its client finds it done."""

from asyncio import to_thread

from msgspec.structs import replace

from infold.api.async_session import AsyncSession
from infold.catalogue import lookup
from infold.core.entries import MessageEntry
from infold.core.messages import AssistantMessage
from infold.engine.previewing import Preview
from infold.errors import UnknownSession
from infold.gateway.tenancy import Tenancy
from infold.ports import SessionKey

__all__ = ["SessionActs"]

FORMAT = "openai-chat"
"""A session is not sent anywhere from here, so any format will do."""

MOST_READ = 50
"""Entries that are looked at for the model a session speaks with."""


class SessionActs:
    """Acts on sessions in the store; summaries are by the configured model or by code, for no client's credential is at hand."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> None:
        """Compact a session now."""
        await (await self._opened(key)).compact(focus, up_to=up_to)

    async def undo(self, key: SessionKey, sequence: int | None) -> None:
        """Undo its newest compaction, or what that entry hid."""
        await (await self._opened(key)).undo(sequence)

    async def pin(self, key: SessionKey, handle: str, pinned: bool) -> None:
        """Pin a part or release it."""
        session = await self._opened(key)
        await (session.pin(handle) if pinned else session.unpin(handle))

    async def preview(self, key: SessionKey, up_to: int | None) -> Preview:
        """What compacting would do; nothing is changed."""
        session = await self._opened(key)
        return await to_thread(lambda: session.preview(up_to=up_to))

    def window_of(self, key: SessionKey) -> int | None:
        """The window of the model that a session speaks with; none where nobody has said which it is."""
        model = self._model_of(key)
        return self._tenancy.settings_for(model).terms.window.context_tokens if model else None

    async def _opened(self, key: SessionKey) -> AsyncSession:
        model = await to_thread(self._model_of, key)
        settings = self._tenancy.settings_for(model)
        window = settings.window or lookup(model).entry.context_tokens
        session = await AsyncSession.open(
            self._tenancy.store,
            key.session_id,
            replace(settings, window=window, format=FORMAT, background=False),
            tenant=key.tenant,
        )
        if session.log.next_sequence == 0:
            raise UnknownSession(key.session_id)
        return session

    def _model_of(self, key: SessionKey) -> str:
        """The model that answered last."""
        for number, (_, entry) in enumerate(self._tenancy.store.newest_first(key)):
            reply = entry.message if isinstance(entry, MessageEntry) else None
            if isinstance(reply, AssistantMessage) and reply.model is not None:
                return reply.model.id
            if number >= MOST_READ:
                break
        return ""
