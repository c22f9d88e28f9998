"""A session whose store, summariser and pauses a test controls: other writers, failures, scripted answers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from infold import Session, SessionSettings
from infold.core.entries import Entry, MessageEntry
from infold.core.events import Event
from infold.core.judge import Answer, ModelAnswer
from infold.core.load import load
from infold.core.log import Log
from infold.core.messages import Message, MessageId, SessionId, TextPart, Usage, UserMessage
from infold.core.summary_request import SummaryRequest
from infold.formats.overflow import Overflow
from infold.observers.bus import Bus
from infold.ports import SessionKey
from infold.session.report import Ready
from infold.session.summariser import Callbacks
from infold.stores.memory import MemoryStore

__all__ = [
    "GOOD",
    "KEY",
    "RULE",
    "DrivenSession",
    "HookedStore",
    "ScriptedSummariser",
    "called",
    "reply",
    "said",
    "tool_step",
]

GOOD = "The parser was ported part by part with make; each part built without errors."
KEY = SessionKey("", SessionId("s"))
RULE = "Port the parser. Never touch vendor/."


class ScriptedSummariser:
    """Answers from a list, and well after the last; remembers what it was asked."""

    def __init__(self, *answers: Answer | BaseException) -> None:
        self.answers = list(answers)
        self.asked: list[SummaryRequest] = []
        self.events: list[Event] = []

    def publish(self, *events: Event) -> None:
        """Remember events."""
        self.events += events

    def __call__(self, request: SummaryRequest) -> ModelAnswer:
        """Return or raise the next answer."""
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else Answer(GOOD)
        if isinstance(answer, BaseException):
            raise answer
        return ModelAnswer(answer, model="scripted", usage=Usage(input=10, output=5), cost=0.25, duration_ms=40)


class HookedStore(MemoryStore):
    """A store in memory that calls `before` and `after` around each append; `busy` counts the tries its lock refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[Sequence[Entry]], None] = _nothing
        self.after: Callable[[Sequence[Entry]], None] = _nothing
        self.busy = 0

    @property
    def entries(self) -> list[Entry]:
        """All that is stored, oldest first."""
        return [entry for _, entry in self.newest_first(KEY)][::-1]

    def append(self, key: SessionKey, entries: Sequence[Entry], *, expected: int) -> int:
        """Append between the hooks."""
        self.before(entries)
        number = super().append(key, entries, expected=expected)
        self.after(entries)
        return number

    @contextmanager
    def hold(self, key: SessionKey) -> Iterator[bool]:
        """Refuse the lock while it is busy."""
        if self.busy:
            self.busy -= 1
            yield False
            return
        with super().hold(key) as taken:
            yield taken

    def append_directly(self, *entries: Entry) -> None:
        """Append as another process does, past the hooks."""
        super().append(KEY, entries, expected=len(self.entries))

    def intrude_once(self, matters: Callable[[Sequence[Entry]], bool]) -> None:
        """Let another writer append a message just before the first append that matters."""

        def intrude(entries: Sequence[Entry]) -> None:
            if matters(entries):
                self.before = _nothing
                number = len(self.entries)
                text = f"from another process, as entry {number}"
                self.append_directly(MessageEntry(UserMessage(MessageId(f"intruder-{number}"), (TextPart(text),))))

        self.before = intrude


class Pauses(Callbacks):
    """Callbacks that do not sleep."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        """Remember the pause."""
        self.pauses.append(seconds)


class DrivenSession(Session):
    """A session with everything around it that a test looks at."""

    def __init__(
        self,
        summariser: ScriptedSummariser | None = None,
        *,
        summarises: bool = False,
        store: HookedStore | None = None,
        **settings: Any,
    ) -> None:
        self.store = store or HookedStore()
        self.summariser = summariser or ScriptedSummariser()
        self.events: list[Event] = []
        usual = {"window": 16_000, "now_ms": lambda: 7, "on_event": self.events.append, "environ": {}}
        given = {"summariser": self.summariser, "summary_seconds": None} if summarises else {}
        self.settings = SessionSettings(**{**usual, **given, **settings})
        self.recorded = Pauses(Bus())
        super().__init__(self.store, "s", self.settings, callbacks=self.recorded)

    @property
    def kept(self) -> list[Message]:
        """All messages that are stored."""
        return [entry.message for entry in self.store.entries if isinstance(entry, MessageEntry)]

    def again(self) -> "DrivenSession":
        """The same session in another process."""
        other = DrivenSession.__new__(DrivenSession)
        other.store, other.summariser, other.events, other.settings = (
            self.store,
            self.summariser,
            self.events,
            self.settings,
        )
        other.recorded = Pauses(Bus())
        Session.__init__(other, self.store, "s", self.settings, callbacks=other.recorded)
        return other

    def recovered(self, overflow: Overflow) -> Ready:
        """Recover from a refusal that is one."""
        ready = self.recover(overflow)
        assert ready is not None
        return ready

    def reread(self) -> Log:
        """The log as a new process would read it."""
        return load(KEY.session_id, self.store.newest_first(KEY), self.log.rendering)

    def grow(self, steps: int) -> list[dict[str, Any]]:
        """Live through so many steps, bringing the whole list each time; return the list before the next request."""
        messages = [said(RULE)]
        for number in range(steps):
            self.prepare(messages)
            self.record(reply(number))
            messages = [*messages, *tool_step(number)]
        return messages


def _nothing(_: Sequence[Entry]) -> None:
    """Do nothing."""


# What a caller has: a list in the chat format, and replies.


def said(text: str) -> dict[str, Any]:
    """A person's message."""
    return {"role": "user", "content": text}


def called(number: int) -> dict[str, Any]:
    """A reply that calls a tool, as it stands in a list."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "make"}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def tool_step(number: int) -> list[dict[str, Any]]:
    """A tool step of about four hundred tokens."""
    answer = {"role": "tool", "tool_call_id": f"c{number}", "content": f"part {number} went well\n" * 80}
    return [called(number), answer]


def reply(number: int, *, prompt_tokens: int | None = None, finish: str = "tool_calls") -> dict[str, Any]:
    """A provider's reply that calls a tool, and reports its usage if it is given."""
    body: dict[str, Any] = {"choices": [{"message": called(number), "finish_reason": finish}]}
    if prompt_tokens is not None:
        body["usage"] = {"prompt_tokens": prompt_tokens, "completion_tokens": 12}
    return body
