"""Sessions to hold the invariants against: in every preset, on every wire, compacted many times over.

A story is told in the core's own words and written in a provider's shape, so that the same one is played everywhere.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from msgspec.structs import replace
from tests.support.policies import FOLDS

from infold import Ready, Session, SessionSettings
from infold.core.budget import Window, budget_for
from infold.core.events import Compacted, Event
from infold.core.gauge import PlanInputs
from infold.core.judge import Answer, ModelAnswer, record_text
from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
)
from infold.core.policy import INFOLD, PRESETS, Policy, preset
from infold.core.summary_request import SummaryRequest
from infold.core.tokens import measure
from infold.formats.codec import Decoded
from infold.formats.registry import FORMATS, WireFormat
from infold.ports import FullStore
from infold.stores.memory import MemoryStore
from infold.testing.builders import calls, numbered, replies, result, user

__all__ = [
    "EXAMPLES",
    "GOOD_NOTES",
    "REQUEST",
    "Notetaker",
    "bare",
    "compactions",
    "conversation",
    "each_preset",
    "each_way",
    "each_wire",
    "infold_at",
    "opened",
    "pair_faults",
    "played",
    "requested_tokens",
    "requests_of",
    "story",
    "told_of",
    "written",
]

REQUEST = "Port the parser. Never touch vendor/."
WHY = "the part is to be built before the next one can be looked at; " * 6
GOOD_NOTES = "The parser was ported part by part with make; each part was built as asked."

EXAMPLES = settings(
    max_examples=120,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

each_preset = pytest.mark.parametrize("name", sorted(PRESETS))
each_way = pytest.mark.parametrize("policy", [INFOLD, FOLDS], ids=["prunes or folds", "folds"])
each_wire = pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)


# Stories, and how they are played.


def story(
    steps: int, *, opening: str = REQUEST, tokens: int = 300, parallel: int = 1, prefix: str = "m"
) -> tuple[Message, ...]:
    """One request and many tool steps, each of so many calls at once with results of about so many tokens."""
    drafts: list[Message] = [user(opening)]
    for number in range(steps):
        wish = f'{{"command": "make part{number}", "why": "{WHY}"}}'
        drafts.append(calls(*["bash"] * parallel, arguments=wish))
        fine = f"part {number} is fine. " * (tokens * (2 + number % 3) // 18)
        answers = [result(output=fine * (1 + place % 2)) for place in range(parallel)]
        drafts.append(replace(answers[0], parts=tuple(part for answer in answers for part in answer.parts)))
    return numbered(drafts, prefix=prefix)


def conversation(turns: int, *, tokens: int = 500, reply_tokens: int = 150, prefix: str = "t") -> tuple[Message, ...]:
    """Turns of a question, a step with a result of about so many tokens, and a reply; the last question is open."""
    drafts: list[Message] = []
    for number in range(turns):
        fine = f"part {number} is fine. "
        asked = calls("bash", arguments=f'{{"command": "make part{number}"}}')
        drafts += [user(f"Now part {number}."), asked]
        drafts += [result(output=fine * (tokens // 6)), replies(fine * (reply_tokens // 6))]
    return numbered([*drafts, user("And the last part?")], prefix=prefix)


def written(wire: WireFormat, messages: Iterable[Message]) -> list[Any]:
    """Messages as a provider's items."""
    return [item for message in messages for item in wire.encode_new(message)]


def played(session: Session, wire: WireFormat, messages: Iterable[Message]) -> Iterator[Ready]:
    """Each request of a story as a session prepares it."""
    for new in requests_of(messages):
        yield session.prepare_new(written(wire, new))


def requests_of(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """What is new in each request of a story: there is one before each reply, and one at the end."""
    new: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage) and new:
            yield new
            new = []
        new.append(message)
    yield new


class Notetaker:
    """A summariser that gives its answers in turn, the last one for ever, and remembers what it was asked."""

    def __init__(self, *answers: str | Answer | ModelAnswer | BaseException) -> None:
        self.answers = list(answers) or [GOOD_NOTES]
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> str | Answer | ModelAnswer:
        """Answer, or raise what stands in the place of an answer."""
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def shown(self) -> str:
        """All text it was ever shown."""
        return record_text(message for request in self.asked for message in request.messages)


def opened(
    policy: str | Policy = "infold",
    wire: WireFormat | None = None,
    *,
    window: int = 8_192,
    notes: Notetaker | None = None,
    store: FullStore | None = None,
    events: list[Event] | None = None,
) -> Session:
    """A session under that policy on a store, by default one of its own."""
    told = SessionSettings(
        window=window,
        policy=policy,
        summariser=notes,
        format=None if wire is None else wire.name,
        on_event=None if events is None else events.append,
    )
    return Session(MemoryStore() if store is None else store, "s", told)


def compactions(events: Iterable[Event]) -> list[Compacted]:
    """The compactions among these events."""
    return [event for event in events if isinstance(event, Compacted)]


def infold_at(window: int, *, overhead_tokens: int = 200, name: str = "infold") -> PlanInputs:
    """A preset in a window of that size, for the core alone."""
    policy = INFOLD if name == "infold" else preset(name)
    return PlanInputs(policy, budget_for(Window(window), policy), overhead_tokens)


# What is looked at.


def bare(wire: WireFormat, view: Sequence[Message]) -> list[object]:
    """A view as a provider's items, none of which anybody gave."""
    return wire.encode(view, Decoded(wire.name, (), (), {}))


def told_of(ready: Ready) -> str:
    """A request as one text."""
    return "\n".join(map(str, ready.messages))


def requested_tokens(request: SummaryRequest) -> int:
    """What a request to a summariser takes of its window: everything it is sent, and the answer it may give."""
    said = sum(4 + sum(_part_tokens(part) for part in message.parts) for message in request.messages)
    return said + measure(request.system, "features") + request.output_tokens


def _part_tokens(part: object) -> int:
    match part:
        case TextPart():
            return measure(part.text, "features")
        case ToolCallPart():
            return measure(part.arguments, "features") + 8
        case ToolResultPart():
            return measure(part.output, "features") + 8
        case _:
            return 0


def pair_faults(messages: Sequence[Message]) -> list[str]:
    """What is wrong with the pairs: a call without its one answer right after it, a result without its call, a wrong order."""
    faults: list[str] = []
    asked: list[str] = []
    given: list[str] = []
    waiting: set[str] = set()
    for message in (*messages, UserMessage(MessageId("end"), ())):
        results = results_of(message)
        for part in results:
            if part.call_id not in waiting:
                faults.append(f"{message.id}: {part.call_id} is answered though nobody waits for it")
            waiting.discard(part.call_id)
            given.append(part.call_id)
        if results and not calls_of(message):
            continue
        faults += [f"{message.id}: comes before the answer to {call}" for call in sorted(waiting)]
        faults += [f"{message.id}: comes after answers out of order"] if given != _in_order(asked, given) else []
        asked, given = [call.call_id for call in calls_of(message)], []
        waiting = set(asked)
    return faults


def _in_order(asked: list[str], given: list[str]) -> list[str]:
    return [call for call in asked if call in given]
