"""The provider's cache in a session: how long it lives, when a fold is free, and what its expiry cost."""

from collections.abc import Callable
from typing import Any

import pytest

from infold import Session, SessionSettings, UsageError
from infold.core.events import CacheMissed, Compacted, Event
from infold.core.messages import AssistantMessage, CacheLoss
from infold.stores.memory import MemoryStore

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
MODEL = "claude-opus-4-6"
FRESH, HOURLY, CACHED = 6.25, 10.0, 0.5
"""The model's prices for a write, a write for an hour, and a read, for a million tokens."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ms

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ms += int(seconds * 1_000)


class Driven:
    """A session over Anthropic's wire whose replies report what a test says."""

    def __init__(self, **settings: Any) -> None:
        self.clock, self.store = Clock(), MemoryStore()
        self.events: list[Event] = []
        self.settings: dict[str, Any] = {
            "model": MODEL,
            "format": "anthropic-messages",
            "now_ms": self.clock,
        } | settings
        self.session = self.open()

    def open(self) -> Session:
        """Open the session, as another process would."""
        return Session(self.store, "s", SessionSettings(**self.settings, on_event=self.events.append))

    def ask(self, text: str = "go on", *, mark: dict[str, Any] | None = None, **extras: Any) -> None:
        """Prepare the next request."""
        block = {"type": "text", "text": text, **(mark or {})}
        self.session.prepare_new([{"role": "user", "content": [block]}], **extras)

    def answer(self, read: int, written: int, **fields: Any) -> None:
        """Record a reply that read and wrote so much of the cache."""
        usage = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": read}
        usage |= {"cache_creation_input_tokens": written} | fields.pop("usage", {})
        content = [{"type": "text", "text": "done"}]
        self.session.record(
            {"role": "assistant", "content": content, "stop_reason": "end_turn", "usage": usage, **fields}
        )

    @property
    def newest(self) -> AssistantMessage:
        """The newest reply, as another process reads it."""
        message = self.open().log.live[-1].message
        assert isinstance(message, AssistantMessage)
        return message

    @property
    def is_cold(self) -> bool:
        """Whether another process takes the cache for expired now."""
        return self.open()._context.plan_inputs(self.open().log).is_cold

    @property
    def missed(self) -> list[CacheMissed]:
        """The misses reported so far."""
        return [event for event in self.events if isinstance(event, CacheMissed)]


@pytest.mark.parametrize(
    ("settings", "mark", "extras", "usage", "seconds"),
    [
        ({}, None, {}, {}, 300),
        ({"model": "gpt-5.6-sol"}, None, {}, {}, 1_800),
        ({"model": None, "window": 50_000}, None, {}, {}, 300),
        ({"cache_seconds": 900}, None, {}, {}, 900),
        ({"cache_seconds": 900}, HOUR, {}, {}, 3_600),
        ({}, None, {"cache_seconds": 86_400}, {}, 86_400),
        ({}, HOUR, {"cache_seconds": 60}, {}, 60),
        ({}, None, {"system": [{"type": "text", "text": "Be brief."} | HOUR]}, {}, 3_600),
        ({"cache_seconds": 900}, None, {}, {"cache_creation": {"ephemeral_1h_input_tokens": 8_000}}, 3_600),
        ({"cache_seconds": 900}, None, {}, {"cache_creation": {"ephemeral_1h_input_tokens": 3_000}}, 900),
    ],
)
def test_the_lifetime_is_stored_with_the_reply(
    settings: dict[str, Any], mark: dict[str, Any] | None, extras: dict[str, Any], usage: dict[str, Any], seconds: int
) -> None:
    """B16: as the request asks for, else as the reply's usage shows, else as the settings or the catalogue say."""
    driven = Driven(**settings)
    driven.ask(mark=mark, **extras)
    driven.answer(0, 8_000, usage=usage)

    assert driven.newest.cache_seconds == seconds
    driven.clock.wait(seconds)
    assert not driven.is_cold
    driven.clock.wait(1)
    assert driven.is_cold


def test_responses_repeats_what_was_applied() -> None:
    """B16: a reply that states the retention is believed before anything else."""
    driven = Driven(format="openai-responses", model="gpt-5.6-sol")
    driven.session.prepare([{"role": "user", "content": "hi"}])
    content = [{"type": "output_text", "text": "done"}]
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    reply = {"output": [{"type": "message", "role": "assistant", "content": content}], "usage": usage}
    driven.session.record(reply | {"prompt_cache_options": {"mode": "implicit", "ttl": "12h"}})

    assert driven.newest.cache_seconds == 43_200


@pytest.mark.parametrize("seconds", [0, -1, True, 1.5, "1h"])
def test_a_wrong_lifetime_is_refused(seconds: Any) -> None:
    """S8.1: the lifetime is a whole number of seconds from 1 on."""
    with pytest.raises(UsageError, match="cache_seconds"):
        SessionSettings(model=MODEL, cache_seconds=seconds)


