"""Read transcripts that are not files."""

import io

from infold.transcripts.record import Transcript
from infold.transcripts.registry import read_source
from infold.transcripts.source import BOUNDS, Bounds, Source


def read_bytes(data: bytes, *, name: str, format: str | None = None, bounds: Bounds = BOUNDS) -> Transcript:  # noqa: A002 - as in `read_transcript`
    """Read a transcript from bytes; `name` is used in messages, and as a hint if the content is not recognised."""
    return read_source(Source(io.BytesIO(data), name=name, total_bytes=len(data), bounds=bounds), format)
