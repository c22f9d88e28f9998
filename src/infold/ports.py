"""What the shell needs of the world, as Protocols of a few methods each, and the values that pass through them.

An adapter implements them without importing anything but these names; `infold.testing` says whether it does so
rightly. What a store keeps is scoped by tenant (B28): every method takes a whole `SessionKey`, so that no call can name a
session without saying whose it is.
"""

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from msgspec import Struct

from infold.core.entries import Checkpoint, Entry, Handle, Reason
from infold.core.events import Event
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import Message, ModelRef, SessionId
from infold.core.recall import Document
from infold.core.summary_request import Additions, SummaryRequest
from infold.errors import UnusableKey, kind_of


class CompactionContext(Struct, frozen=True):
    """A compaction about to happen: of which session, why, what would be folded and how full the window is.

    `head` are the messages to be folded, `first_kept` the number of the first message that stays (none: nothing does).
    `is_urgent`: the request would not fit without it. `focus` is what a person asked the summary to give room to.
    """

    session_id: SessionId
    reason: Reason
    head: tuple[Message, ...]
    first_kept: int | None
    tokens_before: int
    usable_tokens: int
    is_urgent: bool = False
    focus: str = ""


class Veto(Struct, frozen=True):
    """Do not compact now; the request goes out as it stands, and an event says why."""

    why: str


class Supply(Struct, frozen=True):
    """Use this summary and ask no model; it is judged like any other."""

    summary: str


class KeepFrom(Struct, frozen=True):
    """Cut before the message of this number, or before the nearest earlier one where a cut is legal."""

    sequence: int


Decision: TypeAlias = Veto | Supply | KeepFrom
"""What a plugin may say; saying nothing lets the compaction go on as planned."""


LONGEST_KEY = 512
"""Characters of a tenant or a session id; hashes, UUIDs and paths are shorter, and an index entry must hold both."""


_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class SessionKey(Struct, frozen=True, order=True):
    """Which session, and whose: the tenant is a keyed hash of a credential, or empty where there is one user.

    Raises `UnusableKey` for what no database could keep apart: an empty id, control characters, endless text.
    """

    tenant: str
    session_id: SessionId

    def __post_init__(self) -> None:
        for name, text in (("tenant", self.tenant), ("session id", self.session_id)):
            if not isinstance(text, str):
                raise UnusableKey(name, f"is {kind_of(text)}, not text")
        if not self.session_id:
            raise UnusableKey("session id", "is empty")
        for name, text in (("tenant", self.tenant), ("session id", self.session_id)):
            if len(text) > LONGEST_KEY:
                raise UnusableKey(name, f"has {len(text):,} characters, more than {LONGEST_KEY}")
            if _UNUSABLE.search(text):
                raise UnusableKey(name, "holds control characters or half a surrogate pair")


class StoredSession(Struct, frozen=True):
    """What a listing tells of a session: its size in entries and stored bytes, and when it last grew."""

    key: SessionKey
    entries: int
    stored_bytes: int
    changed_ms: int


class Found(Struct, frozen=True):
    """A part that holds some of the tokens asked for; the score grows with how many and how rare they are."""

    handle: Handle
    score: float


class Store(Protocol):
    """Keeps logs: the three things an engine does with a session."""

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append these entries, all or none, and give the number the next one will have.

        `expected` is the number the writer believes the first of them gets; raises `StoreConflict` if it is another,
        and `StoreBroken` if the store cannot keep them. When it returns, the entries survive the end of the process.
        """
        ...

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The numbered entries, newest first, from the one before `before` on; nothing for a session that is not there.

        Read in pages as they are asked for, with nothing locked between pages, so that a reader who stops early pays for
        what was read (S4.1).
        """
        ...

    def hold(self, key: SessionKey) -> AbstractContextManager[bool]:
        """Take the session's lock for a compaction; gives false, at once, while another thread or process has it.

        Given back at the end of the block or of the process. It does not keep others from appending.
        """
        ...


@runtime_checkable
class Deferring(Protocol):
    """A store that writes in a thread of its own, so that a caller on an event loop need not lend it another."""

    def append_soon(self, key: SessionKey, entries: Sequence[Entry], expected: int) -> Future[int]:
        """What `append` would give, when it is done."""
        ...


class Archive(Protocol):
    """What an operator does with whole sessions. Deleting is the one destructive act (B27)."""

    def tenants(self) -> Sequence[str]:
        """Whose sessions there are, in order; for an operator's eyes only (B28)."""
        ...

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """A tenant's sessions, the last changed first, read in pages."""
        ...

    def delete(self, key: SessionKey) -> None:
        """Remove a session and everything that was made of it; raises `UnknownSession` if there is none."""
        ...

    def expire(self, older_than_ms: int) -> int:
        """Delete the sessions of all tenants that last changed longer ago than that; gives how many."""
        ...

    def trim(self, max_bytes: int) -> int:
        """Delete the sessions changed longest ago until all others hold at most that many bytes; gives how many."""
        ...


