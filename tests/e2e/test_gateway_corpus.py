"""Every transcript through the gateway below the trigger: what arrives upstream is what the client sent, byte for byte."""

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from msgspec import Struct
from tests.support.corpus import each_transcript

from infold.core.messages import AssistantMessage, Message, calls_of, results_of
from infold.formats.registry import ANTHROPIC_MESSAGES, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.transcripts.registry import read_transcript

from ..unit.gateway.raw_upstream import RawUpstream, whole  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252

WINDOW = 100_000_000
MOST_MESSAGES = 120
"""Of each file the beginning of its longest session; the other tests of the corpus have the rest."""

pytestmark = pytest.mark.slow


class Sent(Struct, frozen=True):
    """A request as a client writes it."""

    path: str
    body: bytes


PATHS: tuple[tuple[WireFormat, str], ...] = (
    (OPENAI_CHAT, "/v1/chat/completions"),
    (OPENAI_RESPONSES, "/v1/responses"),
    (ANTHROPIC_MESSAGES, "/v1/messages"),
    (GEMINI, "/v1beta/models/gemini-x:generateContent"),
)


def requests(messages: tuple[Message, ...], tools: str) -> Iterator[Sent]:
    """Growing requests of a session in all four formats, each written in another hand.

    One with a call that was never answered is left out: no provider would take it, and infold mends it.
    """
    ends = request_ends(messages)
    for number, (wire, path) in enumerate(PATHS):
        for end in (ends[0], ends[len(ends) // 2], ends[-1]):
            items = [item for message in messages[:end] for item in wire.encode_new(message)]
            body = {"model": "m", "tools": [{"name": tools[:200]}], wire.items_field: items, "novel": [1.50, None]}
            yield Sent(path, json.dumps(body, ensure_ascii=bool(number % 2), indent=number or None).encode())


def request_ends(messages: tuple[Message, ...]) -> list[int]:
    """Where a client sent what it had: before each reply that follows something else, with every call answered."""
    pairs = pairwise(isinstance(message, AssistantMessage) for message in messages)
    places = (place for place, (before, after) in enumerate(pairs, 1) if after and not before)
    return [place for place in places if not unanswered(messages[:place])]


def unanswered(messages: tuple[Message, ...]) -> set[str]:
    """The calls without a result."""
    called = {call.call_id for message in messages for call in calls_of(message)}
    return called - {result.call_id for message in messages for result in results_of(message)}


async def relayed(stage: Stage, sent: list[Sent]) -> list[httpx2.Response]:
    """What the gateway answers to them, one after the other."""
    async with stage.client({"authorization": "Bearer k", "content-type": "application/json"}) as client:
        return [await client.post(one.path, content=one.body) for one in sent]


@each_transcript()
def test_below_the_trigger_nothing_is_touched(entry: dict[str, Any]) -> None:
    """B29: whatever a real session holds, in whatever format, its requests arrive as their client wrote them."""
    session = max(read_transcript(entry["path"]).sessions, key=lambda session: len(session.messages))
    sent = list(requests(session.messages[:MOST_MESSAGES], session.tools))
    with RawUpstream(lambda _: [whole(b"{}")]) as upstream:
        stage = Stage(upstream.url, window=WINDOW)
        answers = asyncio.run(relayed(stage, sent))
        arrived = [(request.target, request.body) for request in upstream.requests]

    assert sent
    assert [answer.status_code for answer in answers] == [200] * len(sent)
    assert arrived == [(one.path, one.body) for one in sent]
    assert {answer.headers["x-infold"] for answer in answers} == {"managed"}
