"""Builds recorded sessions whose provider counts in a known way."""

from collections.abc import Sequence

from msgspec.structs import replace

from infold.catalogue import ModelEntry, Prices
from infold.core.messages import AssistantMessage, Message, ModelRef, Usage
from infold.core.tokens import measure
from infold.replay.calls import find_calls
from infold.replay.policies import ReplaySetup
from infold.replay.prices import Tariff, cache_rules
from infold.replay.scale import MessageCounter, RequestOverhead, Scale, count_tokens
from infold.replay.simulate import Billing
from infold.session.counting import counting_for
from infold.testing.builders import calls, numbered, replies, result, user
from infold.transcripts.record import RecordedCompaction, RecordedSession

RULER = counting_for("o200k").ruler
OPENING = "Port the importer. Never touch vendor/."
PRICES = Prices(input=1.0, output=10.0, cache_read=0.1, cache_write=1.25, cache_write_hour=2.0)
ENTRY = ModelEntry("ferry-1", "quay", 200_000, family="claude", output_tokens=8_000, prices=PRICES)
STEP_MS = 10_000


def words(tokens: int, seed: str = "tide") -> str:
    """Text of about that many tokens."""
    text = " ".join(f"{seed}{number}" for number in range(tokens))
    return text[: len(text) * tokens // max(1, measure(text, RULER))]


def work(steps: int = 12, tokens: int = 800) -> tuple[Message, ...]:
    """An opening request, then steps of one call and one result each, then a closing word."""
    drafts: list[Message] = [user(OPENING)]
    for step in range(steps):
        drafts += [calls("read", arguments=f'{{"path": "f{step}.py"}}'), result(output=words(tokens, f"w{step}x"))]
    return timed(numbered([*drafts, replies("All done.")]))


def timed(messages: Sequence[Message], step_ms: int = STEP_MS) -> tuple[Message, ...]:
    """The messages at even distances in time."""
    return tuple(replace(message, created_ms=(1 + n) * step_ms) for n, message in enumerate(messages))


def with_usage(
    messages: Sequence[Message], *, factor: float = 1.25, frame: int = 0, overhead: int = 5_000
) -> tuple[Message, ...]:
    """Replies report what a provider would that counts so, and that serves from its cache all it has seen."""
    told: list[Message] = []
    seen, cached = float(overhead), 0
    for message in messages:
        if isinstance(message, AssistantMessage) and told:
            prompt = round(seen)
            message = replace(message, usage=Usage(cache_read=cached, cache_write=prompt - cached, output=20))
            cached = prompt
        calls_made = sum(type(part).__name__ == "ToolCallPart" for part in message.parts)
        seen += factor * count_tokens(message, RULER) + frame * calls_made
        told.append(message)
    return tuple(told)


def session(messages: Sequence[Message], *, compactions: Sequence[RecordedCompaction] = ()) -> RecordedSession:
    """A session of these messages."""
    return RecordedSession("s", tuple(messages), ModelRef("quay", "ferry-1"), compactions=tuple(compactions))


def setup(messages: Sequence[Message], *, overhead: int = 0, scale: Scale | None = None) -> ReplaySetup:
    """What policies meet on these messages."""
    recording = find_calls(session(messages))
    return ReplaySetup(
        recording,
        MessageCounter(RULER, scale or Scale(), opening=OPENING),
        RequestOverhead(overhead, known=True),
        ENTRY,
    )


def billing(window_tokens: int = 10_000) -> Billing:
    """What bills them."""
    return Billing(Tariff(ENTRY), cache_rules(ENTRY), window_tokens)
