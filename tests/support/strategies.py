"""Hypothesis strategies for whole sessions: what agents really produce, and what they should not but do."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.entries import Title
from infold.core.gauge import PlanInputs, Rates
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Finish,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    ResultStatus,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.policy import INFOLD, PRESETS, Policy

_WORDS = (
    "The build fails in module parser at line 42. ",
    "def handle(request): return Response(status=200)\n",
    '{"path": "src/app.py", "count": 17, "ok": true}, ',
    "2026-03-01T12:00:00Z ERROR worker-3 timeout after 30s id=8f3a\n",
    "数据库连接失败，请检查配置文件。",
    "テストを必ず実行してください。",
    "반드시 테스트를 실행하세요. ",
    "Never touch the vendor folder. ",
    "🙂 ünïcödé ",
)

texts: SearchStrategy[str] = st.builds(
    lambda word, times: word * times, st.sampled_from(_WORDS), st.sampled_from((1, 2, 5, 20, 80, 400, 3_000))
)
"""From a few words to tens of thousands of tokens, in several scripts."""

short_texts: SearchStrategy[str] = st.builds(
    lambda word, times: word * times, st.sampled_from(_WORDS), st.integers(1, 4)
)

_SEAL = '{"signature":"c2VhbA=="}'


@st.composite
def _user(draw: st.DrawFn) -> list[Message]:
    parts: list[Part] = [
        TextPart(draw(st.one_of(short_texts, texts)), synthetic=draw(st.sampled_from((False, False, True))))
    ]
    if draw(st.integers(0, 9)) == 0:
        parts.append(FilePart("image/png", draw(st.sampled_from((85, 1_600, 25_000))), name="shot.png"))
    return [UserMessage(MessageId(""), tuple(parts))]


@st.composite
def _reply(draw: st.DrawFn) -> list[Message]:
    finish: Finish = draw(st.sampled_from(("stop", "stop", "stop", "length")))
    return [AssistantMessage(MessageId(""), (TextPart(draw(st.one_of(short_texts, texts))),), finish=finish)]


@st.composite
def _step(draw: st.DrawFn) -> list[Message]:
    """A step: one to three calls at once, most of them answered, in one message or several, sometimes too late."""
    parts: list[Part] = []
    if draw(st.integers(0, 3)) == 0:
        parts.append(ReasoningPart(draw(short_texts), _SEAL if draw(st.booleans()) else ""))
    tools = draw(st.lists(st.sampled_from(("bash", "read", "write", "skill")), min_size=1, max_size=3))
    for tool in tools:
        content = draw(st.one_of(short_texts, texts))
        parts.append(ToolCallPart("", tool, '{"path":"a.py","content":' + _quoted(content) + "}"))
    answers: list[Message] = []
    for position in range(len(tools)):
        if draw(st.integers(0, 11)) > 0:
            status: ResultStatus = draw(st.sampled_from(("completed", "completed", "completed", "error")))
            result = ToolResultPart(f"#{position}", tools[position], draw(texts), status)
            answers.append(ToolMessage(MessageId(""), (result,)))
    late = draw(st.integers(0, 14)) == 0 and len(answers) > 1
    spoken: list[Message] = [UserMessage(MessageId(""), (TextPart(draw(short_texts)),))] if late else []
    if late:
        answers = [*answers[:-1], *spoken, answers[-1]]
    return [AssistantMessage(MessageId(""), tuple(parts), finish="tool-calls"), *answers]


_system = st.builds(lambda text: [SystemMessage(MessageId(""), (TextPart(text, synthetic=True),))], short_texts)


@st.composite
def histories(draw: st.DrawFn, max_blocks: int = 14) -> tuple[Message, ...]:
    """A session's messages with ids and pairs given: none at all, one giant message, long tool loops, and all between."""
    blocks = draw(
        st.lists(st.one_of(_user(), _user(), _reply(), _step(), _step(), _step(), _system), max_size=max_blocks)
    )
    messages: list[Message] = []
    for block in blocks:
        messages += _named(block, len(messages))
    return tuple(messages)


titles: SearchStrategy[Title] = st.builds(Title, short_texts, st.sampled_from((MessageId(""), MessageId("m0"))))
"""Titles of the session and of a message, there or not."""

policies: SearchStrategy[Policy] = st.sampled_from(tuple(PRESETS.values()))

windows: SearchStrategy[Window] = st.sampled_from(
    (
        Window(4_096),
        Window(8_192, output_tokens=1_024),
        Window(32_000),
        Window(64_000),
        Window(200_000, output_tokens=32_000),
    )
)


@st.composite
def situations(draw: st.DrawFn) -> PlanInputs:
    """Any preset at any window, with some system prompt and tools."""
    policy = draw(policies)
    return PlanInputs(policy, budget_for(draw(windows), policy), draw(st.sampled_from((0, 300, 1_500))))


@st.composite
def infold_situations(draw: st.DrawFn) -> PlanInputs:
    """infold's own policy at any window, with some system prompt and tools and several families' bounds."""
    bound = draw(st.sampled_from((1.0, 1.17, 1.65)))
    rates = draw(st.sampled_from((None, Rates(fresh=1.25, cached=0.1), Rates(fresh=1.0, cached=1.0))))
    overhead = draw(st.sampled_from((0, 300, 1_500)))
    return PlanInputs(INFOLD, budget_for(draw(windows), INFOLD), overhead, bound, rates=rates)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _named(block: list[Message], offset: int) -> list[Message]:
    """Give a block's messages their ids, and its calls and results a common call id."""
    named: list[Message] = []
    for position, message in enumerate(block):
        parts = tuple(
            replace(part, call_id=f"call-{offset}-{_call_index(message, index)}") if isinstance(part, ToolCallPart)
            else replace(part, call_id=f"call-{offset}-{part.call_id[1:]}") if isinstance(part, ToolResultPart)
            else part
            for index, part in enumerate(message.parts)
        )  # fmt: skip
        named.append(replace(message, id=MessageId(f"m{offset + position}"), parts=parts))
    return named


def _call_index(message: Message, index: int) -> int:
    return sum(isinstance(part, ToolCallPart) for part in message.parts[:index])
