"""Media in sessions: kept once in the store, brought back after reopening, and sent again from the log alone."""

import asyncio
import base64
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.provider_rules import problems

from infold import AsyncSession, Session, SessionSettings, open_store
from infold.core.events import Event, MediaNotStored
from infold.errors import UnknownReference
from infold.formats.registry import FORMATS, WireFormat, format_named
from infold.ports import FullStore, SessionKey
from infold.session.media import Medium
from infold.stores.memory import MemoryStore

Item = dict[str, Any]

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
PAPER = b"%PDF-1.7 " + b"words " * 900
NOISE = b"RIFF" + bytes(400)


def b64(data: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(data).decode()


def url(kind: str, data: bytes) -> str:
    """Bytes as a `data:` address."""
    return f"data:{kind};base64,{b64(data)}"


ATTACHED: dict[str, Item] = {
    "anthropic-messages": {
        "role": "user",
        "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PICTURE)}},
            {
                "type": "document",
                "title": "paper.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": b64(PAPER)},
            },
            {"type": "text", "text": "Look."},
        ],
    },
    "openai-chat": {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": url("image/png", PICTURE)}},
            {"type": "file", "file": {"filename": "paper.pdf", "file_data": url("application/pdf", PAPER)}},
            {"type": "input_audio", "input_audio": {"data": b64(NOISE), "format": "wav"}},
            {"type": "text", "text": "Look."},
        ],
    },
    "openai-responses": {
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": url("image/png", PICTURE)},
            {"type": "input_file", "filename": "paper.pdf", "file_data": url("application/pdf", PAPER)},
            {"type": "input_text", "text": "Look."},
        ],
    },
    "gemini": {
        "role": "user",
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": b64(PICTURE)}},
            {"inlineData": {"mimeType": "application/pdf", "data": b64(PAPER), "displayName": "paper.pdf"}},
            {"inlineData": {"mimeType": "audio/wav", "data": b64(NOISE)}},
            {"text": "Look."},
        ],
    },
    "bedrock-converse": {
        "role": "user",
        "content": [
            {"image": {"format": "png", "source": {"bytes": b64(PICTURE)}}},
            {"document": {"format": "pdf", "name": "paper", "source": {"bytes": PAPER}}},
            {"text": "Look."},
        ],
    },
}
each_wire = pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)


def session_on(store: FullStore, wire: WireFormat, **settings: Any) -> Session:
    """Session `s` of a store."""
    return Session(store, "s", SessionSettings(window=64_000, format=wire.name, **settings))


def said(wire: WireFormat, text: str) -> Item:
    """A user's words on that wire."""
    return {"role": "user", "parts": [{"text": text}]} if wire.name == "gemini" else {"role": "user", "content": text}


@each_wire
def test_media_are_there_after_reopening(wire: WireFormat, tmp_path: Path) -> None:
    """B35: another process gets the very bytes of each medium by its handle, whatever wire it came on."""
    place = str(tmp_path / "sessions.db")
    with open_store(place) as store:
        session_on(store, wire).prepare([ATTACHED[wire.name]])
    with open_store(place) as store:
        session = session_on(store, wire)
        picture, paper = session.media("0.0"), session.media("0.1")

    assert picture == (Medium("image/png", "", PICTURE),)
    assert paper[0].data == PAPER
    assert paper[0].media_type == "application/pdf"


@each_wire
def test_a_session_that_goes_on_shows_its_media(wire: WireFormat, tmp_path: Path) -> None:
    """B35: a session opened again by only its new messages sends the media themselves, in a shape that reads as they came."""
    place = str(tmp_path / "sessions.db")
    with open_store(place) as store:
        session_on(store, wire).prepare_new([ATTACHED[wire.name]])
    with open_store(place) as store:
        sent = session_on(store, wire).prepare_new([said(wire, "And now?")]).messages

    assert b64(PICTURE) in str(sent)
    assert b64(PAPER) in str(sent)
    assert problems(wire, sent) == ()
    before, after = wire.decode([ATTACHED[wire.name]]).messages[0], wire.decode(sent).messages[0]
    assert {getattr(part, "digest", "") for part in before.parts} == {
        getattr(part, "digest", "") for part in after.parts
    }


