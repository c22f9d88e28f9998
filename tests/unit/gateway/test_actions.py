"""What a person does to a session from the page, its client finds done."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from infold.core.entries import Checkpoint, Pin, Restoration
from infold.core.messages import SessionId
from infold.errors import UnknownSession, UsageError
from infold.gateway.actions import SessionActions
from infold.gateway.event_hub import EventHub
from infold.gateway.tenants import TenantSessions
from infold.ports import SessionKey
from infold.session.compaction import Preview
from infold.session.session import Session
from infold.settings import read_settings
from infold.stores.memory import MemoryStore
from infold.testing.script import Say
from infold.testing.scripted_server import ScriptedServer

from .stage import Item, Stage, said, settings

TURNS = 8
TOOLS = [
    {"type": "function", "function": {"name": "look", "description": "Looks for apples. " * 800, "parameters": {}}}
]


@pytest.fixture
def upstream() -> Iterator[ScriptedServer]:
    """An upstream that agrees, after some thought."""
    with ScriptedServer(lambda _: Say("I agree about the apples.", reasoning="Do I?")) as server:
        yield server


def requests(number: int) -> dict[str, tuple[str, Item]]:
    """A turn of a person in each format, and where it goes."""
    return {
        "openai-chat": ("/v1/chat/completions", {"role": "user", "content": said(number)}),
        "openai-responses": ("/v1/responses", {"role": "user", "content": said(number)}),
        "anthropic-messages": ("/v1/messages", {"role": "user", "content": said(number)}),
        "gemini": ("/v1beta/models/gemini-x:generateContent", {"role": "user", "parts": [{"text": said(number)}]}),
    }


def replied(name: str, body: Any) -> list[Item]:
    """What a client adds to its history of a reply."""
    match name:
        case "openai-chat":
            return [body["choices"][0]["message"]]
        case "openai-responses":
            return list(body["output"])
        case "anthropic-messages":
            return [{"role": "assistant", "content": body["content"]}]
        case _:
            return [body["candidates"][0]["content"]]


class Talk:
    """A client of the gateway in one format."""

    def __init__(self, name: str, *, key: str = "k", **fields: Any) -> None:
        self.name = name
        self._fields = fields
        self.history: list[Item] = []
        self._headers = {"x-infold-session": "talk", "authorization": f"Bearer {key}"}

    async def turn(self, client: Any, number: int) -> None:
        """One more turn."""
        path, item = requests(number)[self.name]
        self.history.append(item)
        field = {"openai-responses": "input", "gemini": "contents"}.get(self.name, "messages")
        body = {"model": "gpt-x", "max_tokens": 100, field: self.history, **self._fields}
        answer = await client.post(path, json=body, headers=self._headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-infold"] == "managed"
        self.history += replied(self.name, answer.json())


def key_of(stage: Stage, key: str = "k") -> SessionKey:
    """The session of a talk."""
    return SessionKey(stage.tenants.of({"authorization": f"Bearer {key}"}, {}), SessionId("talk"))


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
def test_a_compaction_by_hand_holds_for_the_next_request(upstream: ScriptedServer, name: str) -> None:
    """B20: compacted, the next request is short and holds the tail; undone, it is whole again, whatever the format."""

    async def act() -> list[int]:
        stage, talk = Stage(upstream.url, window=60_000), Talk(name)
        acts = SessionActions(stage.tenant_sessions)
        async with stage.client() as client:
            for number in range(TURNS):
                await talk.turn(client, number)
            preview = await acts.preview(key_of(stage), None)
            await acts.compact(key_of(stage), "the apples", None)
            await talk.turn(client, TURNS)
            await acts.undo(key_of(stage), None)
            await talk.turn(client, TURNS + 1)
        entries = [type(entry) for _, entry in stage.store.newest_first(key_of(stage))]
        assert (entries.count(Checkpoint), entries.count(Restoration)) == (1, 1)
        assert preview.folded_messages > 0
        assert not [event for event in stage.events if type(event).__name__ == "FailedOpen"]
        return [len(request.messages) for request in upstream.requests]

    sent = asyncio.run(act())

    assert sent[-2] < sent[-3] < sent[-1]


def test_up_to_a_message(upstream: ScriptedServer) -> None:
    """B20: a person may say which message is the first to keep."""

    async def act() -> int:
        stage, talk = Stage(upstream.url, window=60_000), Talk("openai-chat")
        async with stage.client() as client:
            for number in range(8):
                await talk.turn(client, number)
            await SessionActions(stage.tenant_sessions).compact(key_of(stage), "", 14)
        [checkpoint] = [e for _, e in stage.store.newest_first(key_of(stage)) if isinstance(e, Checkpoint)]
        return checkpoint.folded

    assert asyncio.run(act()) == 14


def test_nothing_done_is_told(upstream: ScriptedServer) -> None:
    """B20: where a checkpoint would be no smaller than what it stands for, nothing is done, and whoever asked knows."""

    async def act() -> list[bool]:
        stage, talk = Stage(upstream.url, window=60_000), Talk("openai-chat")
        acts, done = SessionActions(stage.tenant_sessions), []
        async with stage.client() as client:
            await talk.turn(client, 0)
            done.append(await acts.compact(key_of(stage), "", None))
            for number in range(1, TURNS):
                await talk.turn(client, number)
            done.append(await acts.compact(key_of(stage), "", None))
        return done

    assert asyncio.run(act()) == [False, True]


def test_what_is_sent_beside_the_messages_counts(upstream: ScriptedServer) -> None:
    """B8: a compaction from the page weighs the system prompt and tools of the newest request, as the page's window does."""

    async def act() -> tuple[int, int]:
        stage, talk = Stage(upstream.url, window=60_000), Talk("openai-chat", tools=TOOLS)
        async with stage.client() as client:
            for number in range(TURNS):
                await talk.turn(client, number)
            preview = await SessionActions(stage.tenant_sessions).preview(key_of(stage), None)
            await SessionActions(stage.tenant_sessions).compact(key_of(stage), "", None)
        [checkpoint] = [e for _, e in stage.store.newest_first(key_of(stage)) if isinstance(e, Checkpoint)]
        return preview.tokens_before, checkpoint.tokens_before

    foreseen, done = asyncio.run(act())

    assert foreseen > 4_000
    assert done == foreseen


