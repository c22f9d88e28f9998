"""The rules of a model, each tried on one whose provider answers as a script says; some hold for any model at all."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from time import monotonic
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from infold.core.judge import Answer, Told
from infold.core.messages import Finish, MessageId, TextPart, Usage, UserMessage, calls_of, text_of
from infold.core.summary_request import Additions, own_request
from infold.errors import KeyRefused, ModelBusy, ModelError, ModelOverflow, RequestRefused, UnknownModel
from infold.formats.registry import format_named
from infold.ports import Calling, Heard, Model, ModelRequest, Replied, Said, Thought, ToolSpec
from infold.testing.scripted_answers import Answer as Scripted
from infold.testing.scripted_answers import Fail, Say, Script, ScriptedRequest, Trouble, in_turn
from infold.testing.store_contract import rule

MakeModel: TypeAlias = Callable[[Script], AbstractContextManager[Model]]
"""Makes a model whose provider answers by this script, and ends it at the end of the block. It must not retry by itself."""


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
    """What a whole reply says, as infold reads it."""

    text: str
    calls: tuple[tuple[str, str], ...]
    usage: Usage | None
    finish: Finish | None


def asking(model: Model, text: str = "How is the parser?", **beside: Any) -> ModelRequest:
    """A request of one user message, in the model's own format."""
    message = UserMessage(MessageId("m0"), (TextPart(text),))
    return ModelRequest([*format_named(model.format).encode_new(message)], **beside)


def _answered(model: Model, **beside: Any) -> list[Heard]:
    """All that is heard; there must be one whole reply, at the end."""
    heard = list(model.stream(asking(model, **beside)))
    whole = [place for place, piece in enumerate(heard) if isinstance(piece, Replied)]
    rule(whole == [len(heard) - 1], "there is one whole reply, and it comes last", heard)
    return heard


def _reply(model: Model, heard: list[Heard]) -> _Reply:
    wire, whole = format_named(model.format), heard[-1]
    assert isinstance(whole, Replied)
    messages = wire.decode(wire.reply_items(whole.body)).messages
    return _Reply(
        "".join(map(text_of, messages)),
        tuple((call.tool, call.arguments) for message in messages for call in calls_of(message)),
        wire.usage(whole.body),
        wire.finish(whole.body),
    )


def _failure(model: Model, heard: list[Heard]) -> ModelError | None:
    """What asking raises; `heard` is what came before."""
    return _raised(lambda: heard.extend(model.stream(asking(model))))


def _raised(act: Callable[[], object]) -> ModelError | None:
    try:
        act()
    except ModelError as error:
        return error
    return None


# Rules for any model at all.


def _the_reply_comes_in_pieces_and_then_whole(model: Model) -> None:
    heard = _answered(model, output_tokens=24)
    said = [piece.text for piece in heard if isinstance(piece, Said)]
    rule(len(said) > 1, "text is given piece by piece", heard)
    rule(_reply(model, heard).text == "".join(said), "the pieces of text are the reply's text", heard)


def _usage_is_reported(model: Model) -> None:
    usage = _reply(model, _answered(model, output_tokens=8)).usage
    rule(usage is not None and usage.prompt > 0 and usage.output > 0, "what was sent and said is counted", usage)


def _closing_breaks_the_request_off(model: Model) -> None:
    stream = model.stream(asking(model, "Tell me all about the parser.", output_tokens=2_000))
    next(stream)
    began = monotonic()
    stream.close()  # type: ignore[attr-defined] # the rule is that it can be closed
    took = monotonic() - began
    rule(took < AT_ONCE_SECONDS, "closing the iterator does not wait for the rest", took)
    rule(list(stream) == [], "nothing comes after closing")
    rule(_answered(model, output_tokens=8), "a model can be asked again after a request was broken off")


ANY_MODEL_RULES = (
    _the_reply_comes_in_pieces_and_then_whole,
    _usage_is_reported,
    _closing_breaks_the_request_off,
)
"""What holds for any model at all, whatever it says."""


# Rules for a model whose provider follows a script.


def _scripted(kept: Callable[[Model], None], *answers: Scripted) -> Callable[[MakeModel], None]:
    """A rule for any model, tried on one that answers so."""

    @wraps(kept)
    def tried(make: MakeModel) -> None:
        with make(in_turn(*answers)) as model:
            kept(model)

    return tried


def _reasoning_is_told_apart(make: MakeModel) -> None:
    thinking = "The user asks about the parser, so I look at it first."
    with make(in_turn(Say(LONG, reasoning=thinking))) as model:
        heard = _answered(model)
    thought = [piece.text for piece in heard if isinstance(piece, Thought)]
    rule("".join(thought) == thinking, "the pieces of reasoning are the reasoning", thought)
    rule(_reply(model, heard).text == LONG, "reasoning is no part of the text", heard)


def _parallel_calls_stay_together(make: MakeModel) -> None:
    arguments: tuple[dict[str, Any], ...] = ({"command": "ls"}, {"command": "cat 'ä\nb'"}, {})
    with make(in_turn(Say("I look.", calls=tuple(("bash", given) for given in arguments)))) as model:
        heard = _answered(model, tools=(BASH,))
    reply = _reply(model, heard)
    begun = [piece.tool for piece in heard if isinstance(piece, Calling)]
    rule(begun == ["bash"] * 3, "each call is told once, as it begins", begun)
    rule([tool for tool, _ in reply.calls] == begun, "all calls of a reply are in it, in order", reply.calls)
    made = tuple(msgspec.json.decode(text) for _, text in reply.calls)
    rule(made == arguments, "arguments come whole", made)
    rule(reply.finish == "tool-calls", "a reply that calls tools says so", reply.finish)


