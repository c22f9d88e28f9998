"""Wrapped clients of the official SDKs against a server that enforces its window, in its provider's own words."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from tests.support.provider_rules import problems

from infold import SessionSettings, open_store, wrap
from infold.core.events import Compacted, FailedOpen, Rejected
from infold.formats.registry import format_named
from infold.testing.script import Fail, Say, ScriptedAnswer, ScriptedRequest, Trouble, in_turn
from infold.testing.scripted_server import ScriptedServer

from .wrap_scenes import (
    CHAT,
    MESSAGES,
    RESPONSES,
    SCENES,
    TASK,
    BreakingStore,
    Item,
    Plan,
    Scene,
    Wrapping,
    go_on,
    only_log,
    run,
    shown,
    worker,
)

pytestmark = pytest.mark.slow

WINDOW = 6_000
TURNS = 40
each_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
each_colour = pytest.mark.parametrize("colour", ["sync", "async"])


# Long sessions in a small window.


@pytest.mark.long
@each_scene
@each_way
@each_colour
def test_forty_turns_never_fail(scene: Scene, stream: bool, colour: str) -> None:
    """B7, B8, B12, B23: no error reaches the caller, no request is over the limit, none is one the provider would refuse."""
    wrapping = Wrapping(window=WINDOW)
    with ScriptedServer(worker, window_tokens=WINDOW, factor=1.15) as server:
        items = run(scene, colour, server, wrapping, Plan(stream=stream))
        requests = server.requests

    assert len(requests) == 2 * TURNS
    assert max(request.tokens for request in requests) <= WINDOW
    assert all(TASK in str(request.body) for request in requests)
    assert all(not _problems(request) for request in requests)
    assert len(wrapping.heard(Compacted)) >= 3
    assert not wrapping.heard(Rejected)
    assert not wrapping.heard(FailedOpen)
    assert len(items) > len(requests[-1].messages)
    assert only_log(wrapping.store).calibration.reports > 0


def _problems(request: ScriptedRequest) -> tuple[str, ...]:
    wire = format_named(request.format)
    return problems(wire, request.body[wire.items_field])


@each_scene
def test_lists_go_the_usual_way(scene: Scene) -> None:
    """B23: messages given to the SDK as its methods take them are made to fit like any other."""
    ask: dict[str, Callable[[Any, list[Item]], Any]] = {
        "chat": lambda client, items: client.chat.completions.create(**CHAT, messages=items),
        "responses": lambda client, items: client.responses.create(**RESPONSES, input=items),
        "messages": lambda client, items: client.messages.create(**MESSAGES, messages=items),
    }
    items: list[Item] = [{"role": "user", "content": TASK}]
    with ScriptedServer(in_turn(Say("Part done.")), window_tokens=WINDOW) as server:
        with wrap(scene.client(server.url), SessionSettings(window=WINDOW)) as client:
            for turn in range(14):
                ask[scene.name](client, items)
                items += [{"role": "assistant", "content": "Part done."}, {"role": "user", "content": shown(turn)}]
        requests = server.requests

    assert len(requests) == 14
    assert len(requests[-1].messages) < len(items)


def test_many_threads_share_one_client() -> None:
    """B14: parallel sessions through one wrapped client, all with the same first words, stay inside and apart."""
    scene = SCENES[0]
    with ScriptedServer(worker, window_tokens=WINDOW) as server:
        client = wrap(scene.client(server.url), SessionSettings(window=WINDOW))

        def one(number: int) -> list[Item]:
            items: list[Item] = [{"role": "user", "content": TASK}, {"role": "assistant", "content": "Well then."}]
            for turn in range(12):
                items.append({"role": "user", "content": f"client {number}, wish {turn}"})
                said = scene.ask(client, items, turn % 2 == 0)
                output = f"client {number}: {shown(turn)}"
                items += [*said.items, *(scene.result(call, output) for call in said.calls)]
                items += scene.ask(client, items, turn % 2 == 1).items
            return items

        with ThreadPoolExecutor(4) as pool:
            lists = list(pool.map(one, range(4)))
        client.close()
        requests = server.requests

    assert len(lists) == 4
    for request in requests:
        assert len({number for number in range(4) if f"client {number}" in str(request.body)}) == 1


# Limits that nobody stated.


@each_scene
@each_colour
def test_an_unknown_limit_is_learned(scene: Scene, colour: str) -> None:
    """B8, B11: a window smaller than assumed is learned from one refusal inside a call, and kept from then on."""
    wrapping = Wrapping()
    with ScriptedServer(worker, window_tokens=WINDOW) as server:
        run(scene, colour, server, wrapping, Plan())
        requests = server.requests

    assert len([request for request in requests if request.tokens > WINDOW]) == 1
    assert [event.limit_tokens for event in wrapping.heard(Rejected)] == [WINDOW]
    assert only_log(wrapping.store).limits.tokens == WINDOW
    assert wrapping.heard(FailedOpen) == []


@each_scene
@each_way
def test_a_second_refusal_is_the_sdks_own_error(scene: Scene, stream: bool) -> None:
    """B8: what a provider refuses twice reaches the caller as the SDK tells it, status, body and all."""
    body = {"error": {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 3000 maximum"}}
    with ScriptedServer(in_turn(Fail(400, body))) as server, scene.client(server.url) as bare:
        client = wrap(bare, SessionSettings(window=WINDOW))
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="prompt is too long"):
            scene.ask(client, _long_list(scene), stream)
        count = len(server.requests)

    assert count == 2


def _long_list(scene: Scene) -> list[Item]:
    """A history that has something to fold."""
    items: list[Item] = []
    with ScriptedServer(worker) as server, scene.client(server.url) as client:
        for turn in range(6):
            go_on(scene, client, items, turn)
    return [*items, {"role": "user", "content": "Go on."}]


# What goes wrong on the way.


@each_scene
@each_colour
def test_a_stream_cut_short_is_asked_for_again(scene: Scene, colour: str) -> None:
    """B13: half a reply reaches the caller as the SDK's error and is not recorded; the next try is."""
    cut = Say("Half of it will never come, however long one waits.", trouble=Trouble(cut_after_events=5))
    store = open_store("memory")
    items: list[Item] = [
        {"role": "user", "content": TASK},
        {"role": "assistant", "content": "Well then."},
        {"role": "user", "content": "Go on."},
    ]

    async def main(url: str) -> None:
        async with wrap(scene.async_client(url), store=store) as client:
            with pytest.raises(Exception, match=r"(?i)connect|incomplete|peer"):
                await scene.ask_async(client, items, True)
            assert len(only_log(store).live) == 3
            await scene.ask_async(client, items, True)

    with ScriptedServer(in_turn(cut, Say("All of it."))) as server:
        if colour == "async":
            asyncio.run(main(server.url))
        else:
            with wrap(scene.client(server.url), store=store) as client:
                with pytest.raises(Exception, match=r"(?i)connect|incomplete|peer"):
                    scene.ask(client, items, True)
                assert len(only_log(store).live) == 3
                scene.ask(client, items, True)

    assert len(only_log(store).live) == 4
    assert "All of it." in str(only_log(store).live[-1].message)