def test_a_number_beyond_the_end_is_refused(upstream: ScriptedServer) -> None:
    """B20: nobody who mistypes a number compacts everything."""

    async def act() -> None:
        stage, talk = Stage(upstream.url, window=60_000), Talk("openai-chat")
        acts = SessionActions(stage.tenant_sessions)
        async with stage.client() as client:
            for number in range(TURNS):
                await talk.turn(client, number)
            for asked in (acts.preview(key_of(stage), 999_999), acts.compact(key_of(stage), "", 999_999)):
                with pytest.raises(UsageError, match="999999"):
                    await asked

    asyncio.run(act())


def test_who_summarises_is_known(upstream: ScriptedServer) -> None:
    """A model that the settings name, or code alone."""
    stage = Stage(upstream.url)
    named = TenantSessions(stage.store, settings(INFOLD_COMPACTION_MODEL="gpt-5-mini"), stage.hub)

    assert not SessionActions(stage.tenant_sessions).summarises(key_of(stage))
    assert SessionActions(named).summarises(key_of(stage))


def test_a_pin_is_kept_and_released(upstream: ScriptedServer) -> None:
    """B20: a part is pinned and released by its handle."""

    async def act() -> list[Pin]:
        stage, talk = Stage(upstream.url), Talk("openai-chat")
        acts = SessionActions(stage.tenant_sessions)
        async with stage.client() as client:
            await talk.turn(client, 0)
            await acts.pin(key_of(stage), "0.0", pinned=True)
            await acts.pin(key_of(stage), "0.0", pinned=False)
            await talk.turn(client, 1)
        return [entry for _, entry in stage.store.newest_first(key_of(stage)) if isinstance(entry, Pin)]

    assert [pin.pinned for pin in asyncio.run(act())] == [False, True]


def test_acts_concern_one_tenant(upstream: ScriptedServer) -> None:
    """B28: the same history of another tenant is untouched."""

    async def act() -> list[int]:
        stage = Stage(upstream.url, window=60_000)
        async with stage.client() as client:
            for key in ("k", "other"):
                talk = Talk("openai-chat", key=key)
                for number in range(TURNS):
                    await talk.turn(client, number)
            await SessionActions(stage.tenant_sessions).compact(key_of(stage), "", None)
        keys = (key_of(stage), key_of(stage, "other"))
        return [sum(isinstance(e, Checkpoint) for _, e in stage.store.newest_first(key)) for key in keys]

    assert asyncio.run(act()) == [1, 0]


