"""`infold demo`: play one coding session through small windows, without a model, a key or a network.

The session is scripted (`demo_session`). It is kept by an `infold.Session` in a SQLite file, request by request, as an agent
would, and folded by code alone.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from infold.cli.demo_session import AGENTS_TEXT, RULES, SYSTEM_TEXT, coding_session
from infold.cli.options import parse_tokens
from infold.cli.render import checkpoint_panel, legend, open_console, window_bar
from infold.core.budget import Budget, Window, budget_for
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.messages import AssistantMessage, Usage, UserMessage, text_of
from infold.core.policy import Policy, preset
from infold.core.tokens import measure
from infold.core.view import view
from infold.errors import UnknownPreset, WindowExceeded
from infold.reports.text import event_line, one_line, short_number
from infold.session.counting import counting_for
from infold.session.report import tokens_by_category
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.testing.builders import numbered, replies, user
from infold.wiring import open_store

SMALLEST_WINDOW, LARGEST_WINDOW = 8_000, 2_000_000
"""Below 8k the system prompt and the user's rules alone fill the window."""

SMALL_WINDOW = 32_000
"""Below this the session is scaled down: without AGENTS.md, with short results."""

SMALL_RESULT_SHARE, LARGEST_RESULT = 1 / 16, 50_000

LAST_PROMPT = (user("Thank you. What should the others know first?"), replies("How the new feed is read."))
STEP_MS = 60_000
"""Time between two requests in the played session."""

PAUSE_SECONDS = 0.006
PLAIN_BAR_EVERY = 20
INDENT = len("request 000 ")
CATEGORIES = ("system", "summary", "user", "assistant", "reasoning", "calls", "results")

QUERY = "make lint unused"
RECALL_TOKENS, RECALL_LINES, LONGEST_LINE = 300, 2, 78

INTRODUCTION = """\
A coding agent's session outgrows its model's window many times over. infold prepares every
request so that it fits, and keeps the user's requests and rules word for word. The log keeps
everything, the request gets smaller: old tool results are pruned, old turns are folded into a
checkpoint, a part that is too large is clipped. Nothing is sent: no key, no network, no model.
"""


def _parse_windows(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int, ...]:
    windows = tuple(parse_tokens(ctx, param, value) or 0 for value in values)
    for value, tokens in zip(values, windows, strict=True):
        if not SMALLEST_WINDOW <= tokens <= LARGEST_WINDOW:
            raise click.BadParameter(f"{value!r} is not from 8k to 2m tokens; use one such as 64k", ctx, param)
    return windows


def _parse_preset(ctx: click.Context, param: click.Parameter, value: str) -> Policy:
    try:
        return preset(value)
    except UnknownPreset as error:
        raise click.BadParameter(str(error), ctx, param) from error


@click.command()
@click.option(
    "--window", "windows", multiple=True, default=("8k", "64k"), callback=_parse_windows, help="May be repeated."
)
@click.option("--policy", default="infold", show_default=True, callback=_parse_preset, help="The preset to use.")
@click.option("--plain", is_flag=True, help="Lines only: no colour, no movement. Always so without a terminal.")
@click.option("--fast", is_flag=True, help="No pauses.")
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the sessions in this SQLite file, for `infold serve --store`; those in it are not played again.",
)
def demo(windows: tuple[int, ...], policy: Policy, plain: bool, fast: bool, keep: Path | None) -> None:
    """Watch a long coding session being kept inside small windows (8k and 64k by default).

    Each request of the session is prepared as an agent would send it. Nothing is sent: no key, no network, no model. The
    exit status is 1 if a request does not fit.
    """
    console = open_console(plain=plain)
    plain = plain or not console.is_terminal
    console.print(INTRODUCTION)
    problems: list[str] = []
    for place, window_tokens in enumerate(windows, start=1):
        with ExitStack() as stack:
            path = keep or Path(stack.enter_context(TemporaryDirectory(prefix="infold-demo-"))) / "demo.sqlite3"
            name = f"demo-{window_tokens // 1_000}k"
            played = Demo(stack.enter_context(open_store(str(path))), name, window_tokens, policy)
            if played.session.log.next_sequence:
                console.print(f"{name} is in {keep} already")
                continue
            requests = _show(console, played, plain=plain, fast=fast)
            checkpoint = played.session.log.checkpoint
            if checkpoint is not None and place == len(windows):
                console.print(checkpoint_panel(checkpoint.text, plain=plain))
            if requests:
                _sum_up(console, played, requests)
            played.session.title(f"A coding session in a window of {window_tokens:,} tokens")
            problems += [f"window {window_tokens:,}, {problem}" for problem in played.problems]
    for problem in problems:
        console.print(problem, style="red")
    if problems:
        console.print("not all requests fitted; try --policy infold or a larger --window", style="bold red")
    else:
        console.print("all requests fitted", style="bold green")
    raise click.exceptions.Exit(1 if problems else 0)