def test_a_wrong_lifetime_of_a_request_is_refused() -> None:
    """The same for the lifetime that is given with a request."""
    with pytest.raises(UsageError, match="cache_seconds"):
        Driven().ask(cache_seconds="1h")


def begun(lifetime: dict[str, Any] | None = None, **settings: Any) -> Driven:
    """A session of one request of 100,000 tokens, all of them cached."""
    driven = Driven(**settings)
    driven.ask(mark=lifetime)
    driven.answer(0, 100_000)
    return driven


@pytest.mark.parametrize(("mark", "seconds", "price"), [(None, 300, FRESH), (HOUR, 3_600, HOURLY)])
def test_an_expired_cache_is_reported(mark: dict[str, Any] | None, seconds: int, price: float) -> None:
    """B22: the pause, the lifetime, the tokens read again and their extra cost, at the price of that lifetime."""
    driven = begun(mark)
    driven.clock.wait(seconds + 60)
    driven.ask(mark=mark)
    driven.clock.wait(500)  # the reply takes its time; the request was sent before
    driven.answer(0, 100_500)

    cost = pytest.approx(100_003 * (price - CACHED) / 1e6)
    assert driven.missed == [CacheMissed("s", "expired", 100_003, driven.missed[0].cost, seconds + 60, seconds)]
    assert driven.missed[0].cost == cost
    assert driven.newest.cache_loss == CacheLoss(100_003, driven.missed[0].cost)


def test_a_cache_that_served_is_not_reported() -> None:
    """B22: neither a request within the lifetime, nor one that was served after it, nor one of a provider without a cache."""
    soon, served, uncached = begun(), begun(), Driven()
    uncached.ask()
    uncached.answer(0, 0, usage={"input_tokens": 100_000})
    for driven, pause, read in ((soon, 299, 0), (served, 900, 60_000), (uncached, 900, 0)):
        driven.clock.wait(pause)
        driven.ask()
        driven.answer(read, 100_500 - read)

    assert [driven.missed for driven in (soon, served, uncached)] == [[], [], []]
    assert served.newest.cache_loss is None


def test_a_request_that_infold_changed_misses_only_what_comes_first() -> None:
    """B22: after a fold only system prompt and tools could have been cached."""
    driven = Driven(window=60_000)
    for _ in range(12):
        driven.ask("Port the parser. " * 400)
        driven.answer(8_000, 20_000)
    driven.clock.wait(900)
    driven.ask()
    driven.session.compact()
    driven.answer(0, 9_000)

    assert any(isinstance(event, Compacted) for event in driven.events)
    assert driven.missed == []


def reason(kind: str, tokens: int = 0) -> dict[str, Any]:
    """A reply's field with the provider's diagnosis."""
    return {"diagnostics": {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": tokens}}}


@pytest.mark.parametrize(
    ("pause", "fields", "expected"),
    [
        (10, reason("tools_changed", 7_000), ("changed", 7_000, "tools_changed")),
        (900, reason("system_changed", 7_000), ("changed", 7_000, "system_changed")),
        (10, reason("messages_changed"), ("changed", 100_003, "messages_changed")),
        (900, reason("previous_message_not_found"), ("expired", 100_003, "previous_message_not_found")),
        (900, {"diagnostics": {"cache_miss_reason": None}}, ("expired", 100_003, "")),
        (10, reason("unavailable"), None),
    ],
)
def test_the_providers_reason_is_believed(
    pause: int, fields: dict[str, Any], expected: tuple[str, int, str] | None
) -> None:
    """B22: what the provider says changed did not expire; if it knows no reason, the clock decides."""
    driven = begun()
    driven.clock.wait(pause)
    driven.ask()
    driven.answer(0, 100_500, **fields)

    told = [(event.cause, event.tokens, event.reported) for event in driven.missed]
    assert told == ([] if expected is None else [expected])
    assert (driven.newest.cache_loss is not None) == (expected is not None and expected[0] == "expired")


def test_a_change_of_the_model_is_no_expiry() -> None:
    """B22: another model has another cache."""
    driven = begun()
    driven.clock.wait(900)
    driven.settings["model"] = "claude-sonnet-4-5"
    driven.session = driven.open()
    driven.ask()
    driven.answer(0, 100_500)

    assert driven.missed == []


def test_an_unknown_price_is_no_cost() -> None:
    """B22: without known prices the tokens are told alone."""
    driven = begun(model="someone/unheard-of", window=500_000)
    driven.clock.wait(900)
    driven.ask()
    driven.answer(0, 100_500)

    assert [(event.tokens, event.cost) for event in driven.missed] == [(100_003, 0.0)]


@pytest.mark.parametrize("change", [lambda reply: reply, lambda reply: [reply]], ids=["object", "list"])
def test_a_first_reply_misses_nothing(change: Callable[[Any], Any]) -> None:
    """Without an earlier reply there is nothing that a cache could have served."""
    driven = Driven()
    driven.ask()
    driven.answer(0, 100_000, diagnostics=change(reason("tools_changed", 7)["diagnostics"]))

    assert driven.missed == []
