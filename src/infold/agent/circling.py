"""Notice a model that goes round in a circle: the same calls with the same answers, over and over, across steps (D14).

Works on what was done, taken from messages, so it can be derived from a log after a restart and sees through compactions: give
it the log's own messages, not those of a view. Polling whose answer changes is no circle.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from infold.core.messages import Message, ToolCallPart, ToolResultPart, calls_of, is_genuine_user, results_of

LONGEST_PERIOD = 4
ROUNDS = 3
"""How often a circle goes round before it is called one."""


class Deed(Struct, frozen=True):
    """What one step did: the tools it called, their arguments in one spelling, and a mark of what they answered."""

    tool: str
    arguments: str
    answer: str


def deeds_of(messages: Iterable[Message]) -> tuple[Deed, ...]:
    """What was done since a person last spoke, oldest first; a step whose calls were not all answered is left out."""
    steps: list[tuple[ToolCallPart, ...]] = []
    answers: dict[str, ToolResultPart] = {}
    for message in messages:
        if is_genuine_user(message):
            steps.clear()
        if calls := calls_of(message):
            steps.append(calls)
        answers.update((result.call_id, result) for result in results_of(message))
    return tuple(_deed(calls, answers) for calls in steps if all(call.call_id in answers for call in calls))


def is_circling(deeds: Sequence[Deed]) -> int:
    """After how many steps the newest deeds repeat, if they went round three times; 0 where they do not."""
    for period in range(1, LONGEST_PERIOD + 1):
        newest = deeds[-period * ROUNDS :]
        if len(newest) == period * ROUNDS and all(newest[at] == newest[at % period] for at in range(len(newest))):
            return period
    return 0


def _deed(calls: Sequence[ToolCallPart], answers: dict[str, ToolResultPart]) -> Deed:
    mark = sha256()
    for call in calls:
        result = answers[call.call_id]
        mark.update(f"{len(result.output)} {result.status} {result.output}".encode("utf-8", "replace"))
    return Deed(
        "\n".join(call.tool for call in calls), "\n".join(_canonical(call) for call in calls), mark.hexdigest()[:32]
    )


def _canonical(call: ToolCallPart) -> str:
    """Arguments in one spelling, whatever their order and white space."""
    try:
        decoded = msgspec.json.decode(call.arguments.encode("utf-8", "replace"))
        return msgspec.json.encode(decoded, order="deterministic").decode()
    except (msgspec.DecodeError, RecursionError):
        return call.arguments.strip()
