"""A pytest plugin for the fast tests: few generated examples, none kept from an earlier run.

A property of 200 examples costs seconds; a mutant that breaks it mostly fails within the first ones.
"""

import pytest
from hypothesis import Phase, settings

EXAMPLES = 15
PHASES = (Phase.explicit, Phase.generate)
"""Without `reuse`, which would replay one mutant's failure to the next, and without `shrink`: any failure kills."""

SETTINGS = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a decorated test; `tests/property` and `tests/invariants` set their own."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Limit the examples of every property."""
    for item in items:
        function = getattr(item, "obj", None)
        function = getattr(function, "__func__", function)
        if getattr(function, "is_hypothesis_test", False):
            own = getattr(function, SETTINGS, None) or settings()
            few = min(own.max_examples, EXAMPLES)
            setattr(
                function, SETTINGS, settings(own, max_examples=few, database=None, phases=PHASES, derandomize=False)
            )
