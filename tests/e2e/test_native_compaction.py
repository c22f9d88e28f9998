"""The provider's own compaction: through every entry point, against a server that checks thinking and its own summaries."""

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import anthropic
import openai
import pytest
from tests.support.policies import FOLDS

from infold import AsyncSession, Session, SessionSettings, open_store, wrap
from infold.agent.agents import BUILD
from infold.agent.loop import Loop, RunLimits
from infold.core.entries import Checkpoint
from infold.core.events import Compacted, Event, PreparedAhead, Rejected, SummaryRejected
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.errors import ModelBusy
from infold.models.anthropic import AnthropicMessages
from infold.testing import AnthropicRefusal, AnthropicRules, Fail, Say, ScriptedServer
from infold.testing.script import ScriptedRequest

from ..unit.agent.builders import toolbox_in  # noqa: TID252 - `tests` is no package to name
from ..unit.gateway.stage import Stage  # noqa: TID252
from .gateway_stage import serving

pytestmark = pytest.mark.slow

Item: TypeAlias = dict[str, Any]

MODEL = "claude-opus-5-5"
WINDOW = 20_000
STEPS = 120
RULE = "Never touch the files under vendor/."
SYSTEM = "You are a careful engineer."
BETA = "compact-2026-09-04"
TOOLS: list[Item] = [
    {
        "name": "shell",
        "description": "Run a command.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    }
]


class Worker:
    """A model that thinks before each step, and a client that keeps its whole list and answers two calls at a time."""

    def __init__(self, steps: int = STEPS) -> None:
        self.items: list[Item] = []
        self.replies = 0
        self._steps = steps

    def model(self, _: ScriptedRequest) -> Say:
        """Think, then call twice; every tenth time say that a part is done."""
        self.replies += 1
        thought = f"Thought {self.replies}. " + "Weigh what the last command printed. " * 4
        if self.replies % 10 == 0:
            return Say(f"Part {self.replies // 10} is done.", reasoning=thought)
        calls = [("shell", {"command": f"make {name}-{self.replies}"}) for name in ("step", "check")]
        return Say(calls=tuple(calls), reasoning=thought)

    def turns(self) -> Iterator[list[Item]]:
        """The client's list before each request."""
        self.items.append({"role": "user", "content": f"Run the steps in src/main.c one after the other. {RULE}"})
        for _ in range(self._steps):
            yield self.items
            calls = [block for block in self.items[-1]["content"] if block["type"] == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": printed(call["input"]["command"])}
                for call in calls
            ]
            self.items.append({"role": "user", "content": results or "Good. Go on with the next part."})

    def take(self, reply: Item) -> None:
        """Keep a reply as it came."""
        self.items.append({"role": "assistant", "content": reply["content"]})


def printed(command: str) -> str:
    """What a command prints, about 600 tokens."""
    return f"{command} printed:\n" + "compiling the next module, no warnings\n" * 60


def body_of(messages: list[Any], model: str = MODEL, **fields: Any) -> Item:
    """A request as the client sends it."""
    return {"model": model, "max_tokens": 400, "system": SYSTEM, "tools": TOOLS, "messages": messages, **fields}


def summariser_for(rules: AnthropicRules) -> Callable[[SummaryRequest], Item | str]:
    """A summariser that lets the provider compact where it is asked to."""

    def summarise(request: SummaryRequest) -> Item | str:
        if not request.is_native:
            return f"The commands were run one after the other; all of them printed their lines. {RULE}"
        asked = {"type": "summarize", "instructions": request.instructions}
        try:
            return rules.reply(body_of(list(request.items), compaction=asked), betas=(BETA,))
        except AnthropicRefusal as refusal:
            if refusal.status_code == 529:
                raise ModelBusy(MODEL, "is overloaded") from refusal
            raise

    return summarise


def settings_for(rules: AnthropicRules, events: list[Event], **given: Any) -> SessionSettings:
    """Settings of a session that may let the provider compact."""
    stated = {"native": "auto", "model": MODEL, "offers_native": True, **given}
    return SessionSettings(
        window=WINDOW,
        format="anthropic-messages",
        summariser=summariser_for(rules),
        on_event=events.append,
        **stated,
    )


def step(session: Session, rules: AnthropicRules, worker: Worker, items: list[Item], model: str = MODEL) -> Item:
    """One request of a session; what the provider was sent."""
    ready = session.prepare(items, system=SYSTEM, tools=TOOLS, output_tokens=400)
    try:
        reply = rules.reply(body_of(ready.messages, model), betas=ready.betas)
    except AnthropicRefusal as refusal:
        again = session.recover(refusal)
        assert again is not None
        ready = again
        reply = rules.reply(body_of(ready.messages, model), betas=ready.betas)
    session.record(reply)
    worker.take(reply)
    return body_of(ready.messages)


def through_session(worker: Worker, rules: AnthropicRules, events: list[Event]) -> None:
    """`prepare` and `record`."""
    session = Session(open_store("memory"), "s", settings_for(rules, events))
    for items in worker.turns():
        step(session, rules, worker, items)


def through_async_session(worker: Worker, rules: AnthropicRules, events: list[Event]) -> None:
    """The same, awaited, with summaries written ahead of need."""

    async def work() -> None:
        settings = settings_for(rules, events, background=True)
        session = await AsyncSession.open(open_store("memory"), "s", settings)
        for items in worker.turns():
            ready = await session.prepare(items, system=SYSTEM, tools=TOOLS, output_tokens=400)
            reply = rules.reply(body_of(ready.messages), betas=ready.betas)
            await session.record(reply)
            worker.take(reply)

    asyncio.run(work())


def through_wrap(worker: Worker, rules: AnthropicRules, events: list[Event]) -> None:
    """A wrapped client that streams."""
    with ScriptedServer(rules) as server:
        settings = SessionSettings(window=WINDOW, native="always", on_event=events.append)
        _stream(wrap(_client(server.url), settings), worker)


def through_async_wrap(worker: Worker, rules: AnthropicRules, events: list[Event]) -> None:
    """A wrapped async client."""
    settings = SessionSettings(window=WINDOW, native="always", background=True, on_event=events.append)

    async def work(url: str) -> None:
        async with wrap(anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0), settings) as client:
            for items in worker.turns():
                body: Any = body_of(items)
                reply = await client.messages.create(**body)
                worker.take(reply.model_dump(mode="json", exclude_none=True))

    with ScriptedServer(rules) as server:
        asyncio.run(work(server.url))


