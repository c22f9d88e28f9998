"""One effect fails, whichever it is: nothing acknowledged is lost, nothing is doubled, and the next prompt is answered.

Each effect of a life fails once: before it is carried out, or after it and unacknowledged; with an error of the store, with an
abort, or by cancelling the task that waits for it. Afterwards the caller makes the same call again and lives on, or a new
session on the same store goes on with the next prompt.
"""

import asyncio
import os
from collections.abc import Iterator
from inspect import isawaitable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from infold.errors import StoreBroken, UsageError
from infold.ports import FullStore
from infold.session.async_session import AsyncSession
from infold.session.report import Ready
from infold.session.session import Session
from infold.stores.postgres import PostgresStore
from infold.stores.sqlite import SqliteStore

from ..contract.postgres_server import database, postgres_server  # noqa: TID252 - `tests` is no package to name
from .faults import (
    MODES,
    Abort,
    CancellingTrap,
    Mode,
    Move,
    Trap,
    TrappedStore,
    check_lock,
    check_messages,
    check_ready,
    key_of,
    moves,
    next_prompt,
    settings,
)

pytestmark = pytest.mark.slow

EVERY = os.environ.get("INFOLD_FAULTS") == "every"
"""Whether each effect fails in every way; else each fails in some, and its neighbours in the others."""

STRIDE = 7
"""One way in so many is taken for each effect; it has no divisor in common with the number of ways."""

FAILED = (Abort, StoreBroken, asyncio.CancelledError)
Kept: TypeAlias = Session | AsyncSession


class Way(NamedTuple):
    """How an effect fails, and who goes on."""

    mode: Mode
    kind: str
    late: bool
    anew: bool


def ways(*kinds: str) -> list[Way]:
    """Every way with these kinds of failure."""
    return [Way(*way) for way in product(MODES, kinds, (False, True), (False, True))]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL server, started once."""
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FullStore]:
    """A store in either database."""
    if request.param == "sqlite":
        with SqliteStore(tmp_path / "sessions.db") as opened:
            yield opened
    else:
        with database(request.getfixturevalue("server")) as address, PostgresStore(address) as opened_there:
            yield opened_there


AWAITED = [pytest.param(False, id="sync"), pytest.param(True, id="async", marks=pytest.mark.long)]


@pytest.mark.parametrize("awaited", AWAITED)
def test_one_failed_effect_loses_and_doubles_nothing(store: FullStore, awaited: bool) -> None:
    """B13, S3.1: at every effect, by an error of the store or an abort, before it or after, whole lists or new messages."""
    found = asyncio.run(failures(store, awaited, ways("broken", "abort")))

    assert not found, "\n".join(found)


def test_one_cancelled_effect_loses_and_doubles_nothing(store: FullStore) -> None:
    """B13: the same where the task is cancelled and the effect is carried out all the same, with nobody waiting for it."""
    found = asyncio.run(failures(store, True, ways("cancelled")))

    assert not found, "\n".join(found)


async def failures(store: FullStore, awaited: bool, ways: list[Way]) -> list[str]:
    """What did not hold, with the effect that failed and the way it did."""
    found: list[str] = []
    for at in range(1, await effects(store, awaited) + 1):
        for way in ways if EVERY else ways[at % STRIDE :: STRIDE]:
            trap = trap_for(way, at)
            try:
                await live(store, f"{awaited} {at} {' '.join(map(str, way))}", way, trap, awaited)
            except (Exception, Abort) as error:
                found.append(f"{at} {trap.passed[at - 1 : at]}, {way}: {type(error).__name__} {error}")
    return found


async def effects(store: FullStore, awaited: bool) -> int:
    """How many effects a life has in which none fails; it has some of every kind."""
    trap = Trap()
    for mode in MODES:
        trap = Trap()
        await live(store, f"{awaited} {mode} untroubled", Way(mode, "none", late=False, anew=False), trap, awaited)
    assert set(trap.passed) == {"append", "load", "hold", "release", "ask", "publish"}
    return len(trap.passed)


async def live(store: FullStore, name: str, way: Way, trap: Trap, awaited: bool) -> None:
    """Live until an effect fails, and then on, by the same session or a new one; check what must hold."""
    key, trapped, acknowledged = key_of(name), TrappedStore(store, trap), list[str]()
    session = await opened(trapped, name, trap, awaited)
    for move in moves(way.mode):
        try:
            outcome = await called(session, move, trap)
        except FAILED:
            assert trap.sprung
            if way.anew:
                acknowledged.append(await go_on(await opened(trapped, name, trap, awaited), way.mode, move.number))
                break
            outcome = await called_again(session, move, trap)
        acknowledged.append(move.takes_in)
        if isinstance(outcome, Ready):
            check_ready(outcome)
    check_messages(store, key, list(filter(None, acknowledged)))
    check_lock(store, key)


async def go_on(session: Kept, mode: Mode, number: int) -> str:
    """Ask a session that was opened anew the next prompt, and have it take in a reply; gives what it was asked."""
    move, trap = next_prompt(mode, number), Trap()
    check_ready(await called(session, move, trap))
    said = {"choices": [{"message": {"role": "assistant", "content": "Far."}, "finish_reason": "stop"}]}
    await called(session, Move("record", (said,)), trap)
    return move.takes_in


async def opened(store: TrappedStore, name: str, trap: Trap, awaited: bool) -> Kept:
    """The session of that name; opened once more if that fails."""
    if not awaited:
        try:
            return Session(store, name, settings(trap))
        except FAILED:
            return Session(store, name, settings(trap))
    try:
        return await trap.watch(AsyncSession.open(store, name, settings(trap, awaited=True)))
    except FAILED:
        return await AsyncSession.open(store, name, settings(trap, awaited=True))


async def called(session: Kept, move: Move, trap: Trap) -> Any:
    """What a call gives."""
    outcome = getattr(session, move.verb)(*move.given)
    return await trap.watch(outcome) if isawaitable(outcome) else outcome


async def called_again(session: Kept, move: Move, trap: Trap) -> Any:
    """What a call gives that is made a second time; what was undone before the failure cannot be undone again."""
    try:
        return await called(session, move, trap)
    except UsageError:
        assert move.verb == "undo"
        return None


def trap_for(way: Way, at: int) -> Trap:
    """The trap that springs that way."""
    if way.kind == "cancelled":
        return CancellingTrap(at, late=way.late)
    return Trap(at, late=way.late, error=broken if way.kind == "broken" else Abort)


def broken() -> StoreBroken:
    """A store that cannot go on for the moment."""
    return StoreBroken("the store", "went away", remedy="try again")
