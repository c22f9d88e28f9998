"""A typed event bus: callbacks subscribe to kinds of events and are called in the order of subscription.

Callbacks are foreign code. An exception in one breaks neither the session nor the other callbacks; it is recorded in
`errors` and logged, without any text of a session. `KeyboardInterrupt` and other non-`Exception`s propagate.
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
"""How many of the newest failures are kept, so that a callback that always fails does not fill the memory."""

One = TypeVar("One", bound=Event)
Two = TypeVar("Two", bound=Event)
Three = TypeVar("Three", bound=Event)

Unsubscribe: TypeAlias = Callable[[], None]
"""Ends a subscription; calling it again does nothing. An event that is being delivered may still arrive."""

_log = logging.getLogger(__name__)


class CallbackFailure(Struct, frozen=True):
    """A callback that raised: its name, the event, the error's type and where it was raised, but not the error's message."""

    callback: str
    event: str
    error: str
    place: str


class Bus:
    """Call callbacks with the events they subscribed to; safe to use from any thread.

    A bus is an observer, so one bus can serve any number of sessions. A callback runs in the thread of the session that
    published the event, and that session waits for it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._subscriptions: tuple[_Subscription, ...] = ()
        self._errors: deque[CallbackFailure] = deque(maxlen=MOST_ERRORS)

    @property
    def errors(self) -> tuple[CallbackFailure, ...]:
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
        """Subscribe to one kind of event, to several, or to `Event` for all; return a function that unsubscribes.

        Raise `UsageError` if `kinds` is not a kind of event, or if the callback is an `async def`, which is never
        awaited.
        """
        if iscoroutinefunction(callback) or iscoroutinefunction(type(callback).__call__):
            raise UsageError("callbacks are not awaited; subscribe a plain function, which may start a task")
        if not callable(callback):
            raise UsageError(f"a {type(callback).__name__} cannot be called; subscribe a function that takes an event")
        subscription = _Subscription(_kinds_of(kinds), callback)
        with self._lock:
            self._subscriptions += (subscription,)
        return lambda: self._end(subscription)

    def on_compacted(self, callback: Callable[[Compacted], object]) -> Unsubscribe:
        """Subscribe to compactions: short for `subscribe(Compacted, callback)`."""
        return self.subscribe(Compacted, callback)

    def observe(self, event: Event) -> None:
        """Deliver an event to the callbacks that subscribed to its kind."""
        for subscription in self._subscriptions:
            if isinstance(event, subscription.kinds):
                try:
                    subscription.callback(event)
                except Exception as error:  # foreign code: it must not break the session
                    self._note(_failure(subscription.callback, event, error))

    def _end(self, subscription: "_Subscription") -> None:
        with self._lock:
            self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)

    def _note(self, failure: CallbackFailure) -> None:
        with self._lock:
            self._errors.append(failure)
        _log.warning("%s raised %s at %s on %s", failure.callback, failure.error, failure.place, failure.event)


class _Subscription:
    """A callback and its kinds of events, compared by identity."""

    def __init__(self, kinds: tuple[type[Event], ...], callback: Callable[..., object]) -> None:
        self.kinds = kinds
        self.callback = callback


def _kinds_of(kinds: object) -> tuple[type[Event], ...]:
    given: tuple[Any, ...] = kinds if isinstance(kinds, tuple) else get_args(kinds) or (kinds,)
    for kind in given or (None,):
        if kind not in get_args(Event):
            raise UsageError(f"not a kind of event: {kind!r}; use one of infold.core.events, or Event for all")
    return given


def _failure(callback: Callable[..., object], event: Event, error: Exception) -> CallbackFailure:
    return CallbackFailure(
        getattr(callback, "__qualname__", type(callback).__qualname__),
        str(event.__struct_config__.tag),
        type(error).__name__,
        raised_at(error),
    )
