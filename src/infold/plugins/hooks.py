"""The hooks a plugin may implement, their names, and the decorator that marks a function as one of them.

A plugin is a module or an object with functions marked by `@hook(name)`. It implements the hooks it needs, and each
function takes the arguments it needs. `runner.py` decides the order of the calls and what happens when a plugin
fails.
"""

from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Protocol, TypeVar

from infold.core.entries import Checkpoint
from infold.core.messages import SessionId
from infold.core.summary_request import Additions
from infold.errors import UsageError, did_you_mean
from infold.ports import CompactionContext, KeepFrom, Supply, Veto

MARK = "infold_hook"
"""The attribute in which a marked function carries the name of its hook."""

Function = TypeVar("Function", bound=Callable[..., object])


class HookSpecs(Protocol):
    """The hooks with their arguments and results; every hook may return `None` to change nothing."""

    def session_compacting(self, occasion: CompactionContext) -> Additions | None:
        """Add to the summariser's instruction (`contexts`), or replace it (`replacement`).

        Marked as `session.compacting`. The contexts of all plugins are appended in the order of the plugins; the
        first replacement wins and drops all contexts. Each text is shortened to a maximum length.
        """
        ...

    def before_compaction(self, occasion: CompactionContext) -> Veto | Supply | KeepFrom | None:
        """Veto the compaction, supply its summary, or choose another cut; the first answer counts.

        Marked as `compaction.before`. A supplied summary is judged like a model's; a cut moves to the nearest legal
        place.
        """
        ...

    def after_compaction(self, session_id: SessionId, checkpoint: Checkpoint) -> None:
        """Run side effects after a compaction was committed; the result is ignored.

        Marked as `compaction.after`. `checkpoint` has the text that replaces the head.
        """
        ...

    def may_continue(self, session_id: SessionId) -> bool | None:
        """Return false to send no synthetic "continue" message to the model after an automatic compaction.

        Marked as `compaction.continue`. One false is enough; true overrules no other plugin.
        """
        ...


HOOK_NAMES = {
    "session.compacting": "session_compacting",
    "experimental.session.compacting": "session_compacting",
    "compaction.before": "before_compaction",
    "compaction.after": "after_compaction",
    "compaction.continue": "may_continue",
    "experimental.compaction.autocontinue": "may_continue",
    **{name: name for name in ("session_compacting", "before_compaction", "after_compaction", "may_continue")},
}
"""From each name of a hook to the method of `HookSpecs`; the experimental names are OpenCode's."""


def hook(name: str) -> Callable[[Function], Function]:
    """Mark a function, whatever it is called, as a plugin's implementation of a hook.

    Raise `UsageError` if the hook does not exist, or if the function is an `async def`, which is never awaited.
    """
    if name not in HOOK_NAMES:
        advice = did_you_mean(name, HOOK_NAMES, likeness=0.5) or f"choose one of {', '.join(HOOK_NAMES)}"
        raise UsageError(f"unknown hook {name!r}; {advice}")

    def mark(function: Function) -> Function:
        if iscoroutinefunction(function) or isasyncgenfunction(function):
            raise UsageError(f"the hook {name!r} is not awaited; make it a plain function")
        setattr(function, MARK, HOOK_NAMES[name])
        return function

    return mark
