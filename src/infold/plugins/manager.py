"""Ask the plugins, in the order they were given, and let none of them do harm.

A plugin is somebody else's code. One that cannot be loaded, raises, or answers with something else than was asked for is passed
over, and `PluginFailed` says so; `KeyboardInterrupt` and its like pass through. Text that plugins give is bounded here, before it
can crowd out what is to be summarised. What is done with an answer, the engine decides.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from threading import Lock
from typing import TypeVar

from msgspec import Struct
from pluggy import HookRelay, PluginManager

from infold.core.entries import Checkpoint
from infold.core.events import Event, PluginFailed
from infold.core.messages import SessionId
from infold.core.summary_request import Additions
from infold.errors import UsageError, raised_at
from infold.plugins import seven_sections
from infold.plugins.hooks import GROUP, HOOK_NAMES, HookSpecs, is_awaited
from infold.ports import Decision, KeepFrom, Occasion, Supply, Veto

LONGEST_TEXT = 8_000
"""Characters of one context or replacement prompt, some 2,000 tokens: room for a page of instructions, not for a history."""

MOST_CONTEXTS = 16
"""How many contexts are taken in all; of a plugin that gives one for each message, the first ones are."""

CHARACTERS_PER_TOKEN = 0.5
"""Of the usable window: all contexts together stay within an eighth of it in English, within half of it in Chinese."""

LONGEST_SUMMARY = 200_000
"""Characters of a supplied summary that are worth judging; no window leaves a summary more than a few thousand tokens."""

LONGEST_PROBLEM = 300

SHORTENED = " … (shortened)"

_UNSENDABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


class Plugin(Struct, frozen=True):
    """A plugin by its name, loaded when a compaction first asks for it; `load` gives a module, an object or a class."""

    name: str
    load: Callable[[], object]


def installed_plugins(enabled: Sequence[str] | None = None) -> tuple[Plugin, ...]:
    """The plugins that installed distributions offer, by name; with `enabled` only those, in that order.

    Nothing is imported yet. The bundled `seven-sections` is given only where it is named. Raises `UsageError` for a name that
    nobody offers.
    """
    if isinstance(enabled, str):
        raise UsageError(f"the plugins are one text; give a list of names, such as [{enabled!r}]")
    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    if enabled is None:
        return tuple(_offered(entry) for entry in found)
    return tuple(plugin for name in dict.fromkeys(enabled) for plugin in _named(name, found))


class PluginHooks:
    """What plugins have to say about a compaction, as the engine asks for it (`ports.Hooks`); may be used from any thread.

    `plugins` are modules, objects or `Plugin` values, asked in this order; pluggy's `tryfirst` and `trylast` do not change it.
    """

    def __init__(self, plugins: Iterable[object], publish: Callable[[Event], None]) -> None:
        self._waiting = tuple(map(_plugin_of, plugins))
        self._ready: tuple[_Ready, ...] = ()
        self._publish = publish
        self._lock = Lock()

    def additions(self, occasion: Occasion) -> Additions:
        """All contexts in order, or the first replacement prompt alone (*session.compacting*, S3.5); each text is bounded."""
        given = tuple(self._asked("session_compacting", _texts, occasion.session_id, occasion=occasion))
        room = int(occasion.usable_tokens * CHARACTERS_PER_TOKEN) or LONGEST_TEXT
        for one in given:
            if one.replacement.strip():
                return Additions(replacement=_shortened(one.replacement, min(LONGEST_TEXT, room)))
        return Additions(contexts=tuple(_within(room, (text for one in given for text in one.contexts))))

    def decide(self, occasion: Occasion) -> Decision | None:
        """The first plugin's veto, summary or cut; those after it are not asked."""
        return next(self._asked("before_compaction", _decision, occasion.session_id, occasion=occasion), None)

    def compacted(self, session_id: SessionId, checkpoint: Checkpoint) -> None:
        """Tell all plugins that a compaction was committed."""
        for _ in self._asked("after_compaction", _anything, session_id, session_id=session_id, checkpoint=checkpoint):
            pass

    def may_continue(self, session_id: SessionId) -> bool:
        """Whether no plugin says that the model is not to be asked to go on."""
        return all(self._asked("may_continue", _yes_or_no, session_id, session_id=session_id))

    def _asked(
        self, hook: str, accept: Callable[[object], Answer], session_id: SessionId, /, **told: object
    ) -> Iterator[Answer]:
        """The plugins' answers in order, asked for one by one."""
        for plugin in self._loaded(session_id):
            try:
                # Pluggy calls the newest function first, and a plugin may have several for one hook.
                answers = [accept(answer) for answer in reversed(getattr(plugin.hooks, hook)(**told))]
            except Exception as error:  # somebody else's code: whatever it raises is its failure, not the session's
                self._publish(_failed(plugin.name, session_id, hook, error))
            else:
                yield from answers

    def _loaded(self, session_id: SessionId) -> "tuple[_Ready, ...]":
        """Load what is still waiting, once; what cannot be loaded is told of and not tried again."""
        with self._lock:
            outcomes = [_load(plugin, session_id) for plugin in self._waiting]
            self._waiting = ()
            self._ready += tuple(one for one in outcomes if isinstance(one, _Ready))
        for one in outcomes:
            if isinstance(one, PluginFailed):
                self._publish(one)
        return self._ready


