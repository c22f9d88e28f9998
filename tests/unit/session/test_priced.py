"""Where price is a reason to fold: at known prices of a paid API, and not where tokens cost nothing."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold import Session, SessionSettings, open_store
from infold.catalogue import Prices
from infold.catalogue.served import is_paid
from infold.core.events import Compacted, Event, Pruned
from infold.core.policy import INFOLD, PriceUse
from infold.errors import UsageError
from infold.formats.registry import OPENAI_CHAT
from infold.formats.requests import ProviderRequest
from infold.proxy.sessions import settings_for

WINDOW, STEPS = 64_000, 60
PRICES = Prices(1.25, 10.0, cache_read=0.125)
LINE = "Anna 123 of Husum, 44 m, berth 3, leaves at 12:15\n"


def made(**given: Any) -> list[Compacted | Pruned]:
    """Play a session of 60 steps of some 450 tokens, each recorded; return its folds and prunings."""
    events: list[Event] = []
    settings = SessionSettings(window=WINDOW, on_event=events.append, now_ms=lambda: 0, **given)
    items: list[dict[str, Any]] = [{"role": "user", "content": "Count the ships. Never guess."}]
    with open_store("memory") as store, Session(store, "s", settings) as session:
        for number in range(STEPS):
            session.prepare(items)
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            reply = {"role": "assistant", "content": None, "tool_calls": [call]}
            session.record({"choices": [{"message": reply, "finish_reason": "tool_calls"}]})
            items += [reply, {"role": "tool", "tool_call_id": f"c{number}", "content": f"file {number}\n" + LINE * 20}]
    return [event for event in events if isinstance(event, Compacted | Pruned)]


def folds(**given: Any) -> list[Compacted]:
    """Play it without pruning; return its folds."""
    return [event for event in made(**{"policy": FOLDS, **given}) if isinstance(event, Compacted)]


@pytest.mark.parametrize(
    "given",
    [
        {"model": "ollama/llama3.1:8b"},
        {"model": "qwen3-coder:30b"},
        {"model": "my-deployment"},
        {"model": "github-copilot/gpt-5"},
        {"model": "chatgpt/gpt-5.2"},
        {},
        {"model": "gpt-5", "priced": "never"},
        {"model": "gpt-5", "policy": replace(INFOLD, priced="never")},
        {"model": "my-deployment", "prices": Prices(0.0, 0.0)},
    ],
)
def test_nothing_is_done_for_its_price_where_tokens_cost_nothing(given: dict[str, Any]) -> None:
    """B16, B55: a local or unknown model, a subscription, a price of zero: the window alone is a reason to fold or prune."""
    assert made(**given) == []


@pytest.mark.parametrize(
    "given",
    [
        {"model": "gpt-5"},
        {"model": "my-deployment", "prices": PRICES},
        {"prices": PRICES},
        {"model": "github-copilot/gpt-5", "prices": PRICES},
        {"model": "gpt-5", "policy": replace(FOLDS, priced="never"), "priced": "auto"},
    ],
)
def test_known_prices_are_a_reason_and_the_saving_is_stated(given: dict[str, Any]) -> None:
    """B16, B55: the catalogue's prices of a paid API, or stated ones; the event has the reason and the sum."""
    found = folds(**given)

    assert {fold.reason for fold in found} == {"price"}
    assert all(fold.saving > 0 and fold.saving_tokens > 0 and not fold.is_price_assumed for fold in found)


def test_always_assumes_prices_and_says_so() -> None:
    """B16, B55: what `always` saves is stated in tokens of input, since ratios are no money."""
    found = folds(model="ollama/llama3.1:8b", priced="always")

    assert {fold.reason for fold in found} == {"price"}
    assert all(fold.is_price_assumed and fold.saving == 0.0 and fold.saving_tokens > 0 for fold in found)


@pytest.mark.parametrize(
    "given", [{"model": "gpt-5"}, {"prices": PRICES}, {"model": "ollama/llama3.1:8b", "priced": "always"}]
)
def test_price_is_a_reason_to_prune_where_that_costs_no_more(given: dict[str, Any]) -> None:
    """B16: where requests after a pruning cost as little as after a fold, stubs make the room, and for the same reason."""
    found = made(**given)

    assert {(type(event), event.reason) for event in found} == {(Pruned, "price")}
    assert all(event.tokens_after < event.tokens_before / 2 for event in found)


def test_an_unknown_word_for_priced_is_refused() -> None:
    """B16, B55: the error names the setting and the words it takes."""
    with pytest.raises(UsageError, match="priced is 'sometimes'; give 'auto', 'always' or 'never'"):
        SessionSettings(window=WINDOW, priced="sometimes")  # type: ignore[arg-type]  # what is tested


OAUTH = {"authorization": "Bearer sk-ant-oat01-AAAA"}


@pytest.mark.parametrize(
    ("host", "headers", "expected"),
    [
        ("api.anthropic.com", {"x-api-key": "sk-ant-api03-AAAA"}, True),
        ("api.openai.com", {"authorization": "Bearer sk-proj-AAAA"}, True),
        ("gateway.example.com:8443", {}, True),
        ("", {}, True),
        ("api.anthropic.com", OAUTH, False),
        ("api.anthropic.com", {"anthropic-beta": "claude-code-20250219,oauth-2025-04-20"}, False),
        ("", OAUTH, False),
        ("chatgpt.com", {}, False),
        ("api.openai.com", {"chatgpt-account-id": "a1"}, False),
        ("api.githubcopilot.com", {}, False),
        ("api.individual.githubcopilot.com", {}, False),
        ("cloudcode-pa.googleapis.com", {}, False),
        ("127.0.0.1:11434", {}, False),
        ("[::1]:8000", {}, False),
        ("localhost:1234", {}, False),
        ("ollama:11434", {}, False),
        ("10.1.2.3", {}, False),
        ("192.168.0.7:8080", {}, False),
        ("llm.corp.internal", {}, False),
    ],
)
def test_a_request_is_paid_by_its_address_and_credential(
    host: str, headers: Mapping[str, str], *, expected: bool
) -> None:
    """B16, B55: neither at a local or private address nor with the login of a subscription."""
    assert is_paid(host, headers) is expected


@pytest.mark.parametrize(
    ("stated", "prices", "paid", "expected"),
    [
        (None, None, True, None),
        (None, None, False, "never"),
        ("auto", None, False, "never"),
        ("always", None, False, "always"),
        ("never", None, True, "never"),
        (None, PRICES, False, None),
    ],
)
def test_where_tokens_cost_nothing_a_proxy_does_not_fold_for_price(
    stated: PriceUse | None, prices: Prices | None, *, paid: bool, expected: PriceUse | None
) -> None:
    """B16, B55: `auto` goes by the request; a stated price and `always` win over it."""
    settings = SessionSettings(window=WINDOW, priced=stated, prices=prices)

    assert settings_for(settings, ProviderRequest(OPENAI_CHAT, (), is_paid=paid)).priced == expected
    by_preset = settings_for(replace(settings, policy="turn-window"), ProviderRequest(OPENAI_CHAT, (), is_paid=paid))
    assert by_preset.priced == (None if stated is None else expected)
