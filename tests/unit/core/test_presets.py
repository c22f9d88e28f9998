"""The named policies, value by value as the documents give them."""

import pytest

from infold.core.policy import INFOLD, PRESETS, CountRule, EstimateRule, UsableRule, preset, share, tokens
from infold.errors import UnknownPreset

DOCUMENTS = ("opencode-1.1.23", "opencode-1.1.57", "opencode-1.18", "proactive", "turn-window")
PRUNING = ("opencode-1.1.23", "opencode-1.1.57", "proactive")


def test_every_preset_is_found_by_its_name() -> None:
    """S1.0: the presets are the documents' five and `infold`, each under its own name."""
    assert set(PRESETS) == {"infold", *DOCUMENTS}
    assert all(preset(name).name == name for name in PRESETS)


@pytest.mark.parametrize("name", ["", "opencode", "Infold", "opencode-1.1.24"])
def test_an_unknown_name_is_refused(name: str) -> None:
    """S1.0: a name that is no preset is an error that lists those there are."""
    with pytest.raises(UnknownPreset, match=r"choose one of infold, opencode-1.1.23, opencode-1.1.57") as caught:
        preset(name)

    assert caught.value.name == name
    assert caught.value.known == tuple(sorted(PRESETS))


@pytest.mark.parametrize(
    ("name", "count", "usable", "reached"),
    [
        ("opencode-1.1.23", "input+cache-read+output", "input-else-less-ceiling", False),
        ("opencode-1.1.57", "total", "less-reserve", True),
        ("proactive", "total", "less-reserve", True),
        ("turn-window", "estimate", "whole", True),
        ("opencode-1.18", "total", "input-less-reserve", True),
        ("infold", "anchored", "scaled-reserve", True),
    ],
)
def test_what_is_counted_and_against_what(name: str, count: CountRule, usable: UsableRule, reached: bool) -> None:
    """S1.4, S1.5, S1.6, S1.7, S1.9: each preset has its own count, usable window and treatment of equality."""
    policy = preset(name)

    assert (policy.count, policy.usable, policy.reached) == (count, usable, reached)


@pytest.mark.parametrize(
    ("name", "rule", "stub"),
    [
        ("opencode-1.1.23", "round", "[Old tool result content cleared]"),
        ("opencode-1.1.57", "ceil", "[output truncated by compaction]"),
        ("proactive", "round", "[Output pruned]"),
        ("turn-window", "ceil", ""),
        ("opencode-1.18", "round", "[Old tool result content cleared]"),
        ("infold", "features", ""),
    ],
)
def test_how_text_is_sized_and_stubbed(name: str, rule: EstimateRule, stub: str) -> None:
    """S4.3, S7.1: each preset sizes text by its own rule and stubs with its own words."""
    policy = preset(name)

    assert (policy.estimate, policy.stub) == (rule, stub)


@pytest.mark.parametrize(
    ("name", "rule", "turns"),
    [
        ("opencode-1.1.23", "none", 0),
        ("opencode-1.1.57", "turns", 1),
        ("proactive", "turns", 2),
        ("turn-window", "turns", 6),
        ("opencode-1.18", "tokens", 0),
        ("infold", "tokens", 0),
    ],
)
def test_what_stays_verbatim(name: str, rule: str, turns: int) -> None:
    """S1.4 to S1.9: the tail is none, the last 1, 2 or 6 turns, or a number of tokens."""
    tail = preset(name).tail

    assert (tail.rule, tail.turns) == (rule, turns)


@pytest.mark.parametrize("name", PRUNING)
def test_the_documents_prune_before_every_request(name: str) -> None:
    """S1.6, S2.2, S2.4, S2.6, S2.7, S5.4: 40,000 kept, 20,000 at least, 2 turns of any user message, `skill` spared."""
    prune = preset(name).prune

    assert prune.enabled
    assert prune.timing == "every-request"
    assert (prune.keep, prune.minimum, prune.spare_turns) == (tokens(40_000), tokens(20_000), 2)
    assert not prune.genuine_turns
    assert prune.protected_tools == {"skill"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("opencode-1.1.23", False), ("opencode-1.1.57", True), ("proactive", True)],
)
def test_who_subtracts_what_pruning_freed(name: str, expected: bool) -> None:
    """S5.4: 1.1.57 and `proactive` compare the count less what was freed, 1.1.23 the usage unchanged."""
    assert preset(name).less_freed is expected


