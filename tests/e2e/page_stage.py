"""A page to look at: sessions of a long coding run in a store, and a real server on loopback that shows them.

Replies report what a provider with a prompt cache would: the prefix that a request shares with the one before it is cached.
"""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
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
from tests.support.trajectory import trajectory

from infold import AsyncSession, Preview, Session, SessionSettings
from infold.cli.demo_session import SYSTEM_TEXT
from infold.core.events import Event
from infold.core.judge import Answer, Told
from infold.core.summary_request import SummaryRequest
from infold.core.tokens import estimate_tokens
from infold.dashboard.app import CONTENT_POLICY, page_routes
from infold.dashboard.desk import Desk
from infold.observers.bus import Bus
from infold.ports import SessionKey
from infold.stores.sqlite import SqliteStore

__all__ = ["CHROMIUM", "SETTINGS", "Player", "browser", "serving", "watched"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""Debian's browser, if it is installed."""

WINDOW = 60_000
STEP_MS = 23_000
SWITCHES = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
LONGEST_WAIT = 30.0

TOOLS = [{"name": name, "description": f"{name}: see the manual. " * 30} for name in ("read_file", "grep", "bash")]


def summarise(request: SummaryRequest) -> Told:
    """A summary with one line that the judge must take out."""
    text = (
        "The timetable importer is being ported to the new feed, one part after the other; reading and searching came first.\n"
        "The tests were run with bash after each part and pass, apart from those that are skipped.\n"
        "The parser was moved to ferry/imaginary/teleport.py on the way.\n"
        "Next: go on with the part the user named last, and leave vendor/ alone."
    )
    return Told(Answer(text), model="gpt-5-mini", cost=0.0042, duration_ms=2_900)


SETTINGS = SessionSettings(model="gpt-5", window=WINDOW, summariser=summarise, recall=True)


class Player:
    """Plays a trajectory into a session, request by request."""

    def __init__(self, store: SqliteStore, session_id: str, settings: SessionSettings = SETTINGS, **place: str) -> None:
        self._moment = int(time() * 1000) - 60 * 60 * 1000
        self.session = Session(store, session_id, replace(settings, now_ms=self._tick), **place)
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


class Actor:
    """Acts on sessions as a gateway would, and lets open pages hear of it."""

    def __init__(self, store: SqliteStore, settings: SessionSettings) -> None:
        self._store = store
        self._bus = Bus()
        self._listeners: list[Callable[[None], object]] = []
        self._settings = replace(settings, format="openai-chat", on_event=self._bus.observe)

    async def compact(self, key: SessionKey, focus: str, up_to: int | None) -> bool:
        """Compact a session now."""
        return bool((await (await self._opened(key)).compact(focus, up_to=up_to)).events)

    async def undo(self, key: SessionKey, sequence: int | None) -> None:
        """Undo what an entry did."""
        await (await self._opened(key)).undo(sequence)

    async def pin(self, key: SessionKey, handle: str, pinned: bool) -> None:
        """Pin a part or release it."""
        session = await self._opened(key)
        await (session.pin(handle) if pinned else session.unpin(handle))

    def summarises(self, key: SessionKey) -> bool:
        """A model does, if the settings name one."""
        del key
        return self._settings.summariser is not None

    async def preview(self, key: SessionKey, up_to: int | None) -> Preview:
        """What compacting would do."""
        return (await self._opened(key)).preview(up_to=up_to)

    async def subscribe(self) -> AsyncIterator[tuple[str | None, Event]]:
        """The events from now on."""
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[Event | None]()

        def tell(event: Event | None) -> None:
            loop.call_soon_threadsafe(waiting.put_nowait, event)

        end = self._bus.subscribe(Event, tell)
        self._listeners.append(tell)
        try:
            while (event := await waiting.get()) is not None:
                yield None, event
        finally:
            self._listeners.remove(tell)
            end()

    def close(self) -> None:
        """End what every open page listens to, so that the server need not wait for them."""
        for tell in tuple(self._listeners):
            tell(None)

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
    actor = Actor(store, settings)
    window = settings.terms.window.context_tokens
    desk = Desk(store=store, acts=actor, feed=actor, window_of=lambda _: window, preview=actor.preview)
    app = Starlette(routes=page_routes(desk), middleware=[Middleware(_Policy)])
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
        actor.close()
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
