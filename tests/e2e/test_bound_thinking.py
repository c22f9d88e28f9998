"""Thinking that a model binds to what stands before it, over many steps and compactions, through every entry point."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

from infold import AsyncSession, Session, SessionSettings, fit, open_store, wrap
from infold.agent.agents import BUILD
from infold.agent.loop import Loop, RunLimits
from infold.core.events import Compacted, Event, Rejected
from infold.core.messages import ModelRef
from infold.models.anthropic import AnthropicMessages
from infold.testing.scripted_server import ScriptedServer

from ..unit.agent.builders import toolbox_in  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252
from .gateway_stage import serving
from .thinking_server import DROPS, MODEL, STEPS, SYSTEM, TOOLS, WINDOW, Item, Refused, Thinker, Worker, body_of

pytestmark = pytest.mark.slow

UNKNOWN = "a-model-of-next-year"
Way = Callable[[Thinker, str, "list[Event]", Item], Worker]
"""Works to the end through one entry point, with that model and those further fields of the request."""


def through_fit(thinker: Thinker, model: str, _: list[Event], fields: Item) -> Worker:
    """`fit` before every request."""
    stated = False if fields else None

    def ask(items: list[Item]) -> Item:
        fitted = fit(items, model=model, window=WINDOW, system=SYSTEM, tools=TOOLS, bound_thinking=stated)
        return thinker.reply(body_of(fitted.messages, model, **fields))

    return Worker().run(ask)


def through_session(thinker: Thinker, model: str, events: list[Event], fields: Item) -> Worker:
    """`prepare`, `record`, and `recover` after a refusal."""
    stated = False if fields else None
    settings = SessionSettings(
        model=model, window=WINDOW, format="anthropic-messages", bound_thinking=stated, on_event=events.append
    )
    session = Session(open_store("memory"), "s", settings)

    def ask(items: list[Item]) -> Item:
        ready = session.prepare(items, system=SYSTEM, tools=TOOLS, output_tokens=400)
        try:
            reply = thinker.reply(body_of(ready.messages, model, **fields))
        except Refused as refusal:
            again = session.recover(refusal)
            if again is None:
                raise
            try:
                reply = thinker.reply(body_of(again.messages, model, **fields))
            except Refused as second:
                last = session.recover(second)
                if last is None:
                    raise
                reply = thinker.reply(body_of(last.messages, model, **fields))
        session.record(reply)
        return reply

    return Worker().run(ask)


def through_async_session(thinker: Thinker, model: str, events: list[Event], fields: Item) -> Worker:
    """The same, awaited."""
    stated = False if fields else None
    settings = SessionSettings(
        model=model, window=WINDOW, format="anthropic-messages", bound_thinking=stated, on_event=events.append
    )

    async def work() -> Worker:
        session = await AsyncSession.open(open_store("memory"), "s", settings)
        worker = Worker()
        for new in worker.turns():
            worker.items.append(new)
            ready = await session.prepare(worker.items, system=SYSTEM, tools=TOOLS, output_tokens=400)
            try:
                reply = thinker.reply(body_of(ready.messages, model, **fields))
            except Refused as refusal:
                again = await session.recover(refusal)
                if again is None:
                    raise
                try:
                    reply = thinker.reply(body_of(again.messages, model, **fields))
                except Refused as second:
                    last = await session.recover(second)
                    if last is None:
                        raise
                    reply = thinker.reply(body_of(last.messages, model, **fields))
            await session.record(reply)
            worker.take(reply)
        return worker

    return asyncio.run(work())


def through_wrap(thinker: Thinker, model: str, events: list[Event], fields: Item) -> Worker:
    """A wrapped client, whose own model writes the summaries."""
    with ScriptedServer(thinker) as server:
        client = wrap(_client(server.url), SessionSettings(window=WINDOW, on_event=events.append))
        return Worker().run(_asking(client, model, fields))


def through_gateway(thinker: Thinker, model: str, events: list[Event], fields: Item) -> Worker:
    """An ordinary client behind the gateway."""
    with ScriptedServer(thinker) as server:
        stage = Stage(server.url, window=WINDOW)
        with serving(stage.app) as url:
            worker = Worker().run(_asking(_client(url), model, fields))
        events += stage.events
        return worker


def through_agent(thinker: Thinker, model: str, events: list[Event], folder: Path) -> str:
    """The agent's own loop and model, on a store; gives how it ended."""
    (folder / "Makefile").write_text("step-%:\n\t@seq 700 | sed 's/^/compiling the module $@ /' | head -90\n")
    with ScriptedServer(thinker) as server:
        asked = AnthropicMessages(ModelRef("anthropic", model), _client(server.url))
        settings = SessionSettings(
            model=model,
            window=WINDOW,
            format="anthropic-messages",
            summariser=asked.summarise,
            on_event=events.append,
        )
        session = Session(open_store("memory"), "s", settings)
        loop = Loop(session, asked, BUILD, toolbox_in(folder), emit=lambda _: None, limits=RunLimits(output_tokens=400))
        for _ in range(STEPS // 10):
            ended = loop.run("Go on with the next part.").ending
    return ended


def _client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)


def _asking(client: anthropic.Anthropic, model: str, fields: Item) -> Callable[[list[Item]], Item]:
    def ask(items: list[Item]) -> Item:
        body: Any = body_of(items, model)
        reply: Item = client.messages.create(**body, extra_body=fields).model_dump(mode="json", exclude_none=True)
        return reply

    return ask


