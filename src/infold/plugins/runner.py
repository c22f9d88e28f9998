"""Find plugins, load them on first use, and call their hooks in the order given.

Plugins are foreign code. One that cannot be loaded, raises, or returns a value of the wrong type is skipped, and
`PluginFailed` reports it; `KeyboardInterrupt` and other non-`Exception`s propagate. Text from plugins is bounded
here, so that it cannot crowd out what is to be summarised. The session decides what to do with an answer.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, isroutine, signature
from itertools import islice
from threading import Lock
from typing import TypeAlias, TypeVar

from msgspec import Struct

from infold.core.entries import Checkpoint
from infold.core.events import Event, PluginFailed
from infold.core.messages import SessionId
from infold.core.summary_request import SEVEN_SECTIONS, Additions
from infold.errors import UsageError, did_you_mean, raised_at
from infold.plugins.hooks import MARK, HookSpecs, hook
from infold.ports import CompactionContext, Decision, KeepFrom, Supply, Veto

GROUP = "infold"
"""The entry-point group in which distributions offer their plugins."""


LONGEST_TEXT = 8_000
"""Characters of one context or replacement prompt, some 2,000 tokens: room for a page of instructions, not for a history."""


MOST_CONTEXTS = 16
"""How many contexts are used in all; the first ones if a plugin returns more."""


CHARACTERS_PER_TOKEN = 0.5
"""Of the usable window: all contexts together stay within an eighth of it in English, within half of it in Chinese."""


LONGEST_SUMMARY = 200_000
"""Characters of a supplied summary that are worth judging; no window leaves a summary more than a few thousand tokens."""


LOADING = "loading"
LONGEST_PROBLEM = 300


SHORTENED = " … (shortened)"


_UNSENDABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


Answer = TypeVar("Answer")


_log = logging.getLogger(__name__)


class Plugin(Struct, frozen=True):
    """A plugin by name, loaded when a compaction first calls it; `load` returns a module, an object or a class."""

    name: str
    load: Callable[[], object]


class _SevenSections:
    """Ask for a summary under seven fixed headings."""

    @hook("session.compacting")
    def add_headings(self) -> Additions:
        return Additions(contexts=(SEVEN_SECTIONS,))


SEVEN_SECTIONS_PLUGIN = Plugin("seven-sections", _SevenSections)
"""The bundled plugin, used only where it is named; also the shortest example of one."""


def installed_plugins(enabled: Sequence[str] | None = None) -> tuple[Plugin, ...]:
    """Return the plugins of installed distributions, by name; with `enabled` only those, in that order.

    Nothing is imported yet. The bundled `seven-sections` is included only if it is named. Raise `UsageError` for an
    unknown name.
    """
    if isinstance(enabled, str):
        raise UsageError(f"plugins are a list of names; use [{enabled!r}]")
    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    if enabled is None:
        return tuple(Plugin(entry.name, entry.load) for entry in found)
    return tuple(plugin for name in dict.fromkeys(enabled) for plugin in _find_plugins(name, found))


def _find_plugins(name: str, found: Sequence[EntryPoint]) -> tuple[Plugin, ...]:
    if name == SEVEN_SECTIONS_PLUGIN.name:
        return (SEVEN_SECTIONS_PLUGIN,)
    offered = tuple(Plugin(entry.name, entry.load) for entry in found if entry.name == name)
    if not offered:
        names = sorted({SEVEN_SECTIONS_PLUGIN.name, *(entry.name for entry in found)})
        advice = did_you_mean(name, names, likeness=0.5) or f"install it, or choose one of {', '.join(names)}"
        raise UsageError(f"unknown plugin {name!r}; {advice}")
    return offered


class PluginHooks:
    """Call the hooks of plugins for a session (`ports.Hooks`); safe to use from any thread.

    `plugins` are modules, objects or `Plugin` values, called in this order.
    """

    def __init__(self, plugins: Iterable[object], publish: Callable[[Event], None]) -> None:
        self._waiting = tuple(map(_as_plugin, plugins))
        self._loaded: tuple[_LoadedPlugin, ...] = ()
        self._publish = publish
        self._lock = Lock()

    def additions(self, occasion: CompactionContext) -> Additions:
        """Return all contexts in order, or only the first replacement prompt; each text is bounded."""
        given = tuple(self._call("session_compacting", _check_additions, occasion.session_id, occasion=occasion))
        room = int(occasion.usable_tokens * CHARACTERS_PER_TOKEN) or LONGEST_TEXT
        for one in given:
            if one.replacement.strip():
                return Additions(replacement=_shorten(one.replacement, min(LONGEST_TEXT, room)))
        return Additions(contexts=tuple(_shorten_all(room, (text for one in given for text in one.contexts))))

    def decide(self, occasion: CompactionContext) -> Decision | None:
        """Return the first plugin's veto, summary or cut; later plugins are not called."""
        return next(self._call("before_compaction", _check_decision, occasion.session_id, occasion=occasion), None)

    def compacted(self, session_id: SessionId, checkpoint: Checkpoint) -> None:
        """Report a committed compaction to all plugins."""
        arguments = {"session_id": session_id, "checkpoint": checkpoint}
        for _ in self._call("after_compaction", lambda answer: answer, session_id, **arguments):
            pass

    def may_continue(self, session_id: SessionId) -> bool:
        """Return whether the model may be asked to continue: false if any plugin says so."""
        return all(self._call("may_continue", _check_bool, session_id, session_id=session_id))

    def _call(
        self, name: str, check: Callable[[object], Answer], session_id: SessionId, /, **arguments: object
    ) -> Iterator[Answer]:
        """Call a hook of one plugin after the other, as far as the caller iterates; `None` is not an answer."""
        for plugin in self._load(session_id):
            try:
                given = [function(arguments) for function in plugin.hooks.get(name, ())]
                answers = [check(answer) for answer in given if answer is not None]
            except Exception as error:  # foreign code: its failure must not become the session's
                self._publish(_failure(plugin.name, session_id, name, error))
            else:
                yield from answers

    def _load(self, session_id: SessionId) -> "tuple[_LoadedPlugin, ...]":
        """Load the plugins that are not loaded yet; report those that cannot be, and do not try them again."""
        with self._lock:
            outcomes = [_load_plugin(plugin, session_id) for plugin in self._waiting]
            self._waiting = ()
            self._loaded += tuple(one for one in outcomes if isinstance(one, _LoadedPlugin))
        for one in outcomes:
            if isinstance(one, PluginFailed):
                self._publish(one)
        return self._loaded


