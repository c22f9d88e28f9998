"""The contract of a store, as functions that its author can call.

A broken rule raises an `AssertionError` whose message is the rule, in one sentence, and what was seen instead.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from threading import Thread
from typing import TypeAlias

from infold.core.entries import Checkpoint, Entry, MessageEntry, Pin, Pruning, handle_of
from infold.core.messages import Message, SessionId
from infold.core.recall import Index, documents_of
from infold.errors import InfoldError, StoreConflict, UnknownReference, UnknownSession
from infold.ports import FactStore, FullStore, MediaStore, SessionKey, Store
from infold.testing.builders import calls, numbered, replies, result, user

MakeStore: TypeAlias = Callable[[], AbstractContextManager[FullStore]]
"""Opens an empty store and closes it at the end of the block."""

ONE = SessionKey("tenant", SessionId("one"))
TWO = SessionKey("tenant", SessionId("two"))
FOREIGN = SessionKey("other tenant", ONE.session_id)


def check_store(make: MakeStore) -> None:
    """Check every rule on a store of its own; raise `AssertionError` with the rule that is broken."""
    for check in STORE_RULES:
        with make() as store:
            check(store)


def require(condition: object, rule: str, seen: object = None) -> None:
    """Raise an `AssertionError` with the rule, and what was seen instead, unless the condition is true."""
    if not condition:
        raise AssertionError(f"{rule}; seen: {str(seen)[:500]}")


def error_of(kind: type[InfoldError], act: Callable[[], object]) -> InfoldError | None:
    """Return the error of that kind that an act raises, or `None` if it raises nothing."""
    try:
        act()
    except kind as error:
        return error
    return None


def as_entries(drafts: Iterable[Message], *, prefix: str = "m") -> list[Entry]:
    """Return drafts of messages as entries."""
    return [MessageEntry(message) for message in numbered(drafts, prefix=prefix)]


def user_entries(*texts: str, prefix: str = "m") -> list[Entry]:
    """Return user messages of these texts as entries."""
    return as_entries(map(user, texts), prefix=prefix)


def append_with_retries(store: Store, key: SessionKey, entries: Sequence[Entry]) -> int:
    """Append as one of several writers must: after a conflict, retry at the session's actual end."""
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


# The log.


def _entries_come_back(store: FullStore) -> None:
    marks: list[Entry] = [Pin(handle_of(0, 0)), Pruning((handle_of(0, 0),), 7), Checkpoint("sum", 1)]
    entries = [*user_entries("a", "\0 ' \" 日本語 🎏"), *marks]
    after = (store.append(ONE, entries[:2], expected=0), store.append(ONE, entries[2:], expected=2))
    read = list(store.newest_first(ONE))

    require(after == (2, 5), "append returns the number of the next entry", after)
    require([number for number, _ in read] == [4, 3, 2, 1, 0], "entries are numbered from 0 without gaps", read)
    require([entry for _, entry in read] == entries[::-1], "entries come back unchanged, newest first", read)


def _unknown_session_is_empty(store: FullStore) -> None:
    require(list(store.newest_first(ONE)) == [], "a session that does not exist has no entries")
    require(store.append(ONE, [], expected=0) == 0, "appending nothing changes no number")
    require(list(store.sessions(ONE.tenant)) == [], "appending nothing creates no session")
    require(tuple(store.search(ONE, "a", most=5)) == (), "a search in a session that does not exist finds nothing")


def _conflict_appends_nothing(store: FullStore) -> None:
    store.append(ONE, user_entries("a", "b"), expected=0)
    for expected in (0, 1, 3):
        conflict = error_of(StoreConflict, lambda at=expected: store.append(ONE, user_entries("c"), expected=at))  # type: ignore[misc]
        numbers = (getattr(conflict, "expected", None), getattr(conflict, "actual", None))
        require(numbers == (expected, 2), "a wrong `expected` is a StoreConflict with both numbers", conflict)
    conflict = error_of(StoreConflict, lambda: store.append(TWO, user_entries("c"), expected=1))

    require(conflict is not None, "a session that does not exist starts at 0", conflict)
    require(len(list(store.newest_first(ONE))) == 2, "a conflict appends nothing")
    require(list(store.newest_first(TWO)) == [], "a conflict creates no session")


