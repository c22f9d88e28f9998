"""Requests go where the settings say, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.errors import UsageError
from infold.gateway.upstream import Upstreams, is_address, provider_of

ALL = Upstreams({"openai": "http://o.test", "anthropic": "http://a.test", "gemini": "http://g.test"})


@pytest.mark.parametrize(
    ("path", "headers", "provider"),
    [
        ("/v1/chat/completions", {}, "openai"),
        ("/v1/responses", {}, "openai"),
        ("/v1/models", {}, "openai"),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, "anthropic"),
        ("/v1/messages", {}, "anthropic"),
        ("/v1/messages/count_tokens", {}, "anthropic"),
        ("/v1beta/models/gemini-x:generateContent", {}, "gemini"),
        ("/v1/models/gemini-x:streamGenerateContent", {}, "gemini"),
        ("/v1/models", {"x-goog-api-key": "k"}, "gemini"),
        ("/model/us.anthropic.claude-opus-5-5-v1:0/invoke", {"anthropic-version": "2023-06-01"}, "bedrock"),
        ("/model/amazon.nova-pro-v1:0/converse", {}, "bedrock"),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-5-5:rawPredict", {}, "vertex"),
        ("/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent", {}, "gemini"),
        ("/anything/else", {}, "openai"),
    ],
)
def test_a_provider_is_known_by_its_interface(path: str, headers: dict[str, str], provider: str) -> None:
    """Paths tell whose they are; what two have in common is told by their headers."""
    assert provider_of(path, headers) == provider


@pytest.mark.parametrize(
    ("base", "target", "url"),
    [
        ("https://api.test", b"/v1/chat/completions", "https://api.test/v1/chat/completions"),
        ("https://api.test/", b"/v1/models", "https://api.test/v1/models"),
        ("https://api.test/v1", b"/v1/models", "https://api.test/v1/models"),
        ("https://api.test/v1/", b"/models", "https://api.test/v1/models"),
        ("https://api.test/api/v4", b"/v1/chat/completions", "https://api.test/api/v4/chat/completions"),
        ("https://api.test/openai", b"/v1/models", "https://api.test/openai/v1/models"),
        ("https://api.test", b"/v1/files/a%2Fb%20c", "https://api.test/v1/files/a%2Fb%20c"),
    ],
)
def test_a_base_is_taken_with_or_without_its_version(base: str, target: bytes, url: str) -> None:
    """A version at the end of a base stands for the one that clients put into theirs; paths stay as they were written."""
    assert str(Upstreams({}, base).url_for(target, b"", {})) == url


def test_the_query_is_kept() -> None:
    """Whatever stands after the path goes on too."""
    url = ALL.url_for(b"/v1beta/models/g:generateContent", b"alt=sse&key=k%20k", {})

    assert str(url) == "http://g.test/v1beta/models/g:generateContent?alt=sse&key=k%20k"


def test_an_upstream_that_is_not_set_is_told() -> None:
    """The answer names every way to set it."""
    with pytest.raises(
        UsageError, match=r"upstreams.anthropic.base_url, INFOLD_UPSTREAMS_ANTHROPIC_BASE_URL, or .*=URL"
    ):
        Upstreams({"openai": "http://o.test"}).url_for(b"/v1/messages", b"", {})


@pytest.mark.parametrize("target", [b"", b"*", b"@evil.test/x", b"http://evil.test/v1/models", b".evil.test/x"])
def test_what_is_no_path_is_refused(target: bytes) -> None:
    """A target that could become part of a host is none."""
    with pytest.raises(ValueError, match="slash"):
        ALL.url_for(target, b"", {})


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_no_path_leads_to_another_host(rest: bytes, query: bytes) -> None:
    """Whatever a client writes, the host is the one of the settings, or there is no address at all."""
    try:
        url = ALL.url_for(b"/" + rest, query, {})
    except Exception:  # of whatever kind: nothing is sent
        return
    assert (url.scheme, url.netloc) == ("http", b"o.test") or url.netloc in (b"a.test", b"g.test")


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("https://api.test/v1", True),
        ("http://127.0.0.1:8080", True),
        ("http://", False),
        ("ftp://api.test", False),
        ("api.test", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_an_address_is_that_of_a_server(url: str, *, is_one: bool) -> None:
    """It has a scheme that can be spoken, and a host."""
    assert is_address(url) is is_one
