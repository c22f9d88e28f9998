"""The contract of a model, checked on one whose provider answers from a script; some rules hold for any model.

A broken rule raises an `AssertionError` whose message is the rule, in one sentence, and what was seen instead.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from time import monotonic
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import Finish, MessageId, TextPart, Usage, UserMessage, calls_of, text_of
from infold.core.summary_request import Additions, own_request
from infold.errors import InfoldError, KeyRefused, ModelBusy, ModelError, ModelOverflow, RequestRefused, UnknownModel
from infold.formats.registry import format_named
from infold.ports import Calling, Heard, Model, ModelRequest, Replied, Said, Thought, ToolSpec
from infold.testing.script import Fail, Say, Script, ScriptedAnswer, ScriptedRequest, Trouble, in_turn
from infold.testing.store_contract import error_of, require

MakeModel: TypeAlias = Callable[[Script], AbstractContextManager[Model]]
"""Makes a model whose provider answers by a script, and closes it at the end of the block. It must not retry by
itself.
"""

LONG = "The parser was ported, its tests pass, and the old one is gone. " * 8

SLOW = Trouble(chunk_delay_seconds=0.03)

AT_ONCE_SECONDS = 0.6

TOO_LONG = {
    "error": {
        "message": "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens.",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    }
}

BUSY = {"error": {"type": "overloaded_error", "code": 503, "message": "Overloaded"}}

KINDS: dict[int, type[ModelError]] = {
    **dict.fromkeys((408, 409, 429, 500, 503, 529), ModelBusy),
    **dict.fromkeys((401, 403), KeyRefused),
    404: UnknownModel,
    **dict.fromkeys((400, 422), RequestRefused),
}

BASH = ToolSpec(
    "bash",
    "Runs a command.",
    {
        "type": "object",
        "properties": {"command": {"type": "string", "description": "What to run."}},
        "required": ["command"],
        "additionalProperties": False,
    },
)


class _Reply(Struct, frozen=True):
    """The content of a whole reply, as infold reads it."""

    text: str
    calls: tuple[tuple[str, str], ...]
    usage: Usage | None
    finish: Finish | None


def request_to(model: Model, text: str = "How is the parser?", **options: Any) -> ModelRequest:
    """Return a request of one user message, in the model's own format."""
    message = UserMessage(MessageId("m0"), (TextPart(text),))
    return ModelRequest([*format_named(model.format).encode_new(message)], **options)


def _ask(model: Model, **options: Any) -> list[Heard]:
    """Return everything that is streamed; it must end with the only whole reply."""
    pieces = list(model.stream(request_to(model, **options)))
    whole = [place for place, piece in enumerate(pieces) if isinstance(piece, Replied)]
    require(whole == [len(pieces) - 1], "there is one whole reply, at the end", pieces)
    return pieces


def _read_reply(model: Model, pieces: list[Heard]) -> _Reply:
    wire, whole = format_named(model.format), pieces[-1]
    assert isinstance(whole, Replied)
    messages = wire.decode(wire.reply_items(whole.body)).messages
    return _Reply(
        "".join(map(text_of, messages)),
        tuple((call.tool, call.arguments) for message in messages for call in calls_of(message)),
        wire.usage(whole.body),
        wire.finish(whole.body),
    )


def _failure(model: Model, pieces: list[Heard]) -> ModelError | None:
    """Return the error of a request; `pieces` collects what is streamed before it."""
    error = error_of(ModelError, lambda: pieces.extend(model.stream(request_to(model))))
    return error if isinstance(error, ModelError) else None


# Rules for any model at all.


def _reply_is_streamed_and_then_whole(model: Model) -> None:
    pieces = _ask(model, output_tokens=24)
    said = [piece.text for piece in pieces if isinstance(piece, Said)]
    require(len(said) > 1, "text is streamed in pieces", pieces)
    require(_read_reply(model, pieces).text == "".join(said), "the pieces of text make up the reply's text", pieces)


