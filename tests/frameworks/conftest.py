"""What the tests of all frameworks share."""

import pytest


@pytest.fixture
def only_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes room is a fold, also where stubs for old results would do."""
    monkeypatch.setenv("INFOLD_DISABLE_PRUNE", "1")
