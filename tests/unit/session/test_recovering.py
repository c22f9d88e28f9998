"""Where a refusal is recovered, the expected size decides; and a history that arrives complete is folded once."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold import Session, SessionSettings, open_store
from infold.catalogue import lookup
from infold.core.events import Compacted, Event, Pruned, Rejected
from infold.core.policy import INFOLD
from infold.core.summary_request import SummaryRequest
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure_message
from infold.formats.registry import OPENAI_CHAT
from infold.formats.requests import Unmanaged, is_truncating_host, requests_truncation
from infold.proxy.request import parse_request
from infold.proxy.sessions import settings_for
from infold.session.counting import counting_for

Item = dict[str, Any]

WINDOW, OUTPUT = 20_000, 3_000
USABLE = WINDOW - OUTPUT
UNPRICED = replace(INFOLD, priced="never")
LINE = "Anna 123 of Husum, 44 m, berth 3, leaves at 12:15\n"
SUMMARY = (
    "The harbours read so far were counted one by one from their files; the next file is to be read, then the sum told."
)
TOLD = "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens."
UNTOLD = "prompt exceeds max length"


def step(number: int) -> list[Item]:
    """A call and its result, of some 450 tokens."""
    call = {"name": "shell", "arguments": json.dumps({"command": f"cat harbour_{number}.txt"})}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"file {number}\n" + LINE * 20},
    ]


def history(steps: int) -> list[Item]:
    """A task, so many steps, and a word to go on."""
    task = {"role": "user", "content": "Count the ships. Never guess."}
    return [task, *(item for n in range(steps) for item in step(n)), {"role": "user", "content": "Go on."}]


def settings(model: str = "my-deployment", **given: Any) -> SessionSettings:
    """A session in a window of 20,000 whose caller recovers."""
    return replace(SessionSettings(model=model, window=WINDOW, recovers=True, summariser=lambda _: SUMMARY), **given)


def sizes(model: str, factor: float) -> Callable[[list[Item]], int]:
    """How a provider counts that has so many tokens for each that is expected of the model's family."""
    ruler = counting_for(lookup(model).entry.family).ruler

    def count(items: list[Item]) -> int:
        messages = OPENAI_CHAT.decode(items).messages
        return int(sum(MESSAGE_OVERHEAD_TOKENS + sum(measure_message(m, ruler)) for m in messages) * factor)

    return count


class Played:
    """A loop that grows by a step at a time, against a provider that refuses, and all that happened in it."""

    def __init__(self, model: str, factor: float, words: str, steps: int, **given: Any) -> None:
        self.events: list[Event] = []
        self.refusals: list[int] = []
        self.sent: list[int] = []
        count = sizes(model, factor)
        with open_store("memory") as store:
            session = Session(store, "s", settings(model, on_event=self.events.append, **given))
            items = history(0)
            for number in range(steps):
                ready = session.prepare(items, output_tokens=OUTPUT).messages
                if count(ready) > USABLE:
                    self.refusals.append(count(ready))
                    message = words.format(window=WINDOW, tokens=count(ready))
                    smaller = session.recover({"error": {"message": message, "code": "context_length_exceeded"}})
                    assert smaller is not None
                    ready = smaller.messages
                assert count(ready) <= USABLE, "a second refusal of one request"
                self.sent.append(count(ready))
                call, result = step(number)
                session.record({"choices": [{"message": call, "finish_reason": "tool_calls"}]})
                items += [call, result]

    def first_fill(self) -> float:
        """The provider's count of the fullest request before room was first made, as a part of the usable window."""
        drop = next(n for n in range(1, len(self.sent)) if self.sent[n] < self.sent[n - 1])
        return self.sent[drop - 1] / USABLE


@pytest.mark.long
@pytest.mark.parametrize("words", [TOLD, UNTOLD], ids=["told", "untold"])
@pytest.mark.parametrize("factor", [0.9, 1.0, 1.15, 1.3])
@pytest.mark.parametrize("model", ["my-deployment", "claude-sonnet-4-5", "gpt-5"])
def test_the_window_is_filled_and_refused_once_at_most(model: str, factor: float, words: str) -> None:
    """B34, B8: without any reported usage room is first made at 80–100 %, and a session is refused once at most."""
    played = Played(model, factor, words, steps=130, policy=UNPRICED)

    assert 0.8 <= played.first_fill() <= 1.0
    assert len(played.refusals) <= 1
    assert len(played.refusals) == sum(isinstance(event, Rejected) for event in played.events)
    assert sum(isinstance(event, Compacted | Pruned) for event in played.events) >= 2


