"""Charge what a policy lost and the agent then needed: the tool output that held it is fetched again.

A name (a path, an identifier, a hash) that a recorded reply uses, that a tool's output had told before, and that the policy's
request no longer holds, must have come from somewhere: the whole output it stood in last is charged, once per call however many
names it held. What stands in a request, in a checkpoint or in the tail, costs nothing. A fixed trace cannot show an agent that
goes another way for want of a fact; this bounds what the same way would have cost.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from infold.core.judge import record_text
from infold.core.messages import Message, results_of
from infold.core.policy import Ruler
from infold.core.tokens import measure
from infold.replay.calls import Call, Recording

_NAMES = re.compile(
    r"(?<![\w.@+-])(?<![\w.@+-]/)(?:[\w.@+-]++/)+[\w@+-]+\.\w{1,8}\b"  # paths to files
    r"|\b(?:[a-z]+[A-Z]\w{3,}|[A-Z][a-z0-9]+[A-Z]\w{2,}|[A-Za-z]+_\w{4,})\b"  # identifiers of six letters or so
    r"|\b[0-9a-f]{7,40}\b"  # hashes
)


class _Needed(Struct, frozen=True):
    """A name that a reply uses, and the tool output it was last told by."""

    name: str
    output: int
    tokens: int


def refetching(recording: Recording, ruler: Ruler) -> Callable[[Call, Sequence[Message]], int]:
    """What each call has to fetch again under a request, in tokens; made once for a session."""
    needed = _needed_by_call(recording, ruler)

    def lost_tokens(call: Call, request: Sequence[Message]) -> int:
        wanted = needed.get(call.number, ())
        if not wanted:
            return 0
        shown = record_text(request)
        lost = {one.output: one.tokens for one in wanted if one.name not in shown}
        return sum(lost.values())

    return lost_tokens


def _needed_by_call(recording: Recording, ruler: Ruler) -> Mapping[int, tuple[_Needed, ...]]:
    told: dict[str, _Needed] = {}
    needed: dict[int, tuple[_Needed, ...]] = {}
    for call in recording.calls:
        for place in range(call.start, call.end):
            _tell(told, place, recording.session.messages[place], ruler)
        used = dict.fromkeys(_NAMES.findall(record_text((recording.reply_to(call),))))
        needed[call.number] = tuple(told[name] for name in used if name in told)
    return needed


def _tell(told: dict[str, _Needed], place: int, message: Message, ruler: Ruler) -> None:
    for result in results_of(message):
        tokens = measure(result.output, ruler)
        for name in dict.fromkeys(_NAMES.findall(result.output)):
            told[name] = _Needed(name, place, tokens)