# Playing.


class DemoRequest(Struct, frozen=True):
    """One request: its tokens by category, what it would have had without infold, and what was done for it.

    `keeps_prefix`: it begins with the whole request before it, so that the provider's cache applies.
    """

    number: int
    contents: Mapping[str, int]
    tokens_without: int
    events: tuple[Event, ...]
    keeps_prefix: bool

    @property
    def tokens(self) -> int:
        """The size of the request."""
        return sum(self.contents.values())


class Demo:
    """A coding session that is played through one window; `problems` names requests that did not fit."""

    def __init__(self, store: Any, name: str, window_tokens: int, policy: Policy) -> None:
        small = window_tokens < SMALL_WINDOW
        largest = int(window_tokens * SMALL_RESULT_SHARE) if small else LARGEST_RESULT
        window = Window(window_tokens, output_tokens=window_tokens // 4)
        self.window_tokens, self.policy, self.budget = window_tokens, policy, budget_for(window, policy)
        self.history = (*coding_session(largest_result_tokens=largest), *numbered(LAST_PROMPT, prefix="last"))
        self.system = SYSTEM_TEXT if small else f"{SYSTEM_TEXT}\n\n{AGENTS_TEXT}"
        self.problems: list[str] = []
        self._number = 0
        started_ms = round(time.time() * 1_000) - STEP_MS * len(self.history)
        settings = SessionSettings(
            window=window,
            policy=policy,
            format="openai-chat",
            recall=True,
            environ={},
            now_ms=lambda: started_ms + STEP_MS * self._number,
        )
        self.session = Session(store, name, settings)
        ruler = counting_for("o200k").ruler
        self._system_tokens = measure(self.system, ruler)
        self._count = lru_cache(maxsize=None)(lambda message: tokens_by_category((message,), ruler))

    def play(self) -> Iterator[DemoRequest]:
        """Yield every request in turn; each is answered by the script, with the usage a provider would report."""
        before: Sequence[object] = []
        tokens_without = self._system_tokens
        for message in self.history:
            tokens_without += sum(self._count(message).values())
            if not isinstance(message, AssistantMessage):
                self.session.add((message,))
                continue
            self._number += 1
            try:
                ready = self.session.prepare_new((), system=self.system)
            except WindowExceeded as error:
                self.problems.append(f"request {self._number}: {error}")
                return
            output_tokens = sum(self._count(message).values())
            keeps_prefix = ready.messages[: len(before)] == before
            request = DemoRequest(
                self._number, self._contents(), tokens_without - output_tokens, ready.events, keeps_prefix
            )
            if request.tokens > self.budget.limit_tokens:
                self.problems.append(f"request {self._number}: {request.tokens:,} tokens are over the limit")
            yield request
            self.session.add((replace(message, usage=Usage(input=request.tokens, output=output_tokens)),))
            before = ready.messages

    def _contents(self) -> dict[str, int]:
        tokens = Counter(system=self._system_tokens)
        for message in view(self.session.log, self.policy.summary):
            tokens.update(self._count(message))
        return dict(tokens)


# Showing.


def _show(console: Console, played: Demo, *, plain: bool, fast: bool) -> list[DemoRequest]:
    """Play a session, as a moving bar in a terminal and as lines elsewhere; return its requests."""
    budget, width = played.budget, max(20, min(70, console.width - 28))
    turns = sum(isinstance(message, UserMessage) for message in played.history)
    console.rule(f"window {played.window_tokens / 1_000:g}k", characters="-" if plain else "─", style="bold")
    console.print(
        f"A session of {len(played.history)} messages in {turns} user turns. Policy {played.policy.name}: compact at "
        f"{short_number(budget.trigger_tokens)} tokens, aim at {short_number(budget.target_tokens)}, never send more than "
        f"{short_number(budget.limit_tokens)}."
    )
    marks = _marks(budget, played.window_tokens, width)
    if plain:
        console.print(Group(legend(CATEGORIES, plain=True), marks))
    requests: list[DemoRequest] = []
    with nullcontext() if plain else Live(console=console, refresh_per_second=25) as live:
        for request in played.play():
            requests.append(request)
            for event in request.events:
                console.print(f"request {request.number:>3}  {event_line(event)}")
            bar = Text(f"request {request.number:>3} ").append(
                window_bar(
                    request.contents, window=played.window_tokens, limit=budget.limit_tokens, width=width, plain=plain
                )
            )
            bar.append(f" {short_number(request.tokens)} tokens")
            if live is not None:
                without = f"without infold: {short_number(request.tokens_without)} tokens"
                live.update(Group("", bar, marks, legend(CATEGORIES, plain=False), Text(without, style="dim")))
                time.sleep(0 if fast else PAUSE_SECONDS)
            elif request.number % PLAIN_BAR_EVERY == 1:
                console.print(bar)
    return requests


def _marks(budget: Budget, window_tokens: int, width: int) -> Text:
    """Return the line below the bar: where the target and the trigger end, and where the limit begins."""
    line = ""
    for name, tokens in (("target^", budget.target_tokens), ("trigger^", budget.trigger_tokens)):
        place = round(width * tokens / window_tokens) - len(name)
        line = line.ljust(place) + name if place >= len(line) else line
    line = line.ljust(round(width * budget.limit_tokens / window_tokens)) + "^limit"
    return Text(" " * INDENT + line, style="bold")


def _sum_up(console: Console, played: Demo, requests: Sequence[DemoRequest]) -> None:
    """Print the session with and without infold, what was done, what was kept, and what recall finds."""
    limit = played.budget.limit_tokens
    events = [event for request in requests for event in request.events]
    done = Counter(map(type, events))
    over = sum(request.tokens_without > limit for request in requests)
    largest = max(request.tokens for request in requests)
    broken = sum(not request.keeps_prefix for request in requests)
    sent = "\n".join(text_of(message) for message in view(played.session.log, played.policy.summary))
    found = played.session.recall(QUERY, budget_tokens=RECALL_TOKENS).splitlines()
    lines = {
        "without infold": f"{short_number(requests[-1].tokens_without)} tokens at the end; "
        f"{over} of {len(requests)} requests over the limit",
        "with infold": f"{short_number(largest)} tokens in the largest request, {short_number(limit)} allowed",
        "done": f"folds: {done[Compacted]}, prunings: {done[Pruned]}, clips: {done[Clipped]}",
        "cache": f"the cached prefix broke {broken} times in {len(requests)} requests",
        "kept": f"{sum(rule in sent for rule in RULES)} of {len(RULES)} rules of the user, word for word",
        "recalled": f"by {QUERY!r}:",
    }
    console.print()
    for name, line in lines.items():
        console.print(f"  {name:<17}{line}")
    for line in [line for line in found if line.strip()][:RECALL_LINES]:
        console.print(f"{'':<21}{one_line(line, LONGEST_LINE)}", overflow="ellipsis", no_wrap=True)
    console.print()
