"""What of a window may be filled, and when a count is over it."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Budget, Window, budget_for, is_overflow, output_ceiling, usage_tokens
from infold.core.messages import Usage
from infold.core.policy import INFOLD, LARGEST_TOKENS, PRESETS, Amount, Policy, preset, remaining, share, tokens
from infold.errors import PolicyError


def usage_overflows(policy: Policy, window: Window, usage: Usage) -> bool:
    """The documents' *isOverflow*: reported usage against a window."""
    return is_overflow(usage_tokens(usage, policy.count), budget_for(window, policy), policy)


def usable(name: str, window: Window, *, reserve: int | None = None) -> int:
    """What a preset may fill of a window."""
    return budget_for(window, replace(preset(name), reserve_tokens=reserve)).usable_tokens


# Usable windows.


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(200_000, output_tokens=32_000), 168_000),
        (Window(400_000, input_tokens=272_000, output_tokens=128_000), 272_000),
        (Window(200_000), 168_000),
        (Window(200_000, output_tokens=0), 168_000),
        (Window(200_000, output_tokens=64_000), 168_000),
        (Window(200_000, output_tokens=8_000), 192_000),
        (Window(128_000, output_tokens=16_000), 112_000),
        (Window(2_000_000, output_tokens=32_000), 1_968_000),
    ],
)
def test_usable_in_1_1_23(window: Window, expected: int) -> None:
    """S1.4: the input limit if there is one, else the window less the output ceiling of at most 32,000."""
    assert usable("opencode-1.1.23", window) == expected


@pytest.mark.parametrize("name", ["opencode-1.1.57", "proactive"])
@pytest.mark.parametrize(
    ("window", "reserve", "expected"),
    [
        (Window(200_000, output_tokens=8_000), None, 192_000),
        (Window(200_000, input_tokens=120_000, output_tokens=10_000), None, 110_000),
        (Window(200_000), 0, 200_000),
        (Window(200_000), None, 180_000),
        (Window(200_000), 30_000, 170_000),
        (Window(200_000, input_tokens=120_000), 30_000, 90_000),
        (Window(128_000, output_tokens=32_000), None, 108_000),
        (Window(2_000_000, output_tokens=64_000), None, 1_980_000),
    ],
)
def test_usable_in_1_1_57(name: str, window: Window, reserve: int | None, expected: int) -> None:
    """S1.5, S1.6: input limit or window, less the configured reserve (0 is honoured), else min(20,000, ceiling)."""
    assert usable(name, window, reserve=reserve) == expected


@pytest.mark.parametrize(
    ("window", "reserve", "expected"),
    [
        (Window(200_000, output_tokens=32_000), None, 168_000),
        (Window(400_000, input_tokens=272_000, output_tokens=128_000), None, 252_000),
        (Window(100_000, output_tokens=10_000), None, 90_000),
        (Window(1_000_000, output_tokens=32_000), None, 968_000),
        (Window(1_000_000, output_tokens=128_000), None, 968_000),
        (Window(200_000, input_tokens=120_000, output_tokens=10_000), None, 110_000),
        (Window(16_000), None, 0),
        (Window(32_000), None, 0),
        (Window(20_000, input_tokens=15_000), None, 0),
        (Window(200_000, output_tokens=32_000), 5_000, 168_000),
        (Window(200_000, input_tokens=120_000), 5_000, 115_000),
    ],
)
def test_usable_in_1_18(window: Window, reserve: int | None, expected: int) -> None:
    """S1.9: input limit less reserve, else window less ceiling (a configured reserve is ignored), never below 0."""
    assert usable("opencode-1.18", window, reserve=reserve) == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(200_000), 32_000),
        (Window(200_000, output_tokens=0), 32_000),
        (Window(200_000, output_tokens=8_192), 8_192),
        (Window(200_000, output_tokens=32_000), 32_000),
        (Window(200_000, output_tokens=64_000), 32_000),
    ],
)
def test_the_output_ceiling(window: Window, expected: int) -> None:
    """S1.4: the reply is allowed the model's own maximum, at most 32,000, and 32,000 where that is 0 or unset."""
    assert output_ceiling(window) == expected


@pytest.mark.parametrize("window", [Window(128_000), Window(200_000, input_tokens=120_000), Window(2_000_000)])
def test_turn_window_has_a_window_of_its_own(window: Window) -> None:
    """S1.7: 64,000 tokens, trigger 48,000, target 32,000, whatever the model; what the provider takes stays the limit."""
    budget = budget_for(window, preset("turn-window"))

    assert (budget.usable_tokens, budget.trigger_tokens, budget.target_tokens) == (64_000, 48_000, 32_000)
    assert budget.limit_tokens == window.limit_tokens


