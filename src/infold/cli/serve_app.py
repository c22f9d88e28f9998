"""Assemble the gateway and its page from settings, and run the server."""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import strftime
from typing import Any

import click

from infold.cli.session_lookup import enforce_limits
from infold.core.events import Event, MediaNotStored, NotManaged, OutputLowered, SummaryProgressed, SummaryRejected
from infold.errors import UsageError, without_secrets
from infold.gateway.actions import SessionActions
from infold.gateway.app import Gateway, application
from infold.gateway.auth import check_address
from infold.gateway.event_hub import EventHub, ServedRequest
from infold.gateway.page.routes import CONTENT_POLICY, page_routes
from infold.gateway.request_body import GatewayLimits
from infold.gateway.server import Server, connections_allowed
from infold.gateway.tenants import Tenants, TenantSessions, secret_for
from infold.gateway.upstream import CLIENTS, PROVIDERS, PUBLIC_ADDRESSES, Upstreams, is_address, upstream_options
from infold.ports import FullStore
from infold.reports.text import one_line
from infold.session.process_settings import plugins_from
from infold.session.report import describe_event
from infold.settings import Settings, StoreLimits, read_settings
from infold.settings.schema import format_value
from infold.wiring import embedded_model, located, open_store

HINT = """\
infold is listening on {url}   (its sessions in a terminal: infold top {url})

{clients}

upstreams: {upstreams}
{unrouted}page: {page}
store: {store}"""

CLIENT_CELLS = 16
"""The width of a client's name before its line."""

EMBEDDED_PROVIDERS = ("anthropic", "openai")
"""The providers whose interfaces the embedded model's server has."""

BUSY_SECONDS = 5.0
"""How long a request waits for a file that another process writes, before it is relayed unchanged."""

LONGEST_LINE = 300
"""Characters of a line of the log: paths and session ids are the client's to choose."""

UPKEEP_SECONDS = 3600.0
"""How often the limits of the store are enforced while the server runs."""


def serve_until_signal(
    *,
    host: str | None,
    port: int | None,
    store: str | None,
    upstreams: tuple[str, ...],
    window: int | None,
    **further: Any,
) -> None:
    """Serve until a signal; raise `UsageError` for an invalid address, upstream or store.

    `further` are the options `working_window`, `priced`, `memory` and `verbose`.
    """
    stated = {
        "INFOLD_WINDOW": window,
        "INFOLD_WORKING_WINDOW": further.get("working_window"),
        "INFOLD_COMPACTION_PRICED": further.get("priced"),
        "INFOLD_COMPACTION_MEMORY": further.get("memory"),
    }
    environ = {**os.environ, **{name: str(value) for name, value in stated.items() if value}}
    settings = read_settings(environ, Path.cwd())
    address = (host or settings.gateway.host, settings.gateway.port if port is None else port)
    token, page_token = environ.get("INFOLD_TOKEN", ""), environ.get("INFOLD_PAGE_TOKEN", "")
    check_address(address[0], token, page_token)
    place = located(store or settings.store)
    named = _check_upstreams({**settings.upstreams, **dict(map(_parse_upstream, upstreams))})
    tenants = Tenants(secret_for(place, environ), settings.gateway.tenant)
    with ExitStack() as stack:
        listener = stack.enter_context(_bind(address))
        opened = stack.enter_context(open_store(place, busy_seconds=BUSY_SECONDS))
        stack.enter_context(limits_enforced(opened, settings.store_limits))
        answering = None if named else _for_embedded(settings, environ)
        routed = named or dict.fromkeys(EMBEDDED_PROVIDERS, stack.enter_context(embedded_model()).url)
        hub = _open_hub(verbose=further.get("verbose", False))
        sessions = TenantSessions(opened, settings, hub, plugins_from(settings), for_requests=answering)
        given = settings.gateway
        gateway = Gateway(
            upstreams=Upstreams(routed),
            tenants=tenants,
            sessions=sessions,
            hub=hub,
            limits=GatewayLimits(
                header_seconds=given.header_seconds,
                body_seconds=given.body_seconds,
                idle_seconds=given.idle_seconds,
                connections=connections_allowed(given.max_connections),
            ),
            token=token,
            page_token=page_token,
            pages=page_routes(opened, SessionActions(sessions), hub, routed=routed),
            content_policy=CONTENT_POLICY,
            allowed_hosts=given.allowed_hosts,
        )
        server = Server(application(gateway), gateway.limits, on_exit=hub.close)
        _print_hint(listener, named, place, gateway)
        server.serve_until_signal(listener)


# With --verbose.


def _open_hub(*, verbose: bool) -> EventHub:
    """Return a hub, with a line on stderr for each request and for what infold did in a session if it is to be verbose."""
    hub = EventHub()
    if verbose:
        hub.subscribe_requests(lambda served: _log_line(request_line(served)))
        hub.bus.subscribe(Event, lambda event: _log_line(session_line(event)))
    return hub


