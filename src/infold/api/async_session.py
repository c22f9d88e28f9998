"""The session handler for async callers: the same flows as `Session`, awaited; the store works in a thread beside the loop."""

from asyncio import Lock, to_thread
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from infold.api import checking
from infold.api.session_settings import Place, SessionSettings
from infold.core.judge import Told
from infold.core.log import Log
from infold.core.messages import FilePart, Message, SessionId
from infold.core.policy import Policy
from infold.core.summary_request import SummaryRequest
from infold.engine.ahead import Preparation, mark_of, told_of, written_ahead
from infold.engine.asking import AsyncSummariser, ask_async, asking_for, check_not_asking
from infold.engine.background import AsyncShelf
from infold.engine.call import Flow
from infold.engine.circumstances import Stamp
from infold.engine.drive import AsyncWorld, drive_async
from infold.engine.history import Followed
from infold.engine.keeper import Keeper, Ready
from infold.engine.previewing import Preview
from infold.engine.refusals import overflow_of
from infold.engine.summarising import SummaryPlan, ask_for_notes
from infold.errors import UsageError
from infold.observers.bus import Bus
from infold.ports import Deferring, FullStore, SessionKey
from infold.session.media import Medium
from infold.session.recall import files_at, recall, recall_media
from infold.wiring import summariser_for

Outcome = TypeVar("Outcome")


