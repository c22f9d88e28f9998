"""`infold demo`: one coding session, played request by request through small windows, without a model or a network.

Shows what the core decides, and checks every request from the outside: counted afresh, pairs whole, the first request and
every rule in it word for word. Decides nothing itself.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import lru_cache

import click
from msgspec import Struct
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from infold.cli.render import Gauge, checkpoint_panel, console_for, event_line, legend, thousands
from infold.core.budget import Window, budget_for
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.gauge import Situation
from infold.core.messages import (
    AssistantMessage,
    Message,
    ReasoningPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
    text_of,
)
from infold.core.policy import Policy
from infold.core.presets import preset
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure_part
from infold.errors import UnknownPreset
from infold.testing.builders import log_of
from infold.testing.play import play
from infold.testing.trajectory import AGENTS_TOKENS, RULES, SYSTEM_TOKENS, coding_session

__all__ = ["demo"]

SMALLEST_WINDOW, LARGEST_WINDOW = 8_000, 2_000_000
"""Below 8k the session's system prompt and rules alone fill the window."""

SMALL_WINDOW = 32_000
"""Below this the session is scaled down, as one would be whose agent knows its window: no AGENTS.md, short results."""

SMALL_RESULT_SHARE = 1 / 16

PROVIDER_FACTOR = 1.06
"""The provider we play counts this much more than the core's estimate, about as o200k does on this session; all numbers of
a request are its count, and the core has to learn it from the usage that is reported."""

PAUSE_SECONDS = 0.006
PLAIN_GAUGE_EVERY = 20
MOST_FAULTS = 10
INDENT = len("request 000 ")
UNITS = {"k": 1_000, "m": 1_000_000}
INTRODUCTION = """\
A coding agent's session outgrows its model's window many times over.
infold prepares every request so that it fits, and keeps what the user laid down word for word.
Nothing is sent: no key, no network, no model. The log keeps everything, the request gets smaller:
old tool results are pruned, old turns are folded into a checkpoint, a part too large is clipped.
"""


class Request(Struct, frozen=True):
    """One request as the demo shows it, and what is wrong with it, if anything."""

    number: int
    tokens: Mapping[str, int]
    whole_tokens: int
    events: tuple[Event, ...]
    extends: bool
    checkpoint: str
    faults: tuple[str, ...]

    @property
    def total_tokens(self) -> int:
        """What the request takes of the window, counted afresh."""
        return sum(self.tokens.values())


class Scene(Struct, frozen=True):
    """One window with the session that is played through it."""

    window_tokens: int
    session: tuple[Message, ...]
    situation: Situation


def _window_sizes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(_window_size(ctx, param, value) for value in values)


def _window_size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """A number of tokens, with k or m for thousands and millions."""
    text = value.lower().replace(",", "").replace("_", "")
    digits, unit = (text[:-1], UNITS[text[-1]]) if text[-1:] in UNITS else (text, 1)
    tokens = int(digits) * unit if digits.isdecimal() and len(digits) < 10 else 0
    if not SMALLEST_WINDOW <= tokens <= LARGEST_WINDOW:
        problem = f"{value!r} is no window the demo can play; give tokens from 8k to 2m, such as 64k"
        raise click.BadParameter(problem, ctx, param)
    return tokens


def _preset(ctx: click.Context, param: click.Parameter, value: str) -> Policy:
    try:
        return preset(value)
    except UnknownPreset as error:
        raise click.BadParameter(str(error), ctx, param) from error


