"""The routes of the page: what it shows, and the forms that compact, undo and pin.

They show the sessions of all tenants. The gateway adds the header of `CONTENT_POLICY`, requires a token that clients do not have,
and refuses posts from other sites, for all of its routes.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import islice
from os import PathLike, stat_result
from time import time
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Struct
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from infold.core.messages import SessionId
from infold.errors import InfoldError, UnknownSession, UnusableKey, UsageError
from infold.gateway.actions import SessionActions
from infold.gateway.auth import TOKEN_SCOPE
from infold.gateway.event_hub import EventHub
from infold.gateway.page.chart import RequestLimit, draw_chart
from infold.gateway.page.live import stream_updates
from infold.gateway.page.templates import STATIC, ErrorPages, Templates, static_version, status_of
from infold.gateway.upstream import CLIENTS, upstream_options
from infold.ports import FullStore, SessionKey
from infold.reports.account import SessionAccount, session_account
from infold.reports.contents import schema_contents
from infold.reports.details import CompactionDetail, entry_detail, message_detail
from infold.reports.listing import ListedSession, Tallies, Tally, find_sessions, list_session
from infold.reports.log_rows import can_undo, log_rows
from infold.reports.stored_log import LogSection, check_exists, count_tokens, read_section
from infold.reports.text import excerpt
from infold.reports.timeline import RequestPoint, Timeline, read_timeline
from infold.session.recall import recall, recall_media

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The strictest content security policy that the page works under: nothing inline, nothing from elsewhere."""

SESSION = "/sessions/{address}"
LIST = "/sessions.json"
IMMUTABLE = "private, max-age=31536000, immutable"
"""A file requested by its version never changes, so a browser need not ask for it again."""

PAGE_SIZE = 25
"""Sessions on one page."""

MOST_LISTED = 200
"""Sessions in one answer for a program."""

LAST_PAGE = 10**9
"""Above every page that a store fills."""

MOST_ROWS = 100
"""Rows of the log on one page."""

RECALL_TOKENS = 4_000
"""How much recall returns to a person, who can scroll."""

TENANT_CHARACTERS = 8
"""Of a tenant, which is a hash; enough to distinguish a few."""

LONGEST_TITLE = 120

DONE = {
    "compacted": "Compacted.",
    "not-compacted": "Nothing was compacted: the checkpoint would not be smaller.",
    "undone": "Undone. If the next request would not fit, infold compacts again.",
    "pinned": "Pinned: it is never pruned, and a compaction quotes it word for word.",
    "released": "Released.",
}
"""What a page says after a form was sent."""

LABELS = {
    "up_to": "the first message to keep",
    "sequence": "the entry to undo",
    "before": "the entry to stop before",
    "page": "the page",
    "most": "the number of sessions",
    "at": "the entry",
}
"""What each number is called in an error."""

LARGEST_FORM = 64_000
"""Bytes of a form; the focus of a compaction is a sentence or two."""

LONGEST_NUMBER = 18
FORM_TYPE = "application/x-www-form-urlencoded"

SEPARATOR = "\0"
"""Between tenant and id; keys do not contain it."""

_REMARK = re.compile(r"\n\n(?=\[(?:passages only|also found in [\d., ]+); ask for a handle to read its part\]\s*\Z)")
"""Before the remark that recall may add to its answer."""

_PASSAGE = re.compile(r"^(?=\[\d+\.\d+\] ?)", re.MULTILINE)
_HEADING = re.compile(r"\[(?P<handle>\d+\.\d+)\] ?(?P<title>.*)")