@pytest.mark.parametrize(("context", "limit"), [(0, LARGEST_TOKENS), (32_000, 32_000), (200_000, 200_000)])
def test_turn_window_acts_at_its_own_number_in_any_window(context: int, limit: int) -> None:
    """S1.2, S1.7: 64,000 tokens decide when to act whatever the model has; what a request may be at most is the model's own."""
    budget = budget_for(Window(context), preset("turn-window"))

    assert (budget.usable_tokens, budget.trigger_tokens, budget.target_tokens) == (64_000, 48_000, 32_000)
    assert budget.limit_tokens == limit


# Reported usage as each preset counts it.


@pytest.mark.parametrize(
    ("name", "usage", "expected"),
    [
        ("opencode-1.1.23", Usage(input=10, output=20, reasoning=40, cache_read=80, cache_write=160, total=999), 110),
        ("opencode-1.1.57", Usage(input=10, output=20, reasoning=40, cache_read=80, cache_write=160), 270),
        ("opencode-1.1.57", Usage(input=10, output=20, cache_read=80, cache_write=160, total=999), 999),
        ("opencode-1.1.57", Usage(input=10, output=20, cache_read=80, cache_write=160, total=0), 270),
        ("proactive", Usage(input=10, output=20, cache_read=80, cache_write=160, total=0), 270),
        ("opencode-1.18", Usage(input=10, output=20, reasoning=40, cache_read=80, cache_write=160), 270),
        ("opencode-1.18", Usage(input=10, total=500), 500),
        ("turn-window", Usage(input=10, output=20, reasoning=40, cache_read=80, cache_write=160), 310),
        ("infold", Usage(input=10, output=20, reasoning=40, cache_read=80, cache_write=160), 310),
        ("infold", Usage(input=10, total=500), 500),
    ],
)
def test_what_is_counted_of_usage(name: str, usage: Usage, expected: int) -> None:
    """S1.3, S1.4, S1.5, S1.9: a total of 0 is no total, and each preset sums its own fields."""
    assert usage_tokens(usage, preset(name).count) == expected


# Overflow.


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("opencode-1.1.23", 168_000, False),
        ("opencode-1.1.23", 168_001, True),
        ("opencode-1.1.57", 179_999, False),
        ("opencode-1.1.57", 180_000, True),
        ("proactive", 179_999, False),
        ("proactive", 180_000, True),
        ("opencode-1.18", 167_999, False),
        ("opencode-1.18", 168_000, True),
        ("turn-window", 47_999, False),
        ("turn-window", 48_000, True),
        ("infold", 144_499, False),
        ("infold", 161_500, True),
    ],
)
def test_equality_with_the_trigger(name: str, count: int, expected: bool) -> None:
    """S1.4, S1.5, S1.7, S1.9: a count equal to what is usable overflows everywhere but in 1.1.23."""
    policy = preset(name)

    assert is_overflow(count, budget_for(Window(200_000), policy), policy) is expected


CONTEXT_100K = Window(100_000, output_tokens=32_000)
CONTEXT_200K = Window(200_000, output_tokens=32_000)
INPUT_200K = Window(200_000, input_tokens=200_000, output_tokens=32_000)
INPUT_272K = Window(400_000, input_tokens=272_000, output_tokens=128_000)
INPUT_120K = Window(200_000, input_tokens=120_000, output_tokens=10_000)


@pytest.mark.parametrize(
    ("window", "usage", "expected"),
    [
        pytest.param(CONTEXT_100K, Usage(75_000, 5_000), True, id="case 1"),
        pytest.param(CONTEXT_200K, Usage(100_000, 10_000), False, id="case 2"),
        pytest.param(CONTEXT_100K, Usage(60_000, 10_000, cache_read=10_000), True, id="case 3"),
        pytest.param(INPUT_272K, Usage(271_000, 1_000, cache_read=2_000), True, id="case 4"),
        pytest.param(INPUT_272K, Usage(200_000, 20_000, cache_read=10_000), False, id="case 5"),
        pytest.param(INPUT_120K, Usage(50_000, 9_999), False, id="case 6"),
        pytest.param(INPUT_200K, Usage(180_000, 15_000, cache_read=3_000), True, id="case 7"),
        pytest.param(CONTEXT_200K, Usage(180_000, 15_000, cache_read=3_000), True, id="case 8"),
        pytest.param(INPUT_200K, Usage(166_000, 10_000, cache_read=5_000), True, id="case 9, input limit"),
        pytest.param(CONTEXT_200K, Usage(166_000, 10_000, cache_read=5_000), True, id="case 9, context"),
        pytest.param(Window(0, output_tokens=32_000), Usage(100_000, 10_000), False, id="case 10"),
    ],
)
def test_overflow_in_opencode_today(window: Window, usage: Usage, expected: bool) -> None:
    """S1.9: the cases of OpenCode's own suite come out as they do there."""
    assert usage_overflows(preset("opencode-1.18"), window, usage) is expected