@click.command(short_help="Watch a long coding session being kept inside small windows.")
@click.option(
    "--window", "windows", multiple=True, default=("8k", "64k"), callback=_window_sizes, help="May be repeated."
)
@click.option("--policy", default="infold", show_default=True, callback=_preset, help="Which preset decides.")
@click.option("--plain", is_flag=True, help="Lines only: no colour, no movement. Always so outside a terminal.")
@click.option("--fast", is_flag=True, help="No pauses.")
def demo(windows: tuple[int, ...], policy: Policy, plain: bool, fast: bool) -> None:
    """Watch a long coding session being kept inside small windows (8k and 64k, if no other is given).

    Each request of the session is prepared as an agent would send it. Nothing is sent: no key, no network, no model. At
    the end every request is checked; the exit status is 1 if one of them did not hold.
    """
    console = console_for(plain=plain)
    plain = plain or not console.is_terminal
    console.print(INTRODUCTION)
    faults: list[str] = []
    for place, window_tokens in enumerate(windows, start=1):
        scene = _scene(window_tokens, policy)
        requests = _show(console, scene, plain=plain, pause=0.0 if fast or plain else PAUSE_SECONDS)
        if place == len(windows) and requests[-1].checkpoint:
            console.print(checkpoint_panel(requests[-1].checkpoint, plain=plain))
        _sum_up(console, scene, requests)
        faults += [f"window {window_tokens:,}, {fault}" for request in requests for fault in request.faults]
    raise click.exceptions.Exit(_verdict(console, faults))


