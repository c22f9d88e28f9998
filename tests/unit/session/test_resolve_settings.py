"""What a model, a window and what is sent beside the messages come to."""

from typing import Any

import pytest
from msgspec import Struct

from infold.catalogue import ASSUMED_CONTEXT_TOKENS, FAMILIES, Assumed, Known, ModelEntry, Prices
from infold.core.budget import Window
from infold.core.gauge import Rates
from infold.core.messages import Message, MessageId, SystemMessage, TextPart
from infold.core.policy import INFOLD, preset
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, estimate
from infold.errors import UnknownPreset, UsageError
from infold.session.counting import count_overhead, extra_text, split_preamble
from infold.session.fit import fit
from infold.session.settings import SessionSettings, rates_of, resolve_settings, resolve_window
from infold.testing.builders import numbered, replies, user

ENTRY = ModelEntry("m", "p", 200_000, input_tokens=180_000, output_tokens=32_000)
RULES = SystemMessage(MessageId("s"), (TextPart("Be brief and true."),))


def known(entry: ModelEntry) -> Known:
    """A model that the catalogue has."""
    return Known(entry, entry.name, ())


# Terms.


def test_a_model_tells_its_window_prices_and_family() -> None:
    """B11, B15: limits and rates are the catalogue's, text is counted as the model's family does."""
    terms = resolve_settings("gpt-4o", None)

    assert terms.policy is INFOLD
    assert terms.window.context_tokens == 128_000
    assert terms.rates is not None
    assert terms.model == "gpt-4o"
    assert terms.rendering.estimate == terms.counting.ruler


def test_a_window_alone_is_enough() -> None:
    """B11: without a model there are no prices, and text is counted as most models do."""
    terms = resolve_settings(None, 8_192)

    assert (terms.window, terms.prices, terms.model) == (Window(8_192), None, "")
    assert terms.rates is not None
    assert terms.rates.is_assumed


def test_an_unknown_model_has_a_window_all_the_same() -> None:
    """B11, S1.2: what the catalogue does not know gets a cautious default, not none."""
    terms = resolve_settings("nobody/knows-this-1", None)

    assert (terms.window.context_tokens, terms.prices) == (ASSUMED_CONTEXT_TOKENS, None)


def test_a_document_counts_and_stubs_its_own_way() -> None:
    """S1.0: a preset by its name or as a value; its estimate rule wins over the family's."""
    terms = resolve_settings(None, 64_000, "opencode-1.1.57", recall=True)

    assert terms.policy is preset("opencode-1.1.57")
    assert (terms.rendering.estimate, terms.rendering.recall) == ("ceil", True)
    assert terms.rendering.stub == terms.policy.stub
    assert resolve_settings(None, 64_000, terms.policy).policy is terms.policy
    with pytest.raises(UnknownPreset):
        resolve_settings(None, 64_000, "nobody")


# Windows.


@pytest.mark.parametrize(
    ("given", "model", "window"),
    [
        (Window(9_000, 8_000), ENTRY, Window(9_000, 8_000)),
        (64_000, ENTRY, Window(64_000, output_tokens=32_000)),
        (32_000, ENTRY, Window(32_000)),
        (64_000, None, Window(64_000)),
        (None, ENTRY, Window(200_000, 180_000, 32_000)),
    ],
)
def test_what_is_given_wins(given: int | Window | None, model: ModelEntry | None, window: Window) -> None:
    """B11: a window as given, with the model's own longest answer where that is smaller; else the model's."""
    assert resolve_window(given, None if model is None else known(model)) == window


def test_an_assumed_model_has_no_known_answer() -> None:
    """B11: of a model that is only assumed, no limit is taken over into a window that was given."""
    assert resolve_window(64_000, Assumed(ENTRY, "nobody", "why")) == Window(64_000)


def test_nothing_given_is_refused() -> None:
    """B11: the error says what to pass."""
    with pytest.raises(UsageError, match="pass model="):
        resolve_window(None, None)
    with pytest.raises(UsageError, match="pass model="):
        resolve_settings(None, None)


# Rates.


@pytest.mark.parametrize(
    ("prices", "rates"),
    [
        (Prices(3.0, 15.0, cache_read=0.3, cache_write=3.75), Rates(3.75, 0.3, 15.0)),
        (Prices(3.0, 15.0, cache_read=0.3), Rates(3.0, 0.3, 15.0)),
        (Prices(3.0, 15.0), Rates(3.0, 3.0, 15.0)),
        (None, Rates(1.25, 0.1, 5.0, is_assumed=True)),
    ],
)
def test_rates_are_what_reading_costs(prices: Prices | None, rates: Rates) -> None:
    """B16: afresh at the price of writing the cache, again at that of reading it; without a cache, all afresh."""
    assert rates_of(prices, "claude") == rates


