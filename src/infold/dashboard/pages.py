"""The pages that show something: the sessions, one session, a message, what an entry did, what recall finds."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from infold.dashboard.addresses import address_of, key_at
from infold.dashboard.asked import number_in
from infold.dashboard.chart import chart
from infold.dashboard.desk import Desk
from infold.dashboard.finding import passages
from infold.dashboard.listing import listing, tenant_shown, title_shown
from infold.dashboard.live import news
from infold.dashboard.printing import Printer
from infold.dashboard.reading import check_known, fill_tokens, read, read_timeline
from infold.dashboard.rows import can_be_undone, rows
from infold.dashboard.story import Compaction, story_at
from infold.dashboard.tally import Tallies, Tally
from infold.dashboard.troubles import status_of
from infold.dashboard.utterance import utterance_at
from infold.errors import InfoldError
from infold.ports import SessionKey
from infold.session.compaction import Preview
from infold.session.recall import recall, recall_media

MOST_ROWS = 100
"""Rows of the log on one page."""

RECALL_TOKENS = 4_000
"""How much recall brings back for a person, who can scroll."""

TOKEN_SCOPE = "infold.token"
"""Set in the scope of a request by whoever serves the page behind a token."""

DONE = {
    "compacted": "Compacted.",
    "not-compacted": "Nothing was compacted: what would stand in its place is no smaller.",
    "undone": "Undone. If the next request would not fit, infold compacts again.",
    "pinned": "Pinned: it is never pruned, and a compaction quotes it word for word.",
    "released": "Released.",
}
"""What a page says after something was done."""


class Pages:
    """The pages of one desk; each method answers one kind of request."""

    def __init__(self, desk: Desk, printer: Printer) -> None:
        self._desk = desk
        self._printer = printer
        self._tallies = Tallies(desk.store)

    def sessions(self, request: Request) -> Response:
        """All sessions, searched by id and title."""
        asked = request.query_params
        found = listing(
            self._desk, self._tallies, words=asked.get("q", "").strip(), page=max(1, number_in(asked, "page") or 1)
        )
        return self._printer.page(
            request,
            "sessions",
            listing=found,
            now_ms=self._desk.now_ms(),
            client_url=_client_url(request),
            events="/events",
        )

    def session(self, request: Request) -> Response:
        """One session: its window over time and its log, as it stands or as it stood before an entry."""
        key, asked = key_at(request.path_params["address"]), request.query_params
        before = number_in(asked, "before")
        reading = read(self._desk.store, key, before=before)
        timeline = read_timeline(self._desk.store, reading)
        listed = rows(reading.entries, timeline.marks, timeline.log, MOST_ROWS)
        tally, window = self._tallies.of(key), self._desk.window_of(key)
        if before is not None and timeline.points:
            window = timeline.points[-1].window_tokens or window
        return self._of_session(
            request,
            key,
            "session",
            timeline=timeline,
            chart=chart(timeline, window),
            window_tokens=window,
            fill_tokens=fill_tokens(timeline.log, timeline.overhead),
            tally=tally,
            title=title_shown(self._desk.store, key, tally),
            tenant=tenant_shown(self._desk.store, key),
            rows=listed,
            older=listed[-1].sequence if len(reading.entries) > len(listed) else None,
            newer=None if before is None else _newer(before, tally),
            older_requests=reading.entries[0][0] if reading.has_older else None,
            before=before,
            events=f"/events?session={address_of(key)}" if before is None else "",
            can_undo=can_be_undone(timeline.log.checkpoint_sequence, timeline.log),
            done=DONE.get(asked.get("done", ""), ""),
            done_at=number_in(asked, "at"),
            summarises=self._desk.acts.summarises(key),
        )

    def message(self, request: Request) -> Response:
        """One message as it was said, whatever became of it."""
        key = key_at(request.path_params["address"])
        whole = "all" in request.query_params
        found = utterance_at(self._desk.store, key, request.path_params["handle"], whole=whole)
        done = DONE.get(request.query_params.get("done", ""), "")
        return self._of_session(request, key, "message", utterance=found, done=done)

    def media(self, request: Request) -> Response:
        """A medium as a file to keep, never as something that the browser opens on this page's own address."""
        key = key_at(request.path_params["address"])
        found = recall_media(self._desk.store, key, request.path_params["handle"])
        medium = found[min(number_in(request.query_params, "n") or 0, len(found) - 1)]
        name = quote(medium.name or f"{request.path_params['handle']}.{medium.media_type.rpartition('/')[2]}", safe="")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}", "x-content-type-options": "nosniff"}
        return Response(medium.data, media_type="application/octet-stream", headers=headers)

    def change(self, request: Request) -> Response:
        """What one entry folded or hid."""
        key = key_at(request.path_params["address"])
        story = story_at(self._desk.store, key, request.path_params["sequence"])
        name = "compaction" if isinstance(story, Compaction) else "hiding"
        return self._of_session(request, key, name, story=story)

    def recall(self, request: Request) -> Response:
        """What a session holds on some words, or under some handles."""
        key = key_at(request.path_params["address"])
        check_known(self._desk.store, key)
        words = request.query_params.get("q", "").strip()
        problem, status, answer = "", 200, ""
        try:
            answer = recall(self._desk.store, key, words, budget_tokens=RECALL_TOKENS) if words else ""
        except InfoldError as error:
            problem, status = str(error), status_of(error)
        return self._of_session(
            request, key, "recall", status=status, words=words, passages=passages(answer), problem=problem
        )

    async def compact(self, request: Request) -> Response:
        """What compacting now would do, before it is done."""
        key = key_at(request.path_params["address"])
        asked = request.query_params
        up_to = number_in(asked, "up_to")
        preview: Preview | None = None
        problem, status = "", 200
        try:
            preview = None if self._desk.preview is None else await self._desk.preview(key, up_to)
        except InfoldError as error:
            problem, status = str(error), status_of(error)
        return self._of_session(
            request,
            key,
            "compact",
            status=status,
            preview=preview,
            problem=problem,
            focus=asked.get("focus", ""),
            up_to=up_to,
            summarises=self._desk.acts.summarises(key),
        )

    async def events(self, request: Request) -> Response:
        """What happens from now on, in one session or in all."""
        address = request.query_params.get("session")
        key = None if address is None else key_at(address)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        stream = news(self._desk.store, self._desk.feed, key)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    def _of_session(
        self, request: Request, key: SessionKey, name: str, status: int = 200, **values: object
    ) -> Response:
        address = address_of(key)
        return self._printer.page(
            request,
            name,
            status=status,
            key=key,
            address=address,
            now_ms=self._desk.now_ms(),
            **values,
        )


def _newer(before: int, tally: Tally) -> str:
    """What asks for the entries after those of a page; nothing where they reach to the newest."""
    following = before + MOST_ROWS
    return f"?before={following}" if tally.newest is not None and following <= tally.newest[0] else ""


def _client_url(request: Request) -> str:
    """Where a client is pointed at; a server that asks for a token says so, and takes it in the path."""
    base = str(request.base_url).rstrip("/")
    return f"{base}/t/$INFOLD_TOKEN" if request.scope.get(TOKEN_SCOPE) else base
