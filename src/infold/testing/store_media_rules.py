"""The rules of a store for the bytes of media: kept once, for one session, as long as that is there.

A store that is no `MediaStore` has nothing to keep to; sessions on it say of each medium that it is not stored.
"""

from collections.abc import Callable

from infold.ports import FullStore, MediaStore
from infold.testing.rules import FOREIGN, ONE, TWO, rule, said

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
