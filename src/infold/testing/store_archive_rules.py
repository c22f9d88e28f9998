"""The rules of a store for whole sessions: tenants apart, listing, deleting, expiry, the cap on size."""

import time
from collections.abc import Callable

from infold.core.messages import SessionId
from infold.errors import StoreConflict, UnknownSession
from infold.ports import FullStore, SessionKey
from infold.testing.rules import FOREIGN, ONE, TWO, raised, rule, said

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
