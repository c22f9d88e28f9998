"""Requests go where the settings say, and nowhere else."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infold.errors import UsageError
from infold.gateway.upstream import BadTarget, Upstreams, is_address, own_url, provider_of

ALL = Upstreams({"openai": "http://o.test", "anthropic": "http://a.test", "gemini": "http://g.test"})
BASED = Upstreams(dict.fromkeys(("openai", "anthropic", "gemini"), "http://o.test/team-a"))


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
    assert str(Upstreams({"openai": base}).outgoing("GET", target, b"", ()).url) == url


def test_the_query_is_kept() -> None:
    """Whatever stands after the path goes on too."""
    url = ALL.outgoing("POST", b"/v1beta/models/g:generateContent", b"alt=sse&key=k%20k", ()).url

    assert str(url) == "http://g.test/v1beta/models/g:generateContent?alt=sse&key=k%20k"


@pytest.mark.parametrize(
    ("target", "query", "suffix", "url"),
    [
        (b"/v1/responses", b"", "/compact", "http://o.test/team-a/v1/responses/compact"),
        (b"/a%2Fb/responses/", b"v=1", "/compact", "http://o.test/team-a/a%2Fb/responses/compact?v=1"),
        (
            b"/models/g:streamGenerateContent",
            b"alt=sse&key=k",
            "",
            "http://o.test/team-a/models/g:generateContent?key=k",
        ),
        (
            b"/models/g:streamGenerateContent",
            b"key=k&alt=sse",
            "",
            "http://o.test/team-a/models/g:generateContent?key=k",
        ),
        (b"/models/g:streamGenerateContent", b"alt=sse", "", "http://o.test/team-a/models/g:generateContent"),
    ],
)
def test_a_request_of_our_own_goes_where_the_clients_goes(target: bytes, query: bytes, suffix: str, url: str) -> None:
    """What is escaped stays escaped, the query stays but for the wish for a stream."""
    assert str(own_url(BASED.outgoing("POST", target, query, ()).url, suffix)) == url


def test_an_upstream_that_is_not_set_is_told() -> None:
    """The answer names every way to set it."""
    with pytest.raises(
        UsageError, match=r"upstreams.anthropic.base_url, INFOLD_UPSTREAMS_ANTHROPIC_BASE_URL, or .*=URL"
    ):
        Upstreams({"openai": "http://o.test"}).outgoing("POST", b"/v1/messages", b"", ())


@pytest.mark.parametrize("target", [b"", b"*", b"@evil.test/x", b"http://evil.test/v1/models", b".evil.test/x"])
def test_what_is_no_path_is_refused(target: bytes) -> None:
    """A target that could become part of a host is none."""
    with pytest.raises(BadTarget, match="slash"):
        ALL.outgoing("GET", target, b"", ())


@given(st.binary(max_size=40), st.binary(max_size=20))
@example(b"../admin", b"")
@example(b"%2E%2e/admin", b"")
@example(b"a/..", b"..")
def test_no_path_leads_to_another_host_or_out_of_the_base(rest: bytes, query: bytes) -> None:
    """Whatever a client writes, host and base path are those of the settings, or there is no address at all."""
    try:
        url = BASED.outgoing("GET", b"/" + rest, query, ()).url
    except BadTarget:  # nothing is sent
        return
    assert (url.scheme, url.netloc) == ("http", b"o.test")
    assert url.raw_path.startswith(b"/team-a/")
    assert not {b".", b".."} & set(url.raw_path.partition(b"?")[0].split(b"/"))


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
