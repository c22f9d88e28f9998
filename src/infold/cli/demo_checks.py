"""The demo's look at each request from the outside: counted afresh, and held against what it must be.

Nothing of the engine's own counting or deciding is used: a request is read from the wire like a stranger's.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from infold.cli.demo_scene import FORMAT, Scene
from infold.cli.demo_session import RULES
from infold.core.messages import (
    AssistantMessage,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
    text_of,
)
from infold.core.tokens import MESSAGE_OVERHEAD_TOKENS, measure, measure_part
from infold.engine.counting import counting_for
from infold.formats.registry import format_named

PROVIDER_FACTOR = 1.04
"""The provider we play counts this much more than the text itself has, as providers do for what they put around messages; all
numbers of a request are its count, and the session has to learn it from the usage that is reported."""

_SAID_BY: dict[type, str] = {AssistantMessage: "assistant", ToolMessage: "results", UserMessage: "user"}
_PART_CATEGORIES: dict[type, str] = {ReasoningPart: "reasoning", ToolCallPart: "calls", ToolResultPart: "results"}


def read(request: Sequence[object]) -> tuple[Message, ...]:
    """A request's messages, as anyone reads them who is sent it."""
    return format_named(FORMAT).decode(request).messages


class Count:
    """Counts messages by category as the provider does; what was counted once is remembered."""

    def __init__(self, system: str) -> None:
        ruler = counting_for("o200k").ruler
        self.system_tokens = measure(system, ruler)
        self._tokens_of = lru_cache(maxsize=None)(lambda part: measure_part(part, ruler))

    def request(self, messages: Iterable[Message], summary: str) -> dict[str, int]:
        """What a request takes of the window, by category; `summary` is the text that stands for what was folded."""
        tokens = Counter(system=self.system_tokens)
        for message in messages:
            said_by = _SAID_BY.get(type(message), "system")
            tokens[said_by] += MESSAGE_OVERHEAD_TOKENS
            for part in message.parts:
                is_summary = bool(summary) and isinstance(part, TextPart) and part.text == summary
                tokens["summary" if is_summary else _PART_CATEGORIES.get(type(part), said_by)] += self._tokens_of(part)
        return {name: round(PROVIDER_FACTOR * number) for name, number in tokens.items()}

    def messages(self, messages: Iterable[Message]) -> int:
        """What messages come to by themselves."""
        tokens = sum(MESSAGE_OVERHEAD_TOKENS + sum(map(self._tokens_of, message.parts)) for message in messages)
        return round(PROVIDER_FACTOR * tokens)


def faults_of(request: Sequence[object], tokens: Mapping[str, int], scene: Scene, end: int) -> Iterator[str]:
    """What is wrong with a request that follows the first `end` messages of the session."""
    total, limit = sum(tokens.values()), scene.budget.limit_tokens
    if total > limit:
        yield f"{total:,} tokens are over the limit of {limit:,}"
    view = read(request)
    if not pairs_are_whole(view):
        yield "a tool call and its result are not together"
    yield from (f"the provider would refuse it: {problem}" for problem in format_named(FORMAT).problems(request))
    sent = "\n".join(map(text_of, view))
    if text_of(scene.history[0]) not in sent:
        yield "the user's first request is missing"
    said = "\n".join(text_of(message) for message in scene.history[:end] if isinstance(message, UserMessage))
    yield from (f"a rule is missing: {rule}" for rule in RULES if rule in said and rule not in sent)


def pairs_are_whole(view: Iterable[Message]) -> bool:
    """Whether every call is answered at once, and nothing is answered that was not asked."""
    waiting: set[str] = set()
    for message in view:
        answered = {result.call_id for result in results_of(message)}
        if not answered <= waiting or (waiting and not answered):
            return False
        waiting = (waiting - answered) | {call.call_id for call in calls_of(message)}
    return not waiting
