"""Keep what goes through LiteLLM inside its model's window: `litellm.callbacks = [InfoldLogger(window=8_192)]`.

One callback serves the SDK, the router and the proxy. Each request is made to fit after its deployment was chosen; the caller's
list is not changed. Requests of Chat, Messages and Responses are counted and folded in their own shape.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Unpack
from uuid import uuid4

import litellm
from litellm.integrations.custom_logger import CustomLogger

from infold.formats.codec import arguments_object
from infold.formats.tools import recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions, SharedThread
from infold.proxy.request import fingerprint_of

MOST_WAITING = 4_096
"""Requests that wait for their reply; that of the oldest one beyond is not recorded."""

KEY_FIELD = "infold_key"
"""Where a request's metadata has the fingerprint of the proxy's key."""


class _Shape(NamedTuple):
    """A wire format, and the fields of a call that have its messages and its system prompt."""

    format: str
    messages: str
    system: str


CHAT = _Shape("openai-chat", "messages", "")
SHAPES = {
    "acompletion": CHAT,
    "anthropic_messages": _Shape("anthropic-messages", "messages", "system"),
    "aresponses": _Shape("openai-responses", "input", "instructions"),
}
"""The calls whose requests are made to fit."""


class InfoldLogger(CustomLogger):
    """Makes each request fit and records its reply with its usage.

    The options are those of `PlugOptions`. Conversations are kept apart by `metadata={"session_id": …}` (or
    `litellm_session_id`), and by the key in the proxy; without an id by their messages. `recall_tool` is a tool for `tools=[…]`,
    and `recall` answers its calls. `completion` is for blocking code: `litellm.completion` has no hook that may change a request.
    """

    def __init__(self, **options: Unpack[PlugOptions]) -> None:
        super().__init__()
        self.sessions = Sessions.from_options(options, format=CHAT.format, recovers=False)
        options["store"] = self.sessions.store
        self._sessions = {CHAT: self.sessions}
        for shape in {*SHAPES.values()} - {CHAT}:
            self._sessions[shape] = Sessions.from_options(options, format=shape.format, recovers=False)
        self._waiting: dict[tuple[str, _Shape | None], _Waiting] = {}
        self.recall_tool = recall_tool(CHAT.format, self.sessions.recall_name)

    def completion(self, **request: Any) -> Any:
        """Do what `litellm.completion` does with a request made to fit; send it once more if it is refused for its size."""
        request.setdefault("litellm_call_id", str(uuid4()))
        call = self.sessions.prepare(**self._arguments(request, CHAT))
        self._wait(request, CHAT, call)
        try:
            response = litellm.completion(**_fitted(request, CHAT, call))
        except Exception as error:
            again = call.recover(error)
            if again is None:
                raise
            self._wait(request, CHAT, again)
            response = litellm.completion(**_fitted(request, CHAT, again))
        if not request.get("stream"):  # a stream is recorded by the log, if this is among the callbacks
            self.log_success_event(request, response)
        return response

    def recall(self, arguments: object, session_id: str | None = None, messages: Sequence[Any] | None = None) -> str:
        """Answer a call of the recall tool in a conversation: the text to send as its result.

        Give the id of its session, or its messages, or both; the answer is never from another conversation.
        """
        return self.sessions.recall(session_id, arguments, messages)

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: object, data: Any, call_type: object) -> Any:  # noqa: ARG002
        """Mark a request of the proxy with its key's fingerprint, whatever its client wrote there."""
        for field in ("metadata", "litellm_metadata"):
            if isinstance(data.get(field), dict):
                data[field].pop(KEY_FIELD, None)
        field = "litellm_metadata" if isinstance(data.get("litellm_metadata"), dict) else "metadata"
        data[field] = {**(data.get(field) or {}), KEY_FIELD: fingerprint_of(str(user_api_key_dict.api_key))}
        return data

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Return the request made to fit; `None` if it is of another kind, or the provider has the conversation."""
        shape = SHAPES.get(call_type)
        messages = kwargs.get(shape.messages) if shape else None
        if shape is None or not messages or not isinstance(messages, list) or kwargs.get("previous_response_id"):
            return None
        call_id = str(kwargs.get("litellm_call_id"))
        if any((call_id, other) in self._waiting for other in SHAPES.values() if other != shape):
            return None  # LiteLLM has converted a request that fits, for a provider of Chat alone
        call = await self._sessions[shape].aprepare(**self._arguments(kwargs, shape))
        self._wait(kwargs, shape, call)
        return _fitted(kwargs, shape, call)

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        """Record a reply before the caller has it; that of a stream is logged at its end."""
        await self.async_log_success_event({**request_data, "call_type": call_type}, response)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, *_: object, **__: object) -> None:
        """Record a reply, unless that was done."""
        waiting = self._answered(kwargs, kwargs.get("call_type"))
        if waiting and waiting.is_newest:
            await waiting.call.arecord(response_obj, partial(_reply, SHAPES[kwargs["call_type"]]))

    def log_success_event(self, kwargs: Any, response_obj: Any, *_: object, **__: object) -> None:
        """Do the same for `completion`."""
        waiting = self._answered(kwargs, "acompletion")
        if waiting and waiting.is_newest:
            waiting.call.record(response_obj, partial(_reply, CHAT))

    async def async_log_failure_event(self, kwargs: Any, *_: object, **__: object) -> None:
        """Learn from a refusal, so that the next request is smaller; a hook cannot send this one again."""
        if waiting := self._answered(kwargs, kwargs.get("call_type")):
            await waiting.call.arecover(kwargs.get("exception"))

    def _arguments(self, request: Mapping[str, Any], shape: _Shape) -> dict[str, Any]:
        """Return the arguments of `Sessions.prepare`; the thread is the proxy's key and the session's id, as far as known."""
        marks = [request.get(field) for field in ("litellm_metadata", "metadata")]
        metadata = {key: value for mark in marks if isinstance(mark, Mapping) for key, value in mark.items()}
        session_id = request.get("litellm_session_id") or metadata.get("session_id")
        tools, ours = request.get("tools"), recall_tool(shape.format, self.sessions.recall_name)
        name = ":".join(str(part) for part in (metadata.get(KEY_FIELD), session_id) if part)
        return {
            "thread": name if session_id else SharedThread(name),  # a key may have many conversations
            "messages": request[shape.messages],
            "system": request.get(shape.system),
            "tools": tools,
            "model": request.get("model"),
            "recall": self.sessions.recall_name if isinstance(tools, list) and ours in tools else "",
        }

    def _wait(self, request: Mapping[str, Any], shape: _Shape, call: Call) -> None:
        self._waiting[str(request.get("litellm_call_id")), shape] = _Waiting(call, call.session.log.next_sequence)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting)), None)

    def _answered(self, request: Mapping[str, Any], call_type: Any) -> "_Waiting | None":
        """Return the call that has its outcome now; `None` the second time."""
        return self._waiting.pop((str(request.get("litellm_call_id")), SHAPES.get(call_type)), None)


def _fitted(request: dict[str, Any], shape: _Shape, call: Call) -> dict[str, Any]:
    if not call.is_cut:
        return request
    return {**request, shape.messages: call.restore(request[shape.messages], lambda message, _: message)}


class _Waiting(NamedTuple):
    """A call that waits for its outcome, and where its session ended; a stream may be logged after the next request was made."""

    call: Call
    sequence: int

    @property
    def is_newest(self) -> bool:
        return self.call.session.log.next_sequence == self.sequence


def _reply(shape: _Shape, response: Any) -> Any:
    """Return a reply in the shape of its request; streams of Messages and of Responses are logged as Chat."""
    body = response.model_dump() if hasattr(response, "model_dump") else response or {}
    if shape == CHAT or "choices" not in body:
        return body
    message, usage = body["choices"][0]["message"], body.get("usage") or {}
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    text, output = message.get("content") or "", {"output_tokens": usage.get("completion_tokens") or 0}
    prompt, read, written = (
        usage.get(name) or 0 for name in ("prompt_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    if shape.format == "openai-responses":
        made = [{"type": "function_call", "call_id": call_id, **function} for call_id, function in calls]
        said = [{"type": "message", "role": "assistant", "content": text}] if text else []
        details = {"input_tokens_details": {"cached_tokens": read}}
        return {"output": [*said, *made], "usage": {"input_tokens": prompt, **output, **details}}
    uses = [
        {"type": "tool_use", "id": call_id, "name": one["name"], "input": arguments_object(one["arguments"])}
        for call_id, one in calls
    ]
    blocks = [*(message.get("thinking_blocks") or ()), *([{"type": "text", "text": text}] if text else ()), *uses]
    cached = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {"content": blocks, "usage": {"input_tokens": max(0, prompt - read - written), **output, **cached}}
