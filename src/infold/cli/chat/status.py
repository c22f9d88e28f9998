"""The status line: model, session, how full the window is, cost, cache hits and compactions, as far as there is room."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from infold.agent.run import AgentRun
from infold.core.messages import AssistantMessage, Overhead
from infold.reports.listing import NO_TALLY, Tallies
from infold.reports.stored_log import count_tokens
from infold.reports.text import dollars, one_line, plural, printable, short_number

GAUGE_CELLS, NARROW_GAUGE_CELLS = 12, 6

FULL, NEARLY_FULL = 0.9, 0.7
"""Shares of the limit at which the gauge turns red and yellow; presets compact between them."""

SHORT_NAME = 16
GAP = "  "


class Status(Struct, frozen=True):
    """What the line shows; `limit_tokens` is the limit of a request, `cached_share` is `None` without reported usage."""

    model: str
    session_id: str
    tokens: int = 0
    limit_tokens: int = 0
    cost: float = 0.0
    cached_share: float | None = None
    compactions: int = 0

    @property
    def share(self) -> float:
        """How full the window is."""
        return self.tokens / self.limit_tokens if self.limit_tokens else 0.0


class StatusPiece(Struct, frozen=True):
    """A piece of the line and its colour; empty is the default colour."""

    text: str
    colour: str = ""


def read_status(work: AgentRun, tallies: Tallies) -> Status:
    """Read the status of a session; only entries since the last call are read."""
    log, limit = work.session.log, work.session.limit_tokens
    tally = tallies.get(work.key) if log.next_sequence else NO_TALLY
    return Status(
        model=work.model.ref.id,
        session_id=log.session_id,
        tokens=count_tokens(log, newest_overhead(work)),
        limit_tokens=limit,
        cost=tally.total_cost,
        cached_share=tally.cached_share,
        compactions=len(tally.folds),
    )


def newest_overhead(work: AgentRun) -> Overhead:
    """Return the size of system prompt and tools in the newest request; 0 before the first."""
    replies = (placed.message for placed in reversed(work.session.log.live))
    known = (reply.overhead for reply in replies if isinstance(reply, AssistantMessage) and reply.overhead is not None)
    return next(known, Overhead())


def status_pieces(status: Status, width: int, *, ascii_only: bool = False) -> tuple[StatusPiece, ...]:
    """Return the line in at most that many cells: the least important pieces are shortened first, then left out."""
    forms = [[*_shorten(status, step, ascii_only=ascii_only)] for step in range(len(_SHORTER) + 1)]
    fitting = next((form for form in forms if _width(form) <= width), None)
    if fitting is not None:
        return tuple(_join(fitting))
    return (StatusPiece(set_cell_size("".join(piece.text for piece in _join(forms[-1])), max(0, width)).rstrip()),)


def draw_status(pieces: Sequence[StatusPiece]) -> Text:
    """Return the line for a console."""
    return Text.assemble(*((piece.text, piece.colour) for piece in pieces), style="dim", no_wrap=True)


_SHORTER = ("compactions", "gauge", "model", "cache", "session", "folds", "cost", "name")
"""What is shortened or left out, in this order, until the line fits."""


def _shorten(status: Status, step: int, *, ascii_only: bool) -> Sequence[StatusPiece]:
    is_short: Callable[[str], bool] = _SHORTER[:step].__contains__
    model = printable(status.model)
    folds = f"{status.compactions} folded" if is_short("compactions") else plural(status.compactions, "compaction")
    cells = NARROW_GAUGE_CELLS if is_short("gauge") else GAUGE_CELLS
    shown = (
        StatusPiece("" if is_short("name") else one_line(model, SHORT_NAME) if is_short("model") else model, "cyan"),
        StatusPiece("" if is_short("session") else printable(status.session_id)),
        *_gauge(status, cells, ascii_only=ascii_only),
        StatusPiece("" if is_short("cost") or not status.cost else dollars(status.cost)),
        StatusPiece("" if is_short("cache") or status.cached_share is None else f"cache {status.cached_share:.0%}"),
        StatusPiece("" if is_short("folds") or not status.compactions else folds, "green"),
    )
    return [piece for piece in shown if piece.text]


def _gauge(status: Status, cells: int, *, ascii_only: bool) -> Sequence[StatusPiece]:
    if not status.limit_tokens:
        return (StatusPiece(f"{short_number(status.tokens)} tokens"),)
    filled = min(cells, max(round(status.share * cells), int(status.tokens > 0)))
    full, free = ("#", ".") if ascii_only else ("█", "░")
    colour = "red" if status.share >= FULL else "yellow" if status.share >= NEARLY_FULL else "green"
    numbers = f"{short_number(status.tokens)} of {short_number(status.limit_tokens)}"
    return (StatusPiece(f"{full * filled}{free * (cells - filled)}", colour), StatusPiece(numbers))


def _width(pieces: Sequence[StatusPiece]) -> int:
    return sum(cell_len(piece.text) for piece in _join(pieces))


def _join(pieces: Sequence[StatusPiece]) -> Sequence[StatusPiece]:
    """Return the pieces with gaps between them."""
    return [StatusPiece(f"{GAP if at else ''}{piece.text}", piece.colour) for at, piece in enumerate(pieces)]
