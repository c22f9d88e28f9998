"""What the rules of a contract are written with: sessions to try them on, and ways to say what was broken."""

from collections.abc import Callable, Iterable, Sequence
from threading import Thread

from infold.core.entries import Entry, MessageEntry
from infold.core.messages import Message, SessionId
from infold.errors import InfoldError, StoreConflict
from infold.ports import SessionKey, Store
from infold.testing.builders import numbered, user

ONE = SessionKey("tenant", SessionId("one"))
TWO = SessionKey("tenant", SessionId("two"))
FOREIGN = SessionKey("other tenant", ONE.session_id)


def rule(kept: object, sentence: str, seen: object = None) -> None:
    """Raise an `AssertionError` with the sentence, and what was seen instead, unless the rule was kept."""
    if not kept:
        raise AssertionError(f"{sentence}; seen: {str(seen)[:500]}")


def raised(kind: type[InfoldError], act: Callable[[], object]) -> InfoldError | None:
    """The error of that kind which an act raises, or none if it raises nothing."""
    try:
        act()
    except kind as error:
        return error
    return None


def told(story: Iterable[Message], *, prefix: str = "m") -> list[Entry]:
    """Drafts of messages as entries."""
    return [MessageEntry(message) for message in numbered(story, prefix=prefix)]


def said(*texts: str, prefix: str = "m") -> list[Entry]:
    """User messages of these texts, as entries."""
    return told(map(user, texts), prefix=prefix)


def append_with_retries(store: Store, key: SessionKey, entries: Sequence[Entry]) -> int:
    """Append as a writer among several must: on a conflict look again where the session stands, and retry."""
    expected = 0
    while True:
        try:
            return store.append(key, entries, expected=expected)
        except StoreConflict as conflict:
            expected = conflict.actual


def run_together(threads: Sequence[Thread]) -> None:
    """Start these threads and wait for all of them."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
