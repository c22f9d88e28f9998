"""I13: an estimate may act earlier than a report, never against it; media are no text; a window's source is told."""

from base64 import b64encode
from typing import Any

import msgspec
import pytest
from tests.support.coding_session import coding_session
from tests.support.play import play

from infold import fit
from infold.core.compact import compact
from infold.core.entries import Clip, Clipping, Handle
from infold.core.gauge import gauge
from infold.core.log import Log
from infold.core.messages import Message, Usage
from infold.core.tokens import estimate_tokens
from infold.formats.registry import ANTHROPIC_MESSAGES, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, log_of, numbered, replies, result, user
from infold.testing.script import count_tokens

from .scenes import infold_at

MEGABYTE = b64encode(
    b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR\x00\x00\x04\x00\x00\x00\x03\x00" + b"\x07" * 1_000_000
).decode()
"""A picture of 1,024 by 768 pixels in a megabyte; as text it would be some hundred thousand tokens."""

MOST_A_PICTURE_COSTS = 5_000


def said(words: int) -> str:
    """Text of about one token a word."""
    return "all is well here now " * (words // 5)


def reported(prompt_tokens: int, *, since: str = "") -> Log:
    """A log of 40,000 tokens whose last reply reported so many, with something said after it."""
    turns: list[Message] = [draft for _ in range(10) for draft in (user("go on"), replies(said(4_000)))]
    heard: list[Message] = [
        user("more"),
        replies("so", usage=Usage(input=prompt_tokens, output=10)),
        user(since or "and?"),
    ]
    return log_of(numbered([*turns, *heard]))


@pytest.mark.parametrize(
    ("prompt_tokens", "acts"),
    [(41_000, False), (95_000, False), (107_000, True), (120_000, True), (200_000, True)],
)
def test_i13_a_report_is_believed_over_the_estimate(prompt_tokens: int, acts: bool) -> None:
    """S7.2, B15: what a provider counted decides, however little our own count of the same messages is."""
    inputs = infold_at(128_000)
    compaction = compact(reported(prompt_tokens), inputs)

    assert gauge(reported(prompt_tokens), inputs).count_tokens > prompt_tokens
    assert bool(compaction.steps) is acts


def test_i13_what_came_since_is_added_to_the_report() -> None:
    """B8: a low report does not hide a large message that followed it."""
    inputs = infold_at(128_000)
    small, large = reported(41_000), reported(41_000, since=said(80_000))

    assert gauge(large, inputs).count_tokens - gauge(small, inputs).count_tokens > 70_000
    assert compact(small, inputs).steps == ()
    assert compact(large, inputs).steps != ()


def test_i13_a_small_clip_does_not_undo_a_report() -> None:
    """S7.2, B8: once a little was hidden, what a provider counted is still believed, less what that little was."""
    step: list[Message] = [user("go on"), calls("bash"), result(output=said(4_000)), replies("ok")]
    heard: list[Message] = [user("more"), replies("so", usage=Usage(input=107_000, output=10)), user("and?")]
    log = log_of(numbered([*step * 10, *heard]))
    clipped = log.append(Clipping((Clip(Handle("2.0"), 1_000, 1_000),)))

    assert gauge(log, infold_at(128_000)).count_tokens > 107_000
    assert 100_000 < gauge(clipped, infold_at(128_000)).count_tokens < 107_000
    assert 100_000 < gauge(clipped, infold_at(128_000)).upper_tokens < 107_000


def test_i13_without_any_report_the_estimate_acts() -> None:
    """B8: a provider that never reports usage is never sent more than the window holds."""
    inputs = infold_at(32_768)
    acted = 0
    for request in play(log_of(()), coding_session(turns=12, largest_result_tokens=2_000), inputs):
        acted += bool(request.compaction.steps)
        assert gauge(request.compaction.log, inputs).count_tokens > 0.8 * count_tokens(request.request)
        assert gauge(request.compaction.log, inputs).upper_tokens <= inputs.budget.limit_tokens

    assert acted >= 2


def test_i13_a_report_of_nothing_is_no_report() -> None:
    """S1.3: a usage of zeros, as some servers send it, does not make a full window look empty."""
    turns = [draft for _ in range(10) for draft in (user("go on"), replies(said(4_000)))]
    log = log_of(numbered([*turns, user("more"), replies("so", usage=Usage()), user("and?")]))

    assert log.baseline is None
    assert compact(log, infold_at(32_768)).steps != ()


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5", None])
@pytest.mark.parametrize("told", ["half", "uncached"])
def test_i13_a_report_that_cannot_be_is_not_believed(told: str, model: str | None) -> None:
    """B8: a provider that reports half, or leaves out what it read from its cache, is sent no more than it takes."""
    session = Session(MemoryStore(), "s", SessionSettings(model=model, window=16_000))
    new: list[Any] = [{"role": "user", "content": "Port the feed."}]
    before = 0
    for number in range(60):
        sent = session.prepare_new(new).messages
        tokens = estimate_tokens(msgspec.json.encode(sent).decode())
        assert tokens < 16_000
        reply = {"choices": [{"message": asked_for(number), "finish_reason": "tool_calls"}]}
        prompt_tokens = tokens // 2 if told == "half" else max(1, tokens - before)
        session.record({**reply, "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 30}})
        new = [{"role": "tool", "tool_call_id": f"c{number}", "content": f"step {number} did well, as seen\n" * 60}]
        before = tokens


def asked_for(number: int) -> dict[str, Any]:
    """A reply that calls a tool."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "edit", "arguments": '{"path": "a.py"}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def pictures(wire: WireFormat) -> list[Any]:
    """A picture in a question and one in a tool's answer, as that provider has them."""
    url = f"data:image/png;base64,{MEGABYTE}"
    source = {"type": "base64", "media_type": "image/png", "data": MEGABYTE}
    inline = {"inlineData": {"mimeType": "image/png", "data": MEGABYTE}}
    call = written_call(wire)
    match wire.name:
        case "openai-chat":
            shown = [{"type": "image_url", "image_url": {"url": url}}]
            asked = {"role": "user", "content": [{"type": "text", "text": "Look."}, *shown]}
            return [asked, *call, {"role": "tool", "tool_call_id": "m0-call0", "content": shown}]
        case "openai-responses":
            picture = {"type": "input_image", "image_url": url, "detail": "auto"}
            asked = {"role": "user", "content": [{"type": "input_text", "text": "Look."}, picture]}
            return [asked, *call, {"type": "function_call_output", "call_id": "m0-call0", "output": [picture]}]
        case "anthropic-messages":
            block = {"type": "image", "source": source}
            asked = {"role": "user", "content": [{"type": "text", "text": "Look."}, block]}
            answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": "m0-call0", "content": [block]}
            return [asked, *call, {"role": "user", "content": [answer]}]
        case _:
            answer = {"id": "m0-call0", "name": "bash", "response": {"output": "see"}, "parts": [inline]}
            return [
                {"role": "user", "parts": [{"text": "Look."}, inline]},
                *call,
                {"role": "user", "parts": [{"functionResponse": answer}]},
            ]


def written_call(wire: WireFormat) -> list[Any]:
    """One call, as that provider has it."""
    return list(wire.encode_new(numbered([calls("bash"), result()])[0]))


@pytest.mark.parametrize(
    "wire", [OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC_MESSAGES, GEMINI], ids=lambda wire: wire.name
)
def test_i13_base64_is_never_counted_as_text(wire: WireFormat) -> None:
    """B8: a picture of a megabyte costs what a picture costs, in a question and inside a tool's answer."""
    fitted = fit(pictures(wire), window=32_768, format=wire.name)

    assert 2 * 200 < fitted.report.tokens_after < 2 * MOST_A_PICTURE_COSTS
    assert not fitted.report.changed


@pytest.mark.parametrize(
    ("model", "words"), [("a-model-nobody-knows", "window: "), ("gpt-4o", "")], ids=["assumed", "known"]
)
def test_i13_the_windows_source_is_told(model: str, words: str) -> None:
    """B11: a window that is only assumed is said to be so, with what to do about it; a known one comes from the catalogue."""
    report = fit([{"role": "user", "content": "hi"}], model=model).report

    assert report.model is not None
    assert report.model.entry.context_tokens > 0
    assert (words in report.explain()) is bool(words) or not words
    assert type(report.model).__name__ == ("Assumed" if words else "Known")


def test_i13_an_unknown_window_is_not_endless() -> None:
    """S1.2, B11: a model nobody knows gets a cautious window, not none at all."""
    items = [{"role": "user", "content": said(4_000)} for _ in range(100)]
    fitted = fit(items, model="a-model-nobody-knows")

    assert fitted.report.budget.bounded
    assert fitted.report.upper_tokens <= fitted.report.budget.limit_tokens
