"""Facts for observers, in the past tense. An event reports what was done; it never requests anything."""

from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.entries import Handle, Reason


class Pruned(Struct, frozen=True, tag_field="event", tag="pruned"):
    """Old tool results or call arguments became stubs; `uncached_tokens` of the next request are not in the cache.

    `tokens_before` and `tokens_after` are the view in the provider's tokens, as estimated, system prompt and tools included.
    `freed_tokens` is by the policy's own measure, stubs not subtracted; `counted_tokens` is the view before by that measure,
    if it is a preset's characters by four, else 0. `outdated_thinking` counts the messages whose thinking left the view,
    because the model binds thinking to what precedes it. `saving`, `saving_tokens` and `is_price_assumed` as for a fold.
    """

    session_id: str
    targets: tuple[Handle, ...]
    freed_tokens: int
    tokens_before: int
    tokens_after: int
    reason: Reason
    uncached_tokens: int = 0
    outdated_thinking: int = 0
    counted_tokens: int = 0
    saving: float = 0.0
    saving_tokens: int = 0
    is_price_assumed: bool = False


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
    """The head of a session was folded; `summariser` names the model, or is empty if code alone did it.

    `tokens_before`, `tokens_after` and `counted_tokens` as for a pruning: a preset that decides by its own measure compares the
    last with its trigger. `uncached_tokens` of the next request are not in the cache; `ahead`: the summary was prepared in
    the background;
    `faults` are what the judge repaired or why it rejected the model's summary; `outdated_thinking` as for a pruning.
    `saving` is the expected saving of a fold made for its price, over the calls to come, in US dollars, and `saving_tokens` the
    tokens of uncached input that cost as much. With `is_price_assumed` the former is 0.0: the fold was made by the usual
    ratios of prices, because the model's own are not known and the setting `priced` is `always`. `error` is the
    model's own error if it failed. `safety` names what infold did beyond the preset's document (see `Checkpoint`).
    `native`: the provider compacted the head itself. `marked`, `corrected` and `removed` count the sentences of the summary
    that name something unknown, to which the log's own knowledge was added, and that were taken out. `kept_steps`
    counts the old steps that stay in their own form.
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
    native: bool = False
    marked: int = 0
    corrected: int = 0
    removed: int = 0
    is_price_assumed: bool = False
    counted_tokens: int = 0
    saving_tokens: int = 0
    kept_steps: int = 0

    @property
    def outcome(self) -> Literal["summarised", "folded"]:
        """Whether a model's summary replaces the head, or a fold by code alone."""
        return "summarised" if self.summariser else "folded"

    @property
    def ratio(self) -> float:
        """The share of the view that is left."""
        return self.tokens_after / self.tokens_before if self.tokens_before else 1.0


class InstructionStubbed(Struct, frozen=True, tag_field="event", tag="instruction-stubbed"):
    """Instructions of the user no longer fit verbatim: each became a one-line stub, or had no room even for that."""

    session_id: str
    handles: tuple[str, ...]


class Exceeded(Struct, frozen=True, tag_field="event", tag="window-exceeded"):
    """Nothing more can be hidden and the view still does not fit."""

    session_id: str
    floor_tokens: int
    usable_tokens: int


class StubRepeated(Struct, frozen=True, tag_field="event", tag="stub-repeated"):
    """A reply contained the text of a stub as if it were content; a client that acts on it would write the stub to a
    file."""

    session_id: str
    message_id: str


class SummaryRejected(Struct, frozen=True, tag_field="event", tag="summary-rejected"):
    """A model's summary could not be used: its faults, one for each try, and the model's own error if it failed.

    `error` has the status and message of the last failure, without secrets.
    """

    session_id: str
    faults: tuple[str, ...]
    error: str = ""


class SummariserPaused(Struct, frozen=True, tag_field="event", tag="summariser-paused"):
    """Summaries failed in that many compactions in a row: code alone folds for `seconds`, then the summariser is asked
    again."""

    session_id: str
    failures: int
    seconds: int


