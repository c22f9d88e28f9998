"""Policies that tests need more than once."""

from infold.core.policy import INFOLD

FOLDS = INFOLD.but(prune=INFOLD.prune.but(enabled=False))
"""`infold` without pruning: what makes room is a fold, also where stubs for old results would do."""

FOLDS_SETTING = {"INFOLD_COMPACTION_PRUNE": "false"}
"""The same where settings come from variables."""
