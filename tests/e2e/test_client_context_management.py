"""Clients that ask their provider to clear or compact the history itself, through `Session`, `wrap` and the gateway."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import pytest

from infold import Session, SessionSettings, open_store, wrap
from infold.core.events import Compacted, Event, NotManaged, Pruned, Rejected
from infold.core.messages import AssistantMessage
from infold.formats.anthropic import decode
from infold.formats.codec import Item
from infold.testing.script import Fail, ScriptedAnswer, ScriptedRequest, count_tokens
from infold.testing.scripted_server import ScriptedServer

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving

pytestmark = pytest.mark.slow

WINDOW = 24_000
TRIGGER = 9_000
STEPS = 60
CLEARS = {
    "edits": [
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": TRIGGER},
            "keep": {"type": "tool_uses", "value": 3},
        }
    ]
}
CLEARED = "[cleared by the provider]"


class Editor:
    """A provider that clears old tool results as `context_management` asks, and refuses what is then still over its window.

    `received` and `read` are the tokens of each request as it came and as the model read it.
    """

    def __init__(self, window: int = WINDOW, note: str = "") -> None:
        self.bodies: list[Item] = []
        self.received: list[int] = []
        self.read: list[int] = []
        self.refused = 0
        self._window = window
        self._note = note

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """Answer with one more call, whole or as a stream."""
        body = request.body
        received = count_tokens(decode(body["messages"]).messages)
        items, cleared = self._edit(body, received)
        read = count_tokens(decode(items).messages)
        if read > self._window:
            self.refused += 1
            message = f"prompt is too long: {read} tokens > {self._window} maximum"
            return Fail(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        self.bodies.append(body)
        self.received.append(received)
        self.read.append(read)
        reply = self._reply(read, received - read, cleared)
        return _stream(reply) if request.stream else Fail(200, reply)

    def _edit(self, body: Item, received: int) -> tuple[list[Item], int]:
        edits = (body.get("context_management") or {}).get("edits", [])
        if not edits or received <= edits[0]["trigger"]["value"]:
            return body["messages"], 0
        items = json.loads(json.dumps(body["messages"]))
        blocks = [block for item in items for block in item["content"] if isinstance(block, dict)]
        results = [block for block in blocks if block["type"] == "tool_result"]
        old = [block for block in results[:-3] if block["content"] != CLEARED]
        for block in old:
            block["content"] = CLEARED
        return items, len(old)

    def _reply(self, read: int, cleared_tokens: int, cleared: int) -> Item:
        number = len(self.bodies)
        applied = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": cleared}
        text = f"Step {number}. {self._note}"
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "bash", "input": {"command": f"make {number}"}}
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": [{"type": "text", "text": text}, call],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": read, "output_tokens": 30},
            "context_management": {
                "applied_edits": [{**applied, "cleared_input_tokens": cleared_tokens}] if cleared else []
            },
        }


def _stream(reply: Item) -> Fail:
    """A reply as events; the edits that were applied are in the last but one."""
    applied = reply.pop("context_management")
    content, usage = reply["content"], reply["usage"]
    begun = {**reply, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Item] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(content):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": usage, "context_management": applied})
    events.append({"type": "message_stop"})
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Fail(200, body, {"content-type": "text/event-stream"})


@contextmanager
def client_of(way: str, editor: Editor, events: list[Event], window: int = WINDOW) -> Iterator[anthropic.Anthropic]:
    """A client whose requests reach the provider through `wrap` or the gateway."""
    with ScriptedServer(editor) as server:
        plain = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        if way == "wrap":
            yield wrap(plain, SessionSettings(window=window, on_event=events.append))
            return
        stage = Stage(server.url, window=window)
        with serving(stage.app) as url:
            yield anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
        events += stage.events


def work(client: anthropic.Anthropic, *, steps: int, stream: bool, edits: Item | None = None) -> list[Item]:
    """The client's list after that many steps, whose results are about 400 tokens each."""
    items: list[Item] = [{"role": "user", "content": [{"type": "text", "text": "Run the steps. Never touch vendor/."}]}]
    for _ in range(steps):
        items += step(client, items, stream=stream, edits=CLEARS if edits is None else edits)
    return items


def step(client: anthropic.Anthropic, items: list[Item], *, stream: bool, edits: Item) -> list[Item]:
    """One request with all items; its reply and the result of its call."""
    body: Any = {"model": "claude-sonnet-4-6", "max_tokens": 400, "messages": items}
    fields = {"context_management": edits} if edits else {}
    if stream:
        with client.messages.stream(**body, extra_body=fields) as events:
            reply = events.get_final_message()
    else:
        reply = client.messages.create(**body, extra_body=fields)
    content = reply.model_dump(mode="json", exclude_none=True)["content"]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "compiling, no warnings\n" * 80}
    return [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]


@pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole", marks=pytest.mark.long), pytest.param(True, id="streamed")]
)
@pytest.mark.parametrize("way", ["wrap", "gateway"])
def test_what_the_provider_clears_is_left_to_it(way: str, stream: bool) -> None:
    """B23: while the provider's own edits keep the window, each request passes as it came, however long its history is."""
    editor, events = Editor(), list[Event]()
    with client_of(way, editor, events) as client:
        items = work(client, steps=STEPS, stream=stream)

    assert editor.bodies[-1]["messages"] == items[:-2]
    assert all(body["context_management"] == CLEARS for body in editor.bodies)
    assert editor.received[-1] > WINDOW > max(editor.read)
    assert not [event for event in events if isinstance(event, Compacted | Pruned | Rejected | NotManaged)]


