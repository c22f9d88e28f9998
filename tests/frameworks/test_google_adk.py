"""Google ADK's plugin, with ADK's own runner and a model of its own class; skipped where ADK is not installed."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent, ParallelAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import Field

from infold import UsageError
from infold.core.entries import MessageEntry
from infold.core.messages import SessionId
from infold.integrations.google_adk import InfoldPlugin
from infold.ports import SessionKey

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # ADK's own
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192


def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: all went well\n" * 120


class Watch(BasePlugin):
    """Sees the contents before infold and after it, as the first plugin and the last."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.requests: list[list[Any]] = []
        self.offered: set[str] = set()

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:  # noqa: ARG002
        self.requests.append(list(llm_request.contents))
        self.offered |= set(llm_request.tools_dict)


class Script(BaseLlm):
    """Reads files one after the other, in parallel now and then, and ends; refuses one request for its size."""

    model: str = "script"
    steps: int = STEPS
    refused: int = -1
    last: list[Any] = Field(default_factory=list)
    number: int = 0
    sent: list[Any] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.sent.append(list(llm_request.contents))
        if self.number == self.refused:
            self.refused = -1
            raise ValueError("The input token count (9001) exceeds the maximum number of tokens allowed (8192).")
        n, self.number = self.number, self.number + 1
        if n < self.steps:
            names = ("a", "b") if n % 7 == 3 else ("a",)
            calls = [types.FunctionCall(name="read_file", args={"path": f"src/{name}{n}.py"}) for name in names]
            parts = [types.Part(function_call=call) for call in calls]
        else:
            parts = [self.last.pop(0)] if self.last else [types.Part(text="Done.")]
        if stream:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Do")]), partial=True)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=1_000 + n, candidates_token_count=20, total_token_count=1_020 + n
        )
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


class Run:
    """A runner with infold, and what it saw."""

    def __init__(self, script: Any, infold: InfoldPlugin | None = None, agent: Any = None, **options: Any) -> None:
        self.script = script
        self.infold = infold or InfoldPlugin(window=WINDOW)
        self.before, self.after = Watch("before"), Watch("after")
        self.runner = InMemoryRunner(
            agent or LlmAgent(name="reader", model=script, instruction="Read.", tools=[read_file], **options),
            app_name="app",
            plugins=[self.before, self.infold, self.after],
        )

    async def ask(self, text: str = RULE, session: str = "one", user: str = "u", **config: Any) -> list[Any]:
        service = self.runner.session_service
        known = await service.get_session(app_name="app", user_id=user, session_id=session)
        if known is None:
            await service.create_session(app_name="app", user_id=user, session_id=session)
        message = types.Content(role="user", parts=[types.Part(text=text)])
        settings = {"run_config": RunConfig(**config)} if config else {}
        events = self.runner.run_async(user_id=user, session_id=session, new_message=message, **settings)
        return [event async for event in events]

    def check(self) -> None:
        """Every request fits, has the rule, whole pairs, and ADK's own objects for what was kept."""
        for sent, given in zip(self.after.requests, self.before.requests, strict=True):
            own = {id(content) for content in given}
            new = [content for content in sent if id(content) not in own]
            assert len(new) <= 1 or all(content.role == "user" for content in new)
            assert len(sent) == 1 or len(new) < len(sent)
        for sent in self.script.sent:
            assert tokens(sent) < WINDOW
            assert any(
                RULE in (part.text or "") for content in sent if content.role == "user" for part in content.parts
            )
            waiting: list[str] = []
            for content in sent:
                assert [part.function_response.name for part in content.parts if part.function_response] == waiting
                waiting = [part.function_call.name for part in content.parts if part.function_call]


def tokens(contents: list[Any]) -> int:
    """A cautious count of a request."""
    return sum(len(content.model_dump_json(exclude_none=True)) for content in contents) // 4


def replies(infold: InfoldPlugin, name: str) -> list[Any]:
    entries = [entry for _, entry in infold.sessions.store.newest_first(SessionKey("", SessionId(name)))]
    return [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]


def test_a_long_loop_fits() -> None:
    """B44: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs; the session keeps everything."""
    run = Run(Script(steps=STEPS))
    events = asyncio.run(run.ask())

    assert len(run.script.sent) == STEPS + 1
    run.check()
    assert len(run.script.sent[-1]) < 30
    assert len(run.before.requests[-1]) == 1 + 2 * STEPS
    assert events[-1].content.parts[0].text == "Done."
    assert {"read_file", "recall"} <= run.after.offered