def page_routes(
    store: FullStore,
    actions: SessionActions,
    hub: EventHub,
    *,
    routed: Collection[str] = (),
    now_ms: Callable[[], int] = lambda: int(time() * 1000),
) -> list[BaseRoute]:
    """Return the routes of the page, its style and its scripts; `routed` are the providers for whose clients it has lines."""
    templates = Templates()
    pages, forms = _Pages(store, actions, hub, templates, now_ms, routed), _Forms(actions)
    with_errors = [Middleware(ErrorPages, templates=templates)]
    return [
        Route("/", pages.sessions, middleware=with_errors),
        Route(LIST, pages.session_list, middleware=with_errors),
        Route("/events", pages.events, middleware=with_errors),
        Route(SESSION, pages.session, middleware=with_errors),
        Route(f"{SESSION}/messages/{{handle}}", pages.message, middleware=with_errors),
        Route(f"{SESSION}/media/{{handle}}", pages.media, middleware=with_errors),
        Route(f"{SESSION}/changes/{{sequence:int}}", pages.change, middleware=with_errors),
        Route(f"{SESSION}/recall", pages.recall, middleware=with_errors),
        Route(f"{SESSION}/compact", pages.compact, middleware=with_errors),
        Route(f"{SESSION}/compact", forms.compact, methods=["POST"], middleware=with_errors),
        Route(f"{SESSION}/undo", forms.undo, methods=["POST"], middleware=with_errors),
        Route(f"{SESSION}/pin", forms.pin, methods=["POST"], middleware=with_errors),
        Mount("/static", _Static(directory=STATIC)),
    ]


class SessionRow(Struct, frozen=True):
    """A session in the list, its address, title and tenant as shown, and how much of its window is filled, if that is known."""

    listed: ListedSession
    address: str
    title: str
    tenant: str
    usable_tokens: int | None


class SessionState(Struct, frozen=True):
    """A session as programs read it: what it was sent and costs, and how full the window is."""

    id: str
    tenant: str
    title: str
    model: str
    view_tokens: int
    usable_tokens: int | None
    window_tokens: int | None
    requests: int
    compactions: int
    prunings: int
    cost: float
    cost_is_partial: bool
    cached_share: float | None
    changed_ms: int
    problem: str


