"""A model that thinks and calls several tools at once, a client that works with it for many steps, and every way to infold.

The model's side of the API is `infold.testing.AnthropicRules`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anthropic
from tests.support.policies import FOLDS, FOLDS_SETTING

from infold import AsyncSession, Session, SessionSettings, fit, open_store, wrap
from infold.core.events import Compacted, Event, Pruned, Rejected
from infold.core.policy import INFOLD, Policy
from infold.ports import FullStore
from infold.testing.anthropic_rules import BINDING_BETA, AnthropicRefusal, AnthropicRules, CheckedRequest
from infold.testing.script import Say, ScriptedAnswer, ScriptedRequest, Send, WireReply, count_usage
from infold.testing.scripted_server import ScriptedServer
from infold.testing.wire_replies import anthropic_body

from ..unit.gateway.stage import Stage  # noqa: TID252 - `tests` is no package to name
from .gateway_stage import serving

Item: TypeAlias = dict[str, Any]

MODEL = "claude-opus-5-5"
OLDER = "claude-opus-5"
UNKNOWN = "a-model-of-next-year"
WINDOW = 20_000
STEPS = 120
SYSTEM = "You are a careful engineer. Work on the task with the tool you have."
TOOLS: list[Item] = [
    {
        "name": "bash",
        "description": "Run a command.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    }
]
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
MANUAL = {"type": "enabled", "budget_tokens": 1_024}
RECOVERIES = 2
"""How often a caller of `recover` tries again: the thinking behind a fold may be refused after the size was."""


class Thinker:
    """Think before each reply, call one to three commands at once, and end the turn with every tenth reply."""

    def __init__(self, *, tool: str = "bash", turn: int = 10, most_calls: int = 3) -> None:
        self.replies = 0
        self.summaries = 0
        self._tool = tool
        self._turn = turn
        self._most_calls = most_calls

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        if is_for_summary(request.body):
            self.summaries += 1
            return Say("The commands were run one after the other; each printed its lines, and nothing is open.")
        self.replies += 1
        thought = f"Thought {self.replies}: the next command follows from the last. " + "Weigh it. " * 12
        if self.replies % self._turn == 0:
            return Say(f"Part {self.replies // self._turn} is done.", reasoning=thought)
        commands = (f"make step-{self.replies}-{n}" for n in range(1 + self.replies % self._most_calls))
        said = "Both at once." if self.replies % 4 == 0 else ""
        return Say(said, tuple((self._tool, {"command": command}) for command in commands), reasoning=thought)


class HiddenThinker(Thinker):
    """The same with thinking that is empty, redacted, or in two blocks around a text."""

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        say = super().__call__(request)
        if is_for_summary(request.body) or not isinstance(say, Say):
            return say
        usage = count_usage(say, request.tokens)
        body = anthropic_body(WireReply(say, usage, self.replies, str(request.body["model"])))
        empty, redacted = (
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "redacted_thinking", "data": ""},
        )
        between = {"type": "text", "text": f"On step {self.replies}."}
        kinds: list[list[Item]] = [[empty], [redacted, empty], [empty, between, body["content"][0]]]
        body["content"] = [*kinds[self.replies % 3], *body["content"][1:]]
        return Send(body)


def is_for_summary(body: Mapping[str, Any]) -> bool:
    """Whether infold asks for a summary."""
    return "Write notes on the conversation" in json.dumps(body["messages"][-1])


class Worker:
    """A client that keeps its whole list of messages and works for many steps; `refused` counts what it was refused."""

    def __init__(self, steps: int = STEPS) -> None:
        self.items: list[Item] = []
        self.refused = 0
        self.step = 0
        self._steps = steps

    def run(self, ask: Callable[["Worker"], Item]) -> "Worker":
        """Work to the end; `ask` gives the reply to the list of messages."""
        for new in self.turns():
            self.items.append(new)
            try:
                reply = ask(self)
            except (AnthropicRefusal, anthropic.BadRequestError):
                self.refused += 1
                break
            self.take(reply)
        return self

    async def run_async(self, ask: Callable[["Worker"], Awaitable[Item]]) -> "Worker":
        """The same, awaited."""
        for new in self.turns():
            self.items.append(new)
            try:
                reply = await ask(self)
            except (AnthropicRefusal, anthropic.BadRequestError):
                self.refused += 1
                break
            self.take(reply)
        return self

    def turns(self) -> Iterator[Item]:
        """What the client says next: the results of the last calls, or the next order."""
        yield {"role": "user", "content": "Run the steps one after the other. Never touch the files under vendor/."}
        for step in range(1, self._steps + 1):
            self.step = step
            calls = [block for block in self.items[-1]["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": _output(call)} for call in calls]
            yield {"role": "user", "content": results or "Good. Go on with the next part."}

    def take(self, reply: Item) -> None:
        """Keep a reply as it came."""
        content = [{name: value for name, value in one.items() if name != "parsed_output"} for one in reply["content"]]
        self.items.append({"role": "assistant", "content": content})

    @property
    def thinking(self) -> list[str]:
        """The signatures of all thinking in the client's list."""
        replies = (message["content"] for message in self.items if message["role"] == "assistant")
        return [block["signature"] for content in replies for block in content if block["type"] == "thinking"]


