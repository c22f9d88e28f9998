"""A session's own model writes its summaries, asked by the way of the request that needs one."""

from threading import Event as Signal
from threading import Lock

import msgspec
import pytest
from tests.support.policies import FOLDS
from tests.support.provider_rules import problems

from infold.core.budget import Window
from infold.core.events import Compacted, Event, PreparedAhead, SummaryRejected
from infold.core.summary_request import COMPACTION_AGENT, Additions, SummaryRequest, own_request
from infold.core.tokens import measure
from infold.errors import ModelError
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT, WireFormat
from infold.proxy.managed_request import OwnRequest, UpstreamReply, summarise_upstream
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore

from .talks import CHAT, TOOLS, Item, Talk, answer, no_model, record, request_of, sent_by

MODEL, WINDOW = "gpt-4o", 20_000
NOTES = "The importer is being ported step by step; nothing is finished yet."
OVERFLOW = b'{"error": {"message": "maximum context length is 4096 tokens", "code": "context_length_exceeded"}}'


class Provider:
    """Answers requests for summaries and keeps them."""

    def __init__(self, *replies: UpstreamReply) -> None:
        self._replies = [*replies] or [UpstreamReply(200, msgspec.json.encode(answer(NOTES, tokens=900)))]
        self._lock = Lock()
        self.bodies: list[Item] = []

    def __call__(self, own: OwnRequest) -> UpstreamReply:
        """The next reply, the last one from then on."""
        with self._lock:
            self.bodies.append(msgspec.json.decode(own.content))
            return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def long_list(turns: int = 16) -> list[Item]:
    """A list that is over the trigger of the window."""
    talk = Talk("A", words=320)
    for _ in range(turns):
        talk.hear(talk.next_answer())
    return talk.items


def told(events: list[Event]) -> SessionSettings:
    """Settings under which a session's own model is good enough, and everything is heard."""
    return SessionSettings(window=WINDOW, on_event=events.append)


def compactions(events: list[Event]) -> list[Compacted]:
    """The compactions among events."""
    return [event for event in events if isinstance(event, Compacted)]


def test_the_own_model_writes_the_summary() -> None:
    """B5, B10: the model that the request is for is asked through the same way; what it says is judged and sent."""
    events: list[Event] = []
    provider = Provider()
    managed = SessionPool(MemoryStore(), told(events)).begin(
        request_of(long_list(), model=MODEL, temperature=1), provider
    )

    assert NOTES in managed.content.decode()
    assert provider.bodies
    assert all(body["model"] == MODEL for body in provider.bodies)
    assert all(body.keys() == {"model", "messages", "max_completion_tokens"} for body in provider.bodies)
    assert [event.summariser for event in compactions(events)] == [MODEL]
    assert len(managed.content) < 4 * WINDOW


@pytest.mark.parametrize(
    "refusal",
    [
        UpstreamReply(503, b"busy"),
        UpstreamReply(400, OVERFLOW),
        UpstreamReply(200, b"<html>"),
        UpstreamReply(200, b'{"choices": []}'),
    ],
    ids=["busy", "overflow", "no-json", "silent"],
)
def test_a_model_that_refuses_is_done_without(refusal: UpstreamReply) -> None:
    """B10: whatever its own model answers to the request for a summary, the session folds by code and goes on."""
    events: list[Event] = []
    provider = Provider(refusal)
    managed = SessionPool(MemoryStore(), told(events)).begin(request_of(long_list(), model=MODEL), provider)

    assert 2 <= len(provider.bodies) <= 12
    assert [event.summariser for event in compactions(events)] == [""]
    assert any(isinstance(event, SummaryRejected) for event in events)
    assert "Port the importer." in managed.content.decode()


def test_a_shared_prefix_is_the_ordinary_request() -> None:
    """B16: at a model whose cache makes it cheaper, everything before the instruction is what the last request sent."""
    provider = Provider()
    events: list[Event] = []
    pool = SessionPool(MemoryStore(), SessionSettings(on_event=events.append))
    items: list[Item] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Port the importer."}]
    sent: list[Item] = []
    tokens = 2_000
    for number in range(40):
        managed = pool.begin(request_of(items, model="claude-sonnet-4-5", tool_choice="auto"), provider)
        if provider.bodies:
            break
        sent = sent_by(managed)
        tokens += 6_000
        reply = answer(f"Part {number} is done.", tokens=tokens)
        record(managed, msgspec.json.encode(reply))
        items += [
            reply["choices"][0]["message"],
            {"role": "user", "content": f"Now part {number}. " + "lorem ipsum " * 2_400},
        ]
    assert provider.bodies
    asked = provider.bodies[0]

    assert asked["messages"][: len(sent)] == sent
    assert asked["tools"] == request_of(items).body["tools"]
    assert asked["tool_choice"] == "none"
    assert "Write notes" in asked["messages"][-1]["content"]


