"""What the report says was done, and why."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from infold import Fitted, WindowExceeded, fit
from infold.catalogue import Prices
from infold.core.events import Compacted
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.session.report import CATEGORIES, cost_of, describe_event, tokens_by_category

WINDOW = 4_096
CHECKPOINT_FRAME = 4
"""The frame of the message a fold stands in, which the log's own sum leaves out."""
LONG = "The ferry from the old quay is late when its berth is taken by another one. " * 40
LOG = "09:14 INFO ferry.store: route 17 is late in 42 ms\n" * 130


def test_remarks_of_the_judge_are_counted() -> None:
    """B37: the line of a compaction says how many sentences of its summary were marked, corrected or removed."""
    plain = Compacted("s", 4, 900, 100, "trigger")

    assert describe_event(plain).endswith("because the trigger was reached")
    assert describe_event(replace(plain, marked=2, removed=1)).endswith(
        "; sentences of the summary: 2 marked, 1 removed"
    )


def turn(number: int, *, shown: str = "ok", told: str = "Done.") -> list[Any]:
    """A chat turn with one tool result."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"Now part {number}. Never skip the tests."},
        {"role": "assistant", "content": "Running.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": shown},
        {"role": "assistant", "content": told},
    ]


def history(turns: int = 8) -> list[Any]:
    """Turns of about eight hundred tokens each, nearly all of them the model's own words: nothing to prune."""
    return [item for number in range(turns) for item in turn(number, told=LONG)]


def prunable(turns: int = 30) -> list[Any]:
    """One large result at the beginning, and many small turns after it: pruning it is enough."""
    return [item for number in range(turns) for item in turn(number, shown="ok" if number else LOG)]


def fitted(turns: int = 8, **options: Any) -> Fitted:
    """A chat history folded to fit a small window."""
    return fit(history(turns), window=WINDOW, **options)


def stub_handles(messages: list[object]) -> list[str]:
    """The handles that stubs name, in order."""
    return re.findall(r"; recall (\d+\.\d+)\]", "\n".join(str(message) for message in messages))


# What left.


def test_nothing_left_where_nothing_changed() -> None:
    """A history that fits is reported as it is."""
    report = fit(history(1), window=WINDOW).report

    assert (report.changed, report.left, report.events) == (False, (), ())
    assert report.tokens_before == report.tokens_after
    assert report.before == report.after
    assert "nothing was changed: it fits as it is" in report.explain()


EMPTY = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "x"}]


@pytest.mark.parametrize("blank", ["", " \n", None, []])
def test_an_empty_message_that_is_left_out_is_told(blank: object) -> None:
    """B12, B30: it goes out as it came while all fits; where a result was pruned it is left out, and the report says so."""
    messages = [EMPTY[0], {"role": "assistant", "content": blank}, EMPTY[2]]
    sent, report = fit(messages, window=WINDOW)
    later = fit([*messages, *prunable()], window=WINDOW).report

    assert sent == messages
    assert not report.changed
    assert "empty message" in [left.what for left in later.left]
    assert "empty message left out" in later.explain()


def test_a_call_that_is_answered_as_interrupted_is_told() -> None:
    """B12: a result that infold adds is a change, and nothing has left."""
    report = fit([*turn(0)[:2], {"role": "user", "content": "never mind"}], window=WINDOW).report

    assert (report.changed, report.left) == (True, ())
    assert "mended: 1 call without a result answered as interrupted" in report.explain()


def test_a_history_played_on_is_not_called_changed() -> None:
    """What was decoded anew is the same history, though not the same objects."""
    assert not fit(turn(0), window=WINDOW).report.changed
    assert not fit([*turn(0), *turn(1)], window=WINDOW).report.changed


def test_a_window_without_limit_is_told_in_words() -> None:
    """S1.2: nobody reads that something is of 0 tokens."""
    report = fit(history(), window=0).report

    assert not report.changed
    assert "of a window without limit" in report.explain()


def test_stubs_and_report_name_the_same_handles() -> None:
    """B6: what pruning hid is in the report under the very handles that stand in the stubs."""
    pruned = fit(prunable(), window=WINDOW, recall=True)

    assert {type(event).__name__ for event in pruned.report.events} == {"Pruned"}
    assert [part.handle for part in pruned.report.left] == stub_handles(pruned.messages) != []


