"""The MCP server: the tools of `tools.py` in the protocol's types, over standard input and output.

Standard output belongs to the protocol; nothing here writes to it. A failure becomes a result marked as an error, so
that the model can read what to do, and the server goes on.
"""

import base64
from importlib.metadata import version
from urllib.parse import quote

import anyio
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from infold.errors import InfoldError
from infold.mcp.tools import INSTRUCTIONS, TOOLS, RecallTools
from infold.session.media import Medium

MOST_MEDIA_BYTES = 5_000_000
"""The largest image that providers accept, to which a client passes it on."""

READS_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
"""Lets a client call without asking: the tools only read, and only from the store."""


def serve(toolbox: RecallTools) -> None:
    """Serve over standard input and output until the client closes them."""
    anyio.run(_serve, toolbox)


async def _serve(toolbox: RecallTools) -> None:
    server = server_for(toolbox)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def server_for(toolbox: RecallTools) -> Server[dict[str, object]]:
    """Return the server of these tools, ready to run on any transport."""

    async def list_tools(
        context: ServerRequestContext[dict[str, object]], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        del context, params
        tools = [
            Tool(name=tool.name, description=tool.description, input_schema=tool.arguments, annotations=READS_ONLY)
            for tool in TOOLS
        ]
        return ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext[dict[str, object]], params: CallToolRequestParams
    ) -> CallToolResult:
        del context
        # In a thread, since stores are synchronous: a long search must not keep the server from being asked other things.
        return await to_thread.run_sync(_answer, toolbox, params)

    return Server(
        "infold",
        version=version("infold"),
        title="infold recall",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _answer(toolbox: RecallTools, params: CallToolRequestParams) -> CallToolResult:
    try:
        given = params.arguments or {}
        told = _text_result(toolbox.call(params.name, given))
        shown = [_media_content(params, medium) for medium in toolbox.media(params.name, given)]
        return CallToolResult(content=[*told.content, *shown], is_error=False)
    except InfoldError as error:
        return _text_result(str(error), is_error=True)
    except Exception as error:  # a face answers whatever happens; the client shows it, and the next call may succeed
        return _text_result(f"infold failed ({type(error).__name__}): {error}", is_error=True)


def _text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def _media_content(
    params: CallToolRequestParams, medium: Medium
) -> TextContent | ImageContent | AudioContent | EmbeddedResource:
    """Return a medium in the protocol's type, or a note if it is too large for an answer."""
    kind = medium.media_type.partition("/")[0]
    if len(medium.data) > MOST_MEDIA_BYTES:
        size = f"{len(medium.data):,} bytes of {medium.media_type} are too many to be shown here"
        return TextContent(type="text", text=f"[{size}; get them with Session.media]")
    data = base64.b64encode(medium.data).decode()
    if kind == "image":
        return ImageContent(type="image", data=data, mime_type=medium.media_type)
    if kind == "audio":
        return AudioContent(type="audio", data=data, mime_type=medium.media_type)
    uri = f"infold://media/{quote(medium.name or str((params.arguments or {}).get('handle') or 'part'))}"
    resource = BlobResourceContents(uri=uri, mime_type=medium.media_type, blob=data)
    return EmbeddedResource(type="resource", resource=resource)
