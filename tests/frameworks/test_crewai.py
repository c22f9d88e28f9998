"""The plug for CrewAI, with CrewAI's own crews and a scripted LLM; skipped where it is not installed."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from tempfile import mkdtemp
from typing import Any

import pytest

if find_spec("crewai") is None:
    pytest.skip("could not import 'crewai'", allow_module_level=True)
os.environ.update(OTEL_SDK_DISABLED="true", CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false")
os.environ["CREWAI_STORAGE_DIR"] = mkdtemp()  # CrewAI keeps outputs of tasks on disk, in a form that differs by version

from crewai import Agent, Crew, Task
from crewai.hooks import register_before_llm_call_hook, unregister_before_llm_call_hook
from crewai.llms.base_llm import BaseLLM, LLMCallType, llm_call_context
from crewai.tools import BaseTool
from crewai.utilities import agent_utils
from pydantic import ConfigDict

from infold import UsageError, preset
from infold.core.entries import Amendment, Checkpoint, MessageEntry
from infold.core.messages import SessionId
from infold.integrations.crewai import Plug, install, uninstall
from infold.ports import SessionKey

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # CrewAI's own, which differ by version
]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192
KEPT = "[Next, up to the newest messages: excerpts of earlier steps"
TOO_LARGE = "maximum context length is 8192 tokens, your messages resulted in 9001 tokens"


class ReadFile(BaseTool):
    name: str = "read_file"
    description: str = "Read a file."

    def _run(self, path: str) -> str:
        return f"{path}: all went well\n" * 120


def native(number: int, steps: int = STEPS, prefix: str = "") -> Any:
    """Replies that read files one after the other, in parallel now and then, and end."""
    if number > steps:
        return "Done."
    names = ("a", "b") if number % 7 == 3 else ("a",)
    return [call(f"{prefix}{name}{number}", "read_file", path=f"src/{prefix}{name}{number}.py") for name in names]


def call(call_id: str, name: str, **arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def written(number: int) -> str:
    """The same as text, for a model without tools of its own."""
    if number > STEPS:
        return "Thought: I now know the final answer\nFinal Answer: Done."
    arguments = json.dumps({"path": f"src/a{number}.py"})
    return f"Thought: next\nAction: read_file\nAction Input: {arguments}"


class Scripted(BaseLLM):
    """Replies as scripted, reports usage, and refuses one request for its size."""

    model_config = ConfigDict(extra="allow")

    def __init__(self, script: Callable[[int], Any] = native, refused: int = -1, tools: bool = True) -> None:
        super().__init__(model="scripted")
        values = {"script": script, "refused": refused, "has_tools": tools, "requests": [], "answered": 0}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def supports_function_calling(self) -> bool:
        return bool(self.has_tools)

    def get_context_window_size(self) -> int:
        return 200_000  # else the newest version moves long results to files

    def call(self, messages: Any, *_: Any, from_task: Any = None, from_agent: Any = None, **__: Any) -> Any:
        self.requests.append([dict(message) for message in messages])
        if len(self.requests) == self.refused:
            raise ValueError(TOO_LARGE)
        object.__setattr__(self, "answered", self.answered + 1)
        reply = self.script(self.answered)
        usage = {"prompt_tokens": 1_000 + self.answered, "completion_tokens": 5, "total_tokens": 1_005 + self.answered}
        with llm_call_context():
            self._emit_call_completed_event(
                reply, LLMCallType.LLM_CALL, from_task, from_agent, self.requests[-1], usage=usage
            )
        return reply

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)


class Watch:
    """Hooks before and behind infold's, which see the agent's list as it came and as it is sent."""

    def __init__(self) -> None:
        self.given: list[list[Any]] = []
        self.returned: list[list[Any]] = []

    def before(self, context: Any) -> None:
        self.given.append(list(context.messages))

    def behind(self, context: Any) -> None:
        self.returned.append(list(context.messages))


@pytest.fixture
def watch() -> Iterator[Watch]:
    seen = Watch()
    register_before_llm_call_hook(seen.before)
    yield seen
    uninstall()
    unregister_before_llm_call_hook(seen.before)
    unregister_before_llm_call_hook(seen.behind)


def plug(watch: Watch, **options: Any) -> Plug:
    infold = install(window=WINDOW, **options)
    register_before_llm_call_hook(watch.behind)
    return infold


def crew(llm: Scripted, infold: Plug, words: str = RULE) -> Crew:
    tools = [ReadFile(), infold.recall]
    reader = Agent(role="reader", goal="read", backstory="careful", llm=llm, tools=tools, max_iter=300, verbose=False)
    return Crew(agents=[reader], tasks=[Task(description=words, expected_output="words", agent=reader)], verbose=False)


def tokens(messages: list[Any]) -> int:
    return len(str(messages)) // 4


def check(llm: Scripted, watch: Watch) -> None:
    """Every request fits, has the rule, whole pairs, and the agent's own dicts for what was kept."""
    for sent in llm.requests:
        assert tokens(sent) < WINDOW
        assert RULE in str(sent)
        made = [one["id"] for message in sent for one in message.get("tool_calls") or ()]
        assert made == [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    for given, returned in zip(watch.given, watch.returned, strict=True):
        own = {id(message) for message in given}
        new = [message for message in returned if id(message) not in own]
        assert len([message for message in new if message["role"] == "user"]) <= 1
        assert all(message["role"] in ("user", "tool") or KEPT in str(returned) for message in new)


def prompts(infold: Plug, count: int) -> list[int]:
    """The prompt tokens that replies reported, once the events have arrived."""
    for _ in range(50):
        (key,) = [one.key for one in infold.sessions.store.sessions("")]
        entries = [entry for _, entry in infold.sessions.store.newest_first(SessionKey("", SessionId(key.session_id)))]
        replies = [one.message for one in entries if isinstance(one, MessageEntry) and hasattr(one.message, "usage")]
        found = [reply.usage.prompt for reply in replies if reply.usage is not None]
        if len(found) >= count:
            break
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("way", ["sync", "awaited"])
def test_a_long_loop_fits(way: str, watch: Watch) -> None:
    """B44: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs; a refusal is recovered."""
    infold, llm = plug(watch), Scripted(refused=30)
    made = crew(llm, infold)
    result = made.kickoff() if way == "sync" else asyncio.run(made.kickoff_async())

    assert result.raw == "Done."
    assert len(llm.requests) == STEPS + 2
    check(llm, watch)
    assert tokens(llm.requests[30]) < tokens(llm.requests[29])
    assert str(llm.requests[-1]).count("[Earlier conversation") == 1
    assert len(prompts(infold, 50)) >= 50


@pytest.mark.parametrize("way", ["sync", "awaited"])
@pytest.mark.usefixtures("only_folds")
def test_kept_steps_come_back_and_are_known(way: str, watch: Watch) -> None:
    """B44, B52: steps that folds kept are in the agent's list, with their stubs, and come back; nothing is kept or stored
    twice."""
    infold, llm = plug(watch, policy=preset("infold").with_memory(0.3)), Scripted(refused=30)
    made = crew(llm, infold)
    result = made.kickoff() if way == "sync" else asyncio.run(made.kickoff_async())
    (key,) = [one.key for one in infold.sessions.store.sessions("")]
    entries = [entry for _, entry in infold.sessions.store.newest_first(key)]
    folds = [entry for entry in entries if isinstance(entry, Checkpoint)]

    assert result.raw == "Done."
    check(llm, watch)
    assert sum(bool(fold.steps) for fold in folds) >= 10
    assert not any(isinstance(entry, Amendment) for entry in entries)
    for sent in llm.requests:
        ids = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
        assert len(ids) == len(set(ids))
    assert KEPT in str(llm.requests[-1])


@pytest.mark.parametrize("way", ["sync", "awaited"])
@pytest.mark.parametrize("refused", [28, 36, 37, 55])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int, way: str, watch: Watch) -> None:
    """B44: a request that was folded and is refused all the same is made smaller; the task goes on, with one session."""
    infold, llm = plug(watch), Scripted(refused=refused)
    made = crew(llm, infold)
    result = made.kickoff() if way == "sync" else asyncio.run(made.kickoff_async())

    assert result.raw == "Done."
    assert "[Earlier conversation" in str(llm.requests[refused - 1])
    assert len(llm.requests) == STEPS + 2
    assert tokens(llm.requests[refused]) < tokens(llm.requests[refused - 1])
    check(llm, watch)
    assert len(list(infold.sessions.store.sessions(""))) == 1