def test_handles_in_a_fold_are_in_the_report() -> None:
    """B6: every handle that a folded text names is that of a part that left."""
    folded = fitted(recall=True)
    named = set(re.findall(r"\[(\d+\.\d+)\]", str(folded.messages[0])))

    assert named
    assert named <= {part.handle for part in folded.report.left}


def test_what_left_is_told_by_place_kind_and_size() -> None:
    """Each thing that left has its index in the caller's list, what it is, and its tokens."""
    messages = history(8)
    report = fit(messages, window=WINDOW).report

    assert [messages[part.index]["role"] for part in report.left[:4]] == ["user", "assistant", "assistant", "tool"]
    assert [part.what for part in report.left[:4]] == ["text", "text", "bash call", "bash result"]
    assert report.left[4].tokens > 500
    assert report.tokens_before - sum(part.tokens for part in report.left) < report.tokens_after


def test_indices_count_the_head_system_messages() -> None:
    """An index is one of the caller's list, instructions at its head included."""
    messages = [{"role": "system", "content": "Be brief."}, *history(8)]
    report = fit(messages, window=WINDOW).report

    assert report.left[0].index == 1
    assert all(messages[part.index]["role"] != "system" for part in report.left)


# By category.


def message_parts() -> tuple[Message, ...]:
    """One message of each kind, with a part of each kind."""
    said, injected = TextPart("hello there"), TextPart("a reminder", synthetic=True)
    return (
        SystemMessage(MessageId("m0"), (TextPart("be brief"),)),
        UserMessage(MessageId("m1"), (said, injected, FilePart("image/png", 85))),
        AssistantMessage(MessageId("m2"), (ReasoningPart("so"), TextPart("ok"), ToolCallPart("c", "bash", "{}"))),
        ToolMessage(MessageId("m3"), (ToolResultPart("c", "bash", "fine"),)),
        UserMessage(MessageId("checkpoint-4"), (TextPart("what went before", synthetic=True),)),
        AssistantMessage(MessageId("m5"), (TextPart("told"),), summary=True),
    )


def test_every_part_has_its_category() -> None:
    """What fills a window is told by who said it and what it is, and the sums are the whole."""
    sums = tokens_by_category(message_parts(), "features")

    assert set(sums) == set(CATEGORIES) - {"tools"}
    assert list(sums) == [category for category in CATEGORIES if category in sums]
    assert sums["media"] == 85
    assert sums["summary"] > sums["injected"]


def test_categories_add_up() -> None:
    """B8: the categories of a request come to the tokens that the report says are sent."""
    report = fitted().report

    assert 0 <= sum(report.after.values()) - report.tokens_after <= CHECKPOINT_FRAME
    assert sum(report.before.values()) == report.tokens_before
    assert set(report.after) >= {"summary", "results"}
    assert "summary" not in report.before


def test_what_is_sent_beside_has_its_category() -> None:
    """B8: system prompt and tools are in the categories of the history and of the request."""
    bare, report = fitted().report, fitted(system="Be brief. " * 30, tools=[{"name": "bash"}]).report

    assert report.after["system"] == report.before["system"] > 60
    assert report.after["tools"] == report.before["tools"] > 0
    assert report.overhead_tokens == report.after["system"] + report.after["tools"]
    assert "tools" not in bare.after


def test_an_index_is_one_of_the_callers_items() -> None:
    """Where several items make one message, what left is told by the item it stood in."""
    call = {"type": "function_call", "name": "bash", "arguments": '{"command":"ls"}'}
    turns: list[list[Any]] = [
        [
            {"type": "message", "role": "user", "content": f"Now part {number}."},
            {"type": "reasoning", "id": f"rs_{number}", "summary": [{"type": "summary_text", "text": "Look."}]},
            {**call, "call_id": f"call_{number}"},
            {"type": "function_call_output", "call_id": f"call_{number}", "output": "ok"},
            {"role": "assistant", "content": LONG},
        ]
        for number in range(8)
    ]
    messages = [item for turn in turns for item in turn]
    left = fit(messages, window=WINDOW).report.left

    assert {messages[part.index].get("type") for part in left if part.what == "bash call"} == {"function_call"}
    assert {messages[part.index].get("type") for part in left if part.what == "reasoning"} == {"reasoning"}


