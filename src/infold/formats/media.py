"""What images, documents and audio cost a model, by provider, from their headers and sizes.

Base64 is never counted as text. The rules are the providers' published ones; where the model decides between
two, or a size cannot be read, the higher cost is used: too high costs an early prune, too low a reported overflow.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Set
from math import ceil
from typing import Literal, TypeAlias

from msgspec import Struct

from infold.core.messages import FilePart, ToolResultPart

Provider: TypeAlias = Literal["openai", "anthropic", "gemini"]

LOW_DETAIL_TOKENS = 85
OPENAI_TILE_TOKENS, OPENAI_TILE_PIXELS = 170, 512
OPENAI_PATCH_PIXELS, OPENAI_MOST_PATCHES, OPENAI_MOST_ORIGINAL_PATCHES = 32, 1_536, 10_000
ANTHROPIC_PIXELS_PER_TOKEN, ANTHROPIC_MOST_TOKENS = 750, 1_600
GEMINI_TILE_TOKENS, GEMINI_TILE_PIXELS, GEMINI_SMALL_PIXELS = 258, 768, 384
GEMINI_MOST_TILES = 16
"""Gemini scales an image down to 3,072 pixels a side."""

PAGE_BYTES = 30_000
"""A page of a PDF; text alone is smaller, scans are larger but cost no model more."""
PAGE_TOKENS: dict[Provider, int] = {"openai": 1_500, "anthropic": 3_000, "gemini": 258}
MOST_PAGES = 1_000
SOUND_TOKENS_PER_SECOND: dict[Provider, int] = {"openai": 10, "anthropic": 32, "gemini": 32}
SOUND_BYTES_PER_SECOND = {"wav": 32_000, "pcm": 32_000, "l16": 32_000, "flac": 16_000}
COMPRESSED_SOUND_BYTES_PER_SECOND = 4_000
VIDEO_TOKENS_PER_SECOND, VIDEO_BYTES_PER_SECOND = 300, 60_000
TEXT_BYTES_PER_TOKEN = 3
UNKNOWN_TOKENS, UNKNOWN_PAGES, UNKNOWN_SECONDS = 1_600, 10, 60
"""Assumed for a medium of which only the address is known."""


SHORTEST_DATA = 4
"""Characters of base64 that hold at least one byte."""


class ImageSize(Struct, frozen=True):
    """An image's width and height in pixels."""

    width: int
    height: int


class DataUrl(Struct, frozen=True):
    """A medium inside a `data:` address: its type and its base64."""

    media_type: str
    data: str


def file_part(
    provider: Provider,
    media_type: str,
    *,
    data: str = "",
    reference: str = "",
    name: str = "",
    detail: str = "",
) -> FilePart:
    """Return a medium as a part; `data` is base64 and stays with its source."""
    found = parse_data_url(reference)
    if found is not None:
        media_type, data, reference = found.media_type or media_type, found.data, ""
    tokens = media_tokens(provider, media_type, data, detail=detail)
    digest = media_digest(data) if data else ""
    return FilePart(media_type or "application/octet-stream", tokens, name, reference, _byte_size(data), digest)


def media_digest(data: str) -> str:
    """Return the name under which a medium's bytes are stored: a hash of its base64, without decoding it."""
    return hashlib.blake2b(data.encode(), digest_size=16).hexdigest()


def media_bytes(item: object, wanted: Set[str]) -> dict[str, bytes]:
    """Return the bytes of the media with these digests that a wire item holds, whatever its format, walked without recursion."""
    found: dict[str, bytes] = {}
    waiting: list[object] = [item]
    while waiting and len(found) < len(wanted):
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, bytes):
            waiting.append(base64.b64encode(one).decode())
        elif isinstance(one, str) and len(one) >= SHORTEST_DATA:
            url = parse_data_url(one)
            data = one if url is None else url.data
            digest = media_digest(data)
            if digest in wanted:
                found[digest] = decode_base64(data)
    return found


def decode_base64(data: str) -> bytes:
    """Return the bytes that base64 of either alphabet encodes; for any other text, the text itself."""
    piece = re.sub(r"\s", "", data).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(piece + "=" * (-len(piece) % 4), validate=True)
    except (binascii.Error, ValueError):
        return data.encode()