def test_media_of_a_result_come_back(tmp_path: Path) -> None:
    """B35: what a tool brought is kept under its result's handle, and shown again in the result."""
    wire = format_named("anthropic-messages")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PICTURE)}}
    items: list[Item] = [
        {"role": "user", "content": "Take a picture."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "shot", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [image]}]},
    ]
    place = str(tmp_path / "sessions.db")
    with open_store(place) as store:
        session_on(store, wire).prepare(items)
    with open_store(place) as store:
        session = session_on(store, wire)
        media, sent = session.media("2.0"), session.prepare_new([]).messages
        told = session.recall("2.0")

    assert media == (Medium("image/png", "", PICTURE),)
    assert sent[-1]["content"][0]["content"] == [image]
    assert "[attached: image/png (5 kB)]" in told


def test_results_on_other_wires_name_their_media(tmp_path: Path) -> None:
    """B35: where a wire takes no media in a result, a session that goes on says in words what was there."""
    wire = format_named("openai-chat")
    call = {"id": "c", "type": "function", "function": {"name": "shot", "arguments": "{}"}}
    items: list[Item] = [
        {"role": "user", "content": "Take a picture."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": [
                {"type": "text", "text": "Here."},
                {"type": "image_url", "image_url": {"url": url("image/png", PICTURE)}},
            ],
        },
    ]
    place = str(tmp_path / "sessions.db")
    with open_store(place) as store:
        session_on(store, wire).prepare(items)
    with open_store(place) as store:
        sent = session_on(store, wire).prepare_new([]).messages

    assert sent[-1]["content"] == "Here.\n[image/png]"


def test_a_medium_over_the_limit_is_told(tmp_path: Path) -> None:
    """B22, B35: what is too large to keep is named by an event and in the log, and what is not keeps its bytes."""
    wire, events = format_named("anthropic-messages"), list[Event]()
    with open_store(str(tmp_path / "sessions.db")) as store:
        limited = session_on(store, wire, media_limit_bytes=len(PICTURE), on_event=events.append)
        ready = limited.prepare([ATTACHED[wire.name]])
        with pytest.raises(UnknownReference, match="raise media_limit_bytes"):
            limited.media("0.1")

        assert limited.media("0.0")[0].data == PICTURE
        assert "not stored" in limited.recall("0.1")
        assert ready.messages == [ATTACHED[wire.name]]
        assert events == [MediaNotStored("s", "application/pdf", "paper.pdf", len(PAPER), len(PICTURE))]


def test_media_may_be_kept_out(tmp_path: Path) -> None:
    """B35: with a limit of 0 nothing is kept, and nobody is told of each medium."""
    wire, events = format_named("anthropic-messages"), list[Event]()
    place = tmp_path / "sessions.db"
    with open_store(str(place)) as store:
        session = session_on(store, wire, media_limit_bytes=0, on_event=events.append)
        session.prepare([ATTACHED[wire.name]])
        with pytest.raises(UnknownReference):
            session.media("0.0")

    assert events == []


def test_a_store_without_media_keeps_the_rest() -> None:
    """B35: on a store that cannot keep media a session works as ever, and says that the bytes are not stored."""

    class Plain:
        """A store of another maker, with what every store has."""

        def __init__(self) -> None:
            store = MemoryStore()
            for name in (
                "append",
                "newest_first",
                "hold",
                "tenants",
                "sessions",
                "delete",
                "expire",
                "trim",
                "search",
                "read",
            ):
                setattr(self, name, getattr(store, name))

    wire, store = format_named("anthropic-messages"), cast(FullStore, Plain())
    session = session_on(store, wire)
    session.prepare_new([ATTACHED[wire.name]])
    again = session_on(store, wire)

    assert "not stored" in again.recall("0.0")
    assert "[image/png]" in str(again.prepare_new([]).messages)
    with pytest.raises(UnknownReference):
        again.media("0.0")


