"""How the demo looks: a moving bar in a terminal, lines elsewhere, and what it all came to."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from infold.cli.demo_acts import Act
from infold.cli.demo_play import Request, Stage
from infold.cli.demo_scene import Scene
from infold.cli.demo_session import RULES
from infold.cli.demo_verdicts import Outcome, judged, outcome_of, redlined, totals
from infold.cli.render import Gauge, event_line, legend, thousands
from infold.core.entries import Verdict
from infold.core.events import Clipped, Compacted, Pruned, SummaryRejected
from infold.core.messages import UserMessage

PAUSE_SECONDS = 0.006
PLAIN_GAUGE_EVERY = 20
INDENT = len("request 000 ")
NAME_WIDTH = len("without infold   ")


def show(console: Console, stage: Stage, *, plain: bool, fast: bool) -> list[Request]:
    """Play a stage and show it, moving in a terminal, as lines elsewhere; the requests, for what comes after."""
    scene = stage.scene
    _introduce(console, scene, plain=plain)
    gauge = Gauge(scene.window.context_tokens, scene.budget, width=max(20, min(70, console.width - 28)))
    if plain:
        console.print(Group(legend(plain=True), gauge.marks(indent=INDENT)))
    requests: list[Request] = []
    told = _Told()
    with nullcontext() if plain else Live(console=console, refresh_per_second=25) as live:
        for request in stage.requests():
            requests.append(request)
            for line in told.lines(request):
                console.print(line)
            if live is not None:
                live.update(_picture(request, gauge))
                time.sleep(0 if fast else PAUSE_SECONDS)
            elif request.number % PLAIN_GAUGE_EVERY == 1:
                console.print(_bar_line(request, gauge, plain=True))
    return requests


def sum_up(console: Console, scene: Scene, requests: Sequence[Request]) -> None:
    """What the session would have been, what it was, and what was checked."""
    limit = scene.budget.limit_tokens
    events = [event for request in requests for event in request.events]
    done = Counter(map(type, events))
    over = sum(request.whole_tokens > limit for request in requests)
    largest = max(request.total_tokens for request in requests)
    breaks = sum(not request.extends for request in requests)
    faulty = sum(bool(request.faults) for request in requests)
    console.print(
        f"\n  without infold   {thousands(requests[-1].whole_tokens)} tokens at the end; "
        f"{over} of {len(requests)} requests over the limit\n"
        f"  with infold      {thousands(largest)} tokens in the largest request, {thousands(limit)} allowed\n"
        f"  done             folds: {done[Compacted]}, prunings: {done[Pruned]}, clips: {done[Clipped]}\n"
        f"  summaries        {totals(event for event in events if isinstance(event, Compacted))}\n"
        f"  cache            the cached prefix broke {breaks} times in {len(requests)} requests\n"
        f"  checked          size, call pairs, first request and {len(RULES)} rules in each request; at fault: {faulty}\n"
    )


def show_acts(console: Console, acts: Iterable[Act]) -> list[str]:
    """Show what is done after the session, as it is done; gives what did not hold."""
    faults: list[str] = []
    for act in acts:
        for place, line in enumerate(act.lines):
            name = "" if place else act.name
            console.print(f"  {name:<{NAME_WIDTH}}{line}", overflow="ellipsis", no_wrap=place > 0)
        faults += act.faults
    console.print()
    return faults


class _Told:
    """Which lines a request gets: every event, and of the judge's verdicts each kind when it first occurs."""

    def __init__(self) -> None:
        self._known: set[Outcome | None] = {None}

    def lines(self, request: Request) -> Iterator[RenderableType]:
        for event in request.events:
            if not isinstance(event, SummaryRejected):  # its compaction's line says so
                yield event_line(request.number, event)
            if isinstance(event, Compacted):
                told = self._on_summary(event, request.verdict)
                yield from (Padding(line, (0, 0, 0, INDENT + 1), expand=False) for line in told)

    def _on_summary(self, event: Compacted, verdict: Verdict | None) -> Iterator[RenderableType]:
        outcome = outcome_of(event)
        if outcome in self._known:
            return
        self._known.add(outcome)
        yield judged(event, verdict)
        if outcome == "repaired" and verdict is not None:
            yield from redlined(verdict)


def _introduce(console: Console, scene: Scene, *, plain: bool) -> None:
    budget = scene.budget
    turns = sum(isinstance(message, UserMessage) for message in scene.history)
    name = f"window {scene.window.context_tokens / 1_000:g}k"
    console.rule(name, characters="-" if plain else "─", style="bold")
    console.print(
        f"A session of {len(scene.history)} messages in {turns} user turns. Policy {scene.policy.name}: act at "
        f"{thousands(budget.trigger_tokens)} tokens, aim at {thousands(budget.target_tokens)}, never send more than "
        f"{thousands(budget.limit_tokens)}."
    )


def _picture(request: Request, gauge: Gauge) -> Group:
    over = request.whole_tokens / gauge.budget.limit_tokens
    without = f"without infold: {thousands(request.whole_tokens)} tokens"
    return Group(
        "",
        _bar_line(request, gauge, plain=False),
        gauge.marks(indent=INDENT),
        legend(plain=False),
        Text(f"{without}, {over:.1f} times the limit" if over > 1 else without, style="red" if over > 1 else ""),
    )


def _bar_line(request: Request, gauge: Gauge, *, plain: bool) -> Text:
    line = Text(f"request {request.number:>3} ")
    line.append(gauge.bar(request.tokens, plain=plain))
    return line.append(f" {thousands(request.total_tokens)} tokens")