class _Ready(Struct, frozen=True):
    """A loaded plugin; each has pluggy's relay to itself, so that one that raises does not keep others from being asked."""

    name: str
    hooks: HookRelay


# Finding and loading.


def _named(name: str, found: Sequence[EntryPoint]) -> tuple[Plugin, ...]:
    if name == seven_sections.NAME:
        return (Plugin(name, lambda: seven_sections),)
    offered = tuple(_offered(entry) for entry in found if entry.name == name)
    if not offered:
        names = sorted({seven_sections.NAME, *(entry.name for entry in found)})
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]!r}?" if near else f"install it, or choose of {', '.join(names)}"
        raise UsageError(f"no plugin is named {name!r}; {advice}")
    return offered


def _offered(entry: EntryPoint) -> Plugin:
    return Plugin(entry.name, entry.load)


def _plugin_of(plugin: object) -> Plugin:
    if isinstance(plugin, Plugin):
        return plugin
    return Plugin(str(getattr(plugin, "__name__", type(plugin).__name__)), lambda: plugin)


def _load(plugin: Plugin, session_id: SessionId) -> "_Ready | PluginFailed":
    try:
        loaded = plugin.load()
        return _Ready(plugin.name, _relay(loaded() if isinstance(loaded, type) else loaded))
    except Exception as error:  # a broken plugin is told of, never raised
        return _failed(plugin.name, session_id, "loading", error)


def _relay(loaded: object) -> HookRelay:
    manager = PluginManager(GROUP)
    manager.add_hookspecs(HookSpecs)
    manager.register(loaded)
    manager.check_pending()
    functions = [one for name in set(HOOK_NAMES.values()) for one in getattr(manager.hook, name).get_hookimpls()]
    if not functions:
        raise TypeError("no function is marked; put @hook(name) before those that are hooks")
    if any(one.wrapper or one.hookwrapper or is_awaited(one.function) for one in functions):
        raise TypeError("hooks are plain functions here; neither wrappers nor async def can be asked")
    return manager.hook


def _failed(name: str, session_id: SessionId, where: str, error: Exception) -> PluginFailed:
    """The event of a failure, which is logged too, without its words: they may be a session's."""
    _log.warning("the plugin %s failed in %s with %s at %s", name, where, type(error).__name__, raised_at(error))
    return PluginFailed(session_id, name, _problem(where, error))


def _problem(where: str, error: Exception) -> str:
    told = " ".join(f"{where}: {type(error).__name__}: {error}".split())
    return _shortened(told, LONGEST_PROBLEM)


# What counts as an answer. Values are checked, since a plugin need not be typed.


def _texts(answer: object) -> Additions:
    if not isinstance(answer, Additions):
        raise _wrong(answer, "Additions")
    if not isinstance(answer.contexts, tuple | list) or not all(isinstance(text, str) for text in answer.contexts):
        raise _wrong(answer.contexts, "a tuple of texts as contexts")
    if not isinstance(answer.replacement, str):
        raise _wrong(answer.replacement, "a text as replacement")
    return answer


def _decision(answer: object) -> Decision:
    match answer:
        case Veto(why=str(why)):
            return Veto(_shortened(why, LONGEST_PROBLEM))
        case Supply(summary=str(summary)):
            if len(summary) > LONGEST_SUMMARY:
                raise ValueError(f"the summary has {len(summary):,} characters; at most {LONGEST_SUMMARY:,} are judged")
            return Supply(_clean(summary))
        case KeepFrom(sequence=int(sequence)) if not isinstance(sequence, bool) and sequence >= 0:
            return answer
        case _:
            raise _wrong(answer, "Veto, Supply or KeepFrom")


def _yes_or_no(answer: object) -> bool:
    if not isinstance(answer, bool):
        raise _wrong(answer, "true or false")
    return answer


def _anything(answer: object) -> object:
    return answer


def _wrong(answer: object, wanted: str) -> TypeError:
    return TypeError(f"gave {type(answer).__name__}, where {wanted} or nothing is wanted")


# Text is bounded, and such that every provider takes it.


def _within(room: int, texts: Iterable[str]) -> Iterator[str]:
    """The first texts that say something, each within its length and all within the room."""
    for text in islice((text for text in texts if text.strip()), MOST_CONTEXTS):
        kept = _shortened(text, min(LONGEST_TEXT, room))
        room -= len(kept)
        if kept:
            yield kept


def _shortened(text: str, most: int) -> str:
    text = _clean(text)
    if len(text) <= most:
        return text
    return text[: most - len(SHORTENED)] + SHORTENED if most > len(SHORTENED) else ""


def _clean(text: str) -> str:
    """Without control characters and halves of surrogate pairs."""
    return _UNSENDABLE.sub("", text)