def _usage_tells_cache_and_reasoning_apart(make: MakeModel) -> None:
    told = Usage(input=100, output=20, reasoning=5, cache_read=60)
    with make(in_turn(Say("Well.", usage=told))) as model:
        usage = _reply(model, _answered(model)).usage
    seen = usage and (usage.input, usage.output, usage.reasoning, usage.cache_read)
    rule(seen == (100, 20, 5, 60), "input, output, reasoning and what was read from the cache are told apart", usage)


def _why_a_reply_ended_is_told(make: MakeModel) -> None:
    finishes: tuple[Finish, ...] = ("stop", "length", "content-filter")
    with make(in_turn(*(Say("Well.", finish=finish) for finish in finishes))) as model:
        seen = tuple(_reply(model, _answered(model)).finish for _ in finishes)
    rule(seen == finishes, "the reason why a reply ended is told", seen)


def _system_prompt_and_tools_are_sent(make: MakeModel) -> None:
    asked: list[ScriptedRequest] = []

    def script(request: ScriptedRequest) -> Scripted:
        asked.append(request)
        return Say("Well.")

    with make(script) as model:
        _answered(model, system="Keep to the rules.", tools=(BASH,), output_tokens=321)
    body = asked[0].body
    rule("Keep to the rules." in str(body), "the system prompt is sent", body)
    rule(BASH.description in format_named(model.format).tools_text(body), "the tools are offered", body)
    rule(asked[0].stream, "the reply is asked for as a stream", body)
    rule(text_of(asked[0].messages[-1]) == "How is the parser?", "the messages are sent as they are", body)


def _what_is_too_large_is_an_overflow(make: MakeModel) -> None:
    with make(in_turn(Fail(400, TOO_LONG))) as model:
        _rule_overflow(_failure(model, []))


def _an_overflow_in_a_stream_is_one(make: MakeModel) -> None:
    with make(in_turn(Say(LONG, trouble=Trouble(cut_after_events=4, error_event=TOO_LONG)))) as model:
        _rule_overflow(_failure(model, []))


def _rule_overflow(error: ModelError | None) -> None:
    rule(isinstance(error, ModelOverflow), "a request refused as too large is a `ModelOverflow`", repr(error))
    rule(getattr(error, "limit_tokens", 0) == 4_096, "the limit is told where the provider told it", error)
    rule(getattr(error, "refusal", None), "what the refusal said is kept for whoever learns from it", error)


def _failures_say_who_can_act(make: MakeModel) -> None:
    with make(in_turn(*map(Fail, KINDS))) as model:
        for status, kind in KINDS.items():
            error = _failure(model, [])
            rule(type(error) is kind, f"status {status} is a {kind.__name__}", repr(error))
            rule("\n" not in str(error), "an error is one line", error)


def _a_reply_that_breaks_off_is_no_reply(make: MakeModel) -> None:
    for event in (None, BUSY):
        heard: list[Heard] = []
        with make(in_turn(Say(LONG, trouble=Trouble(cut_after_events=9, error_event=event)))) as model:
            error = _failure(model, heard)
        rule(
            type(error) is ModelBusy,
            "a reply that breaks off, or whose stream reports trouble, is a `ModelBusy`",
            error,
        )
        rule(any(isinstance(piece, Said) for piece in heard), "what was said before is told", heard)
        rule(not any(isinstance(piece, Replied) for piece in heard), "half a reply is not told as a whole one", heard)


def _a_summary_is_told_as_it_is_written(make: MakeModel) -> None:
    request = own_request("[user] Port the parser.", Additions(), output_tokens=500)
    with make(in_turn(Say(LONG, reasoning="Hm."), Say("Not", finish="length"), Fail(400, TOO_LONG))) as model:
        whole, cut = list(model.summarise(request)), list(model.summarise(request))
        error = _raised(lambda: list(model.summarise(request)))
    told = whole[-1]
    rule(
        isinstance(told, Told) and told.answer == Answer(LONG), "a summary ends with all of it, without reasoning", told
    )
    rule(isinstance(told, Told) and told.usage and told.model == model.ref.id, "usage and model are told with it", told)
    rule("".join(map(str, whole[:-1])) == LONG and len(whole) > 2, "a summary is given piece by piece", whole)
    rule(isinstance(cut[-1], Told) and cut[-1].answer.finish == "length", "that a summary was cut off is told", cut)
    _rule_overflow(error)


MODEL_RULES = (
    _scripted(_the_reply_comes_in_pieces_and_then_whole, Say(LONG)),
    _scripted(_usage_is_reported, Say(LONG)),
    _scripted(_closing_breaks_the_request_off, Say(LONG, trouble=SLOW), Say(LONG)),
    _reasoning_is_told_apart,
    _parallel_calls_stay_together,
    _usage_tells_cache_and_reasoning_apart,
    _why_a_reply_ended_is_told,
    _system_prompt_and_tools_are_sent,
    _what_is_too_large_is_an_overflow,
    _an_overflow_in_a_stream_is_one,
    _failures_say_who_can_act,
    _a_reply_that_breaks_off_is_no_reply,
    _a_summary_is_told_as_it_is_written,
)