@pytest.mark.parametrize("name", ["turn-window", "opencode-1.18"])
def test_who_does_not_prune(name: str) -> None:
    """S1.7, S1.9: `turn-window` and today's OpenCode do not prune."""
    assert not preset(name).prune.enabled


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_presets_have_nothing_of_ours_switched_on(name: str) -> None:
    """S1.0: clipping, the ledger, argument pruning and cache-minded timing are off in a document preset."""
    policy = preset(name)

    assert not policy.clip
    assert not policy.summary.ledger
    assert not policy.prune.arguments
    assert policy.prune.timing == "every-request"


@pytest.mark.parametrize("name", PRESETS)
def test_everything_is_automatic_until_switched_off(name: str) -> None:
    """S1.1, S8.1: automatic work is on in every preset, and no reserve is configured."""
    assert preset(name).auto
    assert preset(name).reserve_tokens is None


@pytest.mark.parametrize("name", PRESETS)
def test_who_is_forced_by_a_reply_cut_off(name: str) -> None:
    """S5.3: finish reason `length` forces a compaction in `turn-window` and `infold` only."""
    assert preset(name).force_on_length is (name in ("turn-window", "infold"))


@pytest.mark.parametrize("name", PRESETS)
def test_who_continues(name: str) -> None:
    """S3.8: OpenCode follows every automatic compaction with a continue message; documents 002 and 003 have none."""
    others = {"infold": "adrift", "proactive": "after-reply", "turn-window": "after-reply"}
    assert preset(name).continues == others.get(name, "always")


@pytest.mark.parametrize(
    ("name", "prefix"), [("proactive", "[Conversation Summary]"), ("turn-window", "[COMPACTED_CONTEXT]")]
)
def test_how_a_summary_is_recognised(name: str, prefix: str) -> None:
    """S1.6, S1.7: two documents open a summary with words of their own, the others go by metadata."""
    assert preset(name).summary.prefix == prefix
    assert {other for other in PRESETS if preset(other).summary.prefix} == {"proactive", "turn-window"}


def test_turn_window_in_numbers() -> None:
    """S1.7: a window of 64,000, trigger 75 %, target 50 %, at most 2 attempts, mechanical cleaning as the fallback."""
    policy = preset("turn-window")

    assert (policy.window_tokens, policy.working_window_tokens) == (None, 64_000)
    assert (policy.trigger, policy.target) == (share(0.75), share(0.5))
    assert policy.attempts == 2
    assert (policy.summary.shape, policy.summary.fallback) == ("alone", "clean")
    assert policy.tail.recut
    assert not policy.tail.whole_head


def test_opencode_1_18_keeps_a_clamped_tail() -> None:
    """S1.9: the tail is a quarter of what is usable, from 2,000 to 15,000 tokens, and may begin inside a turn."""
    tail = preset("opencode-1.18").tail

    assert (tail.size, tail.minimum_tokens, tail.maximum_tokens) == (share(0.25), 2_000, 15_000)
    assert tail.split_turns
    assert tail.whole_head


def test_infold_in_numbers() -> None:
    """S1.8: trigger 95 %, target 45 %, a tail of 7.5 % from 4,000 to 20,000, a summary of 11 % up to 7,500 tokens."""
    assert (INFOLD.trigger, INFOLD.target) == (share(0.95), share(0.45))
    assert (INFOLD.tail.size, INFOLD.tail.minimum_tokens, INFOLD.tail.maximum_tokens) == (share(0.075), 4_000, 20_000)
    assert (INFOLD.summary.size, INFOLD.summary.minimum_tokens, INFOLD.summary.maximum_tokens) == (
        share(0.11),
        200,
        7_500,
    )
    assert (INFOLD.prune.keep, INFOLD.prune.minimum, INFOLD.prune.enough) == (share(0.1), share(0.1), share(0.6))
    assert (INFOLD.prune.timing, INFOLD.prune.genuine_turns, INFOLD.prune.arguments) == ("at-trigger", True, True)
    assert INFOLD.attempts is None
    assert INFOLD.window_tokens is None
