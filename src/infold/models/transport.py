"""What the HTTP client that all SDKs use may raise, before a reply has begun or while it comes, and what each of it means."""

import httpx2

from infold.models.failures import Failures

__all__ = ["TRANSPORT"]

TRANSPORT = Failures(
    (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, httpx2.CookieConflict),
    {
        "ConnectError": "unreachable",
        "ConnectTimeout": "unreachable",
        "CookieConflict": "refused",
        "DecodingError": "broken",
        "HTTPStatusError": "busy",
        "InvalidURL": "unreachable",
        "NetworkError": "broken",
        "ProtocolError": "broken",
        "ProxyError": "unreachable",
        "SSEError": "broken",
        "StreamError": "broken",
        "TimeoutException": "busy",
        "TooManyRedirects": "unreachable",
        "UnsupportedProtocol": "unreachable",
    },
)
