"""OpenAI Responses input items.

A model's turn is several items here: neighbours from the model form one message, and so do neighbouring outputs of
tools. Reasoning items are bound to the items after them, so a message with one is signed. Compaction items are
opaque provider data. What the provider refuses is told by `rules.py`, what it replies by `bodies.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import asdict

from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    MessageId,
    Part,
    ReasoningPart,
    ResultStatus,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    results_of,
)
from infold.formats.codec import (
    GONE,
    Codec,
    Decoded,
    Item,
    MalformedError,
    Slot,
    arguments_of,
    as_came,
    cleaned,
    encode_view,
    gather,
    has_address,
    id_field,
    is_image,
    is_pdf,
    json_text,
    left_text,
    lines,
    listed,
    mentioned,
    opaque,
    opaque_value,
    parsed_arguments,
    plain,
    provider_text,
    provider_value,
    refuse_text,
    refusing,
    replaced_content,
    result_or_text,
    shown,
    shown_text,
    text_field,
    unpacked_input,
    user_text,
)
from infold.formats.media import file_part
from infold.formats.pairing import Asked, Pairing
from infold.formats.sse import Shape, dicts, fields, grow, index_of, read_as, whole


def result(item: Item, pairing: Pairing) -> Part:
    """What a tool answered, in whichever kind of output."""
    asked = pairing.result(id_field(item, "call_id"), id_field(item, "id"))
    output = item.get("output")
    if item["type"] == "shell_call_output":
        return _shell_result(listed(output, "output"), asked)
    blocks = [output] if isinstance(output, str | dict) else listed(output, "output")
    parts = [part for block in blocks for part in _inside(block)]
    files = tuple(part for part in parts if isinstance(part, FilePart))
    status: ResultStatus = "error" if item.get("status") == "failed" else "completed"
    return result_or_text(asked, shown_text(parts), status=status, files=files)


def _inside(block: object) -> tuple[Part, ...]:
    """A block inside an output."""
    return block_parts(block if isinstance(block, str) else plain(block), is_user=False)


def _shell_result(runs: Sequence[object], asked: Asked | None) -> Part:
    """What several commands printed; the last exit status is the result's."""
    printed = [plain(run) for run in runs]
    codes = [plain(run.get("outcome") or {}).get("exit_code") for run in printed]
    code = codes[-1] if codes and isinstance(codes[-1], int) else None
    output = lines(text_field(run, stream) for run in printed for stream in ("stdout", "stderr"))
    return result_or_text(asked, output, exit_status=code)


def block_parts(block: str | Item, *, is_user: bool) -> tuple[Part, ...]:
    """The parts of one block of content."""
    text = block if isinstance(block, str) else block.get("text", block.get("refusal"))
    if isinstance(text, str):
        return user_text(text) if is_user else (TextPart(cleaned(text)),)
    return _medium(plain(block))


def _medium(block: Item) -> tuple[Part, ...]:
    reference = text_field(block, "image_url", "file_data", "file_url", "file_id")
    match block.get("type"):
        case "input_image" | "computer_screenshot":
            detail = text_field(block, "detail")
            return (file_part("openai", "image/*", reference=reference, detail=detail),)
        case "input_file":
            name = text_field(block, "filename")
            return (file_part("openai", "application/pdf", reference=reference, name=name),)
        case "input_audio":
            sound = plain(block.get("input_audio") or {})
            kind = f"audio/{text_field(sound, 'format') or 'wav'}"
            return (file_part("openai", kind, data=text_field(sound, "data")),)
        case _:
            return opaque(block)


def replaced_result(item: Item, part: Part | None) -> Item:
    """An output item with other text, and without media that the part has no more."""
    output = item.get("output")
    if item["type"] == "shell_call_output":
        last = plain(output[-1]) if output else {"outcome": {"type": "exit", "exit_code": 0}}
        return {**item, "output": [{**last, "stdout": left_text((part,)), "stderr": ""}]}
    if isinstance(output, dict):
        return item if isinstance(part, ToolResultPart) and part.files else {**item, "output": _blank(output)}
    return {**item, "output": replaced_content(output, part, _inside, text_type="input_text")}


def _blank(screenshot: Item) -> Item:
    """A computer's output has to be an image: the smallest stands for one that was pruned."""
    return {**{key: value for key, value in screenshot.items() if key != "file_id"}, "image_url": BLANK_IMAGE}


