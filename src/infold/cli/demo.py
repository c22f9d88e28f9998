"""`infold demo`: play one coding session through small windows, without a model, a key or a network.

The session is of real shape and size, generated from word lists; the seed is the only source of chance, so equal arguments give
equal sessions. It is kept by an `infold.Session` in a SQLite file, request by request, as an agent would, and folded by code.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from infold.cli.options import parse_tokens
from infold.cli.render import checkpoint_panel, legend, open_console, window_bar
from infold.core.budget import Budget, Window, budget_for
from infold.core.events import Clipped, Compacted, Event, Pruned
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    text_of,
)
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


# The text of the session.

_WORDS = {
    "verb": "load parse merge fetch store check build render route schedule collect resolve split encode track close",
    "noun": "berth ferry route timetable harbour ticket sailing crossing deck anchor manifest pilot tide vessel buoy quay",
    "adj": "late empty nested stale partial cancelled duplicate seasonal frozen remote expired unsorted missing doubled",
    "part": "feed importer store api planner notices models cache exports billing",
    "unit": "minutes seconds count bytes index size",
    "kind": "str int Path Sailing Route Timetable Berth Notice",
    "level": "INFO INFO INFO INFO DEBUG DEBUG WARNING",
    "state": "open closed pending delayed departed",
    "end": "passed passed passed passed skipped",
}
_WORD_LISTS = {name: words.split() for name, words in _WORDS.items()}

_PIECES = {
    "code": (
        """def {verb}_{noun}({noun2}: {kind}, *, {noun3}_{unit}: int = {n}) -> {kind2}:
    # a {adj} {noun2} has no {noun3} of its own
    if {noun2} is None or {noun3}_{unit} < 0:
        raise {kind2}Error(f"{adj} {noun2}: {{{noun3}_{unit}}}")
    found = [{verb2}_{noun4}(item) for item in {noun2}.{noun4}s if item.{adj2}_until is None]
    return {kind2}({noun4}s=tuple(found), {noun3}_{unit}={noun3}_{unit})\n\n
""",
        "class {kind}{n}({kind2}):\n    {noun}_id: int\n    {adj}: bool = False\n    {unit}: int = {n2}\n\n\n",
    ),
    "log": (
        "2026-03-{d} 09:{d2}:{d3},{n} {level} ferry.{part}: {verb} {noun} {noun2}-{n2} {state} in {d4} ms\n",
        '10.0.{d}.{d2} - - "GET /{part}/{noun}s/{n}?{adj}={d3} HTTP/1.1" 200 {n2}\n',
    ),
    "json": (
        '  {{"id": {n}, "{noun}": "{noun2}-{n2}", "state": "{state}", "{noun3}_{unit}": {d}, "{adj}": false}},\n',
        '  {{"id": {n}, "{noun}": {{"{noun2}": "{adj}", "{unit}": {n2}}}, "{noun3}s": ["{adj2}", "{adj3}"]}},\n',
    ),
    "markdown": (
        "## The {adj} {noun}\n\n`{verb}_{noun}` in `ferry/{part}.py` {verb2}s it once its {noun2} is {state}.\n\n",
        "A {noun} is {adj} after {d} {unit}.\n\n- {verb} the {noun2} before the {noun3}\n- skip {adj2} {noun3}s\n\n",
    ),
    "tests": (
        "tests/{part}/test_{noun}.py::test_{verb}_{adj}_{noun2} {end}\n",
        "tests/{part}/test_{noun}s.py::test_{noun2}_is_{adj} {end}\n",
    ),
    "diff": (
        "@@ -{n},7 +{n},9 @@ def {verb}_{noun}({noun2}):\n     found = {verb2}_{noun}({noun2})\n-    return found[{d}]\n",
        "+    {noun3} = {adj}_{noun3}(found)\n+    return found[{d}] if {noun3} else None\n",
    ),
    "prose": (
        "The {noun} in `ferry/{part}.py` is {adj} when its {noun2} is {state}. ",
        "`{verb}_{noun}` reads the {noun2} before the {noun3}, so a {adj} one is taken for a {adj2} one. ",
        "The {adj} {noun} comes from the {part}, which counts {unit} from the first {noun2}. ",
    ),
}
"""The templates of each kind of text; `{n}` and `{d}` are numbers, the other names words of the lists above."""

_CHARS_PER_TOKEN = {"code": 4.2, "log": 2.4, "json": 2.6, "markdown": 4.3, "tests": 4.4, "diff": 3.2, "prose": 4.4}


class WordPicker(dict[str, str]):
    """Words for one piece of text: the same name gives the same word, a number after it another."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def __missing__(self, key: str) -> str:
        words = _WORD_LISTS.get(key.rstrip("0123456789"))
        numbers = range(10, 60) if key.startswith("d") else range(100, 9_999)
        self[key] = self.rng.choice(words) if words else str(self.rng.choice(numbers))
        return self[key]


