"""A typed bus: callbacks subscribe to kinds of events and are called with each, in the order they subscribed.

A callback is somebody else's code. One that raises breaks neither the session nor the other callbacks; that it did is kept in
`errors` and logged, without anything a session said. `KeyboardInterrupt` and its like pass through.
"""

import logging
from collections import deque
from collections.abc import Callable
from inspect import iscoroutinefunction
from threading import Lock
from types import UnionType
from typing import Any, TypeAlias, TypeVar, get_args, overload

from msgspec import Struct

from infold.core.events import Compacted, Event
from infold.errors import UsageError, raised_at

MOST_ERRORS = 100
"""How many failures are remembered, the newest ones; a callback that always fails must not fill the memory."""

One = TypeVar("One", bound=Event)
Two = TypeVar("Two", bound=Event)
Three = TypeVar("Three", bound=Event)

Unsubscribe: TypeAlias = Callable[[], None]
"""Ends a subscription; a second time does nothing. An event that is being delivered may still arrive."""

_log = logging.getLogger(__name__)


class Failure(Struct, frozen=True):
    """A callback that raised: which one, at what event, with what kind of error and where; never the error's own words."""

    callback: str
    event: str
    error: str
    place: str


class Bus:
    """Tells callbacks of the events they subscribed to; may be used from any thread.

    It is an observer itself, so that one bus can serve any number of sessions. A callback runs in the thread of the session
    that it hears of, which waits for it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._subscriptions: tuple[_Subscription, ...] = ()
        self._errors: deque[Failure] = deque(maxlen=MOST_ERRORS)

    @property
    def errors(self) -> tuple[Failure, ...]:
        """The newest failures of callbacks, oldest first."""
        with self._lock:
            return tuple(self._errors)

    @overload
    def subscribe(self, kinds: type[One], callback: Callable[[One], object]) -> Unsubscribe: ...
    @overload
    def subscribe(self, kinds: tuple[type[One], type[Two]], callback: Callable[[One | Two], object]) -> Unsubscribe: ...
    @overload
    def subscribe(
        self, kinds: tuple[type[One], type[Two], type[Three]], callback: Callable[[One | Two | Three], object]
    ) -> Unsubscribe: ...
    @overload
    def subscribe(
        self, kinds: tuple[type[Event], ...] | UnionType, callback: Callable[[Event], object]
    ) -> Unsubscribe: ...

    def subscribe(self, kinds: object, callback: Callable[..., object]) -> Unsubscribe:
        """Call back with each event of a kind, of several kinds, or with `Event` of all; gives a way to end it.

        Raises `UsageError` for what is no kind of event, and for an `async def`, which nobody would await.
        """
        if iscoroutinefunction(callback) or iscoroutinefunction(type(callback).__call__):
            raise UsageError("callbacks are called and not awaited; subscribe a plain function, which may start a task")
        if not callable(callback):
            raise UsageError(f"a {type(callback).__name__} cannot be called; subscribe a function that takes an event")
        subscription = _Subscription(_kinds_of(kinds), callback)
        with self._lock:
            self._subscriptions += (subscription,)
        return lambda: self._end(subscription)

    def on_compacted(self, callback: Callable[[Compacted], object]) -> Unsubscribe:
        """Call back after each compaction: the short way to what most people want to hear."""
        return self.subscribe(Compacted, callback)

    def observe(self, event: Event) -> None:
        """Tell all who subscribed to events of this kind."""
        for subscription in self._subscriptions:
            if isinstance(event, subscription.kinds):
                try:
                    subscription.callback(event)
                except Exception as error:  # somebody else's code: it must not break the session that it hears of
                    self._note(_failure(subscription.callback, event, error))

    def _end(self, subscription: "_Subscription") -> None:
        with self._lock:
            self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)

    def _note(self, failure: Failure) -> None:
        with self._lock:
            self._errors.append(failure)
        _log.warning("%s raised %s at %s on %s", failure.callback, failure.error, failure.place, failure.event)


class _Subscription:
    """One callback and what it hears; two of the same are told apart."""

    def __init__(self, kinds: tuple[type[Event], ...], callback: Callable[..., object]) -> None:
        self.kinds = kinds
        self.callback = callback


def _kinds_of(kinds: object) -> tuple[type[Event], ...]:
    given: tuple[Any, ...] = kinds if isinstance(kinds, tuple) else get_args(kinds) or (kinds,)
    for kind in given or (None,):
        if kind not in get_args(Event):
            raise UsageError(f"{kind!r} is no kind of event; take one, or Event for all, from infold.core.events")
    return given


def _failure(callback: Callable[..., object], event: Event, error: Exception) -> Failure:
    return Failure(
        getattr(callback, "__qualname__", type(callback).__qualname__),
        str(event.__struct_config__.tag),
        type(error).__name__,
        raised_at(error),
    )
