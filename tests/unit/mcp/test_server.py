"""The tools in the protocol's shapes, spoken to by the SDK's own client in this process."""

import asyncio
import base64

import pytest
from mcp import Client
from mcp.types import AudioContent, CallToolResult, EmbeddedResource, ImageContent, ListToolsResult, TextContent

from infold.core.entries import MessageEntry
from infold.core.messages import FilePart, MessageId, SessionId, UserMessage
from infold.core.recall import Document
from infold.mcp.server import MOST_MEDIA_BYTES, server_for
from infold.mcp.tools import INSTRUCTIONS, RecallTools
from infold.ports import SessionKey
from infold.stores.memory import MemoryStore
from infold.testing.builders import numbered, user


class Broken(MemoryStore):
    """A store that fails in a way nobody foresaw."""

    def read(self, key: SessionKey, handle: str) -> Document:
        """Fail."""
        del key, handle
        raise ZeroDivisionError("of all things")


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both ways in which clients begin: with a discovery, and with the older handshake."""
    return str(request.param)


def kept(store: MemoryStore) -> RecallTools:
    """A toolbox on a session with one message."""
    entries = [MessageEntry(message) for message in numbered([user("The harbour key is quay-4711.")])]
    store.append(SessionKey("", SessionId("s")), entries, expected=0)
    return RecallTools(store)


async def listing(mode: str) -> tuple[ListToolsResult, str | None]:
    """The tools and the instructions that a client gets."""
    async with Client(server_for(kept(MemoryStore())), mode=mode) as client:
        return await client.list_tools(), client.instructions


async def calling(toolbox: RecallTools, name: str, arguments: dict[str, object], mode: str = "auto") -> CallToolResult:
    """What a client gets for a call."""
    async with Client(server_for(toolbox), mode=mode) as client:
        return await client.call_tool(name, arguments)


def told(answer: CallToolResult) -> str:
    """The text of an answer."""
    [content] = answer.content
    assert isinstance(content, TextContent)
    return content.text


def test_clients_are_told_the_tools(mode: str) -> None:
    """B6: three tools that only read, so that a client need not ask before each call; and what the server is for."""
    tools, instructions = asyncio.run(listing(mode))

    assert [tool.name for tool in tools.tools] == ["recall", "read", "sessions", "compact"]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.tools)
    assert instructions == INSTRUCTIONS


def test_a_call_is_answered(mode: str) -> None:
    """B6: what was said is found by words and by handle."""
    asked: dict[str, dict[str, object]] = {"recall": {"query": "harbour key"}, "read": {"handle": "0.0"}}
    for name, arguments in asked.items():
        answer = asyncio.run(calling(kept(MemoryStore()), name, arguments, mode))

        assert told(answer) == "[0.0]\nThe harbour key is quay-4711."
        assert not answer.is_error


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read", {"handle": "99.0"}, "no part '99.0'"),
        ("recall", {"query": "x", "session": "gone"}, "there is no session 'gone'"),
        ("recall", {}, "no query"),
        ("write", {}, "there is no tool 'write'"),
    ],
)
def test_a_failure_is_an_answer(name: str, arguments: dict[str, object], words: str) -> None:
    """B6: what is wrong reaches the model as text that is marked as an error."""
    answer = asyncio.run(calling(kept(MemoryStore()), name, arguments))

    assert answer.is_error
    assert words in told(answer)


def test_an_unforeseen_failure_is_an_answer_too() -> None:
    """B13: a mistake of ours names its kind, and does not end the server."""
    answer = asyncio.run(calling(kept(Broken()), "read", {"handle": "0.0"}))

    assert answer.is_error
    assert told(answer) == "infold failed (ZeroDivisionError): of all things"


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [("image/png", ImageContent), ("audio/wav", AudioContent), ("application/pdf", EmbeddedResource)],
)
def test_a_medium_comes_with_its_answer(media_type: str, kind: type) -> None:
    """B35: a client that asks for a medium's handle gets what is known of it, and the medium itself."""
    store, key = MemoryStore(), SessionKey("", SessionId("s"))
    store.keep_media(key, {"d": b"bytes of it", "large": bytes(MOST_MEDIA_BYTES + 1)})
    parts = (FilePart(media_type, 9, "a b.x", byte_size=11, digest="d"), FilePart(media_type, 9, digest="large"))
    store.append(key, [MessageEntry(UserMessage(MessageId("m"), parts))], expected=0)
    told, medium = asyncio.run(calling(RecallTools(store), "recall", {"query": "0.0"})).content
    _, large = asyncio.run(calling(RecallTools(store), "read", {"handle": "[0.1]"})).content

    assert isinstance(told, TextContent)
    assert "11 bytes" in told.text
    assert isinstance(medium, kind)
    assert base64.b64encode(b"bytes of it").decode() in medium.model_dump_json()
    assert isinstance(large, TextContent)
    assert "too many to be shown here" in large.text
    assert len(asyncio.run(calling(RecallTools(store), "recall", {"query": "a b.x"})).content) == 1
