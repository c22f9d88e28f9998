"""From our count of tokens to the provider's, as a session's own usage tells it.

Providers count more than a public tokeniser does, add a frame to every tool call, and send what no record holds: the system
prompt, the tools, hidden reminders. The growth of the recorded prompts gives the factor and the frame, the first recorded
prompt gives the rest. Recorded usage is used for this and never to steer a policy.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from infold.core.messages import Message, calls_of, results_of
from infold.core.policy import Ruler
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure, measure_part
from infold.replay.calls import RecordedCall, RecordedRun
from infold.replay.prices import HOUR_SECONDS, Block

FEWEST_STEPS = 5
"""Fewer recorded steps than this teach one factor at most, and below three nothing."""

SMALLEST_FACTOR, LARGEST_FACTOR = 0.7, 2.5
"""No tokeniser measured is outside this span of o200k; what is, was taught by something that is not in the record."""

LARGEST_FRAME_TOKENS = 600
"""What a tool call may add beside its text; the sessions measured are between 0 and 200, hidden reminders included."""

HIDDEN_FACTOR, HIDDEN_TOKENS = 3.0, 2_000
"""A prompt that grew by more than this much of what was recorded holds something that was not; it teaches nothing."""

SHRINK_SHARE = 0.05
"""A prompt that is smaller than the one before by more than this was shortened, whether the record says so or not."""


class Scale(Struct, frozen=True):
    """The provider's tokens for each of ours, and those it adds for each tool call; `steps` is how many taught it."""

    factor: float = 1.0
    call_tokens: float = 0.0
    steps: int = 0

    def tokens(self, count: int, calls: int = 0) -> int:
        """What the provider counts."""
        return round(self.factor * count + self.call_tokens * calls)


PLAIN = Scale()
"""Our own count, where a record teaches nothing."""


class RequestOverhead(Struct, frozen=True):
    """What is sent beside the messages: the beginning that other sessions share, and the rest of it."""

    shared_tokens: int = 0
    own_tokens: int = 0
    warm: bool = False
    known: bool = False

    @property
    def tokens(self) -> int:
        """All of it."""
        return self.shared_tokens + self.own_tokens


class CountedMessage(Struct, frozen=True):
    """A message as a replay needs it: its block, its calls and results, and whether it holds the user's first words."""

    block: Block
    call_ids: tuple[str, ...] = ()
    result_ids: tuple[str, ...] = ()
    has_opening: bool = False


class MessageCounter:
    """Weighs each message once, however many requests it stands in; equal content is an equal block."""

    def __init__(self, ruler: Ruler, scale: Scale = PLAIN, *, opening: str = "") -> None:
        self.ruler = ruler
        self.scale = scale
        self._opening = _squeeze(opening)
        self._known: dict[int, tuple[Message, CountedMessage]] = {}
        self._blocks: dict[object, Block] = {}

    def weigh(self, message: Message) -> CountedMessage:
        """What is known of a message."""
        found = self._known.get(id(message))
        if found is None:  # the message is kept with it, so that its id stays its own
            found = self._known[id(message)] = (message, self._weighed(message))
        return found[1]

    def tokens(self, messages: Sequence[Message]) -> int:
        """The provider's count of these messages."""
        return sum(self.weigh(message).block.tokens for message in messages)

    def padding(self, name: str, tokens: int) -> Block:
        """A block of content that nobody recorded, under a name of its own."""
        return self._block(("padding", name, tokens), tokens)

    def _weighed(self, message: Message) -> CountedMessage:
        calls, results = calls_of(message), results_of(message)
        tokens = self.scale.tokens(count_tokens(message, self.ruler), len(calls))
        return CountedMessage(
            self._block((type(message).__name__, message.parts), tokens),
            tuple(call.call_id for call in calls),
            tuple(result.call_id for result in results),
            bool(self._opening) and self._opening in _squeeze(_words_of(message)),
        )

    def _block(self, content: object, tokens: int) -> Block:
        found = self._blocks.get(content)
        if found is None:
            found = self._blocks[content] = Block(len(self._blocks), tokens)
        return found


def count_tokens(message: Message, ruler: Ruler) -> int:
    """Our own count of a message."""
    return MESSAGE_OVERHEAD_TOKENS + sum(measure_part(part, ruler) for part in message.parts)


def _words_of(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if hasattr(part, "text"))


def _squeeze(text: str) -> str:
    return " ".join(text.split())


# Learning from the record.


class _Step(Struct, frozen=True):
    """From one recorded prompt to the next: what was added by our count, in how many calls, and how much it grew."""

    count: int
    calls: int
    grown: int


def learn_scale(recording: RecordedRun, ruler: Ruler) -> Scale:
    """The scale that the growth of a session's recorded prompts teaches; the plain count where it teaches nothing."""
    steps = [step for step in _steps(recording, ruler) if _teaches(step)]
    if len(steps) < 3:
        return PLAIN
    count, grown = sum(step.count for step in steps), sum(step.grown for step in steps)
    plain = Scale(min(LARGEST_FACTOR, max(SMALLEST_FACTOR, grown / count)), steps=len(steps))
    return (_with_frame(steps) if len(steps) >= FEWEST_STEPS else None) or plain


