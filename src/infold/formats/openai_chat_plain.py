"""OpenAI Chat messages in the plainest shape of their role, as most are: read at once, without slots."""

from infold.core.messages import MessageId, Part, TextPart, ToolCallPart
from infold.formats.items import Item, cleaned
from infold.formats.pairing import Pairing
from infold.formats.slots import result_or_text

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def plain_parts(item: Item, role: str, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    """The parts of an item in the plainest shape of its role, as most are; nothing of any other, which slots read."""
    content = item.get("content")
    if role == "tool":
        return _result(item, content, pairing)
    if role == "assistant" and "tool_calls" in item:
        return _calls(item, content, pairing, message_id)
    is_plain = type(content) is str and content and len(item) == 2 and role in ROLES[:4]
    return (TextPart(cleaned(content)),) if is_plain and isinstance(content, str) else ()


def _result(item: Item, content: object, pairing: Pairing) -> tuple[Part, ...]:
    call_id = item.get("tool_call_id")
    if type(content) is not str or type(call_id) is not str or not call_id:
        return ()
    return (result_or_text(pairing.result(cleaned(call_id)), cleaned(content)),)


def _calls(item: Item, content: object, pairing: Pairing, message_id: MessageId) -> tuple[Part, ...]:
    calls = item["tool_calls"]
    if len(item) != 2 + ("content" in item) or type(calls) is not list or not all(map(_is_plain_call, calls)):
        return ()
    said = [TextPart(cleaned(content))] if type(content) is str and content else []
    if content and not said:
        return ()
    return (*said, *[_call(call, pairing, message_id) for call in calls])


def _is_plain_call(call: object) -> bool:
    if type(call) is not dict or len(call) != 3 or type(call.get("id")) is not str or "type" not in call:
        return False
    function = call.get("function")
    if type(function) is not dict or len(function) != 2 or type(function.get("name")) is not str:
        return False
    return type(function.get("arguments")) is str


def _call(call: Item, pairing: Pairing, message_id: MessageId) -> ToolCallPart:
    function = call["function"]
    name = cleaned(function["name"])
    return ToolCallPart(pairing.call(cleaned(call["id"]), name, message_id), name, cleaned(function["arguments"]))
