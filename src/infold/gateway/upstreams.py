"""Where a request goes: the provider its path speaks for, at the address that the settings name and no other."""

from collections.abc import Mapping

from msgspec import Struct

from infold.errors import UsageError

__all__ = ["PROVIDERS", "Upstreams", "provider_of"]

PROVIDERS = ("anthropic", "gemini", "openai")

_PATHS = (("/v1/messages", "anthropic"), ("/v1/complete", "anthropic"), ("/v1beta", "gemini"), ("/v1alpha", "gemini"))


class Upstreams(Struct, frozen=True):
    """The address for each provider; `default` is where requests go for which none is named, the embedded model if any."""

    named: Mapping[str, str]
    default: str = ""

    def url_for(self, path: str, query: str, headers: Mapping[str, str]) -> str:
        """The address of a request; raises `UsageError` where there is no upstream for it."""
        provider = provider_of(path, headers)
        base = self.named.get(provider, self.default)
        if not base:
            raise UsageError(
                f"no upstream is set for {provider}; set upstreams.{provider}.base_url, INFOLD_UPSTREAMS_"
                f"{provider.upper()}_BASE_URL, or start with --upstream {provider}=URL"
            )
        return _joined(base, path) + (f"?{query}" if query else "")


def provider_of(path: str, headers: Mapping[str, str]) -> str:
    """Whose interface a path belongs to; what two providers have in common is told by Anthropic's own header."""
    if "anthropic-version" in headers:
        return "anthropic"
    return next((provider for start, provider in _PATHS if path.startswith(start)), "openai")


def _joined(base: str, path: str) -> str:
    """A base with or without the version that clients put into theirs."""
    base = base.rstrip("/")
    version = "/" + path.lstrip("/").split("/", 1)[0]
    return base.removesuffix(version) + path
