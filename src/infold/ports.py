"""The Protocols that infold needs of stores, models, plugins and clocks, and the values that pass through them.

An adapter implements them and imports only these names; `infold.testing` checks whether it does so correctly. Sessions
are scoped by tenant: every method takes a whole `SessionKey`, so that a call cannot name a session without its tenant.
"""

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from msgspec import Struct

from infold.core.entries import Checkpoint, Entry, Reason
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import Message, ModelRef, SessionId
from infold.core.recall import Document, Hit
from infold.core.summary_request import Additions, SummaryRequest
from infold.errors import UnusableKey, kind_of


class CompactionContext(Struct, frozen=True):
    """A compaction about to happen: the session, the reason, what would be folded and how full the window is.

    `head` are the messages to be folded, `first_kept` the number of the first message that stays (`None`: none does).
    `is_urgent`: the request would not fit without it. `focus` is what a person asked the summary to cover.
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
    """Do not compact now; the request is sent as it is, and an event reports why."""

    why: str


class Supply(Struct, frozen=True):
    """Use this summary and ask no model; it is judged like any other."""

    summary: str


class KeepFrom(Struct, frozen=True):
    """Cut before the message of this number, or before the nearest earlier one where a cut is legal."""

    sequence: int


Decision: TypeAlias = Veto | Supply | KeepFrom
"""What a plugin may return; `None` lets the compaction proceed as planned."""


LONGEST_KEY = 512
"""Characters of a tenant or a session id; hashes, UUIDs and paths are shorter, and an index entry must hold both."""


_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class SessionKey(Struct, frozen=True, order=True):
    """A session and its tenant: a keyed hash of a credential, or empty if there is one user.

    Raise `UnusableKey` for keys that a database cannot store: an empty id, control characters, very long text.
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
    """A session in a listing: its size in entries and stored bytes, and when it last grew."""

    key: SessionKey
    entries: int
    stored_bytes: int
    changed_ms: int


class Store(Protocol):
    """Stores logs: what a session needs."""

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append these entries, all or none, and return the number of the next one.

        `expected` is the number the writer expects for the first of them; raise `StoreConflict` if it is another, and
        `StoreBroken` if the store cannot write them. After it returns, the entries survive the end of the process.
        """
        ...

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Yield the numbered entries, newest first, from the one before `before` on; none for an unknown session.

        Read in pages on demand, with nothing locked between pages, so that a reader who stops early pays only for what
        was read.
        """
        ...

    def hold(self, key: SessionKey) -> AbstractContextManager[bool]:
        """Take the session's lock for a compaction; yield `False` at once if another thread or process has it.

        Released at the end of the block or of the process. It does not keep others from appending.
        """
        ...


class Archive(Protocol):
    """What an operator does with whole sessions. Deleting is the only destructive operation."""

    def tenants(self) -> Sequence[str]:
        """Return all tenants in order; for operators only."""
        ...

    def sessions(self, tenant: str) -> Iterator[StoredSession]:
        """Yield a tenant's sessions, the last changed first, read in pages."""
        ...

    def delete(self, key: SessionKey) -> None:
        """Delete a session and everything derived from it; raise `UnknownSession` if it does not exist."""
        ...

    def expire(self, older_than_ms: int) -> int:
        """Delete the sessions of all tenants that last changed longer ago than that; return how many."""
        ...

    def trim(self, max_bytes: int) -> int:
        """Delete the sessions changed longest ago until the others hold at most that many bytes; return how many."""
        ...


class Finder(Protocol):
    """Search in what was pruned or folded."""

    def search(self, key: SessionKey, query: str, *, most: int) -> Sequence[Hit]:
        """Return the passages of all parts that answer a query best, as `core.recall.Index` ranks them, of equals the newest
        first."""
        ...

    def read(self, key: SessionKey, handle: str) -> Document:
        """Return a part with the call it answers; raise `UnknownReference` if it has no text."""
        ...


@runtime_checkable
class MediaStore(Protocol):
    """Stores the bytes of media, which the log only names, for each session."""

    def keep_media(self, key: SessionKey, media: Mapping[str, bytes]) -> None:
        """Store these bytes under their digests, each once; create the session if necessary.

        They count as bytes of the session and are deleted with it. Raise `StoreBroken` if the store cannot write them.
        """
        ...

    def medium(self, key: SessionKey, digest: str) -> bytes | None:
        """Return the bytes that this session has under a digest, or `None`."""
        ...