def _teaches(step: _Step) -> bool:
    return step.count > 0 and 0 < step.grown <= HIDDEN_FACTOR * step.count + HIDDEN_TOKENS


def _with_frame(steps: list[_Step]) -> Scale | None:
    """Factor and frame together, such that the whole growth is met and the error does not depend on a step's size."""
    counts, calls = sum(step.count for step in steps), sum(step.calls for step in steps)
    squares, products = sum(step.count**2 for step in steps), sum(step.count * step.calls for step in steps)
    grown, weighted = sum(step.grown for step in steps), sum(step.count * step.grown for step in steps)
    determinant = counts * products - calls * squares
    if determinant == 0:
        return None
    factor = (grown * products - calls * weighted) / determinant
    frame = (counts * weighted - squares * grown) / determinant
    plausible = SMALLEST_FACTOR <= factor <= LARGEST_FACTOR and 0 <= frame <= LARGEST_FRAME_TOKENS
    return Scale(factor, frame, len(steps)) if plausible else None


def _steps(recording: RecordedRun, ruler: Ruler) -> Iterator[_Step]:
    messages = recording.session.messages
    for before, after in pairwise(recording.calls):
        if before.usage is None or after.usage is None or recording.compactions_before(after):
            continue
        added = messages[before.end : after.end]
        yield _Step(
            sum(count_tokens(message, ruler) for message in added),
            sum(len(calls_of(message)) for message in added),
            after.usage.prompt - before.usage.prompt,
        )


def learn_overhead(recording: RecordedRun, weigher: MessageCounter) -> RequestOverhead:
    """What stood beside the messages of the first recorded prompt; without one, the recorded system prompt and tools."""
    session = recording.session
    first = next((call for call in recording.calls if call.usage is not None), None)
    if first is None or first.usage is None:
        stated = sum(measure(text, weigher.ruler) for text in (session.system, session.tools))
        return RequestOverhead(weigher.scale.tokens(stated), known=bool(stated))
    beside = max(0, first.usage.prompt - weigher.tokens(session.messages[: first.end]))
    served = [call.usage.cache_read for call in _beginnings(recording) if call.usage and call.usage.cache_read]
    shared = min((beside, *served)) if served else beside
    return RequestOverhead(shared, beside - shared, warm=first.usage.cache_read >= shared > 0, known=True)


def _beginnings(recording: RecordedRun) -> Iterator[RecordedCall]:
    """The calls whose prompts had nothing but the overhead in common with any before: the first, and after a compaction."""
    for call in recording.calls:
        if call.number == 0 or recording.compactions_before(call):
            yield call


def shrinks_between(before: RecordedCall, after: RecordedCall) -> bool:
    """Whether the recorded prompt became so much smaller that something was taken out of it."""
    if before.usage is None or after.usage is None:
        return False
    return after.usage.prompt < before.usage.prompt * (1 - SHRINK_SHARE)


def learn_lifetime(recording: RecordedRun, lifetime_seconds: int) -> int:
    """How long entries lived in the recorded run: an hour if most pauses beyond the stated lifetime did no harm."""
    if lifetime_seconds >= HOUR_SECONDS:
        return lifetime_seconds
    verdicts = [
        _was_served(before, after)
        for before, after in pairwise(recording.calls)
        if lifetime_seconds < _pause_seconds(before, after) < HOUR_SECONDS and not _is_new(recording, before, after)
    ]
    return HOUR_SECONDS if 2 * sum(verdicts) > len(verdicts) else lifetime_seconds


def _is_new(recording: RecordedRun, before: RecordedCall, after: RecordedCall) -> bool:
    return bool(recording.compactions_before(after)) or shrinks_between(before, after)


def _was_served(before: RecordedCall, after: RecordedCall) -> bool:
    assert before.usage is not None
    assert after.usage is not None
    return 2 * after.usage.cache_read > before.usage.prompt


def _pause_seconds(before: RecordedCall, after: RecordedCall) -> float:
    if before.usage is None or after.usage is None or before.answered_ms is None or after.sent_ms is None:
        return 0.0
    return (after.sent_ms - before.answered_ms) / 1_000


def unexplained_misses(recording: RecordedRun, lifetime_seconds: int) -> Mapping[int, int]:
    """Calls that the cache should have served by time and content and did not, with the tokens it served.

    A setting was changed, or the provider sent the call elsewhere: it would have met any policy. A record without a single
    cached token tells nothing of the cache.
    """
    if not any(call.usage is not None and call.usage.cache_read for call in recording.calls):
        return {}
    return {
        after.number: after.usage.cache_read
        for before, after in pairwise(recording.calls)
        if before.usage is not None
        and after.usage is not None
        and not _is_new(recording, before, after)
        and _pause_seconds(before, after) <= lifetime_seconds
        and not _was_served(before, after)
    }