def _output(call: Item) -> str:
    return f"{call['input']['command']} printed:\n" + "compiling the module, no warnings\n" * 60


@dataclass
class Scene:
    """A provider with its rules, and what the client asks of it; `model` may change with the step.

    `settings` are the session's own, over those that follow from the scene; the gateway takes none. `prunes`: whether stubs
    for old results may make room, too.
    """

    rules: AnthropicRules
    model: str | Callable[[int], str] = MODEL
    fields: Item = field(default_factory=dict)
    betas: tuple[str, ...] = ()
    streams: bool = False
    steps: int = STEPS
    settings: Item = field(default_factory=dict)
    prunes: bool = True
    window_tokens: int | None = None
    events: list[Event] = field(default_factory=list)

    def body(self, worker: Worker, messages: list[Any] | None = None) -> Item:
        """The worker's next request."""
        items = worker.items if messages is None else messages
        request = {"model": self.model_at(worker.step), "max_tokens": 400, "system": SYSTEM, "tools": TOOLS}
        return {**request, "messages": items, **self.fields}

    def model_at(self, step: int) -> str:
        """The model of a step."""
        return self.model if isinstance(self.model, str) else self.model(step)

    def ask(self, worker: Worker, messages: list[Any]) -> Item:
        """The reply to messages that the library made fit."""
        return self.rules.reply(self.body(worker, messages), self.betas)

    def session_settings(self, step: int) -> SessionSettings:
        """A session's settings at a step; a caller that asks for dropping says so."""
        is_dropping = self.fields.get("thinking") == DROPS
        settings = {"model": self.model_at(step), "format": "anthropic-messages"}
        return self.shared_settings(**settings, bound_thinking=False if is_dropping else None)

    def shared_settings(self, **given: Any) -> SessionSettings:
        """The settings of a wrapped client, whose requests say the rest."""
        own = {"window": WINDOW, "policy": self.policy, "on_event": self.events.append}
        return SessionSettings(**{**own, **given, **self.settings})

    @property
    def policy(self) -> Policy:
        """What makes room, and when."""
        return INFOLD if self.prunes else FOLDS

    def server(self) -> ScriptedServer:
        """The provider on a socket."""
        return ScriptedServer(self.rules, window_tokens=self.window_tokens)

    @property
    def requests(self) -> list[CheckedRequest]:
        """The client's own requests that were accepted."""
        return [one for one in self.rules.requests if not one.refusal and not is_for_summary(one.body)]

    @property
    def folds(self) -> int:
        """How often the history was folded."""
        return sum(isinstance(event, Compacted) for event in self.events)

    @property
    def cuts(self) -> int:
        """How often something old left the view: the history was folded, or results became stubs."""
        return self.folds + sum(isinstance(event, Pruned) for event in self.events)

    @property
    def rejections(self) -> int:
        """How often infold met a refusal."""
        return sum(isinstance(event, Rejected) for event in self.events)


