"""One session as a caller keeps it: its log, the caller's list beside it, and the terms it is kept on.

Everything a face offers is a flow here, written once; a face drives it, sync or async. A flow that another writer outran reads
the session again and begins anew, so that two processes on one session neither interleave nor lose anything (B14).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from infold.core.compact import carry_out
from infold.core.cut import Cut
from infold.core.entries import Entry, Rejection
from infold.core.events import Event, Rejected, Repaired
from infold.core.gauge import Gauge, estimated_tokens
from infold.core.log import Log
from infold.core.messages import Message, likeness
from infold.core.plan import fold_at
from infold.core.summary_request import Additions
from infold.core.view import answered_as_interrupted
from infold.engine.ahead import Preparation
from infold.engine.call import Call, Flow
from infold.engine.circumstances import NOTHING_BESIDE, Beside, Circumstances, Stamp
from infold.engine.effects import Keep, Publish, ReadMedia
from infold.engine.flow import Prepared, compact, record, take_in
from infold.engine.history import Followed, History
from infold.engine.kept import MOST_TRIES, Kept
from infold.engine.known import ends_with, is_known
from infold.engine.previewing import check_up_to
from infold.engine.summarising import SummaryPlan
from infold.engine.terms import Terms
from infold.errors import HistoryChanged, StoreConflict, UsageError, WindowExceeded
from infold.formats.harness_text import marks_of
from infold.formats.overflow import Overflow
from infold.formats.registry import WireFormat, detect, format_named
from infold.session.media import digests_in, take_media, with_media

MOST_REJECTIONS = 1
"""A request that a provider refused is made smaller and sent once more; a second refusal is told (B8)."""


class Ready(Struct, frozen=True):
    """A request that fits: its messages in the caller's shape, how full the window is, and what was done for it.

    The messages are typed as anything, so that a checker lets them be sent with whatever SDK they are for. `limit_tokens` is
    the most the request might have been; 0 where the window was declared to have no limit.
    """

    messages: list[Any]
    gauge: Gauge
    events: tuple[Event, ...]
    limit_tokens: int = 0


class _Reading(NamedTuple):
    """What a caller's list says to the session: what is new, and from where on it was taken back."""

    new: tuple[Message, ...] = ()
    amended: int | None = None


class _Unsent(NamedTuple):
    """What the newest request brought, until it is ready: as the caller has it, and what it says."""

    items: list[object]
    likenesses: tuple[str, ...]
    is_stored: bool = False


