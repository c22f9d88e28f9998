"""The session handler: two calls around each request, `prepare` before it and `record` after it.

Any loop can drive it. The session lives in a store; in memory stands only what its view needs, and a new process goes on where
another ended by opening the same id. Usage that replies report corrects the estimates, a summariser writes the summaries where
there is one, and everything folded can be read back.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from infold.api.counting import counting_for
from infold.api.history import History
from infold.api.terms import overhead_of, rates_of, window_of
from infold.catalogue import Lookup, lookup
from infold.core.budget import Window, budget_for
from infold.core.entries import Entry, Restoration
from infold.core.events import Event
from infold.core.gauge import Gauge, Situation
from infold.core.judge import Answer
from infold.core.loading import load
from infold.core.log import Log
from infold.core.messages import Message, SessionId
from infold.core.policy import Policy
from infold.core.presets import preset
from infold.core.recall import Hit, Index, reply, tokens_of
from infold.core.stubs import Rendering
from infold.core.summary import Additions, SummaryRequest
from infold.core.tokens import token_ruler
from infold.engine.drive import World, drive
from infold.engine.effects import Told
from infold.engine.flow import Call, prepare, record
from infold.errors import InfoldError, ModelError, UsageError
from infold.formats.wire import Pairing, detect, format_named
from infold.ports import FullStore, SessionKey

__all__ = ["Ready", "Session", "SessionSettings", "Summariser"]

MOST_CANDIDATES = 50
"""How many parts a store proposes before they are ranked passage by passage."""

_HANDLE = re.compile(r"\d+\.\d+")


Summariser: TypeAlias = Callable[[SummaryRequest], str | Answer]
"""Anything that turns a request for a summary into text; what it raises counts as a failure of the model."""


class SessionSettings(Struct, frozen=True, kw_only=True):
    """How a session is kept: the model or the window, the policy, who summarises, and who is told.

    `format` names the wire format where the first messages do not tell; `recall`: whether stubs name handles, because the
    requests offer a way to ask for them.
    """

    model: str | None = None
    window: int | Window | None = None
    policy: str | Policy = "infold"
    summariser: Summariser | None = None
    summariser_tokens: int = 0
    format: str | None = None
    recall: bool = False
    on_event: Callable[[Event], None] | None = None
    now_ms: Callable[[], int] | None = None


class Ready(Struct, frozen=True):
    """A request that fits: its messages in the caller's shape, how full the window is, and what was done for it."""

    messages: list[object]
    gauge: Gauge
    events: tuple[Event, ...]


