"""A pytest plugin that records which test files run each line of core, formats and stores, and how long each file takes."""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

from .fast import LINE_COVERAGE, SOURCE

measuring = coverage.Coverage(data_file=None, config_file=False, include=[str(SOURCE / "infold" / "*")])
measuring.start()
seconds: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count what a test runs, and how long it takes, for its file."""
    file = item.nodeid.partition("::")[0]
    measuring.switch_context(file)
    began = time.process_time()
    outcome = yield
    seconds[file] = seconds.get(file, 0.0) + time.process_time() - began
    return outcome


def pytest_sessionfinish() -> None:
    """Write the test files of every line, and the seconds of every test file."""
    measuring.stop()
    found = measuring.get_data()
    lines = {
        Path(file).relative_to(SOURCE / "infold").as_posix(): found.contexts_by_lineno(file)
        for file in found.measured_files()
    }
    Path(os.environ[LINE_COVERAGE]).write_text(json.dumps({"lines": lines, "seconds": seconds}), "utf-8")
