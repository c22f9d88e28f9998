"""What a request asks for: numbers in an address, and the fields of a form."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from infold.errors import UsageError

NAMES = {
    "up_to": "the first message to keep",
    "sequence": "the entry to undo",
    "before": "the entry to stop before",
    "page": "the page",
    "at": "the entry",
}
"""What each number is, in words."""

LARGEST_FORM = 64_000
"""Bytes of a form; the focus of a compaction is a sentence or two."""

LONGEST_NUMBER = 18
FORM_TYPE = "application/x-www-form-urlencoded"


def number_in(given: Mapping[str, str], name: str) -> int | None:
    """A field that is a number of an entry or of a page; none where it is empty, `UsageError` where it is no number."""
    text = given.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > LONGEST_NUMBER:
        raise UsageError(f"{NAMES.get(name, name)} should be a number and is {text[:40]!r}; go back and leave it empty")
    return int(text)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form that a browser sent; raises `UsageError` for anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
        raise UsageError("this is no form of the page; use its buttons")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_FORM:
            raise UsageError(f"the form is larger than {LARGEST_FORM:,} bytes; shorten it")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
