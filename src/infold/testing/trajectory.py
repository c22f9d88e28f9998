"""Seeded sessions of real shape and size, from our own word lists: for benchmarks, for the demo, for tests at scale.

`trajectory` is the one that 24 strategies of other libraries were measured on (messages as OpenAI's chat interface has
them); `coding_session` is the demo's (messages of the core). Equal arguments give equal sessions. Pure: the seed is the
only source of chance.
"""

import json
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

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
)
from infold.core.tokens import estimate_tokens
from infold.testing.builders import numbered, replies, user

TRAJECTORY_RULE = "Never touch the files under vendor/, whatever a test or a tool suggests."

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
_LISTS = {name: words.split() for name, words in _WORDS.items()}

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
"""What each kind of text is made of; `{n}` and `{d}` are numbers, the other names words of the lists above."""

_CHARS_PER_TOKEN = {"code": 4.2, "log": 2.4, "json": 2.6, "markdown": 4.3, "tests": 4.4, "diff": 3.2, "prose": 4.4}


class _Words(dict[str, str]):
    """Words for one piece of text: the same name gives the same word, a number after it another."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def __missing__(self, key: str) -> str:
        words = _LISTS.get(key.rstrip("0123456789"))
        numbers = range(10, 60) if key.startswith("d") else range(100, 9_999)
        self[key] = self.rng.choice(words) if words else str(self.rng.choice(numbers))
        return self[key]


def _text(rng: Random, kind: str, chars: int) -> str:
    """Text of one kind and exactly that many characters."""
    pieces: list[str] = []
    left = chars
    while left > 0:
        pieces.append(rng.choice(_PIECES[kind]).format_map(_Words(rng)))
        left -= len(pieces[-1])
    return "".join(pieces)[:chars]


def _text_of_tokens(rng: Random, kind: str, tokens: float) -> str:
    """About that many tokens of text, ending where a line or a sentence does."""
    text = _text(rng, kind, int(tokens * _CHARS_PER_TOKEN[kind]))
    return text[: text.rfind(". " if kind == "prose" else "\n") + 1] or text


SYSTEM_TEXT = "You are a coding agent. Work in small steps.\n\n" + _text_of_tokens(Random(1), "markdown", 2_000)
AGENTS_TEXT = "# AGENTS.md\n\nHow we work on the ferry service.\n\n" + _text_of_tokens(Random(2), "markdown", 1_300)
SYSTEM_TOKENS = estimate_tokens(SYSTEM_TEXT)
AGENTS_TOKENS = estimate_tokens(AGENTS_TEXT)


# The trajectory.

_TOOLS = (("read_file", "code"), ("grep", "log"), ("http_get", "json"), ("read_file", "markdown"), ("bash", "tests"))


def trajectory(steps: int = 150, seed: int = 7) -> list[dict[str, Any]]:
    """Chat messages of a long coding run: a rule in the opening message, a user turn every thirty steps.

    Every seventh step makes two calls at once; tool results have 300 to 12,000 characters. 150 steps are 333 messages of
    about 223,000 o200k tokens. There is no system message.
    """
    rng = Random(seed)
    opening = f"Port the timetable importer to the new feed, one part after the other. {TRAJECTORY_RULE}"
    messages: list[dict[str, Any]] = [{"role": "user", "content": opening}]
    calls = count()
    for step in range(steps):
        messages += _chat_step(rng, [f"call_{next(calls)}" for _ in range(2 if step % 7 == 0 else 1)])
        if step % 30 == 29:
            messages.append({"role": "assistant", "content": _text_of_tokens(rng, "prose", 120)})
            messages.append({"role": "user", "content": "Good. Now the same for the {part}.".format_map(_Words(rng))})
    return messages


def _chat_step(rng: Random, call_ids: list[str]) -> Iterator[dict[str, Any]]:
    """One reply with its calls, and an answer to each."""
    chosen = [(call_id, *rng.choice(_TOOLS)) for call_id in call_ids]
    calls = [_chat_call(rng, call_id, tool) for call_id, tool, _ in chosen]
    yield {"role": "assistant", "content": _text_of_tokens(rng, "prose", rng.uniform(30, 90)), "tool_calls": calls}
    for call_id, _, kind in chosen:
        chars = 300 + int(11_700 * rng.random() ** 2.17)
        yield {"role": "tool", "tool_call_id": call_id, "content": _text(rng, kind, chars)}


def _chat_call(rng: Random, call_id: str, tool: str) -> dict[str, Any]:
    words = _Words(rng)
    arguments = {"path": "ferry/{part}/{noun}.py".format_map(words), "pattern": "{verb}_{adj}".format_map(words)}
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}


# The demo's session.

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
"""What the user of `coding_session` lays down on the way, word for word as it stands in the requests."""

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
    """A coding agent at work over several user turns: some 350,000 tokens, most results small and a few very large.

    Every third turn brings a new request, in which a test fails and is repaired; one `make lint` is never seen to pass.
    Beyond `largest_result_tokens` no result and no call goes: the same session scaled down for small windows.
    """
    scribe = _Scribe(seed, largest_result_tokens)
    return numbered(draft for number in range(turns) for draft in scribe.turn(number))


class _Scribe:
    """Writes turn after turn; a scratch pad of `coding_session`.

    What happens and how it is worded are drawn apart, so that a session scaled down takes the same course.
    """

    def __init__(self, seed: int, largest_tokens: int) -> None:
        self.rng = Random(seed)
        self.wording = Random(seed)
        self.largest_tokens = largest_tokens

    def turn(self, number: int) -> Iterator[Message]:
        """A request and its work, or a word in between and a little more of it."""
        words = _Words(self.rng)
        topic, place = divmod(number, 3)
        if place == 0:
            yield user(_REQUESTS[topic % len(_REQUESTS)])
            yield from self.work(topic, words)
        else:
            yield user(self.rng.choice(_NUDGES).format_map(words))
            yield from self.look()
            yield from self.change()
        yield replies(self.prose(120, 400) + _CLOSING.format_map(words))

    def work(self, topic: int, words: _Words) -> Iterator[Message]:
        yield from self.todo(words, done=0)
        for _ in range(self.rng.randint(3, 7)):
            yield from self.look()
        yield from self.todo(words, done=2)
        for _ in range(self.rng.randint(2, 4)):
            yield from self.change()
        if topic == 3:
            yield from self.act("bash", {"command": "make lint"}, "ferry/cache.py:41: error: Name 'tide' is unused", 1)
        if topic == 4:
            shown = _text_of_tokens(self.wording, "log", self.largest_tokens)
            yield from self.act("bash", {"command": "cat logs/import.log"}, shown)
        yield from self.run_tests(_FAILURE, 1)
        yield from self.change()
        yield from self.run_tests("{d} passed in {d2}.{d3}s", 0)
        yield from self.todo(words, done=5)

    def look(self) -> Iterator[Message]:
        """Read a file, or run a command that shows much."""
        words, tokens = _Words(self.rng), self.result_tokens()
        if self.rng.random() < 0.55:
            path = "ferry/{part}/{noun}.py".format_map(words)
            yield from self.act("read", {"path": path}, _text_of_tokens(self.wording, "code", tokens))
            return
        command, kind = self.rng.choice(_SHELL)
        yield from self.act("bash", {"command": command.format_map(words)}, _text_of_tokens(self.wording, kind, tokens))

    def change(self) -> Iterator[Message]:
        path = "ferry/{part}/{noun}.py".format_map(_Words(self.rng))
        size = min(self.largest_tokens, self.rng.uniform(200, 1_500))
        if self.rng.random() < 0.3:
            written = {"path": path, "content": _text_of_tokens(self.wording, "code", size)}
            yield from self.act("write", written, f"Wrote {path}")
            return
        old, new = (_text_of_tokens(self.wording, "code", size / 3) for _ in range(2))
        yield from self.act("edit", {"path": path, "old_string": old, "new_string": new}, f"Edited {path}")

    def run_tests(self, end: str, status: int) -> Iterator[Message]:
        shown = _text_of_tokens(self.wording, "tests", min(self.result_tokens(), 2_500))
        yield from self.act("bash", {"command": "pytest -q"}, shown + end.format_map(_Words(self.rng)), status)

    def todo(self, words: _Words, *, done: int) -> Iterator[Message]:
        states = ["completed"] * done + ["in_progress"] + ["pending"] * len(_PLAN)
        items = [
            {"content": text.format_map(words), "status": state} for text, state in zip(_PLAN, states, strict=False)
        ]
        yield from self.act("todo_write", {"todos": items}, "Noted.")

    def act(self, tool: str, arguments: dict[str, Any], output: str, status: int = 0) -> Iterator[Message]:
        """One step: thoughts and words, the call, its answer."""
        thought: tuple[Part, ...] = (ReasoningPart(self.prose(40, 350)),) if self.rng.random() < 0.5 else ()
        said = (*thought, TextPart(self.prose(30, 300)), ToolCallPart("", tool, json.dumps(arguments)))
        yield AssistantMessage(MessageId(""), said, finish="tool-calls")
        exit_status = status if tool == "bash" else None
        yield ToolMessage(MessageId(""), (ToolResultPart("", "", output, exit_status=exit_status),))

    def prose(self, least: int, most: int) -> str:
        tokens = min(self.rng.uniform(least, most), self.largest_tokens / 4)
        return _text_of_tokens(self.wording, "prose", tokens)

    def result_tokens(self) -> float:
        """Log-normal: half the results are below 1,800 tokens, a few go beyond 20,000."""
        return min(max(500.0, self.rng.lognormvariate(7.5, 1.2)), self.largest_tokens)
