"""The forms that change something: compact, undo, pin. Each is answered by the page it came from, which then shows it."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from infold.dashboard.addresses import address_of, key_at
from infold.dashboard.asked import form_of, number_in
from infold.dashboard.desk import Acts
from infold.errors import UsageError
from infold.ports import SessionKey


class Acting:
    """Passes on what a person wants done."""

    def __init__(self, acts: Acts) -> None:
        self._acts = acts

    async def compact(self, request: Request) -> Response:
        """Compact now, with a focus, up to a message."""
        key, form = key_at(request.path_params["address"]), await form_of(request)
        is_done = await self._acts.compact(key, form.get("focus", "").strip(), number_in(form, "up_to"))
        return _back(request, key, "compacted" if is_done else "not-compacted")

    async def undo(self, request: Request) -> Response:
        """Undo the newest compaction, or what an entry hid."""
        key, form = key_at(request.path_params["address"]), await form_of(request)
        await self._acts.undo(key, number_in(form, "sequence"))
        return _back(request, key, "undone")

    async def pin(self, request: Request) -> Response:
        """Pin a part or release it."""
        key, form = key_at(request.path_params["address"]), await form_of(request)
        handle, pinned = form.get("handle", ""), form.get("pinned") == "yes"
        sequence, dot, position = handle.partition(".")
        if not (sequence.isdecimal() and dot and position.isdecimal()):
            raise UsageError(f"{handle[:40]!r} is no handle; use the buttons of the page")
        await self._acts.pin(key, handle, pinned)
        done = "pinned" if pinned else "released"
        if form.get("back") == "message":
            return _back(request, key, done, place=f"/messages/{sequence}")
        return _back(request, key, done, at=f"&at={sequence}#e{sequence}")


def _back(request: Request, key: SessionKey, done: str, *, place: str = "", at: str = "") -> Response:
    base = str(request.scope.get("root_path", "")).rstrip("/")
    return RedirectResponse(f"{base}/sessions/{address_of(key)}{place}?done={done}{at}", 303)