def _usage_is_reported(model: Model) -> None:
    usage = _read_reply(model, _ask(model, output_tokens=8)).usage
    require(usage is not None and usage.prompt > 0 and usage.output > 0, "input and output are counted", usage)


def _closing_cancels_the_request(model: Model) -> None:
    stream = model.stream(request_to(model, "Tell me all about the parser.", output_tokens=2_000))
    next(stream)
    began = monotonic()
    stream.close()  # type: ignore[attr-defined] # the rule is that it can be closed
    took = monotonic() - began
    require(took < AT_ONCE_SECONDS, "closing the iterator does not wait for the rest", took)
    require(list(stream) == [], "a closed iterator yields nothing")
    require(_ask(model, output_tokens=8), "a model can be asked again after a request was cancelled")


ANY_MODEL_RULES = (_reply_is_streamed_and_then_whole, _usage_is_reported, _closing_cancels_the_request)
"""The rules for any model, whatever it answers."""


# Rules for a model whose provider follows a script.


def _scripted(kept: Callable[[Model], None], *answers: ScriptedAnswer) -> Callable[[MakeModel], None]:
    """Return a rule for any model as one for a scripted model with these answers."""

    @wraps(kept)
    def tried(make: MakeModel) -> None:
        with make(in_turn(*answers)) as model:
            kept(model)

    return tried


def _reasoning_is_separate(make: MakeModel) -> None:
    thinking = "The user asks about the parser, so I look at it first."
    with make(in_turn(Say(LONG, reasoning=thinking))) as model:
        pieces = _ask(model)
    thought = [piece.text for piece in pieces if isinstance(piece, Thought)]
    require("".join(thought) == thinking, "the pieces of reasoning make up the reasoning", thought)
    require(_read_reply(model, pieces).text == LONG, "reasoning is not part of the text", pieces)


def _parallel_calls_stay_together(make: MakeModel) -> None:
    arguments: tuple[dict[str, Any], ...] = ({"command": "ls"}, {"command": "cat 'ä\nb'"}, {})
    with make(in_turn(Say("I look.", calls=tuple(("bash", given) for given in arguments)))) as model:
        pieces = _ask(model, tools=(BASH,))
    reply = _read_reply(model, pieces)
    started = [piece.tool for piece in pieces if isinstance(piece, Calling)]
    require(started == ["bash"] * 3, "each call is reported once, when it begins", started)
    require([tool for tool, _ in reply.calls] == started, "all calls of a reply are in it, in order", reply.calls)
    made = tuple(msgspec.json.decode(text) for _, text in reply.calls)
    require(made == arguments, "arguments are complete", made)
    require(reply.finish == "tool-calls", "a reply that calls tools has the finish `tool-calls`", reply.finish)


def _usage_is_itemised(make: MakeModel) -> None:
    given = Usage(input=100, output=20, reasoning=5, cache_read=60)
    with make(in_turn(Say("Well.", usage=given))) as model:
        usage = _read_reply(model, _ask(model)).usage
    seen = usage and (usage.input, usage.output, usage.reasoning, usage.cache_read)
    require(seen == (100, 20, 5, 60), "input, output, reasoning and cache reads are counted separately", usage)


def _finish_is_reported(make: MakeModel) -> None:
    finishes: tuple[Finish, ...] = ("stop", "length", "content-filter")
    with make(in_turn(*(Say("Well.", finish=finish) for finish in finishes))) as model:
        seen = tuple(_read_reply(model, _ask(model)).finish for _ in finishes)
    require(seen == finishes, "the finish reason is reported", seen)


def _system_prompt_and_tools_are_sent(make: MakeModel) -> None:
    asked: list[ScriptedRequest] = []

    def script(request: ScriptedRequest) -> ScriptedAnswer:
        asked.append(request)
        return Say("Well.")

    with make(script) as model:
        _ask(model, system="Keep to the rules.", tools=(BASH,), output_tokens=321)
    body = asked[0].body
    require("Keep to the rules." in str(body), "the system prompt is sent", body)
    require(BASH.description in format_named(model.format).tools_text(body), "the tools are offered", body)
    require(asked[0].stream, "the reply is requested as a stream", body)
    require(text_of(asked[0].messages[-1]) == "How is the parser?", "the messages are sent unchanged", body)