def generate_text(rng: Random, kind: str, chars: int) -> str:
    """Return text of one kind and exactly that many characters."""
    pieces: list[str] = []
    left = chars
    while left > 0:
        pieces.append(rng.choice(_PIECES[kind]).format_map(WordPicker(rng)))
        left -= len(pieces[-1])
    return "".join(pieces)[:chars]


def text_of_tokens(rng: Random, kind: str, tokens: float) -> str:
    """Return about that many tokens of text, ending at the end of a line or a sentence."""
    text = generate_text(rng, kind, int(tokens * _CHARS_PER_TOKEN[kind]))
    return text[: text.rfind(". " if kind == "prose" else "\n") + 1] or text


SYSTEM_TEXT = "You are a coding agent. Work in small steps.\n\n" + text_of_tokens(Random(1), "markdown", 2_000)
AGENTS_TEXT = "# AGENTS.md\n\nHow we work on the ferry service.\n\n" + text_of_tokens(Random(2), "markdown", 1_300)


# The session.

_REQUESTS = (
    "Port ferry/feed.py to the new JSON feed; the old CSV one has to go on working. Never touch the files under vendor/.",
    "Good. Now the planner: late sailings are shown twice. Always run the tests before you say that you are done.",
    "The harbour master called: notices must not be sent between 22:00 and 06:00. Can you add that?",
    "Next the importer's speed. A full import takes 9 minutes. Do not add any new dependency for it.",
    "The night job failed, its log is in logs/import.log. Find out why and fix it.",
    "Now the API: /sailings needs paging. Keep the public response fields exactly as they are.",
    "Billing counts cancelled crossings. Correct that, and only use integers for money, never floats.",
    "Clean up the exports. Prefer deleting dead code over commenting it out.",
    "Last thing: write down in docs/feed.md how the new feed works, so that the others can follow.",
)
RULES = (
    "Never touch the files under vendor/.",
    "Always run the tests before you say that you are done.",
    "notices must not be sent between 22:00 and 06:00.",
    "Do not add any new dependency for it.",
    "Keep the public response fields exactly as they are.",
    "only use integers for money, never floats.",
    "Prefer deleting dead code over commenting it out.",
)
"""The rules that the user of `coding_session` states, verbatim as in the requests."""

_NUDGES = ("Yes, go on.", "Thanks. Now the same for the {part}.", "The {noun} is still {adj}, look again.", "Next one.")
_PLAN = (
    "read ferry/{part}.py",
    "reproduce the {adj} {noun}",
    "change {verb}_{noun}",
    "add a test for it",
    "run all tests",
)
_FAILURE = (
    "FAILED tests/test_{noun}.py::test_{verb}_{adj} - ValueError: {adj} {noun} at minute {d}\n1 failed, {d2} passed"
)
_CLOSING = "\n\nDecided to {verb} the {noun} in `ferry/{part}.py` instead of the {noun2}. All {d} tests pass."
_SHELL = (("rg -n {noun} ferry/", "log"), ("git diff ferry/{part}.py", "diff"), ("curl -s :8000/{noun}s", "json"))


def coding_session(seed: int = 11, turns: int = 27, *, largest_result_tokens: int = 50_000) -> tuple[Message, ...]:
    """Return a coding agent's session over several user turns: some 350,000 tokens, most results small, a few very
    large.

    Every third turn brings a new request, in which a test fails and is repaired; one `make lint` never passes. No
    result and no call exceeds `largest_result_tokens`: the same session scaled down for small windows.
    """
    writer = _SessionWriter(seed, largest_result_tokens)
    return numbered(draft for number in range(turns) for draft in writer.turn(number))


