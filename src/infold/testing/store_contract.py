"""The rules of a store for recall: what a search finds, in what order, and how a part is read back."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from threading import Thread

from infold.core.entries import Checkpoint, Entry, MessageEntry, Pin, Pruning, handle_of
from infold.core.messages import Message, SessionId
from infold.core.recall import tokens_of
from infold.errors import InfoldError, StoreConflict, UnknownReference, UnknownSession
from infold.ports import FullStore, MediaStore, SessionKey, Store
from infold.testing.builders import calls, numbered, replies, result, user

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


# Tenants.


def _tenants_share_nothing(store: FullStore) -> None:
    store.append(ONE, said("apple"), expected=0)
    store.append(FOREIGN, said("pear", "plum"), expected=0)

    rule(list(store.tenants()) == sorted({ONE.tenant, FOREIGN.tenant}), "tenants are listed once, in order")
    listed = [[session.key for session in store.sessions(tenant)] for tenant in (ONE.tenant, FOREIGN.tenant, "")]
    rule(listed == [[ONE], [FOREIGN], []], "a tenant sees its own sessions and no others (B28)", listed)
    rule(len(list(store.newest_first(ONE))) == 1, "equal ids of two tenants are two sessions (B28)")
    rule(not store.search(ONE, ["pear"], most=5), "a search finds nothing of another tenant (B28)")
    rule(not store.search(ONE, ["$1", "$2", "#1", "#2"], most=5), "no word reaches into another session (B28)")
    alone = store.search(FOREIGN, ["pear"], most=5)
    store.append(TWO, said("pear"), expected=0)
    rule(store.search(FOREIGN, ["pear"], most=5) == alone, "no score depends on another session's words (B28)")
    store.delete(ONE)
    rule(len(list(store.newest_first(FOREIGN))) == 2, "deleting one tenant's session leaves the other's (B28)")


def _keys_are_told_apart(store: FullStore) -> None:
    keys = [
        SessionKey(tenant, SessionId(name)) for tenant, name in (("a", "bc"), ("ab", "c"), ("", "abc"), ("a", "Bc"))
    ]
    for key in keys:
        store.append(key, said(str(key)), expected=0)

    for key in keys:
        texts = [str(entry) for _, entry in store.newest_first(key)]
        rule(len(texts) == 1 and repr(str(key))[1:-1] in texts[0], "tenant and id are told apart, case included", texts)


# Listing and deleting.


def _listing_tells_sizes(store: FullStore) -> None:
    keys = [SessionKey("tenant", SessionId(f"s{number}")) for number in range(60)]
    for key in keys:
        store.append(key, said("a"), expected=0)
    time.sleep(0.005)
    store.append(keys[7], said("b" * 1_000, prefix="n"), expected=1)

    listed = list(store.sessions("tenant"))
    rule(sorted(session.key for session in listed) == sorted(keys), "every session is listed once", listed)
    rule(listed[0].key == keys[7], "the session changed last is listed first", listed[0])
    rule([session.entries for session in listed] == [2] + [1] * 59, "a listing counts entries", listed[:2])
    rule(listed[0].stored_bytes > listed[1].stored_bytes + 1_000, "a listing tells sizes in bytes", listed[:2])
    rule(abs(listed[0].changed_ms - time.time_ns() // 10**6) < 10**6, "a listing tells the last change", listed[0])


def _deleted_is_gone(store: FullStore) -> None:
    store.append(ONE, said("apple"), expected=0)
    store.append(TWO, said("apple"), expected=0)
    store.delete(ONE)

    rule(list(store.newest_first(ONE)) == [], "a deleted session has no entries (B27)")
    rule(not store.search(ONE, ["apple"], most=5), "a deleted session is not found (B27)")
    rule([session.key for session in store.sessions("tenant")] == [TWO], "a deleted session is not listed (B27)")
    rule(len(store.search(TWO, ["apple"], most=5)) == 1, "deleting leaves other sessions as they are (B27)")
    rule(raised(UnknownSession, lambda: store.delete(ONE)) is not None, "deleting what is not there is told")
    rule(
        raised(StoreConflict, lambda: store.append(ONE, said("b"), expected=1)) is not None,
        "a writer who comes too late is told",
    )
    rule(store.append(ONE, said("pear"), expected=0) == 1, "an id can be used again, from 0")
    rule(not store.search(ONE, ["apple"], most=5), "a new session finds nothing of the deleted one (B27)")


def _expiry_takes_the_old(store: FullStore) -> None:
    store.append(ONE, said("a"), expected=0)
    store.append(FOREIGN, said("a"), expected=0)
    kept = store.expire(60_000)
    time.sleep(1.5)
    store.append(TWO, said("b"), expected=0)
    gone = store.expire(1_200)

    rule(kept == 0, "what changed lately does not expire (B27)", kept)
    rule(gone == 2, "what changed longer ago expires, whoever's it is (B27)", gone)
    rule([session.key for session in store.sessions("tenant")] == [TWO], "what is left is listed (B27)")


def _trimming_takes_the_oldest(store: FullStore) -> None:
    keys = [SessionKey("tenant", SessionId(f"s{number}")) for number in range(5)]
    for key in keys:
        store.append(key, said("a" * 1_000), expected=0)
        time.sleep(0.005)
    size = next(store.sessions("tenant")).stored_bytes
    removed = (store.trim(size * 5), store.trim(size * 3 + 1), store.trim(size * 3))
    left = [session.key for session in store.sessions("tenant")]

    rule(removed == (0, 2, 0), "trimming deletes no more than the cap asks for (B27)", removed)
    rule(left == keys[:1:-1], "trimming deletes what changed longest ago (B27)", left)
    rule(store.trim(0) == 3, "a cap of 0 deletes all (B27)")


ARCHIVE_RULES: tuple[Callable[[FullStore], None], ...] = (
    _tenants_share_nothing,
    _keys_are_told_apart,
    _listing_tells_sizes,
    _deleted_is_gone,
    _expiry_takes_the_old,
    _trimming_takes_the_oldest,
)
"""Each is called with an empty store."""


# The log.


def _entries_come_back(store: FullStore) -> None:
    entries = [
        *said("a", "\0 ' \" 日本語 🎏"),
        Pin(handle_of(0, 0)),
        Pruning((handle_of(0, 0),), 7),
        Checkpoint("sum", 1),
    ]
    after = (store.append(ONE, entries[:2], expected=0), store.append(ONE, entries[2:], expected=2))
    read = list(store.newest_first(ONE))

    rule(after == (2, 5), "append gives the number that the next entry will have", after)
    rule([number for number, _ in read] == [4, 3, 2, 1, 0], "entries are numbered from 0 without gaps", read)
    rule([entry for _, entry in read] == entries[::-1], "entries come back as they were appended, newest first", read)


def _unknown_session_is_empty(store: FullStore) -> None:
    rule(list(store.newest_first(ONE)) == [], "a session that is not there has no entries")
    rule(store.append(ONE, [], expected=0) == 0, "appending nothing changes no number")
    rule(list(store.sessions(ONE.tenant)) == [], "appending nothing begins no session")
    rule(tuple(store.search(ONE, ["a"], most=5)) == (), "a search in a session that is not there finds nothing")


def _conflict_appends_nothing(store: FullStore) -> None:
    store.append(ONE, said("a", "b"), expected=0)
    for expected in (0, 1, 3):
        conflict = raised(StoreConflict, lambda at=expected: store.append(ONE, said("c"), expected=at))  # type: ignore[misc]
        numbers = (getattr(conflict, "expected", None), getattr(conflict, "actual", None))
        rule(numbers == (expected, 2), "a wrong `expected` is a StoreConflict with both numbers", conflict)
    conflict = raised(StoreConflict, lambda: store.append(TWO, said("c"), expected=1))

    rule(conflict is not None, "a session that is not there begins at 0", conflict)
    rule(len(list(store.newest_first(ONE))) == 2, "a conflict appends nothing")
    rule(list(store.newest_first(TWO)) == [], "a conflict begins no session")


def _append_is_all_or_nothing(store: FullStore) -> None:
    broken: Sequence[Entry] = [*said("a"), Pin(handle_of(0, 0), pinned=object())]  # type: ignore[arg-type]
    try:
        store.append(ONE, broken, expected=0)
    except TypeError:
        rule(list(store.newest_first(ONE)) == [], "an append is all or nothing")
    else:
        rule(None, "an entry that cannot be encoded is refused")


def _reading_can_begin_anywhere(store: FullStore) -> None:
    store.append(ONE, said(*map(str, range(120))), expected=0)

    for before, first in ((None, 119), (120, 119), (500, 119), (60, 59), (1, 0)):
        numbers = [number for number, _ in store.newest_first(ONE, before=before)]
        rule(numbers == list(range(first, -1, -1)), f"before={before} gives the entries from {first} down", numbers)
    rule(list(store.newest_first(ONE, before=0)) == [], "there is nothing before entry 0")


def _reading_locks_nothing(store: FullStore) -> None:
    store.append(ONE, said(*map(str, range(120))), expected=0)
    reading = store.newest_first(ONE)
    first = [number for number, _ in islice(reading, 10)]
    store.append(ONE, said("new", prefix="n"), expected=120)
    store.append(TWO, said("new"), expected=0)

    numbers = first + [number for number, _ in reading]
    rule(numbers == list(range(119, -1, -1)), "a reader under way sees what was there, while others append", numbers)


def _reader_of_a_deleted_session_ends(store: FullStore) -> None:
    store.append(ONE, said(*map(str, range(120))), expected=0)
    reading = store.newest_first(ONE)
    next(reading)
    store.delete(ONE)
    store.append(ONE, said(*(["other"] * 120), prefix="o"), expected=0)

    texts = {str(entry) for _, entry in reading}
    rule(not any("other" in text for text in texts), "a reader never passes from a deleted session into its successor")


# Several writers.


def _writers_never_interleave(store: FullStore) -> None:
    def write(name: str) -> None:
        for at in range(12):
            append_with_retries(store, ONE, said("first", "second", prefix=f"{name}-{at}-"))

    threads = [Thread(target=write, args=(name,)) for name in "abcd"]
    run_together(threads)
    ids = [entry.message.id for _, entry in store.newest_first(ONE) if isinstance(entry, MessageEntry)][::-1]
    pairs = list(zip(ids[::2], ids[1::2], strict=True))

    rule(len(ids) == 96 and len(set(ids)) == 96, "what several threads append is all there, once (B14)", ids)
    rule(all(one[:-1] == two[:-1] for one, two in pairs), "what is appended together stays together (B14)", ids)
    for name in "abcd":
        own = [id_ for id_ in ids if id_.startswith(f"{name}-")]
        rule(own == sorted(own, key=_turn), "each writer's entries stand in its order (B14)", own)


def _one_holder(store: FullStore) -> None:
    others: list[bool] = []

    def try_to_hold() -> None:
        with store.hold(ONE) as held:
            others.append(held)

    with store.hold(ONE) as first, store.hold(TWO) as second, store.hold(FOREIGN) as third:
        try_to_hold()
        run_together([Thread(target=try_to_hold)])
        appended = store.append(ONE, said("a"), expected=0)
        try_to_hold()
    with store.hold(ONE) as again:
        pass

    rule(first and second and third, "a lock that nobody holds is given, each session having its own")
    rule(others == [False] * 3, "a session has one holder at a time, and who asks meanwhile is told so", others)
    rule(appended == 1, "a held session can be appended to")
    rule(again, "a lock is given back at the end of the block")


def _hold_survives_errors(store: FullStore) -> None:
    seen = None
    try:
        with store.hold(ONE):
            raise ConnectionError("of the block's own")
    except ConnectionError as error:
        seen = error
    with store.hold(ONE) as again:
        rule(again and seen is not None, "an error in the block passes through as it is and gives the lock back", seen)


def _turn(id_: str) -> tuple[int, ...]:
    return tuple(int(piece) for piece in id_.split("-")[1:])


LOG_RULES: tuple[Callable[[FullStore], None], ...] = (
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
)
"""Each is called with an empty store."""


PICTURE, SOUND = bytes(range(256)) * 40, b"\x00"


def _media_are_kept(store: FullStore) -> None:
    if not isinstance(store, MediaStore):
        return
    store.keep_media(ONE, {"a": PICTURE, "b": SOUND, "empty": b""})

    kept = [store.medium(ONE, digest) for digest in ("a", "b", "empty", "c")]
    rule(kept == [PICTURE, SOUND, b"", None], "bytes are kept as they are, under their digest (B35)", kept)
    rule(list(store.newest_first(ONE)) == [], "media are no entries")
    rule(store.append(ONE, said("look"), expected=0) == 1, "a session may begin with its media")
    rule(store.medium(ONE, "a") == PICTURE, "appending leaves media as they are")


def _media_are_kept_once(store: FullStore) -> None:
    if not isinstance(store, MediaStore):
        return
    store.append(ONE, said("look"), expected=0)
    before = next(iter(store.sessions("tenant"))).stored_bytes
    for _ in range(3):
        store.keep_media(ONE, {"a": PICTURE})
    grown = next(iter(store.sessions("tenant"))).stored_bytes - before

    rule(grown == len(PICTURE), "bytes that are there are not kept twice, and count as the session's (B35)", grown)
    rule(len(list(store.newest_first(ONE))) == 1, "keeping media changes no entry")


def _media_are_one_sessions(store: FullStore) -> None:
    if not isinstance(store, MediaStore):
        return
    store.keep_media(ONE, {"a": PICTURE})
    store.keep_media(TWO, {"a": SOUND})

    rule(store.medium(FOREIGN, "a") is None, "no other tenant gets at a medium by its digest (B28)")
    rule(store.medium(TWO, "a") == SOUND, "each session has its own media")
    store.append(ONE, said("look"), expected=0)
    store.delete(ONE)
    rule(store.medium(ONE, "a") is None, "a deleted session has no media (B27)")
    rule(store.medium(TWO, "a") == SOUND, "deleting leaves the media of other sessions (B27)")
    store.append(ONE, said("again"), expected=0)
    rule(store.medium(ONE, "a") is None, "a new session of that id has none of the old one's media (B27)")
    store.keep_media(ONE, {"a": PICTURE})
    rule(store.trim(0) == 2 and store.medium(ONE, "a") is None, "trimming takes media too (B27)")


MEDIA_RULES: tuple[Callable[[FullStore], None], ...] = (_media_are_kept, _media_are_kept_once, _media_are_one_sessions)
"""Each is called with an empty store."""


# Recall.

_STORY = (
    user("Please mend src/infold/core.py, the parseHTTPHeader function"),
    calls("bash", arguments='{"command": "pytest -q tests/unit"}'),
    result(output="3 failed, 日本語の文章 in KiteError"),
    replies("The kite is mended"),
    user("Please fly the kite"),
)


def _search_finds(store: FullStore) -> None:
    store.append(ONE, told(_STORY)[:2], expected=0)
    store.append(ONE, told(_STORY)[2:], expected=2)
    for query, wanted in (
        ("src/infold/core.py", ["0.0"]),
        ("core.py", ["0.0"]),
        ("http", ["0.0"]),
        ("日本語", ["2.0"]),
        ("kiteerror", ["2.0"]),
        ("tests/unit", ["2.0", "1.0"]),
        ("please", ["4.0", "0.0"]),
        ("the kite is", ["3.0", "4.0", "2.0", "0.0"]),
        ("absent", []),
        ("", []),
    ):
        found = [found.handle for found in store.search(ONE, tokens_of(query), most=9)]
        rule(found == wanted, f"a search for {query!r} finds {wanted}, best and newest first (B6)", found)


def _search_is_bounded(store: FullStore) -> None:
    store.append(ONE, said(*("common rare" if at == 3 else "common" for at in range(120))), expected=0)

    found = [found.handle for found in store.search(ONE, ["common", "rare", "common"], most=3)]
    rule(found == ["3.0", "119.0", "118.0"], "a search gives at most what it is asked for, best first (B6)", found)
    rule(not store.search(ONE, ["common"], most=0), "a search for none finds none")
    scores = [found.score for found in store.search(ONE, ["common", "rare"], most=9)]
    rule(scores == sorted(scores, reverse=True) and scores[0] > scores[1], "scores fall from best to worst", scores)


def _search_takes_any_token(store: FullStore) -> None:
    huge = "x" * 5_000
    words = " ".join(f"word{number}of{number * 7}" for number in range(60_000))
    store.append(ONE, said(f"it's \"{huge}\" AND a\\b c:d NEAR(x) * ' \0 日", words), expected=0)
    hostile = (
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
    store.search(ONE, hostile, most=9)

    for token in (huge, "a\\b", "c:d", "日"):
        found = [found.handle for found in store.search(ONE, tokens_of(token)[:1], most=9)]
        rule(found == ["0.0"], f"the token {token[:9]!r} is found whatever its characters and length (B6)", found)
    for token in ("word0of0", "word59999of419993"):
        found = [found.handle for found in store.search(ONE, [token], most=9)]
        rule(found == ["1.0"], "a part of any size is findable from its first word to its last (B6)", found)


def _parts_are_read_back(store: FullStore) -> None:
    store.append(ONE, told(_STORY)[:2], expected=0)
    store.append(ONE, [*told(_STORY)[2:], Pin(handle_of(0, 0))], expected=2)
    document = store.read(ONE, "2.0")

    rule(document.text == "3 failed, 日本語の文章 in KiteError", "a part is read back as it was said (B6)", document)
    rule("pytest -q tests/unit" in document.title, "a result is read back under its call (B6)", document)
    for handle in ("0.1", "5.0", "6.0", "99.0", "-1.0", "x", "", "0", "9" * 5_000 + ".0"):
        error = raised(UnknownReference, lambda wanted=handle: store.read(ONE, wanted))  # type: ignore[misc]
        rule(error is not None, f"the handle {handle[:9]!r}, which names no text, is an UnknownReference")
    rule(raised(UnknownSession, lambda: store.read(TWO, "0.0")) is not None, "a session that is not there is told")
    rule(raised(UnknownSession, lambda: store.read(FOREIGN, "0.0")) is not None, "another tenant reads nothing (B28)")


RECALL_RULES: tuple[Callable[[FullStore], None], ...] = (
    _search_finds,
    _search_is_bounded,
    _search_takes_any_token,
    _parts_are_read_back,
)
"""Each is called with an empty store."""
