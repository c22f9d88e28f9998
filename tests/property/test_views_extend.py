"""Law: until the next pruning or checkpoint each view extends the one before, so that the provider's cache holds.

A view is compared as its caller sends it. It begins with the whole view before it: an object of the caller stays that object, and
an item that infold wrote keeps its bytes. What was cut in between is read from the log of a session and from the report of `fit`.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.support.play import play
from tests.support.strategies import histories, situations

from infold import Session, SessionSettings, WindowExceeded, fit
from infold.core.entries import Checkpoint, Clipping, MessageEntry, Pruning
from infold.core.gauge import PlanInputs
from infold.core.messages import AssistantMessage, Message, SessionId
from infold.core.policy import PRESETS
from infold.formats.registry import FORMATS, OPENAI_CHAT, WireFormat
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, log_of, numbered, replies, result, tokens_of_text, user

pytestmark = pytest.mark.slow

EACH_PRESET = pytest.mark.parametrize("policy", PRESETS)
EXAMPLES = settings(max_examples=20)
"""For each preset, so that all six take as long as one law takes elsewhere."""

WINDOWS = st.sampled_from((8_192, 32_000, 100_000))
"""From one that leaves the documents' presets hardly any room to one that takes some dozens of results."""

FACTORS = st.sampled_from((0.8, 1.0, 1.2))
"""How many tokens a provider reports for each four bytes of a request."""

KEY = SessionKey("", SessionId("growing"))
SUMMARY = "The work goes on as it was asked for, step by step."


def session_of(turns: Sequence[tuple[int, int]]) -> tuple[Message, ...]:
    """Build a session of turns with so many steps, each with a result of so many tokens."""
    drafts: list[Message] = [user("Port the feed. Never touch vendor/.")]
    for turn, (steps, tokens) in enumerate(turns):
        for step in range(steps):
            output = f"{turn}.{step}: {tokens_of_text(tokens)}"
            drafts += [calls("read", arguments=f'{{"path": "part{turn}.{step}.py"}}'), result(output=output)]
        drafts += [replies(f"Part {turn} is done."), user(f"Now part {turn + 1}.")]
    return numbered(drafts)


SESSIONS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from((10, 300, 1_000, 4_000, 12_000))), min_size=4, max_size=14
).map(session_of)
"""Ordinary turns that outgrow a window: every call has its result, every turn its answer."""

HISTORIES = st.one_of(SESSIONS, histories(max_blocks=30))


@EACH_PRESET
@EXAMPLES
@given(HISTORIES, st.sampled_from(FORMATS), WINDOWS)
def test_fit_extends_its_views(policy: str, history: tuple[Message, ...], wire: WireFormat, window: int) -> None:
    """B29: over a growing list `fit` repeats its cuts, and between two of them each request extends the one before."""
    lists = [*lists_of(history, wire)]

    check_extends([*fitted(lists, wire, policy, window)], lists[-1])


@EACH_PRESET
@EXAMPLES
@given(HISTORIES, st.sampled_from(FORMATS), WINDOWS, st.booleans())
def test_a_session_extends_its_views(
    policy: str, history: tuple[Message, ...], wire: WireFormat, window: int, summarises: bool
) -> None:
    """B29: the requests of a session that is given the whole list each time extend each other between its cuts."""
    lists = [*lists_of(history, wire)]
    watched = WatchedSession(wire, policy, window, summarises=summarises)

    check_extends([watched.prepare(items) for items in lists], lists[-1])


@EACH_PRESET
@EXAMPLES
@given(SESSIONS, WINDOWS, st.booleans(), FACTORS)
def test_a_recorded_session_extends_its_views(
    policy: str, history: tuple[Message, ...], window: int, summarises: bool, factor: float
) -> None:
    """B29: so do those of a session that is given what is new and records each reply with its usage."""
    lists = [*lists_of(history, OPENAI_CHAT)]
    watched = WatchedSession(OPENAI_CHAT, policy, window, summarises=summarises)
    sent = [watched.prepare_new(lists[0])]
    for before, now in pairwise(lists):
        reply, *new = now[len(before) :]
        tokens = int(factor * len(encoded(before if sent[-1] is None else sent[-1].items)) / 4)
        watched.session.record(completion(reply, tokens))
        sent.append(watched.prepare_new(new))

    check_extends(sent, lists[-1])