BLANK_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)


BOUND_TYPES = ("reasoning", "compaction", "compaction_summary", "context_compaction")
"""Items whose content only the provider can read."""


def encode_new(message: Message, aliases: Mapping[str, str] | None = None) -> list[Item]:
    """Items for a message that came from no wire: one for each call and result, one for all text."""
    ids = aliases or {}
    parts = shown(message)
    role = _ROLES.get(type(message), "user")
    told = tuple(part for part in parts if not _is_item(opaque_value(part)))
    content = shown_text(told) if role == "assistant" else _new_content(told)
    said = [{"role": role, "content": content}] if content else []
    others = [item for part in parts for item in _new_items(part, ids)]
    bound = [item for item in others if item["type"] in BOUND_TYPES]
    rest = [item for item in others if item["type"] not in BOUND_TYPES]
    return [*bound, *said, *rest] if role == "assistant" else [*rest, *said]


_ROLES: dict[type, str] = {SystemMessage: "system", AssistantMessage: "assistant"}


def _new_items(part: Part, ids: Mapping[str, str]) -> list[Item]:
    match part:
        case ToolCallPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [{"type": "function_call", "call_id": call_id, "name": part.tool, "arguments": part.arguments}]
        case ToolResultPart():
            call_id = ids.get(part.call_id) or part.call_id
            return [{"type": "function_call_output", "call_id": call_id, "output": _new_output(part)}]
        case ReasoningPart():
            value = provider_value(part)
            return [value] if isinstance(value, dict) and value.get("type") in BOUND_TYPES else []
        case _:
            value = opaque_value(part)
            return [value] if _is_item(value) else []


def _is_item(value: Item) -> bool:
    """Whether an opaque block is an item of its own; the types of blocks inside a message begin otherwise."""
    return "type" in value and not str(value["type"]).startswith(("input_", "output_"))


def _new_content(parts: tuple[Part, ...]) -> str | list[Item]:
    """Text alone stays text; media whose bytes or address are at hand make a list of blocks."""
    return _with_media(shown_text(parts), [part for part in parts if isinstance(part, FilePart)])


def _new_output(part: ToolResultPart) -> str | list[Item]:
    """The same for what a tool answered."""
    return _with_media(part.output, part.files)


def _with_media(text: str, files: Sequence[FilePart]) -> str | list[Item]:
    media = {place: block for place, file in enumerate(files) if (block := _new_medium(file)) is not None}
    text = lines([text, *(mentioned(file) for place, file in enumerate(files) if place not in media)])
    return [*([{"type": "input_text", "text": text}] if text else []), *media.values()] if media else text


def _new_medium(file: FilePart) -> Item | None:
    if is_image(file) or has_address(file):
        return {"type": "input_image", "detail": "auto", "image_url": file.reference}
    if is_pdf(file):
        return {"type": "input_file", "filename": file.name or "attached.pdf", "file_data": file.reference}
    return None


# Each kind of call wants its own kind of output; a new result knows only the call's id.


def answers_matched(items: list[object], decoded: Decoded) -> list[object]:
    """The items with each answer of infold's own made the kind of output that its call wants."""
    theirs = {id(source) for sources in decoded.sources for source in sources}
    plains = [plain(item) for item in items]
    kinds = {id_field(item, "call_id"): text_field(item, "type") for item in plains if _is_other_call(item)}
    return [
        given if id(given) in theirs else as_came(given, _answer(item, kinds))
        for given, item in zip(items, plains, strict=True)
    ]


def answers_in_order(items: Iterable[object], own: Set[str]) -> Iterator[object]:
    """The items with neighbouring outputs in the order of their calls, where one of them is infold's own answer (I1)."""
    calls: dict[str, int] = {}
    for is_output, run in groupby(items, key=_is_output):
        together = list(run)
        answered = [id_field(plain(item), "call_id", "id") for item in together]
        if not is_output:
            calls |= {call_id: len(calls) + place for place, call_id in enumerate(answered)}
        elif not own.isdisjoint(answered):
            together.sort(key=lambda item: calls.get(id_field(plain(item), "call_id", "id"), len(calls)))
        yield from together


def _is_output(item: object) -> bool:
    return text_field(plain(item), "type").endswith("_output")


def _is_other_call(item: Item) -> bool:
    kind = text_field(item, "type")
    return kind.endswith("_call") and kind != "function_call" and "call_id" in item


