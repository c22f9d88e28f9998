"""How full the window is, by the preset's rule and at most."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.entries import Checkpoint, Handle, MessageEntry, Pruning, Rejection, Restoration
from infold.core.gauge import (
    CALIBRATED_BOUND,
    REJECTED_BOUND,
    PlanInputs,
    bound_after,
    bound_of,
    estimated_tokens,
    gauge,
    scaled_tokens,
)
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Overhead,
    SessionId,
    TextPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)
from infold.core.policy import INFOLD, Policy, preset
from infold.core.tokens import Size
from infold.testing.builders import calls, numbered, replies, result, session, tokens_of_text, user

PAST_TWO_TURNS = (user(), replies(), user(), replies())


def inputs(policy: Policy, *, overhead: int = 0, bound: float = 1.1) -> PlanInputs:
    """A window of 200,000 under a policy."""
    return PlanInputs(policy, budget_for(Window(200_000), policy), overhead_tokens=overhead, bound=bound)


def count(log: Log, policy: Policy, *, overhead: int = 0) -> int:
    """What the policy compares with its trigger."""
    return gauge(log, inputs(policy, overhead=overhead)).count_tokens


def test_reported_usage_wins_over_estimates() -> None:
    """S7.2: a document that counts what was reported counts that alone, whatever the text's size; `infold` if it can be."""
    usage = Usage(input=1_000, output=50, reasoning=7, cache_read=200, cache_write=30)
    log = session(user(tokens_of_text(90_000)), replies(usage=usage))

    assert count(log, preset("opencode-1.1.23")) == 1_250
    assert count(log, preset("opencode-1.1.57")) == 1_280
    assert count(log, preset("opencode-1.18")) == 1_280
    assert count(log, INFOLD) == log.size.measure
    assert count(session(user(tokens_of_text(1_000)), replies(usage=usage)), INFOLD) == 1_287


def test_what_the_provider_clears_again_does_not_count() -> None:
    """B8, B23: while the provider is asked for its edits, what they cleared is not in the window; without them it is."""
    usage = Usage(input=4_000, output=50, cleared=6_000)
    log = session(user(tokens_of_text(10_000)), replies(usage=usage))
    plain, edited = inputs(INFOLD), replace(inputs(INFOLD), edited_from_tokens=5_000)

    assert gauge(log, edited).count_tokens == gauge(log, edited).upper_tokens == 4_050
    assert gauge(log, plain).count_tokens == gauge(log, plain).upper_tokens == 10_050


def test_estimates_are_corrected_by_what_was_sent() -> None:
    """B15, B23: a report of which the provider cleared a part teaches what the whole one would have."""
    begun = (user(tokens_of_text(4_000)), replies(usage=Usage(input=5_000, output=1)), user(tokens_of_text(3_000)))
    whole = session(*begun, replies(usage=Usage(input=9_000, output=1)))
    cleared = session(*begun, replies(usage=Usage(input=8_600, output=1, cleared=400)))

    assert cleared.calibration == whole.calibration
    assert whole.calibration.reports > session(*begun).calibration.reports


def test_what_is_hidden_may_have_been_cleared_before() -> None:
    """B8, B23: after a pruning, what the provider cleared counts, since it may be what was hidden."""
    usage = Usage(input=4_000, output=50, cleared=6_000)
    parts = (user(), calls("bash"), result(7_000), calls("bash"), result(3_000), replies(usage=usage))
    log = session(*parts)
    hidden = log.append(Pruning((Handle("2.0"),), 7_000))
    edited = replace(inputs(INFOLD), edited_from_tokens=5_000)

    assert gauge(log, edited).upper_tokens == 4_050
    assert gauge(hidden, edited).upper_tokens >= hidden.size.measure


def test_turn_window_never_looks_at_usage() -> None:
    """S7.2, S1.7: `turn-window` estimates the whole history even where usage was reported."""
    policy = preset("turn-window")
    log = session(user(tokens_of_text(700)), replies(tokens_of_text(300), usage=Usage(input=9)), policy=policy)

    assert count(log, policy) == 1_000


