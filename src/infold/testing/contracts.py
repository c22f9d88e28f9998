"""What every adapter must do, as functions that its author can call: `check_store` for whatever keeps logs.

A rule that is broken raises an `AssertionError` whose message is the rule, in one sentence, and what was seen instead.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from infold.ports import FullStore
from infold.testing.store_archive_rules import ARCHIVE_RULES
from infold.testing.store_log_rules import LOG_RULES
from infold.testing.store_recall_rules import RECALL_RULES

__all__ = ["MakeStore", "STORE_RULES", "check_store"]

MakeStore: TypeAlias = Callable[[], AbstractContextManager[FullStore]]
"""Opens an empty store and closes it at the end of the block."""

STORE_RULES = (*LOG_RULES, *ARCHIVE_RULES, *RECALL_RULES)


def check_store(make: MakeStore) -> None:
    """Try every rule, each on a store of its own."""
    for rule in STORE_RULES:
        with make() as store:
            rule(store)
