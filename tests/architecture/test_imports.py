"""Dependencies point inward, the core is pure, and importing a module does nothing (style.md section 3)."""

import pytest

from .layers import MAY_IMPORT, layer_of, problems
from .sources import modules


@pytest.mark.slow
def test_modules_keep_to_their_layers() -> None:
    """A module imports what its layer may, at its top, and does nothing else while it is imported."""
    found = [problem for source in modules() for problem in problems(source.name, source.text, package=source.package)]

    assert found == [], "\n".join(found)


def test_every_layer_has_a_rule() -> None:
    """No package or module stands directly under `infold` that the table of layers does not know."""
    assert {layer_of(source.name) for source in modules()} <= set(MAY_IMPORT)


BAD = [
    (
        "core may not know the engine",
        "core.plan",
        "from infold.engine.flow import prepare",
        "may not import infold.engine",
    ),
    (
        "core may not know formats",
        "core.plan",
        "import infold.formats.registry as wire",
        "may not import infold.formats",
    ),
    ("formats may not know the catalogue", "formats.wire", "from infold.catalogue import lookup", "may not import"),
    ("an adapter may not know another", "stores.sqlite", "from infold.models.openai import ask", "may not import"),
    ("a face may not know an adapter", "gateway.app", "from infold.stores.sqlite import Store", "may not import"),
    ("a face may not know another", "dashboard.app", "from infold.gateway.app import app", "may not import"),
    ("a face may not use the fakes", "gateway.app", "from infold.testing.builders import session", "may not import"),
    ("not every face may use the api", "replay.run", "from infold.api import fit", "may not import infold.api"),
    ("the root is no shortcut", "core.plan", "from infold import fit", "may not import infold.fit"),
    ("nor is it one for layers", "core.plan", "from infold import engine", "may not import infold.engine"),
    ("a layer nobody named", "utils.text", "x = 1", "not in the table of layers"),
    ("relative import upwards", "core.plan", "from ..engine import flow", "relative import upwards"),
    ("and it is seen through", "core.plan", "from ..engine import flow", "may not import infold.engine"),
    ("upwards even to what is allowed", "core.plan", "from ..errors import LogError", "relative import upwards"),
    ("a foreign package in core", "core.plan", "import attrs", "third-party package attrs"),
    ("a foreign package in the engine", "engine.flow", "import anyio", "third-party package anyio"),
    ("a clock in core", "core.plan", "import time", "not pure"),
    ("a date in core", "core.plan", "from datetime import datetime", "not pure"),
    ("chance in core", "core.plan", "import random", "not pure"),
    ("ids made in core", "core.plan", "from uuid import uuid4", "not pure"),
    ("files in core", "core.plan", "from pathlib import Path", "not pure"),
    ("environment in core", "core.plan", "import os.path", "not pure"),
    ("network in core", "core.plan", "import urllib.request", "not pure"),
    ("logging in core", "core.plan", "import logging", "not pure"),
    ("import tricks in core", "core.plan", "import importlib", "not pure"),
    ("async in core", "core.plan", "async def plan() -> None: ...", "async in core"),
    ("async comprehension in core", "core.plan", "async def f(x):\n    return [y async for y in x]", "async in core"),
    ("open in core", "core.plan", "def f(name):\n    return open(name)", "open() in core"),
    ("print in core", "core.plan", "def f():\n    print('x')", "print() in core"),
    ("eval in core", "core.plan", "def f(text):\n    return eval(text)", "eval() in core"),
    ("project import in a function", "engine.flow", "def f():\n    from infold.core import plan", "inside a function"),
    (
        "relative one in a method",
        "engine.flow",
        "class A:\n    def f(self):\n        from . import drive",
        "inside a function",
    ),
    ("one by name", "engine.flow", "def f():\n    return import_module('infold.core.plan')", "inside a function"),
    (
        "one for the type checker",
        "core.plan",
        "if TYPE_CHECKING:\n    from infold.engine import flow",
        "may not import",
    ),
    ("printing on import", "cli.main", "print('hello')", "importing acts"),
    ("printing in a class body", "cli.main", "class A:\n    print('hello')", "importing acts"),
    ("reading a file on import", "catalogue.table", "text = open('x').read()", "importing acts: open()"),
    ("a file as a default", "catalogue.table", "def f(text=open('x')): ...", "importing acts: open()"),
    ("a folder made on import", "cli.main", "import os\nmade = os.makedirs('x')", "importing acts: makedirs()"),
    ("the environment on import", "settings", "import os\nhome = os.environ['HOME']", "reads the environment"),
    ("a registry filled on import", "formats.wire", "register('x')", "a call for its effect alone"),
]


@pytest.mark.parametrize(("module", "source", "told"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_broken_rule_is_told(module: str, source: str, told: str) -> None:
    """The checker names the line and the rule of each kind of bad module."""
    found = problems(f"infold.{module}", source)

    assert any(told in problem for problem in found), found
    assert all(problem.startswith(f"infold.{module}:") for problem in found)


GOOD = [
    (
        "core",
        "core.plan",
        "import re\nfrom msgspec import Struct\nfrom infold.core.log import Log\nfrom infold.errors import X",
    ),
    ("core, from its own folder", "core.plan", "from . import log\nfrom .log import Log"),
    ("formats", "formats.wire", "import base64\nfrom infold.core.messages import Message"),
    ("engine", "engine.flow", "from infold import ports\nfrom infold.formats.registry import decode"),
    ("an adapter", "models.openai", "import openai\nfrom infold.ports import Model"),
    ("testing", "testing.script", "from msgspec import Struct\nfrom infold.core.log import Log"),
    ("wiring", "wiring", "from infold.stores.sqlite import Store\nfrom infold.settings import Settings"),
    ("an integration", "integrations.langchain", "from infold.api import fit"),
    ("the command line", "cli.main", "from infold.gateway.app import app\nfrom infold.testing.builders import session"),
    ("a foreign import in a function", "models.openai", "def f():\n    import openai\n    return openai"),
    ("acting when called", "cli.main", "def main():\n    print('x')\n\nif __name__ == '__main__':\n    main()"),
    (
        "values made on import",
        "core.plan",
        "import re\nWORD = re.compile('x')\nTABLE = {key: str(key) for key in range(3)}",
    ),
]


@pytest.mark.parametrize(("module", "source"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD])
def test_kept_rules_are_not_reported(module: str, source: str) -> None:
    """The checker has nothing to say about a module that keeps the rules."""
    assert problems(f"infold.{module}", source) == []


def test_package_resolves_relative_imports_from_itself() -> None:
    """In an `__init__.py` one dot is the package, in a module it is the package around it."""
    assert problems("infold.core", "from .log import Log", package=True) == []
    assert problems("infold.core", "from ..core.log import Log", package=True) == [
        "infold.core:1: relative import upwards; name the module in full"
    ]
