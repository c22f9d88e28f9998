"""Who may speak to the gateway, and what its pages may do."""

import asyncio
import time
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from infold.errors import UsageError
from infold.gateway.auth import COOKIE, TOKEN_HEADER, Auth, GatewayTokens, check_address

TOKEN, PAGE_TOKEN = "a-token-that-nobody-guesses", "a-page-token-that-nobody-guesses"
FORM = {"content-type": "application/x-www-form-urlencoded"}
HTML = {"accept": "text/html,*/*;q=0.8"}
POLICY = "default-src 'none'; frame-ancestors 'none'"


async def echo(request: Request) -> Response:
    """Where a request arrived, as its handler sees it."""
    return PlainTextResponse(f"{request.scope['path']} {request.scope['raw_path'].decode()}")


def guarded(token: str = TOKEN, allowed_hosts: tuple[str, ...] = ()) -> Starlette:
    """A page at `/page`, an open path, and everything else as a client's; the page has a token if clients have one."""
    page = Route("/page", echo, methods=["GET", "POST"])

    async def everything(scope: Scope, receive: Receive, send: Send) -> None:
        response = await echo(Request(scope))
        await response(scope, receive, send)

    guard = Middleware(
        Auth,
        relay=everything,
        tokens=GatewayTokens(token, PAGE_TOKEN) if token else GatewayTokens(),
        content_policy=POLICY,
        pages=[page],
        allowed_hosts=allowed_hosts,
    )
    return Starlette(routes=[page, Route("/healthz", echo)], middleware=[guard])


def asked(
    path: str,
    headers: dict[str, str] | None = None,
    *,
    method: str = "GET",
    token: str = TOKEN,
    content: bytes = b"",
    host: str = "127.0.0.1:8377",
) -> httpx2.Response:
    """What is answered; one host besides this machine's is allowed."""

    async def ask() -> httpx2.Response:
        way = httpx2.ASGITransport(guarded(token, ("Gateway.lan",)))
        async with httpx2.AsyncClient(transport=way, base_url=f"http://{host}") as client:
            return await client.request(method, path, headers=headers, content=content)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/x", {TOKEN_HEADER: TOKEN}),
        (f"/t/{TOKEN}/v1/x", {}),
        ("/v1/x", {"cookie": f"other=1; {COOKIE}={TOKEN}"}),
    ],
)
def test_the_token_is_taken_in_three_places(path: str, headers: dict[str, str]) -> None:
    """A header, the path or a cookie; the path goes on without it."""
    answer = asked(path, headers)

    assert (answer.status_code, answer.text) == (200, "/v1/x /v1/x")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/x", {}),
        ("/v1/x", {TOKEN_HEADER: TOKEN[:-1]}),
        ("/v1/x", {TOKEN_HEADER: TOKEN + "x"}),
        ("/v1/x", {TOKEN_HEADER: ""}),
        ("/v1/x", {"authorization": f"Bearer {TOKEN}"}),
        ("/v1/x", {"cookie": f"{COOKIE}=wrong"}),
        ("/v1/x", {"cookie": "\x00;=;;"}),
        ("/t/wrong/v1/x", {}),
        ("/t//v1/x", {}),
        ("/t/", {}),
        (f"/t/wrong/t/{TOKEN}/v1/x", {}),
        ("/elsewhere", {}),
    ],
)
def test_without_the_token_nothing_is_served(path: str, headers: dict[str, str]) -> None:
    """A missing or wrong token is a 401 that SDKs can read."""
    answer = asked(path, headers)

    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == 401


def test_a_path_is_passed_on_as_it_was_written() -> None:
    """What is escaped behind the token stays escaped."""
    assert asked(f"/t/{TOKEN}/v1/a%2Fb%20c").text == "/v1/a/b c /v1/a%2Fb%20c"


def test_health_needs_no_token() -> None:
    """Whoever watches over processes has none."""
    assert asked("/healthz").status_code == 200


def test_without_a_token_all_is_open_on_loopback() -> None:
    """Nobody else can reach it there."""
    assert asked("/v1/x", token="").status_code == 200
    assert asked("/page", token="").status_code == 200
    assert asked("/page", token="", host="localhost").status_code == 200
    assert asked("/page", token="", host="[::1]:8377").status_code == 200


def test_a_page_answers_to_this_machines_names_alone() -> None:
    """A site whose name was made to lead here sees no page; with a token it lacks the token."""
    assert asked("/page", token="", host="evil.test:8377").status_code == 403
    assert asked("/page", {"host": "["}, token="").status_code == 403
    assert asked("/page", {"host": ""}, token="").status_code == 403
    assert asked("/page", host="evil.test:8377").status_code == 401
    assert asked("/page", {TOKEN_HEADER: PAGE_TOKEN}, host="gateway.test").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://["},
    ],
)
def test_another_sites_form_is_refused(headers: dict[str, str]) -> None:
    """What changes anything is asked for from the pages, whatever cookie the browser adds."""
    assert asked("/page", {**headers, "cookie": f"{COOKIE}={PAGE_TOKEN}"}, method="POST").status_code == 403
    assert asked("/page", headers, method="POST", token="").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {"origin": "http://127.0.0.1:8377"}, {}],
)
def test_a_pages_own_form_is_served(headers: dict[str, str]) -> None:
    """A browser on the page, or no browser at all."""
    assert asked("/page", headers, method="POST", token="").status_code == 200


