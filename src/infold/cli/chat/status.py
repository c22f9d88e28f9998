"""The status line: model, session, how full the window is, cost, cache hits and compactions, as many as there is room for."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from infold.agent.run import AgentRun
from infold.cli.render import counted, dollars, legible, one_line, thousands
from infold.core.messages import AssistantMessage, Overhead
from infold.dashboard.reading import fill_tokens
from infold.dashboard.tally import NO_TALLY, Tallies

GAUGE_CELLS, NARROW_GAUGE_CELLS = 12, 6


FULL, NEARLY_FULL = 0.9, 0.7
"""Shares of what may be sent at which the gauge turns red and yellow; presets compact somewhere between."""


SHORT_NAME = 16


GAP = "  "


class Status(Struct, frozen=True):
    """What the line tells; `limit_tokens` is the most a request may be, `cached_share` none where no usage was reported."""

    model: str
    session_id: str
    tokens: int = 0
    limit_tokens: int = 0
    cost: float = 0.0
    cached_share: float | None = None
    compactions: int = 0

    @property
    def share(self) -> float:
        """How full it is."""
        return self.tokens / self.limit_tokens if self.limit_tokens else 0.0


class Piece(Struct, frozen=True):
    """A piece of the line, and the name of its colour; none is the terminal's own."""

    text: str
    colour: str = ""


def status_of(work: AgentRun, tallies: Tallies) -> Status:
    """How a session stands now; work grows with what is new since it was last asked."""
    log, limit = work.session.log, work.session.limit_tokens
    tally = tallies.of(work.key) if log.next_sequence else NO_TALLY
    return Status(
        model=work.model.ref.id,
        session_id=log.session_id,
        tokens=fill_tokens(log, overhead_in(work)),
        limit_tokens=limit,
        cost=tally.whole_cost,
        cached_share=tally.cached_share,
        compactions=len(tally.folds),
    )


def overhead_in(work: AgentRun) -> Overhead:
    """What the newest request sent beside the messages; nothing before the first."""
    replies = (placed.message for placed in reversed(work.session.log.live))
    told = (reply.overhead for reply in replies if isinstance(reply, AssistantMessage) and reply.overhead is not None)
    return next(told, Overhead())


def pieces_of(status: Status, width: int, *, ascii_only: bool = False) -> tuple[Piece, ...]:
    """The line in at most that many cells: what matters least is shortened first, then left out."""
    forms = [[*_shortened(status, step, ascii_only=ascii_only)] for step in range(len(_SHORTER) + 1)]
    fitting = next((form for form in forms if _width(form) <= width), None)
    if fitting is not None:
        return tuple(_joined(fitting))
    return (Piece(set_cell_size("".join(piece.text for piece in _joined(forms[-1])), max(0, width)).rstrip()),)


def drawn_status(pieces: Sequence[Piece]) -> Text:
    """The line for a console."""
    return Text.assemble(*((piece.text, piece.colour) for piece in pieces), style="dim", no_wrap=True)


_SHORTER = ("compactions", "gauge", "model", "cache", "session", "folds", "cost", "name")
"""What is shortened or left out, one after the other, until the line fits."""


def _shortened(status: Status, step: int, *, ascii_only: bool) -> Sequence[Piece]:
    gone = _SHORTER[:step]
    is_short: Callable[[str], bool] = gone.__contains__
    model = legible(status.model)
    folds = f"{status.compactions} folded" if is_short("compactions") else counted(status.compactions, "compaction")
    cells = NARROW_GAUGE_CELLS if is_short("gauge") else GAUGE_CELLS
    shown = (
        Piece("" if is_short("name") else one_line(model, SHORT_NAME) if is_short("model") else model, "cyan"),
        Piece("" if is_short("session") else legible(status.session_id)),
        *_gauge(status, cells, ascii_only=ascii_only),
        Piece("" if is_short("cost") or not status.cost else dollars(status.cost)),
        Piece("" if is_short("cache") or status.cached_share is None else f"cache {status.cached_share:.0%}"),
        Piece("" if is_short("folds") or not status.compactions else folds, "green"),
    )
    return [piece for piece in shown if piece.text]


def _gauge(status: Status, cells: int, *, ascii_only: bool) -> Sequence[Piece]:
    if not status.limit_tokens:
        return (Piece(f"{thousands(status.tokens)} tokens"),)
    filled = min(cells, max(round(status.share * cells), int(status.tokens > 0)))
    full, free = ("#", ".") if ascii_only else ("█", "░")
    colour = "red" if status.share >= FULL else "yellow" if status.share >= NEARLY_FULL else "green"
    told = f"{thousands(status.tokens)} of {thousands(status.limit_tokens)}"
    return (Piece(f"{full * filled}{free * (cells - filled)}", colour), Piece(told))


def _width(pieces: Sequence[Piece]) -> int:
    return sum(cell_len(piece.text) for piece in _joined(pieces))


def _joined(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """The pieces with gaps between them."""
    return [Piece(f"{GAP if at else ''}{piece.text}", piece.colour) for at, piece in enumerate(pieces)]
