"""Requests as providers receive them: the format of a path, the contents of a body, and the same body with other messages.

For a relay between a client and a provider. A body is never modified: a changed one is new, with every unknown field as it
was. A request whose history the provider itself holds or cuts is `Unmanaged`.
"""

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any, TypeAlias
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import AssistantMessage, Message, MessageId, TextPart, calls_of
from infold.core.summary_request import SummaryRequest
from infold.errors import BrokenInput
from infold.formats import anthropic, converse, openai_responses
from infold.formats.codec import marked_seconds, stated_cache_seconds
from infold.formats.registry import ANTHROPIC_MESSAGES, CONVERSE, FORMATS, OPENAI_RESPONSES, WireFormat

Body: TypeAlias = Mapping[str, Any]

_THREAD = "/threads/"
"""Part of the paths of messages that OpenAI's Assistants store."""

_COUNTING = "/count-tokens:rawPredict"
"""End of the path by which Vertex counts the tokens of a request."""

_COUNTED = {
    "/messages/count_tokens": "/messages",
    "/responses/input_tokens": "/responses",
    ":countTokens": ":generateContent",
}
"""Ends of the paths by which providers count the tokens of a request, and of those that the request itself is sent to."""

_UNSTREAMED = {
    ":streamGenerateContent": ":generateContent",
    ":streamRawPredict": ":rawPredict",
    "/invoke-with-response-stream": "/invoke",
    "/converse-stream": "/converse",
}

_OUTPUT_FIELDS = (
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_new_tokens",
    "num_predict",
    "n_predict",
)
_OUTPUT_PATHS = (
    *((field,) for field in _OUTPUT_FIELDS),
    ("generationConfig", "maxOutputTokens"),
    ("generationConfig", "max_output_tokens"),
    ("generation_config", "max_output_tokens"),
    ("generation_config", "maxOutputTokens"),
    ("inferenceConfig", "maxTokens"),
    (converse.ADDITIONAL, "max_tokens"),
    ("options", "num_predict"),
)
"""Where a body says how long its reply may be, by provider and server; the first that is set counts."""

_THINKING_PATHS = (
    ("thinking", "budget_tokens"),
    (converse.ADDITIONAL, "thinking", "budget_tokens"),
    (converse.ADDITIONAL, "reasoning_config", "budget_tokens"),
    ("generationConfig", "thinkingConfig", "thinkingBudget"),
    ("generation_config", "thinking_config", "thinking_budget"),
    ("reasoning", "max_tokens"),
    ("thinking_budget",),
)
"""Where a body says how much of its reply may be thinking."""
_HELD_BY_PROVIDER = ("previous_response_id", "conversation", "context_management", "cached_content", "cachedContent")
_EDITED_FROM = {
    anthropic.NAME: anthropic.edited_from,
    converse.NAME: anthropic.edited_from,
    openai_responses.NAME: openai_responses.edited_from,
}
"""The formats whose `context_management` is understood; of others, all of it is left to the provider."""
_HELD_ITEMS = ("item_reference", "compaction", "context_compaction")
"""Prefixes of the types of items by which a history is at the provider, or which ask it to compact this one; a summary
that it wrote for the client is not one of them."""

_TRUNCATING_NAMES, _TRUNCATING_PORTS = ("ollama", "lmstudio", "lm-studio"), ("11434", "1234")
_TRUNCATING_DOMAINS = (".z.ai", ".bigmodel.cn", ".xiaomimimo.com")
"""Servers that answer a request over their window as if it had fitted: Ollama and LM Studio, by name or by the port they listen
on, drop a part of it; Z.ai and MiMo accept it."""

_NOT_FOR_SUMMARIES = (
    *("stream", "stream_options", "tool_choice", "function_call", "parallel_tool_calls", "n", "prediction"),
    *("toolConfig", "tool_config", "generation_config", "inferenceConfig", "outputConfig", converse.ADDITIONAL),
    *("response_format", "text", "output_format", "output_config", "modalities", "audio", "logprobs", "top_logprobs"),
    *("stop", "stop_sequences", *_OUTPUT_FIELDS, "store", "background", "thinking", "reasoning", "reasoning_effort"),
    "context_management",  # edits of thinking are refused where nothing thinks, and a summary is not compacted
)
"""What a request says about its own answer, in either spelling of Gemini's; a summary is text in one piece."""