def test_turn_window_counts_its_summary() -> None:
    """S1.7, S4.5: the summary is part of the history that is estimated."""
    policy = preset("turn-window")
    log = session(user(tokens_of_text(700)), policy=policy).append(Checkpoint(tokens_of_text(40)))

    assert count(log, policy) == 40


@pytest.mark.parametrize("name", ["opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive"])
def test_without_a_report_there_is_no_count(name: str) -> None:
    """S5.1: before the first finished reply a document has nothing to compare."""
    assert count(session(user(tokens_of_text(500_000)), policy=preset(name)), preset(name)) == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("opencode-1.1.23", 150_000), ("opencode-1.1.57", 100_000), ("proactive", 100_000)],
)
def test_what_pruning_freed(name: str, expected: int) -> None:
    """S5.4: 1.1.57 and `proactive` count the usage less what was freed since, 1.1.23 counts it unchanged."""
    policy = preset(name)
    log = session(user(), calls("bash"), result(50_000), replies(usage=Usage(input=150_000)), policy=policy)
    pruned = log.append(Pruning((Handle("2.0"),), 50_000))

    assert count(log, policy) == 150_000
    assert count(pruned, policy) == expected


def test_what_was_freed_before_the_report_is_in_it() -> None:
    """S5.4: a report made after the pruning already lacks what was freed."""
    policy = preset("opencode-1.1.57")
    log = session(user(), calls("bash"), result(50_000), policy=policy).append(Pruning((Handle("2.0"),), 50_000))
    reply = AssistantMessage(MessageId("later"), (TextPart("done"),), usage=Usage(input=90_000), finish="stop")

    assert count(log.append(MessageEntry(reply)), policy) == 90_000


def test_a_count_is_never_negative() -> None:
    """S5.4: more freed than reported is nothing, not less."""
    policy = preset("opencode-1.1.57")
    log = session(user(), calls("bash"), result(50_000), replies(usage=Usage(input=10)), policy=policy)

    assert count(log.append(Pruning((Handle("2.0"),), 50_000)), policy) == 0


def test_infold_adds_what_came_since_the_report() -> None:
    """B9, B15: the count is the reported usage plus the estimate of what was appended after it."""
    before = session(user(), replies(usage=Usage(input=1_000, output=20)))
    after = session(user(), replies(usage=Usage(input=1_000, output=20)), user("x" * 4_000))

    assert count(before, INFOLD, overhead=500) == 1_020
    assert count(after, INFOLD, overhead=500) == 1_020 + after.size.minus(before.size).measure


def test_infold_takes_away_what_was_hidden_since_the_report() -> None:
    """S5.4, B9, I13: what was hidden since a report is taken from it; the report is not forgotten for our lower estimate."""
    log = session(user(), calls("bash"), result(9_000), replies(usage=Usage(input=12_000)))
    pruned = log.append(Pruning((Handle("2.0"),), 9_000))
    hidden = log.size.measure - pruned.size.measure

    assert hidden > 0
    assert count(pruned, INFOLD) == count(log, INFOLD) - hidden > pruned.size.measure


def test_infold_counts_the_overhead_where_nothing_was_reported() -> None:
    """B8: system prompt and tool schemas are counted before any report includes them."""
    log = session(user("hello there"))

    assert count(log, INFOLD, overhead=3_000) == 3_000 + log.size.measure


def test_usage_from_before_a_checkpoint_is_forgotten() -> None:
    """B9: after a checkpoint the old report counts for nothing."""
    log = session(user(), replies(usage=Usage(input=190_000))).append(Checkpoint("short"))

    assert count(log, preset("opencode-1.1.23")) == 0
    assert count(log, INFOLD) == log.checkpoint_size.measure


