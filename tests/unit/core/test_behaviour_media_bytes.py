"""Media have bytes as well as tokens, and a request may have too many of them (B8)."""

import pytest
from msgspec.structs import replace

from infold.core.budget import LearnedLimits, Window, budget_for, narrow_window
from infold.core.clip import choose_media
from infold.core.compact import compact
from infold.core.entries import Amendment, Checkpoint, Clip, Clipping, Handle, MessageEntry, Pin
from infold.core.events import Clipped
from infold.core.gauge import PlanInputs
from infold.core.log import Log
from infold.core.logged_message import Rendering, media_bytes
from infold.core.messages import (
    FilePart,
    Message,
    MessageId,
    SessionId,
    TextPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    text_of,
)
from infold.core.plan import Fits, Shorten, next_step
from infold.core.policy import INFOLD, PRESETS, Policy
from infold.core.view import view
from infold.testing.builders import calls, numbered, replies, session, user

DOCUMENTS = sorted(set(PRESETS) - {"infold"})


def picture(number: int = 0, *, byte_size: int = 400) -> FilePart:
    """An image of few tokens and that many bytes."""
    return FilePart("image/png", 85, f"shot{number}.png", byte_size=byte_size)


def shows(*files: FilePart) -> UserMessage:
    """A person who shows something."""
    return UserMessage(MessageId(""), (TextPart("look"), *files))


def answers(*files: FilePart, output: str = "taken") -> ToolMessage:
    """A tool that answers with media."""
    return ToolMessage(MessageId(""), (ToolResultPart("", "", output, files=files),))


def inputs(policy: Policy = INFOLD, *, most: int | None = 1_000) -> PlanInputs:
    """A large window that takes no more bytes of media than that."""
    return PlanInputs(policy, budget_for(Window(200_000, request_bytes=most), policy))


SEEN = (shows(picture(0)), replies(), calls("screenshot"), answers(picture(1)), shows(picture(2), picture(3)))


def test_bytes_are_those_of_all_media_shown() -> None:
    """B8: files of messages and of tool results are summed; what is not shown any more is not."""
    log = session(*SEEN, replies())

    assert media_bytes(numbered(SEEN)[4]) == 800
    assert log.media_bytes == 1_600
    assert log.append(Clipping((Clip(Handle("0.1"), 0, 0),))).media_bytes == 1_200
    assert log.append(Checkpoint("t", first_kept=4)).media_bytes == 800
    assert log.append(Amendment(4)).media_bytes == 800
    assert session(user(), replies()).media_bytes == 0


def test_an_older_log_has_its_own_media() -> None:
    """B1: what a later log of the line shows is not counted in an earlier one."""
    log = session(user(), replies())
    (later,) = numbered([shows(picture())], prefix="later")
    log.append(MessageEntry(later))

    assert log.media_bytes == 0
    assert choose_media(log, excess_bytes=1) == ()


def test_the_oldest_medium_goes_first() -> None:
    """I14: of several the oldest is left out; a tool result keeps its words, and only its media go."""
    log = session(*SEEN)
    first, chosen = choose_media(log, excess_bytes=1), choose_media(log, excess_bytes=log.media_bytes)
    log = log.append(Clipping(chosen))

    assert first == chosen[:1]
    assert [clip.handle for clip in chosen] == ["0.1", "3.0", "4.1", "4.2"]
    assert choose_media(log, excess_bytes=1) == ()
    assert "taken" in str(log.shown(log.live[3]).parts[0])
    assert log.media_bytes == 0


def test_a_pinned_medium_is_spared() -> None:
    """B20, I14: what is pinned stays, in a message or in a result, and the next oldest goes instead."""
    log = session(*SEEN).append(Pin(Handle("0.1"))).append(Pin(Handle("3.0")))

    assert choose_media(log, excess_bytes=1) == (Clip(Handle("4.1"), 0, 0),)


def test_a_medium_of_unknown_size_is_not_chosen() -> None:
    """I14: leaving out what has no bytes would help nobody."""
    assert choose_media(session(shows(picture(byte_size=0)), replies()), excess_bytes=1) == ()


