"""infold keeps an LLM agent's conversation inside its context window, and loses nothing."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from infold.catalogue import Override, Prices
    from infold.core.budget import AskedOutput, Window
    from infold.core.entries import Checkpoint
    from infold.core.events import (
        CacheMissed,
        Clipped,
        Compacted,
        CompactionVetoed,
        Event,
        Exceeded,
        FailedOpen,
        InstructionStubbed,
        MediaNotStored,
        NotManaged,
        OutputLowered,
        PluginFailed,
        PreparationDiscarded,
        PreparedAhead,
        Pruned,
        Rejected,
        Repaired,
        Restored,
        StubRepeated,
        SummariserPaused,
        SummariserResumed,
        SummaryProgressed,
        SummaryRejected,
        WindowFound,
    )
    from infold.core.judge import Answer, ModelAnswer
    from infold.core.messages import (
        AssistantMessage,
        CompactionPart,
        FilePart,
        Message,
        ModelRef,
        ReasoningPart,
        SystemMessage,
        TextPart,
        ToolCallPart,
        ToolMessage,
        ToolResultPart,
        Usage,
        UserMessage,
    )
    from infold.core.policy import (
        Amount,
        Policy,
        PrunePolicy,
        SummaryPolicy,
        TailPolicy,
        preset,
        remaining,
        share,
        tokens,
    )
    from infold.core.summary_request import Additions, SummaryRequest
    from infold.errors import (
        BrokenInput,
        DuplicateId,
        FormatError,
        HistoryChanged,
        IllegalCut,
        InfoldError,
        KeyRefused,
        LogError,
        ModelBusy,
        ModelError,
        ModelOverflow,
        ModelUnreachable,
        OrphanResult,
        PolicyError,
        PromptTooLarge,
        RequestRefused,
        SessionReentered,
        SettingsError,
        StoreBroken,
        StoreClosed,
        StoreConflict,
        StoreError,
        SummaryFailed,
        UndecodableLog,
        UnknownFormat,
        UnknownKeyword,
        UnknownModel,
        UnknownPreset,
        UnknownReference,
        UnknownSession,
        UnusableKey,
        UsageError,
        WindowExceeded,
    )
    from infold.observers.bus import Bus
    from infold.plugins.hooks import hook
    from infold.plugins.runner import installed_plugins
    from infold.ports import CompactionContext, FileDiff, KeepFrom, SessionKey, Supply, Veto
    from infold.session.async_session import AsyncSession
    from infold.session.compaction import Preview
    from infold.session.fit import Fitted, estimate, fit, is_overflow, prune
    from infold.session.process_settings import plugins_from, settings_from
    from infold.session.report import Ready, Report, RequestReport
    from infold.session.session import Session
    from infold.session.settings import SessionSettings
    from infold.settings import read_settings
    from infold.transcripts.opencode import filter_compacted
    from infold.wiring import open_store
    from infold.wrapper.wrap import wrap

__all__ = [
    "Additions",
    "Amount",
    "Answer",
    "AskedOutput",
    "AssistantMessage",
    "AsyncSession",
    "BrokenInput",
    "Bus",
    "CacheMissed",
    "Checkpoint",
    "Clipped",
    "Compacted",
    "CompactionContext",
    "CompactionPart",
    "CompactionVetoed",
    "DuplicateId",
    "Event",
    "Exceeded",
    "FailedOpen",
    "FileDiff",
    "FilePart",
    "Fitted",
    "FormatError",
    "HistoryChanged",
    "IllegalCut",
    "InfoldError",
    "InstructionStubbed",
    "KeepFrom",
    "KeyRefused",
    "LogError",
    "MediaNotStored",
    "Message",
    "ModelAnswer",
    "ModelBusy",
    "ModelError",
    "ModelOverflow",
    "ModelRef",
    "ModelUnreachable",
    "NotManaged",
    "OrphanResult",
    "OutputLowered",
    "Override",
    "PluginFailed",
    "Policy",
    "PolicyError",
    "PreparationDiscarded",
    "PreparedAhead",
    "Preview",
    "Prices",
    "PromptTooLarge",
    "PrunePolicy",
    "Pruned",
    "Ready",
    "ReasoningPart",
    "Rejected",
    "Repaired",
    "Report",
    "RequestRefused",
    "RequestReport",
    "Restored",
    "Session",
    "SessionKey",
    "SessionReentered",
    "SessionSettings",
    "SettingsError",
    "StoreBroken",
    "StoreClosed",
    "StoreConflict",
    "StoreError",
    "StubRepeated",
    "SummariserPaused",
    "SummariserResumed",
    "SummaryFailed",
    "SummaryPolicy",
    "SummaryProgressed",
    "SummaryRejected",
    "SummaryRequest",
    "Supply",
    "SystemMessage",
    "TailPolicy",
    "TextPart",
    "ToolCallPart",
    "ToolMessage",
    "ToolResultPart",
    "UndecodableLog",
    "UnknownFormat",
    "UnknownKeyword",
    "UnknownModel",
    "UnknownPreset",
    "UnknownReference",
    "UnknownSession",
    "UnusableKey",
    "Usage",
    "UsageError",
    "UserMessage",
    "Veto",
    "Window",
    "WindowExceeded",
    "WindowFound",
    "estimate",
    "filter_compacted",
    "fit",
    "hook",
    "installed_plugins",
    "is_overflow",
    "open_store",
    "plugins_from",
    "preset",
    "prune",
    "read_settings",
    "remaining",
    "settings_from",
    "share",
    "tokens",
    "wrap",
]

_NAMES = {
    "infold.catalogue": "Override Prices",
    "infold.core.budget": "AskedOutput Window",
    "infold.core.entries": "Checkpoint",
    "infold.core.events": (
        "CacheMissed Clipped Compacted CompactionVetoed Event Exceeded FailedOpen InstructionStubbed "
        "MediaNotStored NotManaged OutputLowered PluginFailed PreparationDiscarded PreparedAhead Pruned Rejected "
        "Repaired Restored StubRepeated SummariserPaused SummariserResumed SummaryProgressed SummaryRejected "
        "WindowFound"
    ),
    "infold.core.judge": "Answer ModelAnswer",
    "infold.core.messages": (
        "AssistantMessage CompactionPart FilePart Message ModelRef ReasoningPart SystemMessage TextPart "
        "ToolCallPart ToolMessage ToolResultPart Usage UserMessage"
    ),
    "infold.core.policy": "Amount Policy PrunePolicy SummaryPolicy TailPolicy preset remaining share tokens",
    "infold.core.summary_request": "Additions SummaryRequest",
    "infold.errors": (
        "BrokenInput DuplicateId FormatError HistoryChanged IllegalCut InfoldError KeyRefused LogError "
        "ModelBusy ModelError ModelOverflow ModelUnreachable OrphanResult PolicyError PromptTooLarge "
        "RequestRefused SessionReentered SettingsError StoreBroken StoreClosed StoreConflict StoreError SummaryFailed "
        "UndecodableLog UnknownFormat UnknownKeyword UnknownModel UnknownPreset UnknownReference "
        "UnknownSession UnusableKey UsageError WindowExceeded"
    ),
    "infold.observers.bus": "Bus",
    "infold.plugins.hooks": "hook",
    "infold.plugins.runner": "installed_plugins",
    "infold.ports": "CompactionContext FileDiff KeepFrom SessionKey Supply Veto",
    "infold.session.async_session": "AsyncSession",
    "infold.session.compaction": "Preview",
    "infold.session.fit": "Fitted estimate fit is_overflow prune",
    "infold.session.process_settings": "plugins_from settings_from",
    "infold.session.report": "Ready Report RequestReport",
    "infold.session.session": "Session",
    "infold.session.settings": "SessionSettings",
    "infold.settings": "read_settings",
    "infold.transcripts.opencode": "filter_compacted",
    "infold.wiring": "open_store",
    "infold.wrapper.wrap": "wrap",
}
"""From each module to the names that it has of the public ones."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for, so that `import infold` stays light."""
    if name == "__version__":
        return import_module("importlib.metadata").version("infold")
    if name not in _HOMES:
        raise AttributeError(f"module 'infold' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, and those of every module."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})
