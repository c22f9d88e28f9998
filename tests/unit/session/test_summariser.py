"""Asking whatever callable a caller gave."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from infold.core.judge import LONGEST_ANSWER, Answer, ModelAnswer, hard_fault
from infold.core.messages import Usage
from infold.core.summary_request import SummaryRequest
from infold.errors import ModelError, ModelOverflow, SessionReentered, StoreBroken, UsageError
from infold.observers.bus import Bus
from infold.ports import AsyncSummariser, Summariser
from infold.session.summariser import NAME, Callbacks, check_not_summarising, check_sync, summarising_for
from infold.session.threads import LoopCallbacks, LoopCalls

REQUEST = SummaryRequest("be brief", (), 100)
PATIENCE_SECONDS = 30.0
asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")


def asked(
    summariser: Summariser, *, seconds: float | None = PATIENCE_SECONDS, pieces: list[str] | None = None
) -> ModelAnswer:
    """What a summariser says to a caller who waits."""
    return Callbacks(Bus()).summarise(
        summariser, REQUEST, (pieces if pieces is not None else []).append, seconds=seconds
    )


def awaited(
    summariser: AsyncSummariser, *, seconds: float | None = PATIENCE_SECONDS, pieces: list[str] | None = None
) -> ModelAnswer:
    """What a summariser says to a caller who awaits."""
    heard = pieces if pieces is not None else []
    return asyncio.run(summarise(summariser, heard.append, seconds=seconds))


async def summarise(summariser: Any, on_piece: Callable[[str], None], *, seconds: float | None) -> ModelAnswer:
    """Call a summariser from a thread, as an operation of an async session does."""
    call = partial(LoopCallbacks(Bus()).summarise, summariser, REQUEST, on_piece, seconds=seconds)
    return await asyncio.to_thread(LoopCalls.here().context().run, call)


Way = Callable[..., ModelAnswer]
WAYS: list[Way] = [asked, awaited]


def saying(written: Any) -> Callable[[SummaryRequest], Any]:
    """A summariser that always says the same."""
    return lambda _: written


def raising(error: BaseException) -> Callable[[SummaryRequest], str]:
    """A summariser that fails."""

    def summariser(_: SummaryRequest) -> str:
        raise error

    return summariser


def streaming(_: SummaryRequest) -> Iterator[str]:
    """A summariser that writes piece by piece."""
    yield from ("The parser ", "was ", "ported.")


# What it may give.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seconds", [None, PATIENCE_SECONDS])
def test_text_is_an_answer(way: Way, seconds: float | None) -> None:
    """B5: plain text counts as finished, under a name that stands for whoever wrote it."""
    told = way(saying("ported"), seconds=seconds)

    assert (told.answer, told.model) == (Answer("ported"), NAME)
    assert (told.usage, told.cost) == (None, 0.0)
    assert told.duration_ms >= 0


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_says_how_it_ended(way: Way) -> None:
    """B5: a cut-off or tool-calling answer reaches the judge as that."""
    answer = Answer("ported", finish="length", calls_tools=True)

    assert way(saying(answer)).answer == answer


@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_of_an_answer_is_kept(way: Way) -> None:
    """S3.6, S3.7: model, usage, price and time as the summariser has them."""
    told = ModelAnswer(Answer("ported"), "gpt-x", Usage(input=5), 0.5, 1_200)

    assert way(saying(told)) == told


@pytest.mark.parametrize("way", WAYS)
def test_pieces_are_told_as_they_come(way: Way) -> None:
    """S3.10: a summary that is streamed is heard of piece by piece, in order, and is one in the end."""
    pieces: list[str] = []
    told = way(streaming, pieces=pieces)

    assert pieces == ["The parser ", "was ", "ported."]
    assert told.answer == Answer("The parser was ported.")


@pytest.mark.parametrize("way", WAYS)
def test_any_iterable_of_text_will_do(way: Way) -> None:
    """S3.10: a list of pieces is as good as a generator; nothing at all is an empty summary."""
    assert way(saying(["a", "b"])).answer.text == "ab"
    assert way(saying([])).answer.text == ""


WHOLE = ModelAnswer(Answer("ported.", "length"), "gpt-x", Usage(input=5), 0.5, 1_200)


def telling(last: Any) -> Callable[[SummaryRequest], Iterator[Any]]:
    """A summariser that writes piece by piece, and in the end says what it took."""

    def summariser(_: SummaryRequest) -> Iterator[Any]:
        yield from ("por", "ted", last)

    return summariser


async def telling_later(_: SummaryRequest) -> AsyncIterator[str | ModelAnswer]:
    """The same, awaited."""
    for item in ("por", "ted", WHOLE):
        yield item


@pytest.mark.parametrize(
    ("way", "summariser"), [(asked, telling(WHOLE)), (awaited, telling(WHOLE)), (awaited, telling_later)]
)
def test_a_stream_may_end_with_what_it_took(way: Way, summariser: Any) -> None:
    """S3.10, S3.6: after the pieces a model's adapter tells the whole, with usage and price, and that counts."""
    pieces: list[str] = []

    assert way(summariser, pieces=pieces) == WHOLE
    assert pieces == ["por", "ted"]


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_may_end_with_an_answer(way: Way) -> None:
    """S3.10, B5: that a streamed summary was cut off reaches the judge."""
    assert way(telling(Answer("ported", "length"))).answer == Answer("ported", "length")


