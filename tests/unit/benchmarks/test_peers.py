"""The account that every library's requests go through: cache, cost, pairs, rule and tail, on requests made by hand."""

import runpy
from pathlib import Path
from typing import Any

import pytest

PEERS: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "peers.py"))
Block, Call, Played, Summarised = (PEERS[name] for name in ("Block", "Call", "Played", "Summarised"))

SIZES = {"rule": 10, "call": 20, "result": 300, "stub": 5, "reply": 40, "summary": 100}
BLOCKS = {
    name: Block(
        tokens=tokens,
        calls=("c1",) if name == "call" else (),
        answers="c1" if name in ("result", "stub") else "",
        keeps_rule=name == "rule",
    )
    for name, tokens in SIZES.items()
}
SAID = ("rule", "call", "result", "reply")


def accounted(*requests: tuple[str, ...], window: int = 1_000, said: tuple[str, ...] = SAID, **call: Any) -> Any:
    """The figures of requests given by the names of their messages; what a call took is the last one's."""
    *before, last = requests
    calls = (*map(Call, before), Call(last, **call))
    return PEERS["account"](Played(calls), BLOCKS, window_tokens=window, said=[said] * len(requests))


def test_a_growing_request_is_served_from_the_cache() -> None:
    """What the request before began with is cached, and extending it breaks nothing."""
    figures = accounted(("rule",), ("rule", "call", "result"))

    assert figures.breaks == 0
    assert figures.sent_tokens == 10 + 330
    assert figures.cached_share == round(10 / 340, 4)
    assert figures.cost == round((1.25 * 330 + 0.1 * 10) / 1e6, 4)


def test_a_changed_message_breaks_the_prefix() -> None:
    """From the first message that is not what it was, everything is read afresh."""
    figures = accounted(("rule", "call", "result"), ("rule", "call", "stub", "reply"))

    assert figures.breaks == 1
    assert PEERS["common_prefix"](("rule", "call", "result"), ("rule", "call", "stub", "reply")) == 2


def test_a_shorter_request_breaks_the_prefix() -> None:
    """A request that ends before the one before it did is a break, though all of it was sent before."""
    assert accounted(("rule", "call", "result"), ("rule",)).breaks == 1


def test_a_summary_is_paid_for() -> None:
    """Both sides of a summariser's call are added at their prices."""
    asked = (Summarised(1_000_000, 200_000),)

    assert PEERS["cost"](0, 0, asked) == pytest.approx(1.0 + 1.0)
    assert accounted(("rule", "summary"), summarised=asked).summaries == 1


def test_cost_has_three_prices() -> None:
    """A million tokens afresh cost 1.25, a million from the cache 0.1."""
    assert PEERS["cost"](1_000_000, 1_000_000, ()) == pytest.approx(1.35)


@pytest.mark.parametrize(
    ("names", "paired"),
    [
        ((), True),
        (("rule", "call", "result", "reply"), True),
        (("rule", "call", "stub"), True),
        (("rule", "call"), False),
        (("rule", "result"), False),
        (("call", "reply", "result"), False),
        (("call", "result", "result"), False),
        (("call", "call", "result"), False),
    ],
)
def test_calls_and_results_are_paired(names: tuple[str, ...], paired: bool) -> None:
    """A call is answered at once and once, and no answer stands without its call."""
    assert PEERS["is_paired"]([BLOCKS[name] for name in names]) is paired


def test_faults_are_counted_by_call() -> None:
    """Requests over the window, with broken pairs, and without the rule are each counted, and none of them is safe."""
    over = accounted(("rule", "call", "result"), window=329)
    broken = accounted(("rule",), ("rule", "result"))
    lost = accounted(("rule",), ("summary",), ("summary", "reply"))

    assert (over.over_window, broken.broken_pairs, lost.without_rule) == (1, 1, 2)
    assert [over.safe, broken.safe, lost.safe] == [False, False, False]
    assert accounted(("rule", "call", "result"), window=330).safe


def test_a_library_that_gives_up_is_not_safe() -> None:
    """A session that ended early is at fault however well it began."""
    figures = PEERS["account"](Played((Call(("rule",)),), "RuntimeError"), BLOCKS, window_tokens=99, said=[SAID])

    assert not figures.safe


def test_the_least_tail_is_measured_where_the_prefix_breaks() -> None:
    """What stands at the end as it was said is the tail; a stub ends it."""
    cut = accounted(("rule", "call", "result"), ("summary", "reply"))
    pruned = accounted(("rule", "call", "result"), ("rule", "call", "stub", "reply"))
    grown = accounted(("rule",), SAID)

    assert (cut.least_tail_tokens, pruned.least_tail_tokens, grown.least_tail_tokens) == (40, 40, 0)


def test_a_message_is_sized_by_text_names_and_arguments() -> None:
    """Tokens are counted exactly, calls and answers are told by id, and the rule is found however it is laid out."""
    called = {"function": {"name": "bash", "arguments": "{}"}, "id": "c1", "type": "function"}
    call = PEERS["block_of"]({"role": "assistant", "content": None, "tool_calls": [called]}, "never touch")
    rule = PEERS["block_of"]({"role": "user", "content": "Never  touch"}, "Never touch")

    assert call == Block(
        tokens=PEERS["count"]("bash") + PEERS["count"]("{}"), calls=("c1",), answers="", keeps_rule=False
    )
    assert rule.keeps_rule


def test_a_request_stands_before_each_reply() -> None:
    """A reply that opens the session answers no request of it; one request comes after the last message."""
    roles = ("assistant", "user", "assistant", "tool", "assistant", "user")

    assert PEERS["request_positions"]([{"role": role} for role in roles]) == [2, 4, 6]