class _Pages:
    """What the page shows; each method answers one kind of request."""

    def __init__(
        self,
        store: FullStore,
        actions: SessionActions,
        hub: EventHub,
        templates: Templates,
        now_ms: Callable[[], int],
        routed: Collection[str],
    ) -> None:
        self._store = store
        self._actions = actions
        self._hub = hub
        self._templates = templates
        self._now_ms = now_ms
        self._tallies = Tallies(store)
        self._clients = [one for one in CLIENTS if one.provider in routed]
        self._options = list(upstream_options(routed)) if routed else []

    def sessions(self, request: Request) -> Response:
        """Show all sessions, or those whose id or title contains some words."""
        words = request.query_params.get("q", "").strip()
        page = min(max(1, int_param(request.query_params, "page") or 1), LAST_PAGE)
        matching = find_sessions(self._store, self._tallies, words)
        found = list(islice(matching, (page - 1) * PAGE_SIZE, page * PAGE_SIZE + 1))
        return self._templates.render(
            request,
            "sessions",
            rows=[self._session_row(list_session(self._tallies, one)) for one in found[:PAGE_SIZE]],
            words=words,
            page=page,
            has_more=len(found) > PAGE_SIZE,
            now_ms=self._now_ms(),
            clients=[(one.name, one.line(_client_url(request))) for one in self._clients],
            options=self._options,
            events="/events",
        )

    def session_list(self, request: Request) -> Response:
        """Send the newest sessions as JSON, `most` of them, for programs such as `infold top`."""
        most = min(max(1, int_param(request.query_params, "most") or PAGE_SIZE), MOST_LISTED)
        newest = list(islice(find_sessions(self._store, self._tallies, ""), most + 1))
        rows = [self._session_state(list_session(self._tallies, one)) for one in newest[:most]]
        content = {"now_ms": self._now_ms(), "has_more": len(newest) > most, "sessions": rows}
        return Response(msgspec.json.encode(content), media_type="application/json")

    def session(self, request: Request) -> Response:
        """Show one session, its window over time and its log, as it is or as it was before an entry."""
        key, params = key_in(request), request.query_params
        before = int_param(params, "before")
        section = read_section(self._store, key, before=before)
        timeline = read_timeline(self._store, section)
        rows = log_rows(section.entries, timeline.annotations, timeline.log, MOST_ROWS)
        tally, limits = self._tallies.get(key), self._limits(key, timeline, is_now=before is None)
        return self._render(
            request,
            key,
            "session",
            timeline=timeline,
            chart=draw_chart(timeline, limits),
            limits=limits,
            account=None if before is not None else self._account(timeline, section, limits),
            working_tokens=self._actions.working_window_of(key),
            schemas=() if before is not None else schema_contents(tally.schemas, tally.called),
            view_tokens=count_tokens(timeline.log, timeline.overhead),
            tally=tally,
            title=excerpt(self._tallies.title(key), LONGEST_TITLE),
            tenant=self._tenant(key),
            rows=rows,
            older=rows[-1].sequence if len(section.entries) > len(rows) else None,
            newer=None if before is None else _newer(before, tally),
            older_requests=section.entries[0][0] if section.has_older else None,
            before=before,
            events=f"/events?session={encode_key(key)}" if before is None else "",
            can_undo=can_undo(timeline.log.checkpoint_sequence, timeline.log),
            done=DONE.get(params.get("done", ""), ""),
            done_at=int_param(params, "at"),
            summarises=self._actions.summarises(key),
        )

    def message(self, request: Request) -> Response:
        """Show one message as it was written, also if it is hidden now."""
        key = key_in(request)
        detail = message_detail(self._store, key, request.path_params["handle"], whole="all" in request.query_params)
        done = DONE.get(request.query_params.get("done", ""), "")
        return self._render(request, key, "message", detail=detail, done=done)

    def media(self, request: Request) -> Response:
        """Send a medium as a download; the browser must never open it at the address of the page."""
        handle = request.path_params["handle"]
        found = recall_media(self._store, key_in(request), handle)
        medium = found[min(int_param(request.query_params, "n") or 0, len(found) - 1)]
        name = quote(medium.name or f"{handle}.{medium.media_type.rpartition('/')[2]}", safe="")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}", "x-content-type-options": "nosniff"}
        return Response(medium.data, media_type="application/octet-stream", headers=headers)

    def change(self, request: Request) -> Response:
        """Show what one entry folded or hid."""
        key = key_in(request)
        detail = entry_detail(self._store, key, request.path_params["sequence"])
        name = "compaction" if isinstance(detail, CompactionDetail) else "hiding"
        return self._render(request, key, name, detail=detail)

    def recall(self, request: Request) -> Response:
        """Show what recall finds for some words or handles."""
        key = key_in(request)
        check_exists(self._store, key)
        words = request.query_params.get("q", "").strip()
        problem, status, answer = "", 200, ""
        try:
            answer = recall(self._store, key, words, budget_tokens=RECALL_TOKENS) if words else ""
        except InfoldError as error:
            problem, status = str(error), status_of(error)
        passages = split_passages(answer)
        return self._render(request, key, "recall", status=status, words=words, passages=passages, problem=problem)

    async def compact(self, request: Request) -> Response:
        """Show what compacting now would do."""
        key, params = key_in(request), request.query_params
        up_to = int_param(params, "up_to")
        preview, problem, status = None, "", 200
        try:
            preview = await self._actions.preview(key, up_to)
        except InfoldError as error:
            problem, status = str(error), status_of(error)
        return self._render(
            request,
            key,
            "compact",
            status=status,
            preview=preview,
            problem=problem,
            focus=params.get("focus", ""),
            up_to=up_to,
            summarises=self._actions.summarises(key),
        )

    async def events(self, request: Request) -> Response:
        """Stream what happens from now on, in one session or in all."""
        address = request.query_params.get("session")
        key = None if address is None else decode_key(address)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        updates = stream_updates(self._store, self._hub, key)
        return StreamingResponse(updates, media_type="text/event-stream", headers=headers)

    def _render(self, request: Request, key: SessionKey, name: str, status: int = 200, **values: object) -> Response:
        return self._templates.render(
            request, name, status=status, key=key, address=encode_key(key), now_ms=self._now_ms(), **values
        )

    def _limits(self, key: SessionKey, timeline: Timeline, *, is_now: bool) -> list[RequestLimit]:
        """Return the limits of each request of a timeline, and of the one after them.

        Each has the window that was recorded with it, since a session may change its model, or else the session's own.
        """
        own, models = self._actions.window_of(key) or 0, [_model(point) for point in timeline.points]
        windows = [point.reply.window_tokens or own for point in timeline.points]
        last = own if is_now or not windows else windows[-1]
        usable = cache(self._actions.usable_tokens)
        return [
            RequestLimit(usable(model, window) if window else 0, window)
            for model, window in zip((*models, models[-1] if models else ""), (*windows, last), strict=True)
        ]

    def _account(self, timeline: Timeline, section: LogSection, limits: Sequence[RequestLimit]) -> SessionAccount:
        usable = {point.number: limit.usable_tokens for point, limit in zip(timeline.points, limits, strict=False)}
        return session_account(
            timeline,
            section.entries,
            limit_of=lambda point: usable[point.number],
            prices_of=cache(self._actions.prices_of),
        )

    def _session_row(self, listed: ListedSession) -> SessionRow:
        key, usable = listed.stored.key, None
        try:
            window = None if listed.problem else self._actions.window_of(key)
            usable = self._actions.usable_tokens(listed.tally.model, window) if window else None
        except InfoldError as error:
            listed = ListedSession(listed.stored, problem=str(error))
        title = excerpt(listed.title, LONGEST_TITLE)
        return SessionRow(listed, encode_key(key), title, self._tenant(key), usable)

    def _session_state(self, listed: ListedSession) -> SessionState:
        row = self._session_row(listed)
        key, tally, problem = row.listed.stored.key, row.listed.tally, row.listed.problem
        return SessionState(
            key.session_id,
            row.tenant,
            row.title,
            tally.model,
            tally.view_tokens,
            row.usable_tokens,
            None if problem else self._actions.window_of(key),
            tally.requests,
            len(tally.folds),
            tally.prunings,
            round(tally.total_cost, 6),
            tally.costs_at_least,
            tally.cached_share,
            row.listed.stored.changed_ms,
            problem,
        )

    def _tenant(self, key: SessionKey) -> str:
        """Return a short label of the tenant, empty if the store has only one."""
        return key.tenant[:TENANT_CHARACTERS] if len(self._store.tenants()) > 1 else ""


