"""Choose how to shorten a single part: one too large for what is left of the window, or too long on arrival."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from infold.core.entries import Clip, Handle, handle_of
from infold.core.log import Log, indices_within
from infold.core.logged_message import Rendering, clip_part, is_clippable, part_bytes
from infold.core.messages import AssistantMessage, FilePart, Message, Part, TextPart, ToolResultPart, is_opaque
from infold.core.tokens import measure_part, token_ruler

SMALLEST_CLIP_TOKENS = 96
"""What is always left of a clipped part: a few lines at either end and the note between them."""

NOTE_TOKENS = 24
"""Approximate size of the note between head and tail, and the frame of a result."""

HEAD_SHARE = 0.6
"""A part's beginning shows what it is, its end how it came out; the beginning gets a little more."""


class _Candidate(Struct, frozen=True):
    handle: Handle
    part: Part
    shown_tokens: int
    is_clipped: bool


def choose_clips(log: Log, *, excess_tokens: int, own_tokens: int) -> tuple[Clip, ...]:
    """Shorten the largest part in the view by about the excess, and the next ones if that cannot be enough; all in one
    step.

    `own_tokens` is the excess in our own measure; a part for which that was not enough is shortened by more.
    """
    clips: list[Clip] = []
    for candidate in sorted(_candidates(log), key=lambda candidate: -candidate.shown_tokens):
        excess = max(own_tokens, excess_tokens) if candidate.is_clipped else own_tokens
        allowed = max(SMALLEST_CLIP_TOKENS, candidate.shown_tokens - excess - SMALLEST_CLIP_TOKENS)
        clips.append(_clip_to(candidate.part, candidate.handle, allowed, log.rendering))
        own_tokens -= candidate.shown_tokens - allowed
        if own_tokens <= 0:
            break
    return tuple(clips)


def choose_media(log: Log, *, excess_bytes: int) -> tuple[Clip, ...]:
    """Leave out the oldest unpinned media that the view shows, as many as have the excess in bytes.

    A tool result keeps its text.
    """
    clips: list[Clip] = []
    for index in indices_within(log.message_index.media, log.length):
        logged = log.message_index.items[index]
        for position, part in enumerate(log.shown(logged).parts):
            handle = handle_of(logged.sequence, position)
            size = part_bytes(part)
            if not size or handle in log.pins:
                continue
            clips.append(Clip(handle, len(part.output) if isinstance(part, ToolResultPart) else 0, 0))
            excess_bytes -= size
            if excess_bytes <= 0:
                return tuple(clips)
    return tuple(clips)


def clips_on_arrival(messages: Sequence[Message], log: Log, longest_tokens: int) -> tuple[Clip, ...]:
    """Return clips for results longer than that in messages that are about to be appended."""
    allowed, ruler = max(SMALLEST_CLIP_TOKENS, longest_tokens), token_ruler(log.rendering.estimate)
    return tuple(
        _clip_to(part, handle_of(log.next_sequence + n, position), allowed, log.rendering)
        for n, message in enumerate(messages)
        for position, part in enumerate(message.parts)
        if isinstance(part, ToolResultPart) and measure_part(part, ruler) > allowed
    )


def _candidates(log: Log) -> Iterator[_Candidate]:
    for logged in log.live:
        if log.size_of(logged).measure <= 2 * SMALLEST_CLIP_TOKENS:
            continue
        shown = log.shown(logged)
        for position, part in enumerate(logged.message.parts):
            handle = handle_of(logged.sequence, position)
            visible = measure_part(shown.parts[position], token_ruler(log.rendering.estimate))
            if visible <= 2 * SMALLEST_CLIP_TOKENS or not is_clippable(part) or handle in log.pins:
                continue
            if not (isinstance(logged.message, AssistantMessage) and is_opaque(part)):
                yield _Candidate(handle, part, visible, shown.parts[position] is not part)


def _clip_to(part: Part, handle: Handle, allowed: int, rendering: Rendering) -> Clip:
    """Return the longest head and tail, by repeated tries, with which the part is within the allowed tokens."""
    if isinstance(part, FilePart) or is_opaque(part):
        return Clip(handle, 0, 0)
    assert isinstance(part, TextPart | ToolResultPart)
    text = part.text if isinstance(part, TextPart) else part.output
    ruler = token_ruler(rendering.estimate)
    kept = len(text) * max(0, allowed - NOTE_TOKENS) // max(1, measure_part(part, ruler))
    clip = _split_head_tail(handle, kept)
    while kept > 0 and measure_part(clip_part(part, clip, rendering), ruler) > allowed:
        kept = kept * 19 // 20
        clip = _split_head_tail(handle, kept)
    return clip


def _split_head_tail(handle: Handle, kept: int) -> Clip:
    head = int(kept * HEAD_SHARE)
    return Clip(handle, head, kept - head)
