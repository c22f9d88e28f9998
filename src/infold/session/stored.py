"""Read back all that a store has of a session: messages, titles, cost, diffs, and whatever was folded or pruned.

Nothing here depends on the view, and nothing is changed. A call reads the store, the whole session if it is about all of it.
"""

from collections.abc import Iterable, Iterator, Sequence

from infold.core.entries import Amendment, Checkpoint, Entry, MessageEntry
from infold.core.messages import (
    AssistantMessage,
    FilePart,
    Message,
    is_from_caller,
    is_genuine_user,
    text_of,
)
from infold.core.policy import Ruler
from infold.errors import StoreConflict, UsageError
from infold.ports import FileDiff, FullStore, MediaStore, SessionKey
from infold.session.media import Medium, digests_in
from infold.session.recall import files_at, recall, recall_media
from infold.session.settings import require_int, require_str
from infold.session.titles import SESSION, message_title, title_of, titles_of
from infold.wiring import session_diffs

CHILD_MARK = ":"
"""Between the id of a session and the name of a session that it has started."""

RESULT_TOKENS = 2_000


def child_id(parent: str, name: str) -> str:
    """Return the id of the session that works for another under a name; raise `UsageError` if the name is empty."""
    if not require_str("name", name, example="review").strip():
        raise UsageError("the name of the child is empty; give text, such as 'review'")
    return f"{parent}{CHILD_MARK}{name}"


class StoredHistory:
    """What a store has of one session; the session sets the store, its key and the rule that measures what is read back."""

    _store: FullStore
    _key: SessionKey
    _rule: Ruler

    @property
    def id(self) -> str:
        """The id of the session in its store."""
        return self._key.session_id

    def stored_messages(self) -> tuple[Message, ...]:
        """Return all messages of the caller and of the model, folded or not, oldest first; without those taken back."""
        return tuple(message for message in standing_messages(self._entries()) if is_from_caller(message))

    def cost(self) -> float:
        """Return what the session has cost so far in US dollars: its replies and summaries, as far as prices are known."""
        return sum((_cost_of(entry) for _, entry in self._entries()), 0.0)

    def titles(self) -> dict[str, str]:
        """Return the title of each user message by its id, and that of the session under an empty id.

        Titles that were given come first; else a title is made of the message's own words.
        """
        entries = list(self._entries())[::-1]
        given = titles_of(entry for _, entry in entries)
        users = (message for message in standing_messages(reversed(entries)) if is_genuine_user(message))
        titles = {message.id: given.get(message.id) or message_title(message) for message in users}
        session = given.get(SESSION) or title_of(self._store, self._key)
        return {str(at): title for at, title in {SESSION: session, **titles}.items() if title}

    def diffs(self, message: int | None = None) -> tuple[FileDiff, ...]:
        """Return what the session changed in its project, file by file, from the first snapshot of a step to the last.

        `message` is the number of a user message, as in its handle: then only what its turn changed. Empty if no step has a
        snapshot; the agent takes them, and so may a loop of your own. Raise `UsageError` if they are no longer kept.
        """
        return session_diffs(self._store, self._key, None if message is None else require_int("message", message))

    def recall(self, query: str, *, budget_tokens: int = 2_000) -> str:
        """Bring back what was said or done, by words or by the handles that stubs name, in at most that many tokens.

        Pruned and folded parts are found like those in view. Raise `UnknownReference` for a handle that names nothing.
        """
        query = require_str("query", query, example="the feed")
        budget_tokens = require_int("budget_tokens", budget_tokens)
        return recall(self._store, self._key, query, budget_tokens=budget_tokens, rule=self._rule)

    def result(self, *, budget_tokens: int = RESULT_TOKENS) -> str:
        """Return what the session came to: its last answer, in at most that many tokens, and where the rest is stored.

        For a session that works for another one, this is what its parent is given as the result of a tool call.
        """
        if require_int("budget_tokens", budget_tokens) < 1:
            raise UsageError(f"budget_tokens is {budget_tokens}; give a whole number from 1 on")
        messages = self.stored_messages()
        closing = f"[{self.id}: {len(messages):,} messages, stored under this id]"
        numbered = ((number, entry) for number, entry in self._entries() if isinstance(entry, MessageEntry))
        replies = ((number, entry.message) for number, entry in numbered if isinstance(entry.message, AssistantMessage))
        answered = next((number for number, reply in replies if text_of(reply).strip()), None)
        if answered is None:
            return f"The session has not answered yet.\n{closing}"
        shown = recall(self._store, self._key, f"{answered}.0", budget_tokens=budget_tokens, rule=self._rule)
        return f"{shown.partition(chr(10))[2]}\n{closing}"

    def children(self) -> tuple[str, ...]:
        """Return the ids of the sessions that this one and its children have started, the last changed first."""
        beginning = f"{self.id}{CHILD_MARK}"
        listed = (one.key.session_id for one in self._store.sessions(self._key.tenant))
        return tuple(name for name in listed if name.startswith(beginning))

    def media(self, handle: str) -> tuple[Medium, ...]:
        """Return the images, documents and sound under a handle with their bytes, folded or not.

        Raise `UnknownReference` for a handle that names no medium, or one that is not stored (`media_limit_bytes`).
        """
        return recall_media(self._store, self._key, require_str("handle", handle, example="12.0"))

    def files(self, handle: str) -> tuple[FilePart, ...]:
        """Return what is known of the media under a handle, without their bytes; empty if there are none."""
        return files_at(self._store, self._key, handle)

    def _entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield the numbered entries, newest first."""
        return self._store.newest_first(self._key)


def standing_messages(newest_first: Iterable[tuple[int, Entry]]) -> list[Message]:
    """Return the messages that were not taken back, oldest first, from entries that come newest first."""
    standing: list[Message] = []
    amended: int | None = None
    for sequence, entry in newest_first:
        if isinstance(entry, Amendment):
            amended = entry.first if amended is None else min(amended, entry.first)
        elif isinstance(entry, MessageEntry) and (amended is None or sequence < amended):
            standing.append(entry.message)
    return standing[::-1]


def copy_session(store: FullStore, key: SessionKey, to: SessionKey, *, before: int | None = None) -> None:
    """Copy a session with all that it holds, up to an entry, under another id; raise `UsageError` if that id is taken."""
    end = None if before is None else max(0, require_int("before", before))
    entries = [entry for _, entry in store.newest_first(key, before=end)][::-1]
    try:
        _copy_media(store, key, to, entries)
        store.append(to, entries, expected=0)
    except StoreConflict as error:
        raise UsageError(f"there is already a session {to.session_id!r}; fork under another id") from error


def _copy_media(store: FullStore, key: SessionKey, to: SessionKey, entries: Sequence[Entry]) -> None:
    if next(store.newest_first(to), None) is not None:
        raise StoreConflict(to.session_id, expected=0, actual=1)
    digests = digests_in([entry.message for entry in entries if isinstance(entry, MessageEntry)])
    if digests and isinstance(store, MediaStore):
        found = {digest: store.medium(key, digest) for digest in sorted(digests)}
        store.keep_media(to, {digest: data for digest, data in found.items() if data is not None})


def _cost_of(entry: Entry) -> float:
    if isinstance(entry, Checkpoint):
        return entry.cost
    message = entry.message if isinstance(entry, MessageEntry) else None
    return message.cost if isinstance(message, AssistantMessage) else 0.0
