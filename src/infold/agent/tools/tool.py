"""What a tool is: a name, what a model is told of it, what it wishes to do, and how it does it.

A tool's arguments are a frozen Struct, so that the schema a model sees and what `run` is given are one thing. A tool never
asks anybody: it states its wish, and `permissions` decide.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from infold.core.messages import FilePart, ResultStatus
from infold.ports import ToolSpec


class CallProgress:
    """How far a call has come, for whoever answers for it when it is broken off: whether it began, and what it had said."""

    def __init__(self) -> None:
        self.has_begun = False
        self.said = ""

    def leave(self, said: str) -> None:
        """Keep what was said so far."""
        self.said = said


class Workspace(Struct, frozen=True):
    """Where tools work: the project's root, which is also where commands run, and the folders skills are found in.

    `home` is the user's own folder, where instructions for every project may lie; `trace` is of the call that is being run.
    `passed` are the variables with keys of model providers that commands may see, `None` all of them. `is_trusted`: the user
    trusts the project; else `ignored` are the settings and skills in it that are not used.
    """

    root: Path
    skills: tuple[Path, ...] = ()
    home: Path | None = None
    is_trusted: bool = True
    passed: tuple[str, ...] | None = ()
    ignored: tuple[str, ...] = ()
    trace: CallProgress = field(default_factory=CallProgress)


class ActionRequest(Struct, frozen=True):
    """What a call would do, in one line for the person who is asked: a command, a path.

    `outside`: it reaches beyond the project, or would change a file that runs later, which is asked for whatever the rules of
    the tool say; `why` tells the person which of the two. `reveals`: a command would read a file of secrets.
    """

    tool: str
    what: str
    outside: bool = False
    why: str = ""
    reveals: bool = False


class ToolOutput(Struct, frozen=True):
    """What a tool answers: its output, whole, and how it went; `files` are media that the session has already."""

    output: str
    status: ResultStatus = "completed"
    exit_status: int | None = None
    files: tuple[FilePart, ...] = ()


class ToolFailed(Exception):
    """A call that cannot be carried out, in words for the model: what is wrong and what to do instead.

    Never leaves the agent: whoever runs tools turns it into a result with status `error`.
    """


class Tool(Struct, frozen=True):
    """Something a model may call; `arguments` is the Struct that `wish` and `run` are given.

    `run` raises `ToolFailed` where it cannot do what it is asked. `gist` tells somebody who watches what a call is about, where
    its wish is not all there is to say.
    """

    name: str
    description: str
    arguments: type[Struct]
    action: Callable[[Any, Workspace], ActionRequest]
    run: Callable[[Any, Workspace], ToolOutput]
    summary: Callable[[Any, Workspace], str] | None = None


def tool_spec(tool: Tool) -> ToolSpec:
    """A tool as a model is told of it: a schema in one piece, without references, closed to unknown arguments."""
    schema = msgspec.json.schema(tool.arguments)
    parameters = _inlined(schema, schema.get("$defs", {}))
    return ToolSpec(
        tool.name, tool.description, {key: value for key, value in parameters.items() if key != "description"}
    )


def _inlined(value: Any, parts: dict[str, Any]) -> Any:
    """A schema with every reference replaced by what it stands for; titles, which tell a model nothing, are left out."""
    if isinstance(value, list):
        return [_inlined(inner, parts) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _inlined(parts[value["$ref"].rpartition("/")[2]], parts)
    kept = {key: _inlined(inner, parts) for key, inner in value.items() if key not in ("$defs", "title")}
    if isinstance(kept.get("enum"), list):
        return {"type": "string", **kept}  # some providers take no choice without a type
    return {**kept, "additionalProperties": False} if kept.get("type") == "object" and "properties" in kept else kept