class _SessionWriter:
    """Write the session turn by turn.

    Events and wording are drawn separately, so that a scaled-down session takes the same course.
    """

    def __init__(self, seed: int, largest_tokens: int) -> None:
        self.rng = Random(seed)
        self.wording = Random(seed)
        self.largest_tokens = largest_tokens

    def turn(self, number: int) -> Iterator[Message]:
        """Yield a request and its work, or a nudge and a little more work."""
        words = WordPicker(self.rng)
        topic, place = divmod(number, 3)
        if place == 0:
            yield user(_REQUESTS[topic % len(_REQUESTS)])
            yield from self.work(topic, words)
        else:
            yield user(self.rng.choice(_NUDGES).format_map(words))
            yield from self.look()
            yield from self.change()
        yield replies(self.prose(120, 400) + _CLOSING.format_map(words))

    def work(self, topic: int, words: WordPicker) -> Iterator[Message]:
        yield from self.todo(words, done=0)
        for _ in range(self.rng.randint(3, 7)):
            yield from self.look()
        yield from self.todo(words, done=2)
        for _ in range(self.rng.randint(2, 4)):
            yield from self.change()
        if topic == 3:
            yield from self.act("bash", {"command": "make lint"}, "ferry/cache.py:41: error: Name 'tide' is unused", 1)
        if topic == 4:
            shown = text_of_tokens(self.wording, "log", self.largest_tokens)
            yield from self.act("bash", {"command": "cat logs/import.log"}, shown)
        yield from self.run_tests(_FAILURE, 1)
        yield from self.change()
        yield from self.run_tests("{d} passed in {d2}.{d3}s", 0)
        yield from self.todo(words, done=5)

    def look(self) -> Iterator[Message]:
        """Yield reading a file, or a command with long output."""
        words, tokens = WordPicker(self.rng), self.result_tokens()
        if self.rng.random() < 0.55:
            path = "ferry/{part}/{noun}.py".format_map(words)
            yield from self.act("read", {"path": path}, text_of_tokens(self.wording, "code", tokens))
            return
        command, kind = self.rng.choice(_SHELL)
        yield from self.act("bash", {"command": command.format_map(words)}, text_of_tokens(self.wording, kind, tokens))

    def change(self) -> Iterator[Message]:
        path = "ferry/{part}/{noun}.py".format_map(WordPicker(self.rng))
        size = min(self.largest_tokens, self.rng.uniform(200, 1_500))
        if self.rng.random() < 0.3:
            written = {"path": path, "content": text_of_tokens(self.wording, "code", size)}
            yield from self.act("write", written, f"Wrote {path}")
            return
        old, new = (text_of_tokens(self.wording, "code", size / 3) for _ in range(2))
        yield from self.act("edit", {"path": path, "old_string": old, "new_string": new}, f"Edited {path}")

    def run_tests(self, end: str, status: int) -> Iterator[Message]:
        shown = text_of_tokens(self.wording, "tests", min(self.result_tokens(), 2_500))
        yield from self.act("bash", {"command": "pytest -q"}, shown + end.format_map(WordPicker(self.rng)), status)

    def todo(self, words: WordPicker, *, done: int) -> Iterator[Message]:
        states = ["completed"] * done + ["in_progress"] + ["pending"] * len(_PLAN)
        items = [
            {"content": text.format_map(words), "status": state} for text, state in zip(_PLAN, states, strict=False)
        ]
        yield from self.act("todo_write", {"todos": items}, "Noted.")

    def act(self, tool: str, arguments: dict[str, Any], output: str, status: int = 0) -> Iterator[Message]:
        """Yield one step: reasoning and text, the call, its result."""
        thought: tuple[Part, ...] = (ReasoningPart(self.prose(40, 350)),) if self.rng.random() < 0.5 else ()
        said = (*thought, TextPart(self.prose(30, 300)), ToolCallPart("", tool, json.dumps(arguments)))
        yield AssistantMessage(MessageId(""), said, finish="tool-calls")
        exit_status = status if tool == "bash" else None
        yield ToolMessage(MessageId(""), (ToolResultPart("", "", output, exit_status=exit_status),))

    def prose(self, least: int, most: int) -> str:
        tokens = min(self.rng.uniform(least, most), self.largest_tokens / 4)
        return text_of_tokens(self.wording, "prose", tokens)

    def result_tokens(self) -> float:
        """Return a log-normal size: half the results are below 1,800 tokens, a few above 20,000."""
        return min(max(500.0, self.rng.lognormvariate(7.5, 1.2)), self.largest_tokens)
