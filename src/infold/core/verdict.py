"""What the judge says of a summary, as a checkpoint keeps it, and how long a summariser that fails is left alone."""

from typing import Literal, TypeAlias

from msgspec import Struct

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 60_000, 3_600_000
"""How long a summariser is left alone after its first failed compaction; each further one in a row doubles the pause."""

Fault: TypeAlias = Literal[
    "failed",
    "empty",
    "too-short",
    "repetitive",
    "cut-off",
    "tool-calls",
    "refused",
    "language",
    "too-large",
    "invented",
]
"""Why a summary cannot stand as it is; `failed`: the model gave none."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """What the judge found: the text that may be used, empty where none may; the faults; and the lines taken out.

    `error` is the summariser's own error, where it failed; `judged`: whether the policy has a judge of content.
    """

    text: str
    faults: tuple[Fault, ...] = ()
    removed: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    error: str = ""
    judged: bool = True

    @property
    def is_accepted(self) -> bool:
        """Whether the summary, repaired or not, may stand."""
        return bool(self.text)


class Failing(Struct, frozen=True, omit_defaults=True):
    """A summariser that failed in so many compactions in a row, and is not asked again by a policy before `until_ms`."""

    times: int
    until_ms: int

    def pauses(self, now_ms: int) -> bool:
        """Return whether the pause still lasts; a clock that was set back by more than the pause ends it."""
        return self.until_ms - LONGEST_PAUSE_MS <= now_ms < self.until_ms


def next_failure(before: Failing | None, now_ms: int, wait_ms: int = 0) -> Failing:
    """Return the state after one more failed compaction; `wait_ms` is how long the provider asks to wait."""
    times = 1 if before is None else before.times + 1
    pause_ms = min(LONGEST_PAUSE_MS, max(FIRST_PAUSE_MS << min(times - 1, 16), wait_ms))
    return Failing(times, now_ms + pause_ms)
