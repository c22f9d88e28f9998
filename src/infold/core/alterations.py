"""How a message looks with some of its parts hidden, and which entry hid which part.

The message itself never changes: an `Altered` stands beside it until the entries that hid its parts are undone.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from infold.core.entries import Clip, Clipping, Handle, Pruning, handle_of
from infold.core.messages import Message
from infold.core.stubs import Rendering, clip_part, prune_part
from infold.core.tokens import Size, measure_message, size_of, token_ruler


class Hiding(Struct, frozen=True):
    """One entry's grip on a part: the entry's number, and how much stays visible where it clips."""

    by: int
    clip: Clip | None


class Altered(Struct, frozen=True):
    """A message as the view shows it, its measure and size then, and what hides each part, the newest last."""

    message: Message
    measured: int
    size: Size
    hidings: Mapping[int, tuple[Hiding, ...]]

    def is_hidden_by(self, entry: int) -> bool:
        """Whether that entry hides anything of the message."""
        return any(hiding.by == entry for stack in self.hidings.values() for hiding in stack)


def hidden_parts(entry: Pruning | Clipping) -> Iterator[tuple[Handle, Clip | None]]:
    """The parts an entry hides; with how much of each stays visible where it is clipped."""
    if isinstance(entry, Pruning):
        yield from ((handle, None) for handle in entry.targets)
    else:
        yield from ((clip.handle, clip) for clip in entry.clips)


def hide(
    message: Message,
    sequence: int,
    clips: Mapping[int, Clip | None],
    *,
    by: int,
    before: Altered | None,
    rendering: Rendering,
) -> Altered:
    """The message numbered `sequence` with these parts hidden by entry `by`, on top of what hid them before."""
    hidings = {} if before is None else dict(before.hidings)
    for position, clip in clips.items():
        hidings[position] = (*hidings.get(position, ()), Hiding(by, clip))
    return _altered(message, sequence, hidings, rendering)


def show_again(message: Message, sequence: int, before: Altered, *, by: int, rendering: Rendering) -> Altered | None:
    """The message without what entry `by` did to it; none where nothing else hides any of it."""
    hidings: dict[int, tuple[Hiding, ...]] = {}
    for position, stack in before.hidings.items():
        left = tuple(hiding for hiding in stack if hiding.by != by)
        if left:
            hidings[position] = left
    return _altered(message, sequence, hidings, rendering) if hidings else None


def _altered(
    message: Message, sequence: int, hidings: Mapping[int, tuple[Hiding, ...]], rendering: Rendering
) -> Altered:
    parts = list(message.parts)
    for position, stack in hidings.items():
        part, clip, handle = parts[position], stack[-1].clip, handle_of(sequence, position)
        parts[position] = prune_part(part, handle, rendering) if clip is None else clip_part(part, clip, rendering)
    shown = replace(message, parts=tuple(parts))
    measures = measure_message(shown, rendering.estimate)
    in_tokens = token_ruler(rendering.estimate)
    tokens = measures if in_tokens == rendering.estimate else measure_message(shown, in_tokens)
    return Altered(shown, sum(measures), size_of(shown, tokens), hidings)