def test_a_refusal_folds_no_deeper_than_the_trigger() -> None:
    """B7, B34: what is left after a recovered refusal is what an ordinary compaction leaves, within a tenth of the window."""
    refused, ordinary = (Played("my-deployment", factor, TOLD, steps=60) for factor in (1.3, 1.0))
    left = [min(played.sent[20:]) / USABLE for played in (refused, ordinary)]

    assert refused.refusals
    assert not ordinary.refusals
    assert left[0] == pytest.approx(left[1], abs=0.1)


def test_a_session_that_does_not_recover_keeps_the_margin() -> None:
    """B8, B34: without the promise to recover, the most a request can be stays within the window."""
    careful = Played("my-deployment", 1.9, TOLD, steps=40, recovers=None)

    assert careful.refusals == []


# A history that arrives complete.


class Counted:
    """A summariser that counts how often it is asked, and for how much."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, request: SummaryRequest) -> str:
        """A summary of anything."""
        self.asked.append(sum(len(part.text) for part in request.messages[-1].parts if hasattr(part, "text")))
        return SUMMARY


@pytest.mark.parametrize("model", ["my-deployment", "claude-sonnet-4-5", "gpt-5"])
@pytest.mark.parametrize(("steps", "pieces"), [(45, 2), (140, 5)])
def test_a_complete_history_is_folded_once(model: str, steps: int, pieces: int) -> None:
    """B34: one compaction with one summary, asked for in no more pieces than the summariser's window requires."""
    events, summariser = list[Event](), Counted()
    with open_store("memory") as store:
        session = Session(store, "s", settings(model, policy=FOLDS, summariser=summariser, on_event=events.append))
        ready = session.prepare(history(steps), output_tokens=OUTPUT)
        tail = [placed for placed in session.log.live if placed.calls]

    assert [type(event) for event in events if not isinstance(event, Compacted)] == []
    assert len(events) == 1
    assert len(summariser.asked) <= pieces * (2 if model.startswith("claude") else 1)
    assert 0.25 * USABLE < sizes(model, 1.0)(ready.messages) < 0.5 * USABLE
    assert len(tail) >= 4


@pytest.mark.parametrize("model", ["my-deployment", "claude-sonnet-4-5", "gpt-5"])
@pytest.mark.parametrize(("steps", "kind"), [(45, Pruned), (200, Compacted)])
def test_a_complete_history_is_pruned_or_folded(model: str, steps: int, kind: type[Event]) -> None:
    """B34: one act makes the room, stubs where they are enough, a fold where calls and stubs alone would fill the window."""
    with open_store("memory") as store:
        ready = Session(store, "s", settings(model)).prepare(history(steps), output_tokens=OUTPUT)

    assert [type(event) for event in ready.events] == [kind]
    assert ready.gauge.count_tokens < 0.6 * USABLE


def test_a_summariser_with_room_is_asked_once() -> None:
    """B34: a summariser whose window holds the whole head gets it in one piece, though the session's own does not."""
    summariser = Counted()
    with open_store("memory") as store:
        session = Session(store, "s", settings(policy=FOLDS, summariser=summariser, summariser_tokens=200_000))
        session.prepare(history(140))

    assert len(summariser.asked) == 1


def test_a_history_below_the_trigger_is_left_alone() -> None:
    """B34: at 85 % of the usable window a complete history of a model that nobody knows goes out as it came."""
    items = history(30)
    while sizes("my-deployment", 1.0)(items) < 0.85 * USABLE:
        items[-1:-1] = step(len(items))
    with open_store("memory") as store:
        ready = Session(store, "s", settings()).prepare(items, output_tokens=OUTPUT)

    assert ready.messages == items
    assert ready.events == ()


