"""Hear from whatever a caller caught or was sent whether a provider refused a request as too large."""

from collections.abc import Mapping

from infold.formats.overflow import Overflow, recognise

__all__ = ["overflow_of"]


def overflow_of(error: object) -> Overflow | None:
    """The overflow that an SDK's exception, or the body of a refusal, reports; nothing if it speaks of something else."""
    if isinstance(error, Overflow):
        return error
    if isinstance(error, Mapping | str | bytes):
        return recognise(None, error)
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    told = body if isinstance(body, Mapping | str | bytes) and body else str(error)
    return recognise(status if isinstance(status, int) else None, told)
