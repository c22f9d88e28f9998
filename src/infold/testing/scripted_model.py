"""A model for tests that lives in the process: it answers as a script says, in chat format, with no server and no socket."""

from collections.abc import Callable, Iterator
from time import sleep
from typing import assert_never

from infold.catalogue import cost_of
from infold.core.judge import Told
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.core.tokens import estimate_tokens
from infold.errors import (
    KeyRefused,
    ModelBusy,
    ModelError,
    ModelOverflow,
    RequestRefused,
    UnknownModel,
)
from infold.formats.overflow import recognise
from infold.formats.registry import OPENAI_CHAT
from infold.formats.requests import read_answer
from infold.formats.tools import tool_items
from infold.ports import Calling, Heard, ModelRequest, Replied, Said, Thought
from infold.testing import scripted_chat
from infold.testing.play import counted_tokens
from infold.testing.scripted_answers import (
    Answer,
    Fail,
    Hang,
    Item,
    Reply,
    Say,
    Script,
    ScriptedRequest,
    Trouble,
    in_turn,
    pieces_of,
    spoken_usage,
)

SCRIPTED = ModelRef("scripted", "scripted")
WELL = in_turn(Say("All is well."))


class ScriptedModel:
    """Answers every request as a script says, and keeps all it was asked.

    With `window_tokens` a larger request is refused as too large before the script sees it. `pause` is how the delays of a
    `Trouble` pass; everything else goes wrong at once.
    """

    def __init__(
        self,
        answer: Script = WELL,
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
        """All requests so far, as a server of the chat format would have had them."""
        return tuple(self._requests)

    def stream(self, request: ModelRequest) -> Iterator[Heard]:
        """What the script answers; raises `ModelError` where it says so."""
        asked = _asked(request, self.ref)
        self._requests.append(asked)
        answer = self._refusal(asked) or self._answer(asked)
        match answer:
            case Say():
                yield from self._said(answer, asked)
            case Fail():
                raise _failure(self.ref.id, answer)
            case Hang():
                raise ModelBusy(self.ref.id, f"gave no answer within {answer.seconds:g} seconds")
            case _:
                assert_never(answer)

    def summarise(self, request: SummaryRequest) -> Iterator[str | Told]:
        """What the script answers to a request for a summary: pieces of text, then all of it."""
        items: list[object] = [item for message in request.messages for item in OPENAI_CHAT.encode_new(message)]
        for piece in self.stream(ModelRequest(items, request.system, output_tokens=request.output_tokens)):
            if isinstance(piece, Said):
                yield piece.text
            elif isinstance(piece, Replied):
                usage = OPENAI_CHAT.usage(piece.body)
                yield Told(read_answer(OPENAI_CHAT, piece.body), self.ref.id, usage, cost_of(self.ref.id, usage))

    def _refusal(self, asked: ScriptedRequest) -> Answer | None:
        window = self._window_tokens
        is_over = window is not None and asked.tokens > window
        return Fail(400, scripted_chat.overflow(asked.tokens, window)) if is_over and window is not None else None

    def _said(self, say: Say, asked: ScriptedRequest) -> Iterator[Heard]:
        trouble = say.trouble or Trouble()
        pieces: list[Heard] = [
            *map(Thought, pieces_of(say.reasoning)),
            *map(Said, pieces_of(say.text)),
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
        usage = spoken_usage(say, asked.tokens, 1.0)
        yield Replied(scripted_chat.body(Reply(say, usage, len(self._requests), self.ref.id)))


def _asked(request: ModelRequest, ref: ModelRef) -> ScriptedRequest:
    """The request as it would have been sent."""
    system: list[object] = [{"role": "system", "content": request.system}] if request.system else []
    tools = tool_items(OPENAI_CHAT.name, request.tools)
    items = [*system, *request.messages]
    body: Item = {"model": ref.id, "messages": items, "stream": True, **({"tools": tools} if tools else {})}
    messages = OPENAI_CHAT.decode(items).messages
    tokens = counted_tokens(messages) + estimate_tokens(OPENAI_CHAT.tools_text(body))
    return ScriptedRequest("", {}, body, OPENAI_CHAT.name, messages, stream=True, tokens=tokens)


def _failure(model: str, fail: Fail) -> ModelError:
    """What an adapter would have raised for this refusal; a status of 0 is an event of a stream that had begun."""
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
