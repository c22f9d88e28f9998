"""Sessions for the tests of the engine: long ones, short ones, and what is around them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.entries import Entry, MessageEntry
from infold.core.gauge import Situation
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import Message, SessionId
from infold.core.plan import Summarise, next_step
from infold.core.policy import INFOLD, Policy
from infold.engine.call import Call
from infold.engine.drive import World, drive
from infold.engine.flow import Prepared, compact
from infold.errors import StoreConflict
from infold.testing.builders import calls, numbered, result, user

from .worlds import KEY, Scripted

__all__ = [
    "SOON",
    "TRIGGERED",
    "URGENT",
    "busy",
    "called",
    "compacted",
    "outrun_at",
    "reply",
    "said",
    "situation",
    "step_of",
    "stored",
    "tool_step",
]

SOON, TRIGGERED, URGENT = 11, 14, 15
"""Steps of a thousand tokens after which a session in a window of 16k is near its trigger, over it, and over its limit."""


def situation(policy: Policy = INFOLD, *, window: int = 16_000, manual: bool = False) -> Situation:
    """A policy in a window, with a model to summarise."""
    return Situation(policy, budget_for(Window(window), policy), 200, 1.0, summariser=True, manual=manual)


def stored(scripted: Scripted, steps: int, policy: Policy = INFOLD) -> Log:
    """A session of one request and so many tool steps of a thousand tokens, stored and not yet compacted."""
    step = (calls("bash", arguments='{"command": "make part"}'), result(output="all parts went well here\n" * 165))
    drafts: list[Message] = [
        user("Port the parser. Never touch vendor/."),
        *(one for _ in range(steps) for one in step),
    ]
    entries: list[Entry] = [MessageEntry(message) for message in numbered(drafts)]
    scripted.append(entries, 0)
    return Log(SessionId("s"), Rendering(policy.estimate, policy.stub)).extend(entries)


def step_of(log: Log, given: Situation) -> Summarise:
    """The summary that is needed next."""
    step = next_step(log, given)
    assert isinstance(step, Summarise)
    return step


def compacted(scripted: Scripted, log: Log, call: Call, world: World | None = None) -> Prepared:
    """A session compacted where nobody else writes."""
    outcome = drive(compact(log, call), world or scripted.world())
    assert isinstance(outcome, Prepared)
    return outcome


def outrun_at(kind: type[Entry] | type[Message], scripted: Scripted) -> World:
    """A world in which another writer is faster once, when an entry or a message of that kind is to be appended."""
    left = [kind]

    def append(entries: Any, expected: int) -> int:
        written = (getattr(entry, "message", entry) for entry in entries)
        if left and any(isinstance(entry, kind) for entry in (*written, *entries)):
            left.clear()
            raise StoreConflict("s", expected=expected, actual=expected + 1)
        return scripted.append(entries, expected)

    return replace(scripted.world(), append=append)


def busy(scripted: Scripted, times: int) -> Callable[[], AbstractContextManager[bool]]:
    """A lock that another process has for so many tries."""
    left = [None] * times

    @contextmanager
    def hold() -> Iterator[bool]:
        if left:
            left.pop()
            yield False
            return
        with scripted.store.hold(KEY) as taken:
            yield taken

    return hold


# What a caller has: a list in the chat format, and replies.


def said(text: str) -> dict[str, Any]:
    """A person's message."""
    return {"role": "user", "content": text}


def called(number: int) -> dict[str, Any]:
    """A reply that calls a tool, as it stands in a list."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": '{"command": "make"}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def tool_step(number: int) -> list[dict[str, Any]]:
    """A tool step of about four hundred tokens."""
    answer = {"role": "tool", "tool_call_id": f"c{number}", "content": f"part {number} went well\n" * 80}
    return [called(number), answer]


def reply(number: int, *, prompt_tokens: int | None = None, finish: str = "tool_calls") -> dict[str, Any]:
    """A provider's reply that calls a tool, and reports its usage if it is given."""
    body: dict[str, Any] = {"choices": [{"message": called(number), "finish_reason": finish}]}
    if prompt_tokens is not None:
        body["usage"] = {"prompt_tokens": prompt_tokens, "completion_tokens": 12}
    return body
