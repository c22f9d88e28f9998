"""The rules of a store for recall: what a search finds, in what order, and how a part is read back."""

from collections.abc import Callable

from infold.core.entries import Pin, handle_of
from infold.core.recall import tokens_of
from infold.errors import UnknownReference, UnknownSession
from infold.ports import FullStore
from infold.testing.builders import calls, replies, result, user
from infold.testing.rules import FOREIGN, ONE, TWO, raised, rule, said, told

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
