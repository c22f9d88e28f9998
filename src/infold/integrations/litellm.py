"""Keep what goes through LiteLLM inside its model's window: `litellm.callbacks = [InfoldLogger(window=8_192)]`.

One callback serves the SDK, the router and the proxy. Each request is made to fit after its deployment was chosen; the caller's
list is not changed. Requests of Chat, Messages and Responses are counted and folded in their own shape.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack
from uuid import uuid4

import litellm
from litellm.integrations.custom_logger import CustomLogger

from infold.formats.tools import recall_tool
from infold.integrations.sessions import Call, PlugOptions, Sessions
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
        self.sessions = Sessions.from_options(options, format=CHAT.format, recovers=False, recall=None)
        options["store"] = self.sessions.store
        self._sessions = {CHAT: self.sessions}
        for shape in {*SHAPES.values()} - {CHAT}:
            self._sessions[shape] = Sessions.from_options(options, format=shape.format, recovers=False, recall=None)
        self._waiting: dict[tuple[str, _Shape | None], Call] = {}
        self.recall_tool = recall_tool(CHAT.format)

    def completion(self, **request: Any) -> Any:
        """Do what `litellm.completion` does with a request made to fit; send it once more if it is refused for its size."""
        request.setdefault("litellm_call_id", str(uuid4()))
        call = self.sessions.prepare(**_arguments(request, CHAT))
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

    def recall(self, arguments: object, session_id: str | None = None) -> str:
        """Answer a call of the recall tool in a conversation: the text to send as its result."""
        return self.sessions.recall(session_id, arguments)

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
        call = await self._sessions[shape].aprepare(**_arguments(kwargs, shape))
        self._wait(kwargs, shape, call)
        return _fitted(kwargs, shape, call)

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        """Record a reply before the caller has it; that of a stream is logged at its end."""
        await self.async_log_success_event({**request_data, "call_type": call_type}, response)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, *_: object, **__: object) -> None:
        """Record a reply, unless that was done."""
        call, body = self._answered(kwargs, kwargs.get("call_type")), _body(response_obj)
        if call and ("choices" in body) == (SHAPES.get(kwargs["call_type"]) == CHAT):
            await call.arecord(body)  # a stream of another shape is logged as Chat, and is known from the next request

    def log_success_event(self, kwargs: Any, response_obj: Any, *_: object, **__: object) -> None:
        """Do the same for `completion`."""
        if call := self._answered(kwargs, "acompletion"):
            call.record(_body(response_obj))

    async def async_log_failure_event(self, kwargs: Any, *_: object, **__: object) -> None:
        """Learn from a refusal, so that the next request is smaller; a hook cannot send this one again."""
        if call := self._answered(kwargs, kwargs.get("call_type")):
            await call.arecover(kwargs.get("exception"))

    def _wait(self, request: Mapping[str, Any], shape: _Shape, call: Call) -> None:
        self._waiting[str(request.get("litellm_call_id")), shape] = call
        while len(self._waiting) > MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting)), None)

    def _answered(self, request: Mapping[str, Any], call_type: Any) -> Call | None:
        """Return the call that has its outcome now; `None` the second time."""
        return self._waiting.pop((str(request.get("litellm_call_id")), SHAPES.get(call_type)), None)


def _arguments(request: Mapping[str, Any], shape: _Shape) -> dict[str, Any]:
    """Return the arguments of `Sessions.prepare`; the thread is the proxy's key and the session's id, as far as known."""
    marks = [request.get(field) for field in ("litellm_metadata", "metadata")]
    metadata = {key: value for mark in marks if isinstance(mark, Mapping) for key, value in mark.items()}
    parts = (metadata.get(KEY_FIELD), request.get("litellm_session_id") or metadata.get("session_id"))
    thread = ":".join(str(part) for part in parts if part) or None
    sent = {"system": request.get(shape.system), "tools": request.get("tools"), "model": request.get("model")}
    return {"thread": thread, "messages": request[shape.messages], **sent}


def _fitted(request: dict[str, Any], shape: _Shape, call: Call) -> dict[str, Any]:
    if not call.is_cut:
        return request
    return {**request, shape.messages: call.restore(request[shape.messages], lambda message, _: message)}


def _body(response: Any) -> Any:
    return response.model_dump() if hasattr(response, "model_dump") else response or {}
