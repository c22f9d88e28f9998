"""The checks of Anthropic's API, for tests of an agent: bound thinking, compaction, threads, tool changes.

`AnthropicRules` is a script for `ScriptedServer`. It knows what the documentation says and no more: error texts that no page
quotes are our own, and where two pages differ the stricter reading is an option.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from hashlib import blake2b
from itertools import chain, groupby, pairwise

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from infold.core.tokens import estimate_tokens
from infold.formats.codec import Item, as_dict, dict_or_empty, dicts_in, id_field, text_field
from infold.formats.registry import ANTHROPIC_MESSAGES
from infold.testing.script import (
    ALL_IS_WELL,
    Fail,
    Say,
    Script,
    ScriptedAnswer,
    ScriptedRequest,
    Send,
    WireReply,
    count_usage,
)
from infold.testing.scripted_server import MODEL, parse_request
from infold.testing.wire_replies import anthropic_body, anthropic_body_events

BINDING_BETA = "thinking-binding-controls-2026-08-01"
COMPACTION_BETA = "compact-2026-09-04"
THREADS_BETA = "message-threads-2026-08-12"
TOOL_CHANGES_BETA = "mid-conversation-tool-changes-2026-07-01"
INLINE_TOOLS_BETA = "inline-tools-2026-09-15"
CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"

BINDING_MODELS = re.compile(r"claude-(fable-5-[12]|mythos-5-[12]|opus-5-5|sonnet-5-5|haiku-5-5)")
"""The models that bind thinking, by their names in Anthropic's documentation."""

READ_BY_ALL = re.compile("claude-haiku-5-5")
"""The models whose thinking every other model can read."""