@pytest.mark.parametrize("policy", [INFOLD, preset("opencode-1.1.23"), preset("turn-window")])
def test_the_upper_bound_is_over_the_count(policy: Policy) -> None:
    """B8: what a request can be at most has the family's margin and the overhead in it, in every preset."""
    log = session(user("hello " * 2_000), policy=policy)
    measured = gauge(log, inputs(policy, overhead=1_000, bound=1.2))

    assert measured.upper_tokens > measured.count_tokens
    assert measured.upper_tokens == -(-(log.size.measure + 1_000) * 12 // 10)


def test_growth_since_the_report_carries_the_margin() -> None:
    """B8: only what the provider has not counted yet is multiplied by the bound."""
    log = session(user(), replies(usage=Usage(input=1_000)), user("x y " * 1_000))
    assert log.baseline is not None
    growth = log.size.minus(log.baseline.size).measure

    assert gauge(log, inputs(INFOLD, bound=2.0)).upper_tokens == 1_000 + 2 * growth


def heard(factor: float) -> Log:
    """A session with two results of several thousand tokens, for which a provider reported that factor of our estimate."""
    drafts: list[Message] = [user(), calls("bash"), result(10_000), calls("bash"), result(10_000)]
    tokens_of = session(*drafts, replies()).size.measure
    return session(*drafts, replies(usage=Usage(input=int(tokens_of * factor))))


def pruned(log: Log) -> Log:
    """The log with its first result hidden."""
    return log.append(Pruning((Handle("2.0"),), 10_000))


def upper(log: Log, *, bound: float = 1.1) -> int:
    """The most a view can be."""
    return gauge(log, inputs(INFOLD, bound=bound)).upper_tokens


def test_a_report_is_not_forgotten_when_something_is_hidden() -> None:
    """I13, B8: where a provider counted twice what we do, our estimate of what is left proves nothing."""
    log = pruned(heard(2.0))

    assert upper(log) > 2.0 * log.size.measure


def test_a_report_far_below_its_estimate_frees_less() -> None:
    """I13, B8: where a provider counted seven tenths of what we do, hiding a part frees no more of it, less the margin."""
    log = pruned(heard(0.7))
    hidden = heard(0.7).size.measure - log.size.measure

    assert upper(log, bound=3.0) == pytest.approx(heard(0.7).size.measure * 0.7 - hidden * 0.7 / 9, abs=2)


@pytest.mark.parametrize(
    ("factor", "is_plausible"), [(0.3, False), (0.5, False), (0.7, True), (1.0, True), (2.0, True)]
)
def test_a_report_that_cannot_be_proves_nothing(factor: float, is_plausible: bool) -> None:
    """I13, B8: where a provider leaves out what it read from its cache, the estimate and its margin hold."""
    log = heard(factor)
    reported = int(log.size.minus(log.live[-1].size).measure * factor)

    assert (upper(log) == -(-log.size.measure * 11 // 10)) is not is_plausible
    assert (abs(upper(log) - reported) < 20) is is_plausible


@pytest.mark.parametrize("bound", [1.02, 1.1, 1.5])
def test_a_report_in_line_with_its_estimate_leaves_both_proofs(bound: float) -> None:
    """B8: the lower of two proofs holds: the report less what was hidden, or the estimate of what is left with its margin."""
    log, before = pruned(heard(1.0)), heard(1.0).size.measure
    by_estimate = -int(-log.size.measure * bound // 1)

    assert upper(log, bound=bound) <= by_estimate
    assert upper(log, bound=bound) == min(by_estimate, -int(-(before - (before - log.size.measure) / bound**2) // 1))


def test_a_report_over_the_limit_holds_nobody_to_it() -> None:
    """S5.4, B8: a provider that took more than we think it takes does not make what is left too large."""
    log = pruned(heard(30.0))

    assert heard(30.0).baseline is not None
    assert upper(log) == -(-log.size.measure * 11 // 10)


def test_what_came_since_carries_the_margin_beside_what_was_hidden() -> None:
    """B8: growth and shrinking since a report do not cancel out: each is taken at its worst."""
    log = pruned(heard(2.0))
    more = log.append(MessageEntry(UserMessage(MessageId("since"), (TextPart("x y " * 3_000),))))
    grown = more.size.measure - log.size.measure

    assert upper(more) - upper(log) in (int(grown * 1.1), int(grown * 1.1) + 1)


def test_what_is_shown_again_carries_the_margin() -> None:
    """B8: a pruning undone after a report adds what it had hidden, with the margin."""
    log = session(user(), calls("bash"), result(10_000)).append(Pruning((Handle("2.0"),), 10_000))
    heard = log.append(MessageEntry(numbered([replies(usage=Usage(input=500))], prefix="n")[0]))
    shown = heard.append(Restoration(3))
    added = shown.size.measure - heard.size.measure

    assert upper(shown) == 500 + -(-added * 11 // 10)


@pytest.mark.parametrize(
    ("bound", "reports", "expected"),
    [(1.0, 0, 1.0), (1.05, 5, 1.05), (1.55, 0, 1.55), (1.55, 1, 1.4), (1.55, 2, 1.295), (1.55, 60, CALIBRATED_BOUND)],
)
def test_reports_shrink_the_margin(bound: float, reports: int, expected: float) -> None:
    """B8, B15: each report takes three tenths of a family's extra margin, down to 5 %."""
    assert bound_after(bound, reports) == pytest.approx(expected)


def test_text_outside_ascii_keeps_its_margin_until_it_was_reported() -> None:
    """B8, B15: reports on English say little of how a provider counts Chinese."""
    steps = [(user("look at it " * 200), replies("seen", usage=Usage(input=700 * n, output=2))) for n in range(1, 9)]
    log = session(*(draft for step in steps for draft in step))
    chinese, english = (
        log.append(MessageEntry(UserMessage(MessageId("last"), (TextPart(text),))))
        for text in ("请把解析器移植到新的接口。" * 300, "look at it " * 900)
    )

    assert log.calibration.reports == 7
    assert log.calibration.wide_reports == 0
    assert bound_of(english, inputs(INFOLD, bound=1.65)) < 1.11
    assert bound_of(chinese, inputs(INFOLD, bound=1.65)) == pytest.approx(1.65, abs=0.01)


def test_content_is_scaled_by_factor_and_bound() -> None:
    """B8: the most that content can be is its corrected estimate times the margin, rounded up."""
    log = session()

    assert scaled_tokens(Size(prose=1_001), log, inputs(INFOLD, bound=1.1)) == 1_102
    assert scaled_tokens(Size(), log, inputs(INFOLD)) == 0


def test_the_log_learns_from_reports() -> None:
    """B15: where the provider counts 1.3 times our estimate, ten reports bring the session's own within 3 %."""
    log = Log(SessionId("session"))
    for number in range(11):
        asked, called = numbered(
            [user(f"step {number}: " + "please look at it " * 20), calls("bash")], prefix=f"{number}-"
        )
        answer = ToolMessage(
            MessageId(f"{number}-2"), (ToolResultPart(f"{number}-1-call0", "bash", "line of output\n" * 200),)
        )
        log = log.append(MessageEntry(asked)).append(MessageEntry(called)).append(MessageEntry(answer))
        usage = Usage(input=2_000 + round(1.3 * log.size.measure), output=5)
        reply = AssistantMessage(MessageId(f"{number}-3"), (TextPart("looked at it"),), usage=usage, finish="stop")
        log = log.append(MessageEntry(reply))

    assert log.calibration.reports == 10
    assert log.calibration.apply(log.size) == pytest.approx(1.3 * log.size.measure, rel=0.03)


def test_many_small_calls_do_not_shrink_a_large_result() -> None:
    """B8, B15: after reports of small calls by a provider with no frames, a large text is estimated for what it is."""
    log, sent = session(user("go on")), 100
    for number in range(20):
        asked = calls("bash", arguments='{"path": "a.py", "mode": "read"}', usage=Usage(input=sent, output=20))
        log = log.extend(
            MessageEntry(draft) for draft in numbered([asked, result(output="all well")], prefix=f"{number}-")
        )
        sent += 25
    drafts: list[Message] = [calls("bash"), result(output="x y " * 5_000)]
    large = log.extend(MessageEntry(draft) for draft in numbered(drafts, prefix="large-"))
    grown = large.size.minus(log.size)

    assert large.calibration.apply(grown) == pytest.approx(grown.measure, rel=0.02)


def test_a_system_prompt_is_text_like_any_other() -> None:
    """I13: what a reply's request sent beside the messages is held against the report, the tools are not."""
    asked, answer = numbered([user("look " * 100), replies(usage=Usage(input=900, output=5))])
    assert isinstance(answer, AssistantMessage)
    believed = {
        (system, tools): session()
        .extend((MessageEntry(asked), MessageEntry(replace(answer, overhead=Overhead(system, tools)))))
        .baseline
        is not None
        for system, tools in ((0, 0), (800, 0), (4_000, 0), (800, 9_000))
    }

    assert believed == {(0, 0): True, (800, 0): True, (4_000, 0): False, (800, 9_000): True}


def test_growth_that_cannot_be_teaches_nothing() -> None:
    """B15, I13: where a provider reports half of what was added, our estimate is not halved."""
    steps: list[Message] = []
    for number in range(1, 6):
        usage = Usage(input=50_000 + number * 1_000)  # a system prompt of unknown size before the messages
        steps += [user("look at it " * 1_000), replies("seen", usage=usage)]
    log = session(*steps)

    assert log.baseline is not None
    assert log.calibration.reports == 0
    assert log.calibration.apply(log.size) == log.size.measure


def test_a_view_altered_between_reports_teaches_nothing() -> None:
    """B15: growth that a pruning distorted is not learned from."""
    log = session(user(), calls("bash"), result(9_000), replies(usage=Usage(input=20_000)), *PAST_TWO_TURNS)
    pruned = log.append(Pruning((Handle("2.0"),), 9_000))
    reply = AssistantMessage(MessageId("later"), (TextPart("done"),), usage=Usage(input=25_000), finish="stop")

    assert pruned.append(MessageEntry(reply)).calibration == log.calibration


def test_a_bound_below_the_calibrated_one_is_kept() -> None:
    """B8: an exact tokeniser's margin is not widened."""
    exact = replace(inputs(INFOLD), bound=1.0)

    assert gauge(session(user("hello there")), exact).upper_tokens == count(session(user("hello there")), INFOLD)


# Where a refusal is recovered.


def test_where_a_refusal_is_recovered_the_expected_count_decides() -> None:
    """B8, B34: without the family's margin the most a request can be is what it is expected to be."""
    log = session(user(tokens_of_text(1_000)), replies())
    bounded = inputs(INFOLD, overhead=500, bound=1.96)
    expected = replace(bounded, recovers=True)

    assert gauge(log, expected).upper_tokens == estimated_tokens(log, expected)
    assert gauge(log, bounded).upper_tokens > 1.9 * estimated_tokens(log, bounded)
    assert scaled_tokens(Size(prose=100), log, expected) == 100


def test_a_refusal_corrects_the_expected_count() -> None:
    """B8, B34: what the provider counted of the request it refused holds for the next ones, with a little more."""
    log = session(user(tokens_of_text(1_000)), replies()).append(Rejection(1_000, 1_250, 200_000))

    assert bound_of(log, replace(inputs(INFOLD), recovers=True)) == pytest.approx(1.25 * REJECTED_BOUND)


def test_text_outside_ascii_has_its_own_margin() -> None:
    """B8, B15: a family that counts such text for more is expected to, so that its margin there is smaller."""
    latin, han = session(user(tokens_of_text(1_000))), session(user("数据库连接失败" * 200))
    two = replace(inputs(INFOLD, bound=1.4), wide_bound=1.1)

    assert bound_of(latin, two) == pytest.approx(1.4)
    assert bound_of(han, two) == pytest.approx(1.1, abs=0.01)
    assert bound_of(han, inputs(INFOLD, bound=1.4)) == pytest.approx(1.4)