class AsyncSession:
    """One session in a store, for one event loop; `await AsyncSession.open(…)` reads it."""

    def __init__(self, place: Place, settings: SessionSettings, log: Log) -> None:
        if not isinstance(place, Place):
            raise UsageError("an AsyncSession is opened: await AsyncSession.open(store, session_id, settings)")
        self._place = place
        self._settings = settings
        self._summariser: AsyncSummariser | None = summariser_for(settings.summariser)
        self._keeper = Keeper(log, place.terms, settings.now_ms)
        self._shelf = AsyncShelf(max(settings.patience_seconds, settings.summary_seconds or 0.0))
        self._turn = Lock()
        self._ahead_end = -1

    @classmethod
    async def open(
        cls, store: FullStore, session_id: str, settings: SessionSettings, *, tenant: str = ""
    ) -> "AsyncSession":
        """The session of that id, begun or gone on with."""
        place = Place(store, SessionKey(tenant, SessionId(session_id)), settings)
        return cls(place, settings, await to_thread(place.load))

    async def close(self) -> None:
        """Give up a summary that is being written in the background; the session itself needs no closing."""
        await self._shelf.close()

    def cancel_ahead(self) -> None:
        """Give up a summary that is being written in the background, or waits to be used."""
        self._shelf.cancel()

    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def log(self) -> Log:
        """The session as it stands, for whoever wants to look."""
        return self._keeper.log

    @property
    def window_tokens(self) -> int:
        """The model's window as it is known by now; 0 where it was declared to have no limit."""
        return self._keeper.window_tokens

    @property
    def limit_tokens(self) -> int:
        """The most that the next request may be, as far as it is known by now; 0 where the window has no limit."""
        return self._keeper.limit_tokens

    @property
    def policy(self) -> Policy:
        """The policy the session is kept by."""
        return self._place.terms.policy

    @property
    def bus(self) -> Bus:
        """Where to subscribe to what happens in this session."""
        return self._place.bus

    async def prepare(
        self, messages: Sequence[object], *, system: object = None, tools: object = None, output_tokens: int = 0
    ) -> Ready:
        """Make the next request fit, given the whole list of messages; raises `WindowExceeded` where none can.

        `system` and `tools` are what is sent beside them, `output_tokens` what the request asks to be answered with at most.

        The list must begin with what was folded; infold notices a change there and raises `HistoryChanged`. What changed after
        that is taken back and replaced.
        """
        return await self._drive(self._keeper.prepare(messages, checking.beside(system, tools, output_tokens)))

    async def prepare_new(
        self, messages: Sequence[object], *, system: object = None, tools: object = None, output_tokens: int = 0
    ) -> Ready:
        """Make the next request fit, given only the messages that are new."""
        return await self._drive(self._keeper.prepare_new(messages, checking.beside(system, tools, output_tokens)))

    async def record(self, reply: object, stamp: Stamp | None = None) -> None:
        """Take in a provider's reply (its body or SDK object): what was said, the usage, and why it ended.

        `stamp` is for an agent that knows more of the reply than the wire tells.
        """
        await self._drive(self._keeper.record(reply, stamp))

    async def add(self, messages: Sequence[Message], *, longest_tokens: int = 0) -> None:
        """Store infold's own messages (`core.messages`) at once; what is not from a wire needs no format.

        Results longer than `longest_tokens` are shown shortened from the first, and recalled whole.
        """
        await self._drive(self._keeper.add(messages, longest_tokens=longest_tokens))

    async def recover(self, error: object) -> Ready | None:
        """Change the request that a provider refused, for one more try: smaller, or without thinking.

        `error` is the SDK's exception or the body of the refusal. Return `None` if it is about something else than the request's
        size or thinking bound to another conversation. Raises `WindowExceeded` where nothing more can be left out, or at the
        second refusal in a row.
        """
        overflow = overflow_of(error)
        if overflow is None:
            return None
        if overflow.bound_thinking:
            return await self._drive(self._keeper.recover_thinking())
        return await self._drive(self._keeper.recover(overflow))

    async def compact(self, focus: str = "", *, up_to: int | None = None) -> Ready:
        """Compact now, whatever there is, with what the summary should give room to.

        `up_to` is the number of the first message to keep, as in its handle: 42 for `42.1`.
        """
        return await self._drive(self._keeper.compact(checking.text("focus", focus, example="the open bugs"), up_to))

    def match(self, messages: Sequence[object]) -> Followed | None:
        """How a whole list of messages goes with this session; none where it is another's."""
        return self._keeper.match(messages)

    def encode(self, messages: Sequence[Message]) -> list[Any]:
        """Messages of the view in the caller's shape, as the next request would have them."""
        return self._keeper.encode(messages)

    def preview(self, *, up_to: int | None = None) -> Preview:
        """What `compact` would fold, by code alone; changes nothing and asks no model."""
        return self._keeper.preview(up_to)

    async def undo(self, sequence: int | None = None) -> None:
        """Undo the newest compaction, or the pruning of that number: everything it hid is in the view again."""
        await self._drive(self._keeper.undo(sequence))

    async def pin(self, handle: str) -> None:
        """Pin a part of the view by its handle: it is never pruned, and a fold quotes it word for word."""
        await self._drive(self._keeper.pin(checking.text("handle", handle, example="12.0")))

    async def unpin(self, handle: str) -> None:
        """Release a pinned part."""
        await self._drive(self._keeper.pin(checking.text("handle", handle, example="12.0"), pinned=False))

    async def title(self, text: str, *, message_id: str = "") -> None:
        """Give the session a title, or one of its user messages; the last one counts."""
        named = checking.text("message id", message_id, example="m0")
        await self._drive(self._keeper.title(checking.text("title", text, example="Port the feed"), named))

    async def recall(self, query: str, *, budget_tokens: int = 2_000) -> str:
        """Bring back what was said or done, by words or by the handles that stubs name, in at most that many tokens.

        Pruned and folded parts are found like those in view. Raises `UnknownReference` for a handle that names nothing.
        """
        rule, query = self._place.terms.rendering.estimate, checking.text("query", query, example="the feed")
        budget_tokens = checking.whole("budget_tokens", budget_tokens)
        place = self._place
        return await to_thread(recall, place.store, place.key, query, budget_tokens=budget_tokens, rule=rule)

    async def media(self, handle: str) -> tuple[Medium, ...]:
        """Return the images, documents and sound under a handle with their bytes, folded or not.

        Raises `UnknownReference` for a handle that names no medium, or one that is not stored (`media_limit_bytes`).
        """
        handle = checking.text("handle", handle, example="12.0")
        return await to_thread(recall_media, self._place.store, self._place.key, handle)

    async def files(self, handle: str) -> tuple[FilePart, ...]:
        """Return what is known of the media under a handle, without their bytes; nothing where it names none."""
        return await to_thread(files_at, self._place.store, self._place.key, handle)

    # How it is done.

    async def _drive(self, flow: Flow[Outcome]) -> Outcome:
        check_not_asking(self)
        async with self._turn:
            outcome = await drive_async(flow, self._world())
            self._go_ahead()
        return outcome

    def _world(self) -> AsyncWorld:
        """What the flows act on; made for each, for a session that held it would hold itself and be freed late."""
        return _at_once(self._place, self._place.async_world(self._ask, self._fetch))

    def _go_ahead(self) -> None:
        """Begin the summary that will soon be needed; cancel one whose head the caller took back, as in compacting it."""
        log, plan = self._keeper.log, self._keeper.wanted
        taken_back, self._keeper.taken_back = self._keeper.taken_back, None
        if taken_back is not None and taken_back <= self._ahead_end:
            self._shelf.cancel()
        if plan is not None:
            self._keeper.wanted = None
            self._ahead_end = mark_of(log, plan.step, plan.situation.policy).last
            self._shelf.begin(log.checkpoint_sequence, lambda: self._prepared(log, plan))

    async def _fetch(self, wait: bool) -> Preparation | None:
        """What another writer's speed left over, or what was written in the background."""
        left, self._keeper.outrun = self._keeper.outrun, None
        return left or await self._shelf.fetch(wait)

    async def _prepared(self, log: Log, plan: SummaryPlan) -> Preparation:
        notes = await drive_async(ask_for_notes(log, plan), self._world())
        for event in told_of(notes, log.session_id):
            self.bus.observe(event)
        return written_ahead(log, plan.step, plan.situation.policy, notes)

    async def _ask(self, request: SummaryRequest) -> Told:
        assert self._summariser is not None
        seconds = self._settings.summary_seconds
        with asking_for(self):
            return await ask_async(self._summariser, request, self._place.progress, seconds=seconds)


def _at_once(place: Place, world: AsyncWorld) -> AsyncWorld:
    """The world of a session whose store may be able to tell later that something was appended."""
    if not isinstance(place.store, Deferring):
        return world
    return replace(world, append_soon=partial(place.store.append_soon, place.key))