# Who refuses, and who truncates.


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:11434", True),
        ("127.0.0.1:1234", True),
        ("ollama:8080", True),
        ("my-ollama.internal", True),
        ("lmstudio.local", True),
        ("api.z.ai", True),
        ("z.ai", True),
        ("open.bigmodel.cn", True),
        ("api.quiz.ai", False),
        ("api.openai.com", False),
        ("localhost:8080", False),
        ("127.0.0.1:12345", False),
        ("", False),
    ],
)
def test_servers_that_truncate_are_known(host: str, expected: bool) -> None:
    """B8: a server that drops what is too large instead of refusing it is told by its name or its port."""
    assert is_truncating_host(host) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"truncation": "auto"}, True),
        ({"truncation": "disabled"}, False),
        ({"transforms": ["middle-out"]}, True),
        ({"transforms": []}, False),
        ({"transforms": "middle-out"}, False),
        ({"truncate_prompt_tokens": -1}, True),
        ({}, False),
    ],
)
def test_requests_that_ask_to_be_truncated_are_known(fields: Item, expected: bool) -> None:
    """B8: Responses, OpenRouter and vLLM shorten what is too large where a request asks for it."""
    assert requests_truncation(fields) is expected


def asked(host: str, **fields: Any) -> Iterator[bool | None]:
    """Whether the session of such a request decides by the expected size, by each of the three settings."""
    body = json.dumps({"model": "gpt-5", "input": [{"role": "user", "content": "hi"}], **fields}).encode()
    exchange = parse_request("/v1/responses", {}, body, host=host)
    assert not isinstance(exchange, Unmanaged)
    for given in (None, True, False):
        yield settings_for(SessionSettings(recovers=given), exchange.asked).recovers


def test_whoever_relays_decides_by_the_server() -> None:
    """B8, B34: the wrap and the gateway recover; a server that truncates keeps the margin, unless settings say otherwise."""
    assert list(asked("api.openai.com")) == [True, True, False]
    assert list(asked("localhost:11434")) == [False, True, False]
    assert list(asked("api.openai.com", truncation="auto")) == [False, True, False]


def test_a_documents_preset_keeps_the_margin() -> None:
    """S1.0: under a document's preset the safety step stays as it was, whoever recovers."""
    assert SessionSettings(window=WINDOW, recovers=True).resolve().recovers
    assert not SessionSettings(window=WINDOW, recovers=True, policy="opencode-1.18").resolve().recovers
    assert not SessionSettings(window=WINDOW).resolve().recovers


def test_a_stated_window_leaves_room_for_the_reply_that_is_asked_for() -> None:
    """B8: a window that settings state is held to less by a request that asks for a long reply, as a model's own is."""
    with open_store("memory") as store:
        session = Session(store, "s", settings(policy=replace(INFOLD, window_tokens=WINDOW)))
        session.prepare(history(1), output_tokens=8_000)

        assert session.limit_tokens == WINDOW - 4_096


UNREADABLE = {
    "error": {"message": "The encrypted content gAAA could not be verified.", "code": "invalid_encrypted_content"}
}


def test_reasoning_of_another_account_is_left_out() -> None:
    """B32: reasoning that OpenAI cannot read is removed and the request sent again; what is reasoned later is kept."""
    session = Session(open_store("memory"), "s", SessionSettings(window=WINDOW, format="openai-responses"))
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "shell", "arguments": "{}"}
    items: list[Item] = [
        {"role": "user", "content": "Count the ships."},
        thought,
        call,
        {"type": "function_call_output", "call_id": "c1", "output": "44"},
    ]
    assert session.prepare(items).messages == items
    again = session.recover(UNREADABLE)
    assert again is not None
    assert again.messages == [item for item in items if item is not thought]
    assert session.recover({"error": {"message": "Item 'rs_1' of type 'reasoning' was provided without."}}) is None

    later = {**thought, "id": "rs_2"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "44"}]}
    session.record({"output": [later, said], "status": "completed"})
    ready = session.prepare([*items, later, said, {"role": "user", "content": "Again."}])
    assert thought not in ready.messages
    assert later in ready.messages
    assert not any(isinstance(event, Rejected) for event in ready.events)


def test_reasoning_that_is_refused_again_is_the_callers() -> None:
    """B32: where nothing is left to remove, the provider's refusal is the caller's to see."""
    session = Session(open_store("memory"), "s", SessionSettings(window=WINDOW, format="openai-responses"))
    session.prepare([{"role": "user", "content": "Count the ships."}])
    assert session.recover(UNREADABLE) is None
