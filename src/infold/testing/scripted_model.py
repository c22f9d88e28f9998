"""A model for tests inside the process: it answers from a script, in chat format, without a server."""

from collections.abc import Callable, Iterator
from time import sleep
from typing import assert_never

from infold.catalogue import cost_of
from infold.core.judge import ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.core.tokens import estimate_tokens
from infold.errors import KeyRefused, ModelBusy, ModelError, ModelOverflow, RequestRefused, UnknownModel
from infold.formats.overflow import recognise
from infold.formats.registry import OPENAI_CHAT
from infold.formats.requests import read_answer
from infold.formats.tools import tool_items
from infold.ports import Calling, Heard, ModelRequest, Replied, Said, Thought
from infold.testing.script import (
    ALL_IS_WELL,
    Fail,
    Hang,
    Say,
    Script,
    ScriptedAnswer,
    ScriptedRequest,
    Send,
    Trouble,
    WireReply,
    count_tokens,
    count_usage,
    split_text,
)
from infold.testing.wire_replies import chat_body, chat_overflow

SCRIPTED = ModelRef("scripted", "scripted")


class ScriptedModel:
    """Answer every request as a script says, and keep all requests.

    With `window_tokens` a larger request is rejected before the script sees it. `pause` is called for the delays of a
    `Trouble`; all other faults happen at once.
    """

    def __init__(
        self,
        answer: Script = ALL_IS_WELL,
        *,
        ref: ModelRef = SCRIPTED,
        window_tokens: int | None = None,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        self.ref = ref
        self.format = OPENAI_CHAT.name
        self._answer = answer
        self._window_tokens = window_tokens
        self._pause = pause
        self._requests: list[ScriptedRequest] = []

    @property
    def requests(self) -> tuple[ScriptedRequest, ...]:
        """All requests so far, as a server of the chat format would have received them."""
        return tuple(self._requests)

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """Yield the script's answer; raise `ModelError` if it is a failure."""
        received = _as_received(request, self.ref)
        self._requests.append(received)
        answer = self._rejection(received) or self._answer(received)
        match answer:
            case Say():
                yield from self._pieces(answer, received)
            case Send():
                yield Replied(answer.body)
            case Fail():
                raise _failure(self.ref.id, answer)
            case Hang():
                raise ModelBusy(self.ref.id, f"gave no answer within {answer.seconds:g} seconds")
            case _:
                assert_never(answer)

    def summarise(self, request: SummaryRequest) -> Iterator[str | ModelAnswer]:
        """Yield the script's answer to a request for a summary: pieces of text, then the whole."""
        items: list[object] = [item for message in request.messages for item in OPENAI_CHAT.encode_new(message)]
        for piece in self.stream(ModelRequest(items, request.system, output_tokens=request.output_tokens)):
            if isinstance(piece, Said):
                yield piece.text
            elif isinstance(piece, Replied):
                usage = OPENAI_CHAT.usage(piece.body)
                yield ModelAnswer(read_answer(OPENAI_CHAT, piece.body), self.ref.id, usage, cost_of(self.ref.id, usage))

    def _rejection(self, received: ScriptedRequest) -> ScriptedAnswer | None:
        window = self._window_tokens
        if window is None or received.tokens <= window:
            return None
        return Fail(400, chat_overflow(received.tokens, window))

    def _pieces(self, say: Say, received: ScriptedRequest) -> Iterator[Heard]:
        trouble = say.trouble or Trouble()
        pieces: list[Heard] = [
            *map(Thought, split_text(say.reasoning)),
            *map(Said, split_text(say.text)),
            *(Calling(name) for name, _ in say.calls),
        ]
        self._pause(trouble.delay_seconds)
        for piece in pieces[: trouble.cut_after_events]:
            yield piece
            self._pause(trouble.chunk_delay_seconds)
        if trouble.error_event is not None:
            raise _failure(self.ref.id, Fail(0, trouble.error_event))
        if trouble.cut_after_events is not None:
            raise ModelBusy(self.ref.id, "the reply broke off")
        if say.finish == "error":
            raise ModelBusy(self.ref.id, "the provider ended the reply with an error")
        usage = count_usage(say, received.tokens)
        yield Replied(chat_body(WireReply(say, usage, len(self._requests), self.ref.id)))


def _as_received(request: ModelRequest, ref: ModelRef) -> ScriptedRequest:
    """Return the request as a server would have received it."""
    system: list[object] = [{"role": "system", "content": request.system}] if request.system else []
    tools = tool_items(OPENAI_CHAT.name, request.tools)
    items = [*system, *request.messages]
    body: dict[str, object] = {
        "model": ref.id,
        "messages": items,
        "stream": True,
        **({"tools": tools} if tools else {}),
    }
    messages = OPENAI_CHAT.decode(items).messages
    tokens = count_tokens(messages) + estimate_tokens(OPENAI_CHAT.tools_text(body))
    return ScriptedRequest("", {}, body, OPENAI_CHAT.name, messages, stream=True, tokens=tokens)


def _failure(model: str, fail: Fail) -> ModelError:
    """Return what an adapter would raise for this failure; status 0 is an error event in a stream."""
    body = fail.body if isinstance(fail.body, dict | str | bytes) else str(fail.body)
    overflow = recognise(fail.status or None, body)
    if overflow is not None:
        return ModelOverflow(model, overflow.limit_tokens, refusal=overflow)
    problem = f"a scripted failure of status {fail.status}" if fail.status else "a scripted failure in the stream"
    match fail.status:
        case 401 | 403:
            return KeyRefused(model, problem, variable="SCRIPTED_API_KEY")
        case 404:
            return UnknownModel(model, problem)
        case 0 | 408 | 409 | 429:
            return ModelBusy(model, problem)
        case status if status >= 500:
            return ModelBusy(model, problem)
        case _:
            return RequestRefused(model, problem)