def test_rates_of_an_unknown_price_are_the_family_s_usual_ones_and_say_so() -> None:
    """B16: without a price the family's usual ratios are assumed; an unknown family has the dearest cuts of all."""
    assert rates_of(None, "glm") == Rates(1.0, 0.19, 3.2, is_assumed=True)
    assert rates_of(None, None) == rates_of(None, "other") == rates_of(None, "claude")
    assert all(rates_of(None, family).fresh / rates_of(None, family).cached <= 12.5 for family in FAMILIES)
    assert rates_of(None, None, hourly=True).is_assumed


def test_stated_prices_are_used_in_place_of_the_catalogue_s() -> None:
    """B16: stated prices count whether or not the model is known, and with a window alone."""
    prices = Prices(2.0, 8.0, cache_read=0.5)

    for model in ("claude-sonnet-4-5", "quince-9000", None):
        resolved = resolve_settings(model, 64_000, prices=prices)
        assert (resolved.prices, resolved.stated_prices) == (prices, prices)
        assert resolved.rates == Rates(2.0, 0.5, 8.0)
        assert resolved.known is None or (resolved.known.entry.prices, resolved.known.entry.tiers) == (prices, ())
    assert SessionSettings(window=64_000, prices=prices).resolve().rates == Rates(2.0, 0.5, 8.0)


@pytest.mark.parametrize(
    "prices",
    [3.0, {"input": 3.0, "output": 15.0}, Prices(-1.0, 1.0), Prices(1.0, float("nan")), Prices(1.0, float("inf"))],
)
def test_what_is_not_a_price_is_refused_where_it_is_written(prices: Any) -> None:
    """B16: a value of a wrong type, or a number that no token costs, is an error at once, in settings and in `fit`."""
    with pytest.raises(UsageError, match=r"prices"):
        SessionSettings(window=64_000, prices=prices)
    with pytest.raises(UsageError, match=r"prices"):
        fit([{"role": "user", "content": "hi"}], window=8_192, prices=prices)


def test_fit_reports_the_cost_at_stated_prices_only() -> None:
    """B16: the report's cost follows from stated prices; from assumed ones follows none."""
    messages = [{"role": "user", "content": "Port the feed."}]
    cost = fit(messages, window=8_192, prices=Prices(1_000_000.0, 1.0)).report.cost

    assert fit(messages, window=8_192).report.cost is None
    assert cost is not None
    assert sum(cost.values()) == fit(messages, window=8_192).report.tokens_after


# What is sent beside.


def test_what_is_beside_the_messages_is_counted() -> None:
    """B8: opening system messages with their frame and the system prompt, and apart from them the tools."""
    tools = [{"name": "bash", "description": "run it"}]
    overhead = count_overhead((RULES,), "Be kind.", tools, "features")

    assert overhead.system == MESSAGE_OVERHEAD_TOKENS + estimate("Be brief and true.", "features") + estimate(
        "Be kind.", "features"
    )
    assert overhead.tools == estimate('[{"name":"bash","description":"run it"}]', "features")
    assert overhead.tokens == overhead.system + overhead.tools
    assert count_overhead((), None, [], "features").tokens == 0


def test_opening_system_messages_stay_apart() -> None:
    """S3.3: those that open the list are always sent; one that comes later is part of the conversation."""
    later = SystemMessage(MessageId("t"), RULES.parts)
    said: tuple[Message, ...] = (*numbered((user(), replies())), later)

    assert split_preamble((RULES, *said)) == ((RULES,), said)
    assert split_preamble(said) == ((), said)
    assert split_preamble((RULES,)) == ((RULES,), ())
    assert split_preamble(()) == ((), ())


class Tool:
    """A tool as an SDK has it."""

    def model_dump(self, **_: Any) -> dict[str, str]:
        """As a dict."""
        return {"name": "bash"}


class Point(Struct):
    """A value of somebody's."""

    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [("plain", "plain"), ([Tool()], '[{"name":"bash"}]'), ({"a": Point(1)}, '{"a":{"x":1}}'), ([], "[]")],
)
def test_anything_that_is_json_is_text(value: object, text: str) -> None:
    """B8: text, dicts, and objects of an SDK count as what is sent."""
    assert extra_text(value) == text


def bottomless() -> list[Any]:
    """A list that holds itself."""
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize("value", [object(), [object()], bottomless(), {1.5: object()}])
def test_what_is_no_json_is_refused(value: object) -> None:
    """The error names the argument, and says what to give."""
    with pytest.raises(UsageError, match="give text, dicts or SDK objects"):
        extra_text(value)


@pytest.mark.parametrize(("policy", "context"), [("infold", ASSUMED_CONTEXT_TOKENS), ("turn-window", 64_000)])
def test_an_unknown_model_has_the_window_that_a_document_counts_on(policy: str, context: int) -> None:
    """S1.7, B11: the cautious default of an unknown model gives way to `turn-window`'s 64,000, and is still an assumption."""
    found = resolve_settings("nobody-knows-it", None, policy)

    assert (found.window.context_tokens, found.is_window_assumed) == (context, True)
    assert found.known is not None
    assert found.known.entry.context_tokens == context