_HookFunction: TypeAlias = Callable[[Mapping[str, object]], object]
"""A function of a plugin, called with the arguments it takes of those offered."""


class _LoadedPlugin(Struct, frozen=True):
    name: str
    hooks: Mapping[str, Sequence[_HookFunction]]


def _as_plugin(plugin: object) -> Plugin:
    if isinstance(plugin, Plugin):
        return plugin
    return Plugin(str(getattr(plugin, "__name__", type(plugin).__name__)), lambda: plugin)


def _load_plugin(plugin: Plugin, session_id: SessionId) -> "_LoadedPlugin | PluginFailed":
    try:
        loaded = plugin.load()
        return _LoadedPlugin(plugin.name, _hooks_of(loaded() if isinstance(loaded, type) else loaded))
    except Exception as error:  # a broken plugin is reported, not raised
        return _failure(plugin.name, session_id, LOADING, error)


def _hooks_of(loaded: object) -> dict[str, list[_HookFunction]]:
    """Return the marked functions by hook, in the order of their names; raise `UsageError` if there are none."""
    hooks: dict[str, list[_HookFunction]] = {}
    for attribute in dir(loaded):
        function = getattr(loaded, attribute)
        if isroutine(function) and (name := getattr(function, MARK, "")):
            hooks.setdefault(name, []).append(_hook_function(function, name))
    if not hooks:
        raise UsageError("no function is marked as a hook; use @hook(name)")
    return hooks


def _hook_function(function: Callable[..., object], name: str) -> _HookFunction:
    offered = signature(getattr(HookSpecs, name)).parameters.keys() - {"self"}
    taken = signature(function).parameters.values()
    unknown = [
        one.name for one in taken if one.default is Parameter.empty and one.kind in _NAMED and one.name not in offered
    ]
    if unknown:
        raise UsageError(f"{function.__name__} takes {', '.join(unknown)}; {name} offers {', '.join(sorted(offered))}")
    names = [one.name for one in taken if one.kind in _NAMED and one.name in offered]
    return lambda arguments: function(**{name: arguments[name] for name in names})


_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _failure(name: str, session_id: SessionId, where: str, error: Exception) -> PluginFailed:
    """Return the event of a failure, and log it without the error's message, which may hold text of a session.

    What infold itself finds wrong with a plugin as it is loaded holds none, and is logged.
    """
    reason = f": {error}" if where == LOADING and isinstance(error, UsageError) else ""
    _log.warning(
        "the plugin %s failed in %s with %s at %s%s", name, where, type(error).__name__, raised_at(error), reason
    )
    problem = " ".join(f"{where}: {type(error).__name__}: {error}".split())
    return PluginFailed(session_id, name, _shorten(problem, LONGEST_PROBLEM))


# Answers are checked at run time, since a plugin need not be typed.


def _check_additions(answer: object) -> Additions:
    match answer:
        case Additions(contexts=tuple() | list() as texts, replacement=str()) if all(
            isinstance(one, str) for one in texts
        ):
            return answer
        case _:
            raise _wrong_type(answer, "Additions with texts only")


def _check_decision(answer: object) -> Decision:
    match answer:
        case Veto(why=str(why)):
            return Veto(_shorten(why, LONGEST_PROBLEM))
        case Supply(summary=str(summary)):
            if len(summary) > LONGEST_SUMMARY:
                raise ValueError(f"the summary has {len(summary):,} characters; at most {LONGEST_SUMMARY:,} are judged")
            return Supply(_clean(summary))
        case KeepFrom(sequence=int(sequence)) if not isinstance(sequence, bool) and sequence >= 0:
            return answer
        case _:
            raise _wrong_type(answer, "Veto, Supply or KeepFrom")


def _check_bool(answer: object) -> bool:
    if not isinstance(answer, bool):
        raise _wrong_type(answer, "true or false")
    return answer


def _wrong_type(answer: object, wanted: str) -> TypeError:
    return TypeError(f"returned {type(answer).__name__}; expected {wanted}, or None")


# Text is bounded, and free of what providers reject.


def _shorten_all(room: int, texts: Iterable[str]) -> Iterator[str]:
    """Yield the first texts that are not blank, each within its maximum length and all together within `room` characters."""
    for text in islice((text for text in texts if text.strip()), MOST_CONTEXTS):
        kept = _shorten(text, min(LONGEST_TEXT, room))
        room -= len(kept)
        if kept:
            yield kept


def _shorten(text: str, most: int) -> str:
    text = _clean(text)
    if len(text) <= most:
        return text
    return text[: most - len(SHORTENED)] + SHORTENED if most > len(SHORTENED) else ""


def _clean(text: str) -> str:
    """Remove control characters and unpaired surrogates."""
    return _UNSENDABLE.sub("", text)
