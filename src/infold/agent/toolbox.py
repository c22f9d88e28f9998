"""The agent's tools, their permissions, and snapshots of the working tree.

The action that a call requests is checked against the rules. Where they say "ask", the user decides; a decision for good holds as
long as the toolbox does.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Timer
from typing import Any

import msgspec
from msgspec.structs import replace

from infold.agent.events import AgentEvent, Notice, ToolCalled, ToolRefused
from infold.agent.instructions import ProjectInstructions, load_instructions
from infold.agent.permissions import Consent, Rules, decide, granted_rules, is_offered, missing_rules
from infold.agent.snapshots import Snapshots
from infold.agent.tools.edit import EDIT, WRITE
from infold.agent.tools.files import named_path, quote_name
from infold.agent.tools.list import LIST
from infold.agent.tools.read import READ
from infold.agent.tools.search import SEARCH
from infold.agent.tools.shell import SHELL
from infold.agent.tools.skill import SKILL, add_skill_list
from infold.agent.tools.todo import TODO
from infold.agent.tools.tool import ActionRequest, CallProgress, Tool, ToolFailed, ToolOutput, Workspace, tool_spec
from infold.core.logged_message import Rendering, repeats_stub
from infold.core.messages import RECALL_TOOL_NAME, ToolCallPart, ToolResultPart
from infold.formats.codec import replace_surrogates
from infold.ports import Clock, ToolSpec

TOOLS = (SHELL, READ, WRITE, EDIT, SEARCH, LIST, TODO, SKILL)
"""The tools that need only a workspace, in the order in which a model gets them."""

LONGEST_SUMMARY = 1_000
"""Characters of a call that an event shows."""

MOST_NAMED, LONGEST_NAME = 8, 40
"""How many unknown arguments are named, and how much of each."""

STUB_REFUSED = (
    "the arguments hold the text of a stub, which stands for something that was hidden and is not the text itself; nothing was "
    "done. Bring the text back with recall, or read it again, and make the call with that"
)
INTERRUPTED = "interrupted by the user before it was done; find out what it did before you go on"
DENIED = (
    "this was not permitted: {tool}: {what}. Nothing was done. Find another way, or tell the user what you need it for"
)

CHANGED = "where this leads has changed since it was permitted, so nothing was done; look at the path, then make the call again"

FOLDER_TOOLS = ("list", "search")
PATH_TOOLS = ("read", "write", "edit", *FOLDER_TOOLS)
"""Tools whose action is a path; what they touch adds the instructions of its folder."""

CHANGING_TOOLS = ("write", "edit")
ANY_COMMAND = ActionRequest("shell", "true")
SNAPSHOT_NOTICE = (
    "taking a snapshot of the folder, for infold diff; agent.snapshots = false in your settings does without"
)


def select_tools(rules: Rules, *more: Tool) -> dict[str, Tool]:
    """Return an agent's tools by name, without those that its rules deny outright; `more` are those of its session."""
    return {tool.name: tool for tool in (*TOOLS, *more) if is_offered(tool.name, rules)}


