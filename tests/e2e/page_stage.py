"""A page to look at: sessions of a long coding run in a store, and a real server on loopback that shows them.

Replies report what a provider with a prompt cache would: the prefix that a request shares with the one before it is cached.
"""

import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep, time
from typing import Any

import uvicorn
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.support.coding_session import SYSTEM_TEXT
from tests.support.trajectory import trajectory

from infold import AsyncSession, Preview, Session, SessionSettings
from infold.catalogue import Prices, lookup
from infold.core.budget import budget_for
from infold.core.judge import Answer, ModelAnswer
from infold.core.summary_request import SummaryRequest
from infold.core.tokens import estimate_tokens
from infold.gateway.actions import SessionActions
from infold.gateway.event_hub import EventHub
from infold.gateway.page.routes import CONTENT_POLICY, page_routes
from infold.ports import SessionKey
from infold.reports.stored_log import reply_in
from infold.stores.sqlite import SqliteStore

__all__ = ["CHROMIUM", "SETTINGS", "Player", "browser", "serving", "watched"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""Debian's browser, if it is installed."""

WINDOW = 60_000
STEP_MS = 23_000
SWITCHES = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
LONGEST_WAIT = 30.0

TOOLS = [{"name": name, "description": f"{name}: see the manual. " * 30} for name in ("read_file", "grep", "bash")]


def summarise(request: SummaryRequest) -> ModelAnswer:
    """A summary with one line that the judge must take out."""
    text = (
        "The timetable importer is being ported to the new feed, one part after the other; reading and searching came first.\n"
        "The tests were run with bash after each part and pass, apart from those that are skipped.\n"
        "The parser was moved to ferry/imaginary/teleport.py on the way.\n"
        "Next: go on with the part the user named last, and leave vendor/ alone."
    )
    return ModelAnswer(Answer(text), model="gpt-5-mini", cost=0.0042, duration_ms=2_900)


SETTINGS = SessionSettings(model="gpt-5", window=WINDOW, summariser=summarise, recall=True)


class Player:
    """Plays a trajectory into a session, request by request."""

    def __init__(
        self, store: SqliteStore, session_id: str, settings: SessionSettings = SETTINGS, tenant: str = ""
    ) -> None:
        self._moment = int(time() * 1000) - 60 * 60 * 1000
        self.session = Session(store, session_id, replace(settings, now_ms=self._tick), tenant=tenant)
        self._history = iter(trajectory())
        self._sent: Sequence[object] = ()

    def play(self, requests: int) -> None:
        """So many requests and their replies."""
        new: list[dict[str, Any]] = []
        for message in self._history:
            if message["role"] != "assistant":
                new.append(message)
                continue
            ready = self.session.prepare_new(new, system=SYSTEM_TEXT, tools=TOOLS)
            self.session.record(self._reply(message, ready.messages))
            new = []
            requests -= 1
            if not requests:
                return

    def refuse(self) -> None:
        """The provider finds the next request too large; it is made smaller and the session goes on."""
        ready = self.session.prepare_new([])
        told = (
            f"This model's maximum context length is {WINDOW} tokens. Your messages resulted in {WINDOW + 900} tokens."
        )
        self.session.recover({"error": {"code": "context_length_exceeded", "message": told}})
        self._sent = ready.messages

    def _reply(self, message: dict[str, Any], sent: Sequence[object]) -> dict[str, Any]:
        shared = next(
            (at for at, pair in enumerate(zip(sent, self._sent, strict=False)) if pair[0] != pair[1]), len(self._sent)
        )
        beside = estimate_tokens(SYSTEM_TEXT) + estimate_tokens(str(TOOLS))
        sizes = [estimate_tokens(str(one)) for one in sent]
        thought = {"reasoning_content": "First the facts, then the change. " * (len(sent) % 9)}
        self._sent = sent
        return {
            "choices": [{"message": {**thought, **message}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": beside + sum(sizes),
                "completion_tokens": estimate_tokens(str(message)),
                "prompt_tokens_details": {"cached_tokens": beside + sum(sizes[:shared]) if self._sent else 0},
            },
        }

    def _tick(self) -> int:
        self._moment += STEP_MS // 3
        return min(self._moment, int(time() * 1000))


class Actor(SessionActions):
    """Acts on sessions with settings of its own, and publishes their events."""

    def __init__(self, store: SqliteStore, settings: SessionSettings, hub: EventHub) -> None:
        self._store = store
        self._settings = replace(settings, format="openai-chat", on_event=hub.observe)

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> bool:
        """Compact a session now."""
        return bool((await (await self._opened(key)).compact(focus, up_to=up_to)).events)

    async def undo(self, key: SessionKey, sequence: int | None) -> None:
        """Undo an entry."""
        await (await self._opened(key)).undo(sequence)

    async def pin(self, key: SessionKey, handle: str, pinned: bool) -> None:
        """Pin a part or release it."""
        session = await self._opened(key)
        await (session.pin(handle) if pinned else session.unpin(handle))

    async def preview(self, key: SessionKey, up_to: int | None) -> Preview:
        """Return what compacting would do."""
        return (await self._opened(key)).preview(up_to=up_to)

    def window_of(self, key: SessionKey) -> int | None:
        """Return the window of the newest reply, or that of the settings."""
        replies = (reply_in(entry) for _, entry in self._store.newest_first(key))
        known = next((reply.window_tokens for reply in replies if reply is not None), 0)
        return known or self._settings.resolve().window.context_tokens

    def working_window_of(self, key: SessionKey) -> int | None:
        """Return the working window of the settings."""
        del key
        working = self._settings.working_window
        return working if isinstance(working, int) else None

    def usable_tokens(self, model: str, window_tokens: int) -> int:
        """Return what infold fills of a window of that size."""
        del model
        settings = replace(self._settings, window=window_tokens).resolve()
        return budget_for(settings.window, settings.policy).usable_tokens

    def prices_of(self, model: str) -> Prices | None:
        """Return the catalogue's prices."""
        return lookup(model).entry.prices if model else None

    def summarises(self, key: SessionKey) -> bool:
        """Whether the settings name a model."""
        del key
        return self._settings.summariser is not None

    async def _opened(self, key: SessionKey) -> AsyncSession:
        return await AsyncSession.open(self._store, key.session_id, self._settings, tenant=key.tenant)


class _Policy:
    """Sets the header that a gateway sets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", CONTENT_POLICY.encode())]
            await send(message)

        await self._app(scope, receive, sending)


@contextmanager
def serving(store: SqliteStore, settings: SessionSettings = SETTINGS) -> Iterator[str]:
    """The page over a store, at the address given, until the end of the block."""
    hub = EventHub()
    routes = page_routes(store, Actor(store, settings, hub), hub)
    app = Starlette(routes=routes, middleware=[Middleware(_Policy)])
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="page")
    thread.start()
    try:
        deadline = monotonic() + LONGEST_WAIT
        while not server.started and monotonic() < deadline:
            sleep(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        hub.close()
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(SWITCHES))
        try:
            yield opened
        finally:
            opened.close()


def watched(page: Page, troubles: list[str]) -> Page:
    """The page, with its errors and complaints noted."""
    page.set_default_timeout(10_000)
    page.on("console", lambda told: troubles.append(told.text) if told.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    return page
