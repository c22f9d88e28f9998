"""Which tool result answers which call, on wires that repeat, omit or mistake ids; and which user text a harness wrote.

The log wants each call's id once, and each result once, after its call. Providers promise less: some servers
number calls from one in each turn, Gemini may send no ids, and histories edited by hand hold results without a call.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from infold.core.ledger import COMMAND_STATE, SKILL_STATE
from infold.core.messages import (
    Message,
    MessageId,
    Part,
    TextPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    calls_of,
    results_of,
)
from infold.formats.harness_text import LOCAL_OUTPUT, is_lone_command, is_wrapped

LAUNCH = "Launching skill:"
"""Prefix of the result of a skill's call."""


class HarnessTextTracker:
    """Marks harness text that follows a skill's call or a slash command; decoding passes it block by block."""

    __slots__ = ("_command", "skills")

    def __init__(self) -> None:
        self.skills = 0
        self._command: MessageId | None = None

    def copy(self) -> "HarnessTextTracker":
        """Return the same state, for a decoding that may be discarded."""
        copied = HarnessTextTracker()
        copied.skills = self.skills
        return copied

    def skip(self, message: Message) -> None:
        """Continue after a message that was decoded and marked before."""
        is_user = isinstance(message, UserMessage | ToolMessage)
        for part in message.parts:
            self.mark((part,), message.id, is_user=is_user)

    def mark(self, parts: tuple[Part, ...], message_id: MessageId, *, is_user: bool) -> tuple[Part, ...]:
        """Return the parts of one block, synthetic if they are a text that was expected; always as many as before."""
        if not parts:
            return parts
        first = parts[0]
        if type(first) is ToolResultPart:
            self.skills += first.output.startswith(LAUNCH)
        elif not is_user:
            self.skills = 0
        elif type(first) is TextPart and (first.synthetic or self.skills or self._command is not None):
            return self._mark_text(parts, message_id)
        return parts

    def _mark_text(self, parts: tuple[Part, ...], message_id: MessageId) -> tuple[Part, ...]:
        text = "".join([part.text for part in parts if isinstance(part, TextPart)])
        self._command = self._command if self._command == message_id else None
        if is_lone_command(text):
            self._command = message_id
        elif text.lstrip().startswith(LOCAL_OUTPUT):
            self._command = None
        elif (self.skills or self._command) and text.strip() and not is_wrapped(text):
            state = self._take()
            return tuple(
                [replace(part, synthetic=True, state=state) if isinstance(part, TextPart) else part for part in parts]
            )
        return parts

    def _take(self) -> tuple[str, ...]:
        """Count one expected text and return what it sets: a command's if a command was the last to announce one."""
        is_command = self._command is not None
        if not is_command:
            self.skills -= 1
        self._command = None
        return (COMMAND_STATE if is_command else SKILL_STATE,)


_REPEATED = re.compile(r"#\d+$")


_GENERATED = re.compile(r"^m\d+\.\d+$")


class OpenCall(Struct, frozen=True):
    """An open call: its id in the log and the tool it names."""

    call_id: str
    tool: str


def name_key(tool: str) -> str:
    """Return the key that pairs a call with its result where the wire has no id."""
    return f"name:{tool}"


