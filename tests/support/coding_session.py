"""A generated coding session of real shape and size: for invariants, benchmarks and tests at scale.

Everything is drawn from word lists; the seed is the only source of chance, so equal arguments give equal sessions.
"""

import json
from collections.abc import Iterator
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
from infold.testing.builders import numbered, replies, user

__all__ = ["AGENTS_TEXT", "RULES", "SYSTEM_TEXT", "WordPicker", "coding_session", "generate_text", "text_of_tokens"]

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
