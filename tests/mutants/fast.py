"""The fast tests: what is run against a mutant, and how."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

FAST = (
    "tests/unit/core",
    "tests/unit/formats",
    "tests/unit/transcripts",
    "tests/unit/stores",
    "tests/unit/session",
    "tests/unit/proxy",
    "tests/invariants",
    "tests/defects",
    "tests/contract/test_stores.py",
    "tests/property",
)
"""About 5,900 tests; without a failure 105 s on one core, 100 s of them computing."""

LEFT_OUT = (
    "tests/property/test_expressions_take_linear_time.py",  # 12 s, and it measures time on a machine that may be busy
    "tests/contract/test_stores.py::test_contract_is_one_call",  # every rule again that the tests before it ran
)
LINE_COVERAGE = "MUTANTS_LINE_COVERAGE"
"""The variable that names the file for the plugin of that name to write."""

POSTGRES = "not postgres"
"""The contract is run on the stores in memory and in a file; a server takes longer to start than most mutants to die."""


def command(targets: Sequence[str]) -> list[str]:
    """Return the pytest run of these files and folders, the same one each time: a fixed seed, a few examples, no memory."""
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.few_examples"]
    left_out = [f"--deselect={name}" for name in LEFT_OUT] + [f"--ignore={LEFT_OUT[0]}", "-k", POSTGRES]
    return [*pytest, "--hypothesis-seed=0", *left_out, *targets]


def environment(source: Path) -> dict[str, str]:
    """Return the environment that imports infold from a folder and sees no recorded sessions outside the repository."""
    foreign = ("INFOLD_", "PYTEST_", "COVERAGE_", "PYTHONDONTWRITEBYTECODE")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**own, "PYTHONPATH": str(source), "INFOLD_CORPUS": str(ROOT / "no-corpus")}


def present(targets: Sequence[str]) -> list[str]:
    """Return the files and folders that this tree has."""
    return [target for target in targets if (ROOT / target).exists()]