# Awaited ones.


async def said(_: SummaryRequest) -> str:
    """A summariser that is awaited."""
    await asyncio.sleep(0)
    return "ported"


async def written(_: SummaryRequest) -> AsyncIterator[str]:
    """A summariser that is awaited piece by piece."""
    for text in ("por", "ted"):
        await asyncio.sleep(0)
        yield text


class Saying:
    """Summarisers that are methods or objects."""

    async def say(self, _: SummaryRequest) -> str:
        """Awaited."""
        return "ported"

    async def write(self, _: SummaryRequest) -> AsyncIterator[str]:
        """Awaited piece by piece."""
        yield "ported"

    async def __call__(self, _: SummaryRequest) -> str:
        """Awaited."""
        return "ported"


@pytest.mark.parametrize(
    "summariser",
    [said, written, Saying().say, Saying().write, Saying(), partial(said), partial(written), lambda one: said(one)],
    ids=["function", "generator", "method", "generator method", "object", "partial", "partial generator", "lambda"],
)
def test_whatever_can_be_awaited_is(summariser: AsyncSummariser) -> None:
    """B23: coroutine functions, async generators, methods, objects and wrappers of them all answer."""
    assert awaited(summariser).answer.text == "ported"


def test_awaited_pieces_are_told_as_they_come() -> None:
    """S3.10: the same for a summary that is awaited."""
    pieces: list[str] = []
    awaited(written, pieces=pieces)

    assert pieces == ["por", "ted"]


def test_a_plain_function_does_not_stop_the_loop() -> None:
    """B18: it runs in a thread beside the loop, which knows who asked."""
    seen: list[tuple[bool, str]] = []

    def summariser(_: SummaryRequest) -> str:
        seen.append((current_thread() is main_thread(), asked_by.get()))
        return "ported"

    async def run() -> None:
        asked_by.set("the session")
        await summarise(summariser, print, seconds=PATIENCE_SECONDS)

    asyncio.run(run())

    assert seen == [(False, "the session")]


def test_a_plain_stream_does_not_stop_the_loop() -> None:
    """S3.10, B18: pieces of a plain generator are waited for in a thread, and passed on in their order."""
    threads: list[bool] = []
    pieces: list[str] = []

    def summariser(_: SummaryRequest) -> Iterator[str]:
        for text in ("por", "ted"):
            threads.append(current_thread() is main_thread())
            yield text

    assert awaited(summariser, pieces=pieces).answer.text == "ported"
    assert pieces == ["por", "ted"]
    assert threads == [False, False]


def test_a_thread_knows_who_asked() -> None:
    """B22: traces follow into the thread that waits for a summariser."""
    seen: list[str] = []

    def summariser(_: SummaryRequest) -> str:
        seen.append(asked_by.get())
        return "ported"

    asked_by.set("the session")
    asked(summariser)

    assert seen == ["the session"]


@pytest.mark.parametrize("summariser", [said, written, Saying().say, Saying().write, Saying()])
def test_who_waits_cannot_await(summariser: AsyncSummariser) -> None:
    """B10: an async summariser in a session that waits is a mistake, and is told before anything is asked."""
    with pytest.raises(UsageError, match="use AsyncSession"):
        check_sync(summariser)
    for plain in (streaming, saying("ported"), None):
        check_sync(plain)


# Failures.


@pytest.mark.parametrize("way", WAYS)
def test_whatever_it_raises_is_its_failure(way: Way) -> None:
    """B10: the error says what was raised, and has it as its cause."""
    error = ConnectionResetError("peer went away")
    with pytest.raises(ModelError, match=f"{NAME}: raised ConnectionResetError: peer went away") as caught:
        way(raising(error))

    assert caught.value.__cause__ is error
    assert not isinstance(caught.value, ModelOverflow)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", [None, 17, ["a", 3]])