class _Forms:
    """The forms that change a session; each redirects to the page it came from."""

    def __init__(self, actions: SessionActions) -> None:
        self._actions = actions

    async def compact(self, request: Request) -> Response:
        """Compact now, with a focus, up to a message."""
        key, form = key_in(request), await read_form(request)
        is_done = await self._actions.compact(key, form.get("focus", "").strip(), int_param(form, "up_to"))
        return _redirect(request, key, "compacted" if is_done else "not-compacted")

    async def undo(self, request: Request) -> Response:
        """Undo the newest compaction, or the entry of a number."""
        key, form = key_in(request), await read_form(request)
        await self._actions.undo(key, int_param(form, "sequence"))
        return _redirect(request, key, "undone")

    async def pin(self, request: Request) -> Response:
        """Pin a part or release it."""
        key, form = key_in(request), await read_form(request)
        handle, pinned = form.get("handle", ""), form.get("pinned") == "yes"
        sequence, dot, position = handle.partition(".")
        if not (sequence.isdecimal() and dot and position.isdecimal()):
            raise UsageError(f"not a handle: {handle[:40]!r}; use the buttons of the page")
        await self._actions.pin(key, handle, pinned)
        done = "pinned" if pinned else "released"
        if form.get("back") == "message":
            return _redirect(request, key, done, place=f"/messages/{sequence}")
        return _redirect(request, key, done, at=f"&at={sequence}#e{sequence}")