@runtime_checkable
class FactStore(Protocol):
    """Remembers what a provider showed about an account, for all sessions and processes; not deleted with any session."""

    def remember(self, account: str, fact: str) -> None:
        """Remember a fact about an account, which is stored as a keyed hash; raise `StoreBroken` if that fails."""
        ...

    def remembers(self, account: str, fact: str) -> bool:
        """Return whether this was remembered of this account."""
        ...


class FullStore(Store, Archive, Finder, Protocol):
    """All three; what infold's own stores are. They are a `MediaStore` and a `FactStore` too, which another need not be."""


class OpenedStore(FullStore, Protocol):
    """A store as `open_store` returns it: closed at the end of a `with` block, or by `close`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Finish pending writes and release files and connections; a second call does nothing."""
        ...


class FileDiff(Struct, frozen=True):
    """One file's difference; contents are empty if the file did not exist or is not text."""

    file: str
    before: str = ""
    after: str = ""
    additions: int = 0
    deletions: int = 0


class Clock(Protocol):
    """The current time."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        ...


class Hooks(Protocol):
    """Plugins' answers about a compaction; the implementation skips a plugin that raises."""

    def additions(self, occasion: CompactionContext) -> Additions:
        """Return contexts and a replacement prompt for the summariser's instruction (*session.compacting*)."""
        ...

    def decide(self, occasion: CompactionContext) -> Decision | None:
        """Return a veto, a summary or another cut from the first plugin that has one, or `None`."""
        ...

    def compacted(self, session_id: SessionId, checkpoint: Checkpoint) -> None:
        """Report a committed compaction."""
        ...

    def may_continue(self, session_id: SessionId) -> bool:
        """Return whether a synthetic message may ask the model to continue after an automatic compaction."""
        ...


class ToolSpec(Struct, frozen=True):
    """A tool as it is described to a model; `parameters` is the JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(Struct, frozen=True):
    """A request to a model: messages in its wire format, system prompt, tools, and the maximum output.

    `output_tokens` 0 leaves that to the model. `betas` are named in a header, by providers that have one for it.
    """

    messages: list[object]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_tokens: int = 0
    betas: tuple[str, ...] = ()


class Said(Struct, frozen=True):
    """A piece of a reply's text."""

    text: str


class Thought(Struct, frozen=True):
    """A piece of a reply's reasoning."""

    text: str


class Calling(Struct, frozen=True):
    """The reply has begun to write a call of that tool."""

    tool: str


class Replied(Struct, frozen=True):
    """The whole reply, as the provider returns it without streaming: what `Session.record` takes."""

    body: dict[str, Any]


Heard: TypeAlias = Said | Thought | Calling | Replied
"""What a model streams."""


class Model(Protocol):
    """A model that answers requests."""

    @property
    def ref(self) -> ModelRef:
        """Which model, at which provider."""
        ...

    @property
    def format(self) -> str:
        """The name of its wire format."""
        ...

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Send a request and yield the reply piece by piece; the last piece is the one `Replied`.

        Closing the iterator cancels the request. Raise `ModelError`: `ModelOverflow` if the request is too large,
        `ModelBusy` if the same request may succeed later.
        """
        ...

    def summarise(self, request: SummaryRequest) -> Iterator[str | ModelAnswer]:
        """Write a summary piece by piece, and yield the whole with usage and cost at the end; raise `ModelError`.

        A request with `is_native` is answered by the provider's own compaction, if `offers_native` is true of the model.
        """
        ...


SummariserOutput: TypeAlias = str | Answer | ModelAnswer
"""A summary: its text, with its finish reason, or also with usage and cost."""

Summariser: TypeAlias = Callable[[SummaryRequest], SummariserOutput | Iterable[SummariserOutput]]
"""Any callable that turns a summary request into text, at once or in pieces; what it raises counts as the model's
failure."""

AsyncSummariser: TypeAlias = (
    Callable[[SummaryRequest], Awaitable[SummariserOutput]]
    | Callable[[SummaryRequest], AsyncIterable[SummariserOutput]]
    | Summariser
)
"""The same for async callers: awaited or iterated; a plain function runs in a thread."""