@pytest.mark.parametrize("name", PRESETS)
def test_auto_off_never_overflows(name: str) -> None:
    """S1.1: case 11 of OpenCode's suite, in every preset."""
    policy = replace(preset(name), auto=False)

    assert not usage_overflows(policy, CONTEXT_100K, Usage(75_000, 5_000))
    assert not usage_overflows(policy, CONTEXT_100K, Usage(LARGEST_TOKENS))


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"turn-window"}))
def test_a_declared_window_of_zero_never_overflows(name: str) -> None:
    """S1.2: no limit was declared, so nothing is over it; `turn-window` alone has a window of its own."""
    budget = budget_for(Window(0), preset(name))

    assert not budget.bounded
    assert not is_overflow(LARGEST_TOKENS, budget, preset(name))
    assert budget.excess_tokens(LARGEST_TOKENS) == 0


def test_a_small_local_model_overflows_at_every_step_in_1_18() -> None:
    """S1.9: usable 0 is reached by a count of 0, as it is there."""
    assert usage_overflows(preset("opencode-1.18"), Window(16_000), Usage())


# infold's own numbers.


@pytest.mark.parametrize(
    ("context", "reserve", "trigger", "target", "tail"),
    [
        (4_096, 614, 3_307, 1_566, 4_000),
        (8_192, 1_228, 6_615, 3_133, 4_000),
        (64_000, 9_600, 51_680, 24_480, 4_080),
        (200_000, 30_000, 161_500, 76_500, 12_750),
        (1_000_000, 32_000, 919_600, 435_600, 20_000),
        (2_000_000, 32_000, 1_869_600, 885_600, 20_000),
    ],
)
def test_infold_by_window(context: int, reserve: int, trigger: int, target: int, tail: int) -> None:
    """S1.8, B11: from 4k to 2M the reserve, trigger, target and tail grow with the window up to their caps."""
    budget = budget_for(Window(context), INFOLD)

    assert budget.usable_tokens == budget.limit_tokens == context - reserve
    assert (budget.trigger_tokens, budget.target_tokens) == (trigger, target)
    assert INFOLD.tail.budget_tokens(budget.usable_tokens) == tail


@pytest.mark.parametrize(
    ("window", "reserve", "expected"),
    [
        (Window(200_000, output_tokens=8_000), None, 192_000),
        (Window(400_000, input_tokens=272_000, output_tokens=128_000), None, 272_000),
        (Window(200_000, input_tokens=190_000), None, 170_000),
        (Window(200_000), 0, 200_000),
        (Window(200_000), 50_000, 150_000),
        (Window(1_000), None, 744),
    ],
)
def test_usable_in_infold(window: Window, reserve: int | None, expected: int) -> None:
    """S1.8: the window less 15 % (256 at least, the model's own output at most), and never over an input limit."""
    assert usable("infold", window, reserve=reserve) == expected


@pytest.mark.parametrize(
    ("trigger", "expected"), [(tokens(100_000), 100_000), (share(0.5), 85_000), (remaining(20_000), 150_000)]
)
def test_a_trigger_in_any_unit(trigger: Amount, expected: int) -> None:
    """B19: tokens, a share and tokens remaining all set the trigger of a usable window of 170,000."""
    assert budget_for(Window(200_000), replace(INFOLD, trigger=trigger, target=None)).trigger_tokens == expected


def test_without_a_target_the_trigger_is_the_target() -> None:
    """S1.4: a document without a target is content once the trigger is no longer reached."""
    assert budget_for(Window(200_000), preset("opencode-1.1.23")).target_tokens == 168_000


def test_the_excess_is_what_is_over_the_limit() -> None:
    """B8: a request of exactly the limit fits; one more token is one over."""
    budget = Budget(usable_tokens=90, limit_tokens=100, trigger_tokens=80, target_tokens=50)

    assert [budget.excess_tokens(size) for size in (0, 100, 101, 250)] == [0, 0, 1, 150]


