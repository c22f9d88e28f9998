"""Run a call that a model made: read its arguments, ask for permission, do it, and answer whatever happens.

Whatever is wrong with a call becomes a result that says what to do instead; only what comes from outside, an interrupt above
all, passes through.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from infold.agent.tools.tool import Done, Tool, ToolFailed, Trace, Wish, Workplace, spec_of
from infold.core.logged_message import Rendering, repeats_stub
from infold.core.messages import ToolCallPart, ToolResultPart
from infold.formats.codec import cleaned
from infold.formats.tools import RECALL_TOOL_NAME
from infold.ports import Clock

LONGEST_GIST = 1_000
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
    workplace: Workplace
    allow: Callable[[Wish], bool]
    rendering: Rendering
    clock: Clock


def run_call(call: ToolCallPart, running: Running) -> ToolResultPart:
    """Carry out a call and give its result, also where it is not carried out; an interrupt passes through."""
    started_ms = running.clock.now_ms()
    try:
        act = _permitted(call, running)
        running.workplace.trace.has_begun = True
        started_ms = running.clock.now_ms()  # while a person thought it over nothing was done
        done = act()
    except ToolFailed as error:
        done = Done(str(error), "error")
    except OSError as error:
        done = Done(f"{call.tool} failed: {_plainly(error)}; check the path and what may be done there", "error")
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


def broken_off(call: ToolCallPart, trace: Trace) -> ToolResultPart:
    """The result of a call that somebody broke off: what it had said by then, or that it had not begun."""
    if not trace.has_begun:
        return not_begun(call, "the user interrupted before it was permitted")
    said = trace.said.replace("\0", "\ufffd").rstrip("\n")
    output = f"{INTERRUPTED}; until then it had said:\n{said}" if said else INTERRUPTED
    return ToolResultPart(call.call_id, call.tool, cleaned(output), "interrupted")


def not_begun(call: ToolCallPart, why: str = "the user interrupted an earlier call") -> ToolResultPart:
    """The result of a call that was not made."""
    return ToolResultPart(call.call_id, call.tool, f"not begun: {why}", "interrupted")


def gist_of(call: ToolCallPart, running: Running) -> str:
    """What a call is about, in short, for somebody who watches: a command, a path, or its arguments as they are."""
    try:
        tool = _tool(call, running)
        arguments, workplace = _arguments(call, tool), running.workplace
        gist = tool.gist(arguments, workplace) if tool.gist else tool.wish(arguments, workplace).what
        return gist[:LONGEST_GIST]
    except (ToolFailed, OSError):
        return call.arguments[:LONGEST_GIST]


def _permitted(call: ToolCallPart, running: Running) -> Callable[[], Done]:
    """What carries a call out, once it is understood and permitted; raises `ToolFailed` where it is not."""
    tool = _tool(call, running)
    arguments = _arguments(call, tool)
    if call.tool != RECALL_TOOL_NAME and repeats_stub(call, running.rendering):
        raise ToolFailed(STUB_REFUSED)
    wish = tool.wish(arguments, running.workplace)
    if not running.allow(wish):
        raise ToolFailed(DENIED.format(tool=wish.tool, what=wish.what[:LONGEST_GIST]))
    return partial(tool.run, arguments, running.workplace)


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
    schema = spec_of(tool).parameters
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
