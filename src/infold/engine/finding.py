"""Find the session that a whole history belongs to, where its client does not speak of sessions.

A session that a client names comes first. Any other is known by how it begins: by the first message of a person and the first
reply, so that histories which begin with the same words are told apart as soon as there is anything to lose. Before its first
reply a nameless history has no session: nothing was cut yet, and nothing of it comes back but what the client brings.

Several histories may still begin alike: each gets a session of its own, numbered, and a history is given to the one it goes on
from. Requests without tools (titles and the like) never join a session with tools; where the client names both alike, one does
only if it goes on exactly where that session stands, as the last step of an agent may.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec import Struct

from infold.core.log import Log
from infold.core.logged_message import Placed
from infold.core.messages import AssistantMessage, Message, calls_of, is_callers, is_genuine_user, likeness
from infold.engine.known import begins_with_the_fold, settled
from infold.engine.terms import divided
from infold.formats.requests import ProviderRequest

SESSION_HEADER = "x-infold-session"
"""The header by which a client names its session itself."""

_AGENT_HEADERS = ("x-session-id", "session_id", "session-id", "x-claude-code-session-id", "x-conversation-id")
"""Headers by which agents name theirs: OpenCode, Codex, Claude Code."""

FORK_MARK = "~"
"""What stands between a name and what tells the histories of that name apart."""

MOST_FORKS = 12
"""Histories of one name that are told apart by number; one more is told by the fingerprint of what it says."""

MOST_TURNS_BACK = 1
"""How many turns of a person a client may take back in one session; more is another history."""

MOST_REPLIES_BACK = 1
"""How many replies a client may replace by others in one session: the newest, which it may have edited or asked for anew."""

LONGEST_NAME = 200
"""Characters of a name; a key holds it with the number of a fork and has room for more."""


class Brought(Struct, frozen=True):
    """A history as a client brings it, without the system messages that open it, and the likeness of each message.

    `has_tools`: whether the request offers any.
    """

    messages: tuple[Message, ...]
    likenesses: tuple[str, ...]
    has_tools: bool = True


class Match(Struct, frozen=True):
    """A history held against a session, in messages.

    `known`: the session has them; `gone`: it has them and they were taken back, with the turns and replies among them;
    `again`: as many of those come again, the newest among them, so that something before them was changed. `new_replies` are
    replies that the session never heard.
    """

    known: int
    gone: int = 0
    gone_turns: int = 0
    gone_replies: int = 0
    again: int = 0
    new_replies: int = 0


def brought_by(asked: ProviderRequest) -> Brought:
    """The history that a request brings; raises `BrokenInput` where its messages cannot be read."""
    _, messages = divided(asked.wire.decode(asked.items).messages)
    return Brought(messages, tuple(map(likeness, messages)), bool(asked.tools))


def agent_of(body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Return a fingerprint of what an agent calls its session, which several histories may share; empty where it has no name."""
    own = _agents_own(body, headers)
    return _hashed(own) if own else ""


def is_compacted(brought: Brought) -> bool:
    """Return whether a history that no session knows was cut by its client: it has replies, or opens with what no person said."""
    return (
        brought.has_tools
        and bool(brought.messages)
        and (_first_reply(brought) is not None or not is_genuine_user(brought.messages[0]))
    )


def name_of(
    asked: ProviderRequest, brought: Brought, body: Mapping[str, Any], headers: Mapping[str, str]
) -> str | None:
    """The name under which the session of a request is looked for; none for a nameless history before its first reply."""
    given = _in_unicode(headers.get(SESSION_HEADER, "")).strip()
    if given:
        return given[:LONGEST_NAME]
    own, reply = _agents_own(body, headers), _first_reply(brought)
    if not own and reply is None:
        return None
    beginning = (own,) if own else (_shared_key(body), reply or "")
    stem = f"{'named' if own else 'begun'}-{_hashed(*beginning, _first_words(brought))}"
    return stem if asked.tools else f"{stem}-plain"


