"""The plug for CrewAI, with CrewAI's own crews and a scripted LLM; skipped where it is not installed."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
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

from infold import UsageError
from infold.core.entries import MessageEntry
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
        assert all(message["role"] in ("user", "tool") for message in new)


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