def request_line(served: ServedRequest) -> str:
    """Return method, path, status, time, session and tokens of a request; the query, which may hold a key, is left out."""
    path = without_secrets(served.path)
    counted = {"in": served.input_tokens, "out": served.output_tokens}
    tokens = [f"{name}={number}" for name, number in counted.items() if number is not None]
    status = str(served.status) if served.status else "the client left"
    parts = [f"{served.method} {path}", status, f"{served.duration_ms}ms"]
    parts += [f"session={served.session_id}"] if served.session_id else []
    return " ".join((*parts, *tokens, served.note, *([f"error={served.problem}"] if served.problem else [])))


def session_line(event: Event) -> str:
    """Return what was done in a session; empty for what the line of the request says, and for what holds content."""
    match event:
        case SummaryProgressed() | NotManaged() | OutputLowered():
            return ""
        case SummaryRejected():
            done = f"a summary was rejected ({', '.join(event.faults)})"
        case MediaNotStored():
            done = f"{event.media_type} of {event.byte_size:,} bytes is over the limit of {event.limit_bytes:,}; not stored"
        case _:
            done = describe_event(event)
    return f"session={event.session_id} {' '.join(done.split())}"


def _log_line(line: str) -> None:
    if line:
        with suppress(OSError):  # the reader of the log is gone; requests are served all the same
            click.echo(f"{strftime('%H:%M:%S')} {one_line(line, LONGEST_LINE)}", err=True)


def _parse_upstream(text: str) -> tuple[str, str]:
    provider, _, url = text.partition("=")
    if not url:
        known = ", ".join(PROVIDERS)
        raise UsageError(f"not an upstream: {text!r}; write PROVIDER=URL, where the provider is one of {known}")
    return provider, url


def _check_upstreams(upstreams: Mapping[str, str]) -> Mapping[str, str]:
    for provider, url in upstreams.items():
        if provider not in PROVIDERS:
            raise UsageError(f"unknown provider {provider!r}; name one of {', '.join(PROVIDERS)}")
        if not is_address(url):
            raise UsageError(f"not an upstream address: {url!r}; write it like https://api.example.com")
    return upstreams


def _for_embedded(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Return the settings of requests that the embedded model answers: its window, whatever model a client names."""
    if settings.effective()["window"].origin != "default":
        return settings
    return read_settings({**environ, "INFOLD_WINDOW": str(embedded_model().context_tokens)}, Path.cwd())


@contextmanager
def limits_enforced(store: FullStore, limits: StoreLimits, every_seconds: float = UPKEEP_SECONDS) -> Iterator[None]:
    """Enforce the limits of a store in a background thread, if it has any."""
    if limits.max_age_days is None and limits.max_bytes is None:
        yield
        return
    ended = threading.Event()

    def upkeep() -> None:
        enforce_limits(store, limits)
        while not ended.wait(every_seconds):
            enforce_limits(store, limits)

    thread = threading.Thread(target=upkeep, name="infold-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _bind(address: tuple[str, int]) -> Iterator[socket.socket]:
    """Listen on an address before it is printed, so that no other process can take it."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen()  # clients may connect as soon as the address is printed
        except OSError as error:
            raise UsageError(
                f"cannot listen on {address[0]}:{address[1]} ({error}); choose another --host or --port"
            ) from error
        yield listener


def _print_hint(listener: socket.socket, upstreams: Mapping[str, str], place: str, gateway: Gateway) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    base = f"{url}/t/$INFOLD_TOKEN" if gateway.token else url
    routed = upstreams or dict.fromkeys(EMBEDDED_PROVIDERS, "the embedded model")
    clients = (f"  {one.name:<{CLIENT_CELLS}}{one.line(base)}" for one in CLIENTS if one.provider in routed)
    others = [one for one in PUBLIC_ADDRESSES if one not in routed]
    example = next(upstream_options(routed), "")
    click.echo(
        HINT.format(
            url=url,
            clients="\n".join(clients),
            page=_page_hint(url, gateway),
            upstreams=", ".join(f"{provider} → {address}" for provider, address in sorted(routed.items())),
            unrouted=f"not routed: {', '.join(others)}; to add one: {example}\n" if others else "",
            store=format_value(place),
        )
    )


def _page_hint(url: str, gateway: Gateway) -> str:
    """Return where the page is, and which token opens it."""
    if gateway.token and not gateway.page_token:
        return "closed, for it shows the sessions of all callers; INFOLD_PAGE_TOKEN sets a token that opens it"
    return f"{url}/   (opened by INFOLD_PAGE_TOKEN)" if gateway.page_token else f"{url}/"
