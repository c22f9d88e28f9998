"""`infold demo`: play a short coding session through a small window, without a model, a key or a network.

The session is invented and stands in `demo_session.json`: a user's requests, and an agent's replies and tool results. It is
prepared and recorded request by request by an `infold.Session`, as an agent would do it. What is folded, counted and recalled is
computed while it is played.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from infold.cli.options import parse_tokens
from infold.cli.render import open_console
from infold.core.budget import Window, budget_for
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.ledger import EMPTY_LEDGER, Ledger
from infold.core.messages import is_recall
from infold.core.policy import Policy, preset
from infold.core.view import view
from infold.errors import UnknownPreset, WindowExceeded
from infold.formats.registry import OPENAI_CHAT
from infold.formats.tools import recall_tool
from infold.reports.text import one_line, plural, printable, short_number
from infold.session.counting import count_overhead, counting_for
from infold.session.report import describe_event, tokens_by_category
from infold.session.session import Session
from infold.session.settings import SessionSettings
from infold.settings import read_settings
from infold.wiring import open_store

SESSION_FILE = Path(__file__).parent / "demo_session.json"

SMALLEST_WINDOW, LARGEST_WINDOW = 6_000, 2_000_000
"""In less than 6k tokens the newest file that the agent reads leaves no room for anything else."""

STEP_MS = 20_000
"""Time between two requests in the played session."""

PAUSE_SECONDS = 0.12
RECALL_TOKENS = 400
LONGEST_BAR, SHORTEST_BAR, ACTION_WIDTH, SHORTEST_ACTION = 32, 8, 40, 12
OTHER_COLUMNS = len(" 29  " + "   5.6k" + "    10.7k" + "  " + "|")
"""Columns of a request's line that are neither for the action nor for the bar."""

INTRODUCTION = """\
A coding agent works on a small web shop, in a window of {window} tokens. infold prepares each of its
requests; {limit} of the window may be filled, the rest is for the reply. The session is invented and
replayed; nothing is sent, so it needs no key, no network and no model."""

HOW_TO_READ = """\
Each line is a request: the agent's next step, the tokens sent, and the tokens without infold.
{sent} is sent, {left} is left out by infold, {mark} is the limit."""


def _parse_window(ctx: click.Context, param: click.Parameter, value: str) -> int:
    tokens = parse_tokens(ctx, param, value) or 0
    if not SMALLEST_WINDOW <= tokens <= LARGEST_WINDOW:
        raise click.BadParameter(f"{value!r} is not from 6k to 2m tokens; use one such as 8k or 64k", ctx, param)
    return tokens


def _parse_preset(ctx: click.Context, param: click.Parameter, value: str) -> Policy:
    try:
        return preset(value)
    except UnknownPreset as error:
        raise click.BadParameter(str(error), ctx, param) from error


@click.command()
@click.option(
    "--window", default="8k", show_default=True, callback=_parse_window, help="The window to play it in, such as 16k."
)
@click.option("--policy", default="infold", show_default=True, callback=_parse_preset, help="The preset to use.")
@click.option(
    "--plain", is_flag=True, help="No colours and no pauses, and bars of ASCII. Always so without a terminal."
)
@click.option("--fast", is_flag=True, help="No pauses.")
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the session in this SQLite file, for `infold serve --store`; one that is in it is not played again.",
)
def demo(window: int, policy: Policy, plain: bool, fast: bool, keep: Path | None) -> None:
    """Watch a coding session being kept inside a small window (8k by default).

    An agent repairs refunds in a web shop. Each of its requests is prepared as it would be sent; old messages are folded, the
    user's two rules stay word for word, and at the end recall finds what was folded long before. Nothing is sent: no key, no
    network, no model. The exit status is 1 if a request does not fit.
    """
    console = open_console(plain=plain)
    screen = DemoScreen(console, plain=plain or not console.is_terminal, fast=fast)
    page = "" if keep is None else _page_address()
    with ExitStack() as stack:
        path = keep or Path(stack.enter_context(TemporaryDirectory(prefix="infold-demo-"))) / "demo.sqlite3"
        played = Demo(stack.enter_context(open_store(str(path))), window, policy)
        if page:
            console.print(f"The page at {page} shows this session while `infold serve --store {keep}` runs.\n")
        if played.session.log.next_sequence:
            console.print(f"The session {played.name} is in {keep} already.")
            return
        steps = screen.play(played)
        if not played.problem:
            screen.sum_up(played, steps)
        played.session.title(played.script.title)
    if page:
        console.print(f"\nLook at it on the page: infold serve --store {keep}, then {page}")
    elif not played.problem:
        console.print(
            "\nLook at it on the page: infold demo --keep demo.sqlite3, then infold serve --store demo.sqlite3"
        )
    raise click.exceptions.Exit(1 if played.problem else 0)


