"""What media cost."""

import base64
import struct

import pytest

from infold.formats.media import (
    ImageSize,
    Provider,
    data_url,
    decode_base64,
    file_part,
    image_size,
    image_tokens,
    media_bytes,
    media_digest,
    media_tokens,
    parse_data_url,
)


def png(width: int, height: int) -> str:
    """The head of a PNG."""
    return _encoded(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0")


def jpeg(width: int, height: int, *, metadata: int = 0) -> str:
    """A JPEG's head, perhaps behind metadata."""
    extra = b"\xff\xe1" + struct.pack(">H", metadata + 2) + b"\0" * metadata if metadata else b""
    frame = b"\xff\xff\xc0" + struct.pack(">HBHH", 17, 8, height, width) + b"\0" * 12
    return _encoded(b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF" + b"\0" * 10 + extra + frame)


def webp(kind: bytes, body: bytes) -> str:
    """The head of a WebP."""
    return _encoded(b"RIFF\0\0\0\0WEBP" + kind + body + b"\0" * 20)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "data",
    [
        png(640, 480),
        jpeg(640, 480),
        jpeg(640, 480, metadata=60_000),
        _encoded(b"GIF89a" + struct.pack("<HH", 640, 480) + b"\0" * 4),
        webp(b"VP8X", b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
        webp(b"VP8L", b"\0" * 4 + b"\x2f" + (639 | 479 << 14).to_bytes(4, "little")),
        webp(b"VP8 ", b"\0" * 10 + struct.pack("<HH", 640, 480)),
    ],
)
def test_sizes_are_read_from_headers(data: str) -> None:
    """PNG, JPEG, GIF and WebP tell their size in their first bytes, whole or with lines broken."""
    assert image_size(data) == ImageSize(640, 480)
    assert image_size(f"{data[:9]}\n{data[9:]}") == ImageSize(640, 480)


def test_a_large_image_is_read_by_its_head_alone() -> None:
    """What follows the header is not even decoded, so it may be damaged."""
    data = png(640, 480).rstrip("=")[:32]
    assert image_size(data + "A" * 5_000 + "!" * 1_000_000) == ImageSize(640, 480)


@pytest.mark.parametrize(
    "data", ["", "!!!!", "AAAA", _encoded(b"\xff\xd8\xff"), _encoded(b"RIFF\0\0\0\0WEBPxxxx" + b"\0" * 20), png(0, 0)]
)
def test_what_has_no_readable_header_has_no_size(data: str) -> None:
    """Damaged or unknown images have no size and cost the most an image can."""
    assert image_size(data) is None
    assert media_tokens("anthropic", "image/png", data) == 1_600


@pytest.mark.parametrize(
    ("provider", "size", "detail", "tokens"),
    [
        ("openai", ImageSize(4_096, 4_096), "low", 85),
        ("openai", ImageSize(512, 512), "", 256),
        ("openai", ImageSize(256, 256), "", 255),
        ("openai", ImageSize(2_048, 4_096), "high", 1_536),
        ("openai", ImageSize(3_200, 3_200), "original", 10_000),
        ("openai", None, "", 1_536),
        ("anthropic", ImageSize(1_000, 1_000), "", 1_334),
        ("anthropic", ImageSize(4_000, 4_000), "", 1_600),
        ("gemini", ImageSize(384, 384), "", 258),
        ("gemini", ImageSize(1_000, 700), "", 516),
        ("gemini", None, "", 4_128),
    ],
)
def test_images_cost_what_the_provider_says(
    provider: Provider, size: ImageSize | None, detail: str, tokens: int
) -> None:
    """Each provider counts tiles, patches or pixels in its own way, up to its own most."""
    assert image_tokens(provider, size, detail=detail) == tokens


@pytest.mark.parametrize(
    ("media_type", "byte_size", "tokens"),
    [
        ("application/pdf", 90_000, 9_000),
        ("application/pdf", 0, 30_000),
        ("audio/wav", 320_000, 320),
        ("audio/mpeg", 40_000, 320),
        ("audio/mpeg", 0, 1_920),
        ("video/mp4", 600_000, 3_000),
        ("text/csv", 3_000, 1_000),
        ("application/zip", 0, 1_600),
    ],
)
def test_other_media_cost_by_their_size(media_type: str, byte_size: int, tokens: int) -> None:
    """Pages, seconds or bytes are estimated from the size; an unknown size has a stated cost."""
    assert media_tokens("anthropic", media_type, "A" * (byte_size * 4 // 3)) == tokens


def test_base64_is_never_in_the_part() -> None:
    """A part holds what a medium is and costs, not its bytes."""
    part = file_part("openai", "image/*", reference=f"data:image/png;base64,{png(512, 512)}")
    assert (part.media_type, part.tokens, part.reference) == ("image/png", 256, "")
    assert part.byte_size == 29


def test_only_data_addresses_hold_media() -> None:
    """An address on the web is no medium to measure."""
    assert parse_data_url("https://example.org/a.png") is None
    assert file_part("gemini", "", reference="gs://a/b").media_type == "application/octet-stream"


def test_bytes_are_found_by_their_digest() -> None:
    """B35: whatever shape holds a medium, its bytes are found by the digest of its part, and nothing else is decoded."""
    data, other = _encoded(b"a picture"), _encoded(b"another one")
    wanted = {media_digest(data), media_digest(other), "missing"}
    item = {
        "a": [{"url": f"data:image/png;base64,{data}"}, ("x", {"deep": {"bytes": b"another one"}})],
        "n": 7,
        "s": "no",
    }

    assert media_bytes(item, wanted) == {media_digest(data): b"a picture", media_digest(other): b"another one"}
    assert media_bytes({"data": data}, set()) == {}


def test_base64_of_either_alphabet_is_read() -> None:
    """B35: line breaks, the other alphabet and missing padding do not change the bytes; what is no base64 is kept as it is."""
    assert decode_base64("-_\n8=") == decode_base64("+/8=") == b"\xfb\xff"
    assert decode_base64("YWI") == b"ab"
    assert decode_base64("no base64!") == b"no base64!"
    assert parse_data_url(data_url("image/png", b"ab")) == parse_data_url("data:image/png;base64,YWI=")