def _append_is_all_or_nothing(store: FullStore) -> None:
    broken: Sequence[Entry] = [*user_entries("a"), Pin(handle_of(0, 0), pinned=object())]  # type: ignore[arg-type]
    try:
        store.append(ONE, broken, expected=0)
    except TypeError:
        require(list(store.newest_first(ONE)) == [], "an append is all or nothing")
    else:
        require(None, "an entry that cannot be encoded is rejected")


def _reading_can_begin_anywhere(store: FullStore) -> None:
    store.append(ONE, user_entries(*map(str, range(120))), expected=0)

    for before, first in ((None, 119), (120, 119), (500, 119), (60, 59), (1, 0)):
        numbers = [number for number, _ in store.newest_first(ONE, before=before)]
        require(numbers == list(range(first, -1, -1)), f"before={before} yields the entries from {first} down", numbers)
    require(list(store.newest_first(ONE, before=0)) == [], "there are no entries before entry 0")


def _reading_locks_nothing(store: FullStore) -> None:
    store.append(ONE, user_entries(*map(str, range(120))), expected=0)
    reading = store.newest_first(ONE)
    first = [number for number, _ in islice(reading, 10)]
    store.append(ONE, user_entries("new", prefix="n"), expected=120)
    store.append(TWO, user_entries("new"), expected=0)

    numbers = first + [number for number, _ in reading]
    require(numbers == list(range(119, -1, -1)), "a reader sees its snapshot while others append", numbers)


def _reader_of_a_deleted_session_ends(store: FullStore) -> None:
    store.append(ONE, user_entries(*map(str, range(120))), expected=0)
    reading = store.newest_first(ONE)
    next(reading)
    store.delete(ONE)
    store.append(ONE, user_entries(*(["other"] * 120), prefix="o"), expected=0)

    texts = {str(entry) for _, entry in reading}
    require(not any("other" in text for text in texts), "a reader never passes from a deleted session to its successor")


# Several writers.


def _writers_never_interleave(store: FullStore) -> None:
    def write(name: str) -> None:
        for at in range(12):
            append_with_retries(store, ONE, user_entries("first", "second", prefix=f"{name}-{at}-"))

    run_together([Thread(target=write, args=(name,)) for name in "abcd"])
    ids = [entry.message.id for _, entry in store.newest_first(ONE) if isinstance(entry, MessageEntry)][::-1]
    pairs = list(zip(ids[::2], ids[1::2], strict=True))

    require(len(ids) == 96 and len(set(ids)) == 96, "what several threads append is all stored, once", ids)
    require(all(one[:-1] == two[:-1] for one, two in pairs), "entries appended together stay together", ids)
    for name in "abcd":
        own = [id_ for id_ in ids if id_.startswith(f"{name}-")]
        in_order = sorted(own, key=lambda id_: tuple(int(number) for number in id_.split("-")[1:]))
        require(own == in_order, "each writer's entries keep their order", own)


def _one_holder(store: FullStore) -> None:
    others: list[bool] = []

    def try_to_hold() -> None:
        with store.hold(ONE) as held:
            others.append(held)

    with store.hold(ONE) as first, store.hold(TWO) as second, store.hold(FOREIGN) as third:
        try_to_hold()
        run_together([Thread(target=try_to_hold)])
        appended = store.append(ONE, user_entries("a"), expected=0)
        try_to_hold()
    with store.hold(ONE) as again:
        pass

    require(first and second and third, "each session has its own lock, and a free lock is granted")
    require(others == [False] * 3, "a lock has one holder at a time, and other callers get false", others)
    require(appended == 1, "a locked session can be appended to")
    require(again, "the lock is released at the end of the block")


def _hold_survives_errors(store: FullStore) -> None:
    seen = None
    try:
        with store.hold(ONE):
            raise ConnectionError("of the block's own")
    except ConnectionError as error:
        seen = error
    with store.hold(ONE) as again:
        require(again and seen is not None, "an error in the block propagates unchanged and releases the lock", seen)


# Tenants, listing and deleting.


def _tenants_share_nothing(store: FullStore) -> None:
    store.append(ONE, user_entries("apple"), expected=0)
    store.append(FOREIGN, user_entries("pear", "plum"), expected=0)

    require(list(store.tenants()) == sorted({ONE.tenant, FOREIGN.tenant}), "tenants are listed once, in order")
    listed = [[session.key for session in store.sessions(tenant)] for tenant in (ONE.tenant, FOREIGN.tenant, "")]
    require(listed == [[ONE], [FOREIGN], []], "a tenant sees only its own sessions", listed)
    require(len(list(store.newest_first(ONE))) == 1, "equal ids of two tenants are two sessions")
    require(not store.search(ONE, "pear", most=5), "a search finds nothing of another tenant")
    require(not store.search(ONE, "$1 $2 #1 #2", most=5), "no word reaches into another session")
    alone = store.search(FOREIGN, "pear", most=5)
    store.append(TWO, user_entries("pear"), expected=0)
    require(store.search(FOREIGN, "pear", most=5) == alone, "no score depends on another session's words")
    store.delete(ONE)
    require(len(list(store.newest_first(FOREIGN))) == 2, "deleting one tenant's session leaves the other's")