def ordinary_and_summary(wire: WireFormat, window: int, words: int) -> tuple[Item, Item]:
    """The last ordinary request of a session with large tool results, and the request for its first summary."""
    provider = Provider()
    pool = SessionPool(MemoryStore(), SessionSettings(window=window, policy=FOLDS))
    fields: Item = {"model": "claude-sonnet-4-5", "max_tokens": 900}
    fields |= (
        {"tools": TOOLS}
        if wire is OPENAI_CHAT
        else {"tools": [{"name": "bash", "input_schema": {}}], "system": "Be brief."}
    )
    items: list[Item] = [{"role": "user", "content": "Port the importer."}]
    path = CHAT if wire is OPENAI_CHAT else "/v1/messages"
    sent: Item = {}
    for number in range(400):
        parsed = parse_request(path, {}, msgspec.json.encode({**fields, "messages": items}))
        assert isinstance(parsed, ParsedRequest)
        managed = pool.begin(parsed, provider)
        if provider.bodies:
            return sent, provider.bodies[0]
        sent = msgspec.json.decode(managed.content)
        tokens, output = tokens_of(sent), f"line {number} of output. " * words
        if wire is OPENAI_CHAT:
            call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            reply = answer(f"Part {number}.", tokens=tokens, calls=(call,))
            items += [reply["choices"][0]["message"], {"role": "tool", "tool_call_id": f"c{number}", "content": output}]
        else:
            block = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {}}
            usage = {"input_tokens": tokens, "output_tokens": 20}
            reply = {"role": "assistant", "content": [block], "stop_reason": "tool_use", "usage": usage}
            found = {"type": "tool_result", "tool_use_id": f"c{number}", "content": output}
            items += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [found]}]
        record(managed, msgspec.json.encode(reply))
    raise AssertionError("no summary was asked for")


def tokens_of(value: object) -> int:
    """What a scripted provider counts for a part of a request."""
    return measure(msgspec.json.encode(value).decode(), "features")


CACHE_KEYS = ("model", "system", "tools")
"""What stands before the messages in a provider's cache."""


@pytest.mark.slow
@pytest.mark.parametrize("words", [60, 300])
@pytest.mark.parametrize("window", [16_000, 32_000, 64_000, 128_000, 200_000])
@pytest.mark.parametrize("wire", [OPENAI_CHAT, ANTHROPIC_MESSAGES], ids=lambda wire: wire.name)
def test_summaries_are_read_from_the_cache(wire: WireFormat, window: int, words: int) -> None:
    """B16: by the provider's count nine tenths of a summary request were in the last ordinary request, at every window."""
    sent, asked = ordinary_and_summary(wire, window, words)
    common = [now for before, now in zip(sent["messages"], asked["messages"], strict=False) if before == now]

    assert asked["messages"][: len(common)] == common
    assert all(sent.get(key) == asked.get(key) for key in CACHE_KEYS)
    assert wire is OPENAI_CHAT or "tool_choice" not in asked
    assert tokens_of(common) >= 0.9 * tokens_of(asked["messages"])
    assert "Write notes" in str(asked["messages"][-1])


def test_each_request_asks_by_its_own_way() -> None:
    """Two clients in one session have each its own credentials: the one whose request needs a summary pays for it."""
    pool = SessionPool(MemoryStore(), told([]))
    items = long_list()
    first, second = Provider(), Provider()
    headers = {"x-infold-session": "s"}
    pool.begin(request_of(items[:5], headers=headers), first)
    pool.begin(request_of(items, headers=headers), second)

    assert not first.bodies
    assert second.bodies


def test_a_named_summariser_comes_first() -> None:
    """A summariser of the settings is asked instead of the session's own model."""

    def notes(request: SummaryRequest) -> str:
        return "The exporter comes next, once the importer is ported."

    settings = SessionSettings(window=WINDOW, summariser=notes)
    managed = SessionPool(MemoryStore(), settings).begin(request_of(long_list()), no_model)

    assert "The exporter comes next" in managed.content.decode()


