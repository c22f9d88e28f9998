"""The numbers a user may set, and what is refused."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from infold.core.policy import (
    INFOLD,
    LARGEST_TOKENS,
    PRESETS,
    Amount,
    Policy,
    PrunePolicy,
    SummaryPolicy,
    TailPolicy,
    memory_size,
    remaining,
    share,
    tokens,
)
from infold.errors import PolicyError, UsageError


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (tokens(12_345), 12_345),
        (share(0.75), 48_000),
        (share(0), 0),
        (share(1), 64_000),
        (remaining(10_000), 54_000),
        (remaining(64_000), 0),
        (remaining(70_000), 0),
    ],
)
def test_an_amount_has_one_of_three_units(amount: Amount, expected: int) -> None:
    """B19: tokens, a share of the usable window and tokens remaining all come to tokens of a window of 64,000."""
    assert amount.of(64_000) == expected


@pytest.mark.parametrize("usable", [0, -1, -16_000])
@pytest.mark.parametrize("amount", [tokens(0), share(0.5), share(1.0), remaining(100)])
def test_an_amount_is_never_negative(amount: Amount, usable: int) -> None:
    """B19: whatever is left of a window, no amount of it is below zero."""
    assert amount.of(usable) >= 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: tokens(-1),
        lambda: tokens(LARGEST_TOKENS + 1),
        lambda: share(-0.1),
        lambda: share(1.01),
        lambda: share(75),
        lambda: share(nan),
        lambda: share(inf),
        lambda: remaining(-5),
    ],
)
def test_an_impossible_amount_is_refused(make: Callable[[], Amount]) -> None:
    """B19: an amount no window could mean is a `PolicyError` that ends with what to give instead."""
    with pytest.raises(PolicyError, match=r"; give a (number|share) from 0 to") as caught:
        make()

    assert caught.value.field == "amount"


@pytest.mark.parametrize(
    ("field", "remedy", "make"),
    [
        ("prune.spare_turns", "give 0 to 1,000 turns", lambda: PrunePolicy(spare_turns=-1)),
        ("prune.spare_turns", "give 0 to 1,000 turns", lambda: PrunePolicy(spare_turns=1_001)),
        ("tail.turns", "give 0 to 10,000 turns", lambda: TailPolicy(turns=-1)),
        ("tail.turns", "give 0 to 10,000 turns", lambda: TailPolicy(turns=10_001)),
        ("tail.turns", "give at least one turn", lambda: TailPolicy(rule="turns")),
        ("tail.minimum_tokens", "give a minimum from 0", lambda: TailPolicy(minimum_tokens=-1)),
        ("tail.minimum_tokens", "give a minimum from 0", lambda: TailPolicy(minimum_tokens=9, maximum_tokens=8)),
        ("tail.minimum_tokens", "give a minimum from 0", lambda: TailPolicy(maximum_tokens=LARGEST_TOKENS + 1)),
        ("summary.minimum_tokens", "give a minimum from 1", lambda: SummaryPolicy(minimum_tokens=0)),
        ("summary.minimum_tokens", "give a minimum from 1", lambda: SummaryPolicy(maximum_tokens=255)),
        ("summary.must_keep_share", "give a share from 0 to 1", lambda: SummaryPolicy(must_keep_share=1.5)),
        ("summary.must_keep_share", "give a share from 0 to 1", lambda: SummaryPolicy(must_keep_share=-0.5)),
        ("summary.steps_share", "give a share from 0 to 1", lambda: SummaryPolicy(steps_share=1.5)),
        ("window_tokens", "give the model's window", lambda: Policy("mine", window_tokens=-1)),
        ("window_tokens", "give the model's window", lambda: Policy("mine", window_tokens=LARGEST_TOKENS + 1)),
        ("reserve_tokens", "give the tokens to keep free", lambda: Policy("mine", reserve_tokens=-1)),
        ("reserve_tokens", "give the tokens to keep free", lambda: Policy("mine", reserve_tokens=LARGEST_TOKENS + 1)),
        ("attempts", "give at least 1, or auto=False", lambda: Policy("mine", attempts=0)),
        ("attempts", "give at least 1, or auto=False", lambda: Policy("mine", attempts=-2)),
    ],
)
def test_a_number_out_of_range_is_refused(field: str, remedy: str, make: Callable[[], object]) -> None:
    """B19: a negative or absurd number is a usage error that names the field and the remedy."""
    with pytest.raises(PolicyError, match=remedy) as caught:
        make()

    assert caught.value.field == field
    assert str(caught.value).startswith(f"policy.{field}: ")
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize(
    ("trigger", "target"),
    [
        (share(0.5), share(0.5)),
        (share(0.5), share(0.6)),
        (tokens(32_000), tokens(32_000)),
        (tokens(32_000), tokens(48_000)),
        (remaining(20_000), remaining(20_000)),
        (remaining(20_000), remaining(10_000)),
    ],
)
def test_a_target_not_below_its_trigger_is_refused(trigger: Amount, target: Amount) -> None:
    """B9, B19: in one unit, a target that a compaction could never get below the trigger by cannot be built."""
    with pytest.raises(PolicyError, match="lower the target or raise the trigger") as caught:
        Policy("mine", trigger=trigger, target=target)

    assert caught.value.field == "target"


@pytest.mark.parametrize(
    ("trigger", "target"),
    [
        (share(0.75), share(0.5)),
        (tokens(48_000), tokens(32_000)),
        (remaining(10_000), remaining(20_000)),
        (share(0.75), tokens(1_000_000)),
        (share(0.75), None),
    ],
)
def test_a_target_below_its_trigger_is_taken(trigger: Amount, target: Amount | None) -> None:
    """B19: trigger and target stand as given; in mixed units the window decides, not the policy."""
    policy = Policy("mine", trigger=trigger, target=target)

    assert (policy.trigger, policy.target) == (trigger, target)


def test_a_refused_change_leaves_the_policy_as_it_was() -> None:
    """B19: a policy is a value; a change that cannot be built changes nothing."""
    with pytest.raises(PolicyError):
        replace(INFOLD, attempts=0)

    assert INFOLD is PRESETS["infold"]
    assert INFOLD.attempts is None


@pytest.mark.parametrize(("usable", "expected"), [(0, 2_000), (8_000, 2_000), (40_000, 10_000), (168_000, 15_000)])
def test_a_tail_is_held_between_its_bounds(usable: int, expected: int) -> None:
    """S1.9: the tail is a share of the usable window, never less than its minimum, never more than its maximum."""
    tail = TailPolicy(rule="tokens", size=share(0.25), minimum_tokens=2_000, maximum_tokens=15_000)

    assert tail.budget_tokens(usable) == expected


@pytest.mark.parametrize(("usable", "expected"), [(0, 256), (30_000, 3_000), (170_000, 8_000)])
def test_a_summary_is_held_between_its_bounds(usable: int, expected: int) -> None:
    """B9: a summary may take a tenth of the usable window, from 256 to 8,000 tokens, unless told otherwise."""
    assert SummaryPolicy().budget_tokens(usable) == expected


@pytest.mark.parametrize(
    ("share", "budget", "expected"),
    [(0.6, 8_000, 4_800), (0.6, 2_000, 1_400), (0.6, 1_000, 800), (0.9, 1_000, 900), (0.0, 1_000, 0)],
)
def test_a_small_summary_gives_instructions_more(share: float, budget: int, expected: int) -> None:
    """B2: the user's words get 1,400 tokens where that is no more than four fifths of a summary, else their share of it."""
    assert SummaryPolicy(must_keep_share=share).must_keep_tokens(budget) == expected