class ProviderRequest(Struct, frozen=True):
    """The contents of a request: messages, system prompt, tools, model, and the most tokens of its answer.

    `window_tokens` is the window it asks for if that is not its model's usual one. `drops_thinking`: it asks the
    provider to drop thinking that is bound to another conversation, in place of refusing it. `is_truncated`: a request that is
    too large is not refused but answered without a part of it. `offers_native`: its provider compacts histories itself, if
    it is asked to. `cache_seconds`: how long it asks the provider's cache to keep it; 0 if it leaves that to the provider.
    `edited_from_tokens`: it asks the provider to clear or compact the history itself, from that many tokens on (0: thinking
    only); `None` if it does not. `thinking_tokens`: how much of its answer may be thinking. `is_paid`: its tokens cost money, as
    far as the server's address and the credential show.
    """

    wire: WireFormat
    items: tuple[object, ...]
    system: object = None
    tools: object = None
    model: str = ""
    output_tokens: int = 0
    streams: bool = False
    window_tokens: int | None = None
    drops_thinking: bool = False
    is_truncated: bool = False
    offers_native: bool = False
    cache_seconds: int = 0
    edited_from_tokens: int | None = None
    thinking_tokens: int = 0
    is_paid: bool = True


class Unmanaged(Struct, frozen=True):
    """A request that is relayed unchanged, and why; `is_history`: it brings or continues a history, which may be too large."""

    why: str
    is_history: bool = False


def format_of_path(path: str) -> WireFormat | None:
    """Return the format of requests to this path, `None` if it takes no messages."""
    bare = path.split("?", 1)[0].rstrip("/")
    wire = next((wire for wire in FORMATS if bare.endswith(wire.path_endings)), None)
    return None if wire is ANTHROPIC_MESSAGES and (_THREAD in bare or bare.endswith(_COUNTING)) else wire


def counted_path(path: str) -> str:
    """Return the path of the requests whose tokens this one counts; empty for other paths."""
    bare = path.split("?", 1)[0].rstrip("/")
    ending = next((one for one in _COUNTED if bare.endswith(one)), "")
    return bare.removesuffix(ending) + _COUNTED[ending] if ending else ""


def model_in_path(path: str) -> str:
    """Return the model that a path of Gemini, Bedrock or Vertex names; empty for other paths."""
    bare = path.split("?", 1)[0]
    _, is_bedrock, named = bare.partition("/model/")
    if is_bedrock:  # the ARN of an inference profile has slashes and colons
        return unquote(named.rpartition("/")[0])
    return unquote(bare.partition("/models/")[2].partition(":")[0])


def unstreamed_path(path: str) -> str:
    """Return the path that answers in one piece what this one would stream."""
    bare, _, query = path.partition("?")
    for streamed, whole in _UNSTREAMED.items():
        bare = bare.replace(streamed, whole)
    kept = "&".join(field for field in query.split("&") if field != "alt=sse")
    return f"{bare}?{kept}" if kept else bare


def read_request(wire: WireFormat, body: object, path: str = "") -> ProviderRequest | Unmanaged:
    """Return the contents of a request body; raise `BrokenInput` if it is not a request of this format."""
    if not isinstance(body, Mapping):
        raise BrokenInput(
            wire.name, "the body is not a JSON object", remedy="send the request as the provider documents it"
        )
    bare = path.split("?", 1)[0]
    if bare.endswith(anthropic.CLOUD_PATHS) and "anthropic_version" not in body:
        return Unmanaged("the request is for a model of another provider than Anthropic")
    items = body.get(wire.items_field)
    if items is None:
        return Unmanaged(f"the request has no {wire.items_field}")
    if isinstance(items, str):  # Responses takes a lone text for one message of the user
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list | tuple):
        raise BrokenInput(wire.name, f"{wire.items_field} is not a list", remedy="send the messages as a list")
    model = str(body.get("model") or model_in_path(path))
    fields = converse.claude_fields(body) if wire is CONVERSE else body
    edited_from = (
        _EDITED_FROM[wire.name](fields) if fields.get("context_management") and wire.name in _EDITED_FROM else None
    )
    held = _provider_history(wire, fields, items, is_edited=edited_from is not None)
    held = "prompt" if wire is CONVERSE and converse.PROMPT in model else held
    if held:
        return Unmanaged(f"the provider holds or cuts the history itself ({held})", is_history=True)
    system = next((body[field] for field in wire.system_fields if field in body), None)
    tools = converse.tools_in(body) if wire is CONVERSE else body.get("tools")
    return ProviderRequest(
        wire,
        tuple(items),
        system=system,
        tools=tools,
        model=model,
        output_tokens=output_tokens_in(body),
        streams=bool(body.get("stream")) or unstreamed_path(bare) != bare,
        drops_thinking=wire.name in (anthropic.NAME, converse.NAME) and anthropic.drops_thinking(fields),
        edited_from_tokens=edited_from,
        thinking_tokens=next(filter(None, (_number_at(body, path) for path in _THINKING_PATHS)), 0),
        # A mark on the body itself is the provider's to put on the last message.
        cache_seconds=stated_cache_seconds(body) or marked_seconds([*items, body], system, tools),
    )