class Toolbox:
    """Run tools in one workspace; `consent` asks the user where the rules say "ask".

    `snapshots` are taken only if the agent has tools, or may run any command, to change files with.
    """

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
        can_change = any(name in tools for name in CHANGING_TOOLS) or decide(ANY_COMMAND, rules) == "allow"
        self._snapshots = snapshots if can_change else None
        self._touched: dict[Path, None] = {}
        self._progress = CallProgress()
        self._last_note = ""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as they are described to a model; the skill tool lists the skills that exist."""
        specs = map(tool_spec, self._tools.values())
        return tuple(add_skill_list(spec, self.workspace) if spec.name == SKILL.name else spec for spec in specs)

    # Calls.

    def run(self, call: ToolCallPart, emit: Callable[[AgentEvent], None], rendering: Rendering) -> ToolResultPart:
        """Emit a call, carry it out, and return its result, also if it is refused or fails.

        An interrupt is not caught; `interrupted` returns the result for it.
        """
        self._progress = CallProgress()
        emit(ToolCalled(call.call_id, call.tool, call.arguments, self._summarise(call)))
        started_ms, note = self._clock.now_ms(), ""
        try:
            tool, given = self._parse(call)
            note, arguments = _note_ignored(tool, given), _convert(tool, given)
            if call.tool != RECALL_TOOL_NAME and repeats_stub(call, rendering):
                raise ToolFailed(STUB_REFUSED)
            workspace = replace(self.workspace, progress=self._progress)
            action = tool.action(arguments, workspace)
            if not self._is_permitted(action):
                what = action.what[:LONGEST_SUMMARY]
                emit(ToolRefused(call.call_id, action.tool, what, missing_rules(action, self._rules)))
                raise ToolFailed(DENIED.format(tool=action.tool, what=what))
            if tool.action(arguments, workspace) != action:
                raise ToolFailed(CHANGED)
            if action.tool in PATH_TOOLS:
                workspace = replace(workspace, target=named_path(action.what, workspace))
            self._progress.has_begun = True
            started_ms = self._clock.now_ms()  # without the time that the user took to decide
            output = tool.run(arguments, workspace)
        except ToolFailed as error:
            output = ToolOutput(str(error), "error")
        except OSError as error:
            reason = error.strerror or str(error)
            where = f" ({error.filename})" if error.filename else ""
            failure = f"{call.tool} failed: {reason}{where}; check the path and what may be done there"
            output = ToolOutput(failure, "error")
        return ToolResultPart(
            call.call_id,
            call.tool,
            replace_surrogates(note + output.output),
            output.status,
            exit_status=output.exit_status,
            started_ms=started_ms,
            finished_ms=self._clock.now_ms(),
            files=output.files,
        )

    def interrupted(self, call: ToolCallPart) -> ToolResultPart:
        """Return the result of the call that was running when an exception ended it: its output so far, if it had begun."""
        if not self._progress.has_begun:
            return not_started(call, "the user interrupted before it was permitted")
        partial = self._progress.output.replace("\0", "\ufffd").rstrip("\n")
        output = f"{INTERRUPTED}; until then it had said:\n{partial}" if partial else INTERRUPTED
        return ToolResultPart(call.call_id, call.tool, replace_surrogates(output), "interrupted")

    def _summarise(self, call: ToolCallPart) -> str:
        """Return a call in one line: a command, a path, or its arguments as they are."""
        try:
            tool, given = self._parse(call)
            place, arguments = self.workspace, _convert(tool, given)
            what = tool.summary(arguments, place) if tool.summary else tool.action(arguments, place).what
            return what[:LONGEST_SUMMARY]
        except (ToolFailed, OSError):
            return call.arguments[:LONGEST_SUMMARY]

    def _parse(self, call: ToolCallPart) -> tuple[Tool, dict[str, Any]]:
        """Return the tool of a call and what it was given, without nulls; raise `ToolFailed` if it is not a call."""
        tool = self._tools.get(call.tool)
        if tool is None:
            known = ", ".join(self._tools) or "none: there are none"
            raise ToolFailed(f"there is no tool {call.tool!r}; call one of {known}")
        try:
            decoded = msgspec.json.decode((call.arguments.strip() or "{}").encode("utf-8", "surrogatepass"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ToolFailed(f"the arguments are no JSON ({error}); {_describe_arguments(tool)}") from None
        if not isinstance(decoded, dict):
            raise ToolFailed(f"the arguments are no JSON object; {_describe_arguments(tool)}")
        return tool, {name: value for name, value in decoded.items() if value is not None}

    def _is_permitted(self, action: ActionRequest) -> bool:
        if action.tool in PATH_TOOLS:
            path = named_path(action.what, self.workspace)
            self._touched.setdefault(path if action.tool in FOLDER_TOOLS else path.parent)
        permission = decide(action, self._rules)
        if permission != "ask":
            return permission == "allow"
        consent = self._consent(action)
        if consent == "always":
            self._rules = (*self._rules, *granted_rules(action))
        return consent != "no"

    # The project.

    def instructions(self, most_tokens: int = 0) -> ProjectInstructions:
        """Return the instructions of the project and the user as they are on disk now, within `most_tokens` unless 0."""
        return load_instructions(self.workspace, self._touched, most_tokens=most_tokens)

    def snapshot(self) -> str:
        """Return the id of a snapshot of the working tree, or an empty string if none is taken."""
        return self._snapshots.take() if self._snapshots is not None else ""

    def first_snapshot(self, emit: Callable[[AgentEvent], None], silence_seconds: float) -> str:
        """Return the snapshot that a run begins with; emit a notice if it takes long, and once if it cannot be taken."""
        if self._snapshots is None:
            return ""
        timer = Timer(silence_seconds, emit, (Notice(SNAPSHOT_NOTICE),))
        timer.daemon = True
        timer.start()
        try:
            snapshot = self._snapshots.take()
        finally:
            timer.cancel()
        note = self._snapshots.note
        if note and note != self._last_note:
            self._last_note = note
            emit(Notice(f"{note}; infold diff will not know what this changes"))
        return snapshot

    def tidy(self) -> None:
        """Remove old snapshots."""
        if self._snapshots is not None:
            self._snapshots.tidy()


def not_started(call: ToolCallPart, reason: str = "the user interrupted an earlier call") -> ToolResultPart:
    """Return the result of a call that was not made."""
    return ToolResultPart(call.call_id, call.tool, f"not begun: {reason}", "interrupted")


def _convert(tool: Tool, given: Mapping[str, Any]) -> Any:
    """Return a tool's arguments; raise `ToolFailed` if they are wrong. Those that it does not know are left out."""
    try:
        return msgspec.convert(given, tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ToolFailed(f"wrong arguments: {error}; {_describe_arguments(tool)}") from None


def _note_ignored(tool: Tool, given: Mapping[str, Any]) -> str:
    """Return a line about arguments that a tool does not have, or an empty string."""
    unknown = [quote_name(f'"{name[:LONGEST_NAME]}"') for name in given if name not in tool.arguments.__struct_fields__]
    return f"[ignored: {', '.join(unknown[:MOST_NAMED])}; {_describe_arguments(tool)}]\n" if unknown else ""


def _describe_arguments(tool: Tool) -> str:
    """Return what a tool takes, in words that a model can act on."""
    schema = tool_spec(tool).parameters
    needed = schema.get("required", ())
    fields = (
        f'"{name}": {_describe_type(field)}{"" if name in needed else " (optional)"}'
        for name, field in schema["properties"].items()
    )
    return f"{tool.name} takes an object {{{', '.join(fields)}}}"


def _describe_type(field: Mapping[str, Any]) -> str:
    if field.get("type") == "array":
        inner = field["items"]
        return f"list of {{{', '.join(inner['properties'])}}}" if "properties" in inner else "list"
    return str(field.get("type", "value"))
