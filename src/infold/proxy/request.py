"""Parse a client's request: its format and fields, its history, and the name of the session it belongs to.

A session that the client names comes first. Any other is named after how its history begins: the user's first message and the
first reply, so that histories with the same first message get different sessions as soon as there is anything to lose. Before
its first reply a history without a name has no session: nothing was cut yet, and the client brings all of it again.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from infold.catalogue.served import is_paid
from infold.core.messages import AssistantMessage, Message, calls_of, fingerprint, is_genuine_user
from infold.formats.anthropic import defer_tools
from infold.formats.codec import as_dict, json_text
from infold.formats.registry import ANTHROPIC_MESSAGES
from infold.formats.requests import (
    ProviderRequest,
    Unmanaged,
    format_of_path,
    is_truncating_host,
    offers_native,
    read_request,
    requested_window,
    requests_summary,
    requests_truncation,
    with_items,
    with_output,
)
from infold.session.history import DecodedHistory, decode_history
from infold.session.settings import account_of

SESSION_HEADER = "x-infold-session"
"""The header in which a client may name its session."""

_AGENT_HEADERS = ("x-session-id", "session_id", "session-id", "x-claude-code-session-id", "x-conversation-id")
"""The headers in which agents name their sessions: OpenCode, Codex, Claude Code."""

CREDENTIAL_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
"""Headers in which providers take credentials; Gemini also takes one in the query."""

SIGNED = "AWS4-HMAC-SHA256"
"""How the credential of a request begins whose body is part of its signature; a Bedrock API key is a bearer token instead."""

LONGEST_NAME = 200
"""Characters of a session name; a key has room for these and the suffix of a fork."""


class IncomingHistory(Struct, frozen=True):
    """The history of a request, decoded, and the fingerprint of each message; leading system messages are left out of both.

    `has_tools`: the request offers tools.
    """

    decoded: DecodedHistory
    fingerprints: tuple[str, ...]
    has_tools: bool = True

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages without the leading system messages."""
        return self.decoded.decoded.messages

    @property
    def first_user_fingerprint(self) -> str:
        """The fingerprint of the user's first message, or of the first message if the user wrote none."""
        pairs = zip(self.messages, self.fingerprints, strict=True)
        first = self.fingerprints[0] if self.fingerprints else ""
        return next((mark for message, mark in pairs if is_genuine_user(message)), first)

    @property
    def first_reply_fingerprint(self) -> str | None:
        """The fingerprint of the first reply; `None` before there is one."""
        pairs = zip(self.messages, self.fingerprints, strict=True)
        return next((mark for message, mark in pairs if isinstance(message, AssistantMessage)), None)

    @property
    def is_compacted(self) -> bool:
        """Whether the client has compacted this history, given that no session has it: it has replies or opens with a summary."""
        if not self.has_tools or not self.messages:
            return False
        return self.first_reply_fingerprint is not None or not is_genuine_user(self.messages[0])


class ParsedRequest(Struct, frozen=True):
    """A request with a history that infold manages: its fields, its JSON body as decoded and as received, its history.

    `session_name` is `None` for a history that has no session yet. `agent_session` is a fingerprint of the agent's own session
    id, which stays the same when the agent compacts its history; empty if the agent sends none. `relayed` is why it is sent as
    it was received although its reply is observed; empty for any other. `account` stands for its credential.
    """

    asked: ProviderRequest
    body: Mapping[str, Any]
    raw: bytes
    history: IncomingHistory
    session_name: str | None
    agent_session: str = ""
    relayed: str = ""
    account: str = ""

    def with_messages(self, items: list[object], output_tokens: int | None = None) -> bytes:
        """Return the body with these messages and at most that output; the very bytes that were received if nothing changed."""
        body = self.body
        if len(items) != len(self.asked.items) or not all(map(_is_same, items, self.asked.items)):
            body = with_items(body, self.asked.wire, items)
        if output_tokens is not None and output_tokens < self.asked.output_tokens:
            body = with_output(body, output_tokens)
        return self.raw if body is self.body else encode_body(body)