def test_cost_is_by_category() -> None:
    """Dollars are the model's price for the tokens of each category."""
    report = fitted(model="gpt-4o").report

    assert report.cost is not None
    assert set(report.cost) == set(report.after)
    assert report.cost["assistant"] == pytest.approx(report.after["assistant"] * 2.5e-6)


def test_cost_is_unknown_without_a_price() -> None:
    """Nothing is made up for a model without a price, nor where none is named."""
    assert fitted().report.cost is None
    assert fitted(model="my-own-model").report.cost is None


@pytest.mark.parametrize(
    ("tokens", "dollars"), [({}, {}), ({"user": 1_000_000, "calls": 500_000}, {"user": 3, "calls": 1.5})]
)
def test_a_price_is_for_a_million(tokens: Mapping[str, int], dollars: Mapping[str, float]) -> None:
    """Prices are dollars a million tokens of input."""
    assert cost_of(tokens, Prices(input=3, output=15)) == dollars


# In words.


def test_explain_tells_the_fold_and_its_reason() -> None:
    """B22: each act is a line, with tokens before and after and why."""
    report = fitted().report
    told = report.explain().splitlines()

    assert told[0].startswith(f"infold: {report.tokens_before:,} → {report.tokens_after:,} tokens")
    assert f"of {report.budget.limit_tokens:,} usable" in told[0]
    assert re.fullmatch(r"folded \d+ messages: [\d,]+ → [\d,]+ tokens, because the trigger was reached", told[1])
    assert told[-2].startswith(f"no longer sent: {len(report.left):,} parts")
    assert told[-1].startswith("contents: ")
    assert len(told) == len(report.events) + 3


def test_explain_tells_the_pruning() -> None:
    """B22: pruning is told apart from folding."""
    assert re.search(
        r"pruned \d old tool parts?: .* because the trigger", fit(prunable(), window=WINDOW).report.explain()
    )


def test_explain_tells_the_clip() -> None:
    """B22: a part too large for the window is told as clipped."""
    explained = fit([{"role": "user", "content": "word " * 20_000}], window=WINDOW).report.explain()

    assert "clipped 1 part too large for the window" in explained


def test_explain_tells_a_step_of_infolds_own() -> None:
    """S1.0: where a preset would have let the request overflow, the report says that the step is not the preset's."""
    explained = fit(history(12), window=8_000, policy="turn-window").report.explain()

    assert "this step is infold's own, the preset has none" in explained


def test_explain_tells_stubbed_instructions() -> None:
    """B2, B22: instructions that found no room word for word are counted."""
    rules = [
        {"role": "user", "content": f"Rule {number}: never " + "touch this file or that one " * 30}
        for number in range(40)
    ]
    explained = fit([*rules, *history(8)], window=WINDOW).report.explain()

    assert "no longer shown word for word, too little room" in explained


def test_explain_tells_a_moment_that_did_not_fit() -> None:
    """B9: a request on the way that could not have fitted is told, once the history went on and fits again."""
    large = [{"role": "user", "content": "Read this: " + "word " * 6_000}]
    with pytest.raises(WindowExceeded):
        fit(large, window=WINDOW, policy="turn-window")
    read = {"role": "assistant", "content": "Read."}
    explained = fit([*large, read, *history(12)], window=WINDOW, policy="turn-window").report.explain()

    assert re.search(r"still [\d,]+ tokens for 4,096 usable", explained)


def test_thinking_that_left_is_told_alone() -> None:
    """B22, B32: of a kept message whose thinking left the request, the thinking is listed and nothing else."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    steps = [
        item
        for number in range(12)
        for item in (
            {
                "role": "assistant",
                "content": [thought, {"type": "tool_use", "id": f"t{number}", "name": "bash", "input": {"n": number}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": LOG}]},
        )
    ]
    fitted = fit([{"role": "user", "content": "Go."}, *steps], window=16_000, model="claude-opus-5-5")
    kept = {left.index: left.what for left in fitted.report.left if left.index > 24 - 2 * 2}

    assert "thinking" not in str(fitted.messages)
    assert kept == {21: "reasoning", 23: "reasoning"}