@pytest.mark.parametrize(("name", "reason"), [("infold", "trigger"), *((name, "safety") for name in DOCUMENTS)])
def test_a_request_with_too_many_bytes_is_made_lighter(name: str, reason: str) -> None:
    """B8, S1.0: in every preset old media go until the rest is within the limit; a document calls that a safety measure."""
    policy = PRESETS[name]
    log = session(*SEEN, replies(), policy=policy)
    done = compact(log, inputs(policy))

    assert isinstance(done.final, Fits)
    assert [event.targets for event in done.events if isinstance(event, Clipped)] == [("0.1", "3.0")]
    assert {event.reason for event in done.events if isinstance(event, Clipped)} == {reason}
    assert done.log.media_bytes == 800
    assert "shot0.png" in text_of(view(done.log, policy.summary)[0])


@pytest.mark.parametrize("most", [1_600, None])
def test_a_request_that_is_light_enough_is_left_alone(most: int | None) -> None:
    """B8: at the limit, and where none is known, nothing is done."""
    assert isinstance(next_step(session(*SEEN), inputs(most=most)), Fits)


def test_nothing_is_left_out_where_it_may_not_be() -> None:
    """S1.1: automatic work that is off stays off; where everything is pinned the request goes out as it is."""
    log = session(shows(picture(byte_size=5_000)))
    off = inputs(replace(INFOLD, auto=False))

    assert isinstance(next_step(log, off), Fits)
    assert isinstance(next_step(log.append(Pin(Handle("0.1"))), inputs()), Fits)
    assert isinstance(next_step(log, inputs()), Shorten)


def test_bytes_are_limited_where_tokens_are_not() -> None:
    """S1.2, B8: a window declared without a limit on tokens may still have one on bytes."""
    budget = budget_for(Window(0, request_bytes=1_000), INFOLD)

    assert (budget.bounded, budget.limit_bytes) == (False, 1_000)
    assert isinstance(next_step(session(*SEEN), PlanInputs(INFOLD, budget)), Shorten)


def test_learned_bytes_narrow_the_window() -> None:
    """B11: what a refusal taught counts like what was stated; the smaller of the two holds."""
    learned = LearnedLimits(bytes=500)

    assert narrow_window(Window(64_000), learned).request_bytes == 500
    assert narrow_window(Window(64_000, request_bytes=200), learned).request_bytes == 200
    assert narrow_window(Window(64_000, request_bytes=900), learned).request_bytes == 500


@pytest.mark.parametrize(
    ("window", "tokens", "expected"),
    [
        (Window(64_000, 60_000, 8_000), 32_000, Window(32_000, 32_000, 8_000)),
        (Window(64_000, 60_000, 8_000), 8_000, Window(8_000, 8_000, None)),
        (Window(64_000), 32_000, Window(32_000)),
        (Window(64_000, 30_000), 100_000, Window(64_000, 30_000)),
        (Window(0), 32_000, Window(0)),
        (Window(64_000, 60_000), None, Window(64_000, 60_000)),
    ],
)
def test_learned_tokens_narrow_the_window(window: Window, tokens: int | None, expected: Window) -> None:
    """B11, S1.2: a refusal only ever narrows; a reply as large as the whole window is no known size; no limit stays none."""
    assert narrow_window(window, LearnedLimits(tokens)) == expected


def test_a_result_too_large_for_its_media_is_lightened_in_any_session() -> None:
    """B8: a log read under a document's own rule of counting shows the same bytes."""
    messages: tuple[Message, ...] = numbered((user(), calls("screenshot"), answers(picture(byte_size=2_000))))
    log = Log(SessionId("s"), Rendering("ceil")).extend(MessageEntry(message) for message in messages)
    step = next_step(log, inputs(PRESETS["opencode-1.1.57"]))

    assert isinstance(step, Shorten)
    assert step.clips == (Clip(Handle("2.0"), len("taken"), 0),)
