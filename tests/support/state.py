"""The state that a list of messages sets, as the provider would read it, and an invented session full of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from infold.formats.codec import json_text

Item = dict[str, Any]

TOOLS: list[Item] = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "edit", "deploy")]


class AnthropicState(Struct, frozen=True):
    """What is in force at the end of a list: the tools by name, the texts of system messages, the effort."""

    tools: Mapping[str, str]
    texts: tuple[str, ...]
    effort: str


def anthropic_state(items: Sequence[Item], tools: Iterable[Item] = TOOLS) -> AnthropicState:
    """Return the state of Anthropic's messages: a compaction block has the tools of all before it, which is ignored."""
    offered = {tool["name"]: json_text(tool) for tool in tools}
    known, effort = dict(offered), ""
    texts: dict[str, None] = {}
    for place, item in enumerate(items):
        for block in _blocks(item):
            if block["type"] == "compaction" and block.get("content"):
                offered, known = {tool["name"]: json_text(tool) for tool in tools}, dict(offered)
                texts, effort = {}, ""
                changes = block.get("tool_changes") or ()
            else:
                changes = [block] if item["role"] == "system" else []
            for change in changes:
                _change(change, offered, known)
            is_over = item.get("clear_at") == "next_user_message" and any(
                later["role"] == "user" for later in items[place + 1 :]
            )
            if item["role"] == "system" and block["type"] == "text" and not is_over:
                texts.pop(block["text"], None)
                texts[block["text"]] = None
        if item["role"] == "system":
            effort = (item.get("output_config") or {}).get("effort", effort)
    return AnthropicState(offered, tuple(texts), effort)


def _change(block: Item, offered: dict[str, str], known: dict[str, str]) -> None:
    if block["type"] == "tool_addition":
        tool = block["tool"]
        if tool["type"] == "tool_definition":
            known[tool["definition"]["name"]] = json_text(tool["definition"])
        name = tool.get("name") or tool["definition"]["name"]
        offered[name] = known[name]  # KeyError: a reference that the provider would refuse
    elif block["type"] == "tool_removal":
        assert block["tool"]["name"] in known
        offered.pop(block["tool"]["name"], None)


def _blocks(item: Item) -> list[Item]:
    content = item["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def misplaced(items: Sequence[Item]) -> tuple[str, ...]:
    """Return which system messages and compaction blocks stand where the API refuses them."""
    return tuple(_misplaced(items))


def _misplaced(items: Sequence[Item]) -> Iterator[str]:
    roles = ["none", *(item["role"] for item in items), "none"]
    blocks = [(place, number) for place, item in enumerate(items) for number, block in enumerate(_blocks(item))
              if block["type"] == "compaction" and block.get("content")]  # fmt: skip
    yield from (f"item {place}: a compaction block is not first" for place, number in blocks if place or number)
    for place, item in enumerate(items, 1):
        if item["role"] != "system" or not item["content"]:
            continue
        before = next(role for role in reversed(roles[:place]) if role != "system")
        after = next(role for role in roles[place + 1 :] if role != "system")
        if before != "user":
            yield f"item {place - 1}: a system message after {before}"
        if after not in ("assistant", "none"):
            yield f"item {place - 1}: a system message before {after}"


def addition(name: str) -> Item:
    """A tool that the request declares becomes available."""
    return {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}}


def definition(name: str, version: int = 1) -> Item:
    """A tool becomes available by its definition."""
    tool = {"name": name, "description": f"version {version}", "input_schema": {"type": "object"}}
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}


def removal(name: str) -> Item:
    """A tool is no longer available."""
    return {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}}


def system(*content: Item | str, **fields: Any) -> Item:
    """A system message inside the history."""
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    return {"role": "system", "content": blocks, **fields}


CWD, OTHER_CWD = "/srv/orchard", "/srv/orchard/press"
AGENTS = "# AGENTS.md instructions for /srv/orchard\n\n<INSTRUCTIONS>\nUse tabs. Never touch vendor/.\n</INSTRUCTIONS>"


def environment(**fields: str) -> str:
    """Codex's description of its environment, or of what changed in it."""
    lines = [f"  <{name}>{value}</{name}>" for name, value in fields.items()]
    return "\n".join(("<environment_context>", *lines, "</environment_context>"))


def environment_in(texts: Iterable[str]) -> dict[str, str]:
    """The environment that these texts describe, the newest value of each field."""
    fields: dict[str, str] = {}
    for text in texts:
        if text.lstrip().startswith("<environment_context>"):
            lines = [line.strip() for line in text.splitlines() if line.startswith("  <")]
            fields |= {line[1 : line.index(">")]: line for line in lines}
    return fields


def anthropic_session(steps: int) -> Iterator[list[Item]]:
    """Yield what a client adds before each request of a long session, with tool changes and dated instructions on the way."""
    output = "The orchard has apples, pears and plums; the press is cold and the cellar is full. " * 12
    dated = {
        3: system(removal("deploy"), "Deployments are closed until the freeze ends."),
        9: system(definition("graft")),
        15: system("Remind the user of the frost.", clear_at="next_user_message"),
        21: {"role": "system", "content": [], "output_config": {"effort": "low"}},
        27: system(definition("graft", 2), removal("edit")),
        33: system(removal("graft")),
        40: system(addition("edit"), "The freeze has ended."),
        55: system(addition("graft"), output_config={"effort": "high"}),
        70: system(addition("deploy"), removal("read")),
    }
    yield [{"role": "user", "content": "Look after the orchard. Never cut a healthy branch."}]
    for number in range(steps):
        call = {"type": "tool_use", "id": f"call_{number}", "name": "look", "input": {"row": number}}
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": f"Row {number}. {output}"}
        yield [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            *([dated[number]] if number in dated else []),
        ]


def codex_session(steps: int) -> Iterator[list[Item]]:
    """Yield what Codex adds before each request of a long session that changes its working folder."""
    output = "src/press.rs: the press is cold; src/cellar.rs: the cellar is full of bottles from last year. " * 12
    yield [
        _said(AGENTS),
        _said(environment(cwd=CWD, approval_policy="on-request", sandbox_mode="read-only", shell="zsh")),
        _said("Make the press warm. Never touch the cellar."),
    ]
    for number in range(steps):
        yield [
            {"type": "function_call", "call_id": f"c{number}", "name": "shell", "arguments": f'{{"command":["cat","{number}"]}}'},
            {"type": "function_call_output", "call_id": f"c{number}", "output": f"{number}: {output}"},
            *([_said(environment(cwd=OTHER_CWD, sandbox_mode="workspace-write"))] if number == 12 else []),
        ]  # fmt: skip


def _said(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
