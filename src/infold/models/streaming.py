"""From the bytes of a stream to what is heard of a model, and from that to a summary (S3.10): what all adapters share."""

from collections.abc import Iterable, Iterator

from infold.catalogue import cost_of, lookup
from infold.core.judge import Told
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.formats.codec import Decoded
from infold.formats.registry import WireFormat
from infold.formats.requests import answer_of, without_bound_thinking
from infold.formats.streams import Delta, builder_for, deltas_for
from infold.models.failures import Endpoint, translate_stream_error
from infold.ports import Calling, Heard, ModelRequest, Replied, Said, Thought

ASSUMED_OUTPUT_TOKENS = 8_192
"""The longest answer that is asked of a model nobody knows, where the provider wants to be told one."""


def read_stream(line: Endpoint, wire: WireFormat, pieces: Iterable[bytes]) -> Iterator[Heard]:
    """What a stream says, and in the end the whole reply.

    Raises the error that the stream reports, or `ModelBusy` where it ends before the provider said that the reply is complete,
    or with its word that the reply went wrong.
    """
    builder, deltas = builder_for(wire.name), deltas_for(wire.name)
    for piece in pieces:
        builder.feed(piece)
        yield from map(_piece_of, deltas.feed(piece))
        if builder.error() is not None:
            break
    builder.close()
    yield from map(_piece_of, deltas.close())
    if builder.error() is not None:
        raise translate_stream_error(line, builder.error())
    body = builder.reply()
    if body is None or not builder.is_finished:
        raise line.broke_off()
    if wire.finish(body) == "error":
        raise line.spoilt()
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
    """The request that asks for a summary, in a wire format; no tools are offered, whatever calls it shows."""
    items = without_bound_thinking(wire, wire.encode(request.messages, Decoded(wire.name, (), ())))
    return ModelRequest(items, request.system, output_tokens=request.output_tokens)


def read_summary(ref: ModelRef, wire: WireFormat, pieces: Iterable[Heard]) -> Iterator[str | Told]:
    """What is heard of a model as a summary: pieces of it as they are written, then all of it, with usage and cost."""
    for piece in pieces:
        if isinstance(piece, Said):
            yield piece.text
        elif isinstance(piece, Replied):
            usage = wire.usage(piece.body)
            yield Told(answer_of(wire, piece.body), ref.id, usage, cost_of(ref.full_name, usage))


def output_limit(ref: ModelRef) -> int:
    """The longest answer the model gives, for providers that want to be told one."""
    return lookup(ref.full_name).entry.output_tokens or ASSUMED_OUTPUT_TOKENS
