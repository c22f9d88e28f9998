"""The session: two calls around each request, `prepare` before it and `record` after it.

Any loop can drive it. The session lives in a store; in memory stands only what its view needs, and a new process goes on where
another ended by opening the same id. Usage that replies report corrects the estimates, a summariser writes the summaries if
there is one, and everything folded can be read back. `AsyncSession` is the same, awaited.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, NamedTuple, TypeVar, Unpack

from msgspec.structs import replace

from infold.core.budget import AskedOutput
from infold.core.clip import clips_on_arrival
from infold.core.compact import entries_for_summary, prune_now
from infold.core.entries import (
    Amendment,
    Clipping,
    Entry,
    Handle,
    MessageEntry,
    Pin,
    Restoration,
    Title,
    handle_of,
    split_handle,
)
from infold.core.events import (
    Clipped,
    Event,
    OutputLowered,
    Pruned,
    Repaired,
    Restored,
    StubRepeated,
    SummaryProgressed,
)
from infold.core.gauge import estimated_tokens, gauge
from infold.core.judge import ModelAnswer
from infold.core.log import Log
from infold.core.logged_message import media_bytes, repeats_stub
from infold.core.messages import (
    PINNED_ID,
    AssistantMessage,
    CacheLoss,
    CompactionPart,
    Message,
    MessageId,
    SessionId,
    TextPart,
    UserMessage,
)
from infold.core.policy import Policy
from infold.core.summary_request import SummaryRequest
from infold.core.view import answered_as_interrupted, view
from infold.errors import HistoryChanged, SummaryFailed, UsageError
from infold.formats.codec import reported_miss
from infold.formats.harness_text import marks_of
from infold.formats.registry import is_ambiguous
from infold.formats.requests import native_betas
from infold.observers.bus import Bus
from infold.plugins.runner import PluginHooks
from infold.ports import FactStore, FullStore, MediaStore, SessionKey, Summariser
from infold.session.background import BackgroundSummary
from infold.session.compaction import (
    CompactionInput,
    CompactionRun,
    Prepared,
    Preview,
    answer_request,
    check_up_to,
    preview,
    request_message,
    restoration_of,
)
from infold.session.context import NO_EXTRAS, ReplyMetadata, RequestContext, RequestExtras
from infold.session.history import (
    DecodedHistory,
    History,
    HistoryMatch,
    encode_ahead,
    ends_with,
    is_stored_reply,
    newest_sequence,
    renumber,
)
from infold.session.media import take_media, with_stored_media
from infold.session.recall import bring_back
from infold.session.recovery import Recovery
from infold.session.report import Ready, RequestReport, SessionReport
from infold.session.settings import (
    SessionKeywords,
    SessionSettings,
    check_store,
    needs_arguments,
    require_str,
    settings_with,
    wire_format,
)
from infold.session.stored import StoredHistory, child_id, copy_session
from infold.session.summariser import Callbacks, check_not_summarising, check_sync, overflow_from_error, summarising_for
from infold.session.summary import (
    PreparedSummary,
    SummaryPlan,
    basis_of,
    events_for,
    prepare_ahead,
    read_native_answer,
    request_summary,
)
from infold.session.writer import LogWriter, retrying
from infold.wiring import open_store, summariser_for

T = TypeVar("T")


class _New(NamedTuple):
    """What a caller's list adds to the session: new messages, and the sequence from which on others were taken back."""

    messages: tuple[Message, ...] = ()
    amended: int | None = None


class _Unsent(NamedTuple):
    """What the newest request brought, until it was answered: the caller's items and their messages."""

    items: list[object]
    messages: tuple[Message, ...]
    is_stored: bool = False


class _Manual(NamedTuple):
    """A compaction that a person asked for."""

    focus: str
    up_to: int | None


