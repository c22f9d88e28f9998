"""Every exception class of an SDK, found by importing all of it, held against the table that says what they mean."""

import json
import subprocess
import sys

TRANSPORT_ROOTS = ["httpx2.HTTPError", "httpx2.RequestError", "httpx2.TransportError"]
"""Classes that are only ever raised as something more particular."""

_WALK = """
import importlib, json, pkgutil, sys, warnings
warnings.simplefilter("ignore")
table = importlib.import_module(sys.argv[1]).FAILURES
for name in sys.argv[2:]:
    for found in pkgutil.walk_packages(importlib.import_module(name).__path__, name + ".", onerror=lambda _: None):
        if not any(part in ("__main__", "cli", "tests") for part in found.name.split(".")):
            try:
                importlib.import_module(found.name)
            except Exception:
                pass  # needs a package that is not installed

def below(kind):
    return {kind}.union(*(below(one) for one in kind.__subclasses__()))

classes = set().union(*(below(root) for root in table.roots))
unmapped = sorted(one.__module__ + "." + one.__name__ for one in classes if table.kind_of(one) is None)
unknown = sorted(set(table.kinds) - {one.__name__ for one in classes})
print(json.dumps([unmapped, unknown]))
"""


def walked(module: str, *packages: str) -> tuple[list[str], list[str]]:
    """The classes that a module's table does not know, and the names in it that are no class's."""
    run = [sys.executable, "-c", _WALK, module, *packages]
    unmapped, unknown = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    return unmapped, unknown
