"""Headers travel as they came, but for those that speak to a neighbour."""

from infold.gateway.auth import GatewayTokens
from infold.gateway.upstream import THE_CLIENTS, forwarded, returned, uncompressed_reply, without


def test_a_clients_headers_are_forwarded_as_they_came() -> None:
    """Doubles, order and odd bytes stay; nothing is added."""
    given = (
        (b"x-a", b"1"),
        (b"authorization", b"Bearer k"),
        (b"x-a", b"2"),
        (b"x-odd", b"caf\xe9"),
        (b"cookie", b"a=1"),
    )

    assert forwarded(given) == given


def test_what_is_for_the_gateway_goes_no_further() -> None:
    """Framing, hop-by-hop headers, those a connection names, the token and the session's name stay here."""
    given = (
        (b"host", b"127.0.0.1"),
        (b"content-length", b"9"),
        (b"connection", b"keep-alive, X-Once"),
        (b"x-once", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"x-infold-token", b"t"),
        (b"x-infold-session", b"s"),
        (b"expect", b"100-continue"),
        (b"accept", b"*/*"),
    )

    assert forwarded(given) == ((b"accept", b"*/*"),)


def test_the_gateways_own_cookie_is_left_out() -> None:
    """A token in a cookie never reaches an upstream; the other cookies do, and an empty header does not."""
    assert forwarded([(b"cookie", b"a=1; infold-token=secret; b=2")]) == ((b"cookie", b"a=1; b=2"),)
    assert forwarded([(b"cookie", b"infold-token=secret")]) == ()


def test_a_reply_that_is_read_is_asked_for_as_it_is() -> None:
    """Whatever encodings a client offers, a managed reply is asked for without."""
    given = ((b"accept-encoding", b"gzip, br"), (b"accept", b"*/*"))

    assert uncompressed_reply(given) == ((b"accept", b"*/*"), (b"accept-encoding", b"identity"))


def test_a_request_of_our_own_is_not_the_clients() -> None:
    """A key that says two requests are one is not used for another body."""
    assert without(((b"Idempotency-Key", b"1"), (b"accept", b"*/*")), *THE_CLIENTS) == ((b"accept", b"*/*"),)


def test_a_reply_keeps_its_headers() -> None:
    """Doubles, request ids, lengths and encodings come back; a note and the session's name are added."""
    given = (
        (b"Set-Cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"request-id", b"req_1"),
        (b"content-length", b"9"),
        (b"content-encoding", b"gzip"),
        (b"Connection", b"close"),
        (b"transfer-encoding", b"chunked"),
    )

    assert returned(given, "managed", "s") == (*given[:5], (b"x-infold", b"managed"), (b"x-infold-session", b"s"))
    assert returned([], "relayed") == ((b"x-infold", b"relayed"),)


def test_a_note_is_one_plain_line() -> None:
    """Nothing that a note says can end a header or begin another."""
    [(_, note)] = returned([], "relayed; é\r\nset-cookie: x=1 " + "long " * 100)

    assert note.startswith(b"relayed; ???set-cookie: x=1 long")
    assert len(note) <= 300


def test_a_sessions_name_comes_back_as_it_was_sent() -> None:
    """A name in UTF-8 is given back so; what would end the header is not."""
    assert returned((), "managed", "Fähre ~1\n")[1] == (b"x-infold-session", "Fähre ~1?".encode())


def test_a_header_with_a_token_goes_no_further() -> None:
    """In whatever header and encoding; a short token counts as a word only, since it may be a part of any text."""
    tokens = GatewayTokens("0123456789abcdef", "op")
    given = (
        (b"x-a", b"open options"),
        (b"referer", b"http://g/t/op/"),
        (b"x-b", b"%2530123456789abcdef"),
        (b"x-c", b"1"),
    )

    assert forwarded(given, tokens) == (given[0], given[3])
    assert forwarded(given, GatewayTokens()) == given