def _keys_are_distinguished(store: FullStore) -> None:
    pairs = (("a", "bc"), ("ab", "c"), ("", "abc"), ("a", "Bc"))
    keys = [SessionKey(tenant, SessionId(name)) for tenant, name in pairs]
    for key in keys:
        store.append(key, user_entries(str(key)), expected=0)

    for key in keys:
        texts = [str(entry) for _, entry in store.newest_first(key)]
        require(len(texts) == 1 and repr(str(key))[1:-1] in texts[0], "keys are compared exactly, with case", texts)


def _listing_has_sizes(store: FullStore) -> None:
    keys = [SessionKey("tenant", SessionId(f"s{number}")) for number in range(60)]
    for key in keys:
        store.append(key, user_entries("a"), expected=0)
    time.sleep(0.005)
    store.append(keys[7], user_entries("b" * 1_000, prefix="n"), expected=1)

    listed = list(store.sessions("tenant"))
    require(sorted(session.key for session in listed) == sorted(keys), "every session is listed once", listed)
    require(listed[0].key == keys[7], "the session changed last is listed first", listed[0])
    require([session.entries for session in listed] == [2] + [1] * 59, "a listing counts entries", listed[:2])
    require(listed[0].stored_bytes > listed[1].stored_bytes + 1_000, "a listing has sizes in bytes", listed[:2])
    require(abs(listed[0].changed_ms - time.time_ns() // 10**6) < 10**6, "a listing has the last change", listed[0])


def _deleted_is_gone(store: FullStore) -> None:
    store.append(ONE, user_entries("apple"), expected=0)
    store.append(TWO, user_entries("apple"), expected=0)
    store.delete(ONE)

    require(list(store.newest_first(ONE)) == [], "a deleted session has no entries")
    require(not store.search(ONE, "apple", most=5), "a deleted session is not found")
    require([session.key for session in store.sessions("tenant")] == [TWO], "a deleted session is not listed")
    require(len(store.search(TWO, "apple", most=5)) == 1, "deleting leaves other sessions unchanged")
    require(error_of(UnknownSession, lambda: store.delete(ONE)), "deleting an unknown session raises UnknownSession")
    late = error_of(StoreConflict, lambda: store.append(ONE, user_entries("b"), expected=1))
    require(late, "a late append to a deleted session is a StoreConflict")
    require(store.append(ONE, user_entries("pear"), expected=0) == 1, "an id can be used again, from 0")
    require(not store.search(ONE, "apple", most=5), "a new session finds nothing of the deleted one")


def _expiry_deletes_the_old(store: FullStore) -> None:
    store.append(ONE, user_entries("a"), expected=0)
    store.append(FOREIGN, user_entries("a"), expected=0)
    early = store.expire(60_000)
    time.sleep(1.5)
    store.append(TWO, user_entries("b"), expected=0)
    expired = store.expire(1_200)

    require(early == 0, "recently changed sessions do not expire", early)
    require(expired == 2, "sessions of all tenants expire", expired)
    require([session.key for session in store.sessions("tenant")] == [TWO], "the remaining sessions are listed")


def _trimming_deletes_the_oldest(store: FullStore) -> None:
    keys = [SessionKey("tenant", SessionId(f"s{number}")) for number in range(5)]
    for key in keys:
        store.append(key, user_entries("a" * 1_000), expected=0)
        time.sleep(0.005)
    size = next(store.sessions("tenant")).stored_bytes
    removed = (store.trim(size * 5), store.trim(size * 3 + 1), store.trim(size * 3))
    left = [session.key for session in store.sessions("tenant")]

    require(removed == (0, 2, 0), "trimming deletes no more than the cap requires", removed)
    require(left == keys[:1:-1], "trimming deletes the sessions changed longest ago", left)
    require(store.trim(0) == 3, "a cap of 0 deletes all")


# Recall.

_HISTORY = (
    user("Please mend src/infold/core.py, the parseHTTPHeader function"),
    calls("bash", arguments='{"command": "pytest -q tests/unit"}'),
    result(output="3 failed, 日本語の文章 in KiteError"),
    replies("The kite is mended"),
    user("Please fly the kite"),
)

_HOSTILE = (
    "it's",
    '"',
    "a AND b",
    "NEAR(x)",
    "*",
    "'",
    "\0",
    "",
    " ",
    "a:*",
    "\\",
    "(",
    "-",
    "\ud800",
    "'; DROP TABLE x",
)


def _handles(store: FullStore, query: str, most: int = 9) -> list[str]:
    return [hit.handle for hit in store.search(ONE, query, most=most)]


def _search_finds(store: FullStore) -> None:
    store.append(ONE, as_entries(_HISTORY)[:2], expected=0)
    store.append(ONE, as_entries(_HISTORY)[2:], expected=2)
    for query, wanted in (
        ("src/infold/core.py", ["0.0"]),
        ("core.py", ["0.0"]),
        ("http", ["0.0"]),
        ("日本語", ["2.0"]),
        ("kiteerror", ["2.0"]),
        ("tests/unit", ["2.0"]),
        ("please", ["4.0", "0.0"]),
        ("the kite is", ["3.0", "4.0", "0.0", "2.0"]),
        ("absent", []),
        ("", []),
    ):
        found = _handles(store, query)
        require(found == wanted, f"a search for {query!r} finds {wanted}, best and newest first", found)


def _search_is_bounded(store: FullStore) -> None:
    store.append(ONE, user_entries(*(f"common {at} {'rare' * (at == 3)}" for at in range(120))), expected=0)

    found = _handles(store, "common rare common", most=3)
    require(found == ["3.0", "119.0", "118.0"], "a search returns at most what it is asked for, best first", found)
    require(not store.search(ONE, "common", most=0), "a search for at most 0 parts finds nothing")
    scores = [found.score for found in store.search(ONE, "common rare", most=9)]
    require(scores == sorted(scores, reverse=True) and scores[0] > scores[1], "scores fall from best to worst", scores)


def _search_takes_any_token(store: FullStore) -> None:
    huge = "x" * 5_000
    words = " ".join(f"word{number}of{number * 7}" for number in range(60_000))
    store.append(ONE, user_entries(f"it's \"{huge}\" AND a\\b c:d NEAR(x) * ' \0 日", words), expected=0)
    for query in _HOSTILE:
        store.search(ONE, query, most=9)

    for token in ("a\\b", "c:d", "日"):
        found = _handles(store, token)
        require(found == ["0.0"], f"the token {token[:9]!r} is found, whatever its characters", found)
    for token in ("word0of0", "word59999of419993"):
        found = _handles(store, token)
        require(found == ["1.0"], "a part of any size is found by its first word and its last", found)


def _search_is_that_of_the_index(store: FullStore) -> None:
    drafts = [draft for at in range(140) for draft in _turn(at)]
    index = Index.of(documents_of(enumerate(numbered(drafts))))
    queries = ("kite 7", "make target 31 → exit", "which hill was it", "plan", "step 12 of the build", "日本語 99")
    entries = as_entries(drafts)
    at = 0
    for count in (1, 6, 200, len(entries)):
        at = store.append(ONE, entries[at:count], expected=at)
        store.search(ONE, queries[0], most=1)
    for query in queries:
        found = store.search(ONE, query, most=40)
        require(
            found == index.search(query, most=40), "all parts are searched, as `core.recall.Index` ranks them", query
        )


def _turn(at: int) -> Sequence[Message]:
    lines = "\n".join(
        f"step {step} of the build of kite {at}: hill {at * step}, 日本語{step}" for step in range(at % 40)
    )
    return (
        user(f"Fly kite {at}"),
        calls("bash", arguments=f'{{"command": "make target {at}"}}'),
        result(output=lines),
        replies(f"The plan for kite {at + 1} is to take another hill"),
    )


def _parts_are_read_back(store: FullStore) -> None:
    store.append(ONE, as_entries(_HISTORY)[:2], expected=0)
    store.append(ONE, [*as_entries(_HISTORY)[2:], Pin(handle_of(0, 0))], expected=2)
    document = store.read(ONE, "2.0")

    require(document.text == "3 failed, 日本語の文章 in KiteError", "a part is read back unchanged", document)
    require("pytest -q tests/unit" in document.title, "a result is read back under its call", document)
    for handle in ("0.1", "5.0", "6.0", "99.0", "-1.0", "x", "", "0", "9" * 5_000 + ".0"):
        error = error_of(UnknownReference, lambda wanted=handle: store.read(ONE, wanted))  # type: ignore[misc]
        require(error, f"the handle {handle[:9]!r}, which names no text, is an UnknownReference")
    require(error_of(UnknownSession, lambda: store.read(TWO, "0.0")), "reading an unknown session is an UnknownSession")
    require(error_of(UnknownSession, lambda: store.read(FOREIGN, "0.0")), "another tenant cannot read a session")


# Media.

PICTURE, SOUND = bytes(range(256)) * 40, b"\x00"


def _media_are_kept(store: FullStore) -> None:
    if not isinstance(store, MediaStore):
        return
    store.keep_media(ONE, {"a": PICTURE, "b": SOUND, "empty": b""})

    kept = [store.medium(ONE, digest) for digest in ("a", "b", "empty", "c")]
    require(kept == [PICTURE, SOUND, b"", None], "bytes are kept unchanged under their digest", kept)
    require(list(store.newest_first(ONE)) == [], "media are not entries")
    require(store.append(ONE, user_entries("look"), expected=0) == 1, "a session may begin with its media")
    require(store.medium(ONE, "a") == PICTURE, "appending leaves media unchanged")


def _media_are_kept_once(store: FullStore) -> None:
    if not isinstance(store, MediaStore):
        return
    store.append(ONE, user_entries("look"), expected=0)
    before = next(iter(store.sessions("tenant"))).stored_bytes
    for _ in range(3):
        store.keep_media(ONE, {"a": PICTURE})
    grown = next(iter(store.sessions("tenant"))).stored_bytes - before

    require(grown == len(PICTURE), "equal bytes are kept once, and count as the session's", grown)
    require(len(list(store.newest_first(ONE))) == 1, "keeping media changes no entry")


def _media_belong_to_one_session(store: FullStore) -> None:
    if not isinstance(store, MediaStore):
        return
    store.keep_media(ONE, {"a": PICTURE})
    store.keep_media(TWO, {"a": SOUND})

    require(store.medium(FOREIGN, "a") is None, "another tenant cannot get a medium by its digest")
    require(store.medium(TWO, "a") == SOUND, "each session has its own media")
    store.append(ONE, user_entries("look"), expected=0)
    store.delete(ONE)
    require(store.medium(ONE, "a") is None, "a deleted session has no media")
    require(store.medium(TWO, "a") == SOUND, "deleting leaves the media of other sessions")
    store.append(ONE, user_entries("again"), expected=0)
    require(store.medium(ONE, "a") is None, "a new session has no media of a deleted one with its id")
    store.keep_media(ONE, {"a": PICTURE})
    require(store.trim(0) == 2 and store.medium(ONE, "a") is None, "trimming deletes media too")


def _facts_belong_to_an_account(store: FullStore) -> None:
    if not isinstance(store, FactStore):
        return
    before = store.remembers("account", "binds")
    store.remember("account", "binds")
    store.remember("account", "binds")
    known = [
        store.remembers(account, fact) for account, fact in (("account", "binds"), ("other", "binds"), ("account", "b"))
    ]

    require(not before, "an account has no facts at first")
    require(known == [True, False, False], "a fact is remembered of its account alone, whatever else is", known)
    require(not store.remembers("", "binds"), "the account without a name knows nothing of others")
    require(list(store.tenants()) == [], "a fact begins no session")


STORE_RULES: tuple[Callable[[FullStore], None], ...] = (
    _entries_come_back,
    _unknown_session_is_empty,
    _conflict_appends_nothing,
    _append_is_all_or_nothing,
    _reading_can_begin_anywhere,
    _reading_locks_nothing,
    _reader_of_a_deleted_session_ends,
    _writers_never_interleave,
    _one_holder,
    _hold_survives_errors,
    _tenants_share_nothing,
    _keys_are_distinguished,
    _listing_has_sizes,
    _deleted_is_gone,
    _expiry_deletes_the_old,
    _trimming_deletes_the_oldest,
    _search_finds,
    _search_is_bounded,
    _search_takes_any_token,
    _search_is_that_of_the_index,
    _parts_are_read_back,
    _media_are_kept,
    _media_are_kept_once,
    _media_belong_to_one_session,
    _facts_belong_to_an_account,
)
"""Each is called with an empty store."""
