"""Tools in each provider's shape, and recall and compact as two of them: description, names, and the arguments of a call.

A client of an MCP server puts the server's name before the tool's, so recall has several names. What a call returns is
decided elsewhere.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Protocol

from msgspec import Struct

from infold.core.messages import COMPACT_TOOL_NAME, RECALL_TOOL_NAME, is_compact, is_recall
from infold.errors import BrokenInput, kind_of
from infold.formats.codec import Item, dicts_in, replace_surrogates
from infold.formats.registry import GEMINI, format_named


class OfferedTool(Protocol):
    """A tool to be offered; `parameters` is a JSON schema of an object, without references."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...


def tool_items(format_name: str, specs: Iterable[OfferedTool]) -> list[Item]:
    """Return the `tools` of a request in that format; empty for no tools. Raise `UnknownFormat` for an unknown name."""
    items = [tool_item(format_name, spec) for spec in specs]
    return [{"functionDeclarations": items}] if items and format_named(format_name) is GEMINI else items


def tool_item(format_name: str, spec: OfferedTool) -> Item:
    """Return one tool: an entry of a request's `tools`, or of Gemini's `functionDeclarations`.

    It is a new object each time, so a caller may change it. Raise `UnknownFormat` for an unknown name.
    """
    return format_named(format_name).tool_item(spec.name, spec.description, deepcopy(spec.parameters))


LONGEST_TOOL_NAME = 200
"""Characters of a tool's name; providers allow 64 to 128, but a request may hold anything."""


class ToolDefinition(Struct, frozen=True):
    """One tool of a request, and its name; a provider's own tool without a name is called by its type."""

    name: str
    definition: Mapping[str, Any]


def definitions_in(tools: object) -> Iterator[ToolDefinition]:
    """Yield each tool of a decoded `tools` field, whatever its format is; one item of Gemini's holds several."""
    for item in tools if isinstance(tools, list) else ():
        if not isinstance(item, Mapping):
            continue
        declared = item.get("functionDeclarations") or item.get("function_declarations")
        if isinstance(declared, list):
            yield from definitions_in(declared)
            continue
        inner = item.get("function") or item.get("toolSpec") or item.get("systemTool")
        named = inner if isinstance(inner, Mapping) else item
        kinds = (item.get("server_label"), item.get("type"), next(iter(item), None))
        name = next((str(name) for name in (named.get("name"), *kinds) if name), "?")
        yield ToolDefinition(name[:LONGEST_TOOL_NAME], item)


RECALL_DESCRIPTION = """\
Brings back what has left your view of this session. Old tool output, long arguments and earlier turns are hidden to save \
room; none of it is lost. Use recall whenever you need the exact text of something you can no longer see: what a file or a \
command showed, what the user asked for, a decision, an error, a figure. Prefer it to guessing, and to reading a file or \
running a command a second time only to see what it said then.

A handle is two numbers with a dot, such as 42.1. Handles stand where text was hidden, as in \
[pruned: 5,120 characters of bash output; recall 42.1], and in brackets behind facts of a folded session, as in [42.1]. \
Searching finds the passages that fit best, each under its handle."""
"""The tool's description for the model: when to use it, and what handles look like."""


RECALL_QUERY = """\
One of: words, names or paths to search for, best as they stood in the text ("connection refused postgres"); one or more \
handles, to read these parts ("42.1" or "42.1, 44.0"); a handle with a colon and words, to search in that part only \
("42.1: retry limit"); a handle with + and a number, to read on from that character ("42.1+6000")."""
"""The description of the tool's one argument."""


REMEDY = 'call it with an object such as {"query": "words to search for, or a handle such as 42.1"}'


OTHER_NAMES = ("handle", "handles", "words", "keywords", "question", "text", "pattern", "search", "q", "input", "id")
"""What models write in place of `query`, in the order of search."""


class _Tool(Struct, frozen=True):
    name: str
    description: str
    parameters: dict[str, Any]


