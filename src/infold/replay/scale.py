"""Convert our count of tokens to the provider's, learned from a session's own usage.

Providers count more than a public tokeniser, add a frame to every tool call, and receive what no record holds: system
prompt, tools, hidden reminders. The growth of the recorded prompts gives the factor and the frame, the first recorded
prompt the rest. Recorded usage never steers a policy.
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
"""With fewer steps only the factor is learned, and with fewer than three nothing."""

SMALLEST_FACTOR, LARGEST_FACTOR = 0.7, 2.5
"""No tokeniser measured is outside this range of o200k; a value outside it comes from unrecorded content."""

LARGEST_FRAME_TOKENS = 600
"""The most a tool call adds to its text; measured sessions have 0 to 200, hidden reminders included."""

HIDDEN_FACTOR, HIDDEN_TOKENS = 3.0, 2_000
"""A prompt that grew by more than this multiple of what was recorded has unrecorded content and is ignored."""

SHRINK_SHARE = 0.05
"""A prompt that is smaller than the previous one by more than this was shortened, recorded or not."""


class Scale(Struct, frozen=True):
    """The provider's tokens per token of ours, and per tool call; `steps` is the number of samples."""

    factor: float = 1.0
    call_tokens: float = 0.0
    steps: int = 0

    def tokens(self, count: int, calls: int = 0) -> int:
        """Return the provider's count."""
        return round(self.factor * count + self.call_tokens * calls)


PLAIN = Scale()
"""Our own count, for a record without usage."""


class RequestOverhead(Struct, frozen=True):
    """The tokens of system prompt and tools: the start that other sessions share, and the rest."""

    shared_tokens: int = 0
    own_tokens: int = 0
    warm: bool = False
    known: bool = False

    @property
    def tokens(self) -> int:
        """The whole overhead."""
        return self.shared_tokens + self.own_tokens


class CountedMessage(Struct, frozen=True):
    """A message for a replay: its block, its calls and results, and whether it has the user's first request."""

    block: Block
    call_ids: tuple[str, ...] = ()
    result_ids: tuple[str, ...] = ()
    has_opening: bool = False


class MessageCounter:
    """Count each message once, however many requests it is in; equal content is an equal block."""

    def __init__(self, ruler: Ruler, scale: Scale = PLAIN, *, opening: str = "") -> None:
        self.ruler = ruler
        self.scale = scale
        self._opening = _squeeze(opening)
        self._known: dict[int, tuple[Message, CountedMessage]] = {}
        self._blocks: dict[object, Block] = {}

    def count(self, message: Message) -> CountedMessage:
        """Return a message's block, calls and results."""
        found = self._known.get(id(message))
        if found is None:  # the message is kept with it, so that its id stays its own
            found = self._known[id(message)] = (message, self._measure(message))
        return found[1]

    def tokens(self, messages: Sequence[Message]) -> int:
        """Return the provider's count of these messages."""
        return sum(self.count(message).block.tokens for message in messages)

    def padding(self, name: str, tokens: int) -> Block:
        """Return a named block for unrecorded content."""
        return self._block(("padding", name, tokens), tokens)

    def _measure(self, message: Message) -> CountedMessage:
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
    """Return our own count of a message."""
    return MESSAGE_OVERHEAD_TOKENS + sum(measure_part(part, ruler) for part in message.parts)


def _words_of(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if hasattr(part, "text"))


def _squeeze(text: str) -> str:
    return " ".join(text.split())


# Learning from the record.


class _Step(Struct, frozen=True):
    """From one recorded prompt to the next: our count of what was added, the number of calls, and the growth."""

    count: int
    calls: int
    grown: int


def learn_scale(recording: RecordedRun, ruler: Ruler) -> Scale:
    """Return the scale learned from the growth of the recorded prompts; the plain count if that is not possible."""
    steps = [step for step in _steps(recording, ruler) if _teaches(step)]
    if len(steps) < 3:
        return PLAIN
    count, grown = sum(step.count for step in steps), sum(step.grown for step in steps)
    plain = Scale(min(LARGEST_FACTOR, max(SMALLEST_FACTOR, grown / count)), steps=len(steps))
    return (_with_frame(steps) if len(steps) >= FEWEST_STEPS else None) or plain


def _teaches(step: _Step) -> bool:
    return step.count > 0 and 0 < step.grown <= HIDDEN_FACTOR * step.count + HIDDEN_TOKENS


def _with_frame(steps: list[_Step]) -> Scale | None:
    """Fit factor and frame so that the total growth is met and the error does not depend on a step's size."""
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


def learn_overhead(recording: RecordedRun, counter: MessageCounter) -> RequestOverhead:
    """Return the overhead of the first recorded prompt; without one, the recorded system prompt and tools."""
    session = recording.session
    first = next((call for call in recording.calls if call.usage is not None), None)
    if first is None or first.usage is None:
        stated = sum(measure(text, counter.ruler) for text in (session.system, session.tools))
        return RequestOverhead(counter.scale.tokens(stated), known=bool(stated))
    beside = max(0, first.usage.prompt - counter.tokens(session.messages[: first.end]))
    served = [call.usage.cache_read for call in _beginnings(recording) if call.usage and call.usage.cache_read]
    shared = min((beside, *served)) if served else beside
    return RequestOverhead(shared, beside - shared, warm=first.usage.cache_read >= shared > 0, known=True)


def _beginnings(recording: RecordedRun) -> Iterator[RecordedCall]:
    """Yield the calls that share only the overhead with earlier ones: the first, and those after a compaction."""
    for call in recording.calls:
        if call.number == 0 or recording.compactions_before(call):
            yield call


def shrinks_between(before: RecordedCall, after: RecordedCall) -> bool:
    """Return whether the recorded prompt shrank so much that something was removed."""
    if before.usage is None or after.usage is None:
        return False
    return after.usage.prompt < before.usage.prompt * (1 - SHRINK_SHARE)


def learn_lifetime(recording: RecordedRun, lifetime_seconds: int) -> int:
    """Return how long entries lived in the recorded run: an hour if most of what was written to the cache was to stay
    that long, or if most pauses beyond the stated lifetime did no harm.
    """
    if lifetime_seconds >= HOUR_SECONDS:
        return lifetime_seconds
    usages = [call.usage for call in recording.calls if call.usage is not None]
    if 2 * sum(usage.cache_write_hour for usage in usages) > sum(usage.cache_write for usage in usages):
        return HOUR_SECONDS
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
    """Return the calls that should have been cached by time and content but were not, with the tokens served.

    A setting was changed, or the provider routed the call elsewhere: it would have happened under any policy. A
    record without any cached token says nothing about the cache.
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
