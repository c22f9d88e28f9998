"""What the judge made of the demo's summaries, in words."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from rich.text import Text

from infold.cli.render import counted, dollars, one_line
from infold.core.entries import Verdict
from infold.core.events import Compacted

Outcome: TypeAlias = Literal["accepted", "repaired", "rejected"]
TIMES = {1: "once", 2: "twice"}
MOST_LINES = 4


def outcome_of(event: Compacted) -> Outcome | None:
    """What became of a compaction's summary; nothing where no model was asked."""
    if event.summariser:
        return "repaired" if event.faults else "accepted"
    return "rejected" if event.faults else None


def judged(event: Compacted, verdict: Verdict | None) -> str:
    """A sentence on a summary: what became of it, why, and what it took."""
    took = f"{dollars(event.cost)}, {event.duration_ms / 1000:.1f} s"
    match outcome_of(event):
        case "accepted":
            return f"summary accepted ({took})"
        case "repaired":
            names = ", ".join(dict.fromkeys(verdict.invented)) if verdict else "something"
            return f"summary repaired ({took}): it had invented {names}"
        case "rejected":
            faults = ", ".join(f"{fault} {TIMES.get(times, f'{times} times')}" for fault, times in _counted(event))
            return f"summary rejected ({took}): {faults}; code alone wrote the checkpoint"
        case _:
            return "no model was asked; code alone wrote the checkpoint"


def redlined(verdict: Verdict) -> Iterator[Text]:
    """The summary that was repaired: some of the lines that stand, and struck out those that do not."""
    lines = verdict.text.splitlines()
    yield from (Text(f"| {one_line(line)}") for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        yield Text(f"| ({counted(len(lines) - MOST_LINES, 'more line')})")
    yield from (Text(f"x {one_line(line)}", style="red strike") for line in verdict.removed)


def totals(events: Iterable[Compacted]) -> str:
    """All summaries of a session: how many there were of each kind, and what they cost."""
    folds = tuple(events)
    outcomes = Counter(outcome_of(event) for event in folds)
    kinds: tuple[Outcome, ...] = ("accepted", "repaired", "rejected")
    told = ", ".join(f"{kind}: {outcomes[kind]}" for kind in kinds)
    return f"{told}; {dollars(sum(event.cost for event in folds))} in all"


def _counted(event: Compacted) -> Iterable[tuple[str, int]]:
    return Counter(event.faults).items()