class Session(StoredHistory):
    """One session in a store, prepared before each request and recorded after it; may be used from any thread.

    `store` is what `open_store` returns, or where it is: `memory`, a path or an address; then it is closed with the session.
    Settings may be given as keywords, `Session("memory", "a", window="200k")`, which win over `settings`. `callbacks` call the
    summariser and the observers; by default they run in the thread that uses the session.
    `is_window_assumed`: the window is a cautious guess, because neither settings, catalogue nor server have it.
    """

    @needs_arguments("store", "session_id", example="Session('memory', 'my-session', window='200k')")
    def __init__(
        self,
        store: FullStore | str,
        session_id: str,
        settings: SessionSettings | None = None,
        *,
        tenant: str = "",
        callbacks: Callbacks | None = None,
        **keywords: Unpack[SessionKeywords],
    ) -> None:
        settings = settings_with(settings, keywords, "Session()")
        if callbacks is None:
            check_sync(settings.summariser)
            callbacks = Callbacks(Bus())
        resolved, key = settings.resolve(), SessionKey(tenant, SessionId(session_id))
        self._summariser: Summariser | None = summariser_for(settings.summariser)
        self._opened = open_store(store) if isinstance(store, str) else None
        used = check_store(store) if self._opened is None else self._opened
        self._store, self._key, self._rule = used, key, resolved.rendering.estimate
        self._given_settings = settings
        self._account = settings.account or tenant
        if (
            resolved.learns_thinking
            and isinstance(used, FactStore)
            and used.remembers(self._account, resolved.binding_fact)
        ):
            resolved = replace(resolved, rendering=replace(resolved.rendering, binds_thinking=True))
        self._settings = resolved if isinstance(used, MediaStore) else replace(resolved, media_limit_bytes=0)
        self.is_window_assumed = resolved.is_window_assumed
        self._now_ms = settings.now_ms
        self._bus = callbacks.bus
        if settings.on_event is not None:
            self._bus.subscribe(Event, settings.on_event)
        if settings.on_compacted is not None:
            self._bus.on_compacted(settings.on_compacted)
        self._writer = LogWriter(used, key, resolved.rendering, callbacks)
        self._hooks = PluginHooks(settings.plugins, self._writer.publish) if settings.plugins else None
        self._context = RequestContext(self._settings, settings.now_ms)
        most_seconds = resolved.seconds_for(resolved.policy.summary.maximum_tokens) or 0.0
        self._background = BackgroundSummary(max(settings.patience_seconds, most_seconds))
        self._turn = RLock()
        self._history: History | None = None
        self._unsent: _Unsent | None = None
        self._recovery: Recovery | None = None
        self._answered: frozenset[str] = frozenset()
        self._wanted: SummaryPlan | None = None
        self._taken_back: int | None = None
        self._background_end = -1

    def close(self) -> None:
        """Give up a summary that is being written in the background, and close a store that was given by its address.

        A session on a store that you have opened yourself needs no closing.
        """
        self.cancel_ahead()
        if self._opened is not None:
            self._opened.close()

    def cancel_ahead(self) -> "Future[None] | None":
        """Give up a summary that waits to be used, or is being written in the background; then return a future for its end."""
        return self._background.cancel()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> Log:
        """The session as it stands."""
        return self._writer.log

    @property
    def window_tokens(self) -> int:
        """The model's window as learned by now; 0 if it was declared to have no limit."""
        return self._context.window(self.log).context_tokens

    @property
    def limit_tokens(self) -> int:
        """The most that the next request may be, as learned by now; 0 if the window has no limit."""
        return self._context.plan_inputs(self.log).budget.limit_tokens

    @property
    def tokens(self) -> int:
        """How many tokens the view has now, as its provider counts them, system prompt and tools of the newest request included.

        Events and reports are in the same unit. What a document's preset compares with its trigger may be another number.
        """
        inputs = self._context.plan_inputs(self.log)
        is_own = inputs.policy.count == "anchored"
        return gauge(self.log, inputs).count_tokens if is_own else estimated_tokens(self.log, inputs)

    @property
    def policy(self) -> Policy:
        """The policy of the session."""
        return self._settings.policy

    @property
    def bus(self) -> Bus:
        """Where to subscribe to the events of this session."""
        return self._bus

    def publish(self, *events: Event) -> None:
        """Report events to the observers of this session."""
        self._writer.publish(*events)

    # Requests and replies.

    def prepare(
        self,
        messages: Sequence[object] | DecodedHistory,
        *,
        system: object = None,
        tools: object = None,
        output_tokens: int | AskedOutput = 0,
        cache_seconds: int = 0,
        edited_from_tokens: int | None = None,
    ) -> Ready:
        """Make the next request fit, given the whole list of messages; raise `WindowExceeded` if none can.

        `system` and `tools` are sent with them; an empty list says that no tools are offered, and no kept calls are shown.
        `output_tokens` is the most the request asks for in reply, with a budget for thinking as `AskedOutput`; send
        `Ready.output_tokens`, which is less if both do not fit. `cache_seconds` is how long it asks the provider's cache to
        keep it, if that is not marked in what is given (`cache_control`). `edited_from_tokens`: it asks the provider to shorten
        the history itself from there on, as by Anthropic's `context_management`; below that nothing is compacted that fits.

        The list must begin with what was folded; a change there raises `HistoryChanged`. What changed after that is taken back
        and replaced; if a `DecodedHistory` is not certain to be this session's, that raises `HistoryChanged` too.
        """
        extras = RequestExtras(system, tools, output_tokens, cache_seconds, edited_from_tokens).checked(messages)
        with self._operation():
            before = self._context.extras
            history = self._follow(messages, extras)

            def read() -> _New:
                match = history.match(messages, self.log)
                history.adopt(match)
                self._context.preamble = history.preamble.messages
                return _New(match.new, match.amended)

            try:
                return self._prepare(history, read)
            except HistoryChanged:
                self._context.extras = before  # those of the request that was prepared last
                raise

    def prepare_new(
        self,
        messages: Sequence[object],
        *,
        system: object = None,
        tools: object = None,
        output_tokens: int | AskedOutput = 0,
        cache_seconds: int = 0,
        edited_from_tokens: int | None = None,
    ) -> Ready:
        """Make the next request fit, given only the messages that are new; the other arguments are those of `prepare`.

        Those of a request that failed after they were stored may be given again; they are stored once.
        """
        extras = RequestExtras(system, tools, output_tokens, cache_seconds, edited_from_tokens).checked(messages)
        with self._operation():
            history, failed = self._follow(messages, extras), self._unsent
            if not messages and not self.log.live:  # nothing to send, unless another writer has stored something since
                self._writer.is_stale = True

            def read() -> _New:
                if failed is not None and failed.items and failed.items == list(messages):
                    is_stored = ends_with(self.log, failed.messages)
                    if is_stored:
                        history.repeat(messages, len(failed.messages), self.log)
                    if is_stored or failed.is_stored:
                        return _New()
                new = history.add(messages, self.log)
                self._unsent = _Unsent(list(messages), new)
                return _New(new)

            return self._prepare(history, read)

    def record(self, reply: object, stamp: ReplyMetadata | None = None, *, after: int | None = None) -> int:
        """Record a provider's reply (its body or SDK object): the messages, the usage, and why it ended.

        `stamp` is for an agent that knows more of the reply than the wire format shows. `after` is the `end` of the request that
        is answered. Return the `end` of the log; raise `HistoryChanged` if messages were stored since `after`.
        """
        with self._operation():
            history = self._started_history("recording a reply")

            def attempt() -> int:
                self._check_end(after)
                self._record(history, reply, stamp)
                return self.log.next_sequence

            return self._retry(attempt)

    def recover(self, error: object, *, after: int | None = None) -> Ready | None:
        """Change the request that a provider refused, for one more try: smaller, or without thinking.

        `error` is the SDK's exception or the body of the refusal. Return `None` if it is about something else than the request's
        size or thinking bound to another conversation. Raise `WindowExceeded` if nothing more can be left out, or at the
        second refusal in a row. `after` is that of `record`.
        """
        overflow = overflow_from_error(error)
        if overflow is None:
            return None
        with self._operation():
            history = self._started_history("recovering")
            self._reload_if_stale()
            self._check_end(after)
            recovery = self._recovery or Recovery(self._writer, self._context, self._now_ms, self._append)
            self._recovery = recovery
            ready = recovery.recover(overflow, lambda: self._prepare(history, lambda: self._nothing_new(after)))
            if overflow.binds and self._settings.learns_thinking and isinstance(self._store, FactStore):
                self._store.remember(self._account, self._settings.binding_fact)
            return ready

    def add(self, messages: Sequence[Message], *, longest_tokens: int = 0) -> None:
        """Store infold's own messages (`core.messages`) at once; they come from no wire and need no format.

        Results longer than `longest_tokens` are shown shortened from the first, and recalled whole.
        """
        with self._operation():
            self._retry(lambda: self._add(messages, longest_tokens))
            self._recovery = None  # whatever was refused, the next request is another
            if self._history is not None:
                self._history.pairing = None  # made from the log when it is next needed

    def adopt_summary(self, summary: Message) -> None:
        """Go on from a summary of the provider's own, by which the caller has replaced its whole list."""
        self.cancel_ahead()
        with self._operation():
            self._append(lambda log: entries_for_summary(log, summary, now_ms=self._now_ms()))
            self._reset_history()

    def match(self, messages: Sequence[object] | DecodedHistory) -> HistoryMatch | None:
        """Compare a whole list of messages with this session; `None` if it belongs to another."""
        history = self._history or self._new_history(messages)
        try:
            return history.match(messages, self.log)
        except HistoryChanged:
            return None

    def encode(self, messages: Sequence[Message]) -> list[Any]:
        """Return messages of the view in the caller's shape, as the next request would have them."""
        return self._started_history("encoding").encode(messages, self.log).items

    # Actions of a person.

    def compact(self, focus: str = "", *, up_to: int | None = None, after: int | None = None) -> Ready:
        """Compact now, whatever there is; `focus` is what the summary should give room to.

        `up_to` is the number of the first message to keep, as in its handle: 42 for `42.1`. `after` is that of `record`.
        """
        manual = _Manual(require_str("focus", focus, example="the open bugs"), up_to)
        with self._operation():
            check_up_to(self.log, up_to)
            return self._prepare(self._started_history("compacting"), lambda: self._nothing_new(after), manual)

    def request_compaction(self, *, auto: bool = False) -> str:
        """Write down that the session is to be compacted, and return the id of that message; nothing is compacted yet.

        `run_compaction` carries it out, or else the next `prepare`, here or in another process. `auto`: a policy asks for it
        and not a person, so that the work continues behind it. A request that waits already is returned as it is.
        """
        with self._operation():
            self._started_history("requesting a compaction")
            part, now_ms = CompactionPart("", auto), self._now_ms()
            self._append(lambda log: () if log.pending else (MessageEntry(request_message(log, part, now_ms)),))
            return "" if self.log.pending is None else self.log.pending.id

    def run_compaction(self) -> Literal["continue", "stop"]:
        """Carry out the compaction that was requested; raise `UsageError` if none was.

        Return `stop` if no summary could be written and the policy's document ends the loop then: nothing was folded, and the
        request waits. Else `continue`.
        """
        with self._operation():
            self._reload_if_stale()
            if self.log.pending is None:
                raise UsageError("no compaction is requested; call request_compaction first, or compact to do both")
            before, self._settings = self._settings, replace(self._settings, stops=True)
            try:
                self._prepare(self._started_history("compacting"), _New)
            except SummaryFailed:
                return "stop"
            finally:
                self._settings = before
        return "continue"

    def prune(self) -> Pruned | None:
        """Prune now: make stubs of old tool results as the policy says, whatever the window; `None` if none are old enough."""
        events: tuple[Event, ...] = ()

        def entries(log: Log) -> tuple[Entry, ...]:
            nonlocal events
            pruned = prune_now(log, self._context.plan_inputs(log), now_ms=self._now_ms())
            events = pruned.events
            return pruned.entries

        with self._operation():
            self._append(entries)
            self._writer.publish(*events)
        return next((event for event in events if isinstance(event, Pruned)), None)

    def answer_compact_tool(self, focus: str = "") -> str:
        """Return the answer to a call of the compact tool; the next `prepare` after the call carries it out.

        It says so, or why not: a view that fills little of the window is left as it is.
        """
        require_str("focus", focus, example="the open failures")
        log = self.log
        return answer_request(log, self._context.plan_inputs(log), focus)

    def preview(self, *, up_to: int | None = None) -> Preview:
        """Return what `compact` would fold, by code alone; changes nothing and asks no model."""
        check_not_summarising(self)
        log = self.log
        return preview(log, self._context.plan_inputs(log, manual=True), up_to)

    def undo(self, sequence: int | None = None) -> None:
        """Undo the newest fold or pruning, or the pruning of that number: everything it hid is in the view again.

        Raise `UsageError` if there is none, or if that entry hides nothing now.
        """
        with self._operation():
            newest = max((self.log.checkpoint_sequence, *self.log.freed))
            if sequence is None and newest < 0:
                raise UsageError("there is no compaction to undo")
            number = newest if sequence is None else sequence
            if number == self.log.checkpoint_sequence:
                self._retry(lambda: self._unfold(number))
            else:
                self._append(lambda log: (restoration_of(log, number),))
            tokens_after = estimated_tokens(self.log, self._context.plan_inputs(self.log))
            self._writer.publish(Restored(self.log.session_id, number, tokens_after))

    def pin(self, handle: str) -> None:
        """Pin a part by its handle: it is never pruned, and a fold quotes it word for word.

        A part that was folded comes back into the view as a message, and is pinned there. Raise `UnknownReference` for a
        handle that names nothing, `UsageError` for a folded part that is too large for the window.
        """
        self._pin(handle, is_pinned=True)

    def unpin(self, handle: str) -> None:
        """Release a pinned part."""
        self._pin(handle, is_pinned=False)

    def title(self, text: str, *, message_id: str = "") -> None:
        """Give the session a title, or one of its user messages; the last one counts."""
        message_id = require_str("message id", message_id, example="m0")
        title = Title(require_str("title", text, example="Port the feed"), MessageId(message_id))
        with self._operation():
            self._append(lambda _: (title,))

    # The session as it is.

    def view(self, messages: Sequence[object] | DecodedHistory | None = None) -> list[Any]:
        """Return the messages that would be sent now, or for a whole list if it needs no compaction; changes nothing.

        Raise `HistoryChanged` if the list belongs to another session.
        """
        with self._operation():
            if messages is not None:
                return encode_ahead(self._new_history(messages), messages, self.log, self._settings.policy.summary)
            history = self._started_history("looking at it") if self.log.next_sequence else self._new_history(())
            shown = view(self.log, self._settings.policy.summary, brought=history.is_whole)
            return history.encode(self._with_media(history, shown), self.log).items

    def messages(self) -> list[Any]:
        """Return all messages of the session in the caller's shape, folded ones included; those taken back are not."""
        with self._operation():
            stored = self.stored_messages()
            history = self._started_history("reading the messages") if stored else self._new_history(())
            filled = with_stored_media(stored, history.without_source(stored), self._writer.read_media)
            return history.encode(filled, self.log).items

    def explain(self) -> str:
        """Return how the session stands in words: how much it holds, how full the window is, what fills it."""
        log, inputs = self.log, self._context.plan_inputs(self.log)
        shown = view(log, self._settings.policy.summary)
        report = self._report(Prepared(shown, gauge(log, inputs), inputs.budget.limit_tokens))
        pinned, count = tuple(sorted(log.pins, key=split_handle)), len(self.stored_messages())
        is_requested, kept = log.pending is not None, len(log.steps)
        return SessionReport(self.id, report, count, log.folded, self.cost(), pinned, is_requested, kept).explain()

    def fork(self, session_id: str, *, before: int | None = None, callbacks: Callbacks | None = None) -> "Session":
        """Copy this session under another id of the same store, and return that one; from then on each goes its own way.

        `before` is the number of a message, as in its handles: from there on all is left out. Raise `UsageError` if there is a
        session of that id.
        """
        copy_session(self._store, self._key, replace(self._key, session_id=SessionId(session_id)), before=before)
        return Session(self._store, session_id, self._given_settings, tenant=self._key.tenant, callbacks=callbacks)

    def child(
        self,
        name: str,
        settings: SessionSettings | None = None,
        *,
        callbacks: Callbacks | None = None,
        **keywords: Unpack[SessionKeywords],
    ) -> "Session":
        """Open the session of a sub-agent: one of its own in the same store, with this one's settings unless others are given.

        Its id is `<id>:<name>`; the same name opens the same session again. `result` is what to give back to this one.
        """
        session_id = child_id(self.id, name)
        settings = settings_with(settings or self._given_settings, keywords, "child()")
        return Session(self._store, session_id, settings, tenant=self._key.tenant, callbacks=callbacks)

    # One operation at a time, repeated if another writer was faster.

    @contextmanager
    def _operation(self) -> Iterator[None]:
        check_not_summarising(self)
        with self._turn:
            yield
            self._begin_background()

    def _retry(self, attempt: Callable[[], T]) -> T:
        return retrying(self._writer, attempt, self._reset_history)

    def _append(self, entries: Callable[[Log], tuple[Entry, ...]]) -> None:
        """Append entries that hold whatever other writers appended meanwhile, made for the log as it then is."""
        self._retry(lambda: self._writer.append(*entries(self.log)))

    def _reload_if_stale(self) -> None:
        if self._writer.is_stale:
            self._writer.reload()
            self._reset_history()

    def _check_end(self, after: int | None) -> None:
        """Raise `HistoryChanged` if messages of a caller's were stored since the log ended there."""
        if after is not None and newest_sequence(self.log) >= after:
            raise HistoryChanged("another request has gone on with this session")

    def _nothing_new(self, after: int | None) -> _New:
        self._check_end(after)
        return _New()

    # Preparing.

    def _prepare(self, history: History, read: Callable[[], _New], manual: _Manual | None = None) -> Ready:
        """Store what is new, then compact; both again if another writer was faster.

        Messages that are new are stored once; a whole list is compared again with what the session has become.
        """
        events: list[Event] = []
        is_stored = False
        folded: int | None = None

        def attempt() -> Ready:
            nonlocal is_stored, folded, manual
            if folded is None:
                folded = self.log.checkpoint_sequence
            elif folded != self.log.checkpoint_sequence:
                manual = None  # another writer has compacted
            if history.is_whole or not is_stored:
                self._store_new(history, read())
                is_stored = True
            prepared = self._compact(history, manual, events)
            if manual is None:
                events.extend(self._publish_repairs(prepared.view))
            self._wanted = prepared.wanted
            history.remember_fold(prepared.view, self.log)
            sent = history.encode(self._with_media(history, prepared.view), self.log)
            betas = native_betas(history.wire) if self.log.native else ()
            report = self._report(prepared, tuple(events))
            return Ready(
                sent.items, prepared.gauge, report, betas, sent.sources, sent.edited, end=self.log.next_sequence
            )

        return self._with_output(self._retry(attempt))

    def _with_output(self, ready: Ready) -> Ready:
        """Return a request with the most to ask for in reply; less than was given is reported."""
        asked, output = (self._context.extras or NO_EXTRAS).output.tokens, self._context.fitting_output(self.log)
        self._context.sent_output_tokens = output
        ready = replace(ready, output_tokens=output)
        if output == asked:
            return ready
        lowered = OutputLowered(self.log.session_id, asked, output)
        self._writer.publish(lowered)
        return replace(ready, report=replace(ready.report, events=(*ready.events, lowered)))

    def _report(self, prepared: Prepared, events: tuple[Event, ...] = ()) -> RequestReport:
        settings, policy, extras = self._settings, self._settings.policy, self._context.extras or NO_EXTRAS
        return RequestReport(
            policy.name,
            prepared.gauge.count_tokens if policy.count == "anchored" else self.tokens,
            prepared.gauge.upper_tokens,
            prepared.limit_tokens,
            settings.counting.is_exact and policy.estimate == "features",
            settings.counting.ruler,
            events,
            settings.known if settings.is_window_assumed else None,
            (*self._context.preamble, *prepared.view),
            extras.system,
            extras.tools,
            self.log.folded,
            len(self.log.altered),
        )

    def _store_new(self, history: History, new: _New) -> None:
        messages = self._context.complete(self._keep_media(history, new.messages), self.log)
        entries = tuple(MessageEntry(message) for message in messages)
        if new.amended is None:
            self._writer.append(*entries)
        else:  # what the messages taught that were taken back goes with them
            self._taken_back = min(new.amended, self._taken_back or new.amended)
            self._writer.append(Amendment(new.amended), *entries)
            self._writer.reload()
        history.mark_stored()
        if new.messages:  # another request than the one that may have been refused
            self._recovery = None
        if self._unsent is not None:
            self._unsent = self._unsent._replace(is_stored=True)

    def _compact(self, history: History, manual: _Manual | None, events: list[Event]) -> Prepared:
        system = (self._context.extras or NO_EXTRAS).system
        request = CompactionInput(
            settings=self._settings,
            plan_inputs=self._context.plan_inputs(self.log, manual=manual is not None),
            now_ms=self._now_ms(),
            system=system if isinstance(system, str) else "",
            focus="" if manual is None else manual.focus,
            up_to=None if manual is None else manual.up_to,
            sends_all=history.is_whole,
        )
        return CompactionRun(
            self._writer,
            request,
            ask=lambda request: self._summarise(request, self._writer.callbacks),
            background=self._background,
            hooks=self._hooks,
            events=events,
        ).run()

    def _publish_repairs(self, view: Sequence[Message]) -> tuple[Event, ...]:
        """Report the calls that a view answers as interrupted, each of them once."""
        answered = answered_as_interrupted(view[len(self.log.kept) :])  # what a fold kept has its results
        new, self._answered = answered - self._answered, answered
        if not new:
            return ()
        repaired = Repaired(self.log.session_id, tuple(sorted(new)))
        self._writer.publish(repaired)
        return (repaired,)

    def _keep_media(self, history: History, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Store the bytes of new messages' media, before the log names them; return the messages for the log."""
        if not any(map(media_bytes, messages)):
            return messages
        sources = history.sources_of(messages)
        taken = take_media(
            messages,
            lambda message_id: sources.get(message_id, ()),
            session_id=self.log.session_id,
            limit_bytes=self._settings.media_limit_bytes,
        )
        self._writer.keep_media(taken.media)
        self._writer.publish(*taken.events)
        return taken.messages

    def _with_media(self, history: History, view: tuple[Message, ...]) -> tuple[Message, ...]:
        """Give messages that are sent from the log alone the bytes of their media."""
        if not self.log.has_media:
            return view
        return with_stored_media(view, history.without_source(view), self._writer.read_media)

    # Recording.

    def _record(self, history: History, reply: object, metadata: ReplyMetadata | None) -> None:
        replies = history.reply(reply, self.log)
        if not replies:
            raise UsageError(
                f"the reply holds nothing that {history.wire.name} knows; pass it as the provider gave it, or name "
                "the session's format in its settings"
            )
        if is_stored_reply(self.log, replies):
            history.reset()
            return
        replies = self._keep_media(history, replies)
        if metadata is not None:
            replies = (*replies[:-1], metadata.apply(replies[-1], self.log))
        replies = self._context.complete(replies, self.log)
        missed = self._context.cache_miss(self.log, replies[-1], reported_miss(reply))
        if missed is not None and missed.cause == "expired" and isinstance(replies[-1], AssistantMessage):
            replies = (*replies[:-1], replace(replies[-1], cache_loss=CacheLoss(missed.tokens, missed.cost)))
        self._writer.append(*map(MessageEntry, replies))
        if missed is not None:
            self._writer.publish(missed)
        rendering = self.log.rendering
        for message in replies:
            if any(repeats_stub(part, rendering) for part in message.parts):
                self._writer.publish(StubRepeated(self.log.session_id, message.id))
        self._unsent = None
        self._recovery = None
        history.mark_stored()

    def _add(self, messages: Sequence[Message], longest_tokens: int) -> None:
        log = self.log
        added = self._context.complete(renumber(messages, log), log)
        entries = tuple(map(MessageEntry, added))
        clips = clips_on_arrival(added, log, longest_tokens) if longest_tokens else ()
        if not clips:
            self._writer.append(*entries)
            return
        inputs = self._context.plan_inputs(log)
        tokens_before = estimated_tokens(log.extend(entries), inputs)
        self._writer.append(*entries, Clipping(clips, self._now_ms()))
        tokens_after = estimated_tokens(self.log, self._context.plan_inputs(self.log))
        targets = tuple(clip.handle for clip in clips)
        self._writer.publish(Clipped(log.session_id, targets, tokens_before, tokens_after, "arrival"))

    # Undoing and pinning.

    def _unfold(self, number: int) -> None:
        if self.log.checkpoint_sequence == number:  # otherwise another writer has undone it
            self._writer.append_and_reload(Restoration(number))
            self._reset_history()

    def _pin(self, handle: str, *, is_pinned: bool) -> None:
        handle = require_str("handle", handle, example="12.0")
        with self._operation():
            self._append(lambda log: self._pin_entries(log, handle, is_pinned=is_pinned))

    def _pin_entries(self, log: Log, handle: str, *, is_pinned: bool) -> tuple[Entry, ...]:
        """Return what pins or releases a part; a folded one is brought back as a message, unless a pin holds it already."""
        brought = next((one for one in log.live if one.message.id.startswith(f"{PINNED_ID}{handle}-")), None)
        if brought is not None:
            return (Pin(handle_of(brought.sequence, 0), is_pinned),)
        if not is_pinned or log.find(handle) is not None or handle in log.pins or log.checkpoint is None:
            return (Pin(Handle(handle), is_pinned),)
        text = bring_back(self._store, self._key, handle, self._rule, limit_tokens=self.limit_tokens)
        if any(quote.handle == handle or quote.text == text for quote in log.checkpoint.ledger.pinned):
            return ()
        identity = MessageId(f"{PINNED_ID}{handle}-{log.next_sequence}")
        message = UserMessage(identity, (TextPart(text, synthetic=True),), created_ms=self._now_ms())
        return MessageEntry(message), Pin(handle_of(log.next_sequence, 0))

    # Summaries.

    def _begin_background(self) -> None:
        """Begin the summary that will soon be needed; cancel one whose head the caller took back, as in compacting it."""
        taken_back, self._taken_back = self._taken_back, None
        if taken_back is not None and taken_back <= self._background_end:
            self._background.cancel()
        plan, self._wanted = self._wanted, None
        if plan is not None:
            log = self.log
            self._background_end = basis_of(log, plan).last
            self._background.begin(
                log.checkpoint_sequence,
                self._writer.callbacks,
                lambda callbacks: self._write_ahead(log, plan, callbacks),
            )

    def _write_ahead(self, log: Log, plan: SummaryPlan, callbacks: Callbacks) -> PreparedSummary:
        summary = request_summary(log, plan, lambda request: self._summarise(request, callbacks), callbacks.publish)
        callbacks.check()
        callbacks.publish(*events_for(summary, log.session_id))
        return prepare_ahead(log, plan, summary)

    def _summarise(self, request: SummaryRequest, callbacks: Callbacks) -> ModelAnswer:
        assert self._summariser is not None
        session_id, seconds = self.log.session_id, self._settings.seconds_for(request.output_tokens)

        def on_piece(text: str) -> None:
            callbacks.publish(SummaryProgressed(session_id, text))

        if request.is_native:
            tools = (self._context.extras or NO_EXTRAS).tools
            request = replace(request, items=tuple(self.encode(request.messages)), tools=tools)
        with summarising_for(self):
            told = callbacks.summarise(self._summariser, request, on_piece, seconds=seconds)
        if not request.is_native:
            return told
        wire, settings = self._started_history("summarising").wire, self._settings
        return read_native_answer(told, wire, settings.model, settings.stated_prices)

    # The caller's list.

    def _follow(self, messages: Sequence[object] | DecodedHistory, extras: RequestExtras) -> History:
        self._context.extras = extras
        if self._history is None:
            self._history = self._new_history(messages)
        elif self._history.is_undecided and messages and not isinstance(messages, DecodedHistory):
            wire = wire_format(messages, None)
            self._history.decide_format(wire, is_final=not is_ambiguous(wire, messages))
        return self._history

    def _started_history(self, doing: str) -> History:
        if self._history is None and not self.log.next_sequence:
            raise UsageError(f"nothing was prepared yet; call prepare with the messages before {doing}")
        if self._history is None:
            self._history = self._new_history(())
        return self._history

    def _new_history(self, messages: Sequence[object] | DecodedHistory) -> History:
        """Return a reader in the named format or that of the messages; it knows the marks that the policy leaves in a list."""
        name, items = self._settings.format or None, messages
        if isinstance(items, DecodedHistory):
            name, items = name or items.decoded.format, ()
        wire = wire_format(items, name)
        is_undecided = name is None and is_ambiguous(wire, items)
        history = History(wire, marks_of((self._settings.policy,)), is_undecided=is_undecided)
        if self.log.checkpoint is not None:
            history.remember_fold(view(self.log, self._settings.policy.summary), self.log)
        return history

    def _reset_history(self) -> None:
        if self._history is not None:
            self._history.reset()
