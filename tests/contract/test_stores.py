"""Every store keeps every rule."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import copy
from itertools import islice
from pathlib import Path

import pytest

from infold.core.entries import Entry
from infold.errors import UsageError
from infold.ports import FullStore, MediaStore, SessionKey
from infold.stores.memory import MemoryStore
from infold.stores.postgres import PostgresStore
from infold.stores.sqlite import SqliteStore
from infold.testing.store_contract import STORE_RULES, check_store

Rule = Callable[[FullStore], None]
RULE = pytest.mark.parametrize("rule", STORE_RULES, ids=lambda rule: rule.__name__.strip("_"))


@RULE
def test_memory_keeps_the_rule(rule: Rule) -> None:
    """B14, B27, B28, B6: the store in memory keeps the contract, rule by rule."""
    rule(MemoryStore())


@RULE
def test_sqlite_keeps_the_rule(rule: Rule, tmp_path: Path) -> None:
    """B14, B27, B28, B6: the store in a file keeps the contract, rule by rule."""
    with SqliteStore(tmp_path / "sessions.db") as store:
        rule(store)


@RULE
def test_postgres_keeps_the_rule(rule: Rule, postgres: str) -> None:
    """B14, B27, B28, B6: the store in a PostgreSQL database keeps the contract, rule by rule."""
    with PostgresStore(postgres) as store:
        rule(store)


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore, PostgresStore])
def test_own_stores_keep_media(kind: type) -> None:
    """B35: each of infold's own stores keeps the bytes of media, so that their rules are tried on it."""
    assert issubclass(kind, MediaStore)


def test_a_store_cannot_be_pickled(tmp_path: Path, postgres: str) -> None:
    """A store handed to another process, or copied, is refused with what to do instead; no connection string is written."""
    for store in (MemoryStore(), SqliteStore(tmp_path / "sessions.db"), PostgresStore(postgres)):
        for act in (pickle.dumps, copy):
            with store, pytest.raises(UsageError, match=r"cannot be pickled or copied.*open_store"):
                act(store)


def test_contract_is_one_call() -> None:
    """A store's author checks all rules by one call, each rule on a store of its own."""
    opened: list[MemoryStore] = []

    def make() -> nullcontext[MemoryStore]:
        opened.append(MemoryStore())
        return nullcontext(opened[-1])

    check_store(make)

    assert len(opened) == len(STORE_RULES)


def test_broken_rule_is_named() -> None:
    """A store that forgets what was appended fails with the rule it breaks."""

    class Forgetful(MemoryStore):
        def newest_first(self, key: SessionKey, *, before: int | None = None) -> Iterator[tuple[int, Entry]]:
            return islice(super().newest_first(key, before=before), 0)

    with pytest.raises(AssertionError, match="entries are numbered from 0 without gaps; seen: \\[\\]"):
        check_store(lambda: nullcontext(Forgetful()))
