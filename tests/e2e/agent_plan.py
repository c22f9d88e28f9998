"""A coding task of three hundred steps: what a model would do to build a small package, and what is on disk afterwards."""

import sys
from collections.abc import Iterator
from typing import Any

from infold.testing.script import Say

__all__ = ["FIRST", "LATER", "NAMES", "RULES", "TASK", "expected_tree", "initial_tree", "replies_for"]

RULES = (
    "Never touch anything under vendor/.",
    "Use only the standard library.",
    "Every function must have a docstring.",
    "Do not rename a public function once it is there.",
)
"""What the user lays down in the first message; it holds in every request."""

TASK = (
    "Build the package harbour: one module for each thing in a harbour, each with a test that is run, and an index of all "
    f"in harbour/__init__.py. {' '.join(RULES)}"
)
FIRST = "The first modules of harbour are there, and their tests pass."
LATER = "All modules of harbour are there; every test passes, and vendor/ is untouched."

NAMES = (
    *("anchor", "berth", "buoy", "cargo", "crane", "deck", "dock", "ferry", "freight", "gangway", "hawser", "jetty"),
    *(
        "keel",
        "lighter",
        "mast",
        "mooring",
        "pier",
        "pilot",
        "quay",
        "rudder",
        "sluice",
        "tide",
        "tug",
        "wharf",
        "winch",
    ),
)
LOG_LINES = 700
"""How long the large outputs are: several times what the model is shown of a result at first."""

Call = tuple[str, dict[str, Any]]


def initial_tree() -> dict[str, str]:
    """What the project has before the task."""
    return {
        ".gitignore": "__pycache__/\n*.log\n",
        "README.md": "# Harbour\n\nEverything in a harbour.\n",
        "check": f'#!/bin/sh\nexec {sys.executable} -S -B -m "tests.test_$1"\n',
        "harbour/__init__.py": '"""Everything in a harbour."""\n\nINDEX = (\n)\n',
        "tests/__init__.py": "",
        "vendor/tides.py": "HIGH, LOW = 6, 12\n" * 40,
    }


def expected_tree(names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """What the project has when these modules are built, file by file."""
    listed = "".join(f'    "{name}",\n' for name in names)
    return {
        **initial_tree(),
        "harbour/__init__.py": f'"""Everything in a harbour."""\n\nINDEX = (\n{listed})\n',
        **{f"harbour/{name}.py": module_text(name, mended=True) for name in names},
        **{f"tests/test_{name}.py": check_text(name) for name in names},
    }


def module_text(name: str, *, mended: bool) -> str:
    """A module; before it is mended it counts one too few."""
    count = "len(marks)" if mended else "len(marks) - 1"
    return (
        f'"""The {name} of the harbour."""\n\n\n'
        f'def load_{name}(text: str) -> list[str]:\n    """The marks of the {name} that a text lists."""\n'
        f"    return [mark.strip() for mark in text.split() if mark.strip()]\n\n\n"
        f'def count_{name}(marks: list[str]) -> int:\n    """How many marks the {name} has."""\n    return {count}\n'
    )


def check_text(name: str) -> str:
    """The test of a module, which runs as a program."""
    return (
        f'"""The {name} is counted right."""\n\nfrom harbour.{name} import count_{name}, load_{name}\n\n'
        f'found = count_{name}(load_{name}("red green white"))\n'
        f'assert found == 3, f"the {name} has {{found}} marks, not 3"\nprint("{name}: 3 marks, all is well")\n'
    )


def replies_for(names: tuple[str, ...], before: tuple[str, ...], answer: str) -> tuple[Say, ...]:
    """What the model says to build these modules, after those that are there already; twelve steps for each."""
    steps: list[Say] = []
    for place, name in enumerate(names):
        done = (*before, *names[:place])
        steps += (Say(f"Now the {name}: {words}", calls) for words, calls in _steps(name, done))
    return (*steps[:-1], Say(answer))


def _steps(name: str, done: tuple[str, ...]) -> Iterator[tuple[str, tuple[Call, ...]]]:
    """Twelve steps: what the model says, and what it calls."""
    path, test = f"harbour/{name}.py", f"tests/test_{name}.py"
    check = {"command": f"sh check {name}"}
    earlier = done[-1] if done else name
    last = f'"{done[-1]}",\n)' if done else "INDEX = (\n)"
    log = f'seq -f "%06.0f the {name} was seen at its place, nothing to report" 1 {LOG_LINES} | tee {name}.log'
    yield "it goes on the list.", (("todo", {"items": _todos(name, done)}),)
    yield "first its module.", (("write", {"path": path, "content": module_text(name, mended=False)}),)
    yield "then its test.", (("write", {"path": test, "content": check_text(name)}),)
    yield "does it pass?", (("shell", check),)
    yield "where is it counted?", (("search", {"pattern": f"def (count|load)_{name}", "path": "harbour"}),)
    yield "one too few; it is mended.", (("edit", {"path": path, "old": "len(marks) - 1", "new": "len(marks)"}),)
    yield "once more.", (("shell", check),)
    yield "what does its log say?", (("shell", {"command": log}),)
    yield "a look at both.", (("read", {"path": path}), ("read", {"path": test}), ("list", {"glob": "harbour/*.py"}))
    yield "how was the last one?", (_looked_up(earlier, by_recall=len(done) % 3 == 1),)
    yield "into the index.", (("edit", {"path": "harbour/__init__.py", "old": last, "new": _indexed(last, name)}),)
    yield "and the log, some of it.", (("read", {"path": f"{name}.log", "first_line": 300, "lines": 60}),)


def _looked_up(name: str, *, by_recall: bool) -> Call:
    """An earlier module brought back: what was said of it, or its file."""
    if by_recall:
        return "recall", {"query": f"the {name} was seen at its place"}
    return "read", {"path": f"harbour/{name}.py"}


def _todos(name: str, done: tuple[str, ...]) -> list[dict[str, str]]:
    finished = [{"content": f"build the {one}", "status": "completed"} for one in done[-3:]]
    return [*finished, {"content": f"build the {name}", "status": "in_progress"}]


def _indexed(last: str, name: str) -> str:
    """The end of the index with one name more."""
    return f'{last.removesuffix(")")}    "{name}",\n)'
