"""D8: a reserve that was configured is kept free, whether the model limits its input apart or not."""

import pytest
from msgspec.structs import replace

from infold import Window, fit
from infold.core.budget import budget_for
from infold.core.policy import INFOLD, preset
from infold.formats.registry import OPENAI_CHAT

from ..invariants.scenes import conversation, written  # noqa: TID252 - `tests` is no package to name

WINDOWS = (
    Window(200_000),
    Window(200_000, output_tokens=8_000),
    Window(200_000, 180_000),
    Window(64_000, None, 64_000),
)


@pytest.mark.parametrize("name", ["infold", "opencode-1.1.57", "proactive"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("reserve_tokens", [0, 1_000, 12_345, 50_000])
def test_d08_usable_is_the_window_less_the_reserve(name: str, window: Window, reserve_tokens: int) -> None:
    """S1.5, S1.8, B19: in every window, to the token; a reserve of nothing is one too."""
    policy = replace(preset(name), reserve_tokens=reserve_tokens)
    wanted = window.context_tokens - reserve_tokens
    if window.input_tokens is not None:
        wanted = min(wanted, window.input_tokens) if name == "infold" else window.input_tokens - reserve_tokens

    assert budget_for(window, policy).usable_tokens == wanted


def test_d08_a_document_that_ignores_it_says_so() -> None:
    """S1.9: today's OpenCode looks at the reserve only where the input is limited apart; its preset does as it does."""
    policy = replace(preset("opencode-1.18"), reserve_tokens=50_000)

    assert budget_for(Window(200_000, 180_000, 32_000), policy).usable_tokens == 130_000
    assert budget_for(Window(200_000, None, 32_000), policy).usable_tokens == 168_000


@pytest.mark.parametrize("reserve_tokens", [0, 6_000, 12_000])
def test_d08_what_is_sent_leaves_it_free(reserve_tokens: int) -> None:
    """B8, B19: the request and the reserve together fit the window."""
    items = written(OPENAI_CHAT, conversation(80))
    fitted = fit(items, window=20_000, policy=replace(INFOLD, reserve_tokens=reserve_tokens))

    assert fitted.report.changed
    assert fitted.report.budget.limit_tokens == 20_000 - reserve_tokens
    assert fitted.report.upper_tokens + reserve_tokens <= 20_000