def is_truncating_host(host: str) -> bool:
    """Return whether the server at this host (`name:port`) is known not to refuse a request that is too large."""
    name, _, port = host.lower().partition(":")
    is_named = any(part in name for part in _TRUNCATING_NAMES) or f".{name}".endswith(_TRUNCATING_DOMAINS)
    return is_named or port in _TRUNCATING_PORTS


def requests_truncation(body: Body) -> bool:
    """Return whether a body asks its provider to shorten a request that is too large: Responses, OpenRouter, vLLM."""
    transforms = body.get("transforms")
    asks = body.get("truncation") == "auto" or body.get("truncate_prompt_tokens") is not None
    return asks or (isinstance(transforms, list) and "middle-out" in transforms)


def requests_summary(wire: WireFormat, body: Body) -> bool:
    """Return whether a body asks its provider for a summary, with which the client then replaces the messages in it."""
    return wire is ANTHROPIC_MESSAGES and isinstance(body.get("compaction"), Mapping)


def requested_window(wire: WireFormat, body: Body, headers: Mapping[str, str]) -> int | None:
    """Return the window that a request asks for where it is not its model's usual one."""
    if wire is CONVERSE:
        return anthropic.requested_window(converse.claude_fields(body), {})
    return anthropic.requested_window(body, headers) if wire is ANTHROPIC_MESSAGES else None


def with_items(body: Body, wire: WireFormat, items: Sequence[object]) -> dict[str, Any]:
    """Return the same request with other messages."""
    return {**body, wire.items_field: list(items)}


def output_tokens_in(body: Body) -> int:
    """Return the most tokens that a body asks for in reply; 0 if it does not say."""
    return next(filter(None, (_number_at(body, path) for path in _OUTPUT_PATHS)), 0)


def with_output(body: Body, output_tokens: int) -> dict[str, Any]:
    """Return the same request, asking for at most so many tokens in reply, wherever it asks for more."""
    lowered = dict(body)
    for first, *rest in (path for path in _OUTPUT_PATHS if _number_at(body, path) > output_tokens):
        lowered[first] = {**lowered[first], rest[0]: output_tokens} if rest else output_tokens
    return lowered


def _number_at(body: Body, path: Sequence[str]) -> int:
    """Return the number at a path of fields; 0 if there is none above 0."""
    value: object = body
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def summary_body(wire: WireFormat, body: Body, request: SummaryRequest, shown: Sequence[object] = ()) -> dict[str, Any]:
    """Return the request for a summary, to the model that this body was for.

    If it shares the ordinary request's prefix, everything before its last message stays as it was, tools included, so that
    the provider's cache serves it; `shown` are the messages as that request has them. If it shows them under a system prompt
    of its own, it keeps the tools too, which their calls need. Otherwise it keeps only the model, and the API's version.
    """
    kept = {name: value for name, value in body.items() if name not in _NOT_FOR_SUMMARIES}
    items = [item for message in request.messages[-1:] for item in wire.encode_new(message)]
    has_tools = bool(converse.tools_in(body) if wire is CONVERSE else kept.get("tools"))
    fields = wire.summary_fields(body, request.output_tokens, has_tools=has_tools)
    if request.shares_prefix:
        shared = {ANTHROPIC_MESSAGES.name: anthropic.shared_fields, CONVERSE.name: converse.shared_fields}.get(
            wire.name
        )
        fields = fields if shared is None else shared(body, fields)
        history = converse.alternate([*shown, *items]) if wire is CONVERSE else [*shown, *items]
        return {**kept, wire.items_field: history, **fields}
    if request.messages[1:]:
        history = [*without_bound_thinking(wire, tuple(dropwhile(_is_system, shown))), *items]
        history = converse.alternate(history) if wire is CONVERSE else history
        kept.pop("system_instruction", None)
        return {**kept, **wire.with_system(request.system, history), **fields}
    route = {name: body[name] for name in ("model", "anthropic_version", "anthropic_beta") if name in body}
    fields = wire.summary_fields(body, request.output_tokens, has_tools=False)
    return {**route, **wire.with_system(request.system, items), **fields}


# The provider's own compaction.

NATIVE_FORMATS = (ANTHROPIC_MESSAGES.name, OPENAI_RESPONSES.name)
"""The formats whose providers compact a history when asked to."""

