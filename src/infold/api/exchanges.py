"""One request and its reply, seen from between a client and its provider.

What a wrapped client and a gateway have in common: a body is read, its session is found and made to fit, a refusal is recovered,
a reply is heard. Neither waits here for anything: whoever relays does that, sync or async.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from infold.api.session_settings import SessionSettings
from infold.catalogue import cost_of, lookup
from infold.core.budget import Window
from infold.core.judge import Told
from infold.core.summary_request import SummaryRequest
from infold.engine.finding import Brought, agent_of, brought_by, name_of
from infold.errors import MAY_PASS, FormatError, ModelBusy, ModelError, ModelOverflow, RequestRefused
from infold.formats.codec import as_dict, json_text
from infold.formats.overflow import message_in, recognise
from infold.formats.requests import (
    ProviderRequest,
    Unmanaged,
    format_of_path,
    is_truncating_host,
    read_answer,
    read_request,
    requested_window,
    requests_truncation,
    with_items,
)

UNKNOWN_MODEL = "unknown"
"""What a model is called whose request does not name it, as some local servers allow."""

LEAST_SUMMARISER_TOKENS = 16_000
"""Models with smaller windows hardly hold a record worth summarising beside the instruction and the answer."""


class Relayed(Struct, frozen=True):
    """A provider's answer: its status and its body."""

    status: int
    body: bytes


class Exchange(Struct, frozen=True):
    """A request that infold manages: what it asks for, its body as it came, the history it brings.

    `name` is what its session goes by; none where the history is too young to have one. `agent` tells the agent's own session,
    which goes on when its history is compacted; empty where it names none.
    """

    asked: ProviderRequest
    body: Mapping[str, Any]
    raw: bytes
    brought: Brought
    name: str | None
    agent: str = ""

    def with_messages(self, items: list[object]) -> bytes:
        """The body to send; the very bytes that came where nothing was changed (B29)."""
        if len(items) == len(self.asked.items) and all(map(_is_same, items, self.asked.items)):
            return self.raw
        return encoded(with_items(self.body, self.asked.wire, items))


def opened(path: str, headers: Mapping[str, str], raw: bytes, *, host: str = "") -> Exchange | Unmanaged:
    """Read a request that goes to this host (`name:port`); raises `BrokenInput` for a body that is none."""
    wire = format_of_path(path)
    if wire is None:
        return Unmanaged("the path takes no messages")
    body = as_dict(raw)
    asked = read_request(wire, body, path)
    if isinstance(asked, Unmanaged):
        return asked
    asked = replace(
        asked,
        window_tokens=requested_window(wire, body, headers),
        is_truncated=requests_truncation(body) or is_truncating_host(host),
    )
    brought = brought_by(asked)
    name = name_of(asked, brought, body, headers)
    return Exchange(asked, body, raw, brought, name, agent_of(body, headers))


def settings_for(settings: SessionSettings, asked: ProviderRequest) -> SessionSettings:
    """Settings for the session of a request: its format, and its model and window unless they name them or it has none.

    Whoever relays it recovers from a refusal, so that the expected size decides where the server does refuse.
    """
    window = asked.window_tokens if settings.window is None else settings.window
    nameless = UNKNOWN_MODEL if window is None else None
    recovers = not asked.is_truncated if settings.recovers is None else settings.recovers
    return replace(
        settings,
        model=settings.model or asked.model or nameless,
        window=window,
        format=asked.wire.name,
        bound_thinking=False if asked.drops_thinking else settings.bound_thinking,
        recovers=recovers,
    )


def can_summarise(settings: SessionSettings) -> bool:
    """Whether a session's own model is good enough to be asked for summaries, as far as is known."""
    entry = lookup(settings.model or "").entry
    window = settings.window.context_tokens if isinstance(settings.window, Window) else settings.window
    return entry.summarises and (window or entry.context_tokens) >= LEAST_SUMMARISER_TOKENS


def with_own_model(
    settings: SessionSettings, ask: Callable[[SummaryRequest], Told] | Callable[[SummaryRequest], Awaitable[Told]]
) -> SessionSettings:
    """Settings by which a session's own model writes the summaries, where they name nobody and it is good enough."""
    if settings.summariser is not None or not can_summarise(settings):
        return settings
    return replace(settings, summariser=ask, shares_prefix=True)


def refused(model: str, relayed: Relayed) -> ModelError | None:
    """Why a request for a summary came to nothing; none where it was answered."""
    if relayed.status < 400:
        return None
    overflow = recognise(relayed.status, relayed.body)
    if overflow is not None:
        return ModelOverflow(model, overflow.limit_tokens)
    said = message_in(relayed.body)
    problem = f"answered with status {relayed.status}{f': {said}' if said.strip() else ''}"
    may_pass = relayed.status >= 500 or relayed.status in MAY_PASS
    error = ModelBusy(model, problem) if may_pass else RequestRefused(model, problem)
    error.status = relayed.status
    return error


def told_by(asked: ProviderRequest, relayed: Relayed) -> Told:
    """What a model's reply to a request for a summary says, and what it cost; raises `ModelError` where it says nothing."""
    error = refused(asked.model, relayed)
    if error is not None:
        raise error
    try:
        reply = msgspec.json.decode(relayed.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise ModelError(asked.model, f"answered with what is no JSON ({broken})") from broken
    if isinstance(reply, Mapping) and reply.get("error"):  # some servers report a failure with status 200
        raise ModelBusy(asked.model, f"answered with an error: {message_in(reply)}")
    try:
        usage = asked.wire.usage(reply)
        return Told(read_answer(asked.wire, reply), asked.model, usage, cost_of(asked.model, usage))
    except FormatError as broken:
        raise ModelError(asked.model, f"answered with what is no reply ({broken})") from broken


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as JSON."""
    return json_text(body).encode()


def _is_same(one: object, other: object) -> bool:
    return one is other or one == other