class Session:
    """One session in a store, prepared before each request and recorded after it."""

    def __init__(self, store: FullStore, session_id: str, settings: SessionSettings, *, tenant: str = "") -> None:
        self._store = store
        self._key = SessionKey(tenant, SessionId(session_id))
        self._settings = settings
        self._policy = preset(settings.policy) if isinstance(settings.policy, str) else settings.policy
        self._known: Lookup | None = None if settings.model is None else lookup(settings.model)
        self._counting = counting_for(self._known.entry.family if self._known else "o200k")
        self._rendering = Rendering(
            self._counting.ruler if self._policy.estimate == "features" else self._policy.estimate,
            self._policy.stub,
            settings.recall,
        )
        self._log = self._loaded()
        self._history: History | None = None

    @property
    def log(self) -> Log:
        """The session as it stands, for whoever wants to look."""
        return self._log

    def prepare(self, messages: Sequence[object], *, system: object = None, tools: object = None) -> Ready:
        """Make the next request fit, given the whole list of messages; raises `WindowExceeded` where none can.

        The list must begin with what it held before: infold notices a change and raises `UsageError`.
        """
        newest = self._newest() if self._history is None else None
        history = self._history or self._begun(messages, first=0)
        new = history.new_of(messages) if newest is None else history.resume(messages, newest)
        return self._run(history, self._call(new, system, tools))

    def prepare_new(self, messages: Sequence[object], *, system: object = None, tools: object = None) -> Ready:
        """Make the next request fit, given only the messages that are new."""
        history = self._history or self._begun(messages, first=self._log.next_sequence)
        return self._run(history, self._call(history.add(messages), system, tools))

    def record(self, reply: object) -> None:
        """Take in a provider's reply (its body or SDK object): what was said, the usage, and why it ended."""
        if self._history is None:
            raise UsageError("nothing was prepared yet; call prepare with the messages before recording a reply")
        replies = self._history.add_reply(reply)
        self._log = drive(record(self._log, replies), self._world())

    def compact(self, focus: str = "") -> Ready:
        """Compact now, whatever there is, with what the summary should give room to (B20)."""
        if self._history is None:
            raise UsageError("nothing was prepared yet; call prepare with the messages first")
        return self._run(self._history, self._call((), None, None, manual=True, focus=focus))

    def undo(self) -> None:
        """Undo the newest compaction: everything it folded is in the view again (B1, B20)."""
        if self._log.checkpoint is None:
            raise UsageError("there is no compaction to undo")
        self._append((Restoration(self._log.checkpoint_sequence),), self._log.next_sequence)
        self._log = self._loaded()

    def recall(self, query: str, *, budget_tokens: int = 2_000) -> str:
        """Bring back what was said or done, by words or by the handle a stub names, in at most that many tokens (B6).

        Pruned and folded parts are found like those in view. Raises `UnknownReference` for a handle that names nothing.
        """
        if _HANDLE.fullmatch(query.strip()):
            document = self._store.read(self._key, query.strip())
            hits: Iterable[Hit] = (Hit(document.handle, 1.0, document.text, document.title),)
        else:
            found = self._store.search(self._key, tokens_of(query), most=MOST_CANDIDATES)
            documents = [self._store.read(self._key, one.handle) for one in found]
            hits = Index.of(documents).search(query)
        return reply(hits, budget_tokens=budget_tokens, rule=token_ruler(self._rendering.estimate))

    # How it is done.

    def _run(self, history: History, call: Call) -> Ready:
        prepared = drive(prepare(self._log, call), self._world())
        self._log = prepared.log
        return Ready(history.encode(prepared.view), prepared.gauge, prepared.events)

    def _call(
        self, new: tuple[Message, ...], system: object, tools: object, *, manual: bool = False, focus: str = ""
    ) -> Call:
        settings = self._settings
        situation = Situation(
            self._policy,
            budget_for(window_of(settings.window, self._known), self._policy),
            overhead_tokens=overhead_of((), system, tools, self._counting.ruler),
            bound=self._counting.margin,
            summariser=settings.summariser is not None,
            manual=manual,
            rates=rates_of(self._known),
        )
        return Call(
            new,
            situation,
            system=system if isinstance(system, str) else "",
            additions=Additions(focus=focus),
            summariser_tokens=settings.summariser_tokens,
            now_ms=None if settings.now_ms is None else settings.now_ms(),
        )

    def _begun(self, messages: Sequence[object], *, first: int) -> History:
        """The caller's history, from its first message, or from where a session read back goes on."""
        name = self._settings.format
        wire = format_named(name) if name else detect(messages) if messages else format_named("openai-chat")
        held = [placed.message for placed in self._log.live] if first else []
        self._history = History(wire, first=first, pairing=Pairing.after(held))
        return self._history

    def _newest(self) -> Message | None:
        """The newest message that came from the caller."""
        own = (placed.message for placed in reversed(self._log.live) if placed.message.id.startswith("m"))
        return next(own, None)

    def _loaded(self) -> Log:
        return load(self._key.session_id, self._store.newest_first(self._key), self._rendering)

    def _world(self) -> World:
        return World(append=self._append, ask=self._ask, publish=self._publish)

    def _append(self, entries: Sequence[Entry], expected: int) -> int:
        return self._store.append(self._key, entries, expected=expected)

    def _publish(self, event: Event) -> None:
        if self._settings.on_event is not None:
            self._settings.on_event(event)

    def _ask(self, request: SummaryRequest) -> Told:
        assert self._settings.summariser is not None
        try:
            answer = self._settings.summariser(request)
        except InfoldError:
            raise
        except Exception as error:  # the summariser is the caller's own code; whatever it raises is its failure
            raise ModelError("summariser", f"raised {type(error).__name__}: {error}") from error
        return Told(answer if isinstance(answer, Answer) else Answer(answer))
