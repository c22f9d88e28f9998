"""Serving: the one place where the faces are put together. Settings in, a running server out."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import click

from infold.api.session_settings import plugins_from
from infold.cli.session_lookup import kept_within
from infold.dashboard.app import CONTENT_POLICY, page_routes
from infold.dashboard.desk import Desk
from infold.errors import UsageError
from infold.gateway.acts import SessionActs
from infold.gateway.app import Gateway, application
from infold.gateway.bodies import Limits
from infold.gateway.guard import check_address
from infold.gateway.hub import Hub
from infold.gateway.server import Server, connections_allowed
from infold.gateway.tenancy import Tenancy
from infold.gateway.tenants import Tenants, secret_for
from infold.gateway.upstreams import PROVIDERS, Upstreams, is_address
from infold.ports import FullStore
from infold.settings import GatewaySettings, Settings, StoreLimits, read_settings
from infold.settings.schema import format_value
from infold.wiring import embedded_model, located, open_store

HINT = """\
infold is listening on {url}   (page: {url}/)

  OpenAI SDK      OpenAI(base_url="{base}/v1")
  Anthropic SDK   Anthropic(base_url="{base}")
  Claude Code     ANTHROPIC_BASE_URL={base} claude
  OpenCode        "provider": {{"openai": {{"options": {{"baseURL": "{base}/v1"}}}}}}   in opencode.json
  Codex           codex -c model_provider=infold -c 'model_providers.infold={{name="infold", base_url="{base}/v1",
                  env_key="OPENAI_API_KEY", wire_api="responses"}}'
  pi              "providers": {{"openai": {{"baseUrl": "{base}/v1"}}}}   in ~/.pi/agent/models.json

upstreams: {upstreams}
store: {store}"""


BUSY_SECONDS = 5.0
"""How long a request waits for a file that another process writes, before it goes out as it came."""


UPKEEP_SECONDS = 3600.0
"""How often a store is held against its limits while the server runs."""


def serve_until_told(
    *, host: str | None, port: int | None, store: str | None, upstreams: tuple[str, ...], window: int | None
) -> None:
    """Serve until a signal comes; raises `UsageError` for an address, an upstream or a store that cannot be."""
    environ = {**os.environ, **({"INFOLD_WINDOW": str(window)} if window else {})}
    settings = read_settings(environ, Path.cwd())
    address = (host or settings.gateway.host, settings.gateway.port if port is None else port)
    token, place = environ.get("INFOLD_TOKEN", ""), located(store or settings.store)
    check_address(address[0], token)
    named = _checked({**settings.upstreams, **dict(map(_upstream, upstreams))})
    tenants = Tenants(secret_for(place, environ), settings.gateway.tenant)
    with ExitStack() as stack:
        listener = stack.enter_context(_bound(address))
        opened = stack.enter_context(open_store(place, busy_seconds=BUSY_SECONDS))
        stack.enter_context(keeping_within(opened, settings.store_limits))
        if not named:
            settings = _for_embedded(settings, environ)
        default = "" if named else stack.enter_context(embedded_model()).url
        hub = Hub()
        tenancy = Tenancy(opened, settings, hub, plugins_from(settings))
        gateway = _gateway(Upstreams(named, default), tenants, tenancy, hub, token=token, given=settings.gateway)
        server = Server(application(gateway), gateway.limits, on_exit=hub.close)
        _tell(listener, named, place, token=token)
        server.serve_until_signal(listener)


def _upstream(text: str) -> tuple[str, str]:
    provider, _, url = text.partition("=")
    if not url:
        known = ", ".join(PROVIDERS)
        raise UsageError(f"{text!r} is no upstream; write PROVIDER=URL, where the provider is one of {known}")
    return provider, url


def _checked(upstreams: Mapping[str, str]) -> Mapping[str, str]:
    for provider, url in upstreams.items():
        if provider not in PROVIDERS:
            raise UsageError(f"{provider!r} is no provider the gateway knows; name one of {', '.join(PROVIDERS)}")
        if not is_address(url):
            raise UsageError(f"{url!r} is no address to send requests to; write it like https://api.example.com")
    return upstreams


def _for_embedded(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Settings for the embedded model: its own window, whatever model a client believes to speak with."""
    if settings.effective()["window"].origin != "default":
        return settings
    return read_settings({**environ, "INFOLD_WINDOW": str(embedded_model().context_tokens)}, Path.cwd())


@contextmanager
def keeping_within(store: FullStore, limits: StoreLimits, every_seconds: float = UPKEEP_SECONDS) -> Iterator[None]:
    """Hold a store to its limits while a block runs, beside whatever else is done with it; without limits nothing is done."""
    if limits.max_age_days is None and limits.max_bytes is None:
        yield
        return
    ended = Event()

    def keep() -> None:
        kept_within(store, limits)
        while not ended.wait(every_seconds):
            kept_within(store, limits)

    thread = Thread(target=keep, name="infold-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _gateway(
    upstreams: Upstreams, tenants: Tenants, tenancy: Tenancy, hub: Hub, *, token: str, given: GatewaySettings
) -> Gateway:
    acts = SessionActs(tenancy)
    desk = Desk(store=tenancy.store, acts=acts, feed=hub, window_of=acts.window_of, preview=acts.preview)
    return Gateway(
        upstreams=upstreams,
        tenants=tenants,
        tenancy=tenancy,
        hub=hub,
        limits=Limits(
            header_seconds=given.header_seconds,
            body_seconds=given.body_seconds,
            idle_seconds=given.idle_seconds,
            connections=connections_allowed(given.max_connections),
        ),
        token=token,
        pages=page_routes(desk),
        content_policy=CONTENT_POLICY,
        allowed_hosts=given.allowed_hosts,
    )


@contextmanager
def _bound(address: tuple[str, int]) -> Iterator[socket.socket]:
    """A socket of its own at that address: nobody else can be told the same one."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen()  # so that whoever reads the address may connect at once
        except OSError as error:
            raise UsageError(
                f"cannot listen on {address[0]}:{address[1]} ({error}); choose another --host or --port"
            ) from error
        yield listener


def _tell(listener: socket.socket, upstreams: Mapping[str, str], place: str, *, token: str) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    sent = [f"{provider} → {address}" for provider, address in sorted(upstreams.items())]
    click.echo(
        HINT.format(
            url=url,
            base=f"{url}/t/$INFOLD_TOKEN" if token else url,
            upstreams=", ".join(sent) or "every provider → the embedded model",
            store=format_value(place),
        )
    )
