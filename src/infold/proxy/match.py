"""Match the history of a request to a stored session, for clients that send the whole history each time.

Several histories may have the same session name: each gets a numbered session of its own (a fork), and a history continues the
session that it matches best. Requests without tools (titles and the like) do not change a session with tools; where the client
gives both the same name, such a request only continues a session at its end, as the last step of an agent may.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec import Struct

from infold.core.log import Log
from infold.core.logged_message import LoggedMessage
from infold.core.messages import AssistantMessage, Message, calls_of, fingerprint, is_from_caller, is_genuine_user
from infold.formats.codec import Decoded
from infold.formats.requests import ProviderRequest
from infold.session.counting import split_preamble
from infold.session.history import starts_with_fold, stored_prefix_length

FORK_MARK = "~"
"""Separates a session's name from the suffix of a fork."""

MOST_FORKS = 12
"""Numbered forks of one name; further ones get a fingerprint of the history as their suffix."""

MOST_TURNS_REMOVED = 1
"""User turns that a client may remove from a session; if it removes more, the history is another one."""

MOST_REPLIES_REPLACED = 1
"""Replies that a client may replace in a session: the newest, which it may have edited or requested again."""


class IncomingHistory(Struct, frozen=True):
    """The history of a request: `messages` without the leading system messages, and the fingerprint of each of them.

    `decoded` is the whole list as the format decoded it. `has_tools`: the request offers tools.
    """

    decoded: Decoded
    messages: tuple[Message, ...]
    fingerprints: tuple[str, ...]
    has_tools: bool = True

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


class Match(Struct, frozen=True):
    """How a history compares to a session, counted in messages.

    `known` are in both. `removed` are in the session and not at their place in the history, with `removed_turns` of the user and
    `removed_replies` among them; `moved` of these come later in the history, so that something before them was changed.
    `new_replies` are in the history only.
    """

    known: int
    removed: int = 0
    removed_turns: int = 0
    removed_replies: int = 0
    moved: int = 0
    new_replies: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether no other session can match better: nothing is removed, and at most the newest reply is new."""
        return not self.removed and self.new_replies <= 1

    @property
    def is_continuation(self) -> bool:
        """Whether the history continues the session: at most its end was changed, or a little in the middle."""
        if not self.removed:
            return True
        replaces_little = not self.new_replies or self.removed_replies <= MOST_REPLIES_REPLACED
        if self.removed_turns <= MOST_TURNS_REMOVED and replaces_little:
            return True
        return self.moved * 2 >= self.removed

    def is_better_than(self, other: "Match | None") -> bool:
        """Whether to prefer this match: first the one that removes nothing, then the one that has more in common."""
        return other is None or (not self.removed, self.known) > (not other.removed, other.known)


def decode_history(asked: ProviderRequest) -> IncomingHistory:
    """Decode the history of a request; raise `BrokenInput` if a message cannot be decoded."""
    decoded = asked.wire.decode(asked.items)
    _, messages = split_preamble(decoded.messages)
    return IncomingHistory(decoded, messages, tuple(map(fingerprint, messages)), bool(asked.tools))


def fork_ids(name: str, history: IncomingHistory) -> Iterator[str]:
    """Yield the ids of the sessions that a history of that name may be in, in the order they are created.

    The numbered ones are followed by a fingerprint of the first messages, a power of two of them, so that it seldom changes
    while the history grows; then by one of all messages, which no other history has.
    """
    yield name
    yield from (f"{name}{FORK_MARK}{number}" for number in range(1, MOST_FORKS))
    early = 1 << (len(history.messages).bit_length() - 1) if history.messages else 0
    yield f"{name}{FORK_MARK}{fingerprint_of(*history.fingerprints[:early])}"
    yield f"{name}{FORK_MARK}{fingerprint_of(*history.fingerprints)}"


def is_fork_of(session_id: str, name: str) -> bool:
    """Whether a history of that name may be in this session."""
    return session_id == name or session_id.startswith(f"{name}{FORK_MARK}")


def match_history(history: IncomingHistory, log: Log) -> Match | None:
    """Compare a history to a session; return `None` if they begin differently, or the session folded something else.

    Also return `None` if a request without tools would remove something from a session with tools.
    """
    checkpoint = log.checkpoint
    folded = 0 if checkpoint is None else checkpoint.folded
    if checkpoint is not None and not starts_with_fold(history.messages, checkpoint):
        return None
    live = [placed for placed in log.live[: log.length] if is_from_caller(placed.message)]
    fingerprints = [fingerprint(placed.message) for placed in live]
    equal = _count_equal(history.fingerprints[folded:], fingerprints)
    same = stored_prefix_length(history.messages[folded:], live, equal)
    known = folded + same
    if live and not known:
        return None
    if same < len(live) and not history.has_tools and _offers_tools(live):
        return None
    removed, later = live[same:], set(history.fingerprints[known:])
    comes_later = bool(removed) and fingerprints[-1] in later
    return Match(
        known,
        len(removed),
        removed_turns=sum(placed.is_persons for placed in removed),
        removed_replies=_count_replies([placed.message for placed in removed]),
        moved=sum(mark in later for mark in fingerprints[same:]) if comes_later else 0,
        new_replies=_count_replies(history.messages[known:]),
    )


def is_prefix(one: IncomingHistory, other: IncomingHistory) -> bool:
    """Whether one of two histories begins with all of the other."""
    shorter = min(len(one.messages), len(other.messages))
    return _count_equal(one.fingerprints, other.fingerprints) == shorter


def fingerprint_of(*texts: str) -> str:
    """Hash some texts into one short one."""
    joined = "\x1e".join(texts)
    return hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _offers_tools(live: Sequence[LoggedMessage]) -> bool:
    """Whether a session's requests offer tools: a recorded reply has a size for them, or calls one.

    Calls that the client brought do not count: a request for a title may bring a history that is full of them.
    """
    replies = [placed.message for placed in live if isinstance(placed.message, AssistantMessage)]
    measured = [reply.overhead.tools > 0 for reply in replies if reply.overhead is not None]
    return any(measured or (reply.finish is not None and calls_of(reply) for reply in replies))


def _count_equal(one: Sequence[str], other: Sequence[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _count_replies(messages: Sequence[Message]) -> int:
    return sum(isinstance(message, AssistantMessage) for message in messages)