def fork_ids(name: str, brought: Brought) -> Iterator[str]:
    """The ids under which a history of that name may be kept, in the order they are begun.

    After the numbered ones come a fingerprint of its first messages, of a power of two, so that it seldom changes while the
    history grows, and one of all its messages, which no other history has.
    """
    yield name
    yield from (f"{name}{FORK_MARK}{number}" for number in range(1, MOST_FORKS))
    early = 1 << (len(brought.messages).bit_length() - 1) if brought.messages else 0
    yield from (
        f"{name}{FORK_MARK}{_hashed(*likenesses)}" for likenesses in (brought.likenesses[:early], brought.likenesses)
    )


def held_against(brought: Brought, log: Log) -> Match | None:
    """How a history goes with a session; none where the session began with or folded something else.

    Neither can a request without tools take something back from a session with tools.
    """
    folded = 0 if log.checkpoint is None else log.checkpoint.folded
    if log.checkpoint is not None and not begins_with_the_fold(brought.messages, log.checkpoint):
        return None
    live = [placed for placed in log.live[: log.length] if is_callers(placed.message)]
    likenesses = [likeness(placed.message) for placed in live]
    same = settled(brought.messages[folded:], live, _common(brought.likenesses[folded:], likenesses))
    known = folded + same
    if live and not known:
        return None
    if same < len(live) and not brought.has_tools and _has_tools(live):
        return None
    return _match(brought, known, live[same:], likenesses[same:])


def goes_on(match: Match) -> bool:
    """Whether a history goes on from a session, having changed no more than its end, or a little of it in place."""
    if not match.gone:
        return True
    if match.gone_turns <= MOST_TURNS_BACK and (not match.new_replies or match.gone_replies <= MOST_REPLIES_BACK):
        return True
    return match.again * 2 >= match.gone


def better(one: Match, other: Match | None) -> bool:
    """Whether a history goes on from one session rather than from the other: first by what it takes back, then by what it has."""
    return other is None or (not one.gone, one.known) > (not other.gone, other.known)


def is_certain(match: Match) -> bool:
    """Whether no other session can be the better one: all of it is there, and at most the newest reply was not heard."""
    return not match.gone and match.new_replies <= 1


def _in_unicode(value: str) -> str:
    """A header's value that was sent as UTF-8 and read byte by byte, as HTTP has it; any other is given as it is."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _agents_own(body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """What an agent calls its session, in a header or in its metadata; several histories of one session may share it."""
    header = next((headers[name] for name in _AGENT_HEADERS if headers.get(name)), "")
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    return header or (user if isinstance(user, str) and "session" in user else "")


def _shared_key(body: Mapping[str, Any]) -> str:
    """The key for the provider's cache; some clients have one for each session, others one for all."""
    key = body.get("prompt_cache_key")
    return key if isinstance(key, str) else ""


def _first_words(brought: Brought) -> str:
    """What the first message of a person says, or the first of any."""
    pairs = tuple(zip(brought.messages, brought.likenesses, strict=True))
    persons = (said for message, said in pairs if is_genuine_user(message))
    return next(persons, pairs[0][1] if pairs else "")


def _first_reply(brought: Brought) -> str | None:
    pairs = zip(brought.messages, brought.likenesses, strict=True)
    return next((said for message, said in pairs if isinstance(message, AssistantMessage)), None)


def _has_tools(live: Sequence[Placed]) -> bool:
    """Whether a session's model was offered tools: they were counted then, or a reply that was heard calls one.

    What a client brought tells nothing: a request for a title may bring a history that is full of calls.
    """
    replies = [placed.message for placed in live if isinstance(placed.message, AssistantMessage)]
    counted = [reply.overhead.tools > 0 for reply in replies if reply.overhead is not None]
    return any(counted or (reply.finish is not None and calls_of(reply) for reply in replies))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _match(brought: Brought, known: int, gone: Sequence[Placed], gone_likenesses: Sequence[str]) -> Match:
    later = set(brought.likenesses[known:])
    comes_again = bool(gone) and gone_likenesses[-1] in later
    return Match(
        known,
        len(gone),
        gone_turns=sum(placed.is_persons for placed in gone),
        gone_replies=_replies([placed.message for placed in gone]),
        again=sum(said in later for said in gone_likenesses) if comes_again else 0,
        new_replies=_replies(brought.messages[known:]),
    )


def _replies(messages: Sequence[Message]) -> int:
    return sum(isinstance(message, AssistantMessage) for message in messages)


def _hashed(*texts: str) -> str:
    joined = "\x1e".join(texts)
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
