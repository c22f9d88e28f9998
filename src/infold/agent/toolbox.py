"""An agent's hands: its tools in a place, what they may do there, and the working tree before and after.

What a call wishes to do is held against the rules; what they leave open a person is asked, and what the person answers for good
holds as long as these hands do.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.agent.events import AgentEvent, Notice, ToolCalled, ToolRefused
from infold.agent.instructions import ProjectInstructions, load_instructions
from infold.agent.permissions import Consent, Rules, decide, granted_rules, missing_rules
from infold.agent.snapshots import Snapshots
from infold.agent.tools.skill import SKILL, add_skill_list
from infold.agent.tools.tool import ActionRequest, CallProgress, Tool, ToolFailed, ToolOutput, Workspace, tool_spec
from infold.core.logged_message import Rendering, repeats_stub
from infold.core.messages import ToolCallPart, ToolResultPart
from infold.formats.codec import cleaned
from infold.formats.tools import RECALL_TOOL_NAME
from infold.ports import Clock, ToolSpec

LONGEST_SUMMARY = 1_000
"""Characters of a call that are told to somebody who watches."""


STUB_REFUSED = (
    "the arguments hold the text of a stub, which stands for something that was hidden and is not the text itself; nothing was "
    "done. Bring the text back with recall, or read it again, and make the call with that"
)


INTERRUPTED = "interrupted by the user before it was done; find out what it did before you go on"


DENIED = (
    "this was not permitted: {tool}: {what}. Nothing was done. Find another way, or tell the user what you need it for"
)


class Running(Struct, frozen=True):
    """What calls are run with: the tools by name, where they work, who permits, how stubs look, and the clock."""

    tools: Mapping[str, Tool]
    workspace: Workspace
    allow: Callable[[ActionRequest], bool]
    rendering: Rendering
    clock: Clock


def run_call(call: ToolCallPart, running: Running) -> ToolResultPart:
    """Carry out a call and give its result, also where it is not carried out; an interrupt passes through."""
    started_ms = running.clock.now_ms()
    try:
        act = _permitted(call, running)
        running.workspace.trace.has_begun = True
        started_ms = running.clock.now_ms()  # while a person thought it over nothing was done
        done = act()
    except ToolFailed as error:
        done = ToolOutput(str(error), "error")
    except OSError as error:
        done = ToolOutput(f"{call.tool} failed: {_plainly(error)}; check the path and what may be done there", "error")
    return ToolResultPart(
        call.call_id,
        call.tool,
        cleaned(done.output),
        done.status,
        exit_status=done.exit_status,
        started_ms=started_ms,
        finished_ms=running.clock.now_ms(),
        files=done.files,
    )


def broken_off(call: ToolCallPart, trace: CallProgress) -> ToolResultPart:
    """The result of a call that somebody broke off: what it had said by then, or that it had not begun."""
    if not trace.has_begun:
        return not_started(call, "the user interrupted before it was permitted")
    said = trace.said.replace("\0", "\ufffd").rstrip("\n")
    output = f"{INTERRUPTED}; until then it had said:\n{said}" if said else INTERRUPTED
    return ToolResultPart(call.call_id, call.tool, cleaned(output), "interrupted")


def not_started(call: ToolCallPart, why: str = "the user interrupted an earlier call") -> ToolResultPart:
    """The result of a call that was not made."""
    return ToolResultPart(call.call_id, call.tool, f"not begun: {why}", "interrupted")


def gist_of(call: ToolCallPart, running: Running) -> str:
    """What a call is about, in short, for somebody who watches: a command, a path, or its arguments as they are."""
    try:
        tool = _tool(call, running)
        arguments, workspace = _arguments(call, tool), running.workspace
        summary = tool.summary(arguments, workspace) if tool.summary else tool.action(arguments, workspace).what
        return summary[:LONGEST_SUMMARY]
    except (ToolFailed, OSError):
        return call.arguments[:LONGEST_SUMMARY]


def _permitted(call: ToolCallPart, running: Running) -> Callable[[], ToolOutput]:
    """What carries a call out, once it is understood and permitted; raises `ToolFailed` where it is not."""
    tool = _tool(call, running)
    arguments = _arguments(call, tool)
    if call.tool != RECALL_TOOL_NAME and repeats_stub(call, running.rendering):
        raise ToolFailed(STUB_REFUSED)
    action = tool.action(arguments, running.workspace)
    if not running.allow(action):
        raise ToolFailed(DENIED.format(tool=action.tool, what=action.what[:LONGEST_SUMMARY]))
    return partial(tool.run, arguments, running.workspace)


def _tool(call: ToolCallPart, running: Running) -> Tool:
    tool = running.tools.get(call.tool)
    if tool is None:
        raise ToolFailed(
            f"there is no tool {call.tool!r}; call one of {', '.join(running.tools) or 'none: there are none'}"
        )
    return tool


def _arguments(call: ToolCallPart, tool: Tool) -> Any:
    """A call's arguments as its tool takes them; a null stands for what is not given."""
    try:
        decoded = msgspec.json.decode((call.arguments.strip() or "{}").encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ToolFailed(f"the arguments are no JSON ({error}); {_expected(tool)}") from None
    if not isinstance(decoded, dict):
        raise ToolFailed(f"the arguments are no JSON object; {_expected(tool)}")
    given = {name: value for name, value in decoded.items() if value is not None}
    try:
        return msgspec.convert(given, tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ToolFailed(f"wrong arguments: {error}; {_expected(tool)}") from None


def _expected(tool: Tool) -> str:
    """What a tool takes, in words a model can act on."""
    schema = tool_spec(tool).parameters
    needed = schema.get("required", ())
    fields = (
        f'"{name}": {_kind(field)}{"" if name in needed else " (optional)"}'
        for name, field in schema["properties"].items()
    )
    return f"{tool.name} takes an object {{{', '.join(fields)}}}"


def _kind(field: Mapping[str, Any]) -> str:
    if field.get("type") == "array":
        inner = field["items"]
        return f"list of {{{', '.join(inner['properties'])}}}" if "properties" in inner else "list"
    return str(field.get("type", "value"))


def _plainly(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{reason} ({error.filename})" if error.filename else reason


FOLDER_TOOLS = ("list", "search")


PATH_TOOLS = ("read", "write", "edit", *FOLDER_TOOLS)
"""Tools whose wish is a path; what they touch brings the instructions of its folder along. The wide ones touch whole folders."""


CHANGING_TOOLS = ("write", "edit")
"""Tools that are there to change files; who has none of them, and may not run what it likes, changes nothing to speak of."""


ANY_COMMAND = ActionRequest("shell", "true")


SNAPSHOT_NOTICE = (
    "taking a snapshot of the folder, for infold diff; agent.snapshots = false in your settings does without"
)


class Toolbox:
    """Tools at work in one place; `consent` is asked where the rules leave it open."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        workspace: Workspace,
        *,
        rules: Rules,
        consent: Callable[[ActionRequest], Consent],
        clock: Clock,
        snapshots: Snapshots | None = None,
    ) -> None:
        self.workspace = workspace
        self._tools = tools
        self._rules = rules
        self._consent = consent
        self._clock = clock
        self._snapshots = snapshots
        self._touched: dict[Path, None] = {}
        self._trace = CallProgress()
        self._noted = ""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them, and with them the skills there are."""
        told = (tool_spec(tool) for tool in self._tools.values())
        return tuple(add_skill_list(spec, self.workspace) if spec.name == SKILL.name else spec for spec in told)

    @property
    def takes_snapshots(self) -> bool:
        """Whether the working tree is kept: not for an agent that has nothing to change it with."""
        changes = any(name in self._tools for name in CHANGING_TOOLS) or decide(ANY_COMMAND, self._rules) == "allow"
        return self._snapshots is not None and changes

    def snapshot(self) -> str:
        """The working tree as it is now, by the id of its snapshot; empty where none is taken."""
        return self._snapshots.take() if self._snapshots is not None and self.takes_snapshots else ""

    def first_snapshot(self, tell: Callable[[AgentEvent], None], silence_seconds: float) -> str:
        """The working tree as the work finds it; that of a large one takes a while, which is told after so much silence.

        Where there is none to be had, that is told once.
        """
        telling = Timer(silence_seconds, tell, (Notice(SNAPSHOT_NOTICE),))
        telling.daemon = True
        try:
            if self.takes_snapshots:
                telling.start()
            taken = self.snapshot()
        finally:
            telling.cancel()
        note = self._snapshots.note if self._snapshots is not None else ""
        if note and note != self._noted:
            self._noted = note
            tell(Notice(f"{note}; infold diff will not know what this changes"))
        return taken

    def tidy(self) -> None:
        """Let go of snapshots that nobody will ask for."""
        if self._snapshots is not None and self.takes_snapshots:
            self._snapshots.tidy()

    def instructions(self, most_tokens: int = 0) -> ProjectInstructions:
        """What the project and the user tell every agent here, as it stands on disk now; within so many tokens, if it must be."""
        place = self.workspace
        found = load_instructions(
            place.root, self._touched, place.home, most_tokens=most_tokens, is_trusted=place.is_trusted
        )
        return replace(found, ignored=tuple(dict.fromkeys((*place.ignored, *found.ignored))))

    def run(self, call: ToolCallPart, tell: Callable[[AgentEvent], None], rendering: Rendering) -> ToolResultPart:
        """Carry out one call, and tell of it before; an interrupt passes through, and `broken_off` answers for it."""
        self._trace = CallProgress()
        place, allow = replace(self.workspace, trace=self._trace), partial(self._permits, call, tell)
        running = Running(self._tools, place, allow, rendering, self._clock)
        tell(ToolCalled(call.call_id, call.tool, call.arguments, gist_of(call, running)))
        return run_call(call, running)

    def broken_off(self, call: ToolCallPart) -> ToolResultPart:
        """The result of the call that was being run when something broke it off."""
        return broken_off(call, self._trace)

    def _permits(self, call: ToolCallPart, tell: Callable[[AgentEvent], None], action: ActionRequest) -> bool:
        is_permitted = self._allows(action)
        if not is_permitted:
            tell(
                ToolRefused(
                    call.call_id, action.tool, action.what[:LONGEST_SUMMARY], missing_rules(action, self._rules)
                )
            )
        return is_permitted

    def _allows(self, action: ActionRequest) -> bool:
        if action.tool in PATH_TOOLS:
            place = self.workspace.root / action.what
            self._touched.setdefault(place if action.tool in FOLDER_TOOLS else place.parent)
        answer = decide(action, self._rules)
        if answer != "ask":
            return answer == "allow"
        consent = self._consent(action)
        if consent == "always":
            self._rules = (*self._rules, *granted_rules(action))
        return consent != "no"
