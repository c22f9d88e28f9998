"""Ask whatever callable a caller gave as summariser, and turn what it gives or raises into an answer or a `ModelError`.

A summariser may give text, an `Answer`, a `Told` with its usage and cost, or the text piece by piece as it is written, with an
`Answer` or a `Told` of all of it as the last item (S3.10). One that takes too long has failed: the session must not hang on it.
Its text is cleaned here, before anything is counted or stored.
"""

import logging
from asyncio import get_running_loop, timeout, to_thread
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from inspect import isawaitable, iscoroutinefunction
from threading import Thread
from time import monotonic
from typing import TypeAlias, TypeVar, cast

from msgspec.structs import replace

from infold.core.judge import LONGEST_ANSWER, Answer, Told, readable
from infold.core.summary_request import SummaryRequest
from infold.engine.refusals import overflow_of
from infold.errors import (
    MAY_PASS,
    InfoldError,
    ModelError,
    ModelOverflow,
    SessionReentered,
    UsageError,
    kind_of,
    raised_at,
    reason_of,
)

NAME = "summariser"
"""What a summariser is called that does not tell its model."""

Written: TypeAlias = str | Answer | Told
Piece: TypeAlias = Callable[[str], None]

Summariser: TypeAlias = Callable[[SummaryRequest], Written | Iterable[Written]]
"""Anything that turns a request for a summary into text, at once or in pieces; what it raises is the model's failure."""

AsyncSummariser: TypeAlias = (
    Callable[[SummaryRequest], Awaitable[Written]] | Callable[[SummaryRequest], AsyncIterable[Written]] | Summariser
)
"""The same for async callers: awaited, or given in pieces; a plain function runs in a thread."""

Value = TypeVar("Value")

_OWN_FAULTS = (TypeError, AttributeError, NameError, NotImplementedError, ImportError)
"""What is wrong in the caller's own code, and is so again at the next try."""

_asking: ContextVar[tuple[object, ...]] = ContextVar("infold_asking", default=())
"""The sessions whose summariser is running here; tasks and the threads of `asyncio.to_thread` inherit it."""

_log = logging.getLogger(__name__)


def ask(summariser: Summariser, request: SummaryRequest, piece: Piece, *, seconds: float | None) -> Told:
    """Ask and wait, at most so long; raises `ModelOverflow` or `ModelError`."""
    began = monotonic()
    with _failures():
        told = _within(seconds, lambda: _gathered(summariser(request), piece))
    return _timed(told, began)


def check_sync(summariser: object) -> None:
    """Raise `UsageError` for a summariser that would have to be awaited by a caller that waits."""
    if _is_async(summariser):
        raise UsageError(
            "the summariser is async and nobody awaits it here; give a plain function, or use AsyncSession"
        )


@contextmanager
def asking_for(session: object) -> Iterator[None]:
    """Mark what runs in the block as this session's summariser."""
    token = _asking.set((*_asking.get(), session))
    try:
        yield
    finally:
        _asking.reset(token)


def check_not_asking(session: object) -> None:
    """Raise `SessionReentered` where a session is called by its own summariser, for which it waits."""
    if any(one is session for one in _asking.get()):
        raise SessionReentered


async def ask_async(
    summariser: AsyncSummariser, request: SummaryRequest, piece: Piece, *, seconds: float | None
) -> Told:
    """The same, awaited; a plain function runs in a thread."""
    began = monotonic()
    with _failures():
        limit = timeout(seconds)
        try:
            async with limit:
                told = await _awaited(summariser, request, piece)
        except TimeoutError:
            if seconds is None or not limit.expired():
                raise
            raise _too_slow(seconds) from None
    return _timed(told, began)


async def _awaited(summariser: AsyncSummariser, request: SummaryRequest, piece: Piece) -> Told:
    if iscoroutinefunction(summariser):
        return _told(await summariser(request))
    written = summariser(request) if _is_async(summariser) else await to_thread(cast(Summariser, summariser), request)
    if isinstance(written, AsyncIterable):
        gathering = _Gathering(piece)
        async for item in written:
            if not gathering.take(item):
                break
        return gathering.told()
    if isawaitable(written):
        return _told(await written)
    loop = get_running_loop()

    def tell(text: str) -> None:
        loop.call_soon_threadsafe(piece, text)

    return await to_thread(_gathered, written, tell)


def _is_async(summariser: object) -> bool:
    """Whether calling it only makes something to await or to iterate, so that no thread is needed."""
    call = getattr(summariser, "__call__", None)  # noqa: B004 - what stands behind it is looked at, not whether it is there
    return any(bool(getattr(code, "co_flags", 0) & 0x280) for code in (_code(summariser), _code(call)))