class Finder(Protocol):
    """Recall's way to what was pruned or folded (B6)."""

    def search(self, key: SessionKey, tokens: Sequence[str], *, most: int) -> Sequence[Found]:
        """The parts that hold any of these tokens (of `core.recall.tokens_of`), best first, of equals the newest."""
        ...

    def read(self, key: SessionKey, handle: str) -> Document:
        """A part as it was said, under the call it answers; raises `UnknownReference` if there is no text under it."""
        ...


@runtime_checkable
class MediaStore(Protocol):
    """Keeps the bytes of media, which the log only names, for each session apart."""

    def keep_media(self, key: SessionKey, media: Mapping[str, bytes]) -> None:
        """Keep these bytes under their digests, each once; begins the session if there is none yet.

        They count as bytes of the session and go with it. Raises `StoreBroken` if the store cannot keep them.
        """
        ...

    def medium(self, key: SessionKey, digest: str) -> bytes | None:
        """Return the bytes that this session has under a digest; `None` if it has none."""
        ...


class FullStore(Store, Archive, Finder, Protocol):
    """What infold's own stores are: all three. They are a `MediaStore` too, which another store need not be."""


class OpenedStore(FullStore, Protocol):
    """A store as `open_store` gives it: closed at the end of a `with` block, or by hand, whatever place it is at."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Finish what was asked and give back what the store holds of files and connections; a second time does nothing."""
        ...


class Clock(Protocol):
    """What time it is."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...


class Hooks(Protocol):
    """What plugins have to say about a compaction; a plugin that raises is passed over by whoever implements this."""

    def additions(self, occasion: CompactionContext) -> Additions:
        """Contexts and a replacement prompt for the summariser's instruction (*session.compacting*, S3.5)."""
        ...

    def decide(self, occasion: CompactionContext) -> Decision | None:
        """A veto, a summary or another cut, from the first plugin that has one; none lets the compaction go on."""
        ...

    def compacted(self, session_id: SessionId, checkpoint: Checkpoint) -> None:
        """Hear that a compaction was committed."""
        ...

    def may_continue(self, session_id: SessionId) -> bool:
        """Whether a synthetic message may ask the model to go on after an automatic compaction (B21)."""
        ...


class Observer(Protocol):
    """Somebody who is told what happened."""

    def observe(self, event: Event) -> None:
        """Hear of one event; must neither raise nor take long."""
        ...


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(Struct, frozen=True):
    """What a model is asked: messages in its wire format, what is sent beside them, and the most it may answer with.

    `output_tokens` 0 leaves that to the model.
    """

    messages: list[object]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_tokens: int = 0


class Said(Struct, frozen=True):
    """A piece of a reply's text."""

    text: str


class Thought(Struct, frozen=True):
    """A piece of a reply's reasoning."""

    text: str


class Calling(Struct, frozen=True):
    """A reply has begun to write a call of that tool."""

    tool: str


class Replied(Struct, frozen=True):
    """The whole reply, as the provider gives it without streaming: what `Session.record` takes."""

    body: dict[str, Any]


Heard: TypeAlias = Said | Thought | Calling | Replied
"""What comes from a model that is answering."""


class Model(Protocol):
    """Something that answers."""

    @property
    def ref(self) -> ModelRef:
        """Which model, at which provider."""
        ...

    @property
    def format(self) -> str:
        """The name of the wire format it speaks."""
        ...

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Ask, and give the reply piece by piece; the last piece is the whole, and there is exactly one `Replied`.

        Closing the iterator breaks the request off. Raises `ModelError`: `ModelOverflow` where the request is too large,
        `ModelBusy` where the same request may succeed later.
        """
        ...

    def summarise(self, request: SummaryRequest) -> Iterator[str | ModelAnswer]:
        """Write a summary piece by piece, and in the end tell all of it with usage and cost (S3.10); raises `ModelError`."""
        ...


SummariserOutput: TypeAlias = str | Answer | ModelAnswer
"""A summary: its text, with how it ended, or also with usage and cost."""

Summariser: TypeAlias = Callable[[SummaryRequest], SummariserOutput | Iterable[SummariserOutput]]
"""Any callable that turns a request for a summary into text, at once or in pieces; what it raises is the model's failure."""

AsyncSummariser: TypeAlias = (
    Callable[[SummaryRequest], Awaitable[SummariserOutput]]
    | Callable[[SummaryRequest], AsyncIterable[SummariserOutput]]
    | Summariser
)
"""The same for async callers: awaited, or iterated; a plain function runs in a thread."""