# What is refused.


@pytest.mark.parametrize(
    ("trigger", "target", "context"),
    [
        (share(0.85), tokens(150_000), 200_000),
        (share(0.85), tokens(144_500), 200_000),
        (tokens(5_000), share(0.45), 200_000),
        (share(0.5), remaining(10_000), 200_000),
        (remaining(500_000), share(0.45), 200_000),
    ],
)
def test_a_target_over_its_trigger_in_mixed_units_is_refused(trigger: Amount, target: Amount, context: int) -> None:
    """B9, B19: what contradicts itself only in a given window is refused there, with numbers and a remedy."""
    policy = replace(INFOLD, trigger=trigger, target=target)

    with pytest.raises(PolicyError, match="give both as shares of the window, or lower the target") as caught:
        budget_for(Window(context), policy)

    assert caught.value.field == "target"


@pytest.mark.parametrize(("context", "reserve"), [(8_000, 8_000), (8_000, 9_000), (200, None)])
def test_a_reserve_that_leaves_nothing_is_refused(context: int, reserve: int | None) -> None:
    """B11, B19: a reserve as large as the window is an error that says so, in `infold`."""
    with pytest.raises(PolicyError, match="lower the reserve or choose a larger model") as caught:
        budget_for(Window(context), replace(INFOLD, reserve_tokens=reserve))

    assert caught.value.field == "reserve_tokens"


@pytest.mark.parametrize(
    ("field", "context", "most_input", "most_output"),
    [
        ("context_tokens", -1, None, None),
        ("context_tokens", LARGEST_TOKENS + 1, None, None),
        ("input_tokens", 8_000, -1, None),
        ("output_tokens", 8_000, None, -1),
    ],
)
def test_an_impossible_window_is_refused(
    field: str, context: int, most_input: int | None, most_output: int | None
) -> None:
    """B11: a negative or absurd limit is an error that names the field."""
    with pytest.raises(PolicyError, match="give the model's limit in tokens") as caught:
        Window(context, most_input, most_output)

    assert caught.value.field == f"window.{field}"


# Working windows.


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_working_window_moves_all_but_the_limit(name: str) -> None:
    """B11: usable, trigger and target are those of a window of that size; the limit is still the model's own."""
    policy = replace(preset(name), working_window_tokens=None)
    working = budget_for(Window(1_000_000), replace(policy, working_window_tokens=200_000))
    small, large = budget_for(Window(200_000), policy), budget_for(Window(1_000_000), policy)

    assert working == replace(small, limit_tokens=large.limit_tokens)


@pytest.mark.parametrize("working", [200_000, 1_000_000])
def test_a_working_window_never_widens_a_window(working: int) -> None:
    """B11: a working window of the model's own size or above changes nothing."""
    policy, window = replace(INFOLD, working_window_tokens=working), Window(200_000, input_tokens=180_000)

    assert budget_for(window, policy) == budget_for(window, INFOLD)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_window_without_limit_has_a_working_window(name: str) -> None:
    """B11: where the window was declared to have no limit, only the working window decides when to act."""
    policy = replace(preset(name), window_tokens=None)
    budget = budget_for(Window(0), replace(policy, working_window_tokens=64_000))

    assert budget.limit_tokens == LARGEST_TOKENS
    assert budget.trigger_tokens == budget_for(Window(64_000), policy).trigger_tokens


def test_limits_of_input_and_output_stay_within_a_working_window() -> None:
    """B11: a limit on the input that is larger than the working window no longer counts, nor does a longer reply."""
    policy = replace(INFOLD, working_window_tokens=64_000)
    roomy = budget_for(Window(1_000_000, input_tokens=900_000, output_tokens=128_000), policy)
    narrow = budget_for(Window(1_000_000, input_tokens=40_000, output_tokens=8_000), policy)

    assert roomy.usable_tokens == budget_for(Window(64_000), INFOLD).usable_tokens
    assert (narrow.usable_tokens, narrow.limit_tokens) == (40_000, 40_000)


@pytest.mark.parametrize("wrong", [0, -1, LARGEST_TOKENS + 1, "200k", True, 0.5])
def test_a_wrong_working_window_is_refused(wrong: object) -> None:
    """B11: a policy with an impossible working window cannot be built, and the error names the field."""
    with pytest.raises(PolicyError, match="working_window_tokens"):
        replace(INFOLD, working_window_tokens=wrong)