def through_gateway(worker: Worker, rules: AnthropicRules, events: list[Event]) -> None:
    """An ordinary client that streams, behind the gateway."""
    with ScriptedServer(rules) as server:
        stage = Stage(server.url, window=WINDOW, variables={"INFOLD_COMPACTION_NATIVE": "always"})
        with serving(stage.app) as url:
            _stream(_client(url), worker)
        events += stage.events


def _client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)


def _stream(client: anthropic.Anthropic, worker: Worker) -> None:
    for items in worker.turns():
        body: Any = body_of(items)
        with client.messages.stream(**body) as stream:
            reply = stream.get_final_message().model_dump(mode="json", exclude_none=True)
        worker.take(reply)


WAYS = {
    "Session": through_session,
    "AsyncSession": through_async_session,
    "wrap": through_wrap,
    "async wrap": through_async_wrap,
    "gateway": through_gateway,
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, id=name, marks=pytest.mark.long if "wrap" in name else ()) for name, way in WAYS.items()]
)
def test_thinking_in_the_kept_turns_survives_every_compaction(
    way: Callable[[Worker, AnthropicRules, list[Event]], None],
) -> None:
    """B32, B42: with the provider's own compaction no request is refused, no thinking in the tail is lost, and the rule stays."""
    worker, events = Worker(), list[Event]()
    rules = AnthropicRules(worker.model)
    way(worker, rules, events)

    folds = [event for event in events if isinstance(event, Compacted)]
    assert len(folds) >= 8
    assert all(fold.native and not fold.outdated_thinking for fold in folds)
    assert all(fold.cost > 0 for fold in folds)
    assert rules.refusals == []
    assert worker.replies == STEPS
    ordinary = [request for request in rules.requests if not request.is_compaction]
    assert all(RULE in json.dumps(request.body["messages"]) for request in ordinary)
    assert all(len(request.kept) >= 3 for request in ordinary[10:])
    assert max(request.bare for request in ordinary) == 0


def test_what_code_knows_stands_behind_the_kept_turns() -> None:
    """B42: the block stands first and verbatim, the kept turns follow it directly, and the ledger comes after them, for good."""
    worker, events = Worker(40), list[Event]()
    rules = AnthropicRules(worker.model)
    session = Session(open_store("memory"), "s", settings_for(rules, events))
    bodies = [step(session, rules, worker, items)["messages"] for items in worker.turns()]

    folded = [body for body in bodies if body[0]["content"][0] == rules.compactions[0].block]
    assert len(folded) > 5
    first_kept = folded[0][1]
    assert first_kept["role"] == "assistant"
    assert first_kept in worker.items
    notes = [[n for n, message in enumerate(body) if "src/main.c" in str(message["content"])][1] for body in folded]
    assert set(notes) == {len(folded[0]) - 1}
    for before, after in pairwise(folded):
        assert after[: len(before)] == before


