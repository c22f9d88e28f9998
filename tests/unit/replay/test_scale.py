"""From our count to the provider's."""

import pytest
from msgspec.structs import replace

from infold.core.messages import AssistantMessage, Message, Usage
from infold.replay.calls import find_calls
from infold.replay.scale import (
    MessageCounter,
    Scale,
    learn_lifetime,
    learn_overhead,
    learn_scale,
    shrinks_between,
    unexplained_misses,
)
from infold.testing.builders import numbered, replies, user

from .recorded import OPENING, RULER, session, with_usage, words, work


def varied(steps: int = 12) -> tuple[Message, ...]:
    """Work whose results differ in size, so that a factor can be told from a frame."""
    shown = list(work(steps))
    for index in range(2, len(shown) - 1, 4):
        part = shown[index].parts[0]
        shown[index] = replace(shown[index], parts=(replace(part, output=words(60, f"v{index}")),))
    return tuple(shown)


def paused(messages: tuple[Message, ...], *, every: int, seconds: int) -> tuple[Message, ...]:
    """The messages with a long pause before some of them."""
    late = 0
    told = []
    for number, message in enumerate(messages):
        late += seconds * 1_000 if number and number % every == 0 else 0
        told.append(replace(message, created_ms=(message.created_ms or 0) + late))
    return tuple(told)


def test_factor_and_frame_are_learned_from_the_growth_of_prompts() -> None:
    """The provider's own way of counting is found again to within a token's rounding."""
    told = with_usage(varied(), factor=1.3, frame=60)
    scale = learn_scale(find_calls(session(told)), RULER)

    assert scale.factor == pytest.approx(1.3, abs=0.01)
    assert scale.call_tokens == pytest.approx(60, abs=3)


def test_factor_alone_is_learned_where_a_frame_makes_no_sense() -> None:
    """Without calls, or with a frame below zero, the whole growth is the factor's."""
    talk = numbered([part for turn in range(8) for part in (user(words(50 + 9 * turn)), replies(words(40)))])
    scale = learn_scale(find_calls(session(with_usage(talk, factor=1.5))), RULER)

    assert scale.factor == pytest.approx(1.5, abs=0.01)
    assert scale.call_tokens == 0.0


def test_nothing_is_learned_from_little() -> None:
    """Two steps teach nothing; our own count stands."""
    assert learn_scale(find_calls(session(with_usage(work(1)))), RULER) == Scale()
    assert learn_scale(find_calls(session(work())), RULER) == Scale()


def test_hidden_growth_teaches_nothing() -> None:
    """A prompt that grew by far more than was recorded holds what nobody recorded."""
    told = list(with_usage(varied(), factor=1.3, frame=60))
    for index in range(15, len(told)):
        reply = told[index]
        if isinstance(reply, AssistantMessage) and reply.usage:
            told[index] = replace(reply, usage=replace(reply.usage, cache_write=reply.usage.cache_write + 40_000))

    assert learn_scale(find_calls(session(told)), RULER).factor == pytest.approx(1.3, abs=0.02)


def test_overhead_is_what_the_first_prompt_holds_beside_its_messages() -> None:
    """System prompt and tools are the first reported prompt less the messages in it."""
    recording = find_calls(session(with_usage(work(), factor=1.0, overhead=5_000)))

    assert learn_overhead(recording, MessageCounter(RULER)).tokens == pytest.approx(5_000, abs=2)


def test_beginning_that_was_warm_is_shared_with_other_sessions() -> None:
    """What the cache served of the very first prompt had been sent by another session."""
    told = list(with_usage(work(), factor=1.0, overhead=5_000))
    first = told[1]
    assert isinstance(first, AssistantMessage)
    told[1] = replace(first, usage=Usage(cache_read=3_000, cache_write=2_014))
    overhead = learn_overhead(find_calls(session(told)), MessageCounter(RULER))

    assert (overhead.shared_tokens, overhead.warm) == (3_000, True)
    assert overhead.own_tokens > 1_900


def test_without_usage_the_recorded_system_prompt_counts() -> None:
    """Where nothing is reported the overhead is what the record holds of it, and unknown where it holds nothing."""
    silent = session(work())
    stated = replace(silent, system=words(300))

    assert learn_overhead(find_calls(stated), MessageCounter(RULER)).tokens == pytest.approx(300, abs=20)
    assert not learn_overhead(find_calls(silent), MessageCounter(RULER)).known


def test_lifetime_of_an_hour_shows_in_pauses_that_did_no_harm() -> None:
    """Most pauses beyond the stated lifetime were served, so entries live an hour; else the stated lifetime stands."""
    served = paused(with_usage(work()), every=6, seconds=900)
    unserved = [replace(m, usage=Usage(input=9)) if isinstance(m, AssistantMessage) else m for m in served]

    assert learn_lifetime(find_calls(session(served)), 300) == 3_600
    assert learn_lifetime(find_calls(session(unserved)), 300) == 300
    assert learn_lifetime(find_calls(session(served)), 7_200) == 7_200


def test_lifetime_of_an_hour_shows_in_what_was_written() -> None:
    """B16: if most of what the cache was given was to stay for an hour, entries live so long, whatever the pauses show."""
    told = [
        replace(m, usage=Usage(cache_write=900, cache_write_hour=500)) if isinstance(m, AssistantMessage) else m
        for m in work()
    ]
    less = [
        replace(m, usage=Usage(cache_write=900, cache_write_hour=400)) if isinstance(m, AssistantMessage) else m
        for m in work()
    ]

    assert learn_lifetime(find_calls(session(told)), 300) == 3_600
    assert learn_lifetime(find_calls(session(less)), 300) == 300


def test_miss_that_time_does_not_explain_is_told_with_what_was_served() -> None:
    """A call shortly after another that the cache hardly served is a miss; one after a long pause is none."""
    told = list(with_usage(work()))
    for index in (5, 11):
        reply = told[index]
        assert isinstance(reply, AssistantMessage)
        assert reply.usage is not None
        told[index] = replace(reply, usage=Usage(cache_read=70, cache_write=reply.usage.prompt - 70))
    late = [replace(message, created_ms=(message.created_ms or 0) + 10**6) for message in told[10:]]

    assert unexplained_misses(find_calls(session([*told[:10], *late])), 300) == {2: 70}
    assert unexplained_misses(find_calls(session(work())), 300) == {}


def test_prompt_that_lost_a_twentieth_was_shortened() -> None:
    """A smaller prompt is a sign that something was taken out, a slightly smaller one is not."""
    first = find_calls(session(with_usage(work()))).calls[3]
    usage = first.usage
    assert usage is not None

    def sized(share: float) -> bool:
        return shrinks_between(first, replace(first, usage=Usage(input=int(usage.prompt * share))))

    assert sized(0.9)
    assert not sized(0.97)
    assert not shrinks_between(first, replace(first, usage=None))


def test_equal_content_is_an_equal_block() -> None:
    """The cache sees content, not ids: a message written anew is the block it was."""
    counter = MessageCounter(RULER, Scale(2.0, 10.0), opening=OPENING)
    one, same = (numbered([user(OPENING)], prefix=prefix)[0] for prefix in "ab")
    call = work(1)[1]

    assert counter.count(one).block == counter.count(same).block
    assert counter.count(one).has_opening
    assert counter.count(call).block.tokens == Scale(2.0, 10.0).tokens(count(call), 1)
    assert counter.padding("a", 5) != counter.padding("b", 5)


def count(message: Message) -> int:
    """Our own count of a message."""
    return MessageCounter(RULER).count(message).block.tokens
