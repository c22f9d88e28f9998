"""Agents that ask for 32,000 tokens of output, at windows that hold little more than that and their own prompt.

Claude Code and Qwen Code do so by default. The upstream is strict: it refuses a request whose prompt and output do not both fit.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from msgspec import Struct
from msgspec.structs import replace

from infold import fit, wrap
from infold.core.entries import Checkpoint, Clipping, Pruning
from infold.core.events import Compacted, Event, FailedOpen, OutputLowered, Rejected
from infold.core.messages import Usage
from infold.core.policy import INFOLD
from infold.errors import WindowExceeded
from infold.formats.overflow import recognise
from infold.formats.requests import output_tokens_in
from infold.stores.memory import MemoryStore
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest, WireReply
from infold.testing.scripted_server import ScriptedServer
from infold.testing.wire_replies import REPLY_WRITERS

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving

Item = dict[str, Any]

pytestmark = pytest.mark.slow

OUTPUT = 32_000
WINDOWS = (48_000, 60_000, 80_000)
TOO_SMALL = 32_000
RULE = "Never open anything under vendor/."
TASK: Item = {"role": "user", "content": f"Count the ships in all harbours. {RULE}"}
CALL = Say("The next one.", (("shell", {"command": "cat the next file"}),))
UNPRICED = replace(INFOLD, priced="never")
UNPRICED_GATEWAY = {"INFOLD_COMPACTION_PRICED": "never"}
SHIP = "Anna {0} of Husum, {1} m, berth {2}, leaves at {1}:15; Berta {1} of Emden, {2} m, berth {0}\n"


class Agent(Struct, frozen=True):
    """An agent's requests: the path, the prompt that each has, and how its steps are written."""

    name: str
    path: str
    prompt_tokens: int

    @property
    def is_chat(self) -> bool:
        """Whether it speaks to OpenAI's chat interface."""
        return self.path.endswith("/chat/completions")

    def body(self, messages: list[Item], **fields: Any) -> Item:
        """A request."""
        half = "Count each ship once and tell where it lies. " * (self.prompt_tokens // 20)
        schema = {"type": "object", "properties": {"command": {"type": "string"}}}
        if self.is_chat:
            tool: Item = {"type": "function", "function": {"name": "shell", "description": half, "parameters": schema}}
            messages = [{"role": "system", "content": half}, *messages]
        else:
            tool = {"name": "shell", "description": half, "input_schema": schema}
            fields = {"system": [{"type": "text", "text": half}], **fields}
        return {"model": "local-model", "max_tokens": OUTPUT, "messages": messages, "tools": [tool], **fields}

    def step(self, reply: Item, number: int) -> list[Item]:
        """A reply that calls a tool, and the result, of some 2,400 tokens."""
        shown = "".join(SHIP.format(number, line, line % 7) for line in range(60))
        if self.is_chat:
            message = reply["choices"][0]["message"]
            return [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": shown}]
        called = next(block for block in reply["content"] if block["type"] == "tool_use")
        result = {"type": "tool_result", "tool_use_id": called["id"], "content": shown}
        return [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": [result]}]

    def history(self, steps: int) -> list[Item]:
        """A task after so many steps."""
        writer = REPLY_WRITERS["openai-chat" if self.is_chat else "anthropic-messages"]
        replies = (writer.body(WireReply(CALL, Usage(), number, "local-model")) for number in range(steps))
        return [TASK, *(item for number, reply in enumerate(replies) for item in self.step(reply, number))]


CLAUDE_CODE = Agent("claude-code", "/v1/messages", 29_500)
QWEN_CODE = Agent("qwen-code", "/v1/chat/completions", 17_000)
AGENTS = (CLAUDE_CODE, QWEN_CODE)


def answer(request: ScriptedRequest) -> ScriptedAnswer:
    """The model's next step, or a summary."""
    return CALL if is_main(request) else Say("The harbours read so far were counted one by one; the next file follows.")


def is_main(request: ScriptedRequest) -> bool:
    """Whether a request is the agent's own."""
    return "Write notes on the conversation so far" not in json.dumps(request.body)


def drive(agent: Agent, window: int, send: Callable[[Item], Item]) -> None:
    """Let an agent work until its history is half as large again as the window."""
    messages = [TASK]
    for number in range(int((1.5 * window - agent.prompt_tokens) / 2_400)):
        messages += agent.step(send(agent.body(list(messages))), number)


@contextmanager
def through(stage: Stage) -> Iterator[httpx2.Client]:
    """A client of a gateway."""
    headers = {"x-infold-session": "ships", "x-api-key": "k"}
    with serving(stage.app) as url, httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
        yield client


def check_folds(window: int, requests: Iterable[ScriptedRequest]) -> list[int]:
    """Check that the agent's requests fit with their output and are folded late; return the output that each asks for."""
    sent = list(filter(is_main, requests))
    sizes, outputs = [one.tokens for one in sent], [output_tokens_in(one.body) for one in sent]
    first_fold = next(index for index in count(1) if sizes[index] < sizes[index - 1])
    for request, size, output in zip(sent, sizes, outputs, strict=True):
        assert size + output <= window
        assert output == OUTPUT if size + OUTPUT <= 0.95 * window else output >= 4_096
        assert RULE in json.dumps(request.body)
    assert sizes[first_fold - 1] >= 0.8 * 0.85 * window
    assert min(outputs) < OUTPUT
    return outputs


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_the_gateway_keeps_the_window(agent: Agent, window: int) -> None:
    """B58: with 32,000 tokens of output asked for, nothing is refused or relayed, and the first fold comes at 80 % or later."""
    notes: list[str] = []
    with ScriptedServer(answer, window_tokens=window, counts_output=True) as upstream:
        stage = Stage(upstream.url, window=window, variables=UNPRICED_GATEWAY)
        with through(stage) as client:

            def send(body: Item) -> Item:
                response = client.post(agent.path, json=body)
                assert response.status_code == 200, response.text
                notes.append(response.headers["x-infold"])
                reply: Item = response.json()
                return reply

            drive(agent, window, send)

    outputs = check_folds(window, upstream.requests)
    assert notes == ["managed" if n == OUTPUT else f"managed; output limit lowered from 32000 to {n}" for n in outputs]
    assert not any(isinstance(event, FailedOpen | Rejected) for event in stage.events)
    assert sum(isinstance(event, OutputLowered) for event in stage.events) == sum(n < OUTPUT for n in outputs)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_wrap_keeps_the_window(agent: Agent, window: int) -> None:
    """B8, B58: the same inside an SDK's client."""
    events: list[Event] = []
    with ScriptedServer(answer, window_tokens=window, counts_output=True) as upstream:
        client = wrapped(agent, upstream.url, window=window, policy=UNPRICED, on_event=events.append, session="ships")
        drive(agent, window, lambda body: ask(client, body).to_dict())

    check_folds(window, upstream.requests)
    assert not any(isinstance(event, FailedOpen | Rejected) for event in events)
    assert any(isinstance(event, OutputLowered) for event in events)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_fit_keeps_the_window(agent: Agent, window: int) -> None:
    """B8, B58: `fit` folds late as well, and says how much output there is room for."""
    whole: list[int] = []
    outputs: set[int] = set()
    for steps in range(int((1.3 * window - agent.prompt_tokens) / 2_400)):
        body = agent.body(agent.history(steps))
        fitted = fit(
            body["messages"],
            window=window,
            system=body.get("system"),
            tools=body["tools"],
            policy=UNPRICED,
            output_tokens=OUTPUT,
        )
        report, output = fitted.report, fitted.output_tokens
        if fitted.messages == body["messages"]:
            whole.append(report.upper_tokens)
        outputs.add(output)
        assert report.upper_tokens + output <= window
        assert output == OUTPUT or (output >= 4_096 and report.upper_tokens + OUTPUT > window)

    assert max(whole) >= 0.8 * 0.85 * window
    assert min(outputs) < OUTPUT


def wrapped(agent: Agent, url: str, **given: Any) -> Any:
    """A client of the agent's provider, wrapped."""
    if agent.is_chat:
        return wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1"), store=MemoryStore(), **given)
    return wrap(anthropic.Anthropic(api_key="k", base_url=url), store=MemoryStore(), **given)


def ask(client: Any, body: Item) -> Any:
    """Send a request with an SDK."""
    if isinstance(client, openai.OpenAI):
        return client.chat.completions.create(**body)
    return client.messages.create(**body, timeout=60)


# The client's own prompt leaves no room.


def test_a_prompt_without_room_is_answered_once() -> None:
    """B58: Claude Code's prompt in a window of 32,000 is answered with one clear error; nothing is sent, and nothing folded."""
    first, last = CLAUDE_CODE.history(0), CLAUDE_CODE.history(10)
    with ScriptedServer(answer, window_tokens=TOO_SMALL, counts_output=True) as upstream:
        stage = Stage(upstream.url, window=TOO_SMALL)
        with through(stage) as client:
            replies = [client.post(CLAUDE_CODE.path, json=CLAUDE_CODE.body(m)) for m in (first, last)]
            small = client.post(CLAUDE_CODE.path, json={**CLAUDE_CODE.body(first), "tools": [], "system": "Hi"})

    for reply in replies:
        assert (reply.status_code, reply.headers["x-infold"]) == (400, "refused")
        assert is_clear(reply.json()["error"]["message"])
        assert recognise(400, reply.content) is None  # an agent would compact and try again
    assert small.status_code == 200
    assert len(upstream.requests) == 1
    assert not any(isinstance(event, Compacted | FailedOpen) for event in stage.events)
    assert not any(isinstance(entry, Checkpoint | Clipping | Pruning) for entry in stored(stage))


@pytest.mark.parametrize("agent", [CLAUDE_CODE, replace(QWEN_CODE, prompt_tokens=29_500)], ids=["anthropic", "openai"])
def test_an_sdk_raises_its_own_error(agent: Agent) -> None:
    """B8, B58: a wrapped client raises the SDK's error for a bad request, once, with infold's words."""
    with ScriptedServer(answer, window_tokens=TOO_SMALL) as upstream:
        client = wrapped(agent, upstream.url, window=TOO_SMALL)
        with pytest.raises((anthropic.BadRequestError, openai.BadRequestError)) as caught:
            ask(client, agent.body(agent.history(0)))

    assert is_clear(str(caught.value))
    assert upstream.requests == ()


def test_fit_names_the_prompt() -> None:
    """B8, B58: `fit` raises for a prompt without room, and names the prompt's part of it."""
    messages = CLAUDE_CODE.history(10)
    body = CLAUDE_CODE.body(messages)
    with pytest.raises(WindowExceeded, match="the system prompt and tools alone are") as caught:
        fit(messages, window=TOO_SMALL, system=body["system"], tools=body["tools"], output_tokens=OUTPUT)

    assert caught.value.overhead_tokens > caught.value.usable_tokens == 27_200


def test_a_prompt_that_the_provider_takes_is_relayed() -> None:
    """B58: a large prompt that asks for little is the provider's to judge, and so is one for a window that is only assumed."""
    first = CLAUDE_CODE.history(0)
    with ScriptedServer(answer) as upstream:
        for window, output in ((TOO_SMALL, 500), (None, 90_000)):
            stage = Stage(upstream.url, window=window)
            with through(stage) as client:
                body = {**CLAUDE_CODE.body(first), "max_tokens": output}
                body = body if window else {**body, "system": body["system"] * 5}
                reply = client.post(CLAUDE_CODE.path, json=body)
            assert reply.status_code == 200
            assert reply.headers["x-infold"].startswith("relayed; WindowExceeded")
            assert upstream.requests[-1].body == body


def is_clear(message: str) -> bool:
    """Whether the words name the problem with its numbers, and what to do."""
    return all(words in message for words in ("system prompt and tools", "32,000", "27,200", "--window", "fewer tools"))


def stored(stage: Stage) -> list[object]:
    """All entries that were stored."""
    store = stage.store
    sessions = [one.key for tenant in store.tenants() for one in store.sessions(tenant)]
    return [entry for key in sessions for _, entry in store.newest_first(key)]


# After a refusal.


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_refusal_teaches_the_real_window(agent: Agent) -> None:
    """B11, B58: told twice the real window, a request is refused, folded to the real one whatever it asks for, and goes on."""
    window = 60_000
    with ScriptedServer(answer, window_tokens=window, counts_output=True) as upstream:
        stage = Stage(upstream.url, window=2 * window, variables=UNPRICED_GATEWAY)
        with through(stage) as client:
            drive(agent, window, lambda body: client.post(agent.path, json=body).raise_for_status().json())

    accepted = [one for one in upstream.requests if one.tokens + output_tokens_in(one.body) <= window]
    assert len(upstream.requests) - len(accepted) == 1
    check_folds(window, accepted)