class _Static(StaticFiles):
    """The style and the scripts, which a browser may cache if it requests them by their version."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return a file with its cache policy."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        is_versioned = scope["query_string"] == static_version().encode()
        response.headers["cache-control"] = IMMUTABLE if is_versioned else "no-cache"
        return response


class RecalledPassage(Struct, frozen=True):
    """Some lines of a part; without a handle, a remark of recall itself."""

    handle: str
    title: str
    text: str


def split_passages(answer: str) -> tuple[RecalledPassage, ...]:
    """Split an answer of `recall` into passages that can be opened."""
    found, *remark = _REMARK.split(answer, maxsplit=1)
    blocks = (block.strip() for block in (*_PASSAGE.split(found), *remark))
    return tuple(_passage(block) for block in blocks if block)


def _passage(block: str) -> RecalledPassage:
    first, _, rest = block.partition("\n")
    heading = _HEADING.fullmatch(first)
    if heading is None:
        return RecalledPassage("", "", block)
    return RecalledPassage(heading["handle"], heading["title"], rest)


def _redirect(request: Request, key: SessionKey, done: str, *, place: str = "", at: str = "") -> Response:
    base = str(request.scope.get("root_path", "")).rstrip("/")
    return RedirectResponse(f"{base}/sessions/{encode_key(key)}{place}?done={done}{at}", 303)


def _model(point: RequestPoint) -> str:
    return "" if point.reply.model is None else point.reply.model.id


def _newer(before: int, tally: Tally) -> str:
    """Return the query for the entries after those of a page, empty if they reach to the newest."""
    following = before + MOST_ROWS
    return f"?before={following}" if tally.newest is not None and following <= tally.newest[0] else ""


def _client_url(request: Request) -> str:
    """Return the base URL for a client; it contains the token if the gateway requires one."""
    base = str(request.base_url).rstrip("/")
    return f"{base}/t/$INFOLD_TOKEN" if request.scope.get(TOKEN_SCOPE) else base


# What a request carries: the session in its path, numbers in its query, the fields of a form.


def encode_key(key: SessionKey) -> str:
    """Return a session's key as one segment of a URL, whatever characters it contains."""
    return urlsafe_b64encode(f"{key.tenant}{SEPARATOR}{key.session_id}".encode()).decode().rstrip("=")


def decode_key(address: str) -> SessionKey:
    """Return the key that a segment of a URL stands for; raise `UnknownSession` if it is not valid."""
    try:
        text = urlsafe_b64decode(address.encode("ascii") + b"=" * (-len(address) % 4)).decode()
        tenant, _, session_id = text.partition(SEPARATOR)
        return SessionKey(tenant, SessionId(session_id))
    except (ValueError, UnusableKey) as error:
        raise UnknownSession(address) from error


def key_in(request: Request) -> SessionKey:
    """Return the session in the path of a request; raise `UnknownSession` if it is not valid."""
    return decode_key(request.path_params["address"])


def int_param(given: Mapping[str, str], name: str) -> int | None:
    """Return the number of an entry or of a page; `None` if the field is empty, `UsageError` if it is not a number."""
    text = given.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > LONGEST_NUMBER:
        raise UsageError(f"{LABELS.get(name, name)} must be a number, not {text[:40]!r}; go back and leave it empty")
    return int(text)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form sent by a browser; raise `UsageError` for anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
        raise UsageError("this is not a form of the page; use its buttons")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            raise UsageError(f"the form is larger than {LARGEST_FORM:,} bytes; shorten it")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
