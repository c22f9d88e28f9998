"""What all adapters share: read a stream of bytes as pieces of a reply, and pieces of a reply as a summary."""

from collections.abc import Iterable, Iterator

from infold.catalogue import cost_of, lookup
from infold.core.judge import ModelAnswer
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.formats.codec import Decoded
from infold.formats.registry import WireFormat
from infold.formats.requests import read_answer, without_bound_thinking
from infold.formats.streams import Delta
from infold.models.failures import Endpoint, translate_stream_error
from infold.ports import Calling, Heard, ModelRequest, Replied, Said, Thought

ASSUMED_OUTPUT_TOKENS = 8_192
"""The output limit of an unknown model, for providers that require one."""


def read_stream(endpoint: Endpoint, wire: WireFormat, pieces: Iterable[bytes]) -> Iterator[Heard]:
    """Yield the pieces of a stream, then the whole reply.

    Raise the error that the stream reports, or `ModelBusy` if it ends before the reply is complete or the provider
    marks it as failed.
    """
    builder = wire.new_builder()
    for piece in pieces:
        yield from map(_piece_of, builder.feed(piece))
        if builder.error() is not None:
            break
    yield from map(_piece_of, builder.close())
    if builder.error() is not None:
        raise translate_stream_error(endpoint, builder.error())
    body = builder.reply()
    if body is None or not builder.is_finished:
        raise endpoint.broken_reply()
    if wire.finish(body) == "error":
        raise endpoint.failed_reply()
    yield Replied(body)


def _piece_of(delta: Delta) -> Heard:
    match delta.kind:
        case "text":
            return Said(delta.text)
        case "reasoning":
            return Thought(delta.text)
        case "call":
            return Calling(delta.text)


def build_summary_request(wire: WireFormat, request: SummaryRequest) -> ModelRequest:
    """Return the request for a summary in a wire format; it offers no tools unless it shares the ordinary request's prefix."""
    if request.shares_prefix and request.items:
        shown = [*request.items, *wire.encode_new(request.messages[-1])]
        return ModelRequest(shown, request.system, request.tools or (), request.output_tokens, request.betas)
    items = without_bound_thinking(wire, wire.encode(request.messages, Decoded(wire.name, (), ())))
    return ModelRequest(items, request.system, output_tokens=request.output_tokens)


def read_summary(ref: ModelRef, wire: WireFormat, pieces: Iterable[Heard]) -> Iterator[str | ModelAnswer]:
    """Yield the pieces of a summary, then the whole with usage and cost."""
    for piece in pieces:
        if isinstance(piece, Said):
            yield piece.text
        elif isinstance(piece, Replied):
            usage = wire.usage(piece.body)
            yield ModelAnswer(read_answer(wire, piece.body), ref.id, usage, cost_of(ref.full_name, usage))


def output_limit(ref: ModelRef) -> int:
    """Return the model's output limit, for providers that require one."""
    return lookup(ref.full_name).entry.output_tokens or ASSUMED_OUTPUT_TOKENS
