"""Choosing what to clip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infold.core.clip import SMALLEST_CLIP_TOKENS, choose_clips, clips_on_arrival
from infold.core.entries import Clip, Clipping, Handle, Pin
from infold.core.log import Log
from infold.core.logged_message import clip_part
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    MessageId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from infold.core.tokens import measure_part
from infold.testing.builders import calls, replies, result, session, user

LOG_TEXT = "error: line 17 of build.log says nothing new\n"


def clipped(log: Log, clip: Clip) -> Log:
    """The log with a chosen clip in force."""
    return log.append(Clipping((clip,)))


def test_the_largest_part_is_shortened() -> None:
    """B8: what is largest in the view goes first, wherever it stands."""
    log = session(user("x y " * 200), calls("bash"), result(output=LOG_TEXT * 300), replies("z " * 300))
    (clip,) = choose_clips(log, excess_tokens=500, own_tokens=500)

    assert clip is not None
    assert clip.handle == "2.0"
    assert clip.head_chars > clip.tail_chars > 0


@given(
    st.integers(0, 30_000),
    st.sampled_from([LOG_TEXT * 200, "好的，继续。" * 900, "0123456789abcdef" * 500, "😀" * 999]),
)
def test_a_clip_frees_at_least_the_excess_or_all_it_can(excess: int, text: str) -> None:
    """B8: after the clip the part is smaller by the excess, or down to what a clip always leaves."""
    log = session(user(), calls("bash"), result(output=text))
    before = measure_part(log.live[2].message.parts[0], "features")
    (clip,) = choose_clips(log, excess_tokens=excess, own_tokens=excess)
    assert clip is not None
    after = measure_part(clipped(log, clip).shown(log.live[2]).parts[0], "features")

    assert after <= max(before - excess, SMALLEST_CLIP_TOKENS)
    assert after < before


def test_clipping_again_and_again_ends() -> None:
    """B9: clips shrink what is visible until nothing is left to shorten, and then the answer is none."""
    log = session(user("a b " * 900), calls("bash"), result(output=LOG_TEXT * 300))
    for _ in range(20):
        clips = choose_clips(log, excess_tokens=100_000, own_tokens=100_000)
        if not clips:
            break
        log = log.append(Clipping(clips))

    assert clips == ()
    assert len(log.altered) == 2


def test_many_parts_are_shortened_in_one_step() -> None:
    """B17: as many as the excess needs, the largest first, and no more: a thousand parts are no thousand steps."""
    log = session(calls(*["bash"] * 30), *(result(output="a b " * (300 + number)) for number in range(30)))
    whole = choose_clips(log, excess_tokens=100_000, own_tokens=100_000)
    some = choose_clips(log, excess_tokens=2_000, own_tokens=2_000)
    freed = log.size.measure - log.append(Clipping(some)).size.measure

    assert len(whole) == 30
    assert 2 <= len(some) < 30
    assert some == whole[: len(some) - 1] + some[-1:]
    assert 2_000 <= freed < 3_000


def test_small_parts_and_pins_are_left_alone() -> None:
    """Nothing is clipped that is pinned, small, or must stay valid; where nothing else is left, the answer is none."""
    log = session(user("a b " * 900), calls("bash", arguments='{"a":"' + "b " * 2_000 + '"}'), result(5))

    assert choose_clips(log.append(Pin(Handle("0.0"))), excess_tokens=500, own_tokens=500) == ()
    assert choose_clips(session(user()), excess_tokens=500, own_tokens=500) == ()
    assert choose_clips(session(), excess_tokens=500, own_tokens=500) == ()


def test_a_medium_goes_whole() -> None:
    """B8: a medium cannot be shortened; its clip leaves a note."""
    picture = UserMessage(MessageId(""), (TextPart("look"), FilePart("image/png", 1_500, "a.png")))
    log = session(picture)
    (clip,) = choose_clips(log, excess_tokens=10, own_tokens=10)

    assert clip == Clip(Handle("0.1"), 0, 0)
    assert clipped(log, clip).size.measure < 100


def test_a_result_that_is_large_by_its_media_is_emptied() -> None:
    """B8: where a result's size is in its pictures, they go, whatever of the text stays."""
    seen = ToolResultPart("", "", "shown", files=(FilePart("image/png", 5_000),))
    log = session(user(), calls("view"), ToolMessage(MessageId(""), (seen,)))
    (clip,) = choose_clips(log, excess_tokens=1_000, own_tokens=1_000)

    assert clip is not None
    assert clipped(log, clip).size.measure < 200


@pytest.mark.parametrize("tokens", [1, 500, 5_000])
def test_only_the_needed_is_cut_away(tokens: int) -> None:
    """A clip leaves at least three quarters of what would still fit."""
    log = session(user("word " * 9_000))
    (clip,) = choose_clips(log, excess_tokens=tokens, own_tokens=tokens)
    assert clip is not None
    shown = clipped(log, clip).size.measure

    assert shown > 0.75 * (log.size.measure - tokens - SMALLEST_CLIP_TOKENS)


def test_calls_are_never_candidates() -> None:
    """B12: a call's arguments stay valid JSON; they are pruned, not clipped."""
    log = session(user(), calls("write", arguments='{"a":"' + "b" * 9_000 + '"}'))

    assert choose_clips(log, excess_tokens=9_000, own_tokens=9_000) == ()
    assert isinstance(log.live[1].message.parts[0], ToolCallPart)


@given(st.integers(0, 3_000), st.sampled_from([LOG_TEXT * 200, "好的，继续。" * 900, "short"]))
def test_a_long_result_is_shortened_as_it_arrives(longest: int, text: str) -> None:
    """B8: what a view shows of a result that is about to be appended is within the bound, or what a clip always leaves."""
    log = session(user(), calls("bash"))
    answer = ToolMessage(MessageId("m2"), (ToolResultPart("m1-0", "bash", text), TextPart(LOG_TEXT * 200)))
    clips = clips_on_arrival((answer,), log, longest)
    part = answer.parts[0]
    shown = clip_part(part, clips[0], log.rendering) if clips else part

    assert [clip.handle for clip in clips] in ([], ["2.0"])
    assert measure_part(shown, "features") <= max(longest, SMALLEST_CLIP_TOKENS)


def test_an_opaque_block_of_the_users_goes_whole() -> None:
    """B30: a block infold has no reading for is never edited; where nothing else fits, a note stands for all of it."""
    large = TextPart('{"type":"new","data":"' + "b " * 4_000 + '"}', synthetic=True, opaque=True)
    log = session(UserMessage(MessageId(""), (TextPart("see"), large)))
    (clip,) = choose_clips(log, excess_tokens=10, own_tokens=10)

    assert clip == Clip(Handle("0.1"), 0, 0)
    shown = clipped(log, clip)
    assert shown.shown(shown.live[0]).parts[1] == TextPart("[left out: a block of 8,024 characters]", synthetic=True)


def test_a_models_opaque_block_and_one_with_a_partner_stay() -> None:
    """B30: what other blocks may depend on is not left out by itself; it is folded with its message."""
    large = TextPart('{"type":"new","data":"' + "b " * 4_000 + '"}', synthetic=True, opaque=True)
    models = session(user(), AssistantMessage(MessageId(""), (large,), finish="stop"))
    partners = session(UserMessage(MessageId(""), (replace(large, links=("a",)),)))

    assert choose_clips(models, excess_tokens=10, own_tokens=10) == ()
    assert choose_clips(partners, excess_tokens=10, own_tokens=10) == ()