@pytest.mark.parametrize("path", ["/sessions/a/nothing", "/static/none.css"])
def test_what_is_no_page_among_pages_is_not_sent_on(path: str) -> None:
    """A mistyped address of the page's own is not found, instead of being a provider's to answer."""
    assert asked(path, {TOKEN_HEADER: PAGE_TOKEN}).status_code == 404


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8377", "localhost:8377", "[::1]:8377", "127.0.0.2:8377", "gateway.lan", "GATEWAY.LAN:9"],
)
@pytest.mark.parametrize("path", ["/v1/x", "/page"])
def test_without_a_token_this_machines_names_and_allowed_ones_are_served(host: str, path: str) -> None:
    """B23: curl, SDKs and agents send no Origin and name the address they were given."""
    assert asked(path, token="", host=host, method="POST").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.test:8377", "evil.test", "10.0.0.1", "localhost.evil.test", "[", "", "a@evil.test"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_without_a_token_the_api_answers_to_no_foreign_name(host: str, method: str) -> None:
    """B23: a web page whose name was made to lead to this machine cannot use the model or write into the store."""
    answer = asked("/v1/x", {"host": host}, token="", method=method)

    assert answer.status_code == 403
    assert "gateway.allowed_hosts" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "http://evil.test"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
    ],
)
def test_without_a_token_the_api_serves_no_other_site(headers: dict[str, str]) -> None:
    """B23: a web page that names this machine rightly is refused for where it comes from; with a token it is known by that."""
    assert asked("/v1/x", {**headers, "content-type": "text/plain"}, method="POST", token="").status_code == 403
    assert asked("/v1/x", headers, token="").status_code == 403
    assert asked("/v1/x", {**headers, TOKEN_HEADER: TOKEN}, method="POST").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://127.0.0.1:8377"}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-mode": "cors"}],
)
def test_programs_and_own_pages_use_the_api(headers: dict[str, str]) -> None:
    """B23: no Origin is no browser; Node's fetch sends a mode and nothing else."""
    assert asked("/v1/x", headers, method="POST", token="").status_code == 200


def test_two_lengths_are_refused() -> None:
    """B23: no two programs on the way may differ about where a request ends; the connection ends with the answer."""
    answer = asked("/v1/x", {"transfer-encoding": "chunked", "content-length": "2"}, method="POST", content=b"{}")

    assert (answer.status_code, answer.headers["connection"]) == (400, "close")


def test_a_long_cookie_costs_little() -> None:
    """B17: a cookie of any length is read in linear time, before the token is known."""
    began = time.process_time()
    answer = asked("/v1/x", {"cookie": 'a="' + '\\"' * 30_000 + f'"; {COOKIE}={TOKEN}'})

    assert answer.status_code == 200
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("path", "is_page"), [("/page", True), ("/login", True), ("/v1/x", False), ("/healthz", False)]
)
def test_pages_say_what_a_browser_may_do(path: str, *, is_page: bool) -> None:
    """The policy is on every page, also on a refusal, and on nothing that is relayed."""
    for headers in ({}, {TOKEN_HEADER: TOKEN}, {TOKEN_HEADER: PAGE_TOKEN}):
        answer = asked(path, headers)

        assert (answer.headers.get("content-security-policy") == POLICY) is is_page
        assert ("x-frame-options" in answer.headers) is is_page
        assert (answer.headers.get("cache-control") == "no-store") is is_page
        assert (answer.headers.get("referrer-policy") == "same-origin") is is_page