def _page_address() -> str:
    """Return where `infold serve` has its page under the settings of this process."""
    gateway = read_settings(os.environ, Path.cwd()).gateway
    host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
    return f"http://{host}:{gateway.port}/"


# Playing.


class DemoScript(Struct, frozen=True):
    """The invented session as an agent's messages in OpenAI's chat format.

    `rules` are sentences of the user that must be in every request. `sought` is the text that the agent recalls; the result of
    a call of recall is not written down (`null`) but computed.
    """

    title: str
    system: str
    tools: list[dict[str, Any]]
    rules: tuple[str, ...]
    sought: str
    messages: list[dict[str, Any]]


def read_script() -> DemoScript:
    """Return the session of the demo."""
    return msgspec.json.decode(SESSION_FILE.read_bytes(), type=DemoScript)


class DemoStep(Struct, frozen=True):
    """One request and its reply: what the user said before it, what was done for it, and its size with and without infold.

    `request` is the text of everything sent, `ledger` what its checkpoint keeps; `recalled` is what the call of recall in the
    reply brought back.
    """

    number: int
    said: str
    events: tuple[Event, ...]
    ledger: Ledger
    tokens: int
    tokens_without: int
    request: str
    reply: dict[str, Any]
    recalled: str = ""

    @property
    def action(self) -> str:
        """What the reply does, in one line: its tool and main argument, or its first words."""
        calls = self.reply.get("tool_calls")
        if not calls:
            return f"answer {self.reply['content']}"
        function = calls[0]["function"]
        arguments = json.loads(function["arguments"])
        shown = next(arguments[name] for name in ("command", "path", "query") if name in arguments)
        return f"{function['name']:<6} {shown}"


