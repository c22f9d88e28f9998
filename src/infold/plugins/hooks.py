"""What a plugin may say about a compaction: the hooks, their names, and the mark that makes a function one of them.

A plugin is a module, or an object, with functions marked by `@hook(name)`. It implements the hooks it cares about and takes the
arguments it needs. Who is asked in which order, and what happens to a plugin that fails, is decided in `manager.py`.
"""

from collections.abc import Callable
from difflib import get_close_matches
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Protocol, TypeVar

from pluggy import HookimplMarker, HookspecMarker

from infold.core.entries import Checkpoint
from infold.core.messages import SessionId
from infold.core.summary_request import Additions
from infold.errors import UsageError
from infold.ports import KeepFrom, Occasion, Supply, Veto

GROUP = "infold"
"""The entry-point group in which distributions offer their plugins, and pluggy's name for the project."""

Function = TypeVar("Function", bound=Callable[..., object])

hookimpl = HookimplMarker(GROUP)
"""Pluggy's own mark, for functions that are named like the hook they implement."""

_hookspec = HookspecMarker(GROUP)


class HookSpecs(Protocol):
    """The hooks there are, with what each is told and what it may answer; answering nothing is always allowed."""

    @_hookspec
    def session_compacting(self, occasion: Occasion) -> Additions | None:
        """Add to what the summariser is asked: `contexts` are appended, `replacement` takes the place of all of it (S3.5).

        Known as `session.compacting`. The contexts of all plugins follow one another in the order of the plugins; the first
        replacement wins and leaves no context standing. Each text has an upper length and is shortened to it.
        """
        ...

    @_hookspec
    def before_compaction(self, occasion: Occasion) -> Veto | Supply | KeepFrom | None:
        """Say that now is not the time, supply the summary, or choose another cut; the first answer counts.

        Known as `compaction.before`. A supplied summary is judged like a model's; a cut moves to where one is legal.
        """
        ...

    @_hookspec
    def after_compaction(self, session_id: SessionId, checkpoint: Checkpoint) -> None:
        """Hear that a compaction was committed, with the text that now stands for the head.

        Known as `compaction.after`. For side effects; what is returned is not looked at.
        """
        ...

    @_hookspec
    def may_continue(self, session_id: SessionId) -> bool | None:
        """Say false where no synthetic message is to ask the model to go on after an automatic compaction (B21).

        Known as `compaction.continue`. One plugin that says false is enough; saying true overrules nobody.
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
"""From each name a hook goes by to the function of `HookSpecs`; the experimental ones are OpenCode's."""


def hook(name: str) -> Callable[[Function], Function]:
    """Mark a function, of any name, as a plugin's answer to a hook.

    Raises `UsageError` for a hook that does not exist, and for an `async def`, which nobody would await.
    """
    if name not in HOOK_NAMES:
        raise UsageError(f"no hook is named {name!r}; {_advice(name)}")

    def mark(function: Function) -> Function:
        if is_awaited(function):
            raise UsageError(f"the hook {name!r} is called and not awaited; make it a plain function")
        return hookimpl(function, specname=HOOK_NAMES[name])

    return mark


def is_awaited(function: Callable[..., object]) -> bool:
    """Whether calling a function would only give something to be awaited."""
    return iscoroutinefunction(function) or isasyncgenfunction(function)


def _advice(name: str) -> str:
    near = get_close_matches(name, HOOK_NAMES, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(HOOK_NAMES)}"