@each_scene
def test_the_sdks_own_retries_do_no_harm(scene: Scene) -> None:
    """B13: requests that a busy server refused and the SDK repeated are stored once and answered."""
    attempts = {"count": 0}

    def busy(request: ScriptedRequest) -> ScriptedAnswer:
        attempts["count"] += 1
        status = {1: 500, 2: 529}.get(attempts["count"] % 4)
        return (
            worker(request) if status is None else Fail(status, headers={"retry-after-ms": "1", "retry-after": "0.001"})
        )

    store, items = open_store("memory"), list[Item]()
    with ScriptedServer(busy, window_tokens=WINDOW) as server, scene.client(server.url) as bare:
        client = wrap(bare.with_options(max_retries=3), SessionSettings(window=WINDOW), store=store)
        for turn in range(12):
            go_on(scene, client, items, turn)
        requests = server.requests

    assert len(requests) > 30
    assert max(request.tokens for request in requests) <= WINDOW
    assert only_log(store).calls == 23  # the first reply came back with the history, which had no name before


@each_scene
@each_colour
def test_a_broken_store_fails_open(scene: Scene, colour: str) -> None:
    """B13: when the disk is full requests are made to fit all the same, replies come back, and events say why."""
    wrapping = Wrapping(store=BreakingStore(after_writes=9), window=WINDOW)
    with ScriptedServer(worker, window_tokens=WINDOW) as server:
        run(scene, colour, server, wrapping, Plan(turns=12))
        requests = server.requests

    assert len(wrapping.heard(FailedOpen)) >= 12
    assert all("the disk is full" in failure.problem for failure in wrapping.heard(FailedOpen))
    assert max(request.tokens for request in requests) <= WINDOW


