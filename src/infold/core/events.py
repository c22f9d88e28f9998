"""Facts for observers, in the past tense (B22). An event tells what was done; it never asks for anything."""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.entries import Handle, Reason


class Pruned(Struct, frozen=True, tag_field="event", tag="pruned"):
    """Old tool results or call arguments became stubs; `uncached_tokens` is what of the next request no cache holds.

    `outdated_thinking` counts the messages whose thinking left the view with it, because the model binds thinking to what
    stands before it.
    """

    session_id: str
    targets: tuple[Handle, ...]
    freed_tokens: int
    tokens_before: int
    tokens_after: int
    reason: Reason
    uncached_tokens: int = 0
    outdated_thinking: int = 0


class Clipped(Struct, frozen=True, tag_field="event", tag="clipped"):
    """Parts too large for the window were shortened; `uncached_tokens` and `outdated_thinking` as for a pruning."""

    session_id: str
    targets: tuple[Handle, ...]
    tokens_before: int
    tokens_after: int
    reason: Reason
    uncached_tokens: int = 0
    outdated_thinking: int = 0


class Compacted(Struct, frozen=True, tag_field="event", tag="session.compacted"):
    """The head of a session was folded (S3.7); `summariser` names the model, or is empty where code alone did it.

    `uncached_tokens` is what of the next request no cache holds; `ahead` says that the summary was prepared in the
    background; `faults` are what the judge repaired or what made it reject the model's summary; `outdated_thinking` as for a
    pruning. `saving` is what a fold for its price is expected to save over the calls to come, in US dollars.
    `error` is the model's own error where it failed. `safety` names what infold did that the policy's document does not
    have (see `Checkpoint`).
    """

    session_id: str
    folded_messages: int
    tokens_before: int
    tokens_after: int
    reason: Reason
    summariser: str = ""
    cost: float = 0.0
    duration_ms: int = 0
    uncached_tokens: int = 0
    ahead: bool = False
    faults: tuple[str, ...] = ()
    outdated_thinking: int = 0
    saving: float = 0.0
    error: str = ""
    safety: tuple[str, ...] = ()

    @property
    def outcome(self) -> Literal["summarised", "folded"]:
        """Whether a model's summary stands for the head, or what code alone could tell."""
        return "summarised" if self.summariser else "folded"

    @property
    def ratio(self) -> float:
        """What part of the view is left."""
        return self.tokens_after / self.tokens_before if self.tokens_before else 1.0


class InstructionStubbed(Struct, frozen=True, tag_field="event", tag="instruction-stubbed"):
    """Instructions of the user no longer fitted verbatim: each stands as a one-line stub, or has no room even for that (B2)."""

    session_id: str
    handles: tuple[str, ...]


class Exceeded(Struct, frozen=True, tag_field="event", tag="window-exceeded"):
    """Nothing more can be hidden and the view still does not fit (B9)."""

    session_id: str
    floor_tokens: int
    usable_tokens: int


class StubRepeated(Struct, frozen=True, tag_field="event", tag="stub-repeated"):
    """A reply wrote the text of a stub as if it were content; whoever acts on it would write the stub to a file (B24)."""

    session_id: str
    message_id: str


class SummaryRejected(Struct, frozen=True, tag_field="event", tag="summary-rejected"):
    """A model's summary could not be used: its faults, one for each try, and the model's own error where it failed.

    `error` has the status and message of the last failure, without secrets.
    """

    session_id: str
    faults: tuple[str, ...]
    error: str = ""


class SummariserPaused(Struct, frozen=True, tag_field="event", tag="summariser-paused"):
    """Summaries failed in so many compactions in a row: code alone folds for `seconds`, then the summariser is asked again."""

    session_id: str
    failures: int
    seconds: int


class SummariserResumed(Struct, frozen=True, tag_field="event", tag="summariser-resumed"):
    """A summariser that was left alone after so many failed compactions is asked again."""

    session_id: str
    failures: int


class SummaryProgressed(Struct, frozen=True, tag_field="event", tag="summary-progressed"):
    """A piece of a summary arrived while it is being written (S3.10); not yet judged."""

    session_id: str
    text: str


class CompactionVetoed(Struct, frozen=True, tag_field="event", tag="compaction-vetoed"):
    """A plugin said that now is not the time; the request goes out as it stands."""

    session_id: str
    reason: Reason
    why: str
    is_urgent: bool


class PluginFailed(Struct, frozen=True, tag_field="event", tag="plugin-failed"):
    """A plugin raised; it was passed over."""

    session_id: str
    plugin: str
    problem: str


class Rejected(Struct, frozen=True, tag_field="event", tag="request-rejected"):
    """A provider refused a request that infold could change: what it had been estimated at (B8).

    Either it reported an overflow, with its numbers where it gave any, or it refused the thinking of `outdated_thinking`
    messages, which is bound to another conversation.
    """

    session_id: str
    estimated_tokens: int
    reported_tokens: int | None = None
    limit_tokens: int | None = None
    outdated_thinking: int = 0


class PreparedAhead(Struct, frozen=True, tag_field="event", tag="prepared-ahead"):
    """A summary was written before it was needed (B18)."""

    session_id: str
    cost: float = 0.0
    duration_ms: int = 0


class PreparationDiscarded(Struct, frozen=True, tag_field="event", tag="preparation-discarded"):
    """A summary written ahead no longer fitted the session when it was needed; `cost` was spent for nothing."""

    session_id: str
    why: str
    cost: float = 0.0


class FailedOpen(Struct, frozen=True, tag_field="event", tag="failed-open"):
    """infold could not manage a request and relayed it as it came, or could not store what was said."""

    session_id: str
    problem: str


class MediaNotStored(Struct, frozen=True, tag_field="event", tag="media-not-stored"):
    """A medium is larger than the session keeps, so that recall cannot bring its bytes back."""

    session_id: str
    media_type: str
    name: str
    byte_size: int
    limit_bytes: int


class NotManaged(Struct, frozen=True, tag_field="event", tag="not-managed"):
    """A request was relayed at any size, because the provider holds or cuts its history, or infold does not read its body."""

    session_id: str
    why: str


class Repaired(Struct, frozen=True, tag_field="event", tag="request-repaired"):
    """Calls without any result were answered as interrupted, for providers refuse a request with one; told once per call."""

    session_id: str
    call_ids: tuple[str, ...]


class Restored(Struct, frozen=True, tag_field="event", tag="restored"):
    """A pruning, clipping or compaction was undone, named by its number."""

    session_id: str
    sequence: int
    tokens_after: int


Event: TypeAlias = (
    Pruned
    | Clipped
    | Compacted
    | InstructionStubbed
    | StubRepeated
    | SummaryRejected
    | SummariserPaused
    | SummariserResumed
    | SummaryProgressed
    | CompactionVetoed
    | PluginFailed
    | Rejected
    | PreparedAhead
    | PreparationDiscarded
    | Restored
    | FailedOpen
    | NotManaged
    | Repaired
    | Exceeded
    | MediaNotStored
)
"""Everything the core can report."""