def test_a_person_logs_in() -> None:
    """The token opens the pages by a cookie that scripts and other sites never see."""
    asking = asked("/page")
    wrong = asked("/login", FORM, method="POST", content=b"token=wrong")
    right = asked("/login", FORM, method="POST", content=f"token={PAGE_TOKEN}".encode())
    cookie = right.headers["set-cookie"]

    assert (asking.status_code, "<form" in asking.text) == (401, True)
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    assert (right.status_code, right.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert asked("/page", {"cookie": cookie.partition(";")[0]}).status_code == 200


def test_the_log_in_page_is_drawn_like_the_others() -> None:
    """Style and scripts are the same for everybody, so they are had without the token that the page asks for."""
    asking = asked("/page").text

    for file in ("/static/page.css", "/static/theme.js", "/static/mark.svg"):
        assert file in asking
        assert asked(file).status_code == 404  # past the guard; there is none here
    assert asked("/sessions/a").status_code == 401
    assert asked("/static/../page").status_code == 401


def test_a_wrong_token_is_said_and_what_was_asked_for_is_kept() -> None:
    """The form leads to the page that was wanted, also after a slip."""
    asking = asked("/page?before=3&q=%22x%22")
    wrong = asked("/login", FORM, method="POST", content=b"token=wrong&next=%2Fpage%3Fbefore%3D3")
    right = asked("/login", FORM, method="POST", content=f"token={PAGE_TOKEN}&next=%2Fpage%3Fbefore%3D3".encode())

    assert 'name="next" value="/page?before=3&amp;q=%22x%22"' in asking.text
    assert "That is not the token" not in asking.text
    assert "That is not the token" in wrong.text
    assert 'value="/page?before=3"' in wrong.text
    assert right.headers["location"] == "/page?before=3"


@pytest.mark.parametrize(
    "elsewhere", ["//evil.test", "/\\evil.test", "https://evil.test", "", "page", "/\t/evil.test", "/\\/x", "/login"]
)
def test_logging_in_leads_to_no_other_site(elsewhere: str) -> None:
    """What is no path of the gateway's own pages is the list of sessions instead."""
    content = urlencode({"token": PAGE_TOKEN, "next": elsewhere}).encode()

    assert asked("/login", FORM, method="POST", content=content).headers["location"] == "/"


def test_a_page_opened_by_a_path_with_the_token_is_entered() -> None:
    """A browser is sent on with the cookie, so that style and scripts come too; a program, and what is relayed, are served."""
    entered = asked(f"/t/{PAGE_TOKEN}/page?before=3", HTML)

    assert (entered.status_code, entered.headers["location"]) == (303, "/page?before=3")
    assert entered.headers["set-cookie"].startswith(f"{COOKIE}={PAGE_TOKEN};")
    assert asked(f"/t/{PAGE_TOKEN}/page").status_code == 200
    assert asked(f"/t/{TOKEN}/v1/x", HTML).status_code == 200
    assert asked("/t/wrong/page", {**HTML, TOKEN_HEADER: PAGE_TOKEN}).status_code == 200
    assert asked("/t/wrong/page", HTML).status_code == 401
    assert asked(f"/t/{PAGE_TOKEN}/page", HTML, token="").status_code == 200


def test_logging_in_is_bounded_and_of_the_page() -> None:
    """Nobody without a token can send much, and another site's form is shown the page instead."""
    foreign = asked("/login", {"origin": "http://evil.test"}, method="POST", content=f"token={PAGE_TOKEN}".encode())

    assert asked("/login", method="POST", content=bytes(5_000)).status_code == 413
    assert asked("/login", method="POST", content=b"token=%ff%fe&token=").status_code == 401
    assert (foreign.status_code, "set-cookie" in foreign.headers) == (200, False)


@pytest.mark.parametrize(
    ("extensions", "told"),
    [({}, ["websocket.close"]), ({"websocket.http.response": {}}, [426, "websocket.http.response.body"])],
)
def test_a_socket_is_closed(extensions: dict[str, object], told: list[object]) -> None:
    """B23: a server with websockets gets the same 426 where it can pass one on."""
    sent: list[Message] = []

    async def speak() -> None:
        async def receive() -> Message:
            return {"type": "websocket.connect"}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/v1/x", "headers": [], "extensions": extensions}
        await guarded()(scope, receive, send)

    asyncio.run(speak())

    assert [message.get("status", message["type"]) for message in sent] == told


@pytest.mark.parametrize(
    ("host", "token"), [("127.0.0.1", ""), ("localhost", "short"), ("::1", ""), ("0.0.0.0", "0123456789abcdef")]
)
def test_a_safe_address_is_accepted(host: str, token: str) -> None:
    """Loopback, or tokens that nobody guesses; pages need not have one."""
    check_address(host, token)
    check_address(host, token, token)


@pytest.mark.parametrize(("host", "token"), [("0.0.0.0", ""), ("::", "short"), ("192.168.1.2", "123456789012345")])
def test_an_open_address_needs_a_token(host: str, token: str) -> None:
    """The error says what to set."""
    with pytest.raises(UsageError, match="can be reached by others; set INFOLD_TOKEN"):
        check_address(host, token)
    with pytest.raises(UsageError, match="set INFOLD_PAGE_TOKEN" if token else "set INFOLD_TOKEN"):
        check_address(host, TOKEN if token else "", token)


@pytest.mark.parametrize("token", ["with/slash/with/slash", "with space with space", "schlüssel-schlüssel"])
def test_a_token_can_stand_in_an_address(token: str) -> None:
    """One that could not is refused at the start, not at the first request."""
    with pytest.raises(UsageError, match="INFOLD_TOKEN may hold letters, digits"):
        check_address("127.0.0.1", token)
    with pytest.raises(UsageError, match="INFOLD_PAGE_TOKEN may hold letters, digits"):
        check_address("127.0.0.1", "", token)
