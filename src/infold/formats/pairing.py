"""Which tool result answers which call, on wires that repeat, omit or mistake the ids.

The log wants each call's id once and each result once after its call. Providers promise less: some servers
number calls anew each turn, Gemini may send no ids, and histories edited by hand hold results of nothing.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from infold.core.messages import Message, MessageId, calls_of, results_of

__all__ = ["Asked", "Pairing", "by_name"]

_REPEATED = re.compile(r"#\d+$")
_MADE_UP = re.compile(r"^m\d+\.\d+$")


class Asked(Struct, frozen=True):
    """An open call: the id it has in the log and the tool it names."""

    call_id: str
    tool: str


def by_name(tool: str) -> str:
    """What pairs a call with its result where the wire has no id."""
    return f"name:{tool}"


class Pairing:
    """The calls still open and the ids in use; decoding feeds it, so a later decoding can go on from it.

    After a `BrokenInput` its state is unknown: rebuild it with `Pairing.after`.
    """

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self._times: dict[str, int] = {}
        self._open: dict[str, list[Asked]] = {}

    @classmethod
    def after(cls, messages: Iterable[Message]) -> "Pairing":
        """The state after these messages, for a session read from its store."""
        pairing = cls()
        for message in messages:
            for call in calls_of(message):
                pairing._reopen(Asked(call.call_id, call.tool))
            for result in results_of(message):
                pairing._close(Asked(result.call_id, result.tool))
        return pairing

    def copy(self) -> "Pairing":
        """The same state, for a decoding that may not be kept."""
        copied = Pairing()
        copied.aliases = dict(self.aliases)
        copied._times = dict(self._times)
        copied._open = {key: list(asked) for key, asked in self._open.items()}
        return copied

    def call(self, wire_id: str, tool: str, message_id: MessageId) -> str:
        """The log's id for a call: the wire's own while it is new, else one made of it or of the position."""
        call_id = self._unused(wire_id) if wire_id else self._unused(f"{message_id}.0")
        if call_id != wire_id:
            self.aliases[call_id] = wire_id
        self._open.setdefault(wire_id or by_name(tool), []).append(Asked(call_id, tool))
        return call_id

    def result(self, *keys: str) -> Asked | None:
        """The call a result answers, found by the first key that has one open; nothing if it is an orphan."""
        for key in keys:
            waiting = self._open.get(key)
            if waiting:
                return waiting.pop(0)
        return None

    def _unused(self, wanted: str) -> str:
        """The wanted id, or with the number of its use where it stands already."""
        times = self._times.get(wanted, 0) + 1
        self._times[wanted] = times
        if times == 1:
            return wanted
        call_id = f"{wanted}#{times}"
        if call_id in self._times:
            return self._unused(wanted)
        self._times[call_id] = 1
        return call_id

    def _reopen(self, asked: Asked) -> None:
        wire_id = self._wire_id(asked.call_id)
        if wire_id != asked.call_id:
            self.aliases[asked.call_id] = wire_id
        self._times[asked.call_id] = self._times.get(asked.call_id, 0) + 1
        self._open.setdefault(wire_id or by_name(asked.tool), []).append(asked)

    def _wire_id(self, call_id: str) -> str:
        base = _REPEATED.sub("", call_id)
        if _MADE_UP.match(base):
            return ""
        return base if base in self._times else call_id

    def _close(self, answered: Asked) -> None:
        waiting = self._open.get(self._wire_id(answered.call_id) or by_name(answered.tool), [])
        waiting[:] = [asked for asked in waiting if asked.call_id != answered.call_id]