@pytest.mark.parametrize("handle", ["0.2", "0.9", "7.0", "x", "", "9" * 40 + ".0"])
def test_a_handle_without_a_medium_is_refused(handle: str) -> None:
    """B6: a handle that names text, nothing, or is none says so."""
    session = session_on(MemoryStore(), format_named("anthropic-messages"))
    session.prepare([ATTACHED["anthropic-messages"]])

    with pytest.raises(UnknownReference):
        session.media(handle)


def test_an_address_is_told_in_place_of_bytes() -> None:
    """B35: a medium that was sent by its address is the provider's to fetch, and the error names the address."""
    session = session_on(MemoryStore(), format_named("openai-chat"))
    block = {"type": "image_url", "image_url": {"url": "https://files.test/a.png"}}
    session.prepare([{"role": "user", "content": [block]}])

    with pytest.raises(UnknownReference, match=r"fetch it from https://files\.test/a\.png"):
        session.media("0.0")


def test_media_are_kept_once_and_go_with_the_session() -> None:
    """B27, B35: a picture that is sent again and again takes its room once, and deleting the session gives it back."""
    store, wire = MemoryStore(), format_named("anthropic-messages")
    session = session_on(store, wire)
    items = [ATTACHED[wire.name]]
    session.prepare(items)
    before = next(store.sessions("")).stored_bytes
    for number in range(3):
        items = [*items, {"role": "assistant", "content": f"Yes {number}."}, ATTACHED[wire.name]]
        session.prepare(items)
    grown = next(store.sessions("")).stored_bytes - before
    key, digest = SessionKey("", session.log.session_id), session.files("0.0")[0].digest
    kept = store.medium(key, digest)
    store.delete(key)

    assert grown < len(PICTURE)
    assert kept == PICTURE
    assert store.medium(key, digest) is None


def test_a_reply_may_hold_media() -> None:
    """B35: what a model made is kept like what it was sent."""
    session = session_on(MemoryStore(), format_named("gemini"))
    session.prepare([said(format_named("gemini"), "Draw it.")])
    made = {"inlineData": {"mimeType": "image/png", "data": b64(PICTURE)}}
    session.record({"candidates": [{"content": {"role": "model", "parts": [made]}, "finishReason": "STOP"}]})

    assert session.media("1.0")[0].data == PICTURE


def test_async_sessions_do_the_same() -> None:
    """B35: awaited, media are kept and brought back alike."""

    async def work() -> tuple[Medium, ...]:
        settings = SessionSettings(window=64_000, format="anthropic-messages")
        session = await AsyncSession.open(MemoryStore(), "s", settings)
        await session.prepare([ATTACHED["anthropic-messages"]])
        assert [file.media_type for file in await session.files("0.1")] == ["application/pdf"]
        return await session.media("0.0")

    assert asyncio.run(work())[0].data == PICTURE


def test_sdk_bytes_are_kept() -> None:
    """B35: Gemini's SDK holds raw bytes; they are kept as they are."""
    session = session_on(MemoryStore(), format_named("gemini"))
    session.prepare([{"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": PICTURE}}]}])

    assert session.media("0.0")[0].data == PICTURE


def test_an_old_log_still_sends_the_callers_media() -> None:
    """B12, B35: a session from before media were kept goes on with the caller's own items, altered ones included."""
    wire, store = format_named("anthropic-messages"), MemoryStore()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PICTURE)}}
    items: list[Item] = [
        {"role": "user", "content": [{"type": "text", "text": "long words " * 9_000}, image]},
    ]
    session_on(store, wire, media_limit_bytes=0, policy="infold").prepare(items)
    sent = Session(store, "s", SessionSettings(window=16_000, format=wire.name)).prepare(items).messages

    assert sent[0]["content"][0]["text"] != items[0]["content"][0]["text"]
    assert sent[0]["content"][1] == image
