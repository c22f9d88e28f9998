"""Titles from words and from models' answers, in any language."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.entries import Entry, MessageEntry, Title
from infold.core.messages import FilePart, MessageId, Part, SessionId, TextPart, UserMessage
from infold.ports import SessionKey
from infold.session.titles import (
    FIRST_ENTRIES,
    LONGEST,
    LONGEST_TOLD,
    message_title,
    title_from_reply,
    title_from_text,
    title_of,
    titles_of,
)
from infold.stores.memory import MemoryStore
from infold.testing.builders import numbered, replies, user

KEY = SessionKey("", SessionId("kites"))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Fix the loom.", "Fix the loom."),
        ("\n\n  Fix   the\tloom  \nand more", "Fix the loom"),
        ("# Fix the **loom** with `make`", "Fix the loom with make"),
        ("> - [ ] 1. *Fix* [the loom](https://example.com/x)", "Fix the loom"),
        ("---\n***\nFix ![the](a.png) <b>loom</b>", "Fix the loom"),
        ("```py\nimport loom\n```\nWhy does this fail?", "Why does this fail?"),
        ("```py\nimport loom\n```", "import loom"),
        ("~~~\nimport loom\nand on", "import loom"),
        ("Compare these, please:\n- a\n- b", "Compare these, please"),
        ("snake_case_name and 2 * 3 * 4 stay", "snake_case_name and 2 * 3 * 4 stay"),
        ("__init__ is missing", "__init__ is missing"),
        ("a\x1b[31m b\u200e", "a [31m b"),
        ("请修复数据库连接失败的问题。", "请修复数据库连接失败的问题。"),
        ("データベースを直してください", "データベースを直してください"),
        ("🪁", "🪁"),
        ("...", ""),
        ("", ""),
    ],
)
def test_a_title_is_the_first_line_that_says_something(text: str, title: str) -> None:
    """S6.2: without a model, a title is the text's own first line, without markup, fences and what cannot be seen."""
    assert title_from_text(text) == title


def test_a_long_title_ends_with_a_word() -> None:
    """S6.2: at most sixty characters, an ellipsis after a whole word; a script without spaces is cut between characters."""
    english = title_from_text("Please refactor the connection pool so that idle connections are closed after a minute")
    chinese = title_from_text("请" * 80)

    assert english == "Please refactor the connection pool so that idle…"
    assert chinese == "请" * (LONGEST - 1) + "…"
    assert title_from_text("x" * 50 + " " + "y" * 50) == "x" * 50 + "…"


@pytest.mark.parametrize("joined", ["e\u0301", "👩\u200d🚀", "☀\ufe0f"])
def test_what_is_seen_as_one_is_not_parted(joined: str) -> None:
    """An accent, and pictures made of several characters, stay whole at the end."""
    for before in range(LONGEST - 4, LONGEST + 1):
        title = title_from_text("a" * before + joined * 20).removesuffix("…")

        assert len(title) <= LONGEST
        assert title.removeprefix("a" * before).replace(joined, "").replace("a", "") == ""


@pytest.mark.parametrize(
    ("reply", "title"),
    [
        ("Mending the loom", "Mending the loom"),
        ("<think>The user wants…\n</think>\n\nMending the loom\nSecond line", "Mending the loom"),
        ("<thinking>a</thinking>Mending", "Mending"),
        ("so they want a title.</think>\nMending", "Mending"),
        ("<think>never ends", ""),
        ('"Mending the loom"', "Mending the loom"),
        ("**“Mending the loom”**", "Mending the loom"),
        ("「織機の修理」", "織機の修理"),
        ("Title: `Mending`", "Mending"),
        ("# Mending", "Mending"),
        ('\'Tis the "season"', '\'Tis the "season"'),
        ("  \n ", ""),
    ],
)
def test_a_models_title_is_its_first_line(reply: str, title: str) -> None:
    """S6.2: thoughts, quotes and markup around a model's title are left out."""
    assert title_from_reply(reply) == title


def test_a_models_long_title_is_cut() -> None:
    """S6.2: over a hundred characters it ends with an ellipsis."""
    title = title_from_reply("word " * 60)

    assert len(title) <= LONGEST_TOLD
    assert title.endswith("word…")


@given(st.text(max_size=400))
def test_a_title_is_one_short_line(text: str) -> None:
    """Whatever was written, a title is one line that a terminal shows, within its length."""
    for title, most in ((title_from_text(text), LONGEST), (title_from_reply(text), LONGEST_TOLD)):
        assert len(title) <= most
        assert title == title.strip()
        assert all(character.isprintable() or character in "\u200d\ufe0f\ufe0e" for character in title)


def test_a_message_is_titled_by_its_own_words() -> None:
    """What a program put there gives no title; what was attached does where nothing was said."""
    injected, said, image = (
        TextPart("<reminder>", synthetic=True),
        TextPart("Fly it"),
        FilePart("image/png", 9, "kite.png"),
    )

    assert message_title(said_by(injected, said, image)) == "Fly it"
    assert message_title(said_by(injected, image, FilePart("image/gif", 9))) == "kite.png, image/gif"
    assert message_title(said_by(injected)) == ""


def test_the_last_title_holds() -> None:
    """S6.2: each message and the session have the title that was given last."""
    entries = [
        Title("a"),
        Title("x", MessageId("m0")),
        Title("b"),
        Title("y", MessageId("m0")),
        Title("z", MessageId("m4")),
    ]

    assert titles_of(entries) == {"": "b", "m0": "y", "m4": "z"}


class Counting(MemoryStore):
    """Counts the entries that are read."""

    taken = 0

    def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The same entries, counted."""
        for numbered_entry in super().newest_first(key, before=before):
            self.taken += 1
            yield numbered_entry


def test_a_listing_reads_the_first_entries_alone() -> None:
    """S6.2, B17: a session of any length is titled by its beginning."""
    store = Counting()
    entries: list[Entry] = [MessageEntry(message) for message in numbered([user(f"note {n}") for n in range(300)])]
    store.append(KEY, [*entries[:2], Title("Kites"), Title("x", MessageId("m0")), *entries[2:]], expected=0)

    assert title_of(store, KEY) == "Kites"
    assert store.taken == FIRST_ENTRIES


def test_a_session_without_a_title_has_its_first_words() -> None:
    """The first message that a person wrote and that says something; nothing where there is none."""
    store = MemoryStore()
    drafts = (
        user("<env>", synthetic=True),
        user("```\n```"),
        user("Fly the kite"),
        replies("done"),
        user("And land it"),
    )
    store.append(KEY, [MessageEntry(message) for message in numbered(drafts)], expected=0)

    assert title_of(store, KEY) == "Fly the kite"
    assert title_of(store, SessionKey("", SessionId("none"))) == ""


def said_by(*parts: Part) -> UserMessage:
    """A user's message of these parts."""
    return UserMessage(MessageId("m"), parts)
