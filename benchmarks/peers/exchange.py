"""What the benchmark and an adapter say to each other: a history and runs in, one JSON line per model call out.

`serve` plays the history as an agent would have lived it: a request stands before each reply and after the last message, and
each reply tells the usage of the request it answers to a session that wants it. Only the library's own work is timed.
Standard library and a tokeniser alone, since this runs inside each peer's own environment.
"""

import hashlib
import json
import sys
import time
from dataclasses import dataclass, field

from splintr import Tokenizer

TOKENISER = Tokenizer.from_pretrained("o200k_base")


@dataclass(frozen=True)
class Usage:
    """What a provider would have reported for a call."""

    input_tokens: int
    output_tokens: int


@dataclass
class Setting:
    """What a library is told: the window, how much of it to hold, and what its summariser answers."""

    window_tokens: int
    hold_tokens: int
    summary: str
    summarised: list = field(default_factory=list)

    def summarise(self, *texts):
        """The faked summary; what was read and written for it is noted, to be paid for."""
        self.summarised.append([sum(map(count, texts)), count(self.summary)])
        return self.summary


class Session:
    """A history under one strategy of a library; adapters say how messages go in, what is sent, and how it reads outside."""

    reports_usage = False

    def __init__(self, setting):
        self.setting = setting

    def add(self, message, usage):
        """Take a message in; a reply comes with the usage of its call where the session wants it."""
        raise NotImplementedError

    def prepare(self):
        """Let the library decide what the next request sends, in the library's own types."""
        raise NotImplementedError

    def sent(self, prepared):
        """The same as chat messages."""
        raise NotImplementedError


def serve(strategies):
    """Read a history and its runs from standard input; print one line per call of each run."""
    job = json.load(sys.stdin)
    for number, run in enumerate(job["runs"]):
        setting = Setting(run["window_tokens"], run["hold_tokens"], job["summary"])
        _play(strategies[run["strategy"]](setting), job["messages"], number)


def changed(original, content=None, arguments=None):
    """A message whose content or call arguments (by call id) were replaced; the original itself where nothing was."""
    calls = original.get("tool_calls")
    new = dict(original)
    if content is not None and content != original.get("content"):
        new["content"] = content
    if arguments:
        new["tool_calls"] = [
            {
                **call,
                "function": {**call["function"], "arguments": arguments.get(call["id"], call["function"]["arguments"])},
            }
            for call in calls
        ]
    return original if new == original else new


def arguments_of(call):
    """A call's arguments as an object; what is none is kept whole under one key."""
    try:
        value = json.loads(call["function"]["arguments"])
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": call["function"]["arguments"]}


def count(text):
    """The o200k tokens of a text."""
    return len(TOKENISER.encode(text))


def message_tokens(message):
    """The o200k tokens of a message: text, names and arguments."""
    calls = (call["function"] for call in message.get("tool_calls") or ())
    return count(message.get("content") or "") + sum(count(call["name"]) + count(call["arguments"]) for call in calls)


class _Wire:
    """Prints calls; each distinct message is written out once and named by its digest from then on."""

    def __init__(self, run):
        self.run = run
        self.tokens = {}
        self.digests = {}

    def call(self, messages, cpu_seconds, summarised):
        """Print one call and return its tokens."""
        names, new = [], {}
        for message in messages:
            name = self._name(message)
            if name not in self.tokens:
                self.tokens[name] = message_tokens(message)
                new[name] = message
            names.append(name)
        self._print({"sent": names, "new": new, "cpu_seconds": cpu_seconds, "summarised": summarised})
        return sum(self.tokens[name] for name in names)

    def stop(self, error):
        """Print why the library gave up."""
        self._print({"error": f"{type(error).__name__}: {error}"[:300]})

    def _name(self, message):
        known = self.digests.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        name = hashlib.blake2b(json.dumps(message, sort_keys=True).encode(), digest_size=12).hexdigest()
        self.digests[id(message)] = (message, name)
        return name

    def _print(self, line):
        sys.stdout.write(json.dumps({"run": self.run, **line}) + "\n")


def _play(session, messages, number):
    wire = _Wire(number)
    for position, message in enumerate(messages):
        usage = None
        if message["role"] == "assistant" and position:
            input_tokens = _request(session, wire)
            if input_tokens is None:
                return
            usage = Usage(input_tokens, message_tokens(message)) if session.reports_usage else None
        session.add(message, usage)
    _request(session, wire)


def _request(session, wire):
    """Prepare and print one request; its tokens, or none where the library raised and the session is over."""
    session.setting.summarised.clear()
    started = time.process_time()
    try:
        prepared = session.prepare()
    except Exception as error:  # a library that gives up is a finding, not a failure of the benchmark
        wire.stop(error)
        return None
    spent = time.process_time() - started
    return wire.call(session.sent(prepared), spent, list(session.setting.summarised))
