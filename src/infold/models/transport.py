"""What the HTTP client that all SDKs use may raise, before a reply has begun or while it comes, and what each of it means."""

import httpx2

from infold.models.failures import Failures, seconds_in

LONGEST_UNTOLD_SECONDS = 60.0
"""How long an SDK may sleep between its own tries: it tells nobody, and Anthropic's would for hours if it is asked to."""

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


def hand_back(response: httpx2.Response) -> None:
    """Have an SDK give back what asks for a long wait, for whoever asked the model to tell a person, or to give up."""
    if response.headers.keys() & {"retry-after", "retry-after-ms"}:
        seconds = seconds_in(response.headers)
        if seconds is None or seconds > LONGEST_UNTOLD_SECONDS:
            response.headers["x-should-retry"] = "false"