_RECALL = _Tool(
    RECALL_TOOL_NAME,
    RECALL_DESCRIPTION,
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": RECALL_QUERY}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


def recall_tool(format_name: str, name: str = RECALL_TOOL_NAME) -> dict[str, Any]:
    """Return the tool as a request of that format offers it: an entry of its `tools`, or of Gemini's `functionDeclarations`.

    It is a new object each time, so a caller may change it. Raise `UnknownFormat` for an unknown name.
    """
    return tool_item(format_name, _Tool(name, recall_description(name), _RECALL.parameters))


def recall_description(name: str) -> str:
    """Return the tool's description for the model, under that name."""
    return re.sub(rf"\b{RECALL_TOOL_NAME}\b", lambda _: name, RECALL_DESCRIPTION)


def free_recall_name(wanted: str, taken: Container[str]) -> str:
    """Return a name for the recall tool that no other tool has: the wanted one, or one that is known as infold's."""
    names = (f"infold{'_' * count}{RECALL_TOOL_NAME}" for count in range(1, 100))
    return next(name for name in (wanted, *names) if name not in taken)


COMPACT_DESCRIPTION = """\
Asks for the earlier part of this session to be replaced by a summary before your next step, so that you have room and are not \
distracted by details that are settled. Call it when a sub-task is done and the next one needs little of what led to it: \
the tests pass, a commit is made, a question is answered. Never in the middle of an edit or an investigation. The user's \
instructions, what you changed and what you ran are kept, and nothing is lost. If little of your view is filled, nothing is \
done, and the answer says so."""
"""The tool's description for the model: when to use it, and what it does."""


COMPACT_FOCUS = (
    "What the next sub-task needs, in a sentence or two: names, decisions, open points. The summary gives room to it."
)
"""The description of the tool's one argument, which may be left out."""


_COMPACT = _Tool(
    COMPACT_TOOL_NAME,
    COMPACT_DESCRIPTION,
    {
        "type": "object",
        "properties": {"focus": {"type": "string", "description": COMPACT_FOCUS}},
        "additionalProperties": False,
    },
)


def compact_tool(format_name: str) -> dict[str, Any]:
    """Return the tool by which a model asks for a compaction, as `recall_tool` returns recall."""
    return tool_item(format_name, _COMPACT)


def offers_compact(format_name: str, tools: object) -> bool:
    """Return whether a request's `tools` include compact, as `offers_recall` does for recall."""
    names = format_named(format_name).tool_names
    return any(is_compact(name) for tool in dicts_in(tools) for name in names(tool, COMPACT_TOOL_NAME))


def compact_focus(arguments: str | Mapping[str, object]) -> str:
    """Return the focus of a call to the tool, from its arguments as JSON text or decoded; empty if it has none.

    Accepts what `recall_query` accepts.
    """
    given = {"query": arguments["focus"]} if isinstance(arguments, Mapping) and arguments.get("focus") else arguments
    if isinstance(given, str):
        value = _parse_json(given)
        return compact_focus(value) if isinstance(value, Mapping) else "" if value is not None else _plain(given)
    try:
        return recall_query(given)
    except BrokenInput:
        return ""


def _plain(text: str) -> str:
    return "" if text.lstrip().startswith(("{", "[")) else replace_surrogates(text.strip())


def offers_recall(format_name: str, tools: object) -> bool:
    """Return whether a request's `tools` include recall, under its own name or as a tool of an MCP server called infold.

    `tools` is the value in the request: `None`, dicts or the SDK's objects; unreadable entries are skipped. Raise
    `UnknownFormat` for an unknown format.
    """
    names = format_named(format_name).tool_names
    return any(is_recall(name) for tool in dicts_in(tools) for name in names(tool, RECALL_TOOL_NAME))


def recall_query(arguments: str | Mapping[str, object]) -> str:
    """Return the query of a call to the tool, from its arguments as JSON text or decoded.

    Accepts another name for the argument, handles given as numbers or in a list, JSON within JSON, and words that are not JSON
    at all. Raise `BrokenInput` if the query is empty.
    """
    try:
        query = _query_in(_parse_arguments(arguments) if isinstance(arguments, str) else arguments).strip()
    except RecursionError:
        raise _refusal("the arguments are nested too deep") from None
    if not query:
        raise _refusal("the arguments hold no query")
    return replace_surrogates(query)


def _query_in(value: object) -> str:
    match value:
        case Mapping():
            given = (value[name] for name in ("query", *OTHER_NAMES) if value.get(name) not in (None, "", []))
            return _query_in(next(given, None))
        case str():
            inner = _parse_json(value) if value.lstrip().startswith("{") else None
            return _query_in(inner) if isinstance(inner, Mapping) and "query" in inner else value
        case list() | tuple():
            return " ".join(map(_query_in, value))
        case None:
            return ""
        case int() | float() if not isinstance(value, bool):
            return str(value)
        case _:
            raise _refusal(f"the query is {kind_of(value)}")


def _parse_arguments(text: str) -> object:
    """Decode arguments; text that was not meant to be JSON is the query itself."""
    value = _parse_json(text)
    if value is None and text.lstrip().startswith("{"):
        raise _refusal("the arguments are not JSON")
    return text if value is None else value


def _parse_json(text: str) -> object:
    """Parse JSON, with numbers as they were written since 42.10 is not 42.1; `None` if it cannot be parsed."""
    try:
        return json.loads(text, parse_float=str, parse_int=str)
    except (RecursionError, ValueError):
        return None


def _refusal(problem: str) -> BrokenInput:
    return BrokenInput(RECALL_TOOL_NAME, problem, remedy=REMEDY)