def test_what_is_no_text_is_a_failure(way: Way, given: object) -> None:
    """B10: a summariser that gives something else has failed, and says nothing to the session."""
    with pytest.raises(ModelError, match=r"gave .+ where text is wanted"):
        way(saying(given))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("This model's maximum context length is 8192 tokens; your messages resulted in 9000 tokens", 8_192),
        ("context_length_exceeded", None),
    ],
)
def test_an_overflow_is_told_apart(way: Way, words: str, limit: int | None) -> None:
    """B8: a request refused as too large can be asked for in less; the limit is told where it was."""
    with pytest.raises(ModelOverflow) as caught:
        way(raising(RuntimeError(words)))

    assert caught.value.limit_tokens == limit


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [ModelOverflow("m", 9), StoreBroken("s", "gone", remedy="r"), UsageError("no")])
def test_errors_of_ours_pass_as_they_are(way: Way, error: Exception) -> None:
    """B10: a summariser that is built on infold's own models says what it means itself."""
    with pytest.raises(type(error)) as caught:
        way(raising(error))

    assert caught.value is error


@pytest.mark.parametrize("seconds", [None, PATIENCE_SECONDS])
def test_an_interrupt_is_no_failure_of_the_model(seconds: float | None) -> None:
    """B13: Ctrl-C in the caller's own code ends the call, in a thread or not."""
    with pytest.raises(KeyboardInterrupt):
        asked(raising(KeyboardInterrupt()), seconds=seconds)


# Time.


def test_a_summariser_that_takes_too_long_has_failed() -> None:
    """B13: the session does not hang on it; the error says how long it had, and what to do."""
    ended = Event()

    def summariser(_: SummaryRequest) -> str:
        ended.wait(PATIENCE_SECONDS)
        return "late"

    with pytest.raises(ModelError, match=r"within 0.01 seconds; allow it more time"):
        asked(summariser, seconds=0.01)
    ended.set()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seconds", [None, PATIENCE_SECONDS])
def test_a_summarisers_own_timeout_is_told_as_that(way: Way, seconds: float | None) -> None:
    """B10: a socket that timed out is not a session that did not wait; the error says which."""
    with pytest.raises(ModelError, match="raised TimeoutError: socket timed out"):
        way(raising(TimeoutError("socket timed out")), seconds=seconds)


def test_a_stream_that_stands_still_has_failed() -> None:
    """B13: the time is for the whole summary, pieces or not; those that came were told."""
    ended, pieces = Event(), list[str]()

    def summariser(_: SummaryRequest) -> Iterator[str]:
        yield "The parser "
        ended.wait(PATIENCE_SECONDS)

    with pytest.raises(ModelError, match="within"):
        asked(summariser, seconds=0.5, pieces=pieces)
    ended.set()

    assert pieces == ["The parser "]


def test_an_awaited_one_is_cancelled() -> None:
    """B13: what is awaited too long is cancelled, and nothing of it is left in the loop."""
    cancelled: list[bool] = []

    async def summariser(_: SummaryRequest) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "never"

    with pytest.raises(ModelError, match=r"within 0.01 seconds"):
        awaited(summariser, seconds=0.01)

    assert cancelled == [True]


# What the log says.


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_is_logged_with_its_words_and_without_secrets(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """B36: one line says what the summariser raised and where; no key stands in it."""
    with pytest.raises(ModelError):
        way(raising(ValueError("401 invalid api key sk-abcdef0123456789")))

    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"the summariser failed at {__file__}:")
    assert record.getMessage().endswith("summariser: raised ValueError: 401 invalid api key ***")


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_fails_is_logged_and_an_overflow_is_not(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """B36: a provider's own words are logged, not the line of infold that repeats them; a request too large is asked again."""
    for error in (ModelOverflow("m"), ModelError("m", "answered with status 401: no such key")):
        with pytest.raises(ModelError):
            way(raising(error))

    assert [record.getMessage() for record in caplog.records] == [
        "the summariser failed: m: answered with status 401: no such key"
    ]


# Which failures last.


class Refused(Exception):
    """An SDK's exception for a refusal, with the status under one of the names they use."""

    def __init__(self, status: int, name: str = "status_code") -> None:
        super().__init__("the request was refused")
        setattr(self, name, status)


class Answered(Exception):
    """An HTTP library's exception, which has the status in its response."""

    def __init__(self, status: int) -> None:
        super().__init__("the request was refused")
        self.response = Refused(status)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("error", "status", "lasts"),
    [
        (Refused(401), 401, True),
        (Refused(404, "code"), 404, True),
        (Refused(422, "status"), 422, True),
        (Answered(400), 400, True),
        (Answered(503), 503, False),
        (Refused(429), 429, False),
        (Refused(408), 408, False),
        (Refused(529), 529, False),
        (Refused(7), None, False),
        (ConnectionResetError("gone"), None, False),
        (TypeError("summariser() takes 0 positional arguments but 1 was given"), None, True),
    ],
)
def test_a_refusal_lasts_and_trouble_may_pass(way: Way, error: Exception, status: int | None, lasts: bool) -> None:
    """B36: what a client did wrong, by the status its SDK tells, is so at the next try; limits and servers down may pass."""
    with pytest.raises(ModelError) as caught:
        way(raising(error))

    assert (caught.value.status, caught.value.is_lasting) == (status, lasts)