@given(HISTORIES, situations())
def test_requests_break_only_at_own_cuts(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B29: in the core a request starts with the whole of the one before unless something was compacted in between."""
    before: tuple[Message, ...] = ()
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        if not played.compaction.steps:
            assert played.request[: len(before)] == before
        before = played.request


@EACH_PRESET
def test_a_long_session_is_cut_and_extended(policy: str) -> None:
    """The law is not empty: of 161 requests some follow a cut, and at least nine in ten extend the one before."""
    lists = [*lists_of(session_of([(3, 1_500)] * 40), OPENAI_CHAT)]
    watched = WatchedSession(OPENAI_CHAT, policy, 32_000, summarises=True)

    for sent in ([*fitted(lists, OPENAI_CHAT, policy, 100_000)], [watched.prepare(items) for items in lists]):
        check_extends(sent, lists[-1])
        assert 1 <= sum(request is None or request.is_cut for request in sent) <= len(lists) / 10


# How requests are made and compared.


class Sent(Struct, frozen=True):
    """A request: its items, and whether something was cut since the one before."""

    items: list[Any]
    is_cut: bool


def lists_of(messages: Sequence[Message], wire: WireFormat) -> Iterator[list[Any]]:
    """Yield the list that each request of a history brings; messages of the model in a row are one reply."""
    items: list[Any] = []
    before: Message | None = None
    for message in messages:
        if items and isinstance(message, AssistantMessage) and not isinstance(before, AssistantMessage):
            yield [*items]
        items += wire.encode_new(message)
        before = message
    yield items


def fitted(lists: Sequence[list[Any]], wire: WireFormat, policy: str, window: int) -> Iterator[Sent | None]:
    """Yield what `fit` makes of each list, `None` where none fits; what was reported of a shorter list is reported again."""
    events: tuple[object, ...] = ()
    for items in lists:
        try:
            messages, report = fit(items, window=window, format=wire.name, policy=policy)
        except WindowExceeded:
            yield None
            continue
        assert report.events[: len(events)] == events
        yield Sent(messages, is_cut=report.events != events)
        events = report.events


class WatchedSession:
    """A session in memory, and how much of its log was read."""

    def __init__(self, wire: WireFormat, policy: str, window: int, *, summarises: bool) -> None:
        summariser = (lambda _: SUMMARY) if summarises else None
        self._store = MemoryStore()
        self._read = 0
        self.session = Session(
            self._store,
            KEY.session_id,
            SessionSettings(window=window, policy=policy, format=wire.name, summariser=summariser),
        )

    def prepare(self, items: list[Any]) -> Sent | None:
        """Prepare a request with the whole list; `None` where none fits."""
        try:
            return Sent(self.session.prepare(items).messages, self._is_cut())
        except WindowExceeded:
            return None

    def prepare_new(self, items: list[Any]) -> Sent | None:
        """Prepare a request with what is new; `None` where none fits."""
        try:
            return Sent(self.session.prepare_new(items).messages, self._is_cut())
        except WindowExceeded:
            return None

    def _is_cut(self) -> bool:
        """Return whether something was cut since the last time; a list that only grows amends nothing."""
        new = [entry for number, entry in self._store.newest_first(KEY) if number >= self._read]
        self._read += len(new)
        assert all(isinstance(entry, MessageEntry | Pruning | Clipping | Checkpoint) for entry in new)
        return not all(isinstance(entry, MessageEntry) for entry in new)


def completion(reply: dict[str, Any], prompt_tokens: int) -> dict[str, Any]:
    """Return a chat completion with this message and its usage."""
    finish = "tool_calls" if "tool_calls" in reply else "stop"
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 20, "total_tokens": prompt_tokens + 20}
    return {"choices": [{"index": 0, "message": reply, "finish_reason": finish}], "usage": usage}


def check_extends(sent: Sequence[Sent | None], items: Sequence[Any]) -> None:
    """Check every request that follows another without a cut in between; `items` are the caller's objects."""
    own = {id(item) for item in items}
    for before, now in pairwise(sent):
        if before is None or now is None or now.is_cut:
            continue
        assert len(before.items) <= len(now.items)
        for earlier, later in zip(before.items, now.items, strict=False):
            assert later is earlier or (id(earlier) not in own and encoded(later) == encoded(earlier))


def encoded(items: object) -> bytes:
    """Return items as the bytes of a request."""
    return msgspec.json.encode(items)