class Demo:
    """The session, played through one window; `problem` says why it could not go on."""

    def __init__(self, store: Any, window_tokens: int, policy: Policy) -> None:
        self.script = read_script()
        self.name = f"demo-{short_number(window_tokens)}"
        self.window_tokens, self.policy, self.problem = window_tokens, policy, ""
        window = Window(window_tokens, output_tokens=window_tokens // 4)
        self.budget = budget_for(window, policy)
        self.tools = [*self.script.tools, recall_tool(OPENAI_CHAT.name)]
        self._number = 0
        replies = sum(message["role"] == "assistant" for message in self.script.messages)
        started_ms = round(time.time() * 1_000) - STEP_MS * replies
        settings = SessionSettings(
            window=window,
            policy=policy,
            format=OPENAI_CHAT.name,
            recall=True,
            environ={},
            now_ms=lambda: started_ms + STEP_MS * self._number,
        )
        self.session = Session(store, self.name, settings)
        self._ruler = counting_for("o200k").ruler
        self._overhead = count_overhead((), self.script.system, self.tools, self._ruler).tokens
        self.largest_without = self._count(OPENAI_CHAT.decode(self.script.messages).messages)

    def play(self) -> Iterator[DemoStep]:
        """Yield every request with its reply; the session has recorded both."""
        history: list[dict[str, Any]] = []
        said = recalled = ""
        for message in self.script.messages:
            if message["role"] != "assistant":
                said = message["content"] if message["role"] == "user" else ""
                history.append(message if message["content"] is not None else {**message, "content": recalled})
                continue
            self._number += 1
            try:
                ready = self.session.prepare(history, system=self.script.system, tools=self.tools)
            except WindowExceeded as error:
                self.problem = f"request {self._number}: {error}"
                return
            sent, checkpoint = view(self.session.log, self.policy.summary), self.session.log.checkpoint
            whole = OPENAI_CHAT.decode(history).messages
            finish = "tool_calls" if "tool_calls" in message else "stop"
            self.session.record({"choices": [{"message": message, "finish_reason": finish}]})
            recalled = self._recall(message)
            yield DemoStep(
                self._number,
                said,
                ready.events,
                EMPTY_LEDGER if checkpoint is None else checkpoint.ledger,
                self._count(sent),
                self._count(whole),
                json.dumps(ready.messages, ensure_ascii=False),
                message,
                recalled,
            )
            history.append(message)

    def _recall(self, reply: dict[str, Any]) -> str:
        for call in reply.get("tool_calls", ()):
            if is_recall(call["function"]["name"]):
                query = json.loads(call["function"]["arguments"])["query"]
                return self.session.recall(query, budget_tokens=RECALL_TOKENS)
        return ""

    def _count(self, messages: Sequence[Any]) -> int:
        return self._overhead + sum(tokens_by_category(messages, self._ruler).values())


# Showing.


class BarMarks(Struct, frozen=True):
    """The characters of a bar: what is sent, what was left out, the limit."""

    sent: str
    left_out: str
    limit: str


PLAIN_MARKS, MARKS = BarMarks("#", "-", "|"), BarMarks("█", "░", "│")


class DemoScreen:
    """Prints a session as it is played: what the user says, a line for each request, and what infold does."""

    def __init__(self, console: Console, *, plain: bool, fast: bool) -> None:
        self._console = console
        self._marks = PLAIN_MARKS if plain else MARKS
        self._pause_seconds = 0 if plain or fast else PAUSE_SECONDS

    def play(self, played: Demo) -> list[DemoStep]:
        """Print a session while it is played; return its requests."""
        marks, window, limit = self._marks, short_number(played.window_tokens), short_number(played.budget.limit_tokens)
        self._console.print(INTRODUCTION.format(window=window, limit=limit))
        self._console.print(HOW_TO_READ.format(sent=marks.sent, left=marks.left_out, mark=marks.limit))
        steps: list[DemoStep] = []
        for step in played.play():
            steps.append(step)
            self._show(step, played)
            time.sleep(self._pause_seconds)
        if played.problem:
            self._console.print(f"\n{played.problem}", style="bold red")
            self._console.print("The session cannot go on; try --policy infold or a larger --window.", style="bold red")
        return steps

    def _show(self, step: DemoStep, played: Demo) -> None:
        if step.said:
            self._console.print()
            self._print_indented("user   ", step.said, style="bold")
        for event in step.events:
            if isinstance(event, Compacted | Pruned | Clipped):
                self._print_indented("infold ", describe_event(event), style="green")
            if isinstance(event, Compacted):
                self._print_indented("       ", _describe_ledger(step.ledger), style="green")
        self._console.print(self._line(step, played))
        found = [line for line in step.recalled.splitlines() if played.script.sought in line]
        for shown in found[:1]:
            self._print_indented("found  ", one_line(shown), style="green")

    def _line(self, step: DemoStep, played: Demo) -> Text:
        """Return one request in one line: number, the agent's next action, tokens with and without infold, bar."""
        bar_width = max(SHORTEST_BAR, min(LONGEST_BAR, self._console.width - OTHER_COLUMNS - ACTION_WIDTH))
        action_width = max(SHORTEST_ACTION, self._console.width - OTHER_COLUMNS - bar_width)
        action = printable(step.action)[:action_width]
        sizes = f"{short_number(step.tokens):>5}  {short_number(step.tokens_without):>7}"
        line = Text(f"{step.number:>3}  {action:<{action_width}}  {sizes}  ", no_wrap=True, overflow="crop")
        return line.append(self._bar(step, played, bar_width))

    def _print_indented(self, name: str, text: str, *, style: str) -> None:
        """Print text after a name, its further lines under its first."""
        lines = Text(text).wrap(self._console, max(20, self._console.width - len(name)))
        for place, line in enumerate(lines):
            line.rstrip()
            self._console.print(Text(name if place == 0 else " " * len(name), style=style).append(line))

    def _bar(self, step: DemoStep, played: Demo, width: int) -> Text:
        """Return the bar of a request; its full width is what the last request would be without infold, or the window."""
        scale = max(played.largest_without + RECALL_TOKENS, played.window_tokens)
        sent, without, limit = (
            round(width * tokens / scale) for tokens in (step.tokens, step.tokens_without, played.budget.limit_tokens)
        )
        bar = Text(self._marks.sent * sent, style="cyan").append(self._marks.left_out * (without - sent), style="dim")
        bar.pad_right(max(0, limit - len(bar)))
        return bar[:limit].append(self._marks.limit, style="bold red").append(bar[limit + 1 :])

    def sum_up(self, played: Demo, steps: Sequence[DemoStep]) -> None:
        """Print the session with and without infold, what was folded and kept, and what recall brought back."""
        limit = played.budget.limit_tokens
        over = sum(step.tokens_without > limit for step in steps)
        events = [event for step in steps for event in step.events]
        folds, prunings = (sum(isinstance(event, kind) for event in events) for kind in (Compacted, Pruned))
        sent, whole = sum(step.tokens for step in steps), sum(step.tokens_without for step in steps)
        largest = max(step.tokens for step in steps)
        kept = [rule for rule in played.script.rules if all(rule in step.request for step in steps)]
        self._console.print()
        for name, line in (
            ("without infold", f"{over} of {len(steps)} requests are over the limit of {short_number(limit)} tokens"),
            ("with infold", f"every request fits; the largest has {short_number(largest)} tokens"),
            ("sent in all", f"{short_number(sent)} tokens instead of {short_number(whole)}"),
            ("folded", f"{plural(folds, 'time')}, pruned {plural(prunings, 'time')}; the log still has every message"),
            *((f"rule {place} kept", f'"{rule}"') for place, rule in enumerate(kept, start=1)),
            ("recalled", _describe_recall(played.script.sought, steps)),
        ):
            self._print_indented(f"  {name:<16} ", line, style="bold")


def _describe_ledger(ledger: Ledger) -> str:
    """Return what a checkpoint keeps, in numbers."""
    facts = ((ledger.files, "file"), (ledger.commands, "command"), (ledger.errors, "open error"))
    listed = ", ".join(plural(len(found), noun) for found, noun in facts if found)
    return (
        f"Its checkpoint keeps {plural(len(ledger.constraints), 'rule')} of the user word for word; it lists {listed}."
    )


def _describe_recall(sought: str, steps: Sequence[DemoStep]) -> str:
    """Return where the text that was recalled stood first, since when it was no longer sent, and where it was found again."""
    recalls = [step.number for step in steps if sought in step.recalled]
    before = [step for step in steps if not recalls or step.number <= recalls[0]]
    shown = [step.number for step in before if sought in step.request]
    if not recalls or not shown:
        return "nothing"
    if shown[-1] == recalls[0]:
        return f"{sought}, which had not been folded yet"
    return (
        f"{sought}: read for request {shown[0]}, not sent since request {shown[-1] + 1}, found in request {recalls[0]}"
    )