def test_undoing_sends_the_full_history_again() -> None:
    """B42: undo removes the block; the next request is planned from the full log, without the beta."""
    worker, events = Worker(60), list[Event]()
    rules = AnthropicRules(worker.model)
    session = Session(open_store("memory"), "s", settings_for(rules, events))
    turns = worker.turns()
    while not rules.compactions:
        step(session, rules, worker, next(turns))
    assert session.log.native
    session.undo()

    assert not session.log.native
    ready = session.prepare(next(turns)[:-2], system=SYSTEM, tools=TOOLS)
    assert "compaction" not in json.dumps(ready.messages[0])
    assert ready.messages[0] == worker.items[0]
    assert ready.betas == ()


def test_another_process_goes_on_with_the_block(tmp_path: Path) -> None:
    """B42: a session that is opened again sends the same messages, and thinking stays valid."""
    worker, events = Worker(60), list[Event]()
    rules = AnthropicRules(worker.model)
    for number, items in enumerate(worker.turns()):
        if number % 5 == 0:
            store = open_store(str(tmp_path / "sessions.db"))
            session = Session(store, "s", settings_for(rules, events))
        step(session, rules, worker, items)
        if number % 5 == 4:
            store.close()

    assert len(rules.compactions) >= 3
    assert rules.refusals == []
    assert all(len(request.kept) >= 3 for request in rules.requests[10:] if not request.is_compaction)