def _scene(window_tokens: int, policy: Policy) -> Scene:
    window = Window(window_tokens, output_tokens=window_tokens // 4)
    small = window_tokens < SMALL_WINDOW
    overhead_tokens = SYSTEM_TOKENS if small else SYSTEM_TOKENS + AGENTS_TOKENS
    session = coding_session(largest_result_tokens=int(window_tokens * SMALL_RESULT_SHARE) if small else 50_000)
    return Scene(window_tokens, session, Situation(policy, budget_for(window, policy), overhead_tokens))


# Playing.


def _requests(scene: Scene) -> Iterator[Request]:
    """Every request of the session in turn; each reply reports the usage of the request it answers."""
    overhead_tokens = scene.situation.overhead_tokens
    count = _Count()
    before: tuple[Message, ...] = ()
    replies = [place for place, message in enumerate(scene.session) if isinstance(message, AssistantMessage)]
    played = play(log_of((), policy=scene.situation.policy), scene.session, scene.situation, factor=PROVIDER_FACTOR)
    for number, (one, end) in enumerate(zip(played, (*replies, len(scene.session)), strict=True), start=1):
        checkpoint = one.compaction.log.checkpoint
        summary = checkpoint.text if checkpoint else ""
        tokens = count.by_category(one.request, summary, overhead_tokens)
        yield Request(
            number=number,
            tokens=tokens,
            whole_tokens=sum(count.by_category(scene.session[:end], "", overhead_tokens).values()),
            events=one.compaction.events,
            extends=one.request[: len(before)] == before,
            checkpoint=summary,
            faults=tuple(f"request {number}: {fault}" for fault in _faults(one.request, tokens, scene, end)),
        )
        before = one.request


class _Count:
    """Counts messages by category; what was counted once is remembered."""

    def __init__(self) -> None:
        self.tokens_of = lru_cache(maxsize=None)(lambda part: measure_part(part, "features"))

    def by_category(self, messages: Iterable[Message], summary: str, overhead_tokens: int) -> dict[str, int]:
        tokens = Counter(system=overhead_tokens)
        for message in messages:
            said_by = "summary" if summary and text_of(message) == summary else _SAID_BY.get(type(message), "system")
            tokens[said_by] += MESSAGE_OVERHEAD_TOKENS
            for part in message.parts:
                tokens[_PART_CATEGORIES.get(type(part), said_by)] += self.tokens_of(part)
        return {name: round(PROVIDER_FACTOR * number) for name, number in tokens.items()}


_SAID_BY: dict[type, str] = {AssistantMessage: "assistant", ToolMessage: "results", UserMessage: "user"}
_PART_CATEGORIES: dict[type, str] = {ReasoningPart: "reasoning", ToolCallPart: "calls", ToolResultPart: "results"}


def _faults(view: tuple[Message, ...], tokens: Mapping[str, int], scene: Scene, end: int) -> Iterator[str]:
    """What is wrong with a request, looked at from the outside."""
    total, limit = sum(tokens.values()), scene.situation.budget.limit_tokens
    if total > limit:
        yield f"{total:,} tokens are over the limit of {limit:,}"
    if not _pairs_are_whole(view):
        yield "a tool call and its result are not together"
    sent = "\n".join(map(text_of, view))
    if text_of(scene.session[0]) not in sent:
        yield "the user's first request is missing"
    said = "\n".join(text_of(message) for message in scene.session[:end] if isinstance(message, UserMessage))
    yield from (f"a rule is missing: {rule}" for rule in RULES if rule in said and rule not in sent)


def _pairs_are_whole(view: tuple[Message, ...]) -> bool:
    """Whether every call is answered at once, and nothing is answered that was not asked."""
    waiting: set[str] = set()
    for message in view:
        answered = {result.call_id for result in results_of(message)}
        if not answered <= waiting or (waiting and not answered):
            return False
        waiting = (waiting - answered) | {call.call_id for call in calls_of(message)}
    return not waiting


# Showing.


def _show(console: Console, scene: Scene, *, plain: bool, pause: float) -> list[Request]:
    """Play a scene and show it, moving in a terminal, as lines elsewhere; the requests, for what comes after."""
    budget = scene.situation.budget
    turns = sum(isinstance(message, UserMessage) for message in scene.session)
    console.rule(f"window {scene.window_tokens / 1_000:g}k", characters="-" if plain else "─", style="bold")
    console.print(
        f"A session of {len(scene.session)} messages in {turns} user turns. Policy {scene.situation.policy.name}: act at "
        f"{thousands(budget.trigger_tokens)} tokens, aim at {thousands(budget.target_tokens)}, never send more than "
        f"{thousands(budget.limit_tokens)}."
    )
    gauge = Gauge(scene.window_tokens, budget, width=max(20, min(70, console.width - 28)))
    if plain:
        console.print(Group(legend(plain=True), gauge.marks(indent=INDENT)))
    requests: list[Request] = []
    with nullcontext() if plain else Live(console=console, refresh_per_second=25) as live:
        for request in _requests(scene):
            requests.append(request)
            for event in request.events:
                console.print(event_line(request.number, event))
            if live is not None:
                live.update(_picture(request, gauge))
                time.sleep(pause)
            elif request.number % PLAIN_GAUGE_EVERY == 1:
                console.print(_bar_line(request, gauge, plain=True))
    return requests


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


def _sum_up(console: Console, scene: Scene, requests: list[Request]) -> None:
    limit = scene.situation.budget.limit_tokens
    done = Counter(type(event) for request in requests for event in request.events)
    over = sum(request.whole_tokens > limit for request in requests)
    largest = max(request.total_tokens for request in requests)
    breaks = sum(not request.extends for request in requests)
    faulty = sum(bool(request.faults) for request in requests)
    console.print(
        f"\n  without infold   {thousands(requests[-1].whole_tokens)} tokens at the end; "
        f"{over} of {len(requests)} requests over the limit\n"
        f"  with infold      {thousands(largest)} tokens in the largest request, {thousands(limit)} allowed\n"
        f"  done             folds: {done[Compacted]}, prunings: {done[Pruned]}, clips: {done[Clipped]}\n"
        f"  cache            the cached prefix broke {breaks} times in {len(requests)} requests\n"
        f"  checked          size, call pairs, first request and {len(RULES)} rules in each request; at fault: {faulty}\n"
    )


def _verdict(console: Console, faults: list[str]) -> int:
    """Say whether every request held; the exit status."""
    if not faults:
        console.print("all requests fitted", style="bold green")
        return 0
    for fault in faults[:MOST_FAULTS]:
        console.print(fault, style="red")
    console.print(f"faults in all: {len(faults)}; try --policy infold or a larger --window", style="bold red")
    return 1