class Keeper(Kept):
    """A session between its requests.

    `wanted` is the summary that should be written in the background; `outrun` are notes that another writer made late;
    `taken_back` is the number of the first message that the caller took back since that was last looked at.
    """

    def __init__(self, log: Log, terms: Terms, now_ms: Callable[[], int]) -> None:
        super().__init__(log, Circumstances(terms, now_ms), now_ms)
        self.terms = terms
        self.wanted: SummaryPlan | None = None
        self.outrun: Preparation | None = None
        self.taken_back: int | None = None
        self._history: History | None = None
        self._unsent: _Unsent | None = None
        self._rejections = 0
        self._refused: int | None = None
        self._answered: frozenset[str] = frozenset()

    # Flows.

    def match(self, messages: Sequence[object]) -> Followed | None:
        """How a whole list of messages goes with this session; none where it is another's (`HistoryChanged`)."""
        history = self._history or self._read_by(messages)
        try:
            return history.follow(messages, self.log)
        except HistoryChanged:
            return None

    def prepare(self, messages: Sequence[object], beside: Beside = NOTHING_BESIDE) -> Flow[Ready]:
        """Make the next request fit, given the whole list of messages."""
        history = self._following(messages, beside)

        def read() -> _Reading:
            followed = history.follow(messages, self.log)
            history.adopt(followed)
            self.round.preamble = history.preamble.messages
            return _Reading(followed.new, followed.amended)

        return (yield from self._prepare(history, read))

    def prepare_new(self, messages: Sequence[object], beside: Beside = NOTHING_BESIDE) -> Flow[Ready]:
        """Make the next request fit, given only the messages that are new.

        Those of a request that failed after they were stored may be given again; they are known and stored once.
        """
        history = self._following(messages, beside)
        failed = self._unsent
        if not messages and not self.log.live:  # there is nothing to send, unless another has stored something since
            self.is_behind = True

        def read() -> _Reading:
            if failed is not None and failed.items and failed.items == list(messages):
                here = ends_with(self.log, failed.likenesses)
                if here:
                    history.repeat(messages, len(failed.likenesses), self.log)
                if here or failed.is_stored:
                    return _Reading()
            new = history.add(messages, self.log)
            self._unsent = _Unsent(list(messages), tuple(map(likeness, new)))
            return _Reading(new)

        return (yield from self._prepare(history, read))

    def compact(self, focus: str = "", up_to: int | None = None) -> Flow[Ready]:
        """Compact now, whatever there is, with what the summary should give room to (B20)."""
        check_up_to(self.log, up_to)
        call = self._call(focus=focus, up_to=up_to, manual=True)
        return (yield from self._prepare(self._begun("compacting"), _Reading, call))

    def recover(self, overflow: Overflow) -> Flow[Ready]:
        """Make the request smaller that a provider refused; nothing that was recorded is lost (B7)."""
        history = self._begun("recovering")
        if self._rejections >= MOST_REJECTIONS:
            raise self._exceeded()
        if self.is_behind:
            yield from self.begin_anew(0)
        estimated = estimated_tokens(self.log, self.round.situation(self.log))
        if self._refused is not None and estimated < self._refused:  # an earlier try made it smaller and then broke off
            self._rejections += 1
            return (yield from self._prepare(history, _Reading))
        self._refused = estimated
        rejection = _rejection(overflow, estimated, self.log, self.now_ms(), believed=self.limit_tokens)
        yield from self.insist(lambda _: (rejection,))
        yield Publish((Rejected(self.log.session_id, estimated, overflow.prompt_tokens, overflow.limit_tokens),))
        ready = yield from self._prepare(history, _Reading)
        self._rejections += 1
        if all(isinstance(event, Repaired) for event in ready.events):
            raise self._exceeded()
        return ready

    def recover_thinking(self) -> Flow[Ready | None]:
        """Remove all thinking from a request that was refused for it, and remember for the session that the model binds it.

        Where it holds none, the provider misses thinking in the work under way: then all of it is folded. `None` where there is
        nothing to fold either.
        """
        history = self._begun("recovering")
        if self.is_behind:
            yield from self.begin_anew(0)
        shown = self.log.shown_thinking
        if not shown:
            return (yield from self._without_work(history))
        estimated = estimated_tokens(self.log, self.round.situation(self.log))
        rejection = Rejection(estimated, rejected_ms=self.now_ms(), bound_thinking=True)
        yield from self.insist(lambda _: (rejection,))
        yield Publish((Rejected(self.log.session_id, estimated, outdated_thinking=shown),))
        return (yield from self._prepare(history, _Reading))

    def _without_work(self, history: History) -> Flow[Ready | None]:
        """Fold everything by code, replies whose thinking is gone and the results they wait for included."""
        if not any(placed.has_thinking for placed in self.log.live):
            return None
        situation = replace(self.round.situation(self.log), summariser=False)
        events: list[Event] = []

        def entries(log: Log) -> tuple[Entry, ...]:
            step = fold_at(log, Cut.at(log, log.length), situation, "overflow")
            carried = carry_out(log, step, situation, now_ms=self.now_ms())
            events[:] = carried.events
            return carried.entries

        yield from self.insist(entries)
        yield Publish(tuple(events))
        ready = yield from self._prepare(history, _Reading)
        return replace(ready, events=(*events, *ready.events))

    def record(self, reply: object, stamp: Stamp | None = None) -> Flow[None]:
        """Take in a provider's reply: what was said, the usage, and why it ended."""
        history = self._begun("recording a reply")
        with self._noticing_failure(history):
            for attempt in range(MOST_TRIES):
                replies = history.reply(reply, self.log)
                if not replies:
                    raise UsageError(
                        f"the reply holds nothing that {history.wire.name} knows; pass it as the provider gave it, or name "
                        "the session's format in its settings"
                    )
                if is_known(self.log, replies):
                    history.forget()
                    return
                replies = yield from self._keep_media(history, replies)
                marked = replies if stamp is None else (*replies[:-1], stamp.on(replies[-1], self.log))
                outcome = yield from record(self.log, self.round.stamped(marked))
                if isinstance(outcome, Log):
                    self.log, self._rejections, self._unsent, self._refused = outcome, 0, None, None
                    history.settle()
                    return
                yield from self.begin_anew(attempt)
        raise self.conflict()

    def add(self, messages: Sequence[Message], *, longest_tokens: int = 0) -> Flow[None]:
        """Store messages of infold's own making as they come."""
        yield from super().add(messages, longest_tokens=longest_tokens)
        self._rejections, self._refused = 0, None  # whatever was refused, the next request is another
        if self._history is not None:
            self._history.pairing = None  # made from the session when it is next needed

    # How it is done.

    def _prepare(self, history: History, read: Callable[[], _Reading], call: Call | None = None) -> Flow[Ready]:
        """Take in what is new, then compact; where another writer is faster, read the session and begin anew."""
        taken = False
        events: tuple[Event, ...] = ()
        folded = self.log.checkpoint_sequence
        if self.is_behind:
            yield from self.begin_anew(0)
        with self._noticing_failure(history):
            for attempt in range(MOST_TRIES):
                try:
                    if not taken:
                        reading = read()
                        if reading.amended is not None:
                            self.taken_back = min(reading.amended, self.taken_back or reading.amended)
                        new = yield from self._keep_media(history, reading.new)
                        self.log = yield from take_in(self.log, self.round.stamped(new), amended=reading.amended)
                        history.settle()
                        taken = True
                        if reading.new:  # another request than the one that may have been refused
                            self._rejections, self._refused = 0, None
                        if self._unsent is not None:
                            self._unsent = self._unsent._replace(is_stored=True)
                except StoreConflict:
                    yield from self.begin_anew(attempt)
                    continue
                called = replace(call or self._call(), brought=history.is_whole)
                outcome = yield from compact(self.log, called)
                if isinstance(outcome, Prepared):
                    events += outcome.events
                    if call is None or not call.situation.manual:
                        events += yield from self._repaired(outcome.view)
                    self.log, self.wanted = outcome.log, outcome.wanted
                    if not outcome.anew or not history.is_whole:
                        shown = yield from self._with_media(history, outcome.view)
                        messages = history.encode(shown, outcome.log)
                        return Ready(messages, outcome.gauge, events, self.limit_tokens)
                    call = None  # what was asked for is done; what others wrote is now held against the caller's list
                else:
                    self.outrun = outcome.preparation or self.outrun
                yield from self.begin_anew(attempt)
                taken = taken and not history.is_whole
                if self.log.checkpoint_sequence != folded:
                    call = None  # what was asked for, another has done
        raise self.conflict()

    def _repaired(self, view: Sequence[Message]) -> Flow[tuple[Event, ...]]:
        """Report the calls that a view answers as interrupted, each of them once."""
        answered = answered_as_interrupted(view)
        new, self._answered = answered - self._answered, answered
        if not new:
            return ()
        told = (Repaired(self.log.session_id, tuple(sorted(new))),)
        yield Publish(told)
        return told

    def _keep_media(self, history: History, messages: tuple[Message, ...]) -> Flow[tuple[Message, ...]]:
        """Keep the bytes of new messages' media, before the log names them; gives the messages as the log is to have them."""
        if not digests_in(messages):
            return messages
        sources = history.sources_of(messages)
        taken = take_media(
            messages,
            lambda message_id: sources.get(message_id, ()),
            session_id=self.log.session_id,
            limit_bytes=self.terms.media_limit_bytes,
        )
        if taken.media:
            yield Keep(taken.media)
        if taken.events:
            yield Publish(taken.events)
        return taken.messages

    def _with_media(self, history: History, view: tuple[Message, ...]) -> Flow[tuple[Message, ...]]:
        """Give messages that are sent from the log alone the bytes of their media."""
        alone = history.without_source(view) if digests_in(view) else ()
        digests = digests_in(alone)
        if not digests:
            return view
        read = yield ReadMedia(tuple(sorted(digests)))
        assert isinstance(read, Mapping)
        filled = {message.id: with_media(message, read) for message in alone}
        return tuple(filled.get(message.id, message) for message in view)

    def begin_anew(self, attempt: int) -> Flow[None]:
        """Read the session again; the caller's list is then held against it from the beginning."""
        yield from super().begin_anew(attempt)
        if self._history is not None:
            self._history.forget()

    @contextmanager
    def _noticing_failure(self, history: History) -> Iterator[None]:
        """If a flow breaks off, nobody knows what was stored: the next one reads the session first."""
        try:
            yield
        except BaseException:
            self.is_behind = True
            history.forget()
            raise

    def _call(self, *, focus: str = "", up_to: int | None = None, manual: bool = False) -> Call:
        terms, system = self.terms, self.round.beside.system
        return Call(
            (),
            self.round.situation(self.log, manual=manual),
            system=system if isinstance(system, str) else "",
            additions=Additions(focus=focus),
            summariser_tokens=terms.summariser_tokens,
            shares_prefix=terms.shares_prefix,
            up_to=up_to,
            has_hooks=terms.has_hooks,
            defers=terms.defers,
            stops=terms.stops,
            patience_seconds=terms.patience_seconds,
            now_ms=self.now_ms(),
        )

    def encode(self, messages: Sequence[Message]) -> list[object]:
        """Messages of the view in the caller's shape, as the next request would have them."""
        return self._begun("encoding").encode(messages, self.log)

    def _following(self, messages: Sequence[object], beside: Beside) -> History:
        """The caller's list, in the format that was named or that its first messages show."""
        self.round.beside = beside
        if self._history is None:
            self._history = self._read_by(messages)
        return self._history

    def _read_by(self, messages: Sequence[object]) -> History:
        """The reader of a caller's list, which knows the marks that the session's own policy would leave in one."""
        return History(_format_of(messages, self.terms.format), marks_of((self.terms.policy,)))

    def _begun(self, doing: str) -> History:
        if self._history is None and not self.log.next_sequence:
            raise UsageError(f"nothing was prepared yet; call prepare with the messages before {doing}")
        if self._history is None:
            self._history = self._read_by(())
        return self._history

    def _exceeded(self) -> WindowExceeded:
        situation = self.round.situation(self.log)
        floor = estimated_tokens(self.log, situation)
        return WindowExceeded(
            floor_tokens=floor,
            usable_tokens=situation.budget.limit_tokens,
            overhead_tokens=situation.overhead_tokens,
        )


def _rejection(overflow: Overflow, estimated: int, log: Log, now_ms: int, *, believed: int) -> Rejection:
    over_bytes = log.media_bytes or None if overflow.bytes_limit else None
    told = overflow.prompt_tokens, overflow.limit_tokens
    return Rejection(estimated, *told, over_bytes, now_ms, believed_tokens=believed or None)


def _format_of(messages: Sequence[object], name: str | None) -> WireFormat:
    if name:
        return format_named(name)
    return detect(messages) if messages else format_named("openai-chat")
