"""State inside a history, and summaries that a provider wrote for the client, through the gateway."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.support.state import (
    AGENTS,
    TOOLS,
    addition,
    anthropic_session,
    anthropic_state,
    codex_session,
    definition,
    environment_in,
    misplaced,
    removal,
    system,
)

from infold.core.events import Compacted, FailedOpen, NotManaged

from .raw_upstream import RawRequest, RawUpstream, begun, whole
from .stage import Item, Stage

STEPS, COMPACTIONS = 300, 10
BLOCK: Item = {
    "type": "compaction",
    "content": "The orchard was looked after: rows 0 to 20 are done.",
    "encrypted_content": "c2VhbA==",
    "signature": "c2lnbmVk",
    "tool_changes": [removal("deploy"), definition("graft")],
}
LONG = "The orchard has apples, pears and plums; the press is cold and the cellar is full. " * 30


def upstream_with(replies: Iterable[list[Item]]) -> RawUpstream:
    """An upstream that answers each request with the next of these replies, and a request for a summary with a block."""
    waiting = iter(replies)

    def reply(request: RawRequest) -> Iterator[bytes]:
        body = json.loads(request.body)
        content = [BLOCK] if "compaction" in body else next(waiting)
        if body.get("stream"):
            yield begun() + b"".join(stream_of(content))
        elif "input" in body:
            yield whole(json.dumps({"object": "response", "status": "completed", "output": content}).encode())
        else:
            yield whole(json.dumps({"role": "assistant", "content": content, "stop_reason": "end_turn"}).encode())

    return RawUpstream(reply)


def bodies_at(upstream: RawUpstream) -> list[Item]:
    """The bodies of the requests that an upstream got."""
    return [json.loads(request.body) for request in upstream.requests]


def stream_of(content: list[Item]) -> Iterator[bytes]:
    """A reply as events, each block whole."""
    events: list[Item] = [{"type": "message_start", "message": {"role": "assistant", "content": []}}]
    for index, block in enumerate(content):
        given = {name: value for name, value in block.items() if name not in ("content", "encrypted_content")}
        delta = {
            "type": "compaction_delta",
            "content": block["content"],
            "encrypted_content": block["encrypted_content"],
        }
        events += [
            {"type": "content_block_start", "index": index, "content_block": {**given, "content": None}},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [{"type": "message_delta", "delta": {"stop_reason": "compaction"}}, {"type": "message_stop"}]
    return (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def folds(stage: Stage) -> int:
    """How often a session was folded."""
    assert not [event for event in stage.events if isinstance(event, FailedOpen)]
    return sum(isinstance(event, Compacted) for event in stage.events)


@pytest.mark.slow
def test_tools_and_dated_instructions_are_the_same_after_ten_compactions() -> None:
    """B33: what the upstream gets has the tools, texts and effort of the client's list, where the API takes them."""
    pieces = list(anthropic_session(STEPS))
    states: list[Any] = []

    async def run(stage: Stage) -> None:
        history: list[Item] = []
        async with stage.client() as client:
            for piece in pieces:
                history += piece
                await client.post("/v1/messages", json={"model": "m", "tools": TOOLS, "messages": history})
                states.append(anthropic_state(history))

    with upstream_with(
        [*(piece[0]["content"] for piece in pieces[1:]), [{"type": "text", "text": "Done."}]]
    ) as upstream:
        stage = Stage(upstream.url)
        asyncio.run(run(stage))
        sent = [body["messages"] for body in bodies_at(upstream)]

    assert folds(stage) >= COMPACTIONS
    assert [anthropic_state(messages) for messages in sent] == states
    assert not [problem for messages in sent for problem in misplaced(messages)]
    assert len(stage.sessions()) == 1


@pytest.mark.slow
def test_instructions_and_working_folder_are_the_same_after_ten_compactions() -> None:
    """B33: what the upstream gets has Codex's AGENTS.md and the newest environment, word for word."""
    pieces = list(codex_session(STEPS))
    expected: list[dict[str, str]] = []

    async def run(stage: Stage) -> None:
        history: list[Item] = []
        async with stage.client() as client:
            for piece in pieces:
                history += piece
                await client.post("/v1/responses", json={"model": "m", "tools": [{"type": "x"}], "input": history})
                expected.append(environment_in(texts(history)))

    with upstream_with(
        [*(piece[:1] for piece in pieces[1:]), [{"type": "message", "role": "assistant", "content": "Done."}]]
    ) as upstream:
        stage = Stage(upstream.url)
        asyncio.run(run(stage))
        sent = [body["input"] for body in bodies_at(upstream)]

    assert folds(stage) >= COMPACTIONS
    assert [environment_in(texts(items)) for items in sent] == expected
    assert all(texts(items).count(AGENTS) == 1 for items in sent)


