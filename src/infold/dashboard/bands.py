"""What fills a view, by band: system prompt, tools, summary, and what users, the model and its tools said.

The log keeps a view's size by kind of content; here it is told apart by who it is from. Bands of a log add up to the log's own
size exactly, so that the picture and the decisions speak of the same number.
"""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from infold.core.log import Log
from infold.core.logged_message import Placed
from infold.core.messages import (
    AssistantMessage,
    Message,
    Overhead,
    Part,
    ReasoningPart,
    SystemMessage,
    ToolMessage,
    ToolResultPart,
)
from infold.core.tokens import (
    MESSAGE_OVERHEAD_TOKENS,
    NO_SIZE,
    Calibration,
    Size,
    measure_message,
    size_of_parts,
    token_ruler,
)

Band: TypeAlias = Literal["system", "tools", "summary", "user", "assistant", "reasoning", "results"]

BANDS: tuple[Band, ...] = get_args(Band)
"""From the bottom of the picture to its top: what stays, what stands for the head, what was said, what tools answered."""

_FRAME = Size(prose=MESSAGE_OVERHEAD_TOKENS, loose=MESSAGE_OVERHEAD_TOKENS)


class Filling(Struct, frozen=True):
    """Estimated tokens of a request by band."""

    system: int = 0
    tools: int = 0
    summary: int = 0
    user: int = 0
    assistant: int = 0
    reasoning: int = 0
    results: int = 0

    @property
    def tokens(self) -> int:
        """All of it."""
        return sum(self.of(band) for band in BANDS)

    def of(self, band: Band) -> int:
        """What one band takes."""
        return int(getattr(self, band))


class Bands(Struct, frozen=True):
    """What a log's view measures by band; what is sent beside the messages is no part of it."""

    system: Size = NO_SIZE
    summary: Size = NO_SIZE
    user: Size = NO_SIZE
    assistant: Size = NO_SIZE
    reasoning: Size = NO_SIZE
    results: Size = NO_SIZE

    def plus(self, other: "Bands") -> "Bands":
        """Both together."""
        return Bands(
            self.system.plus(other.system),
            self.summary.plus(other.summary),
            self.user.plus(other.user),
            self.assistant.plus(other.assistant),
            self.reasoning.plus(other.reasoning),
            self.results.plus(other.results),
        )

    @property
    def size(self) -> Size:
        """The size over all bands."""
        size = self.system.plus(self.summary).plus(self.user)
        return size.plus(self.assistant).plus(self.reasoning).plus(self.results)

    def filling(self, calibration: Calibration, overhead: Overhead) -> Filling:
        """The tokens these come to, corrected by what a provider reported, with what is sent beside them."""
        return Filling(
            system=overhead.system + calibration.apply(self.system),
            tools=overhead.tools,
            summary=calibration.apply(self.summary),
            user=calibration.apply(self.user),
            assistant=calibration.apply(self.assistant),
            reasoning=calibration.apply(self.reasoning),
            results=calibration.apply(self.results),
        )


NO_BANDS = Bands()


def bands_of_log(log: Log) -> Bands:
    """What the view of a log measures, all messages looked at."""
    bands = Bands(summary=log.checkpoint_size)
    for placed in log.live:
        bands = bands.plus(bands_of(log, placed))
    return bands


def bands_of(log: Log, placed: Placed) -> Bands:
    """What one live message measures as the view shows it."""
    shown = log.shown(placed)
    ruler = token_ruler(log.rendering.estimate)
    is_measured = shown is placed.message and ruler == log.rendering.estimate
    measures = placed.measures if is_measured else measure_message(shown, ruler)
    sizes: dict[Band, Size] = {_own_band(shown): _FRAME}
    for part, measured in zip(shown.parts, measures, strict=True):
        band = _band(part, shown)
        if measured and not (band == "reasoning" and log.is_cleaned(placed)):
            sizes[band] = sizes.get(band, NO_SIZE).plus(size_of_parts((part,), (measured,)))
    return Bands(**{**sizes, "results": sizes.get("results", NO_SIZE).plus(placed.beside)})


def _band(part: Part, message: Message) -> Band:
    match part:
        case ReasoningPart():
            return "reasoning"
        case ToolResultPart():
            return "results"
        case _:
            return _own_band(message)


def _own_band(message: Message) -> Band:
    match message:
        case SystemMessage():
            return "system"
        case AssistantMessage():
            return "assistant"
        case ToolMessage():
            return "results"
        case _:
            return "user"
