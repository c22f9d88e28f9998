"""A gateway in a process of its own, for tests that end it in the middle of things.

Run as `gateway_worker.py <store> <upstream>`; the store is a file or a PostgreSQL connection string. Prints its address. With
`GATEWAY_DEBUG` every logger there is says all it can; `GATEWAY_LIMITS` are limits as JSON.
"""

import logging
import os
import socket
import sys
import tempfile
from pathlib import Path

import msgspec
import uvicorn

from infold.gateway.app import Gateway, application
from infold.gateway.event_hub import EventHub
from infold.gateway.request_body import GatewayLimits
from infold.gateway.server import Server
from infold.gateway.tenants import Tenants, TenantSessions
from infold.gateway.upstream import PROVIDERS, Upstreams
from infold.ports import FullStore
from infold.settings import read_settings
from infold.stores.postgres import PostgresStore
from infold.stores.sqlite import SqliteStore

SECRET = b"the same for all replicas"


def opened(place: str) -> FullStore:
    """The store at a place."""
    return PostgresStore(place) if "=" in place or "://" in place else SqliteStore(place)


def main(place: str, upstream: str) -> None:
    """Serve until a signal comes."""
    level = "debug" if os.environ.get("GATEWAY_DEBUG") else "warning"
    if level == "debug":
        logging.basicConfig(level=logging.DEBUG)
    hub = EventHub()
    gateway = Gateway(
        upstreams=Upstreams(dict.fromkeys(PROVIDERS, upstream)),
        tenants=Tenants(SECRET),
        sessions=TenantSessions(opened(place), read_settings(os.environ, Path(tempfile.gettempdir())), hub),
        hub=hub,
        limits=msgspec.json.decode(os.environ.get("GATEWAY_LIMITS", "{}"), type=GatewayLimits),
    )
    log_config = None if level == "debug" else uvicorn.config.LOGGING_CONFIG
    server = Server(application(gateway), gateway.limits, log_level=level, log_config=log_config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        server.run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:3])