def texts(items: list[Any]) -> list[str]:
    """The texts of Responses items."""
    contents = [item["content"] for item in items if "content" in item]
    return [one if isinstance(one, str) else one[0]["text"] for one in contents]


def turn(number: int) -> list[Item]:
    """A turn of the user and the reply."""
    return [{"role": "user", "content": f"Row {number}. {LONG}"}, {"role": "assistant", "content": [reply_to(number)]}]


def reply_to(number: int) -> Item:
    """A reply of the model."""
    return {"type": "text", "text": f"Row {number} is done. {LONG}"}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("headers", [{}, {"x-infold-session": "orchard"}, {"x-claude-code-session-id": "agent"}])
def test_a_clients_own_compaction_goes_on_in_its_session(headers: dict[str, str], streams: bool) -> None:
    """B33: a summary that the client asked for is relayed and learned; the list that begins with it is the same session."""

    async def run(stage: Stage) -> list[str]:
        history: list[Item] = []
        notes: list[str] = []
        async with stage.client(headers=headers) as client:

            async def ask(**fields: Any) -> None:
                body = {"model": "m", "tools": TOOLS, "messages": history, **fields}
                notes.append((await client.post("/v1/messages", json=body)).headers["x-infold"])

            for number in range(8):
                history += turn(number)[:1]
                await ask()
                history += turn(number)[1:]
            await ask(compaction={"type": "summarize"}, stream=streams)
            history[:] = [{"role": "assistant", "content": [BLOCK]}]
            for number in range(8, 16):
                history += turn(number)[:1]
                await ask()
                history += turn(number)[1:]
        return notes

    with upstream_with([reply_to(number)] for number in range(16)) as upstream:
        stage = Stage(upstream.url)
        notes = asyncio.run(run(stage))
        bodies = bodies_at(upstream)

    assert len(stage.sessions()) == 1
    assert [note.split(";")[0] for note in notes] == [*["managed"] * 8, "relayed", *["managed"] * 8]
    assert len(bodies[8]["messages"]) == 16
    assert [event.why for event in stage.events if isinstance(event, NotManaged)]
    assert folds(stage) >= 2
    for body in bodies[9:]:
        assert body["messages"][0] == {"role": "assistant", "content": [BLOCK]}
        assert not misplaced(body["messages"])
        assert "graft" in anthropic_state(body["messages"]).tools
        assert "deploy" not in anthropic_state(body["messages"]).tools
    assert len(bodies[9]["messages"]) == 2
    assert len(bodies[-1]["messages"]) < 16


def test_a_summary_that_is_not_used_changes_nothing() -> None:
    """B33: a client that asks for a summary and then goes on with its whole list stays in its session."""

    async def run(stage: Stage) -> None:
        history: list[Item] = []
        async with stage.client() as client:
            for number in range(6):
                history += turn(number)[:1]
                body = {"model": "m", "tools": TOOLS, "messages": history}
                await client.post("/v1/messages", json=body)
                history += turn(number)[1:]
                await client.post(
                    "/v1/messages", json={**body, "messages": history, "compaction": {"type": "summarize"}}
                )

    with upstream_with([reply_to(number)] for number in range(6)) as upstream:
        stage = Stage(upstream.url, window=200_000)
        asyncio.run(run(stage))
        sent = [body["messages"] for body in bodies_at(upstream)]

    assert len(stage.sessions()) == 1
    assert len(sent[-1]) == 12


def test_tool_changes_after_a_block_add_to_it() -> None:
    """B33: behind a block that the client brings, later tool changes survive folds, and earlier state is the block's alone."""
    history: list[Item] = [
        {"role": "assistant", "content": [BLOCK]},
        {"role": "user", "content": "Go on."},
        system(addition("deploy"), removal("graft"), "Be brief."),
    ]
    for number in range(10):
        history += [
            {"role": "assistant", "content": [reply_to(number)]},
            {"role": "user", "content": f"Row {number}. {LONG}"},
        ]

    async def run(stage: Stage) -> None:
        async with stage.client() as client:
            await client.post("/v1/messages", json={"model": "m", "tools": TOOLS, "messages": history})

    with upstream_with([[reply_to(0)]]) as upstream:
        stage = Stage(upstream.url)
        asyncio.run(run(stage))
        (body,) = bodies_at(upstream)

    assert folds(stage) >= 1
    assert anthropic_state(body["messages"]) == anthropic_state(history)
    assert not misplaced(body["messages"])
