"""Drive a flow: the same few lines, once for callers that wait and once for callers that await.

A driver performs what the flow asks for and sends the outcome back; an `InfoldError` is thrown into the flow, which may have a
way around it. Anything else ends the flow, with what was appended before standing.
"""

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, assert_never

from msgspec import Struct

from infold.core.entries import Entry
from infold.core.events import Event
from infold.core.summary import SummaryRequest
from infold.engine.effects import Append, Ask, Effect, Publish, Told
from infold.engine.flow import Flow
from infold.errors import InfoldError

__all__ = ["AsyncWorld", "World", "drive", "drive_async"]

Outcome = TypeVar("Outcome")


class World(Struct, frozen=True):
    """What a sync flow may touch: a store's append for one session, a summariser, observers."""

    append: Callable[[Sequence[Entry], int], int]
    ask: Callable[[SummaryRequest], Told]
    publish: Callable[[Event], None]


class AsyncWorld(Struct, frozen=True):
    """The same for async callers; stores are sync and run in a thread."""

    append: Callable[[Sequence[Entry], int], int]
    ask: Callable[[SummaryRequest], Awaitable[Told]]
    publish: Callable[[Event], None]


def drive(flow: Flow[Outcome], world: World) -> Outcome:
    """Run a flow to its end."""
    effect = _begin(flow)
    while isinstance(effect, Append | Ask | Publish):
        try:
            outcome = _perform(effect, world)
        except InfoldError as error:
            effect = _throw(flow, error)
        else:
            effect = _send(flow, outcome)
    return effect.value


async def drive_async(flow: Flow[Outcome], world: AsyncWorld) -> Outcome:
    """Run a flow to its end, awaiting the summariser and keeping the store out of the event loop."""
    effect = _begin(flow)
    while isinstance(effect, Append | Ask | Publish):
        try:
            outcome = await _perform_async(effect, world)
        except InfoldError as error:
            effect = _throw(flow, error)
        else:
            effect = _send(flow, outcome)
    return effect.value


class _Ended(Generic[Outcome]):
    """A flow's last word."""

    def __init__(self, value: Outcome) -> None:
        self.value = value


def _begin(flow: Flow[Outcome]) -> "Effect | _Ended[Outcome]":
    return _send(flow, None)


def _send(flow: Flow[Outcome], outcome: object) -> "Effect | _Ended[Outcome]":
    try:
        return flow.send(outcome)
    except StopIteration as stop:
        return _Ended(stop.value)


def _throw(flow: Flow[Outcome], error: InfoldError) -> "Effect | _Ended[Outcome]":
    try:
        return flow.throw(error)
    except StopIteration as stop:
        return _Ended(stop.value)


def _perform(effect: Effect, world: World) -> object:
    match effect:
        case Append():
            return world.append(effect.entries, effect.expected)
        case Ask():
            return world.ask(effect.request)
        case Publish():
            for event in effect.events:
                world.publish(event)
            return None
        case _:
            assert_never(effect)


async def _perform_async(effect: Effect, world: AsyncWorld) -> object:
    match effect:
        case Append():
            return await to_thread(world.append, effect.entries, effect.expected)
        case Ask():
            return await world.ask(effect.request)
        case Publish():
            for event in effect.events:
                world.publish(event)
            return None
        case _:
            assert_never(effect)
