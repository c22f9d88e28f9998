"""A pytest plugin for the suites of frameworks: what `INFOLD_SUITE_MODULE` puts into the framework is in every run.

The module is imported when the tests are collected, since a suite's own set-up comes before the first import of its framework.
It has `begin(window)`, called before each test, `end()`, called after it, and `requests()`, how many requests infold was in.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_forced: list[Any] = []


def pytest_collection_finish() -> None:
    """Put infold into the framework."""
    _forced[:] = [import_module(os.environ["INFOLD_SUITE_MODULE"])]


@pytest.fixture(autouse=True)
def force_infold() -> Iterator[None]:
    """Use sessions of its own for each test."""
    _forced[0].begin(int(os.environ["INFOLD_SUITE_WINDOW"]))
    yield
    _forced[0].end()


def pytest_sessionfinish() -> None:
    """Write down how many requests infold was in; each worker has a file of its own."""
    folder = Path(os.environ["INFOLD_SUITE_COUNTS"])
    if _forced:
        (folder / f"{os.getpid()}.count").write_text(str(_forced[0].requests()))