def by_turns(*models: str, every: int) -> Callable[[int], str]:
    """Models that take turns, each for some steps."""
    return lambda step: models[step // every % len(models)]


def dropping(rules: AnthropicRules, **given: Any) -> Scene:
    """A client that asks the provider to drop bound thinking."""
    return Scene(rules, fields={"thinking": DROPS}, betas=(BINDING_BETA,), **given)


Way: TypeAlias = Callable[[Scene], Worker]
"""Works to the end through one way to infold."""


def through_fit(scene: Scene) -> Worker:
    """`fit` before every request."""
    stated = scene.session_settings(0).bound_thinking
    settings: Item = {"window": WINDOW, "policy": scene.policy, "bound_thinking": stated}

    def ask(worker: Worker) -> Item:
        model = scene.model_at(worker.step)
        fitted = fit(worker.items, model=model, system=SYSTEM, tools=TOOLS, **settings)
        return scene.ask(worker, fitted.messages)

    return Worker(scene.steps).run(ask)


def through_session(scene: Scene, store: FullStore | None = None, name: str = "s") -> Worker:
    """`prepare`, `record`, and `recover` after a refusal; another model opens the session again."""
    store = store or open_store("memory")
    open_sessions: dict[str, Session] = {}

    def ask(worker: Worker) -> Item:
        settings = scene.session_settings(worker.step)
        session = open_sessions.pop(str(settings.model), None) or Session(store, name, settings)
        open_sessions.clear()
        open_sessions[str(settings.model)] = session
        ready = session.prepare(worker.items, system=SYSTEM, tools=TOOLS, output_tokens=400)
        for _ in range(RECOVERIES):
            try:
                reply = scene.ask(worker, ready.messages)
                break
            except AnthropicRefusal as refusal:
                again = session.recover(refusal)
                if again is None:
                    raise
                ready = again
        else:
            reply = scene.ask(worker, ready.messages)
        session.record(reply)
        return reply

    return Worker(scene.steps).run(ask)


def through_async_session(scene: Scene) -> Worker:
    """The same, awaited."""
    store = open_store("memory")
    open_sessions: dict[str, AsyncSession] = {}

    async def ask(worker: Worker) -> Item:
        settings = scene.session_settings(worker.step)
        session = open_sessions.pop(str(settings.model), None) or await AsyncSession.open(store, "s", settings)
        open_sessions.clear()
        open_sessions[str(settings.model)] = session
        ready = await session.prepare(worker.items, system=SYSTEM, tools=TOOLS, output_tokens=400)
        for _ in range(RECOVERIES):
            try:
                reply = scene.ask(worker, ready.messages)
                break
            except AnthropicRefusal as refusal:
                again = await session.recover(refusal)
                if again is None:
                    raise
                ready = again
        else:
            reply = scene.ask(worker, ready.messages)
        await session.record(reply)
        return reply

    return asyncio.run(Worker(scene.steps).run_async(ask))


def through_wrap(scene: Scene) -> Worker:
    """A wrapped client, whose own model writes the summaries."""
    with scene.server() as server, wrap(client_of(server.url), scene.shared_settings()) as client:
        return Worker(scene.steps).run(lambda worker: ask_client(client, scene, worker))


def through_async_wrap(scene: Scene) -> Worker:
    """A wrapped async client."""

    async def work(url: str) -> Worker:
        plain = anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
        async with wrap(plain, scene.shared_settings()) as client:
            return await Worker(scene.steps).run_async(lambda worker: _ask_async(client, scene, worker))

    with scene.server() as server:
        return asyncio.run(work(server.url))


def through_gateway(scene: Scene) -> Worker:
    """An ordinary client behind the gateway."""
    with scene.server() as server:
        stage = Stage(server.url, window=WINDOW, variables={} if scene.prunes else FOLDS_SETTING)
        with serving(stage.app) as url, client_of(url) as client:
            worker = Worker(scene.steps).run(lambda worker: ask_client(client, scene, worker))
        scene.events += stage.events
        return worker


def client_of(url: str) -> anthropic.Anthropic:
    """A client that never tries twice."""
    return anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)


def ask_client(client: anthropic.Anthropic, scene: Scene, worker: Worker) -> Item:
    """Send the worker's next request through a client of the SDK, as the scene says."""
    sent = _sdk_arguments(scene, worker)
    if not scene.streams:
        return _plain(client.messages.create(**sent))
    with client.messages.stream(**sent) as stream:
        return _plain(stream.get_final_message())


async def _ask_async(client: anthropic.AsyncAnthropic, scene: Scene, worker: Worker) -> Item:
    sent = _sdk_arguments(scene, worker)
    if not scene.streams:
        return _plain(await client.messages.create(**sent))
    async with client.messages.stream(**sent) as stream:
        return _plain(await stream.get_final_message())


def _sdk_arguments(scene: Scene, worker: Worker) -> Any:
    headers = {"anthropic-beta": ",".join(scene.betas)} if scene.betas else {}
    return {**scene.body(worker), "extra_headers": headers}


def _plain(message: Any) -> Item:
    reply: Item = message.model_dump(mode="json", exclude_none=True)
    return reply


WAYS: dict[str, Way] = {
    "fit": through_fit,
    "Session": through_session,
    "AsyncSession": through_async_session,
    "wrap": through_wrap,
    "async wrap": through_async_wrap,
    "gateway": through_gateway,
}