class Pairing:
    """The open calls, the ids in use and the harness text to expect; decoding updates it, so a later one can continue.

    After a `BrokenInput` its state is undefined: rebuild it with `Pairing.after`.
    """

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self.harness_text = HarnessTextTracker()
        self._times: dict[str, int] = {}
        self._code_runs = 0
        self._open: dict[str, list[OpenCall]] = {}
        self._of_tool: dict[str, dict[str, OpenCall]] = {}

    @classmethod
    def after(cls, messages: Iterable[Message], unanswered: Mapping[str, str] | None = None) -> "Pairing":
        """Return the state after these messages, for a stored session; `unanswered` maps older calls to their tools."""
        pairing = cls()
        for call_id, tool in (unanswered or {}).items():
            pairing._reopen(OpenCall(call_id, tool))
        for message in messages:
            for call in calls_of(message):
                pairing._reopen(OpenCall(call.call_id, call.tool))
            for result in results_of(message):
                pairing._close(OpenCall(result.call_id, result.tool))
            pairing.harness_text.skip(message)
        return pairing

    def copy(self) -> "Pairing":
        """Return the same state, for a decoding that may be discarded."""
        copied = Pairing()
        copied.aliases = dict(self.aliases)
        copied.harness_text = self.harness_text.copy()
        copied._times = dict(self._times)
        copied._code_runs = self._code_runs
        copied._open = {key: list(call) for key, call in self._open.items()}
        copied._of_tool = {tool: dict(call) for tool, call in self._of_tool.items()}
        return copied

    def open_call(self, wire_id: str, tool: str, message_id: MessageId) -> str:
        """Return the log's id for a call: the wire's own if it is new, else one derived from it or from the position."""
        call_id = self._unused(wire_id) if wire_id else self._unused(f"{message_id}.0")
        if call_id != wire_id:
            self.aliases[call_id] = wire_id
        self._add(OpenCall(call_id, tool), wire_id)
        return call_id

    def code_run(self, *, begins: bool) -> str:
        """Return the link between code that the provider ran and its output, which have no ids."""
        self._code_runs += begins
        return f"code-run-{self._code_runs}"

    def take_call(self, *keys: str) -> OpenCall | None:
        """Return the call a result answers, by the first key with an open call; `None` for an orphan."""
        for key in keys:
            waiting = self._open.get(key)
            if waiting:
                call = waiting.pop(0)
                if not waiting:  # so that a copy is as small as what is open
                    del self._open[key]
                self._of_tool[call.tool].pop(call.call_id, None)
                return call
        return None

    def reserve(self, wire_ids: Iterable[str]) -> None:
        """Reserve the calls of these ids for results that name them, on a wire where other results have no id."""
        for wire_id in wire_ids:
            for call in self._open.get(wire_id, ())[:1]:
                self._of_tool[call.tool].pop(call.call_id, None)

    def take_call_of(self, wire_id: str, tool: str) -> OpenCall | None:
        """Return the call a result answers on a wire where either may have an id without the other.

        An id that a call has belongs to that call alone; any other result answers the oldest open call of its tool.
        """
        if wire_id in self._times:
            return self.take_call(wire_id)
        call = next(iter(self._of_tool.get(tool, {}).values()), None)
        if call is not None:
            self._close(call)
        return call

    def _unused(self, wanted: str) -> str:
        """Return the wanted id, with a number appended if it is in use."""
        times = self._times.get(wanted, 0) + 1
        self._times[wanted] = times
        if times == 1:
            return wanted
        call_id = f"{wanted}#{times}"
        if call_id in self._times:
            return self._unused(wanted)
        self._times[call_id] = 1
        return call_id

    def _reopen(self, call: OpenCall) -> None:
        wire_id = self._wire_id(call.call_id)
        if wire_id != call.call_id:
            self.aliases[call.call_id] = wire_id
        self._times[call.call_id] = self._times.get(call.call_id, 0) + 1
        self._add(call, wire_id)

    def _add(self, call: OpenCall, wire_id: str) -> None:
        self._open.setdefault(wire_id or name_key(call.tool), []).append(call)
        self._of_tool.setdefault(call.tool, {})[call.call_id] = call

    def _wire_id(self, call_id: str) -> str:
        base = _REPEATED.sub("", call_id)
        if _GENERATED.match(base):
            return ""
        return base if base in self._times else call_id

    def _close(self, answered: OpenCall) -> None:
        wire_id = self.aliases.get(answered.call_id, answered.call_id)
        key = wire_id or name_key(answered.tool)
        waiting = self._open.get(key, [])
        place = next((n for n, call in enumerate(waiting) if call.call_id == answered.call_id), None)
        if place is not None:
            del waiting[place]
            if not waiting:
                del self._open[key]
        self._of_tool.get(answered.tool, {}).pop(answered.call_id, None)