class RefusingFolds(Scripted):
    """Refuses each request that is shorter than the one before, once."""

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        before = len(self.requests[-1]) if self.requests else 0
        if self.refused != len(self.requests) and len(messages) < before:
            object.__setattr__(self, "refused", len(self.requests) + 1)
        return super().call(messages, *args, **kwargs)


@pytest.mark.parametrize("way", ["sync", "awaited"])
def test_a_refusal_of_a_fold_is_recovered(way: str, watch: Watch) -> None:
    """B44: so is each request that was folded just now, whose list is shorter than the one that the agent had."""
    infold, llm = plug(watch), RefusingFolds()
    made = crew(llm, infold)
    result = made.kickoff() if way == "sync" else asyncio.run(made.kickoff_async())

    assert result.raw == "Done."
    assert len(llm.requests) > STEPS + 2
    assert llm.answered == STEPS + 1
    check(llm, watch)
    assert len(list(infold.sessions.store.sessions(""))) == 1


@pytest.mark.parametrize("way", ["sync", "awaited"])
def test_an_empty_reply_does_not_end_a_task(way: str, watch: Watch) -> None:
    """B44: CrewAI asks again after a reply without content; infold records it and does not stand in the way."""
    infold, llm = plug(watch), Scripted(lambda n: "" if n == 20 else native(n, 25))
    made = crew(llm, infold)
    bare = Scripted(lambda n: "" if n == 3 else native(n, 5))
    result = made.kickoff() if way == "sync" else asyncio.run(made.kickoff_async())
    uninstall()
    expected = crew(bare, infold).kickoff()

    assert result.raw == expected.raw == "Done."
    check(llm, watch)


