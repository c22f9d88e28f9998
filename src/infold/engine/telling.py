"""Events of a session in words, for people: what happened, and what it means for them."""

from typing import TypeAlias, assert_never

from infold.core.events import (
    Compacted,
    CompactionVetoed,
    Exceeded,
    FailedOpen,
    InstructionStubbed,
    MediaNotStored,
    NotManaged,
    PluginFailed,
    PreparationDiscarded,
    PreparedAhead,
    Rejected,
    Repaired,
    Restored,
    StubRepeated,
    SummariserPaused,
    SummariserResumed,
    SummaryProgressed,
    SummaryRejected,
)

Incident: TypeAlias = (
    InstructionStubbed
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
"""Every event that does not itself make the view smaller."""

SAFETY = {
    "code-fold": "the summary failed; folding by code is infold's own step, the preset has none",
    "flattened": "the history was too large for the summariser as messages, so it read a flattened text",
}
"""What infold did beyond a document's preset, in words."""


def in_words(event: Incident) -> str:  # noqa: C901, PLR0911, PLR0912 - a sentence for each kind
    """What happened, in a sentence."""
    match event:
        case InstructionStubbed():
            instructions = "instruction" if len(event.handles) == 1 else "instructions"
            return f"no longer shown word for word, for want of room: {len(event.handles):,} {instructions} of the user"
        case StubRepeated():
            return f"message {event.message_id} repeats the text of a stub"
        case SummaryRejected():
            return f"a summary was rejected ({', '.join(event.faults)}){f': {event.error}' if event.error else ''}"
        case SummariserPaused():
            return f"code alone folds for {event.seconds:,} s, since summaries failed ({event.failures:,} in a row)"
        case SummariserResumed():
            return f"the summariser is asked again after {event.failures:,} failed compactions"
        case SummaryProgressed():
            return f"a summary is being written: {len(event.text):,} characters more"
        case CompactionVetoed():
            return f"a plugin vetoed the compaction: {event.why}"
        case PluginFailed():
            return f"the plugin {event.plugin} failed and was passed over: {event.problem}"
        case Rejected() if event.outdated_thinking:
            messages = f"{event.outdated_thinking:,} message{'s' if event.outdated_thinking != 1 else ''}"
            return f"the provider refused the thinking of {messages}, which is bound to another conversation; removed"
        case Rejected():
            told = f", its limit is {event.limit_tokens:,}" if event.limit_tokens else ""
            return f"the provider refused a request estimated at {event.estimated_tokens:,} tokens{told}"
        case PreparedAhead():
            return f"a summary was written ahead of need in {event.duration_ms / 1000:.1f} s"
        case PreparationDiscarded():
            return f"a summary written ahead was discarded: {event.why}"
        case Restored():
            return f"entry {event.sequence} was undone; the view has {event.tokens_after:,} tokens again"
        case FailedOpen():
            return f"a request was relayed as it came: {event.problem}"
        case MediaNotStored():
            what = f"{event.name} ({event.media_type})" if event.name else event.media_type
            return f"{what} has {event.byte_size:,} bytes, over the limit of {event.limit_bytes:,}, and is not stored"
        case NotManaged():
            return f"a request was relayed at its own size: {event.why}"
        case Repaired():
            calls = "call" if len(event.call_ids) == 1 else "calls"
            return f"answered as interrupted, because there is no result: {len(event.call_ids):,} {calls}"
        case Exceeded():
            return f"still {event.floor_tokens:,} tokens for {event.usable_tokens:,} usable"
        case _:
            assert_never(event)


def safety_words(event: Compacted) -> str:
    """Return what a compaction did that its preset's document does not have, as the end of a line; empty for nothing."""
    return "".join(f"; {SAFETY.get(name, name)}" for name in event.safety)
