"""inspect_ai's compaction strategy, with inspect_ai's own agent in an evaluation; skipped where it is not installed."""

import asyncio
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Compact,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelAPI,
    ModelOutput,
    get_model,
    modelapi,
)
from inspect_ai.solver._task_state import sample_state
from inspect_ai.tool import Tool, ToolCall, ToolCallError, ToolDef, ToolInfo, ToolParams, tool

from infold import UsageError
from infold.core.messages import SessionId
from infold.integrations.inspect_ai import InfoldCompaction, _build, _to_chat
from infold.ports import SessionKey

pytestmark = [pytest.mark.frameworks, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RULE = "Read every file. Never touch vendor/."
STEPS = 60
WINDOW = 8_192


FORCES = "force" in signature(Compact.compact_input).parameters


@tool
def read_file() -> Tool:
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: The path.
        """
        return f"{path}: all went well\n" * 120

    return execute


class Script(ModelAPI):
    """Reads files one after the other, in parallel now and then, and submits; refuses one request for its size."""

    def __init__(
        self,
        model_name: str = "script",
        *_: Any,
        steps: int = STEPS,
        refused: int = -1,
        last: Any = (),
        empty: int = -1,
        **__: Any,
    ) -> None:
        super().__init__(model_name)
        self._empty = empty
        self.requests: dict[str, list[list[Any]]] = {}
        self._steps, self._refused, self._last = steps, refused, list(last)

    async def count_text_tokens(self, text: str) -> int:
        return len(text) // 4

    async def generate(self, input: list[Any], tools: Any, tool_choice: Any, config: Any) -> ModelOutput:  # noqa: A002, ARG002
        who = next((name for name in ("alpha", "beta") if any(name in one.text for one in input)), "one")
        seen = self.requests.setdefault(who, [])
        seen.append(list(input))
        if len(seen) - 1 == self._refused:
            return ModelOutput.from_content("script", "too long", stop_reason="model_length")
        if len(seen) - 1 == self._empty:
            return ModelOutput.from_content("script", "")
        n = len(seen) - 1 - (0 <= self._refused < len(seen))
        if n < self._steps:
            names = ("a", "b") if n % 7 == 3 else ("a",)
            calls = [
                ToolCall(id=f"{one}{n}", function="read_file", arguments={"path": f"src/{one}{n}.py"}) for one in names
            ]
        else:
            calls = [self._last.pop(0) if self._last else ToolCall("s", "submit", {"answer": "Done."})]
        output = ModelOutput.from_content("script", "")
        output.choices[0].message.tool_calls = calls
        output.choices[0].stop_reason = "tool_calls"
        return output


@modelapi(name="script")
def script_api() -> type[Script]:
    return Script


def model_of(**options: Any) -> Any:
    return get_model("script/model", memoize=False, **options)


def run(model: Any, infold: InfoldCompaction, where: Path, *prompts: str) -> list[Any]:
    """Evaluate one sample for each prompt, at the same time, and return their logs."""
    task = Task(
        dataset=[Sample(input=prompt) for prompt in prompts or (RULE,)],
        solver=react(tools=[read_file(), infold.recall_tool()], compaction=infold),
    )
    [log] = eval(task, model=model, log_dir=str(where), display="none")
    assert log.status == "success", log.error
    return list(log.samples or ())


def tokens(messages: list[Any]) -> int:
    """A cautious count of a request."""
    return sum(len(message.text) + len(str(getattr(message, "tool_calls", "") or "")) for message in messages) // 4


def check(requests: list[list[Any]], whole: list[Any]) -> None:
    """Every request fits, has the rule, whole pairs, and inspect_ai's own messages for what was kept."""
    texts = {message.id: message.text for message in whole}
    for sent in requests:
        assert tokens(sent) < WINDOW
        assert any(RULE in message.text for message in sent if message.role == "user")
        assert sent[0].role == "system"
        new = [message for message in sent if texts.get(message.id) != message.text]
        assert len(new) <= 1 or all(message.role in ("user", "tool") for message in new)
        waiting: set[str] = set()
        for message in sent:
            if message.role == "tool":
                assert message.tool_call_id in waiting
                waiting.discard(message.tool_call_id)
            else:
                assert not waiting
                waiting = {call.id for call in getattr(message, "tool_calls", None) or ()}


def test_a_long_loop_fits(tmp_path: Path) -> None:
    """B44: in a loop of 60 tool steps every request fits, has the user's rule and whole pairs; the sample keeps everything."""
    model = model_of()
    [sample] = run(model, InfoldCompaction(window=WINDOW), tmp_path)
    requests = model.api.requests["one"]

    assert len(requests) == STEPS + 1
    check(requests, sample.messages)
    assert len(requests[-1]) < 40
    assert len(sample.messages) >= 2 + 2 * STEPS
    assert sum("[Earlier conversation" in message.text for message in requests[-1]) <= 1


@pytest.mark.skipif(not FORCES, reason="this release of inspect_ai does not compact after a refusal")
def test_a_refusal_is_recovered(tmp_path: Path) -> None:
    """B44: after a refusal at step 30 inspect_ai forces a compaction, and the next request is smaller."""
    model = model_of(refused=30)
    [sample] = run(model, InfoldCompaction(window=WINDOW), tmp_path)
    requests = model.api.requests["one"]

    assert len(requests) == STEPS + 2
    assert tokens(requests[31]) < tokens(requests[30])
    check(requests, sample.messages)


@pytest.mark.skipif(not FORCES, reason="this release of inspect_ai does not compact after a refusal")
@pytest.mark.parametrize("refused", [21, 54])
@pytest.mark.usefixtures("only_folds")
def test_a_refusal_after_a_fold_is_recovered(refused: int, tmp_path: Path) -> None:
    """B44: a request that was folded and is refused all the same is made smaller, in the same session."""
    model, infold = model_of(refused=refused), InfoldCompaction(window=WINDOW)
    [sample] = run(model, infold, tmp_path)
    requests = model.api.requests["one"]

    assert any("[Earlier conversation" in message.text for message in requests[refused])
    assert tokens(requests[refused + 1]) < tokens(requests[refused])
    assert len(requests) == STEPS + 2
    check(requests, sample.messages)
    assert len(list(infold.sessions.store.sessions(""))) == 1


def test_an_empty_reply_is_a_reply(tmp_path: Path) -> None:
    """B44: inspect_ai asks again after a reply without content, as it does without infold."""
    model = model_of(steps=30, empty=20)
    [sample] = run(model, InfoldCompaction(window=WINDOW), tmp_path)
    requests = model.api.requests["one"]

    assert len(requests) == 31
    check(requests, sample.messages)


@pytest.mark.parametrize("window", [WINDOW, 100_000])
def test_a_compaction_of_what_was_just_compacted_is_smaller(window: int) -> None:
    """B44: inspect_ai asks again at once only if the provider refused what it was given; then more is left out."""
    infold = InfoldCompaction(window=window)
    given = [ChatMessageSystem(content="Be careful."), ChatMessageUser(content=RULE), *steps(0, 60)]

    async def twice() -> list[list[Any]]:
        first, _ = await infold.compact(model_of(), given, [])
        second, _ = await infold.compact(model_of(), first, [])
        return [first, second]

    first, second = asyncio.run(twice())
    assert tokens(second) < tokens(first) < tokens(given)
    assert RULE in str(second)


def test_two_conversations_stay_apart(tmp_path: Path) -> None:
    """B44: two samples at the same time, with one strategy, see nothing of each other."""
    model = model_of(steps=30)
    samples = run(model, InfoldCompaction(window=WINDOW), tmp_path, f"{RULE} For alpha.", f"{RULE} For beta.")

    assert len(samples) == 2
    for sample, (name, other) in zip(samples, (("alpha", "beta"), ("beta", "alpha")), strict=True):
        check(model.api.requests[name], sample.messages)
        assert len(model.api.requests[name]) == 31
        assert not any(other in message.text for sent in model.api.requests[name] for message in sent)


def test_a_model_recalls_what_was_folded(tmp_path: Path) -> None:
    """B44: the recall tool, called by the model in inspect_ai's way, brings back a folded result."""
    asked = ToolCall("r1", "recall", {"query": "src/a0.py"})
    [sample] = run(model_of(steps=30, last=[asked]), InfoldCompaction(window=WINDOW), tmp_path)

    answer = next(message for message in sample.messages if getattr(message, "tool_call_id", "") == "r1")
    assert "src/a0.py: all went well" in answer.text


def steps(first: int, number: int) -> list[Any]:
    calls = [ToolCall(f"c{n}", "read_file", {"path": f"src/{n}.py"}) for n in range(first, first + number)]
    return [
        message
        for call in calls
        for message in (
            ChatMessageAssistant(content="", tool_calls=[call]),
            ChatMessageTool(content=f"{call.arguments['path']}: all went well\n" * 60, tool_call_id=call.id),
        )
    ]


def test_a_forced_compaction_shrinks_a_short_history() -> None:
    """B44: each call returns fewer tokens than it was given, far below the window too, in one session of the store."""
    infold = InfoldCompaction(window=100_000)
    given = [ChatMessageSystem(content="Be careful."), ChatMessageUser(content=RULE), *steps(0, 30)]

    async def again() -> list[list[Any]]:
        lists = [given]
        for round_ in range(1, 4):
            sent, _ = await infold.compact(model_of(), lists[-1], [])
            lists += [sent, [*sent, *steps(30 * round_, 30)]]
        return lists

    lists = asyncio.run(again())
    for before, after in zip(lists[::2], lists[1::2], strict=False):
        assert tokens(after) < tokens(before)
        own = {id(message) for message in before}
        assert sum(id(message) not in own for message in after) <= 1
        assert after[0] is given[0]
        assert sum("[Earlier conversation" in message.text for message in after) == 1
        assert RULE in after[1].text
    assert any(True for _ in infold.sessions.store.newest_first(SessionKey("", SessionId(str(given[1].id)))))


def test_calls_that_were_not_parsed_keep_their_answers() -> None:
    """B44: a call that inspect_ai could not parse is a call; an error without text is its result."""
    call = ToolCall("x1", "read_file", {}, parse_error="not JSON")
    answer = ChatMessageTool(content="", tool_call_id="x1", error=ToolCallError("parsing", "not JSON"))

    assert _to_chat(ChatMessageAssistant(content="", tool_calls=[call]))["tool_calls"][0]["id"] == "x1"
    assert _to_chat(answer)["content"] == "not JSON"
    pruned = _build("one", {}, {"role": "tool", "tool_call_id": "x1", "content": "[pruned]"}, answer)
    assert (pruned.text, pruned.error, pruned.id) == ("[pruned]", None, answer.id)


def test_a_reply_keeps_its_reasoning_when_its_arguments_are_cut() -> None:
    """B44: where only arguments changed, the content stays; a call that is left out is left out of the copy."""
    calls = [ToolCall(f"x{n}", "write", {"text": "long " * 99}) for n in range(2)]
    content = [
        ContentReasoning(reasoning="Why not."),
        ContentText(text="Fine."),
        ContentImage(image="data:image/png;base64,AA=="),
    ]
    given = ChatMessageAssistant(content=content, tool_calls=calls)
    item = _to_chat(given)
    short = {**item["tool_calls"][0], "function": {"name": "write", "arguments": '{"text": "long"}'}}
    built = _build("one", {}, {**item, "tool_calls": [short]}, given)

    assert built.content is given.content
    assert [(call.id, call.arguments) for call in built.tool_calls] == [("x0", {"text": "long"})]


def test_a_wrong_option_is_named() -> None:
    """B44: an option that no adapter has is refused with the known ones."""
    with pytest.raises(UsageError, match="windw"):
        InfoldCompaction(windw=3)  # type: ignore[call-arg]


@tool
def read_secret() -> Tool:
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: The path.
        """
        return f"{path}: secret-{sample_state().metadata['name']} is written here\n" * 120

    return execute


class Secretive(Script):
    """Reads files and recalls, for each sample by itself."""

    def __init__(self, model_name: str = "secretive", *_: Any, **__: Any) -> None:
        super().__init__(model_name)

    async def generate(self, input: list[Any], tools: Any, tool_choice: Any, config: Any) -> ModelOutput:  # noqa: A002, ARG002
        state: Any = sample_state()
        seen = self.requests.setdefault(state.metadata["name"], [])
        seen.append(list(input))
        n = len(seen) - 1
        queries = ("secret", "src/a3.py", "1.0, 2.0, 4.0")
        if n < 14:
            call = ToolCall(id=f"a{n}", function="read_secret", arguments={"path": f"src/a{n}.py"})
        elif n < 17:
            call = ToolCall(id=f"r{n - 14}", function="recall", arguments={"query": queries[n - 14]})
        else:
            call = ToolCall("s", "submit", {"answer": "Done."})
        output = ModelOutput.from_content("secretive", "")
        output.choices[0].message.tool_calls = [call]
        output.choices[0].stop_reason = "tool_calls"
        return output


@modelapi(name="secretive")
def secretive_api() -> type[Secretive]:
    return Secretive


def test_samples_that_begin_alike_recall_their_own(tmp_path: Path) -> None:
    """B44: the samples of an evaluation, which run at once with the same first words, are never shown each other's text."""
    infold, names = InfoldCompaction(window=WINDOW), ("anna", "bert", "carl")
    model = get_model("secretive/model", memoize=False)
    first = [ChatMessageUser(content="Hello")]
    task = Task(
        dataset=[Sample(input=list(first), metadata={"name": name}) for name in names],
        solver=react(tools=[read_secret(), infold.recall_tool()], compaction=infold),
    )
    [log] = eval(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    for sample in log.samples or ():
        name = sample.metadata["name"]
        others = [f"secret-{other}" for other in names if other != name]
        shown = [message.text for sent in model.api.requests[name] for message in sent]
        texts = [*shown, *(message.text for message in sample.messages)]
        assert not any(other in text for other in others for text in texts)
        answers = {getattr(message, "tool_call_id", ""): message.text for message in sample.messages}
        assert all(f"secret-{name}" in answers[f"r{n}"] for n in range(3))


@pytest.mark.usefixtures("only_folds")
def test_a_tool_named_recall_is_left_alone() -> None:
    """B44: an agent's own tool called recall is not taken for infold's, which may be given another name."""
    infold = InfoldCompaction(window=WINDOW, recall_name="infold_recall")
    given = [ChatMessageUser(content=RULE), *steps(0, 30)]
    own = ToolInfo(name="recall", description="Recall a fact of the company.", parameters=ToolParams())
    definition = ToolDef(infold.recall_tool())
    ours = ToolInfo(name=definition.name, description=definition.description, parameters=definition.parameters)

    without, _ = asyncio.run(infold.compact(model_of(), given, [own]))
    offered, _ = asyncio.run(infold.compact(model_of(), [*given, *steps(30, 1)], [own, ours]))
    assert "recall" not in without[0].text
    assert (
        "with the infold_recall tool"
        in asyncio.run(
            InfoldCompaction(window=WINDOW, recall_name="infold_recall").compact(model_of(), given, [own, ours])
        )[0][0].text
    )
    assert offered
