"""The results of a replay, as frozen values: per call, policy, session, file, and in all.

Tokens are the provider's, as far as the record shows them. Dollars are a `Spend` by part; they are zero, and
`SessionOutcome.priced` is false, if the catalogue has no price.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add

from msgspec import Struct
from msgspec.structs import astuple


class Spend(Struct, frozen=True):
    """Dollars by part: cached input, fresh input, output, summaries, and fetching lost content again."""

    read: float = 0.0
    fresh: float = 0.0
    output: float = 0.0
    summary: float = 0.0
    refetch: float = 0.0

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(*map(add, astuple(self), astuple(other)))

    @property
    def dollars(self) -> float:
        """The total without fetching again."""
        return self.read + self.fresh + self.output + self.summary


NO_SPEND = Spend()


class CallOutcome(Struct, frozen=True, array_like=True):
    """One call: tokens sent, how many of them were cached, and what happened before it."""

    prompt_tokens: int
    read_tokens: int
    output_tokens: int
    compactions: int = 0
    prunings: int = 0
    breaks_prefix: bool = False
    over_window: bool = False


class PolicyOutcome(Struct, frozen=True):
    """One policy at one window, over one session or several.

    `input_tokens` and `read_tokens` include those of the summariser. `uncached_dollars` is the cost without a prompt
    cache. `overruns` are calls over the window, `without_opening` calls that no longer had the user's first request.
    `calls` counts the recorded calls, `summary_calls` the additional ones of a summariser.
    """

    policy: str
    window_tokens: int
    calls: int = 0
    input_tokens: int = 0
    read_tokens: int = 0
    output_tokens: int = 0
    peak_tokens: int = 0
    prompt_tokens: int = 0
    compactions: int = 0
    prunings: int = 0
    summary_calls: int = 0
    prefix_breaks: int = 0
    overruns: int = 0
    broken_pairs: int = 0
    without_opening: int = 0
    refetch_tokens: int = 0
    spend: Spend = NO_SPEND
    uncached_dollars: float = 0.0
    series: tuple[CallOutcome, ...] = ()

    def __add__(self, other: "PolicyOutcome") -> "PolicyOutcome":
        counted = {field: getattr(self, field) + getattr(other, field) for field in _COUNTED}
        peak = max(self.peak_tokens, other.peak_tokens)
        return PolicyOutcome(self.policy, self.window_tokens, peak_tokens=peak, **counted)

    @property
    def hit_ratio(self) -> float:
        """The share of the input that was cached."""
        return self.read_tokens / self.input_tokens if self.input_tokens else 0.0

    @property
    def mean_tokens(self) -> int:
        """The mean size of a recorded call's prompt."""
        return round(self.prompt_tokens / self.calls) if self.calls else 0

    @property
    def dollars(self) -> float:
        """The cost without fetching again."""
        return self.spend.dollars

    @property
    def faults(self) -> tuple[int, int, int]:
        """The calls over the window, the broken pairs, and the calls without the user's first request."""
        return self.overruns, self.broken_pairs, self.without_opening

    @property
    def dollars_with_refetch(self) -> float:
        """The cost including fetching lost content again."""
        return self.spend.dollars + self.spend.refetch


_COUNTED = tuple(
    field
    for field in PolicyOutcome.__struct_fields__
    if field not in ("policy", "window_tokens", "peak_tokens", "series")
)


class RunCalibration(Struct, frozen=True):
    """The recorded run compared with its simulation, from time and content alone, and corrected by unexplained
    `misses`.

    `recorded_dollars` is what was billed (`billed`), or the recorded usage at list prices. `unrecorded_shrinks` are
    prompts that became smaller without a recorded reason.
    """

    calls: int
    recorded_input: int
    simulated_input: int
    recorded_hit_ratio: float
    simulated_hit_ratio: float
    corrected_hit_ratio: float
    recorded_dollars: float = 0.0
    simulated_dollars: float = 0.0
    corrected_dollars: float = 0.0
    billed: bool = False
    misses: int = 0
    unrecorded_shrinks: int = 0

    @property
    def input_error(self) -> float:
        """The relative error of the simulated input."""
        return _relative_error(self.simulated_input, self.recorded_input)

    @property
    def dollar_error(self) -> float:
        """The relative error of the simulated cost."""
        return _relative_error(self.simulated_dollars, self.recorded_dollars)

    @property
    def corrected_dollar_error(self) -> float:
        """The relative error of the cost once the misses are known."""
        return _relative_error(self.corrected_dollars, self.recorded_dollars)


class SessionOutcome(Struct, frozen=True):
    """One recorded session under every policy; `factor` and `call_tokens` convert our count to the provider's."""

    id: str
    model: str
    priced: bool
    calls: int
    factor: float
    call_tokens: float
    overhead_tokens: int
    outcomes: tuple[PolicyOutcome, ...]
    calibration: RunCalibration | None = None
    notes: tuple[str, ...] = ()
    parent: str | None = None


class FileOutcome(Struct, frozen=True, tag="replayed", tag_field="state"):
    """One transcript: its sessions, sub-agents after the agent they worked for."""

    path: str
    format: str
    sessions: tuple[SessionOutcome, ...]

    @property
    def outcomes(self) -> tuple[PolicyOutcome, ...]:
        """Each policy at each window, over all sessions of the file."""
        return totals(outcome for session in self.sessions for outcome in session.outcomes)

    @property
    def longest(self) -> SessionOutcome | None:
        """The session with the most calls, which the charts show."""
        return max(self.sessions, key=lambda session: session.calls, default=None)


class BrokenFile(Struct, frozen=True, tag="broken", tag_field="state"):
    """A transcript that could not be replayed, and why."""

    path: str
    problem: str


class ReplayPlan(Struct, frozen=True):
    """What to replay: policies by name, windows in tokens (0 for the model's own), and how.

    Without `model`, the one each session was recorded with; without `overhead_tokens`, as recorded.
    """

    policies: tuple[str, ...]
    windows: tuple[int, ...]
    model: str | None = None
    caching: bool = True
    overhead_tokens: int | None = None


class Shard(Struct, frozen=True):
    """Every `of`-th file from file `number` on; by default all files."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def position(self, place: int) -> int:
        """Return the position among all files, from 1, of the file at this place in the shard."""
        return place * self.of + self.number


ALL_FILES = Shard()


class ReplayReport(Struct, frozen=True):
    """All results, in the order of the files."""

    plan: ReplayPlan
    prices_as_of: str
    files: tuple[FileOutcome | BrokenFile, ...]
    shard: Shard = ALL_FILES

    @property
    def replayed(self) -> tuple[FileOutcome, ...]:
        """The files that could be replayed."""
        return tuple(found for found in self.files if isinstance(found, FileOutcome))

    @property
    def broken(self) -> tuple[BrokenFile, ...]:
        """The files that could not."""
        return tuple(found for found in self.files if isinstance(found, BrokenFile))

    @property
    def outcomes(self) -> tuple[PolicyOutcome, ...]:
        """Each policy at each window, over everything."""
        return totals(outcome for found in self.replayed for outcome in found.outcomes)


def totals(outcomes: Iterable[PolicyOutcome]) -> tuple[PolicyOutcome, ...]:
    """Return the sums by window and policy, in the order of first occurrence."""
    groups: dict[tuple[int, str], list[PolicyOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.window_tokens, outcome.policy), []).append(outcome)
    return tuple(reduce(add, members) for members in groups.values())


def _relative_error(simulated: float, recorded: float) -> float:
    return simulated / recorded - 1 if recorded else 0.0
