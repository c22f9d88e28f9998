"""Drive a flow: the same few lines, once for callers that wait and once for callers that await.

A driver performs what the flow asks for and sends the outcome back; an `InfoldError` is thrown into the flow, which may have a
way around it. Anything else closes the flow at once, with what was appended before standing. A lock that the flow took is given
back when the flow ends, however it ends.
"""

from asyncio import CancelledError, ensure_future, shield, to_thread, wrap_future
from asyncio import Future as LoopFuture
from asyncio import sleep as sleep_async
from asyncio import wait as wait_for
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, closing
from time import sleep
from typing import Generic, TypeVar, assert_never

from msgspec import Struct

from infold.core.entries import Checkpoint, Entry
from infold.core.events import Event
from infold.core.judge import Told
from infold.core.log import Log
from infold.core.summary_request import SummaryRequest
from infold.engine.ahead import Preparation
from infold.engine.call import Flow
from infold.engine.effects import (
    EFFECTS,
    Announce,
    Append,
    Ask,
    Consult,
    Effect,
    Fetch,
    Guidance,
    Hold,
    Keep,
    Load,
    Publish,
    ReadMedia,
    Release,
    Wait,
)
from infold.errors import InfoldError
from infold.ports import Occasion

Outcome = TypeVar("Outcome")


def _keep_nothing(_: Mapping[str, bytes]) -> None:
    pass


def _read_nothing(_: Sequence[str]) -> Mapping[str, bytes]:
    return {}


class Surroundings(Struct, frozen=True, kw_only=True):
    """What every flow may touch: one session in a store, plugins, observers. All of it is sync.

    A store without media keeps none.
    """

    append: Callable[[Sequence[Entry], int], int]
    load: Callable[[], Log]
    hold: Callable[[], AbstractContextManager[bool]]
    publish: Callable[[Event], None]
    consult: Callable[[Occasion], Guidance]
    announce: Callable[[Checkpoint], None]
    keep_media: Callable[[Mapping[str, bytes]], None] = _keep_nothing
    read_media: Callable[[Sequence[str]], Mapping[str, bytes]] = _read_nothing


class World(Surroundings, frozen=True, kw_only=True):
    """The surroundings of a sync flow, with its summariser and what was prepared ahead."""

    ask: Callable[[SummaryRequest], Told]
    fetch: Callable[[bool], Preparation | None]
    wait: Callable[[float], None] = sleep


class AsyncWorld(Surroundings, frozen=True, kw_only=True):
    """The same for async callers; the store, the plugins and the lock run in a thread.

    `append_soon` is for a store that writes in a thread of its own: no other needs to wait for that one.
    """

    ask: Callable[[SummaryRequest], Awaitable[Told]]
    fetch: Callable[[bool], Awaitable[Preparation | None]]
    wait: Callable[[float], Awaitable[None]] = sleep_async
    append_soon: Callable[[Sequence[Entry], int], Future[int]] | None = None


def drive(flow: Flow[Outcome], world: World) -> Outcome:
    """Run a flow to its end."""
    with closing(flow), ExitStack() as held:
        effect = _send(flow, None)
        while isinstance(effect, EFFECTS):
            try:
                outcome = _perform(effect, world, held)
            except InfoldError as error:
                effect = _throw(flow, error)
            else:
                effect = _send(flow, outcome)
        return effect.value


async def drive_async(flow: Flow[Outcome], world: AsyncWorld) -> Outcome:
    """Run a flow to its end, awaiting the summariser and keeping the store out of the event loop."""
    with closing(flow), ExitStack() as held:
        effect = _send(flow, None)
        while isinstance(effect, EFFECTS):
            try:
                outcome = await _perform_async(effect, world, held)
            except InfoldError as error:
                effect = _throw(flow, error)
            else:
                effect = _send(flow, outcome)
        return effect.value


class _Ended(Generic[Outcome]):
    """A flow's last word."""

    def __init__(self, value: Outcome) -> None:
        self.value = value


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


def _perform(effect: Effect, world: World, held: ExitStack) -> object:
    match effect:
        case Ask():
            return world.ask(effect.request)
        case Fetch():
            return world.fetch(effect.wait)
        case Wait():
            world.wait(effect.seconds)
            return None
        case _:
            return _touch(effect, world, held)


async def _perform_async(effect: Effect, world: AsyncWorld, held: ExitStack) -> object:
    match effect:
        case Ask():
            return await world.ask(effect.request)
        case Fetch():
            return await world.fetch(effect.wait)
        case Wait():
            await world.wait(effect.seconds)
            return None
        case Publish():  # observers belong to the loop they subscribed in
            return _touch(effect, world, held)
        case Append() if world.append_soon is not None:
            return await _to_the_end(wrap_future(world.append_soon(effect.entries, effect.expected)))
        case _:
            return await _to_the_end(ensure_future(to_thread(_touch, effect, world, held)))


async def _to_the_end(touching: "LoopFuture[Outcome]") -> Outcome:
    """What a thread does, to the end: what was begun there is done or not, also for a task that is cancelled."""
    try:
        return await shield(touching)
    except CancelledError:
        await wait_for({touching})
        raise


def _touch(effect: Effect, world: Surroundings, held: ExitStack) -> object:
    match effect:
        case Append():
            return world.append(effect.entries, effect.expected)
        case Keep():
            world.keep_media(effect.media)
        case ReadMedia():
            return world.read_media(effect.digests)
        case Load():
            return world.load()
        case Hold():
            return _held(world, held)
        case Release():
            held.close()
        case Consult():
            return world.consult(effect.occasion)
        case Announce():
            world.announce(effect.checkpoint)
        case Publish():
            for event in effect.events:
                world.publish(event)
        case Ask() | Fetch() | Wait():
            raise AssertionError(f"{effect} is not for every world")
        case _:
            assert_never(effect)
    return None


def _held(world: Surroundings, held: ExitStack) -> bool:
    """Try for the lock; what an unsuccessful try took is given back at once."""
    with ExitStack() as attempt:
        if not attempt.enter_context(world.hold()):
            return False
        held.enter_context(attempt.pop_all())
    return True