class SummariserResumed(Struct, frozen=True, tag_field="event", tag="summariser-resumed"):
    """A summariser that was paused after that many failed compactions is asked again."""

    session_id: str
    failures: int


class SummaryProgressed(Struct, frozen=True, tag_field="event", tag="summary-progressed"):
    """A piece of a summary arrived while it is being written; not yet judged."""

    session_id: str
    text: str


class CompactionVetoed(Struct, frozen=True, tag_field="event", tag="compaction-vetoed"):
    """A plugin vetoed a compaction; the request is sent as it is."""

    session_id: str
    reason: Reason
    why: str
    is_urgent: bool


class PluginFailed(Struct, frozen=True, tag_field="event", tag="plugin-failed"):
    """A plugin raised; it was skipped."""

    session_id: str
    plugin: str
    problem: str


class Rejected(Struct, frozen=True, tag_field="event", tag="request-rejected"):
    """A provider refused a request that infold could change; `estimated_tokens` was its estimate.

    Either it reported an overflow, with its numbers if it gave any, or it refused the thinking of `outdated_thinking`
    messages, which is bound to another conversation, or (`native`) a summary that it had written itself.
    """

    session_id: str
    estimated_tokens: int
    reported_tokens: int | None = None
    limit_tokens: int | None = None
    outdated_thinking: int = 0
    native: bool = False


class OutputLowered(Struct, frozen=True, tag_field="event", tag="output-lowered"):
    """A request asked for more output than the window has room for with its prompt, and asks for less in what is sent."""

    session_id: str
    asked_tokens: int
    sent_tokens: int


class PreparedAhead(Struct, frozen=True, tag_field="event", tag="prepared-ahead"):
    """A summary was written before it was needed."""

    session_id: str
    cost: float = 0.0
    duration_ms: int = 0


class PreparationDiscarded(Struct, frozen=True, tag_field="event", tag="preparation-discarded"):
    """A summary written ahead no longer fitted the session when it was needed; `cost` was wasted."""

    session_id: str
    why: str
    cost: float = 0.0


class CacheMissed(Struct, frozen=True, tag_field="event", tag="cache-missed"):
    """A provider read a request uncached that its cache should have served.

    `cause`: `expired` if the session was idle for longer than the cache's lifetime, `changed` if the provider reports
    that something before the new messages changed, other than what infold changed. `tokens` were read again, which cost
    `cost` more in US dollars; 0.0 without known prices. `reported` is the provider's own word for the reason, if it
    gave one.
    """

    session_id: str
    cause: Literal["expired", "changed"]
    tokens: int
    cost: float
    idle_seconds: int
    lifetime_seconds: int
    reported: str = ""


class FailedOpen(Struct, frozen=True, tag_field="event", tag="failed-open"):
    """infold could not manage a request and relayed it unchanged, or could not store a message."""

    session_id: str
    problem: str


class MediaNotStored(Struct, frozen=True, tag_field="event", tag="media-not-stored"):
    """A medium is larger than the session stores, so that recall cannot return its bytes."""

    session_id: str
    media_type: str
    name: str
    byte_size: int
    limit_bytes: int


class NotManaged(Struct, frozen=True, tag_field="event", tag="not-managed"):
    """A request was relayed at any size, because the provider holds or cuts its history, or infold does not read its
    body."""

    session_id: str
    why: str


class WindowFound(Struct, frozen=True, tag_field="event", tag="window-found"):
    """A server reported the window of its model, which counts in place of the catalogue's; `source` is the address asked."""

    session_id: str
    model: str
    window_tokens: int
    source: str


class Repaired(Struct, frozen=True, tag_field="event", tag="request-repaired"):
    """Calls without any result were answered as interrupted, because providers refuse such a request; reported once per
    call."""

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
    | OutputLowered
    | PreparedAhead
    | PreparationDiscarded
    | Restored
    | FailedOpen
    | NotManaged
    | WindowFound
    | Repaired
    | Exceeded
    | MediaNotStored
    | CacheMissed
)
"""Everything the core can report."""