def test_an_unchanged_checkpoint_is_the_same_dict(watch: Watch) -> None:
    """B44: while nothing more is folded, the agent's list has the very checkpoint that it had."""
    infold, llm = plug(watch), Scripted()
    crew(llm, infold).kickoff()
    marked = [next((one for one in sent if "[Earlier" in str(one["content"])), None) for sent in watch.returned]
    texts = {str(one) for one in marked if one is not None}

    assert len(texts) > 1
    assert len({id(one) for one in marked if one is not None}) == len(texts)


def test_a_plug_that_uninstalls_itself_is_out(watch: Watch) -> None:
    """B44: `Plug.uninstall` is what `uninstall` is, also twice; then infold can be installed again."""
    infold = plug(watch)
    infold.uninstall()
    infold.uninstall()
    again = install(window=WINDOW)
    with pytest.raises(UsageError, match="uninstall"):
        infold.install()
    again.uninstall()


def test_a_model_without_tools_fits(watch: Watch) -> None:
    """B44: so it is with a model that writes its calls as text."""
    infold, llm = plug(watch), Scripted(written, tools=False)
    result = crew(llm, infold).kickoff()

    assert "Done." in result.raw
    assert len(llm.requests) == STEPS + 1
    check(llm, watch)


def test_two_crews_stay_apart(watch: Watch) -> None:
    """B44: two crews at once see nothing of each other, in recall either."""
    infold = plug(watch)

    def script(name: str) -> Callable[[int], Any]:
        return lambda n: [call("r1", "recall", query=f"src/{name}a1.py")] if n == 25 else native(n, 25, name)

    llms = [Scripted(script(name)) for name in ("alpha", "beta")]
    crews = [crew(llm, infold, f"{RULE} For {name}.") for llm, name in zip(llms, ("alpha", "beta"), strict=True)]

    async def both() -> None:
        await asyncio.gather(*(one.kickoff_async() for one in crews))

    asyncio.run(both())
    for llm, own, other in zip(llms, ("alpha", "beta"), ("beta", "alpha"), strict=True):
        assert other not in str(llm.requests)
        answer = next(message for message in llm.requests[-1] if message.get("tool_call_id") == "r1")
        assert f"{own}a1.py: all went well" in answer["content"]


def test_a_short_conversation_is_not_touched(watch: Watch) -> None:
    """B44: while nothing is cut, an agent's list stays as it is."""
    infold, llm = plug(watch), Scripted(lambda n: native(n, 2))
    crew(llm, infold).kickoff()

    assert [[id(one) for one in sent] for sent in watch.returned] == [[id(one) for one in sent] for sent in watch.given]