def data_url(media_type: str, data: bytes) -> str:
    """Return a medium as a `data:` address."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def parse_data_url(url: str) -> DataUrl | None:
    """Return the medium in a `data:` address, `None` for any other address."""
    if not url.startswith("data:"):
        return None
    head, _, data = url[5:].partition(",")
    return DataUrl(head.split(";", 1)[0], data)


def media_tokens(provider: Provider, media_type: str, data: str, *, detail: str = "") -> int:
    """Return the cost of a medium; `data` is its base64, empty if only its address is known."""
    kind, _, subtype = media_type.partition("/")
    byte_size = _byte_size(data)
    if kind == "image":
        return image_tokens(provider, image_size(data), detail=detail)
    if subtype == "pdf":
        pages = min(MOST_PAGES, max(1, ceil(byte_size / PAGE_BYTES))) if data else UNKNOWN_PAGES
        return pages * PAGE_TOKENS[provider]
    if kind == "audio":
        return _sound_tokens(provider, subtype, byte_size)
    if kind == "video":
        return (
            ceil(byte_size / VIDEO_BYTES_PER_SECOND) * VIDEO_TOKENS_PER_SECOND if data else 60 * VIDEO_TOKENS_PER_SECOND
        )
    return ceil(byte_size / TEXT_BYTES_PER_TOKEN) if data else UNKNOWN_TOKENS


def _byte_size(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")


def _sound_tokens(provider: Provider, subtype: str, byte_size: int) -> int:
    rate = SOUND_BYTES_PER_SECOND.get(subtype.removeprefix("x-"), COMPRESSED_SOUND_BYTES_PER_SECOND)
    seconds = ceil(byte_size / rate) if byte_size else UNKNOWN_SECONDS
    return seconds * SOUND_TOKENS_PER_SECOND[provider]


def image_tokens(provider: Provider, size: ImageSize | None, *, detail: str = "") -> int:
    """Return the cost of an image; an unknown size costs the most an image can."""
    if provider == "anthropic":
        return _anthropic_image(size)
    if provider == "gemini":
        return _gemini_image(size)
    return LOW_DETAIL_TOKENS if detail == "low" else max(_openai_tiles(size), _openai_patches(size, detail))


def _anthropic_image(size: ImageSize | None) -> int:
    if size is None:
        return ANTHROPIC_MOST_TOKENS
    return min(ANTHROPIC_MOST_TOKENS, ceil(size.width * size.height / ANTHROPIC_PIXELS_PER_TOKEN))


def _gemini_image(size: ImageSize | None) -> int:
    if size is None:
        return GEMINI_MOST_TILES * GEMINI_TILE_TOKENS
    if max(size.width, size.height) <= GEMINI_SMALL_PIXELS:
        return GEMINI_TILE_TOKENS
    tiles = ceil(size.width / GEMINI_TILE_PIXELS) * ceil(size.height / GEMINI_TILE_PIXELS)
    return min(tiles, GEMINI_MOST_TILES) * GEMINI_TILE_TOKENS


def _openai_tiles(size: ImageSize | None) -> int:
    """The older rule: fit into 2,048 square, shortest side to 768, count tiles."""
    if size is None:
        size = ImageSize(2_048, 768)
    long, short = max(size.width, size.height), min(size.width, size.height)
    scale = min(1.0, 2_048 / long, 768 / short)
    tiles = ceil(long * scale / OPENAI_TILE_PIXELS) * ceil(short * scale / OPENAI_TILE_PIXELS)
    return LOW_DETAIL_TOKENS + tiles * OPENAI_TILE_TOKENS


def _openai_patches(size: ImageSize | None, detail: str) -> int:
    """The newer rule: patches, scaled down to the most allowed."""
    most = OPENAI_MOST_ORIGINAL_PATCHES if detail == "original" else OPENAI_MOST_PATCHES
    if size is None:
        return most
    return min(most, ceil(size.width / OPENAI_PATCH_PIXELS) * ceil(size.height / OPENAI_PATCH_PIXELS))


# Media of infold's own messages.


def media_label(file: FilePart) -> str:
    """Return a label for a medium whose bytes are not available."""
    reference = "" if file.reference.startswith("data:") else file.reference
    return f"[{' '.join(filter(None, (file.media_type, file.name, reference)))}]"


def output_with_labels(part: ToolResultPart) -> str:
    """Return a result's output with labels for its media, for a wire that takes no media in results."""
    return "\n".join(filter(None, [part.output, *map(media_label, part.files)]))


def is_image(file: FilePart) -> bool:
    """Return whether a medium is an image whose bytes or address are available."""
    return file.media_type.startswith("image/") and (has_address(file) or file.reference.startswith("data:"))


def is_pdf(file: FilePart) -> bool:
    """Return whether a medium is a PDF whose bytes are available."""
    return file.media_type == "application/pdf" and file.reference.startswith("data:")


def has_address(file: FilePart) -> bool:
    """Return whether a provider could fetch this medium itself."""
    return file.reference.startswith(("https://", "http://"))


# An image's size, from as little of its base64 as holds it.

FIRST_LOOK, SECOND_LOOK = 4_096, 400_000
"""Characters of base64 decoded: all headers but those of a JPEG with large metadata are in the first few."""


def image_size(data: str) -> ImageSize | None:
    """Return width and height from the header of a PNG, JPEG, GIF or WebP, `None` if they cannot be read."""
    size = _header_size(_decode_start(data, FIRST_LOOK))
    if size is None and data.startswith("/9j/"):
        size = _header_size(_decode_start(data, SECOND_LOOK))
    return size if size is not None and size.width > 0 and size.height > 0 else None


def _decode_start(data: str, characters: int) -> bytes:
    piece = re.sub(r"\s", "", data[:characters]).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(piece[: len(piece) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return b""


def _header_size(head: bytes) -> ImageSize | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return ImageSize(int.from_bytes(head[16:20]), int.from_bytes(head[20:24]))
    if head.startswith(b"GIF8") and len(head) >= 10:
        return ImageSize(int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little"))
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP" and len(head) >= 30:
        return _webp_size(head)
    return _jpeg_size(head) if head.startswith(b"\xff\xd8") else None


def _webp_size(head: bytes) -> ImageSize | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return ImageSize(1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little"))
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return ImageSize(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    if kind == b"VP8 ":
        mask = 0x3FFF
        return ImageSize(int.from_bytes(head[26:28], "little") & mask, int.from_bytes(head[28:30], "little") & mask)
    return None


def _jpeg_size(head: bytes) -> ImageSize | None:
    """Walk the segments to the frame header; 0xC4, 0xC8 and 0xCC lie in its range but mark other segments."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return ImageSize(int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7]))
        padding = marker == 0xFF
        at += 1 if padding else 2 + int.from_bytes(head[at + 2 : at + 4])
    return None