def test_a_long_loop_fits_when_it_is_streamed() -> None:
    """B44: so it is with streamed replies, and a refusal is recovered; each reply is recorded once."""
    run = Run(Script(refused=30))
    asyncio.run(run.ask(streaming_mode=StreamingMode.SSE))

    assert len(run.script.sent) == STEPS + 2
    run.check()
    used = [reply.usage.prompt for reply in replies(run.infold, "app:u:one:reader") if reply.usage is not None]
    assert used == sorted(set(used), reverse=True)


def test_a_refusal_is_recovered() -> None:
    """B44: a refusal at step 30 is answered by a smaller request, and the loop goes on."""
    run = Run(Script(refused=30))
    events = asyncio.run(run.ask())

    assert len(run.script.sent) == STEPS + 2
    assert tokens(run.script.sent[31]) < tokens(run.script.sent[30])
    assert events[-1].content.parts[0].text == "Done."
    run.check()


@pytest.mark.parametrize("refused", [21, 54])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int) -> None:
    """B44: a request that was folded and is refused all the same is made smaller, in the same session."""
    run = Run(Script(refused=refused))
    events = asyncio.run(run.ask())

    assert "[Earlier conversation" in str(run.script.sent[refused])
    assert tokens(run.script.sent[refused + 1]) < tokens(run.script.sent[refused])
    assert len(run.script.sent) == STEPS + 2
    assert events[-1].content.parts[0].text == "Done."
    run.check()
    assert len(list(run.infold.sessions.store.sessions(""))) == 1


class Emptied(Script):
    """Answers one request with nothing."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream):
            if self.number == 20:
                response.content = None
            yield response


def test_an_empty_reply_is_a_reply() -> None:
    """B44: a reply without content ends the turn as it does without infold; its usage is recorded, and the session goes on."""
    run = Run(Emptied(steps=30))

    async def talk() -> list[Any]:
        await run.ask()
        return await run.ask("Go on.")

    events = asyncio.run(talk())
    assert events[-1].content.parts[0].text == "Done."
    assert len(run.script.sent) == 31
    run.check()
    used = [reply.usage.prompt for reply in replies(run.infold, "app:u:one:reader") if reply.usage is not None]
    assert used[::-1] == [1_000 + n for n in range(31)]


def test_another_error_is_raised_as_it_is() -> None:
    """B44: an error that is not about size passes through."""

    class Broken(Script):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:  # noqa: ARG002
            if self.steps:
                raise ValueError("no such model")
            yield LlmResponse()

    with pytest.raises(ValueError, match="no such model"):
        asyncio.run(Run(Broken()).ask())


def test_a_second_refusal_is_raised() -> None:
    """B44: a request that is refused twice ends the run with the first refusal."""

    class Refusing(Script):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            self.refused = self.number if self.number == 20 else -1
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    run = Run(Refusing())
    with pytest.raises(ValueError, match="exceeds the maximum number of tokens"):
        asyncio.run(run.ask())
    assert len(run.script.sent) == 22


def test_usage_is_recorded() -> None:
    """B44: what replies report reaches the session, named by app, user, session and agent."""
    run = Run(Script(steps=3))
    asyncio.run(run.ask())

    used = [reply.usage.prompt for reply in replies(run.infold, "app:u:one:reader") if reply.usage is not None]
    assert used[-3:] == [1_002, 1_001, 1_000]


def test_two_conversations_stay_apart() -> None:
    """B44: two sessions of one plugin, also of two users with the same id, at the same time, see nothing of each other."""
    infold = InfoldPlugin(window=WINDOW)
    runs = [Run(Script(steps=30), infold) for _ in range(2)]

    async def both() -> None:
        names = zip(runs, ("alpha", "beta"), strict=True)
        await asyncio.gather(*(run.ask(f"{RULE} For {name}.", user=name) for run, name in names))

    asyncio.run(both())
    for run, other in zip(runs, ("beta", "alpha"), strict=True):
        run.check()
        assert not any(other in content.model_dump_json() for sent in run.script.sent for content in sent)


@pytest.mark.usefixtures("only_folds")
def test_agents_in_parallel_stay_apart() -> None:
    """B44: two agents that run in parallel in one session have sessions of their own."""
    scripts = [Script(steps=20) for _ in range(2)]
    agents = [LlmAgent(name=f"reader{n}", model=script, tools=[read_file]) for n, script in enumerate(scripts)]
    run = Run(scripts[0], agent=ParallelAgent(name="both", sub_agents=agents))
    asyncio.run(run.ask())

    for n, script in enumerate(scripts):
        assert all(tokens(sent) < WINDOW for sent in script.sent)
        assert len(script.sent[-1]) < 20
        assert len(replies(run.infold, f"app:u:one:reader{n}")) >= 20


def test_a_conversation_goes_on() -> None:
    """B44: a second message in a session goes on from the first."""
    run = Run(Script(steps=30))

    async def twice() -> None:
        await run.ask()
        await run.ask("Go on.")

    asyncio.run(twice())
    run.check()
    assert "Go on." in run.script.sent[-1][-1].parts[0].text


def test_a_model_recalls_what_was_folded() -> None:
    """B44: the recall tool, called by the model in ADK's way, brings back a folded result."""
    asked = types.Part(function_call=types.FunctionCall(name="recall", args={"query": "src/a0.py"}))
    run = Run(Script(steps=30, last=[asked]))
    asyncio.run(run.ask())

    answer = run.script.sent[-1][-1].parts[0].function_response
    assert "src/a0.py: all went well" in answer.response["result"]


