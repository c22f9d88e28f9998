"""Where a request goes: the provider its path speaks for, at the address that the settings name and no other."""

import re
from collections.abc import Mapping
from functools import lru_cache

import httpx2
from msgspec import Struct

from infold.errors import UsageError

PROVIDERS = ("anthropic", "gemini", "openai")

MOST_KNOWN = 256
"""Addresses that are remembered: making one takes longer than all else that is done to send a request there."""

_PATHS = (("/v1/messages", "anthropic"), ("/v1/complete", "anthropic"), ("/v1beta", "gemini"), ("/v1alpha", "gemini"))
_HEADERS = (("anthropic-version", "anthropic"), ("x-goog-api-key", "gemini"))
_GEMINI_ACT = re.compile(r"/models/[^/]+:\w+$")
_VERSION = re.compile(rb"/v\d\w*(?=/|$)")


class Upstreams(Struct, frozen=True):
    """The address for each provider; `default` is where requests go for which none is named, the embedded model if any."""

    named: Mapping[str, str]
    default: str = ""

    def url_for(self, target: bytes, query: bytes, headers: Mapping[str, str]) -> httpx2.URL:
        """The address of a request, whose path is as its client wrote it.

        Raises `UsageError` where there is no upstream for it, and `ValueError` for what is no path.
        """
        if not target.startswith(b"/"):
            raise ValueError("a path begins with a slash")
        provider = provider_of(target.decode("latin-1"), headers)
        base = self.named.get(provider, self.default)
        if not base:
            raise UsageError(
                f"no upstream is set for {provider}; set upstreams.{provider}.base_url, INFOLD_UPSTREAMS_"
                f"{provider.upper()}_BASE_URL, or start with --upstream {provider}=URL"
            )
        url = _url(base, target)
        return url.copy_with(raw_path=url.raw_path + b"?" + query) if query else url


def provider_of(path: str, headers: Mapping[str, str]) -> str:
    """Whose interface a path belongs to; what providers have in common is told by headers that only one of them takes."""
    by_header = next((provider for name, provider in _HEADERS if name in headers), None)
    if by_header is not None:
        return by_header
    by_path = next((provider for start, provider in _PATHS if path.startswith(start)), "openai")
    return "gemini" if _GEMINI_ACT.search(path) else by_path


def is_address(url: str) -> bool:
    """Whether something is the address of a server."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


@lru_cache(MOST_KNOWN)
def _url(base: str, target: bytes) -> httpx2.URL:
    """The address of a path at a base; without its query, which may hold a credential and is not to be remembered."""
    url = httpx2.URL(base)
    return url.copy_with(raw_path=_joined(url.raw_path, target))


def _joined(base: bytes, target: bytes) -> bytes:
    """A base's path and a client's: where the base ends in a version, it stands for the one that clients put into theirs."""
    base = base.partition(b"?")[0].rstrip(b"/")
    versions = list(_VERSION.finditer(base))
    named = _VERSION.match(target)
    if named is not None and versions and versions[-1].end() == len(base):
        target = target[named.end() :]
    return base + target