@pytest.mark.parametrize("way", ["wrap", "gateway"])
def test_what_the_provider_cannot_clear_is_compacted(way: str) -> None:
    """B23: once the text between the results fills the window, infold compacts; the field stays on and nothing is refused."""
    editor, events = Editor(note="The module was rebuilt and every check passed again. " * 40), list[Event]()
    with client_of(way, editor, events) as client:
        work(client, steps=STEPS, stream=False)

    folds = [event for event in events if isinstance(event, Compacted | Pruned)]
    asked = [place for place, body in enumerate(editor.bodies) if "Write notes on" not in str(body["messages"][-1])]
    bodies = [editor.bodies[place] for place in asked]
    first = next(number for number, body in enumerate(bodies) if len(body["messages"]) < 2 * number + 1)
    assert folds
    assert editor.refused == 0
    assert editor.read[asked[first - 1]] > 0.7 * WINDOW
    assert all(body["context_management"] == CLEARS for body in bodies)


@pytest.mark.parametrize("way", ["wrap", "gateway"])
def test_a_client_that_stops_asking_is_kept_within_its_window(way: str) -> None:
    """B23: without the edits, what they cleared counts again, so that the next request fits."""
    editor, events = Editor(), list[Event]()
    with client_of(way, editor, events) as client:
        items = work(client, steps=STEPS, stream=False)
        step(client, items, stream=False, edits={})

    assert editor.refused == 0
    assert editor.read[-1] < WINDOW < editor.received[STEPS - 1]
    assert [event for event in events if isinstance(event, Compacted | Pruned)]


def test_a_session_takes_where_the_provider_begins() -> None:
    """B23: a caller of `Session` names the threshold; calibration learns nothing wrong from what was cleared."""
    editor, events = Editor(), list[Event]()
    settings = SessionSettings(
        model="claude-sonnet-4-6", window=WINDOW, format="anthropic-messages", on_event=events.append
    )
    cleared, plain = (Session(open_store("memory"), "s", settings) for _ in range(2))
    items: list[Item] = [{"role": "user", "content": [{"type": "text", "text": "Run the steps."}]}]
    for number in range(STEPS):
        ready = cleared.prepare(items, edited_from_tokens=TRIGGER)
        assert ready.messages == items
        answer = editor(ScriptedRequest("/v1/messages", {}, {"messages": ready.messages, "context_management": CLEARS}))
        assert isinstance(answer, Fail)
        assert isinstance(answer.body, dict)
        cleared.record(answer.body)
        if number < 12:  # until here the provider has cleared next to nothing
            plain.prepare(items)
            plain.record(answer.body)
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{number + 1}",
            "content": "compiling, no warnings\n" * 80,
        }
        items += [{"role": "assistant", "content": answer.body["content"]}, {"role": "user", "content": [result]}]
        assert ready.gauge.count_tokens > 0.8 * editor.read[-1] - 100
        assert ready.gauge.count_tokens < TRIGGER + 600

    assert not events
    assert editor.received[-1] > WINDOW
    learned, before = cleared.log.calibration, plain.log.calibration
    assert learned.prose == pytest.approx(before.prose, abs=0.1)
    assert learned.material == pytest.approx(before.material, abs=0.1)


@pytest.mark.parametrize("way", ["wrap", "gateway"])
def test_a_compaction_by_the_provider_is_paid_and_left_alone(way: str) -> None:
    """B23: a compaction at the provider's threshold counts in the cost, not in the window; its block is then relayed."""
    compacts = {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]}
    block = {"type": "compaction", "content": "The steps ran.", "encrypted_content": "e", "signature": "s"}
    entry = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": [block, {"type": "text", "text": "Done."}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 600,
            "output_tokens": 4,
            "iterations": [
                {"type": "compaction", "input_tokens": 50_000, "output_tokens": 400, **entry},
                {"type": "message", "input_tokens": 600, "output_tokens": 4, **entry},
            ],
        },
        "context_management": {"applied_edits": []},
    }
    bodies: list[Item] = []

    def script(request: ScriptedRequest) -> ScriptedAnswer:
        bodies.append(request.body)
        return Fail(200, reply)

    events = list[Event]()
    store = open_store("memory")
    items: list[Item] = [{"role": "user", "content": "Run the steps."}]
    with ScriptedServer(script) as server:
        headers = {"x-infold-session": "ferry"}
        client = anthropic.Anthropic(base_url=server.url, api_key="k", default_headers=headers)
        if way == "wrap":
            managed = wrap(client, SessionSettings(window=200_000, on_event=events.append), store=store)
            _ask_twice(managed, items, compacts)
        else:
            stage = Stage(server.url, window=200_000, store=store)
            with serving(stage.app) as url:
                _ask_twice(client.with_options(base_url=url), items, compacts)
            events += stage.events

    tenant = next(iter(store.tenants()))
    session = Session(store, "ferry", SessionSettings(model="claude-sonnet-4-6", window=200_000), tenant=tenant)
    recorded = session.log.live[-1].message
    assert isinstance(recorded, AssistantMessage)
    assert recorded.usage is not None
    assert recorded.usage.context == 604
    assert recorded.cost > 50_000 * 2 / 1_000_000
    assert [body["context_management"] for body in bodies] == [compacts, compacts]
    assert bodies[-1]["messages"] == items
    assert any(isinstance(event, NotManaged) for event in events)


def _ask_twice(client: anthropic.Anthropic, items: list[Item], edits: Item) -> None:
    """Ask, and ask again with the reply in the history, which `items` then are."""
    for _ in range(2):
        body: Any = {"model": "claude-sonnet-4-6", "max_tokens": 400, "messages": items}
        raw = client.messages.with_raw_response.create(**body, extra_body={"context_management": edits})
        if len(items) == 1:
            content = json.loads(raw.text())["content"]
            items += [{"role": "assistant", "content": content}, {"role": "user", "content": "Go on."}]