def test_uninstall_takes_everything_out(watch: Watch) -> None:
    """B44: after `uninstall` CrewAI is as it was; a second `install` before that is refused."""
    names = ("summarize_messages", "is_context_window_overflowing_threshold")
    before = [getattr(owner, name, None) for owner in (BaseLLM, agent_utils) for name in names]
    infold = plug(watch)
    with pytest.raises(UsageError, match="uninstall"):
        install(window=WINDOW)
    made = crew(Scripted(lambda n: native(n, 20)), infold)
    uninstall()

    assert [getattr(owner, name, None) for owner in (BaseLLM, agent_utils) for name in names] == before
    made.kickoff()
    assert not list(infold.sessions.store.sessions(""))


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no plug has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        install(windw=3)  # type: ignore[call-arg]


class ReadSecret(ReadFile):
    secret: str = ""

    def _run(self, path: str) -> str:
        return f"{path}: {self.secret} is written here\n" * 120


def secretive(number: int) -> Any:
    queries = ("secret", "src/a3.py", "1.0, 2.0")
    if number <= 12:
        return native(number, 12)
    return [call(f"r{number - 13}", "recall", query=queries[number - 13])] if number <= 15 else "Done."


def converse(infold: Plug, name: str, told: Crew | None = None) -> tuple[Scripted, Crew]:
    """Run a task whose tool shows its secret, and which recalls it; in a new crew, or in one that had another's."""
    tools = [ReadSecret(secret=f"secret-{name}"), infold.recall]
    llm: Any = Scripted(secretive) if told is None else told.agents[0].llm
    if told is None:
        reader = Agent(role="reader", goal="read", backstory="careful", llm=llm, tools=tools, max_iter=300, cache=False)
        told = Crew(
            agents=[reader], tasks=[Task(description="Hello", expected_output="words", agent=reader)], cache=False
        )
    else:
        told.agents[0].tools[0].secret = f"secret-{name}"
        object.__setattr__(llm, "answered", 0)
        object.__setattr__(llm, "requests", [])
    told.kickoff()
    return llm, told


def test_crews_that_begin_alike_recall_their_own(watch: Watch) -> None:
    """B44: tasks with the same words, in turn, in the same crew and at once, are never shown each other's text."""
    infold = plug(watch)
    llm, told = converse(infold, "anna")
    ran = [("anna", llm.requests), ("bert", converse(infold, "bert")[0].requests)]
    if hasattr(BaseLLM, "summarize_messages"):  # before 1.15 CrewAI itself goes on with the messages of the first start
        ran.append(("bert", converse(infold, "bert", told)[0].requests))
    with ThreadPoolExecutor(2) as pool:
        for name, done in [(name, pool.submit(converse, infold, name)) for name in ("anna", "bert")]:
            ran.append((name, done.result()[0].requests))
    for name, requests in ran:
        other = {"anna": "secret-bert", "bert": "secret-anna"}[name]
        assert other not in str(requests)
        results = {one.get("tool_call_id"): str(one["content"]) for sent in reversed(requests) for one in sent}
        assert all(f"secret-{name}" in results[f"r{n}"] for n in range(3))


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone(watch: Watch) -> None:
    """B44: an agent's own tool called recall is run, and not taken for infold's, which may be given another name."""

    class Recall(BaseTool):
        name: str = "recall"
        description: str = "Recall a fact of the company."

        def _run(self, query: str) -> str:
            return f"the company knows {query}"

    def replies(number: int) -> Any:
        names = {13: ("r1", "recall", "tides"), 14: ("r2", "infold_recall", "src/a1.py")}
        if number <= 12:
            return native(number, 12)
        return [call(names[number][0], names[number][1], query=names[number][2])] if number in names else "Done."

    llm, infold = Scripted(replies), plug(watch, recall_name="infold_recall")
    tools = [Recall(), ReadFile(), infold.recall]
    reader = Agent(role="reader", goal="read", backstory="careful", llm=llm, tools=tools, max_iter=300)
    Crew(agents=[reader], tasks=[Task(description=RULE, expected_output="words", agent=reader)]).kickoff()
    results = {one.get("tool_call_id"): str(one["content"]) for sent in reversed(llm.requests) for one in sent}
    assert results["r1"] == "the company knows tides"
    assert "src/a1.py: all went well" in results["r2"]
    assert "infold_recall" in str(llm.requests[-1]).replace("'name': 'infold_recall'", "")