WAYS: dict[str, Way] = {
    "fit": through_fit,
    "Session": through_session,
    "AsyncSession": through_async_session,
    "wrap": through_wrap,
    "gateway": through_gateway,
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@each_way
def test_a_known_model_never_refuses(way: Way) -> None:
    """B32: over 120 steps and several compactions a model known to bind thinking refuses nothing, and later thinking is kept."""
    thinker, events = Thinker(), list[Event]()
    worker = way(thinker, MODEL, events, {})

    assert (worker.refused, thinker.refusals) == (0, [])
    assert len(worker.thinking) == 121
    assert max(thinker.kept[60:]) >= 3
    if events:
        assert sum(isinstance(event, Compacted) for event in events) >= 3
        assert not any(isinstance(event, Rejected) for event in events)


@pytest.mark.parametrize("way", [way for name, way in WAYS.items() if name != "fit"], ids=list(WAYS)[1:])
def test_an_unknown_model_refuses_once(way: Way) -> None:
    """B32: a refusal teaches that a model binds thinking, once for the session, and the client does not notice."""
    thinker, events = Thinker(), list[Event]()
    worker = way(thinker, UNKNOWN, events, {})

    assert worker.refused == 0
    assert len(thinker.refusals) == 1
    assert sum(isinstance(event, Rejected) for event in events) == 1


@pytest.mark.long
@each_way
@pytest.mark.parametrize("model", ["claude-opus-5", UNKNOWN])
def test_without_binding_all_thinking_is_kept(way: Way, model: str) -> None:
    """B12, B32: a model that wants the thinking of an open loop gets all that the kept messages hold."""
    thinker = Thinker(binds=False, manual=True)
    worker = way(thinker, model, [], {})

    assert (worker.refused, thinker.refusals) == (0, [])
    assert min(thinker.kept[-40:]) >= 2
    assert not any(thinker.bare)


@pytest.mark.long
@each_way
def test_a_client_that_asks_for_dropping_keeps_its_thinking(way: Way) -> None:
    """B32: where the request asks the provider to drop bound thinking, nothing is removed, and no summary is refused."""
    thinker = Thinker()
    worker = way(thinker, MODEL, [], {"thinking": DROPS})

    assert (worker.refused, thinker.refusals) == (0, [])
    assert thinker.dropped


@pytest.mark.parametrize(("model", "most"), [(MODEL, 0), (UNKNOWN, 1)])
def test_the_agent_works_through(model: str, most: int, tmp_path: Path) -> None:
    """B32: the agent ends every task though its model binds thinking; an unknown one refuses once, and the session remembers."""
    thinker, events = Thinker(tool="shell"), list[Event]()
    ending = through_agent(thinker, model, events, tmp_path)

    assert ending == "done"
    assert thinker.replies == STEPS
    assert len(thinker.refusals) == most
    assert sum(isinstance(event, Compacted) for event in events) >= 3


def test_a_session_remembers_in_another_process(tmp_path: Path) -> None:
    """B32: what a refusal taught is in the store; whoever opens the session next is refused nothing, after folds too."""
    thinker, place = Thinker(), str(tmp_path / "sessions.sqlite3")
    refused: list[int] = []
    worker = Worker(steps=STEPS)
    for number, new in enumerate(worker.turns()):
        if number % 8 == 0:
            store = open_store(place)
            settings = SessionSettings(model=UNKNOWN, window=WINDOW, format="anthropic-messages")
            session = Session(store, "s", settings)
        worker.items.append(new)
        ready = session.prepare(worker.items, system=SYSTEM, tools=TOOLS, output_tokens=400)
        try:
            reply = thinker.reply(body_of(ready.messages, UNKNOWN))
        except Refused as refusal:
            refused.append(number)
            again = session.recover(refusal)
            assert again is not None
            reply = thinker.reply(body_of(again.messages, UNKNOWN))
        session.record(reply)
        worker.take(reply)
        if number % 8 == 7:
            store.close()
    store.close()

    assert len(refused) == 1


@pytest.mark.parametrize("way", ["wrap", "gateway"])
def test_a_request_refused_twice_is_recovered_twice(way: str) -> None:
    """B7, B32: one refused for its size, and then for the thinking behind the fold, reaches its client answered."""
    thinker, events = Thinker(), list[Event]()
    with ScriptedServer(thinker, window_tokens=12_000) as server:
        if way == "wrap":
            client = wrap(_client(server.url), SessionSettings(window=WINDOW, on_event=events.append))
            worker = Worker(steps=40).run(_asking(client, UNKNOWN, {}))
        else:
            stage = Stage(server.url, window=WINDOW)
            with serving(stage.app) as url:
                worker = Worker(steps=40).run(_asking(_client(url), UNKNOWN, {}))
            events += stage.events

    assert worker.refused == 0
    assert len(thinker.refusals) == 1
    assert {event.outdated_thinking > 0 for event in events if isinstance(event, Rejected)} == {True, False}


@pytest.mark.long
@pytest.mark.parametrize("model", [MODEL, UNKNOWN])
@pytest.mark.parametrize("way", [way for name, way in WAYS.items() if name != "fit"], ids=list(WAYS)[1:])
def test_a_stricter_provider_is_met_without_the_client(way: Way, model: str) -> None:
    """B32: where the thinking of work under way may not be missing either, that work is folded; the client sees no refusal."""
    thinker, events = Thinker(strict=True), list[Event]()
    worker = way(thinker, model, events, {})
    folds = sum(isinstance(event, Compacted) for event in events)

    assert worker.refused == 0
    assert thinker.replies == STEPS + 1
    assert folds > len(thinker.refusals) / 2 > 0
