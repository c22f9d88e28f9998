"""Call the summariser and the observers that a caller gave to a session.

A summariser returns text, an `Answer`, an answer with usage and cost, or an iterable of pieces with either kind of answer for
all of it as the last item. Its text is cleaned here, before it is counted or stored. Whatever it raises becomes a `ModelError`;
one that takes too long has failed, so that a session does not hang on it.
"""

import logging
import re
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Event as Signal
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from msgspec.structs import replace

from infold.core.events import Event
from infold.core.judge import LONGEST_ANSWER, Answer, ModelAnswer, clean_text
from infold.core.summary_request import SummaryRequest
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
from infold.formats.overflow import Overflow, recognise
from infold.observers.bus import Bus
from infold.ports import Summariser, SummariserOutput

NAME = "summariser"
"""The name of a summariser that does not name its model."""

_OWN_FAULTS = (TypeError, AttributeError, NameError, NotImplementedError, ImportError)
"""Faults of the caller's own code, which a second try does not mend."""

_STATUS_ONLY = re.compile(r"(?:error code:?\s*)?\d{3}|", re.IGNORECASE)
"""The text of an SDK's exception for a refusal without a body."""

_COROUTINE_FLAGS = 0x280
"""`CO_COROUTINE` and `CO_ASYNC_GENERATOR`."""

_asking: ContextVar[tuple[object, ...]] = ContextVar("infold_asking", default=())
"""The sessions whose summariser is running in this context; tasks and threads started there inherit it."""

_log = logging.getLogger(__name__)

OnPiece = Callable[[str], None]
T = TypeVar("T")


class Callbacks:
    """Calls the code of a session's caller, in the caller's thread, for one operation after another.

    `cancel` ends an operation at its next step: whatever waits here is woken, and `check` raises from then on.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.is_cancelled = False
        self._waiting: set[Signal] = set()

    def detach(self) -> "Callbacks":
        """Return callbacks for an operation in the background, which is cancelled on its own."""
        return Callbacks(self.bus)

    def cancel(self) -> None:
        """Cancel the operation; may be called from any thread."""
        self.is_cancelled = True
        for signal in tuple(self._waiting):
            signal.set()

    def check(self) -> None:
        """Raise `CancelledError` once the operation was cancelled."""
        if self.is_cancelled:
            raise CancelledError

    def pause(self, seconds: float) -> None:
        """Sleep, unless cancelled."""
        self._wait(Signal(), seconds)

    def wait(self, future: Future[Any], seconds: float | None) -> bool:
        """Wait for a future and return whether it is done in time; raise `CancelledError` when cancelled."""
        signal = Signal()
        future.add_done_callback(lambda _: signal.set())
        self._wait(signal, seconds)
        return future.done()

    def _wait(self, signal: Signal, seconds: float | None) -> None:
        self._waiting.add(signal)
        try:
            self.check()
            signal.wait(seconds)
            self.check()
        finally:
            self._waiting.discard(signal)

    def publish(self, *events: Event) -> None:
        """Pass events to the observers."""
        for event in events:
            self.bus.observe(event)

    def summarise(
        self, summariser: Summariser, request: SummaryRequest, on_piece: OnPiece, *, seconds: float | None
    ) -> ModelAnswer:
        """Call the summariser, for at most so long; raise `ModelOverflow` or `ModelError` if it fails."""
        self.check()
        began = monotonic()
        with _failures():
            told = self._call(summariser, request, on_piece, seconds)
            if told.reply is not None and not request.is_native:
                raise _not_text(told.reply)
        duration_ms = told.duration_ms or round((monotonic() - began) * 1000)
        return replace(told, model=told.model or NAME, duration_ms=duration_ms)

    def _call(
        self, summariser: Summariser, request: SummaryRequest, on_piece: OnPiece, seconds: float | None
    ) -> ModelAnswer:
        if seconds is None:
            return gather(summariser(request), on_piece)
        return self.run_in_thread(lambda: gather(summariser(request), on_piece), seconds)

    def run_in_thread(self, act: Callable[[], T], seconds: float | None) -> T:
        """Run an act that may never return, and leave it behind if it takes too long or the operation is cancelled."""
        outcome: Future[T] = Future()
        target = copy_context().run
        Thread(target=target, args=(settle, outcome, act), name="infold-summariser", daemon=True).start()
        if not self.wait(outcome, seconds):
            assert seconds is not None
            raise too_slow(seconds)
        return outcome.result()


def settle(outcome: Future[T], act: Callable[[], T]) -> None:
    try:
        outcome.set_result(act())
    except BaseException as error:  # raised again by the thread that waits
        outcome.set_exception(error)


# Re-entrancy: a session that waits for its summariser cannot serve it.


@contextmanager
def summarising_for(session: object) -> Iterator[None]:
    """Mark what runs in the block as this session's summariser."""
    token = _asking.set((*_asking.get(), session))
    try:
        yield
    finally:
        _asking.reset(token)


def check_not_summarising(session: object) -> None:
    """Raise `SessionReentered` if a session is called by its own summariser."""
    asking = _asking.get()
    if asking and any(one is session for one in asking):
        raise SessionReentered


