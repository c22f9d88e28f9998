"""What a person does to a session from the page: compact, undo, pin. The next request of its client finds it done."""

from asyncio import to_thread
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue import lookup
from infold.core.entries import MessageEntry
from infold.core.messages import AssistantMessage
from infold.errors import UnknownSession
from infold.gateway.tenancy import Tenancy
from infold.ports import SessionKey
from infold.session.async_session import AsyncSession
from infold.session.compaction import Preview

FORMAT = "openai-chat"
"""A session is not sent anywhere from here, so any format will do."""

MOST_READ = 50
"""Entries that are looked at for the model a session speaks with."""


class _Spoken(Struct, frozen=True):
    """The model that a session speaks with, and the window its newest reply was made for; empty and 0 where nobody said so."""

    model: str = ""
    window_tokens: int = 0


class SessionActs:
    """Acts on sessions in the store; summaries are by the configured model or by code, for no client's credential is at hand."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> bool:
        """Compact a session now; whether anything was done."""
        session = await self._opened(key)
        return bool((await session.compact(focus, up_to=up_to)).events)

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
        """The window that the newest reply was made for, or that of its model; none where nobody has said which it is."""
        spoken = self._spoken(key)
        if spoken.window_tokens or not spoken.model:
            return spoken.window_tokens or None
        return self._tenancy.settings_for(spoken.model).resolve().window.context_tokens

    def summarises(self, key: SessionKey) -> bool:
        """Whether a configured model writes the summaries of a session."""
        return self._tenancy.settings_for(self._spoken(key).model).summariser is not None

    async def _opened(self, key: SessionKey) -> AsyncSession:
        spoken = await to_thread(self._spoken, key)
        settings = self._tenancy.settings_for(spoken.model, key.tenant)
        window = settings.window or spoken.window_tokens or lookup(spoken.model).entry.context_tokens
        recovers = settings.recovers is not False  # its requests come through the gateway
        session = await AsyncSession.open(
            self._tenancy.store,
            key.session_id,
            replace(settings, window=window, format=FORMAT, background=False, recovers=recovers),
            tenant=key.tenant,
        )
        if session.log.next_sequence == 0:
            raise UnknownSession(key.session_id)
        return session

    def _spoken(self, key: SessionKey) -> _Spoken:
        """Who answered last."""
        for _, entry in islice(self._tenancy.store.newest_first(key), MOST_READ):
            reply = entry.message if isinstance(entry, MessageEntry) else None
            if isinstance(reply, AssistantMessage) and (reply.model is not None or reply.window_tokens):
                return _Spoken("" if reply.model is None else reply.model.id, reply.window_tokens)
        return _Spoken()