def _code(function: object) -> object:
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _gathered(written: Written | Iterable[Written], piece: Piece) -> Told:
    if isinstance(written, str | Answer | Told):
        return _told(written)
    if not isinstance(written, Iterable):
        raise _no_text(written)
    gathering = _Gathering(piece)
    for item in written:
        if not gathering.take(item):
            break
    return gathering.told()


class _Gathering:
    """A summary that comes in pieces: each is told as it comes, and what is said of the whole counts for it."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._pieces: list[str] = []
        self._length = 0
        self._whole: Answer | Told | None = None

    def take(self, item: Written) -> bool:
        """Take the next piece, or the whole; return whether there is room for more."""
        if isinstance(item, Answer | Told):
            self._whole = item
        elif not isinstance(item, str):
            raise _no_text(item)
        else:
            self._pieces.append(item)
            self._length += len(item)
            self._piece(readable(item))
        return self._length <= LONGEST_ANSWER

    def told(self) -> Told:
        """The summary, after the last piece."""
        return _told("".join(self._pieces) if self._whole is None else self._whole)


def _told(written: Written) -> Told:
    """Return an answer whose text can be counted and stored, whatever a model wrote."""
    if not isinstance(written, str | Answer | Told):
        raise _no_text(written)
    told = written if isinstance(written, Told) else Told(Answer(written) if isinstance(written, str) else written)
    answer = told.answer
    if not isinstance(answer, Answer) or not isinstance(answer.text, str):
        raise _no_text(answer.text if isinstance(answer, Answer) else answer)
    return replace(told, answer=replace(answer, text=readable(answer.text)))


def _timed(told: Told, began: float) -> Told:
    return replace(
        told,
        model=told.model or NAME,
        duration_ms=told.duration_ms or round((monotonic() - began) * 1000),
    )


def _within(seconds: float | None, act: Callable[[], Value]) -> Value:
    """What an act gives, if it ends in time; one that does not is left behind in its thread."""
    if seconds is None:
        return act()
    outcome: list[Value] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(act())
        except BaseException as error:  # raised again where the caller waits
            failure.append(error)

    thread = Thread(target=copy_context().run, args=(run,), name="infold-summariser", daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise _too_slow(seconds)
    return outcome[0]


def _no_text(written: object) -> ModelError:
    problem = f"gave {kind_of(written)} where text is wanted"
    return _lasting(ModelError(NAME, problem, remedy="return text, or an Answer"))


def _too_slow(seconds: float) -> ModelError:
    problem = f"gave no answer within {seconds:g} seconds"
    return _lasting(ModelError(NAME, problem, remedy="allow it more time, or name another model"))


def _lasting(error: ModelError) -> ModelError:
    error.is_lasting = True
    return error


@contextmanager
def _failures() -> Iterator[None]:
    """Raise whatever the summariser raises as its failure, with an overflow told apart, and log why it failed.

    The summariser is the caller's own code. Errors of ours that are no model's pass as they are.
    """
    try:
        yield
    except ModelOverflow:
        raise
    except SessionReentered as error:
        raise _warned(_lasting(ModelError(NAME, str(error))), "") from error
    except InfoldError as error:
        if isinstance(error, ModelError):
            _warned(error, "")
        raise
    except Exception as error:
        failure = _failure(error)
        raise failure if isinstance(failure, ModelOverflow) else _warned(failure, f" at {raised_at(error)}") from error


def _failure(error: Exception) -> ModelError:
    """Return our error for what a summariser raised, with the status that an SDK's exception has."""
    try:
        overflow, words, status = overflow_of(error), str(error), _status(error)
    except Exception:  # an exception that cannot be read is named all the same
        return ModelError(NAME, f"raised {type(error).__name__}")
    if overflow is not None:
        return ModelOverflow(NAME, overflow.limit_tokens)
    failure = ModelError(NAME, f"raised {type(error).__name__}: {words}")
    failure.status = status
    refused = failure.status is not None and 400 <= failure.status < 500 and failure.status not in MAY_PASS
    failure.is_lasting = refused or isinstance(error, _OWN_FAULTS)
    return failure


def _status(error: Exception) -> int | None:
    response = getattr(error, "response", None)
    given = (getattr(source, name, None) for source in (error, response) for name in ("status_code", "status", "code"))
    return next((one for one in given if type(one) is int and 100 <= one < 600), None)


def _warned(error: ModelError, where: str) -> ModelError:
    """Log why a summariser failed: its own words without secrets, and where the caller's code raised it."""
    _log.warning("the summariser failed%s: %s", where, reason_of(error))
    return error