def check_sync(summariser: object) -> None:
    """Raise `UsageError` for an async summariser."""
    if is_async(summariser):
        raise UsageError("Session needs a synchronous summariser; give a plain function, or use AsyncSession")


def is_async(summariser: object) -> bool:
    """Return whether calling it only makes something to await or to iterate."""
    call = getattr(summariser, "__call__", None)  # noqa: B004 - its code is inspected
    functions = [getattr(function, "__func__", function) for function in (summariser, call)]
    codes = [getattr(function, "__code__", None) for function in functions]
    return any(getattr(code, "co_flags", 0) & _COROUTINE_FLAGS for code in codes)


# Output of a summariser.


def gather(output: SummariserOutput | Iterable[SummariserOutput], on_piece: OnPiece) -> ModelAnswer:
    """Return a summary that came at once or in pieces; raise `ModelError` if it is anything else."""
    if isinstance(output, str | Answer | ModelAnswer) or _is_reply(output):
        return as_told(output)
    if not isinstance(output, Iterable):
        raise _not_text(output)
    gathering = Gathering(on_piece)
    for item in output:
        if not gathering.add(item):
            break
    return gathering.told()


class Gathering:
    """A summary that comes in pieces: each is passed on; an answer among them counts for the whole."""

    def __init__(self, on_piece: OnPiece) -> None:
        self._on_piece = on_piece
        self._pieces: list[str] = []
        self._length = 0
        self._whole: Answer | ModelAnswer | None = None

    def add(self, item: SummariserOutput) -> bool:
        """Take the next piece, or the whole; return whether there is room for more."""
        if isinstance(item, Answer | ModelAnswer):
            self._whole = item
        elif not isinstance(item, str):
            raise _not_text(item)
        else:
            self._pieces.append(item)
            self._length += len(item)
            self._on_piece(clean_text(item))
        return self._length <= LONGEST_ANSWER

    def told(self) -> ModelAnswer:
        """Return the summary after the last piece."""
        return as_told("".join(self._pieces) if self._whole is None else self._whole)


def as_told(output: object) -> ModelAnswer:
    """Return a summariser's output with its text cleaned, so that it can be counted and stored."""
    if isinstance(output, str):
        output = Answer(output)
    told = ModelAnswer(output) if isinstance(output, Answer) else output
    if _is_reply(told):
        return ModelAnswer(Answer(""), reply=told)
    if not isinstance(told, ModelAnswer):
        raise _not_text(output)
    answer = told.answer
    if not isinstance(answer, Answer) or not isinstance(answer.text, str):
        raise _not_text(answer.text if isinstance(answer, Answer) else answer)
    return replace(told, answer=replace(answer, text=clean_text(answer.text)))


def _is_reply(output: object) -> bool:
    """Return whether this is a provider's reply as its SDK or its JSON has it."""
    return isinstance(output, Mapping) or hasattr(output, "model_dump")


# Failures.


def too_slow(seconds: float) -> ModelError:
    """Return the failure of a summariser that ran out of time."""
    problem = f"gave no answer within {seconds:g} seconds"
    return _lasting(ModelError(NAME, problem, remedy="allow it more time, or name another model"))


def _not_text(output: object) -> ModelError:
    problem = f"gave {kind_of(output)} where text is wanted"
    return _lasting(ModelError(NAME, problem, remedy="return text, or an Answer"))


def _lasting(error: ModelError) -> ModelError:
    error.is_lasting = True
    return error


@contextmanager
def _failures() -> Iterator[None]:
    """Translate what the caller's summariser raises into a `ModelError`, an overflow into `ModelOverflow`, and log why.

    Other errors of infold pass unchanged.
    """
    try:
        yield
    except ModelOverflow:
        raise
    except SessionReentered as error:
        raise _warn(_lasting(ModelError(NAME, str(error))), "") from error
    except InfoldError as error:
        if isinstance(error, ModelError):
            _warn(error, "")
        raise
    except Exception as error:
        failure = _failure(error)
        raise failure if isinstance(failure, ModelOverflow) else _warn(failure, f" at {raised_at(error)}") from error


def _failure(error: Exception) -> ModelError:
    """Return our error for what a summariser raised, with the status that an SDK's exception has."""
    try:
        overflow, words, status = overflow_from_error(error), str(error), _status(error)
    except Exception:  # an exception that cannot be read is still named
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


def _warn(error: ModelError, where: str) -> ModelError:
    """Log why a summariser failed: its message without secrets, and where the caller's code raised it."""
    _log.warning("the summariser failed%s: %s", where, reason_of(error))
    return error


def overflow_from_error(error: object) -> Overflow | None:
    """Return the overflow that an SDK's exception or the body of a refusal reports; `None` if it is about something else."""
    if isinstance(error, Overflow):
        return error
    if isinstance(error, Mapping | str | bytes):
        return recognise(None, error)
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    code = status if isinstance(status, int) else None
    if isinstance(body, Mapping | str | bytes) and body:
        return recognise(code, body)
    text = str(error)
    return recognise(code, "" if _STATUS_ONLY.fullmatch(text.strip()) else text)