def _too_large_is_an_overflow(make: MakeModel) -> None:
    with make(in_turn(Fail(400, TOO_LONG))) as model:
        _require_overflow(_failure(model, []))


def _overflow_event_is_an_overflow(make: MakeModel) -> None:
    with make(in_turn(Say(LONG, trouble=Trouble(cut_after_events=4, error_event=TOO_LONG)))) as model:
        _require_overflow(_failure(model, []))


def _require_overflow(error: InfoldError | None) -> None:
    require(isinstance(error, ModelOverflow), "a request rejected as too large is a `ModelOverflow`", repr(error))
    require(getattr(error, "limit_tokens", 0) == 4_096, "the provider's limit is kept", error)
    require(getattr(error, "refusal", None), "the rejection's details are kept", error)


def _failures_have_their_type(make: MakeModel) -> None:
    with make(in_turn(*map(Fail, KINDS))) as model:
        for status, kind in KINDS.items():
            error = _failure(model, [])
            require(type(error) is kind, f"status {status} is a {kind.__name__}", repr(error))
            require("\n" not in str(error), "an error is one line", error)


def _broken_reply_is_busy(make: MakeModel) -> None:
    for event in (None, BUSY):
        pieces: list[Heard] = []
        with make(in_turn(Say(LONG, trouble=Trouble(cut_after_events=9, error_event=event)))) as model:
            error = _failure(model, pieces)
        require(
            type(error) is ModelBusy,
            "a reply that breaks off, or whose stream reports an error, is a `ModelBusy`",
            error,
        )
        require(any(isinstance(piece, Said) for piece in pieces), "the pieces before the break are yielded", pieces)
        require(
            not any(isinstance(piece, Replied) for piece in pieces),
            "half a reply is not yielded as a whole one",
            pieces,
        )


def _summary_is_streamed(make: MakeModel) -> None:
    request = own_request("[user] Port the parser.", Additions(), output_tokens=500)
    with make(in_turn(Say(LONG, reasoning="Hm."), Say("Not", finish="length"), Fail(400, TOO_LONG))) as model:
        whole, cut = list(model.summarise(request)), list(model.summarise(request))
        error = error_of(ModelError, lambda: list(model.summarise(request)))
    last = whole[-1]
    require(
        isinstance(last, ModelAnswer) and last.answer == Answer(LONG, "stop"),
        "a summary ends with the whole text, without reasoning",
        last,
    )
    require(
        isinstance(last, ModelAnswer) and last.usage and last.model == model.ref.id,
        "the whole summary has usage and model",
        last,
    )
    require("".join(map(str, whole[:-1])) == LONG and len(whole) > 2, "a summary is streamed in pieces", whole)
    require(
        isinstance(cut[-1], ModelAnswer) and cut[-1].answer.finish == "length",
        "a summary that was cut off has the finish `length`",
        cut,
    )
    _require_overflow(error)


MODEL_RULES = (
    _scripted(_reply_is_streamed_and_then_whole, Say(LONG)),
    _scripted(_usage_is_reported, Say(LONG)),
    _scripted(_closing_cancels_the_request, Say(LONG, trouble=SLOW), Say(LONG)),
    _reasoning_is_separate,
    _parallel_calls_stay_together,
    _usage_is_itemised,
    _finish_is_reported,
    _system_prompt_and_tools_are_sent,
    _too_large_is_an_overflow,
    _overflow_event_is_an_overflow,
    _failures_have_their_type,
    _broken_reply_is_busy,
    _summary_is_streamed,
)


def check_model(make: MakeModel) -> None:
    """Check every rule on a model of its own; raise `AssertionError` with the rule that is broken."""
    for check in MODEL_RULES:
        check(make)