def test_opencode_and_its_port_compare_usage() -> None:
    """S5.2: what a step was reported to take is all that these presets look at; the others estimate."""
    comparing = {name for name, policy in PRESETS.items() if policy.compares_usage}

    assert comparing == {"opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive"}


WRONG: list[tuple[type[Struct], str, object, str]] = [
    (Policy, "trigger", 0.7, r"policy.trigger: 0.7 \(float\); give share\(0.8\), tokens"),
    (Policy, "target", 0.5, r"policy.target: 0.5 \(float\); give share\(0.8\).* or None"),
    (Policy, "reserve_tokens", "2k", r"policy.reserve_tokens: '2k' \(str\); give a whole number .* or None"),
    (Policy, "tail", 5, r"policy.tail: 5 \(int\); give a TailPolicy"),
    (Policy, "prune", False, r"policy.prune: False \(bool\); give a PrunePolicy"),
    (Policy, "count", "all", r"policy.count: 'all' \(str\); give one of 'input\+cache-read"),
    (Policy, "auto", "no", r"policy.auto: 'no' \(str\); give True or False"),
    (PrunePolicy, "protected_tools", ["skill"], r"policy.prune.protected_tools: .* give a frozenset of names"),
    (SummaryPolicy, "must_keep_share", "half", r"policy.summary.must_keep_share: 'half' .* give a number such as 0.5"),
]


@pytest.mark.parametrize(("kind", "field", "value", "problem"), WRONG)
def test_a_value_of_another_type_is_refused_with_what_to_give(
    kind: type[Struct], field: str, value: object, problem: str
) -> None:
    """B19: a policy with a value of another type cannot be built, and the error says what to give."""
    named = {"name": "mine"} if kind is Policy else {}
    with pytest.raises(PolicyError, match=problem):
        kind(**{**named, field: value})


@pytest.mark.parametrize("kind", [Policy, PrunePolicy, TailPolicy, SummaryPolicy, Amount])
def test_every_field_is_checked(kind: type[Struct]) -> None:
    """B19: no field of any policy takes an object that means nothing; the error is infold's own."""
    needed: dict[str, object] = (
        {"name": "mine"} if kind is Policy else {"unit": "share", "value": 0.5} if kind is Amount else {}
    )
    for field in msgspec.structs.fields(kind):
        for value in (object(), [object()], b"", 1j):
            with pytest.raises(PolicyError):
                kind(**{**needed, field.name: value})


def test_values_that_mean_the_same_are_taken() -> None:
    """B19: whole numbers for a share and a set for a frozenset are fine."""
    assert SummaryPolicy(must_keep_share=1).must_keep_share == 1
    assert "bash" in PrunePolicy(protected_tools={"bash"}).protected_tools  # type: ignore[arg-type]  # as a user may write


# How much a fold may leave.


@pytest.mark.parametrize(("memory", "expected"), [("lean", 0.05), ("balanced", 0.11), ("rich", 0.22), (0.15, 0.15)])
def test_memory_is_a_share_of_the_window(memory: str | float, expected: float) -> None:
    """B54: text and kept steps together may take a share of the usable window, whatever its size."""
    policy = INFOLD.with_memory(memory)

    assert policy.summary.budget_tokens(1_000_000) == pytest.approx(expected * 1_000_000)


@pytest.mark.parametrize("memory", ["huge", 0, 0.9, True, -0.1])
def test_an_impossible_memory_is_refused(memory: Any) -> None:
    """B54: a name that is not known, nothing, or so much that no room is left for work."""
    with pytest.raises(PolicyError, match="give 'lean', 'balanced', 'rich' or a share"):
        memory_size(memory)