def overloaded(_: ScriptedRequest) -> Fail:
    """A provider that cannot compact now."""
    return Fail(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


TROUBLES = {
    "overloaded": (overloaded, "failed"),
    "no summary": (lambda _: Say("I will not.", finish="length"), "failed"),
    "empty": (lambda _: Say("None."), "empty"),
    "invented": (lambda _: Say("\n".join(f"- wrote /srv/app/file_{n}.py in full" for n in range(9))), "invented"),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_compaction_that_fails_is_replaced_by_an_ordinary_summary(
    trouble: tuple[Callable[[ScriptedRequest], Say | Fail], str],
) -> None:
    """B36, B42: what the provider wrote is judged; if nothing can be accepted, the summariser is asked once."""
    script, fault = trouble
    worker, events = Worker(60), list[Event]()
    rules = AnthropicRules(worker.model, summarise=script)
    session = Session(open_store("memory"), "s", settings_for(rules, events))
    for items in worker.turns():
        step(session, rules, worker, items)

    folds = [event for event in events if isinstance(event, Compacted)]
    assert len(folds) >= 3
    assert not any(fold.native for fold in folds)
    assert all(fault in fold.faults and fold.summariser for fold in folds)
    assert not any(isinstance(event, SummaryRejected | Rejected) for event in events)
    assert [request.refusal for request in rules.requests if request.refusal] == []


def test_doubtful_claims_of_the_provider_are_named() -> None:
    """B42: a block cannot be edited, so the note says which of its claims the record does not show."""
    worker, events = Worker(30), list[Event]()
    told = "\n".join(f"- ran make step-{n} and it printed its lines" for n in range(1, 9))
    rules = AnthropicRules(worker.model, summarise=lambda _: Say(f"{told}\n- wrote /srv/other/tool.py as well"))
    session = Session(open_store("memory"), "s", settings_for(rules, events))
    bodies = [step(session, rules, worker, items) for items in worker.turns()]

    assert session.log.native
    assert "mentions what the record does not show" in json.dumps(bodies[-1]["messages"][1:])
    assert "srv/other/tool.py" in session.log.checkpoint_text


def test_a_provider_that_refuses_its_own_block_gets_text() -> None:
    """B42: after such a refusal the session goes on with infold's own text, once and for good."""
    worker, events = Worker(60), list[Event]()
    rules = AnthropicRules(worker.model)
    session = Session(open_store("memory"), "s", settings_for(rules, events))
    turns = worker.turns()
    while not session.log.native:
        step(session, rules, worker, next(turns))
    ready = session.prepare(next(turns), system=SYSTEM, tools=TOOLS)
    assert ready.betas == (BETA,)
    again = session.recover(AnthropicRefusal("messages.0.content.0: the `compaction` block is invalid"))
    assert again is not None
    assert again.betas == ()
    assert "compaction" not in json.dumps(again.messages)
    assert RULE in json.dumps(again.messages)
    session.record(rules.reply(body_of(again.messages)))
    assert [event.native for event in events if isinstance(event, Rejected)] == [True]
    done = len(rules.compactions)
    worker.take({"content": session.encode([session.log.live[-1].message])[0]["content"]})
    for items in turns:
        step(session, rules, worker, items)
    assert len(rules.compactions) == done


def test_a_model_that_cannot_read_the_block_gets_text() -> None:
    """B42: after a switch to a model without compaction the summary is shown as text, and back again as the block."""
    worker, events = Worker(60), list[Event]()
    rules = AnthropicRules(worker.model)
    store = open_store("memory")
    used: list[str] = []
    for number, items in enumerate(worker.turns()):
        model = "claude-haiku-4-5" if 30 <= number < 35 else MODEL
        if number in (0, 30, 35):
            session = Session(store, "s", settings_for(rules, events, model=model))
        sent = step(session, rules, worker, items, model)
        used.append("block" if "sealed-" in json.dumps(sent["messages"]) else "text")

    assert rules.compactions
    assert set(used[30:35]) == {"text"}
    assert used[-1] == "block"


def test_the_agent_lets_its_provider_compact(tmp_path: Path) -> None:
    """B42: the agent's own loop and model, on a task of 60 steps."""
    (tmp_path / "Makefile").write_text("step-% check-%:\n\t@seq 700 | sed 's/^/compiling the module $@ /' | head -60\n")
    worker, events = Worker(), list[Event]()
    rules = AnthropicRules(worker.model)
    with ScriptedServer(rules) as server:
        asked = AnthropicMessages(ModelRef("anthropic", MODEL), _client(server.url))
        settings = SessionSettings(
            model=MODEL,
            window=WINDOW,
            format="anthropic-messages",
            summariser=asked.summarise,
            native="always",
            offers_native=True,
            on_event=events.append,
        )
        session = Session(open_store("memory"), "s", settings)
        loop = Loop(
            session, asked, BUILD, toolbox_in(tmp_path), emit=lambda _: None, limits=RunLimits(output_tokens=400)
        )
        for _ in range(6):
            assert loop.run("Go on with the next part.").ending == "done"

    folds = [event for event in events if isinstance(event, Compacted)]
    assert len(folds) >= 3
    assert all(fold.native and not fold.outdated_thinking for fold in folds)
    assert rules.refusals == []


# OpenAI.


def test_openais_compaction_is_sent_with_the_ledger(tmp_path: Path) -> None:
    """B42: the sealed item and the user's messages stand first, the ledger with the rule follows, and the cost is counted."""
    calls = 0

    def model(request: ScriptedRequest) -> Say:
        nonlocal calls
        if request.path.endswith("/compact"):
            return Say("The steps were run one after the other.")
        calls += 1
        return Say(
            calls=(("shell", {"command": f"make step-{calls}"}),), reasoning=f"Thought {calls}.", signature="sealed"
        )

    events, bodies = list[Event](), list[Item]()
    store = open_store(str(tmp_path / "sessions.db"))
    items: list[Any] = [{"role": "user", "content": f"Run the steps in src/main.c. {RULE}"}]
    tools: list[Any] = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
    with ScriptedServer(model) as server:
        inner = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        settings = SessionSettings(window=WINDOW, policy=FOLDS, native="always", on_event=events.append)
        client = wrap(inner, settings, store=store, session="s")
        for _ in range(32):
            reply = client.responses.create(
                model="gpt-5.4", input=items, tools=tools, store=False, include=["reasoning.encrypted_content"]
            )
            items += [item.model_dump(mode="json", exclude_none=True) for item in reply.output]
            called = next(item for item in items[::-1] if item["type"] == "function_call")
            output = printed(called["arguments"]) * 3
            items.append({"type": "function_call_output", "call_id": called["call_id"], "output": output})
        bodies = [request.body for request in server.requests if not request.path.endswith("/compact")]
        compacts = [request.body for request in server.requests if request.path.endswith("/compact")]

    folds = [event for event in events if isinstance(event, Compacted)]
    assert len(folds) >= 3
    assert all(fold.native and fold.cost > 0 and fold.summariser == "gpt-5.4" for fold in folds)
    assert len(compacts) == len(folds)
    assert not any(isinstance(event, PreparedAhead) for event in events)
    sealed = [body["input"] for body in bodies if any(item.get("type") == "compaction" for item in body["input"])]
    assert sealed
    for shown in sealed:
        kinds = [item.get("type") for item in shown]
        assert kinds.count("compaction") == 1
        assert "reasoning" in kinds[kinds.index("compaction") :]
        assert RULE in json.dumps(shown[kinds.index("compaction") + 1 :])
    key = next(session.key for tenant in store.tenants() for session in store.sessions(tenant))
    stored = [entry for _, entry in store.newest_first(key) if isinstance(entry, Checkpoint)]
    assert all(checkpoint.native and checkpoint.cost > 0 for checkpoint in stored)
    store.close()
