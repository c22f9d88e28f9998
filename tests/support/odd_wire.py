"""Hypothesis strategies for what a provider may accept and infold need not know: made-up block, item and role types.

A history is a list of groups. Each group is complete: a call stands in it with its result, so that a request may end after any
group. Within a group anything may be empty, unknown, repeated, late or out of order.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import strategies as st
from msgspec import Struct

from infold.formats.registry import ANTHROPIC_MESSAGES, CONVERSE, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, WireFormat

Item: TypeAlias = dict[str, Any]
Group: TypeAlias = Callable[[int], list[Item]]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class OddHistory(Struct, frozen=True):
    """A format, and the items of a history in groups."""

    format: WireFormat
    groups: tuple[list[Item], ...]

    @property
    def items(self) -> list[Item]:
        """All items in order."""
        return [item for group in self.groups for item in group]


@st.composite
def odd_histories(draw: st.DrawFn, wire: WireFormat, *, most: int = 10) -> OddHistory:
    """A history of that format: something said by a person, then groups of any kind."""
    makers = ODD_GROUPS[wire.name]
    chosen = draw(st.lists(st.integers(0, len(makers) - 1), min_size=1, max_size=most))
    opening = draw(st.sampled_from(("Count the ships.", "Zähle die Schiffe.", "数一数船。")))
    groups = [makers[choice](number) for number, choice in enumerate(chosen, 1)]
    return OddHistory(wire, (_SAID[wire.name](opening), *groups))


def grown(history: OddHistory, words: str) -> OddHistory:
    """The same history with such a text after each group, or between two partners, so that it is larger than a window."""
    said = _SAID[history.format.name]
    groups = enumerate(history.groups)
    return OddHistory(history.format, tuple(_parted(group, said(f"{number}: {words}")) for number, group in groups))


def _parted(group: list[Item], words: list[Item]) -> list[Item]:
    is_pair = len(group) == 2 and bool(partners(group[0]) & partners(group[1]))
    return [group[0], *words, group[1]] if is_pair else [*group, *words]


def partners(item: object) -> frozenset[str]:
    """The ids in an item that tell which others belong to it; only those made here, which begin alike."""
    if isinstance(item, str):
        return frozenset((item,)) if item.startswith("pair-") else frozenset()
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return frozenset(found for one in inner for found in partners(one))


# OpenAI Chat Completions.


def _chat(role: str, content: object, **fields: object) -> Item:
    return {"role": role, "content": content, **fields}


def _chat_calls(*ids: str, **fields: object) -> Item:
    body = {"name": "bash", "arguments": '{"command": "ls"}'}
    return _chat(
        "assistant", None, tool_calls=[{"id": one, "type": "function", "function": body} for one in ids], **fields
    )


def _chat_result(call_id: str, content: object = "done") -> Item:
    return _chat("tool", content, tool_call_id=call_id)


_CHAT: tuple[Group, ...] = (
    lambda n: [_chat("user", f"Go on {n}.")],
    lambda n: [_chat("assistant", f"Done {n}.", annotations=[], audio=None)],
    lambda _: [_chat("user", "")],
    lambda _: [_chat("user", None)],
    lambda _: [_chat("user", [])],
    lambda _: [_chat("user", " \n", name="ann")],
    lambda n: [_chat("user", [{"type": "hologram", "hologram": {"depth": n}}])],
    lambda _: [_chat("user", [{"type": "text", "text": ""}, {"type": "image_url", "image_url": {"url": PIXEL}}])],
    lambda _: [_chat("assistant", "")],
    lambda _: [_chat("assistant", None)],
    lambda _: [_chat("assistant", [])],
    lambda _: [{"role": "assistant"}],
    lambda n: [_chat("assistant", None, reasoning_content=f"Thinking {n}.")],
    lambda n: [_chat("assistant", "", reasoning_details=[{"type": "reasoning.encrypted", "data": f"x{n}"}])],
    lambda n: [_chat("assistant", [{"type": "hologram", "hologram": n}])],
    lambda _: [_chat("assistant", None, refusal="No."), _chat("assistant", "Twice.")],
    lambda _: [_chat("system", "Mind the tide.")],
    lambda n: [_chat("developer", [{"type": "text", "text": "Mind the tide.", "x_new": n}])],
    lambda n: [_chat("critic", f"Hm {n}.")],
    lambda n: [{"role": "critic", "tool_call_id": f"pair-{n}", "verdict": n}],
    lambda n: [_chat_calls(f"c{n}"), _chat_result(f"c{n}")],
    lambda n: [_chat_calls(f"c{n}a", f"c{n}b"), _chat_result(f"c{n}b"), _chat_result(f"c{n}a")],
    lambda n: [_chat_calls(f"c{n}a", f"c{n}b"), _chat_result(f"c{n}a"), _chat("system", "!"), _chat_result(f"c{n}b")],
    lambda n: [_chat_calls(f"c{n}a", f"c{n}b"), _chat_result(f"c{n}a"), _chat_result("no"), _chat_result(f"c{n}b")],
    lambda n: [_chat_calls(f"c{n}"), _chat("user", "Wait."), _chat_result(f"c{n}")],
    lambda _: [_chat_calls("again", reasoning="Hm."), _chat_result("again", [{"type": "text", "text": "x"}])],
    lambda n: [_chat_calls(f"c{n}"), _chat_result(f"c{n}"), _chat_result(f"c{n}", "twice")],
    lambda _: [_chat_result("answers-nothing", None)],
    lambda n: [_chat_calls(f"c{n}"), _chat("observer", "seen", tool_call_id=f"c{n}")],
    lambda _: (
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{"}},
            {"role": "function", "name": "f", "content": "ok"},
        ]
    ),
    lambda n: (
        [
            _chat("assistant", [{"type": "pair_use", "id": f"pair-{n}", "x": {}}]),
            _chat("user", [{"type": "pair_result", "pair_id": f"pair-{n}", "y": n}]),
        ]
    ),
)

# OpenAI Responses.


def _message(role: str, content: object, **fields: object) -> Item:
    return {"type": "message", "role": role, "content": content, **fields}


def _function_call(call_id: str) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "bash", "arguments": "{}", "status": "completed"}


def _output(call_id: str, kind: str = "function_call", output: object = "done") -> Item:
    return {"type": f"{kind}_output", "call_id": call_id, "output": output}


def _reasoning(n: int) -> Item:
    return {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"gAAA{n}"}


_RESPONSES: tuple[Group, ...] = (
    lambda n: [_message("user", f"Go on {n}.")],
    lambda _: [_message("user", [{"type": "input_text", "text": ""}])],
    lambda _: [_message("user", [])],
    lambda n: [_message("user", [{"type": "input_hologram", "hologram_url": f"x{n}"}])],
    lambda n: [_message("assistant", [{"type": "output_text", "text": f"Done {n}.", "annotations": []}], id=f"m{n}")],
    lambda n: [_message("assistant", [{"type": "output_hologram", "x": n}]), _message("assistant", "")],
    lambda _: [_message("critic", "Hm.")],
    lambda _: [_message("developer", "Mind the tide.")],
    lambda n: [_reasoning(n)],
    lambda n: [_reasoning(n), _function_call(f"c{n}"), _output(f"c{n}")],
    lambda n: [_function_call(f"c{n}a"), _function_call(f"c{n}b"), _output(f"c{n}b"), _output(f"c{n}a")],
    lambda n: [_function_call(f"c{n}"), _message("user", "Wait."), _output(f"c{n}")],
    lambda _: [_output("answers-nothing")],
    lambda n: (
        [
            {"type": "custom_tool_call", "call_id": f"c{n}", "name": "patch", "input": "x"},
            _output(f"c{n}", "custom_tool_call"),
        ]
    ),
    lambda n: (
        [
            {"type": "computer_call", "call_id": f"c{n}", "id": f"cu_{n}", "actions": [], "status": "completed"},
            _output(f"c{n}", "computer_call", {"type": "computer_screenshot", "image_url": PIXEL}),
        ]
    ),
    lambda n: (
        [
            {"type": "local_shell_call", "call_id": f"c{n}", "id": f"ls_{n}", "action": {"type": "exec"}},
            {"type": "local_shell_call_output", "id": f"c{n}", "output": "ok"},
        ]
    ),
    lambda n: [{"type": "mcp_list_tools", "id": f"ml_{n}", "server_label": "s", "tools": []}],
    lambda n: (
        [
            {"type": "mcp_approval_request", "id": f"pair-{n}", "name": "x", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": f"pair-{n}", "approve": True},
        ]
    ),
    lambda n: (
        [
            {"type": "mcp_approval_request", "id": f"pair-{n}", "name": "x"},
            _message("user", "Yes."),
            {"type": "mcp_approval_response", "approval_request_id": f"pair-{n}", "approve": True},
        ]
    ),
    lambda n: [{"type": "mcp_call", "id": f"mc_{n}", "server_label": "s", "name": "x", "output": "ok"}],
    lambda n: [{"type": "web_search_call", "id": f"ws_{n}", "status": "completed", "action": {"query": "x"}}],
    lambda n: [{"type": "code_interpreter_call", "id": f"ci_{n}", "container_id": "cn", "code": "1", "outputs": []}],
    lambda n: [{"type": "quantum_call", "call_id": f"pair-{n}", "qubits": n}, _output(f"pair-{n}", "quantum_call")],
    lambda _: [{"type": "quantum_note", "x": [None, 1.5, "é"]}],
    lambda n: [{"role": "assistant", "content": f"Said {n}.", "phase": "final"}],
)

# Anthropic Messages.


def _text(text: str) -> Item:
    return {"type": "text", "text": text}


def _use(call_id: str, **fields: object) -> Item:
    return {"type": "tool_use", "id": call_id, "name": "bash", "input": {"command": "ls"}, **fields}


def _tool_result(call_id: str, content: object = "done") -> Item:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def _thinking(n: int) -> Item:
    return {"type": "thinking", "thinking": f"Hm {n}.", "signature": f"c2ln{n}"}


def _server_use(n: int, name: str = "web_search") -> Item:
    return {"type": "server_tool_use", "id": f"pair-{n}", "name": name, "input": {"query": f"x{n}"}}


def _server_result(n: int) -> Item:
    return {"type": "web_search_tool_result", "tool_use_id": f"pair-{n}", "content": []}


def _pair(n: int) -> list[Item]:
    return [{"type": "pair_use", "pair_id": f"pair-{n}", "x": n}, {"type": "pair_result", "pair_id": f"pair-{n}"}]


_ANTHROPIC: tuple[Group, ...] = (
    lambda n: [_chat("user", f"Go on {n}.")],
    lambda _: [_chat("user", "")],
    lambda _: [_chat("user", [])],
    lambda _: [_chat("user", [_text(" ")])],
    lambda n: [_chat("user", [{"type": "hologram", "depth": n}])],
    lambda _: [_chat("user", [{"type": "container_upload", "file_id": "f"}, _text("See.")])],
    lambda _: [_chat("user", [{"type": "search_result", "title": "t", "source": "s", "content": [_text("x")]}])],
    lambda _: [_chat("user", [{**_text("Marked."), "cache_control": {"type": "ephemeral"}}])],
    lambda n: [_chat("assistant", f"Done {n}.")],
    lambda _: [_chat("assistant", "")],
    lambda _: [_chat("assistant", [])],
    lambda n: [_chat("assistant", [_thinking(n)])],
    lambda _: [_chat("assistant", [{"type": "thinking", "thinking": "", "signature": "s"}])],
    lambda n: [_chat("assistant", [{"type": "redacted_thinking", "data": f"x{n}"}])],
    lambda n: [_chat("assistant", [_server_use(n)])],
    lambda n: [_chat("assistant", [_server_use(n), _server_result(n)])],
    lambda n: [_chat("assistant", [_text("I look."), _server_use(n)]), _chat("assistant", [_server_result(n)])],
    lambda n: (
        [
            _chat("assistant", [_server_use(n, "code_execution"), _use(f"c{n}", caller={"tool_id": f"pair-{n}"})]),
            _chat("user", [_tool_result(f"c{n}")]),
            _chat("assistant", [{"type": "code_execution_tool_result", "tool_use_id": f"pair-{n}", "content": {}}]),
        ]
    ),
    lambda n: (
        [
            _chat("assistant", [{"type": "mcp_tool_use", "id": f"pair-{n}", "name": "x", "input": {}}]),
            _chat("assistant", [{"type": "mcp_tool_result", "tool_use_id": f"pair-{n}", "content": []}]),
        ]
    ),
    lambda n: [_chat("assistant", [{"type": "compaction", "content": f"So far {n}.", "encrypted_content": "x"}])],
    lambda n: [_chat("assistant", _pair(n))],
    lambda n: [_chat("assistant", _pair(n)[:1]), _chat("user", _pair(n)[1:])],
    lambda n: [_chat("assistant", [_thinking(n), _use(f"c{n}")]), _chat("user", [_tool_result(f"c{n}")])],
    lambda n: (
        [
            _chat("assistant", [_use(f"c{n}a"), _use(f"c{n}b")]),
            _chat("user", [_tool_result(f"c{n}b"), _tool_result(f"c{n}a"), _text("Both.")]),
        ]
    ),
    lambda n: [_chat("assistant", [_use(f"c{n}")]), _chat("user", "Wait."), _chat("user", [_tool_result(f"c{n}")])],
    lambda _: [_chat("assistant", [_use("again")]), _chat("user", [_tool_result("again", [{"type": "new", "x": 1}])])],
    lambda _: [_chat("user", [_tool_result("answers-nothing", None)])],
    lambda _: [_chat("system", "Mind the tide.")],
    lambda _: [_chat("system", [{"type": "tool_addition", "name": "x"}])],
    lambda n: [_chat("critic", [{"verdict": n}])],
)

# Gemini.


def _content(role: str | None, *parts: Item, **fields: object) -> Item:
    return {**({"role": role} if role else {}), "parts": [*parts], **fields}


def _calls(name: str, **fields: object) -> Item:
    return {"functionCall": {"name": name, "args": {}, **fields}}


def _answers(name: str, **fields: object) -> Item:
    return {"functionResponse": {"name": name, "response": {"output": "done"}, **fields}}


_GEMINI: tuple[Group, ...] = (
    lambda n: [_content("user", {"text": f"Go on {n}."})],
    lambda _: [_content(None, {"text": "No role."})],
    lambda _: [_content("user")],
    lambda _: [_content("user", {"text": ""})],
    lambda n: [_content("user", {"hologram": {"depth": n}})],
    lambda n: [_content("user", {"inlineData": {"mimeType": "image/png", "data": PIXEL}}, x_new=n)],
    lambda n: [_content("model", {"text": f"Done {n}."})],
    lambda _: [_content("model")],
    lambda n: [_content("model", {"text": f"Hm {n}.", "thought": True})],
    lambda n: [_content("model", {"text": "", "thoughtSignature": f"c2ln{n}"})],
    lambda _: [_content("model", {"text": "", "thought": True, "thought_signature": "x"})],
    lambda n: (
        [
            _content("model", {"executableCode": {"language": "PYTHON", "code": f"print({n})"}}),
            _content("model", {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": str(n)}}),
        ]
    ),
    lambda n: [
        _content("model", {"executableCode": {"code": f"{n}"}}, {"codeExecutionResult": {"output": f"{n}"}}),
    ],
    lambda n: (
        [
            _content("model", {"toolCall": {"id": f"pair-{n}", "toolType": "SEARCH"}}),
            _content("model", {"toolResponse": {"id": f"pair-{n}", "response": {}}}),
        ]
    ),
    lambda n: [_content("model", {"hologram": n, "thoughtSignature": "x"})],
    lambda n: [_content("model", _calls("f", id=f"c{n}")), _content("user", _answers("f", id=f"c{n}"))],
    lambda _: [_content("model", _calls("f"), _calls("g")), _content("user", _answers("f"), _answers("g"))],
    lambda _: [_content("model", {**_calls("f"), "thoughtSignature": "x"}), _content("function", _answers("f"))],
    lambda n: (
        [
            _content("model", _calls("f", id=f"c{n}")),
            _content("user", {"text": "Wait."}),
            _content("user", _answers("f", id=f"c{n}")),
        ]
    ),
    lambda _: [_content("user", _answers("nobody"))],
    lambda _: [_content("critic", {"text": "Hm."})],
)

# Bedrock's Converse.


def _converse(role: str, *blocks: Item, **fields: object) -> Item:
    return {"role": role, "content": [*blocks], **fields}


def _tool_use(call_id: str, **fields: object) -> Item:
    return {"toolUse": {"toolUseId": call_id, "name": "bash", "input": {"command": "ls"}, **fields}}


def _used(call_id: str, *content: Item, **fields: object) -> Item:
    return {"toolResult": {"toolUseId": call_id, "content": [*(content or ({"text": "done"},))], **fields}}


def _reasons(n: int) -> Item:
    return {"reasoningContent": {"reasoningText": {"text": f"Hm {n}.", "signature": f"c2ln{n}"}}}


_POINT: Item = {"cachePoint": {"type": "default", "ttl": "1h"}}

_CONVERSE: tuple[Group, ...] = (
    lambda n: [_converse("user", {"text": f"Go on {n}."})],
    lambda _: [_converse("user", {"text": ""})],
    lambda _: [_converse("user")],
    lambda _: [{"role": "user", "content": None}],
    lambda n: [_converse("user", {"hologram": {"depth": n}})],
    lambda n: [_converse("user", {"text": f"Marked {n}."}, _POINT, x_new=n)],
    lambda _: [_converse("user", _POINT)],
    lambda _: [_converse("user", {"image": {"format": "png", "source": {"bytes": PIXEL}}}, {"text": "See."})],
    lambda _: [_converse("user", {"document": {"name": "a", "source": {"text": "Read."}, "format": "txt"}})],
    lambda _: [_converse("user", {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://a/b"}}}})],
    lambda n: [_converse("user", {"guardContent": {"text": {"text": f"Mind {n}.", "qualifiers": ["query"]}}})],
    lambda _: [_converse("user", {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}})],
    lambda n: [_converse("assistant", {"text": f"Done {n}."})],
    lambda _: [_converse("assistant")],
    lambda n: [_converse("assistant", _reasons(n))],
    lambda n: [_converse("assistant", _reasons(n), {"text": "So."}, _POINT)],
    lambda n: [_converse("assistant", {"reasoningContent": {"redactedContent": f"eA{n}=="}}, {"text": "So."})],
    lambda n: [_converse("assistant", {"citationsContent": {"content": [{"text": f"See {n}."}], "citations": []}})],
    lambda n: [_converse("assistant", _tool_use(f"pair-{n}", type="server_tool_use"), _used(f"pair-{n}", type="x"))],
    lambda n: (
        [
            _converse("assistant", {"pairUse": {"pairId": f"pair-{n}"}}),
            _converse("user", {"pairResult": {"pairId": f"pair-{n}", "x": n}}),
        ]
    ),
    lambda n: [_converse("assistant", _reasons(n), _tool_use(f"c{n}")), _converse("user", _used(f"c{n}"), _POINT)],
    lambda n: (
        [
            _converse("assistant", _tool_use(f"c{n}a"), _tool_use(f"c{n}b")),
            _converse("user", _used(f"c{n}b", {"json": {"n": n}}), _used(f"c{n}a", status="error"), {"text": "Both."}),
        ]
    ),
    lambda n: (
        [
            _converse("assistant", _tool_use(f"c{n}")),
            _converse("user", {"text": "Wait."}),
            _converse("user", _used(f"c{n}")),
        ]
    ),
    lambda _: (
        [
            _converse("assistant", _tool_use("again")),
            _converse("user", _used("again", {"image": {"format": "png", "source": {"bytes": PIXEL}}}, {"new": 1})),
        ]
    ),
    lambda _: [_converse("user", {"toolResult": {"toolUseId": "answers-nothing", "content": None}})],
    lambda _: [_converse("system", {"text": "Mind the tide."})],
    lambda n: [_converse("system", {"toolAddition": {"tool": {"name": f"x{n}"}}})],
    lambda n: [_converse("critic", {"verdict": n})],
)

ODD_GROUPS: dict[str, tuple[Group, ...]] = {
    OPENAI_CHAT.name: _CHAT,
    OPENAI_RESPONSES.name: _RESPONSES,
    ANTHROPIC_MESSAGES.name: _ANTHROPIC,
    GEMINI.name: _GEMINI,
    CONVERSE.name: _CONVERSE,
}
_SAID: dict[str, Callable[[str], list[Item]]] = {
    OPENAI_CHAT.name: lambda text: [_chat("user", text)],
    OPENAI_RESPONSES.name: lambda text: [_message("user", text)],
    ANTHROPIC_MESSAGES.name: lambda text: [_chat("user", text)],
    GEMINI.name: lambda text: [_content("user", {"text": text})],
    CONVERSE.name: lambda text: [_converse("user", {"text": text})],
}