def test_small_windows_ask_nobody() -> None:
    """B10: a session in a small window is folded by code."""
    events: list[Event] = []
    settings = SessionSettings(window=8_000, on_event=events.append)
    SessionPool(MemoryStore(), settings).begin(request_of(long_list()), no_model)

    assert [event.summariser for event in compactions(events)] == [""]


def test_a_summary_is_written_ahead() -> None:
    """B18: with `background` a summary is asked for in a thread before it is needed, by the way of the request that began it."""
    events: list[Event] = []
    written = Signal()

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, PreparedAhead):
            written.set()

    provider = Provider()
    pool = SessionPool(MemoryStore(), SessionSettings(window=WINDOW, background=True, on_event=hear))
    items = long_list(40)
    for end in range(3, len(items) + 1, 2):
        pool.begin(request_of(items[:end], model=MODEL), provider if not provider.bodies else no_model)
        if provider.bodies:
            assert written.wait(30)
        if compactions(events):
            break

    assert [event.ahead for event in compactions(events)] == [True]
    assert len(provider.bodies) == 1


def test_outside_a_request_there_is_nobody_to_ask() -> None:
    """A session's own model is known only while one of its requests is under way."""
    request = own_request("[user] hi", Additions(), output_tokens=5)

    with pytest.raises(ModelError, match="no request is under way"):
        summarise_upstream(request)


# Documents' presets, and a provider that refuses.


def document_talk(provider: Provider, policy: str, events: list[Event]) -> list[Item]:
    """A client whose provider reports, in the end, more than fits; the messages of the request after that."""
    window = Window(64_000, output_tokens=8_000)
    pool = SessionPool(MemoryStore(), SessionSettings(window=window, policy=policy, on_event=events.append))
    talk = Talk("A", words=40)
    talk.items.insert(0, {"role": "system", "content": "You are the main agent."})
    for tokens in (*[900] * 6, 60_000):
        managed = pool.begin(request_of(talk.items, model=MODEL), provider)
        calls = ({"id": f"c{talk.turn}", "type": "function", "function": {"name": "bash", "arguments": "{}"}},)
        said = answer(f"answer {talk.turn}", tokens=tokens, calls=calls)
        record(managed, msgspec.json.encode(said))
        talk.items += [said["choices"][0]["message"], {"role": "tool", "tool_call_id": calls[0]["id"], "content": "ok"}]
        talk.turn += 1
    return sent_by(pool.begin(request_of(talk.items, model=MODEL), provider))


@pytest.mark.parametrize("policy", ["opencode-1.1.23", "opencode-1.1.57", "proactive"])
def test_a_document_shows_the_own_model_the_messages(policy: str) -> None:
    """S3.4: through a wrapped client too the history goes out as messages, pairs whole, under the compaction agent's prompt."""
    events: list[Event] = []
    provider = Provider()
    sent = document_talk(provider, policy, events)
    (body,) = provider.bodies

    assert body["messages"][0] == {"role": "system", "content": COMPACTION_AGENT.system_text}
    assert body["messages"][1] == {"role": "user", "content": "Port the importer."}
    assert problems(OPENAI_CHAT, body["messages"]) == ()
    assert [item["role"] for item in body["messages"][2:-1]] == ["assistant", "tool"] * 7
    assert (body["tools"], body["tool_choice"]) == (TOOLS, "none")
    assert sent[0] == {"role": "system", "content": "You are the main agent."}
    assert NOTES in str(sent)
    assert [event.safety for event in compactions(events)] == [()]


@pytest.mark.parametrize("policy", ["opencode-1.1.23", "opencode-1.1.57", "opencode-1.18"])
def test_a_client_cannot_be_stopped(policy: str) -> None:
    """S3.9, B8, B36: where the summary fails the request is folded by code, the event says that, and has the provider's words;
    a refusal that lasts is asked about once.
    """
    events: list[Event] = []
    provider = Provider(UpstreamReply(401, b'{"error": {"message": "Incorrect API key provided: sk-abcdef123456"}}'))
    sent = document_talk(provider, policy, events)
    (event,) = compactions(events)

    assert len(provider.bodies) == 1
    assert (event.outcome, event.faults, event.safety) == ("folded", ("failed",), ("code-fold",))
    assert event.error == f"{MODEL}: answered with status 401: Incorrect API key provided: ***"
    assert "Port the importer." in str(sent)