def _answer(item: Item, kinds: Mapping[str, str]) -> Item:
    kind = kinds.get(id_field(item, "call_id"))
    if kind is None or item.get("type") != "function_call_output":
        return item
    call_id, output = item["call_id"], _text_of(item["output"])
    match kind:
        case "shell_call":
            run = {"stdout": output, "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
            return {"type": "shell_call_output", "call_id": call_id, "output": [run]}
        case "apply_patch_call":
            return {"type": "apply_patch_call_output", "call_id": call_id, "status": "failed", "output": output}
        case "computer_call":
            screenshot = {"type": "computer_screenshot", "image_url": BLANK_IMAGE}
            return {"type": "computer_call_output", "call_id": call_id, "output": screenshot}
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": call_id, "output": output}
        case _:
            return {"type": f"{kind}_output", "call_id": call_id, "output": output}


def _text_of(output: str | list[Item]) -> str:
    """An output as text, for calls of a kind whose output takes no media."""
    return output if isinstance(output, str) else lines(text_field(block, "text") for block in output)


NAME = "openai-responses"


Side: TypeAlias = Literal["user", "system", "assistant", "tool"]


CALL_TYPES: dict[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
"""Calls the caller has to answer, and the field that says what to do."""


TOOL_TYPES = ("mcp_approval_response",)
"""What comes from the caller's tools without being called an output."""


BLOCK_TYPES = ("input_text", "output_text", "input_image", "input_file")


OWN_TYPES = ("message", "item_reference", *BOUND_TYPES)
"""Types of blocks and items that no other format has; those of calls and outputs are told by their ending."""


class _Given(NamedTuple):
    place: int
    side: Side
    source: object
    item: Item


def looks_like(items: Sequence[object]) -> bool:
    """Whether some item or block is of a type that only this format has."""
    return any(_is_own(plain(item)) for item in items)


def _is_own(item: Item) -> bool:
    kind, content = item.get("type"), item.get("content")
    if isinstance(content, list | tuple):
        return any(not isinstance(block, str) and plain(block).get("type") in BLOCK_TYPES for block in content)
    return kind in OWN_TYPES or (isinstance(kind, str) and kind.endswith(("_call", "_output")))


def decode(items: Sequence[object], *, first: int = 0, pairing: Pairing | None = None) -> Decoded:
    """Input items as core messages; `BrokenInput` for an item of a wrong type."""
    refuse_text(NAME, items)
    pairs = pairing or Pairing()
    groups = _groups([_given(index, source) for index, source in enumerate(items)])
    messages = tuple([_message(group, MessageId(f"m{number}"), pairs) for number, group in enumerate(groups, first)])
    sources = tuple([tuple([given.source for given in group]) for group in groups])
    return Decoded(NAME, messages, sources, dict(pairs.aliases))


def encode(view: Sequence[Message], decoded: Decoded) -> list[object]:
    """The view as input items; untouched ones are the caller's own objects."""
    items = encode_view(_CODEC, view, decoded)
    known = {message.id for message in decoded.messages}
    own = [message for message in view if message.id not in known]
    if not own:
        return items
    answered = {decoded.aliases.get(part.call_id) or part.call_id for message in own for part in results_of(message)}
    matched = answers_matched(items, decoded)
    return list(answers_in_order(matched, answered)) if answered else matched


def _given(index: int, source: object) -> _Given:
    try:
        item = source if type(source) is dict else plain(source)
    except MalformedError as problem:
        raise refusing(NAME, index, problem) from problem
    return _Given(index, _side(item), source, item)


def _side(item: Item) -> Side:
    """Who an item is from; what infold does not know is taken for the model's."""
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" or (kind is None and role):
        return "system" if role in ("system", "developer") else "assistant" if role == "assistant" else "user"
    if kind in TOOL_TYPES or str(kind).endswith("_output"):
        return "tool"
    return "system" if role in ("system", "developer") else "assistant"


def _groups(given: list[_Given]) -> list[list[_Given]]:
    """Neighbours of the model's or the tools' side together, each other item by itself."""
    groups: list[list[_Given]] = []
    for one in given:
        if groups and one.side in ("assistant", "tool") and groups[-1][0].side == one.side:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _message(group: list[_Given], message_id: MessageId, pairing: Pairing) -> Message:
    parts = tuple([part for given in group for part in _gathered(given, message_id, pairing)])
    match group[0].side:
        case "assistant":
            return AssistantMessage(message_id, parts)
        case "tool":
            return ToolMessage(message_id, parts)
        case "system":
            return SystemMessage(message_id, parts)
        case "user":
            return UserMessage(message_id, parts)


def _gathered(given: _Given, message_id: MessageId, pairing: Pairing) -> tuple[Part, ...]:
    try:
        return gather(_CODEC, given.item, pairing, message_id)
    except MalformedError as problem:
        raise refusing(NAME, given.place, problem) from problem


def _slots(item: Item) -> Iterator[Slot]:
    kind, content = item.get("type") or "message", item.get("content")
    if kind != "message":
        yield Slot((), kind, item)
    elif not isinstance(item.get("role"), str):
        raise MalformedError("it has neither a type nor a role", remedy="give an input item or a message with a role")
    elif isinstance(content, str):
        yield Slot(("content",), item["role"], content)
    else:
        for index, block in enumerate(listed(content, "content")):
            yield Slot(("content", index), item["role"], block if isinstance(block, str) else plain(block))


def _parts(slot: Slot, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    if slot.path:
        return block_parts(slot.value, is_user=slot.kind == "user")
    if slot.kind in CALL_TYPES:
        return (_call(slot.value, pairing, message_id),)
    if slot.kind == "reasoning":
        return (_reasoning(slot.value),)
    if slot.kind in BOUND_TYPES:
        return (TextPart(COMPACTED_TEXT, synthetic=True), _reasoning(slot.value))
    return (result(slot.value, pairing),) if slot.kind in _ANSWERS else opaque(slot.value)


COMPACTED_TEXT = "[earlier messages, compacted by the provider]"
"""Stands beside a compaction item's sealed content, so that its message is never taken for an empty one."""


_ANSWERS = frozenset(f"{call}_output" for call in CALL_TYPES)


def _reasoning(item: Item) -> ReasoningPart:
    texts = [plain(block) for field in ("content", "summary") for block in listed(item.get(field), field)]
    return ReasoningPart(lines(text_field(text, "text") for text in texts), provider_text(item))


def _call(item: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    kind = item["type"]
    field = CALL_TYPES[kind]
    value = item.get(field, item.get("actions"))  # a newer computer tool asks for several at once
    tool = text_field(item, "name") or kind.removesuffix("_call")
    arguments = json_text({"input": value}) if field == "input" else arguments_of(value)
    return ToolCallPart(pairing.call(id_field(item, "call_id", "id"), tool, message_id), tool, arguments)


def _replaced(slot: Slot, parts: tuple[Part | None, ...]) -> Any:
    if not any(parts):
        return GONE
    if slot.path:
        return _replaced_text(slot, left_text(parts))
    if slot.kind in CALL_TYPES:
        return _replaced_call(slot.value, parts[0])
    if slot.kind not in _ANSWERS:
        return slot.value
    is_orphan = isinstance(parts[0], TextPart)
    return _retold(slot, left_text(parts)) if is_orphan else replaced_result(slot.value, parts[0])


def _retold(slot: Slot, text: str) -> Item:
    """Text for a medium or a result; a result in words is a message of its own."""
    return {"type": "input_text", "text": text} if slot.path else {"role": "user", "content": text}


def _replaced_text(slot: Slot, text: str) -> Any:
    """Text with other text; a user's block that infold has no reading for becomes text, a model's stays whole."""
    value = slot.value
    if not text:
        return GONE
    if isinstance(value, str):
        return text
    if "refusal" in value:
        return {**value, "refusal": text}
    is_unread = "text" not in value and slot.kind != "assistant"
    return _retold(slot, text) if is_unread else {**value, "text": text} if "text" in value else value


def _replaced_call(item: Item, part: Part | None) -> Item:
    field, text = CALL_TYPES[item["type"]], left_text((part,))
    if field == "arguments":
        return {**item, field: text}
    return {**item, field: unpacked_input(part) if field == "input" else parsed_arguments(text)}


def _tidied(item: Item) -> Item | None:
    return item if item.get("content") else None


_CODEC = Codec(slots=_slots, parts=_parts, replaced=_replaced, retold=_retold, tidied=_tidied, new=encode_new)


LIFE = frozenset({"response.created", "response.queued", "response.in_progress"})


ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
"""Events that hold the response as it is; the latter end it."""


class _Text(Struct, frozen=True):
    """Where a stream's text goes: the field that grows, and the list of blocks it stands in, if it stands in one."""

    item_type: str
    field: str
    blocks: str = ""
    block_type: str = ""


TEXTS = {
    "response.output_text": _Text("message", "text", "content", "output_text"),
    "response.refusal": _Text("message", "refusal", "content", "refusal"),
    "response.reasoning_text": _Text("reasoning", "text", "content", "reasoning_text"),
    "response.reasoning_summary_text": _Text("reasoning", "text", "summary", "summary_text"),
    "response.function_call_arguments": _Text("function_call", "arguments"),
    "response.custom_tool_call_input": _Text("custom_tool_call", "input"),
    "response.mcp_call_arguments": _Text("mcp_call", "arguments"),
    "response.code_interpreter_call_code": _Text("code_interpreter_call", "code"),
}


PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}


INDEXES = {"content": "content_index", "summary": "summary_index"}


class _Output:
    """One item while it is written, its blocks by their index."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.blocks: dict[str, dict[int, Item]] = {}

    def made(self) -> Item:
        """The item so far."""
        lists = {name: [blocks[index] for index in sorted(blocks)] for name, blocks in self.blocks.items()}
        return fields(whole({**self.item, **lists}))


class ResponsesReply:
    """Gathers a response: the last event holds all of it; before that, and where it holds no output, items do."""

    def __init__(self) -> None:
        self._response: Item = {}
        self._outputs: dict[int, _Output] = {}
        self._is_ended = False

    @property
    def is_finished(self) -> bool:
        """Whether the event came that ends a response, well or not."""
        return self._is_ended

    def take(self, kind: str, event: Item) -> None:
        """Add an event; one that adds nothing to a response is passed over."""
        index = index_of(event.get("output_index"))
        stem, _, change = kind.rpartition(".")
        if kind in LIFE or kind in ENDS:
            self._response |= fields(event.get("response"))
            self._is_ended = self._is_ended or kind in ENDS
        elif index is None:
            return
        elif stem == "response.output_item":
            if fields(event.get("item")):
                self._outputs[index] = _Output(event["item"])
        elif stem in PARTS:
            self._take_part(index, PARTS[stem], event)
        elif stem in TEXTS:
            self._take_text(index, TEXTS[stem], event, is_delta=change == "delta")

    def grow(self, data: bytes) -> bool:
        """Add a piece of a text or of a call's arguments; false for any other event."""
        told = read_as(_GROWTHS, data)
        if told is not None:
            self.take(told.type, asdict(told))
        return told is not None

    def reply(self) -> Item | None:
        """The response so far; nothing before its first event."""
        if not self._response and not self._outputs:
            return None
        told = dicts(self._response.get("output")) if self._is_ended else []
        gathered = [self._outputs[index].made() for index in sorted(self._outputs)]
        return {"object": "response", **self._response, "output": told or gathered}

    def _take_part(self, index: int, blocks: str, event: Item) -> None:
        place = index_of(event.get(INDEXES[blocks]))
        output = self._outputs.get(index)
        if output is not None and place is not None and fields(event.get("part")):
            output.blocks.setdefault(blocks, {})[place] = {**event["part"]}

    def _take_text(self, index: int, text: _Text, event: Item, *, is_delta: bool) -> None:
        """A piece of text, or all of it: the event that ends a text mends what was lost of it."""
        output = self._outputs.setdefault(index, _Output(_begun(text, event)))
        holder = _holder(output, text, event)
        if is_delta:
            grow(holder, text.field, event.get("delta"))
        elif isinstance(event.get(text.field), str):
            holder[text.field] = event[text.field]


def _begun(text: _Text, event: Item) -> Item:
    """An item whose beginning was lost."""
    role: Item = {"role": "assistant"} if text.item_type == "message" else {}
    return {"type": text.item_type, "id": event.get("item_id"), **role}


def _holder(output: _Output, text: _Text, event: Item) -> Item:
    if not text.blocks:
        return output.item
    place = index_of(event.get(INDEXES[text.blocks])) or 0
    return output.blocks.setdefault(text.blocks, {}).setdefault(place, {"type": text.block_type})


# The events that make up nearly all of a stream.


class _Growth(Shape):
    type: Literal[
        "response.output_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    ]
    output_index: int
    delta: str
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    sequence_number: int | None = None
    logprobs: object = None
    obfuscation: str | None = None


_GROWTHS = Decoder(_Growth)