def parse_request(path: str, headers: Mapping[str, str], raw: bytes, *, host: str = "") -> ParsedRequest | Unmanaged:
    """Parse a request to a provider at this host (`name:port`); the names of the headers are in lower case.

    Raise `BrokenInput` if the body or one of its messages cannot be decoded.
    """
    wire = format_of_path(path)
    if wire is None:
        return Unmanaged("the path takes no messages")
    if headers.get("authorization", "").startswith(SIGNED):
        return Unmanaged("the request is signed (AWS SigV4), so its body cannot be changed", is_history=True)
    body = as_dict(raw)
    asked, relayed = read_request(wire, body, path), ""
    if isinstance(asked, Unmanaged) and requests_summary(wire, body):
        relayed = asked.why
        asked = read_request(wire, {name: value for name, value in body.items() if name != "compaction"}, path)
    if isinstance(asked, Unmanaged):
        return asked
    asked = replace(
        asked,
        window_tokens=requested_window(wire, body, headers),
        is_truncated=requests_truncation(body) or is_truncating_host(host),
        offers_native=offers_native(wire, host),
        is_paid=is_paid(host, headers),
    )
    history = read_history(asked)
    agent = _agent_session_id(body, headers)
    name = _given_name(headers) or _derived_name(asked, history, body, agent)
    if relayed and name is None:
        return Unmanaged(relayed, is_history=True)
    return ParsedRequest(
        asked,
        body,
        raw,
        history,
        name,
        fingerprint_of(agent) if agent else "",
        relayed,
        account_of(*(headers.get(name, "") for name in CREDENTIAL_HEADERS)),
    )


def with_deferred_tools(parsed: ParsedRequest) -> ParsedRequest:
    """Return a request whose tools that were never called are left to the provider's tool search, where it has one."""
    if parsed.asked.wire is not ANTHROPIC_MESSAGES:
        return parsed
    called = {call.tool for message in parsed.history.messages for call in calls_of(message)}
    deferred = defer_tools(parsed.body, called)
    if deferred is None:
        return parsed
    body = {**parsed.body, "tools": list(deferred.tools)}
    asked = replace(parsed.asked, tools=list(deferred.loaded))
    return replace(parsed, asked=asked, body=body, raw=encode_body(body))


def read_history(asked: ProviderRequest) -> IncomingHistory:
    """Decode the history of a request; raise `BrokenInput` if a message cannot be decoded."""
    decoded = decode_history(asked.wire, asked.items)
    return IncomingHistory(decoded, tuple(map(fingerprint, decoded.decoded.messages)), bool(asked.tools))


def fingerprint_of(*texts: str) -> str:
    """Hash some texts into one short one."""
    joined = "\x1e".join(texts)
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode a body as JSON."""
    return json_text(body).encode()


def _given_name(headers: Mapping[str, str]) -> str:
    """Return the name in the client's header, which may be UTF-8 that was decoded as Latin-1; empty if it has none."""
    value = headers.get(SESSION_HEADER, "")
    with suppress(UnicodeError):
        value = value.encode("latin-1").decode()
    return value.strip()[:LONGEST_NAME]


def _derived_name(asked: ProviderRequest, history: IncomingHistory, body: Mapping[str, Any], agent: str) -> str | None:
    """Return a name made of how the history begins; `None` before its first reply, unless the agent has a session id."""
    reply = history.first_reply_fingerprint
    if not agent and reply is None:
        return None
    cache_key = body.get("prompt_cache_key")  # some clients have one per session, others one for all
    beginning = (agent,) if agent else (cache_key if isinstance(cache_key, str) else "", reply or "")
    stem = f"{'named' if agent else 'begun'}-{fingerprint_of(*beginning, history.first_user_fingerprint)}"
    return stem if asked.tools else f"{stem}-plain"


def _agent_session_id(body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Return the agent's own session id, from a header or its metadata; several histories may share it. Empty if none."""
    header = next((headers[name] for name in _AGENT_HEADERS if headers.get(name)), "")
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    return header or (user if isinstance(user, str) and "session" in user else "")


def _is_same(one: object, other: object) -> bool:
    return one is other or one == other
