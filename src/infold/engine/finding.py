"""Find the session that a whole history belongs to, where its client does not speak of sessions.

Ids that a client names come first; then the history itself, by its first message. Several histories may begin alike: each gets a
session of its own, numbered, and a history is given to the one it goes on from. Requests without tools (titles and the like)
never join a session with tools.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from infold.core.likeness import likeness
from infold.core.messages import Message, SystemMessage, is_genuine_user
from infold.engine.history import Followed
from infold.formats.requests import Asked

__all__ = ["SESSION_HEADER", "better", "fork_ids", "goes_on", "name_of"]

SESSION_HEADER = "x-infold-session"
"""The header by which a client names its session itself."""

_AGENT_HEADERS = ("x-session-id", "session_id", "session-id", "x-claude-code-session-id", "x-conversation-id")
"""Headers by which agents name theirs: OpenCode, Codex, Claude Code."""

MOST_FORKS = 12
"""Histories that begin alike and are told apart; one more begins a session by the fingerprint of all it says."""

MOST_TURNS_BACK = 1
"""How many turns of a person a client may take back in one session; more is another history."""

LONGEST_NAME = 200


def name_of(asked: Asked, body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """The name under which the session of a request is looked for."""
    given = headers.get(SESSION_HEADER, "").strip()
    if given:
        return given[:LONGEST_NAME]
    named = _named(body, headers)
    stem = f"named-{_hashed(named)}" if named else f"begun-{_hashed(_beginning(asked))}"
    return stem if asked.tools else f"{stem}-plain"


def fork_ids(name: str) -> Iterator[str]:
    """The ids under which histories of that name may be kept, in the order they are begun."""
    yield name
    yield from (f"{name}~{number}" for number in range(1, MOST_FORKS))


def goes_on(followed: Followed | None) -> bool:
    """Whether a history goes on from a session: it holds what was folded, and takes back no more than the last turn."""
    return followed is not None and (followed.amended is None or followed.turns_back <= MOST_TURNS_BACK)


def better(one: Followed, other: Followed | None) -> bool:
    """Whether a history goes on from one session rather than from the other: first by what it takes back, then by what it has."""
    return other is None or (one.amended is None, one.known) > (other.amended is None, other.known)


def _named(body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """What a client calls its session, in a header, as a key for the provider's cache, or in its metadata."""
    header = next((headers[name] for name in _AGENT_HEADERS if headers.get(name)), "")
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    own = user if isinstance(user, str) and "session" in user else ""
    key = body.get("prompt_cache_key")
    return header or (key if isinstance(key, str) else "") or own


def _beginning(asked: Asked) -> str:
    """What the first message of a person says, or the first of any."""
    messages: tuple[Message, ...] = asked.wire.decode(asked.items[:4]).messages
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    first = next((message for message in others if is_genuine_user(message)), next(iter(others), None))
    return "" if first is None else likeness(first)


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
