"""Hear from whatever a caller caught or was sent whether a provider refused a request as too large."""

import re
from collections.abc import Mapping

from infold.formats.overflow import Overflow, recognise

_SAYS_NOTHING = re.compile(r"(?:error code:?\s*)?\d{3}|", re.IGNORECASE)
"""What SDKs say of a refusal that came without a body: its status."""


def overflow_of(error: object) -> Overflow | None:
    """The overflow that an SDK's exception, or the body of a refusal, reports; nothing if it speaks of something else."""
    if isinstance(error, Overflow):
        return error
    if isinstance(error, Mapping | str | bytes):
        return recognise(None, error)
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    code = status if isinstance(status, int) else None
    if isinstance(body, Mapping | str | bytes) and body:
        return recognise(code, body)
    text = str(error)
    return recognise(code, "" if _SAYS_NOTHING.fullmatch(text.strip()) else text)
