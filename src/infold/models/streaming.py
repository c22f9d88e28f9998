"""From the bytes of a stream to what is heard of a model, and from that to a summary (S3.10): what all adapters share."""

from collections.abc import Iterable, Iterator

from infold.catalogue import cost_of, lookup
from infold.core.judge import Told
from infold.core.messages import ModelRef
from infold.core.summary_request import SummaryRequest
from infold.formats.codec import Decoded
from infold.formats.registry import WireFormat
from infold.formats.requests import read_answer, without_bound_thinking
from infold.formats.streams import Delta
from infold.models.failures import Line, failure_in_stream
from infold.ports import Calling, Heard, ModelRequest, Replied, Said, Thought

ASSUMED_OUTPUT_TOKENS = 8_192
"""The longest answer that is asked of a model nobody knows, where the provider wants to be told one."""


def heard(line: Line, wire: WireFormat, pieces: Iterable[bytes]) -> Iterator[Heard]:
    """What a stream says, and in the end the whole reply.

    Raises the error that the stream reports, or `ModelBusy` where it ends before the provider said that the reply is complete,
    or with its word that the reply went wrong.
    """
    builder = wire.new_builder()
    for piece in pieces:
        yield from map(_heard, builder.feed(piece))
        if builder.error() is not None:
            break
    yield from map(_heard, builder.close())
    if builder.error() is not None:
        raise failure_in_stream(line, builder.error())
    body = builder.reply()
    if body is None or not builder.is_finished:
        raise line.broke_off()
    if wire.finish(body) == "error":
        raise line.spoilt()
    yield Replied(body)


def _heard(delta: Delta) -> Heard:
    match delta.kind:
        case "text":
            return Said(delta.text)
        case "reasoning":
            return Thought(delta.text)
        case "call":
            return Calling(delta.text)


def summary_asked(wire: WireFormat, request: SummaryRequest) -> ModelRequest:
    """The request that asks for a summary, in a wire format; no tools are offered, whatever calls it shows."""
    items = without_bound_thinking(wire, wire.encode(request.messages, Decoded(wire.name, (), ())))
    return ModelRequest(items, request.system, output_tokens=request.output_tokens)


def summary_told(ref: ModelRef, wire: WireFormat, pieces: Iterable[Heard]) -> Iterator[str | Told]:
    """What is heard of a model as a summary: pieces of it as they are written, then all of it, with usage and cost."""
    for piece in pieces:
        if isinstance(piece, Said):
            yield piece.text
        elif isinstance(piece, Replied):
            usage = wire.usage(piece.body)
            yield Told(read_answer(wire, piece.body), ref.id, usage, cost_of(ref.full_name, usage))


def output_limit(ref: ModelRef) -> int:
    """The longest answer the model gives, for providers that want to be told one."""
    return lookup(ref.full_name).entry.output_tokens or ASSUMED_OUTPUT_TOKENS