# What is not infold's.


def test_responses_of_the_sdk_are_whole() -> None:
    """B23: ids of requests, raw and streaming responses, counting tokens and listing models are the provider's own."""
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}
    reply = Fail(200, body, {"x-request-id": "req_1", "request-id": "req_2"})
    with ScriptedServer(in_turn(reply, reply, reply, Say("Hello!"))) as server, SCENES[0].client(server.url) as bare:
        client = wrap(bare)
        asked: Item = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        plain = client.chat.completions.create(**asked)
        raw = client.chat.completions.with_raw_response.create(**asked)
        with client.chat.completions.with_streaming_response.create(**asked) as streamed:
            lines = list(streamed.iter_lines())
        with SCENES[2].client(server.url) as other:
            counted = wrap(other).messages.count_tokens(model="m", messages=asked["messages"])
        listed = client.models.list()

    assert plain._request_id == "req_1"
    assert raw.headers["x-request-id"] == "req_1"
    assert raw.elapsed.total_seconds() > 0
    assert raw.parse().choices[0].message.content == "Hello!"
    assert streamed.headers["request-id"] == "req_2"
    assert "Hello!" in "".join(lines)
    assert counted.input_tokens > 0
    assert [model.id for model in listed] == ["scripted"]


CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hello!"}, "finish_reason": "stop"}


def test_history_at_the_provider_is_left_there() -> None:
    """B23: with `previous_response_id` the request is relayed and nothing of it is stored; a lone text is managed."""
    store = open_store("memory")
    with ScriptedServer(in_turn(Say("Hello!"))) as server, SCENES[1].client(server.url) as bare:
        client = wrap(bare, store=store, session="s")
        first = client.responses.create(model="m", input="hi", store=True)
        client.responses.create(model="m", input="go on", previous_response_id=first.id)
        bodies = [request.body for request in server.requests]

    assert bodies[0]["input"] == "hi"
    assert bodies[1] == {"model": "m", "input": "go on", "previous_response_id": first.id}
    assert len(only_log(store).live) == 2


# Going on elsewhere.


def test_another_process_goes_on(tmp_path: Path) -> None:
    """B13, B29: a new client on the same file goes on with the same session, and its first request begins as the last one did."""
    scene, place = SCENES[2], str(tmp_path / "log.sqlite3")
    items: list[Item] = []
    with ScriptedServer(worker, window_tokens=WINDOW) as server:
        for turn in range(24):
            with wrap(scene.client(server.url), SessionSettings(window=WINDOW), store=place) as client:
                go_on(scene, client, items, turn)
        requests = server.requests
    store = open_store(place)

    assert max(request.tokens for request in requests) <= WINDOW
    assert only_log(store).checkpoint is not None
    sent = [request.body["messages"] for request in requests]
    breaks = sum(after[: len(before)] != before for before, after in pairwise(sent))
    assert breaks <= 5
    store.close()