BOUND = (
    "messages.{}.content.{}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the "
    'block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
UNSIGNED = "messages.{}.content.{}: Invalid `signature` in `{}` block"
MODIFIED = (
    "messages.{}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These "
    "blocks must remain as they were in the original response."
)
MUST_THINK = "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`."
NEEDS_BETA = "{}: Extra inputs are not permitted without the beta header `{}`"

_THINKING = ("thinking", "redacted_thinking")
_TOOL_CHANGES = ("tool_addition", "tool_removal")
_PATH = re.compile(r"(?<![\w/.:-])(?:\.{0,2}/)?(?:[\w.-]+/)+[\w.-]+")
_MOST_PATHS, _MOST_CALLS, _QUOTED_CHARS = 20, 12, 600


class AnthropicRefusal(Exception):
    """A request that the API refuses, with the attributes of an SDK's error: `status_code` and `body`."""

    def __init__(self, message: str, status_code: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}


class CheckedRequest(Struct, frozen=True):
    """One request as the API understood it.

    `body` includes what a thread held. `refusal` is empty if the request was accepted. `kept` has the signatures of thinking
    that the model was shown, `dropped` the paths of thinking that was removed, each with its reason; `bare` counts replies that
    came back without the thinking they had. `tools` are those in effect after all changes, by name; `instructions` are the
    system messages among the messages that are still shown.
    """

    body: Item
    refusal: str = ""
    kept: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    bare: int = 0
    tools: Mapping[str, Item] = {}
    instructions: tuple[str, ...] = ()

    @property
    def is_compaction(self) -> bool:
        return bool(self.body.get("compaction"))


class NativeCompaction(Struct, frozen=True):
    """A compaction that was carried out: its block, and the messages that the block stands for."""

    block: Item
    messages: tuple[Item, ...]
    instructions: str = ""


class AnthropicRules:
    """Answer as a script does, but only requests that Anthropic's API would accept.

    Requests of other formats go to `model` unchecked. Every thinking block of a reply gets a signature that stands for what was
    sent before it. `summarise` answers requests for compaction: it says the summary, which is sent as a block only if the answer
    finished normally.

    `binds`: which models check thinking; `None` for those of the documentation, else all or none. It may be changed between two
    requests. `is_enforced` is false for an older account: only requests that set `prefix_mismatch_behavior` are checked.
    `is_strict`: the thinking of the latest reply must not be missing while its calls are answered.
    """

    def __init__(
        self,
        model: Script = ALL_IS_WELL,
        *,
        summarise: Script | None = None,
        binds: bool | None = None,
        is_enforced: bool = True,
        is_strict: bool = False,
    ) -> None:
        self.binds = binds
        self.is_enforced = is_enforced
        self.is_strict = is_strict
        self.requests: list[CheckedRequest] = []
        self.compactions: list[NativeCompaction] = []
        self._model = model
        self._summarise = summarise or summarise_by_code
        self._signed: dict[str, _Signed] = {}
        self._replies: dict[str, tuple[str, ...]] = {}
        self._compacted: dict[str, _Compacted] = {}
        self._threads: dict[str, _Thread] = {}
        self._sent = 0

    @property
    def refusals(self) -> list[str]:
        """Why requests were refused, in order."""
        return [request.refusal for request in self.requests if request.refusal]

    def __call__(self, request: ScriptedRequest) -> ScriptedAnswer:
        """Check a request and answer it."""
        if request.format != ANTHROPIC_MESSAGES.name:
            return self._model(request)
        body = deepcopy(request.body)
        try:
            thread = self._thread_of(body, request)
            body = thread.join(body)
            _check_fields(body, _betas_of(request))
            prefix = self._walk(body, _betas_of(request))
            checked = self._read(body, prefix, _betas_of(request))
        except AnthropicRefusal as refusal:
            self.requests.append(CheckedRequest(body, refusal=str(refusal)))
            return Fail(refusal.status_code, refusal.body)
        self.requests.append(checked)
        self._sent += 1
        asked = replace(request, body=body, tokens=request.tokens + thread.tokens)
        return self._compact(asked, prefix, checked) if checked.is_compaction else self._answer(asked, prefix, checked)

    def reply(self, body: Item, betas: Iterable[str] = ()) -> Item:
        """Answer without a network: return the body of a reply, or raise `AnthropicRefusal`."""
        headers = {"anthropic-beta": ",".join(betas)}
        answer = self(parse_request("/v1/messages", headers, msgspec.json.encode(body), ANTHROPIC_MESSAGES))
        if isinstance(answer, Fail) and isinstance(answer.body, dict):
            error = answer.body["error"]
            raise AnthropicRefusal(error["message"], answer.status, error["type"])
        assert isinstance(answer, Send), f"the script gave no reply but {answer!r}"
        return deepcopy(answer.body)

    # Replies.

    def _answer(self, request: ScriptedRequest, prefix: "_Prefix", checked: CheckedRequest) -> ScriptedAnswer:
        answer = self._model(request)
        if isinstance(answer, Say):
            usage = count_usage(answer, request.tokens)
            body = anthropic_body(WireReply(answer, usage, self._sent, str(request.body.get("model") or MODEL)))
        elif isinstance(answer, Send):
            body = deepcopy(answer.body)
        else:
            return answer
        body["content"] = self._sign(body["content"], prefix, str(body.get("model")))
        if checked.dropped and BINDING_BETA in _betas_of(request):
            body["input_transformations"] = [
                {"type": "thinking_dropped", "path": path, "reason": reason} for path, reason in checked.dropped
            ]
        if request.body.get("thread"):
            kept = [*request.body["messages"], {"role": "assistant", "content": body["content"]}]
            tokens = request.tokens + estimate_tokens(_flat(body["content"]))
            self._threads[body["id"]] = _Thread(request.body.get("system"), request.body.get("tools"), kept, tokens)
        return Send(body, tuple(anthropic_body_events(body)), answer.trouble)

    def _sign(self, content: Sequence[Item], prefix: "_Prefix", model: str) -> list[Item]:
        signed: list[Item] = []
        keys: list[str] = []
        for block in content:
            if block.get("type") not in _THINKING:
                prefix.add("assistant", block)
                signed.append(block)
                continue
            key = f"signed-{len(self._signed) + 1}"
            at = "signature" if block["type"] == "thinking" else "data"
            signed.append({**block, at: key})
            self._signed[key] = _Signed(model, _flat(signed[-1]), prefix.digest, tuple(prefix.seen), prefix.compactions)
            prefix.seen.append(key)
            keys.append(key)
        self._replies |= dict.fromkeys((*keys, *_reply_keys(content)), tuple(keys))
        return signed

    # On-demand compaction.

    def _compact(self, request: ScriptedRequest, prefix: "_Prefix", checked: CheckedRequest) -> ScriptedAnswer:
        answer = self._summarise(request)
        if not isinstance(answer, Say):
            return answer
        usage = count_usage(answer, request.tokens)
        body = anthropic_body(WireReply(answer, usage, self._sent, str(request.body.get("model") or MODEL)))
        counts = {name: value for name, value in body["usage"].items() if isinstance(value, int)}
        body["usage"] = {**dict.fromkeys(counts, 0), "iterations": [{"type": "compaction", **counts}]}
        body["content"] = []
        if answer.finish in (None, "stop"):
            number = len(self.compactions) + 1
            block: Item = {
                "type": "compaction",
                "content": answer.text,
                "encrypted_content": f"sealed-{number}",
                "signature": f"signed-compaction-{number}",
                "tool_changes": _net_changes(request.body.get("tools"), checked.tools),
            }
            body |= {"content": [block], "stop_reason": "compaction"}
            messages = request.body["messages"]
            made = _Compacted(block, prefix, str(messages[-1]["role"]), self._is_binding(request.body))
            self._compacted[block["signature"]] = made
            instructions = str(request.body["compaction"].get("instructions") or "")
            self.compactions.append(NativeCompaction(deepcopy(block), tuple(messages), instructions))
        return Send(body, tuple(anthropic_body_events(body)), answer.trouble)

    # Checks; each raises `AnthropicRefusal`.

    def _thread_of(self, body: Item, request: ScriptedRequest) -> "_Thread":
        thread = dict_or_empty(body.get("thread"))
        if not thread:
            return _Thread(body.get("system"), body.get("tools"))
        _require_beta(_betas_of(request), THREADS_BETA, "thread")
        if thread.get("type") != "continue":
            return _Thread(body.get("system"), body.get("tools"))
        for name in ("system", "tools"):
            if name in body:
                raise AnthropicRefusal(f"{name}: must be left out when a thread is continued")
        held = self._threads.get(str(thread.get("previous_message_id")))
        if held is None:
            raise AnthropicRefusal("thread.previous_message_id: no such message", 404, "not_found_error")
        return held

    def _walk(self, body: Item, betas: frozenset[str]) -> "_Prefix":
        """Check each thinking and compaction block against what stands before it."""
        binding = dict_or_empty(dict_or_empty(body.get("thinking")).get("block_binding"))
        drops = binding.get("prefix_mismatch_behavior") == "drop_block"
        is_checked = self._is_binding(body) and (self.is_enforced or "prefix_mismatch_behavior" in binding)
        model, prefix = str(body.get("model")), _Prefix(_head(body))
        for i, message in enumerate(body["messages"]):
            for j, block in enumerate(_blocks_of(message)):
                if block.get("type") == "compaction":
                    self._enter_compaction(prefix, body, (i, j), betas)
                elif block.get("type") not in _THINKING:
                    prefix.add(str(message["role"]), block)
                else:
                    signed = self._signed.get(_key(block))
                    if signed is None or signed.text != _flat(block):
                        raise AnthropicRefusal(UNSIGNED.format(i, j, block["type"]))
                    is_read = model == signed.model or READ_BY_ALL.search(signed.model)
                    is_kept = is_read and (not is_checked or prefix.matches(signed))
                    if is_read and not is_kept and not drops:
                        raise AnthropicRefusal(BOUND.format(i, j))
                    if is_kept or not is_read:
                        prefix.seen.append(_key(block))
                    if is_kept:
                        prefix.kept.append(_key(block))
                    else:
                        reason = "prefix_binding_mismatch" if is_read else "model_binding_mismatch"
                        prefix.dropped.append((f"messages.{i}.content.{j}", reason))
        return prefix

    def _read(self, body: Item, prefix: "_Prefix", betas: frozenset[str]) -> CheckedRequest:
        """Check order, the latest reply and what the messages change, and return what the API understood."""
        messages = body["messages"]
        problems = anthropic_problems(_without_compaction(messages))
        if problems:
            raise AnthropicRefusal(problems[0])
        self._check_latest(messages, text_field(dict_or_empty(body.get("thinking")), "type"))
        replies = [message for message in messages if message["role"] == "assistant" and not _thinking_keys(message)]
        bare = sum(any(self._replies.get(key) for key in _reply_keys(_blocks_of(reply))) for reply in replies)
        tools = _tools_in_effect(body, betas)
        shown = _shown_instructions(messages, betas)
        return CheckedRequest(body, "", tuple(prefix.kept), tuple(prefix.dropped), bare, tools, shown)

    def _is_binding(self, body: Item) -> bool:
        return bool(BINDING_MODELS.search(str(body.get("model")))) if self.binds is None else self.binds

    def _enter_compaction(self, prefix: "_Prefix", body: Item, at: tuple[int, int], betas: frozenset[str]) -> None:
        """Let a compaction block stand for the messages it summarises, if what follows and surrounds it is as it was."""
        message = body["messages"][at[0]]
        block = message["content"][at[1]]
        path = f"messages.{at[0]}.content.{at[1]}"
        _require_beta(betas, COMPACTION_BETA, path)
        if block.get("content", "") is None:  # a compaction that failed
            return
        if at != (0, 0) or message["role"] != "assistant":
            raise AnthropicRefusal(
                f"{path}: a `compaction` block must come first in `messages`, in the message it was returned in"
            )
        made = self._compacted.get(str(block.get("signature")))
        if made is None or _flat(made.block) != _flat(block):
            raise AnthropicRefusal(UNSIGNED.format(*at, "compaction"))
        following = body["messages"][1:]
        is_joined = not following or following[0]["role"] not in (made.last_role, "system")
        is_same = made.prefix.head == prefix.head and made.is_binding and is_joined
        prefix.digest = made.prefix.digest if is_same else _hashed(prefix.digest, made.block["signature"])
        prefix.compactions = made.prefix.compactions | {str(block["signature"])}

    def _check_latest(self, messages: Sequence[Item], mode: str) -> None:
        """The latest reply has all its thinking or, where the model thinks adaptively, none of it."""
        index = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        blocks = _blocks_of(messages[index]) if index >= 0 else []
        if not blocks:
            return
        is_open = any(block.get("type") == "tool_use" for block in blocks)
        present = _thinking_keys(messages[index])
        had = next((self._replies[key] for key in (*present, *_reply_keys(blocks)) if key in self._replies), ())
        if mode == "enabled" and is_open and blocks[0].get("type") not in _THINKING:
            raise AnthropicRefusal(MUST_THINK.format(index, blocks[0].get("type")))
        if (present and present != had) or (had and not present and is_open and self.is_strict):
            raise AnthropicRefusal(MODIFIED.format(index))


class _Signed(Struct, frozen=True):
    """What a signature stands for: the model, the block, and what stood before it."""

    model: str
    text: str
    digest: str
    before: tuple[str, ...]
    compactions: frozenset[str]


class _Prefix(Struct):
    """What stands before a place in a request.

    `digest` covers system, tools and messages without thinking; `seen` is the thinking that was sent and not refused, `kept`
    what the model can read of it; `compactions` are all that the messages went through.
    """

    head: str
    digest: str = ""
    seen: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    compactions: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.digest = self.digest or self.head

    def add(self, role: str, block: Item) -> None:
        self.digest = _hashed(self.digest, _flat([role, block]))

    def matches(self, signed: _Signed) -> bool:
        """Return whether a block may stand here; thinking before it may be missing as a run from the start."""
        rest = signed.before[len(signed.before) - len(self.seen) :] if len(self.seen) <= len(signed.before) else ()
        is_same = signed.digest == self.digest and rest == tuple(self.seen)
        return is_same and signed.compactions <= self.compactions


class _Compacted(Struct, frozen=True):
    """A compaction's block, what it stands for, the role of the last message in it, and whether its model binds thinking."""

    block: Item
    prefix: _Prefix
    last_role: str
    is_binding: bool


class _Thread(Struct, frozen=True):
    """A conversation that the server holds."""

    system: object = None
    tools: object = None
    messages: Sequence[Item] = ()
    tokens: int = 0

    def join(self, body: Item) -> Item:
        """Return the request as if it had been sent whole."""
        if not self.messages:
            return body
        fixed = {name: value for name, value in (("system", self.system), ("tools", self.tools)) if value is not None}
        return {**body, **fixed, "messages": [*self.messages, *(body.get("messages") or ())]}


def _betas_of(request: ScriptedRequest) -> frozenset[str]:
    """Return the betas of a request: from its header, or from the body as Bedrock has it."""
    named = request.headers.get("anthropic-beta", "").split(",")
    return frozenset(name.strip() for name in (*named, *(request.body.get("anthropic_beta") or ())))


def _require_beta(betas: frozenset[str], beta: str, path: str) -> None:
    if beta not in betas:
        raise AnthropicRefusal(NEEDS_BETA.format(path, beta))


def _check_fields(body: Item, betas: frozenset[str]) -> None:
    """Check the fields of a request that need a beta or exclude one another."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(one, dict) and "role" in one for one in messages):
        raise AnthropicRefusal("messages: a list of messages is required")
    thinking = dict_or_empty(body.get("thinking"))
    if thinking.get("block_binding"):
        _require_beta(betas, BINDING_BETA, "thinking.block_binding")
        if thinking.get("type") != "adaptive":
            raise AnthropicRefusal('thinking.block_binding: only supported when `thinking.type` is "adaptive"')
    compaction = body.get("compaction")
    if compaction:
        _require_beta(betas, COMPACTION_BETA, "compaction")
        if dict_or_empty(compaction).get("type") != "summarize":
            raise AnthropicRefusal("compaction.type: Input should be 'summarize'")
        if body.get("context_management"):
            raise AnthropicRefusal("compaction: not permitted together with `context_management`")


def _without_compaction(messages: Sequence[Item]) -> list[Item]:
    """Return messages for the check of order; a compaction block in front counts as what the user says first."""
    if not messages or [block.get("type") for block in _blocks_of(messages[0])][:1] != ["compaction"]:
        return list(messages)
    rest = _blocks_of(messages[0])[1:]
    summary = {"role": "user", "content": "(summary)"}
    return [summary, *([{**messages[0], "content": rest}] if rest else []), *messages[1:]]


# State inside the history.


def _tools_in_effect(body: Item, betas: frozenset[str]) -> dict[str, Item]:
    """Return the tools that are offered at the end of the messages, by name."""
    declared = _declared(body.get("tools"))
    offered = {name: tool for name, tool in declared.items() if not tool.get("defer_loading")}
    for i, message in enumerate(body["messages"]):
        for j, block in enumerate(_blocks_of(message)):
            path = f"messages.{i}.content.{j}"
            if block.get("type") == "compaction":
                _apply_changes(block.get("tool_changes") or (), declared, offered, path)
            elif block.get("type") in _TOOL_CHANGES:
                is_inline = dict_or_empty(block.get("tool")).get("type") == "tool_definition"
                _require_beta(betas, INLINE_TOOLS_BETA if is_inline else TOOL_CHANGES_BETA, path)
                if message["role"] != "system":
                    raise AnthropicRefusal(f"{path}: `{block['type']}` is only permitted in system messages")
                _apply_changes([block], declared, offered, path)
    return offered


def _shown_instructions(messages: Sequence[Item], betas: frozenset[str]) -> tuple[str, ...]:
    """Return the texts of system messages that are not cleared yet."""
    last_user = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=-1)
    texts: list[str] = []
    for i, message in enumerate(messages):
        clear_at = message.get("clear_at")
        if clear_at is not None:
            _require_beta(betas, CLEAR_AT_BETA, f"messages.{i}.clear_at")
            if message["role"] != "system" or clear_at not in ("never", "next_user_message"):
                rule = 'only "never" or "next_user_message" is permitted, and only on system messages'
                raise AnthropicRefusal(f"messages.{i}.clear_at: {rule}")
        if message["role"] == "system" and (clear_at != "next_user_message" or i > last_user):
            texts += [str(block.get("text")) for block in _blocks_of(message) if block.get("type") == "text"]
    return tuple(texts)


def _apply_changes(changes: Iterable[Item], declared: dict[str, Item], offered: dict[str, Item], path: str) -> None:
    for change in changes:
        tool = dict_or_empty(change.get("tool"))
        if tool.get("type") == "tool_definition":
            tool = dict_or_empty(tool.get("definition"))
            declared[_tool_name(tool)] = tool
        name = _tool_name(tool)
        if name not in declared and not str(tool.get("type")).startswith("mcp_"):
            raise AnthropicRefusal(f"{path}: tool '{name}' is not defined")
        if change["type"] == "tool_addition":
            offered[name] = declared.get(name, tool)
        else:
            offered.pop(name, None)


def _net_changes(tools: object, offered: Mapping[str, Item]) -> list[Item]:
    """Return the changes that lead from a request's tools to those in effect."""
    declared = _declared(tools)
    before = {name: tool for name, tool in declared.items() if not tool.get("defer_loading")}
    added = [_reference(name, tool, declared) for name, tool in offered.items() if before.get(name) != tool]
    removed = [_reference(name, tool, declared) for name, tool in before.items() if name not in offered]
    return [
        *({"type": "tool_addition", "tool": tool} for tool in added),
        *({"type": "tool_removal", "tool": tool} for tool in removed),
    ]


def _declared(tools: object) -> dict[str, Item]:
    return {_tool_name(tool): tool for tool in dicts_in(tools)}


def _tool_name(tool: Item) -> str:
    """Return the name by which a tool, or a reference to one, is known; tools of an MCP server have the server's in front."""
    names = (tool.get("server_name") or tool.get("mcp_server_name"), tool.get("name"))
    return "/".join(str(name) for name in names if name)


def _reference(name: str, tool: Item, declared: Mapping[str, Item]) -> Item:
    """Return how a tool change names a tool: by its name where the request declares it, else by value."""
    if str(tool.get("type")).endswith("_reference"):
        return tool
    is_declared = declared.get(name) == tool
    return {"type": "tool_reference", "name": name} if is_declared else {"type": "tool_definition", "definition": tool}


# Blocks and hashes.


def _blocks_of(message: Item) -> list[Item]:
    """Return content as blocks; text is one block of text."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = content if isinstance(content, list | tuple) else ()
    return [{"type": "text", "text": block} if isinstance(block, str) else as_dict(block) for block in blocks]


def _key(block: Item) -> str:
    return str(block.get("signature") or block.get("data"))


def _thinking_keys(message: Item) -> tuple[str, ...]:
    return tuple(_key(block) for block in _blocks_of(message) if block.get("type") in _THINKING)


def _reply_keys(content: Iterable[Item]) -> tuple[str, ...]:
    """Return by what a reply is known again: its calls and, in a reply without calls, its texts."""
    calls = tuple(str(block.get("id")) for block in content if block.get("type") == "tool_use")
    texts = [str(block.get("text")) for block in content if block.get("type") == "text"]
    return calls or (("text: " + "\n".join(texts),) if texts else ())


def _head(body: Item) -> str:
    """Return a hash over the system prompt and the tools; those that are loaded later do not count."""
    system = _blocks_of({"content": body.get("system")})
    tools = [tool for tool in _declared(body.get("tools")).values() if not tool.get("defer_loading")]
    return _hashed("", _flat([system, tools]))


def _flat(value: object) -> str:
    """Return a text for comparison, without the marks of the cache."""
    return msgspec.json.encode(_without_marks(value), order="sorted").decode()


def _without_marks(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_marks(inner) for key, inner in value.items() if key != "cache_control"}
    return [_without_marks(inner) for inner in value] if isinstance(value, list | tuple) else value


def _hashed(*pieces: str) -> str:
    return blake2b("\n".join(pieces).encode(), digest_size=16).hexdigest()


# A summary without a model.


def summarise_by_code(request: ScriptedRequest) -> Say:
    """Say what a summary would: the first and the latest request, the calls, the paths, what was said last."""
    messages: list[Item] = request.body["messages"]
    blocks = [(str(message["role"]), block) for message in messages for block in _blocks_of(message)]
    asked = [str(block["text"]) for role, block in blocks if role == "user" and block.get("type") == "text"]
    said = [str(block["text"]) for role, block in blocks if role == "assistant" and block.get("type") == "text"]
    earlier = [str(block.get("content") or "") for _, block in blocks if block.get("type") == "compaction"]
    calls = [f"{block['name']} {_flat(block['input'])}" for _, block in blocks if block.get("type") == "tool_use"]
    paths = dict.fromkeys(_PATH.findall(" ".join([*earlier, *asked, *calls, *said])))
    lines = [
        *(text.partition("\nWork so far")[0] for text in earlier[:1]),
        *(f"The user's first request: {text[:_QUOTED_CHARS]}" for text in asked[: not earlier]),
        f"Work so far: {len(calls)} tool calls since then.",
        *(f"Latest request: {text[:_QUOTED_CHARS]}" for text in asked[-1:]),
        *(f"- {call[:120]}" for call in calls[-_MOST_CALLS:]),
        f"Paths: {', '.join(list(paths)[-_MOST_PATHS:]) or 'none'}",
        *(f"Said last: {text[:_QUOTED_CHARS]}" for text in said[-1:]),
    ]
    return Say("\n".join(lines))


# Pairing and order.


class PairingStep(Struct, frozen=True):
    """Items the provider takes as one: the calls they make and the results they bring."""

    place: int
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


def anthropic_problems(items: Sequence[object]) -> tuple[str, ...]:
    """Return what Messages would refuse in the order and pairing of items; neighbours of one role count as one, as in the API."""
    plains = [as_dict(item) for item in items]
    turns = [list(run) for _, run in groupby(enumerate(plains), key=lambda one: one[1].get("role"))]
    steps = [_pairing_step(run) for run in turns]
    return (
        *(() if plains else ("there is no message",)),
        *(["the first message is not the user's"] if plains and plains[0].get("role") == "assistant" else []),
        *chain.from_iterable(_blanks(place, item) for place, item in enumerate(plains)),
        *unpaired(steps),
        *chain.from_iterable(_misplaced(run) for run in turns),
        *repeated(chain.from_iterable(step.calls for step in steps), "tool_use id"),
    )


def unpaired(steps: Iterable[PairingStep]) -> Iterator[str]:
    """Yield calls without a result in the very next step, and results without a call in the one before."""
    for before, step in pairwise([PairingStep(-1), *steps, PairingStep(-1)]):
        missing = Counter(before.calls) - Counter(step.results)
        yield from (f"item {before.place}: call {call!r} has no result right after it" for call in missing)
        orphans = Counter(step.results) - Counter(before.calls)
        yield from (f"item {step.place}: result {call!r} does not follow its call" for call in orphans)


def repeated(ids: Iterable[str], what: str) -> Iterator[str]:
    """Yield ids that are used more than once."""
    return (f"{what} {one!r} is used {times} times" for one, times in Counter(ids).items() if times > 1)


def _pairing_step(run: list[tuple[int, Item]]) -> PairingStep:
    blocks = [block for _, item in run for block in _blocks_of(item)]
    calls = [id_field(block, "id") for block in blocks if block.get("type") == "tool_use"]
    results = [id_field(block, "tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    return PairingStep(run[0][0], tuple(calls), tuple(results))


def _blanks(place: int, item: Item) -> Iterator[str]:
    blocks = _blocks_of(item)
    if not blocks and not item.get("output_config"):
        yield f"item {place}: it is empty"
    elif any(block.get("type") == "text" and not text_field(block, "text").strip() for block in blocks):
        yield f"item {place}: a text is blank"


def _misplaced(run: list[tuple[int, Item]]) -> Iterator[str]:
    place = run[0][0]
    kinds = [text_field(block, "type") for _, item in run for block in _blocks_of(item)]
    results = kinds.count("tool_result")
    if kinds[:results].count("tool_result") < results:
        yield f"item {place}: something stands before a tool_result"
    thinks = ["thinking" in kind for kind in kinds]
    if any(thinks) and not thinks[0]:
        yield f"item {place}: thinking does not come first"
    if thinks and thinks[-1]:
        yield f"item {place}: thinking comes last"