def test_the_recall_tool_is_left_out_where_functions_are_not_taken() -> None:
    """B44: with a provider's own tool the recall tool is not offered, since models refuse both together."""
    plugin, request = InfoldPlugin(window=WINDOW), LlmRequest()
    request.config.tools = [types.Tool(function_declarations=[types.FunctionDeclaration(name="read_file")])]
    assert plugin._recall_tool(request) is not None

    request.config.tools = [types.Tool(google_search=types.GoogleSearch())]
    assert plugin._recall_tool(request) is None


def test_a_short_conversation_is_not_touched() -> None:
    """B44: while nothing is cut, the request has ADK's own contents."""
    run = Run(Script(steps=1))
    asyncio.run(run.ask())

    given = [list(map(id, contents)) for contents in run.before.requests]
    assert [list(map(id, contents)) for contents in run.after.requests] == given


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no adapter has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        InfoldPlugin(windw=3)  # type: ignore[call-arg]


def ask(query: str, name: str = "recall") -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args={"query": query}))


def answers(contents: list[Any]) -> list[str]:
    parts = [part for content in contents for part in content.parts]
    return [str(part.function_response.response) for part in parts if part.function_response]


def secretive(infold: InfoldPlugin, name: str) -> Run:
    """A runner whose tool shows its secret, and which recalls it."""

    def read_file(path: str) -> str:
        """Read a file."""
        return f"{path}: secret-{name} is written here\n" * 120

    script = Script(steps=12, last=[ask("secret"), ask("src/a3.py"), ask("1.0, 2.0, 4.0")])
    return Run(script, infold, LlmAgent(name="reader", model=script, instruction="Read.", tools=[read_file]))


def test_conversations_that_begin_alike_recall_their_own() -> None:
    """B44: two users with the same first words, in turn and at once, are never shown each other's text."""
    infold, names = InfoldPlugin(window=WINDOW), ("anna", "bert")
    runs = [(name, secretive(infold, name)) for name in names * 2]

    async def converse() -> None:
        for place, (name, run) in enumerate(runs[:2]):
            await run.ask("Hello", session=f"in-turn-{place}", user=name)
        await asyncio.gather(*(run.ask("Hello", session="s", user=name) for name, run in runs[2:]))

    asyncio.run(converse())
    for name, run in runs:
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        assert other not in str(run.script.sent)
        assert f"secret-{name}" in answers(run.script.sent[-1])[-1]


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: an agent's own tool called recall is offered and run; infold's has another name, which the stubs name too."""

    def recall(query: str) -> str:
        """Recall a fact of the company."""
        return f"the company knows {query}"

    script = Script(steps=12, last=[ask("tides"), ask("src/a0.py", "infold_recall")])
    run = Run(script, agent=LlmAgent(name="reader", model=script, instruction="Read.", tools=[recall, read_file]))
    asyncio.run(run.ask())

    *_, company, own = answers(run.script.sent[-1])
    assert "the company knows tides" in company
    assert "src/a0.py: all went well" in own
    assert run.after.offered == {"recall", "read_file", "infold_recall"}
    assert "with the infold_recall tool" in str(run.script.sent[-1])


def test_recall_is_offered_when_it_is_of_use() -> None:
    """B44: recall is offered once something was folded, and never to an agent without tools."""
    run = Run(Script(steps=1))
    asyncio.run(run.ask())
    assert run.after.offered == {"read_file"}

    script = Script(steps=0)
    run = Run(script, agent=LlmAgent(name="reader", model=script, instruction="Read."))

    async def chat() -> None:
        for turn in range(6):
            await run.ask(f"{turn}: " + "it is so. " * 1_200)

    asyncio.run(chat())
    assert len(run.after.requests[-1]) < len(run.before.requests[-1])
    assert run.after.offered == set()
