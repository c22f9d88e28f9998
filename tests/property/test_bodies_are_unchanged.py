"""Law: below the trigger, what is sent is what came, whatever it contains; past it, what is unknown stays whole."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.odd_wire import OddHistory, grown, odd_histories, partners

from infold import AsyncSession, Session, SessionSettings, fit
from infold.core.events import FailedOpen, NotManaged
from infold.formats.codec import json_text
from infold.formats.registry import FORMATS, WireFormat
from infold.proxy.request import ParsedRequest, parse_request
from infold.proxy.sessions import SessionPool
from infold.stores.memory import MemoryStore
from infold.wrapper.transport import InfoldTransport

from ..unit.gateway.raw_upstream import RawUpstream, whole  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252

pytestmark = pytest.mark.slow

BODIES = int(os.environ.get("INFOLD_BODIES", "200"))
"""Bodies per law at least, shared out among the formats, two or more to an example; the long run sets 10000."""

LAW = settings(max_examples=max(1, BODIES // (2 * len(FORMATS))), deadline=None, phases=[Phase.generate])
ROOMY = SessionSettings(window=10_000_000)
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
    "gemini": "/v1beta/models/some-model:generateContent",
    "bedrock-converse": "/model/some-model/converse",
}
each_wire = pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)


def stages(history: OddHistory) -> Iterator[list[Any]]:
    """The history as it grows: after its opening, after half of its groups, and whole."""
    for end in sorted({1, 1 + len(history.groups) // 2, len(history.groups)}):
        yield [item for group in history.groups[:end] for item in group]


def forked(history: OddHistory, other: OddHistory) -> OddHistory:
    """Another history with the same opening."""
    return OddHistory(history.format, (history.groups[0], *other.groups[1:]))


def body_of(wire: WireFormat, items: list[Any]) -> bytes:
    """A request as a client might write it."""
    return json.dumps({"model": "some-model", "x_new": [1.50], wire.items_field: items}, ensure_ascii=False).encode()


@each_wire
@LAW
@given(data=st.data())
def test_fit_returns_the_callers_objects(wire: WireFormat, data: st.DataObject) -> None:
    """B30: what fits comes back from `fit` as the very objects, known and unknown, in their order."""
    for items in stages(data.draw(odd_histories(wire))):
        messages, report = fit(items, window=10_000_000, format=wire.name)

        assert [id(one) for one in messages] == [id(one) for one in items]
        assert not report.changed


@each_wire
@LAW
@given(data=st.data())
def test_a_session_returns_the_callers_objects(wire: WireFormat, data: st.DataObject) -> None:
    """B30: a session gives back the objects of each request, be it grown, edited or cut short by the client."""
    first, second = data.draw(odd_histories(wire)), data.draw(odd_histories(wire))
    store = MemoryStore()
    session = Session(store, "s", SessionSettings(window=10_000_000, format=wire.name))

    async def prepared(items: list[Any]) -> list[Any]:
        other = await AsyncSession.open(store, "a", SessionSettings(window=10_000_000, format=wire.name))
        return (await other.prepare(items)).messages

    for items in (*stages(first), *stages(forked(first, second))):
        sent = session.prepare(items).messages
        assert [id(one) for one in sent] == [id(one) for one in items]
    items = first.items
    assert [id(one) for one in asyncio.run(prepared(items))] == [id(one) for one in items]


@each_wire
@LAW
@given(data=st.data())
def test_a_wrapped_client_sends_the_callers_bytes(wire: WireFormat, data: st.DataObject) -> None:
    """B30: through a wrapped client's transport each body goes out as the bytes it came in, and is managed."""
    first, second = data.draw(odd_histories(wire)), data.draw(odd_histories(wire))
    sent: list[bytes] = []
    failures: list[FailedOpen | NotManaged] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.read())
        return httpx2.Response(200, json={})

    inner = httpx2.Client(transport=httpx2.MockTransport(answer))
    transport = InfoldTransport(inner, SessionPool(MemoryStore(), ROOMY), failures.append)
    with httpx2.Client(base_url="http://x", transport=transport) as client:
        for items in (*stages(first), *stages(forked(first, second)), *stages(first)):
            raw = body_of(wire, items)
            client.post(PATHS[wire.name], content=raw)
            assert sent[-1] == raw
    assert [failure for failure in failures if "the reply holds nothing" not in str(failure)] == []


@pytest.fixture(scope="module")
def upstream() -> Iterator[RawUpstream]:
    """An upstream that takes everything."""
    with RawUpstream(lambda _: [whole(b"{}")]) as made:
        yield made


@each_wire
@LAW
@given(data=st.data())
def test_the_gateway_sends_the_callers_bytes(upstream: RawUpstream, wire: WireFormat, data: st.DataObject) -> None:
    """B30: through the gateway each body goes out as the bytes it came in, and is managed."""
    first, second = data.draw(odd_histories(wire)), data.draw(odd_histories(wire))
    stage = Stage(upstream.url, window=10_000_000)

    async def ask() -> None:
        async with stage.client() as client:
            for items in (*stages(first), *stages(forked(first, second))):
                raw = body_of(wire, items)
                response = await client.post(PATHS[wire.name], content=raw, headers={"authorization": "Bearer k"})
                assert upstream.requests[-1].body == raw
                assert response.headers["x-infold"].startswith("managed")

    asyncio.run(ask())


@each_wire
@LAW
@given(data=st.data())
def test_grown_past_the_trigger_a_history_fits_and_stays_whole(wire: WireFormat, data: st.DataObject) -> None:
    """B12, B30: the same bodies past the trigger fit; what is unknown is sent whole or not at all, with its partners."""
    history = grown(data.draw(odd_histories(wire, most=14)), "The tide turns at noon, and the quay is empty. " * 60)
    items = history.items
    fitted = fit(items, window=8_000, format=wire.name)
    blocks, kept = _unknown(items), _unknown(fitted.messages)

    assert fitted.report.upper_tokens <= 8_000
    assert fitted.report.changed or len(history.groups) <= 11
    assert kept <= blocks
    assert all(kept[text] == blocks[text] for text in kept if partners(json.loads(text)))
    linked, had = (Counter(link for text in found for link in partners(json.loads(text))) for found in (kept, blocks))
    assert all(had[link] == count for link, count in linked.items())


def _unknown(items: list[Any]) -> Counter[str]:
    """The blocks and items of a list that hold an id of a pair, as JSON."""
    inner = (block for item in items for block in item.get("content") or item.get("parts") or () if _is_block(block))
    whole = (item for item in items if not isinstance(item.get("content"), list) and "parts" not in item)
    return Counter(json_text(one) for one in (*inner, *whole) if partners(one))


def _is_block(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") not in ("text", "tool_use")


def test_nearly_all_bodies_are_managed() -> None:
    """B30: at least 95 of a hundred bodies are read and kept within the window, not merely passed on."""
    managed: Counter[bool] = Counter()

    @settings(max_examples=BODIES, deadline=None)
    @given(st.sampled_from(FORMATS).flatmap(odd_histories))
    def count(history: OddHistory) -> None:
        made = parse_request(PATHS[history.format.name], {}, body_of(history.format, history.items))
        managed[isinstance(made, ParsedRequest)] += 1

    count()
    assert managed[True] >= 0.95 * managed.total()
