"""Rules that were planted in the user's words, after ten compactions and more with hostile tool output."""

from collections.abc import Iterator
from functools import cache

import pytest
from tests.support.planted_rules import TONGUES, PlantedSession, planted_session
from tests.support.play import play
from tests.support.policies import FOLDS

from infold.core.budget import Window, budget_for
from infold.core.checkpoint_text import RULES
from infold.core.gauge import PlanInputs
from infold.core.messages import text_of
from infold.core.policy import INFOLD, Policy
from infold.testing.builders import log_of


class Seen:
    """A planted session after its last request, and how often it was folded on the way."""

    def __init__(self, language: str, window: int, policy: Policy) -> None:
        inputs = PlanInputs(policy, budget_for(Window(window), policy), overhead_tokens=500)
        self.planted: PlantedSession = planted_session(language, window=window)
        self.folds = 0
        for played in play(log_of(()), self.planted.messages, inputs):
            self.folds += sum(type(step).__name__ == "Fold" for step in played.compaction.steps)
        self.view = "\n\n".join(text_of(message) for message in played.request)

    def blocks(self, heading: str) -> Iterator[str]:
        """Yield the blocks of the view under a heading."""
        return (block for block in self.view.split("\n\n") if block.startswith(heading.split(",")[0]))


@cache
def seen(language: str, window: int, policy: Policy = FOLDS) -> Seen:
    """A planted session, played once."""
    return Seen(language, window, policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "least"), [(16_000, 0.92), (32_000, 0.98), pytest.param(64_000, 0.98, marks=pytest.mark.long)]
)
@pytest.mark.parametrize(("policy", "folds"), [(INFOLD, 1), (FOLDS, 10)], ids=["prunes or folds", "folds"])
def test_planted_rules_stand_word_for_word(window: int, least: float, policy: Policy, folds: int) -> None:
    """B38: rules with and without marking words, in six languages, alone, in long messages and next to pastes."""
    all_seen = [seen(language, window, policy) for language in TONGUES]
    kept = [rule in one.view for one in all_seen for rule in one.planted.rules]

    assert min(one.folds for one in all_seen) >= folds
    assert sum(kept) / len(kept) >= least


@pytest.mark.slow
@pytest.mark.parametrize("language", TONGUES)
@pytest.mark.parametrize("window", [16_000, 32_000])
def test_rules_stand_with_later_words(language: str, window: int) -> None:
    """B48: wherever a rule stands that the user took back, the beginning of the words that took it back stands behind it."""
    one = seen(language, window)

    for rule, words in one.planted.revoked:
        assert one.view.count(rule) == one.view.count(f'{rule} (later: "{words[:45]}') > 0


@pytest.mark.slow
@pytest.mark.parametrize("language", TONGUES)
def test_rules_are_followed_by_later_words(language: str) -> None:
    """B48: where what took a rule back may still stand in the view itself, it comes after the rule, as it was said."""
    one = seen(language, 32_000, INFOLD)

    for rule, words in one.planted.revoked:
        assert words[:45] in one.view.rpartition(rule)[2]


@pytest.mark.slow
@pytest.mark.parametrize("language", TONGUES)
def test_an_order_for_one_turn_is_no_rule_afterwards(language: str) -> None:
    """B38: what the user said for one turn is not among the rules once the turn is over."""
    one = seen(language, 32_000)

    assert list(one.blocks(RULES))
    assert all(one.planted.once not in block for block in one.blocks(RULES))
