"""The least a relay can do on the gateway's own stack: read a request, send it on, pass the reply back as it comes.

Started by `benchmarks/gateway.py` with the upstream's address and a port. It reads nothing, keeps nothing and knows nothing.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

NOT_PASSED_ON = {"host", "content-length", "transfer-encoding", "connection", "keep-alive"}
CLIENT = httpx2.AsyncClient(timeout=600, trust_env=False, limits=httpx2.Limits(max_connections=1_000))


async def relay(request: Request) -> Response:
    """One request and its reply."""
    content = await request.body()
    headers = [(name, value) for name, value in request.headers.items() if name not in NOT_PASSED_ON]
    outgoing = CLIENT.build_request(request.method, sys.argv[1] + request.url.path, headers=headers, content=content)
    response = await CLIENT.send(outgoing, stream=True)
    returned = {name: value for name, value in response.headers.items() if name not in NOT_PASSED_ON}
    return StreamingResponse(pieces(response), response.status_code, returned)


async def pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The reply as it arrives."""
    try:
        async for piece in response.aiter_raw():
            yield piece
    finally:
        await response.aclose()


@asynccontextmanager
async def running(_: Starlette) -> AsyncIterator[None]:
    """Close the client at the end."""
    async with CLIENT:
        yield


app = Starlette(routes=[Route("/{path:path}", relay, methods=["POST"])], lifespan=running)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False, server_header=False)