class Unreadable(Exception):
    """An exception that raises where it is read."""

    def __str__(self) -> str:
        """Raise."""
        raise ValueError

    @property
    def status_code(self) -> int:
        """Raise."""
        raise RuntimeError


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_that_cannot_be_read_is_named(way: Way) -> None:
    """B10, B36: whatever is wrong with what a summariser raises, it is the summariser's failure."""
    with pytest.raises(ModelError, match="raised Unreadable; "):
        way(raising(Unreadable()))


# What a model writes.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("half \ud800 a pair", "half \ufffd a pair"),
        ("two halves \ud83d\ude00", "two halves \U0001f600"),
        ("a \0 byte\0", "a  byte"),
        (["split \ud83d", "\ude00"], "split \U0001f600"),
        (Answer("\udfff"), "\ufffd"),
        (ModelAnswer(Answer("\0x")), "x"),
    ],
)
def test_text_is_cleaned_before_it_is_counted(way: Way, written: Any, read: str) -> None:
    """B36: halves of surrogate pairs and NUL bytes, which no store holds, are gone; what is two halves of one is one."""
    pieces: list[str] = []

    assert way(saying(written), pieces=pieces).answer.text == read
    assert all(piece.encode() for piece in pieces)


@pytest.mark.parametrize("way", WAYS)
def test_endless_text_ends(way: Way) -> None:
    """B36: of ten million characters no more are looked at than a summary can have; a stream without an end is left there."""
    seen: list[int] = []

    def endless(_: SummaryRequest) -> Iterator[str]:
        while True:
            seen.append(1)
            yield "x" * 100_000

    for summariser in (saying("x" * 10_000_000), endless):
        answer = way(summariser).answer
        assert (len(answer.text), hard_fault(answer)) == (LONGEST_ANSWER + 1, "too-large")
    assert len(seen) == LONGEST_ANSWER // 100_000 + 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", [Answer(None), ModelAnswer("text")])  # type: ignore[arg-type] # what a caller may do wrong
def test_an_answer_without_text_is_a_failure(way: Way, given: Any) -> None:
    """B10: an answer whose text is none has failed, and nothing else breaks."""
    with pytest.raises(ModelError, match=r"gave (None|an? .+) where text is wanted"):
        way(saying(given))


# A session that its own summariser calls.


def test_a_summariser_is_known_where_it_runs() -> None:
    """B36: in the block, in what it calls and in the tasks and threads that inherit its context; nowhere else."""
    session, other = object(), object()

    async def inside() -> None:
        check_not_summarising(other)
        with pytest.raises(SessionReentered, match="called its own session"):
            check_not_summarising(session)
        with pytest.raises(SessionReentered):
            await asyncio.to_thread(check_not_summarising, session)
        with pytest.raises(SessionReentered):
            await asyncio.gather(told_by(session))

    async def told_by(called: object) -> None:
        check_not_summarising(called)

    with summarising_for(session):
        asyncio.run(inside())
        with summarising_for(other), pytest.raises(SessionReentered):
            check_not_summarising(session)
    check_not_summarising(session)


@pytest.mark.parametrize("way", WAYS)
def test_a_reentered_session_is_the_summarisers_failure(way: Way) -> None:
    """B36: the request still goes out, folded by code; the error says what to do, and is not asked about again."""
    with pytest.raises(ModelError, match="called its own session") as caught:
        way(raising(SessionReentered()))

    assert caught.value.is_lasting