_NATIVE_HOSTS = {
    ANTHROPIC_MESSAGES.name: (".anthropic.com", ".services.ai.azure.com"),
    OPENAI_RESPONSES.name: (".openai.com", ".openai.azure.com", ".services.ai.azure.com"),
}
"""Where that is documented to work; Bedrock has none, and of other servers nothing is known."""


def offers_native(wire: WireFormat, host: str) -> bool:
    """Return whether the provider at this host (`name:port`) compacts histories in this format itself."""
    name = host.lower().partition(":")[0]
    return f".{name}".endswith(_NATIVE_HOSTS.get(wire.name, ("\0",)))


def native_body(wire: WireFormat, body: Body, request: SummaryRequest) -> dict[str, Any]:
    """Return the request by which the provider compacts the first messages of an ordinary request with this body."""
    if wire is OPENAI_RESPONSES:
        return openai_responses.native_body(body, request.items)
    kept = {name: value for name, value in body.items() if name not in _NOT_FOR_SUMMARIES}
    fields = anthropic.native_body(kept, request.items, request.instructions, request.output_tokens)
    return {**fields, **({"thinking": body["thinking"]} if "thinking" in anthropic.thinking_fields(body) else {})}


def native_path_suffix(wire: WireFormat) -> str:
    """Return what follows the path of ordinary requests in that of requests for the provider's own compaction."""
    return "/compact" if wire is OPENAI_RESPONSES else ""


def native_betas(wire: WireFormat) -> tuple[str, ...]:
    """Return the betas for requests that ask for the provider's own compaction, or hold what it wrote."""
    return (anthropic.COMPACTION_BETA,) if wire is ANTHROPIC_MESSAGES else ()


BETA_HEADER = "anthropic-beta"


def add_betas(value: str, betas: Sequence[str]) -> str:
    """Return the value of the header for betas with these too."""
    named = [beta.strip() for beta in value.split(",") if beta.strip()]
    return ",".join((*named, *(beta for beta in betas if beta not in named)))


def read_native(wire: WireFormat, body: object) -> ModelAnswer | None:
    """Return the provider's own compaction with its usage; `None` if its reply has none."""
    if wire is OPENAI_RESPONSES:
        messages, text, taken = openai_responses.native_messages(body), "", wire.usage(body)
    else:
        (messages, text), usual = anthropic.native_messages(body), wire.usage(body)
        own = anthropic.compaction_usage(body)
        taken = own if usual is None or own is None else own.plus(replace(usual, compaction=None))
        taken = taken or usual
    named = tuple(replace(message, id=MessageId(f"native-{n}")) for n, message in enumerate(messages))
    return ModelAnswer(Answer(text), usage=taken, native=named) if named else None


def without_bound_thinking(wire: WireFormat, items: Sequence[object]) -> list[object]:
    """Return messages for another system prompt than their own: without Claude's thinking, which may be bound to it."""
    if wire is CONVERSE:
        return converse.without_reasoning(items)
    return anthropic.without_thinking(items) if wire is ANTHROPIC_MESSAGES else list(items)


def read_answer(wire: WireFormat, body: object) -> Answer:
    """Return a model's reply as a summariser's answer; a refusal in OpenAI's own field counts as a content filter."""
    items = wire.reply_items(body)
    messages: tuple[Message, ...] = wire.decode(items).messages
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    text = "\n".join(part.text for reply in replies for part in reply.parts if isinstance(part, TextPart))
    finish = "content-filter" if any(map(_refuses, items)) else wire.finish(body) or "other"
    return Answer(text, finish, any(calls_of(reply) for reply in replies))


def _is_system(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("role") in ("system", "developer")


def _refuses(item: object) -> bool:
    if not isinstance(item, Mapping):
        return False
    content = item.get("content")
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    return any(bool(part.get("refusal")) for part in (item, *blocks))


def _provider_history(wire: WireFormat, body: Body, items: Sequence[object], *, is_edited: bool) -> str:
    """Return the field or type by which the provider keeps a part of the history, or cuts it; empty if there is none.

    `is_edited`: it is asked for edits that are understood.
    """
    names = (*_HELD_BY_PROVIDER, *(anthropic.HELD_FIELDS if wire is ANTHROPIC_MESSAGES else ()))
    fields = (name for name in names if body.get(name) and not (is_edited and name == "context_management"))
    objects = (item for item in items if isinstance(item, Mapping))
    # An item with nothing but an id refers to what the provider stores.
    types = ("item_reference" if item.keys() == {"id"} else str(item.get("type")) for item in objects)
    held = (kind for kind in types if kind.startswith(_HELD_ITEMS) and kind not in openai_responses.SUMMARY_TYPES)
    return next(fields, next(held, ""))