def test_a_session_that_is_not_there_is_told(upstream: ScriptedServer) -> None:
    """Nothing is begun by acting on it."""
    stage = Stage(upstream.url)
    acts = SessionActions(stage.tenant_sessions)

    with pytest.raises(UnknownSession):
        asyncio.run(acts.compact(key_of(stage), "", None))
    assert stage.sessions() == []
    assert acts.window_of(key_of(stage)) is None


def test_nothing_to_undo_is_told(upstream: ScriptedServer) -> None:
    """B20: the refusal is one that a person can be shown."""

    async def act() -> None:
        stage, talk = Stage(upstream.url), Talk("openai-chat")
        async with stage.client() as client:
            await talk.turn(client, 0)
            await SessionActions(stage.tenant_sessions).undo(key_of(stage), None)

    with pytest.raises(UsageError, match="no compaction to undo"):
        asyncio.run(act())


def test_the_window_is_that_of_the_model_that_answers(upstream: ScriptedServer) -> None:
    """What the page draws as the limit: by the settings, or what is known of the model."""

    async def window(window: int | None) -> int | None:
        stage, talk = Stage(upstream.url, window=window), Talk("anthropic-messages")
        async with stage.client() as client:
            await talk.turn(client, 0)
        return SessionActions(stage.tenant_sessions).window_of(key_of(stage))

    known = asyncio.run(window(None))

    assert asyncio.run(window(7_000)) == 7_000
    assert known is not None
    assert known > 7_000


def test_how_much_of_a_window_is_filled_follows_the_settings() -> None:
    """The room for the reply is left out, and a working window counts; settings that contradict a window leave all of it."""

    def usable(window: int, **variables: str) -> int:
        sessions = TenantSessions(MemoryStore(), read_settings(variables, None), EventHub())
        return SessionActions(sessions).usable_tokens("unknown-model", window)

    assert usable(8_000) == 6_800
    assert usable(1_000_000, INFOLD_WORKING_WINDOW="100k") == 85_000
    assert usable(8_000, INFOLD_COMPACTION_RESERVED="9000") == 8_000


LARGE_MODEL = "claude-sonnet-5-5"


def steps_of_a_tool(store: MemoryStore, model: str = LARGE_MODEL) -> Session:
    """A session of 60 tool calls with a model of a large window, recorded without a gateway; 24,000 tokens."""
    session = Session(store, "big", model=model, format="openai-chat")
    new: list[Item] = [{"role": "user", "content": "Port it. Never touch vendor/."}]
    for number in range(60):
        session.prepare_new(new)
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        reply = {"role": "assistant", "content": f"step {number}", "tool_calls": [call]}
        session.record({"choices": [{"message": reply, "finish_reason": "tool_calls"}]})
        new = [{"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number}\n" * 300}]
    return session


@pytest.mark.parametrize("model", [LARGE_MODEL, "gpt-5"])
def test_a_stored_session_keeps_its_window(model: str) -> None:
    """B20: the limit and a compaction are those of the recorded model, whatever window this process states for requests."""
    key = SessionKey("", SessionId("big"))

    def seen(stated: str) -> tuple[int | None, int, Preview]:
        acts = SessionActions(
            TenantSessions(store, settings(**({"INFOLD_WINDOW": stated} if stated else {})), EventHub())
        )
        window = acts.window_of(key)
        return window, acts.usable_tokens(model, window or 0), asyncio.run(acts.preview(key, None))

    store = MemoryStore()
    session = steps_of_a_tool(store, model)
    own = seen("")

    assert own[:2] == (session.window_tokens, session.limit_tokens)
    assert own[2].tokens_after > 5_000
    assert seen("8192") == own


def test_prices_are_those_of_the_catalogue_if_it_has_them() -> None:
    """An unknown model has none, and neither has a reply without a model."""
    actions = SessionActions(TenantSessions(MemoryStore(), read_settings({}, None), EventHub()))
    known = actions.prices_of("gpt-5")

    assert known is not None
    assert known.input > 0
    assert (actions.prices_of("unknown-model"), actions.prices_of("")) == (None, None)
