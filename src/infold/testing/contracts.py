"""What every adapter must do, as functions that its author can call: `check_store` for whatever keeps logs, `check_model` for
whatever answers.

A rule that is broken raises an `AssertionError` whose message is the rule, in one sentence, and what was seen instead.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from infold.ports import FullStore
from infold.testing.model_contract import MODEL_RULES, MakeModel
from infold.testing.store_contract import ARCHIVE_RULES, LOG_RULES, MEDIA_RULES, RECALL_RULES

MakeStore: TypeAlias = Callable[[], AbstractContextManager[FullStore]]
"""Opens an empty store and closes it at the end of the block."""

STORE_RULES = (*LOG_RULES, *ARCHIVE_RULES, *RECALL_RULES, *MEDIA_RULES)


def check_store(make: MakeStore) -> None:
    """Try every rule, each on a store of its own."""
    for rule in STORE_RULES:
        with make() as store:
            rule(store)


def check_model(make: MakeModel) -> None:
    """Try every rule, each on a model of its own."""
    for rule in MODEL_RULES:
        rule(make)
