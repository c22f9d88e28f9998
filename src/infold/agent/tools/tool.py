"""What a tool is: its name and description, the action that a call requests, and the function that carries it out.

A tool's arguments are a frozen Struct, so the schema that a model sees and what `run` gets are the same. A tool never asks for
permission: it states its action, and `permissions` decides.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from infold.core.messages import FilePart, ResultStatus
from infold.ports import ToolSpec


class CallProgress(Struct):
    """How far the current call has come, for its result if it is interrupted: whether it began, and its output so far."""

    has_begun: bool = False
    output: str = ""

    def keep_output(self, output: str) -> None:
        """Replace the output so far."""
        self.output = output


class Workspace(Struct, frozen=True):
    """Where tools work.

    `root` is the project's root, where commands run; `skills` the folders with skills; `home` the user's home folder, which may
    have instructions for every project. `passed` names the variables with keys of model providers that commands may see; `None`
    passes all. `is_trusted`: the user trusts the project; if not, `ignored` names its settings and skills that are not used.
    `progress` belongs to the current call, and so does `target`: the path that it was permitted, resolved when that was decided.
    """

    root: Path
    skills: tuple[Path, ...] = ()
    home: Path | None = None
    is_trusted: bool = True
    passed: tuple[str, ...] | None = ()
    ignored: tuple[str, ...] = ()
    progress: CallProgress = field(default_factory=CallProgress)
    target: Path | None = None


class ActionRequest(Struct, frozen=True):
    """What a call would do, in one line for the user who is asked: a command, a path.

    `outside`: it reaches beyond the project, or would change a file that runs later; the user is asked whatever the tool's
    rules say, and `why` explains the second case. `reveals`: a command would read a file of secrets.
    """

    tool: str
    what: str
    outside: bool = False
    why: str = ""
    reveals: bool = False


class ToolOutput(Struct, frozen=True):
    """The complete output of a tool and its status; `files` are media that the session already has."""

    output: str
    status: ResultStatus = "completed"
    exit_status: int | None = None
    files: tuple[FilePart, ...] = ()


class ToolFailed(Exception):
    """A call cannot be carried out; the message is for the model: what is wrong and what to do instead.

    Never leaves the agent: `Toolbox` turns it into a result with status `error`.
    """


class Tool(Struct, frozen=True):
    """Something a model may call; `arguments` is the Struct that the functions get.

    `run` raises `ToolFailed` if it cannot do what it is asked. `summary` describes a call in events if its action is not enough.
    """

    name: str
    description: str
    arguments: type[Struct]
    action: Callable[[Any, Workspace], ActionRequest]
    run: Callable[[Any, Workspace], ToolOutput]
    summary: Callable[[Any, Workspace], str] | None = None


def tool_spec(tool: Tool) -> ToolSpec:
    """Return a tool's description for a model: a schema without references, closed to unknown arguments."""
    schema = msgspec.json.schema(tool.arguments)
    parameters = _inline_references(schema, schema.get("$defs", {}))
    return ToolSpec(
        tool.name, tool.description, {key: value for key, value in parameters.items() if key != "description"}
    )


def _inline_references(value: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema with every reference replaced by its definition, and without titles."""
    if isinstance(value, list):
        return [_inline_references(inner, definitions) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _inline_references(definitions[value["$ref"].rpartition("/")[2]], definitions)
    kept = {
        key: _inline_references(inner, definitions) for key, inner in value.items() if key not in ("$defs", "title")
    }
    if isinstance(kept.get("enum"), list):
        return {"type": "string", **kept}  # some providers accept no enum without a type
    return {**kept, "additionalProperties": False} if kept.get("type") == "object" and "properties" in kept else kept
