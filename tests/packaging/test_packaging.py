"""What the package states about itself is true: what it installs, on which Pythons it ran, under which licences."""

import json
import re
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .image import KNOWN, instructions
from .run import BARE, PROJECT, RESULTS, extras_of, licence_of, minor_of, project, release_faults

STATED: Any = project()
FRAMEWORKS = {path.stem.replace("_", "-") for path in (PROJECT / "src" / "infold" / "integrations").glob("*.py")} - {
    "--init--",
    "sessions",
}
DEPLOY = PROJECT / "deploy"
SECRETS = {"INFOLD_SECRET", "INFOLD_TOKEN", "INFOLD_PAGE_TOKEN"}
KNOWN_LICENCE = re.compile(r"MIT|BSD|Apache|ISC|PSF|Python|MPL|LGPL|HPND|Unlicense|0BSD|CC0", re.IGNORECASE)
NEVER_IN_ALL = {*FRAMEWORKS, "all", "ray"}
MOST_WITH_MSGSPEC = 3


def installed_with(requirement: str) -> set[str]:
    """The packages that a requirement installs here, itself and what it needs."""
    stated = Requirement(requirement)
    if stated.marker is not None and not stated.marker.evaluate({"extra": ""}):
        return set()
    return {canonicalize_name(stated.name)}.union(*map(installed_with, requires(stated.name) or ()))


def rows() -> list[dict[str, Any]]:
    """What `make wheels` recorded."""
    found: list[dict[str, Any]] = json.loads((RESULTS / "wheels.json").read_text("utf-8"))["rows"]
    return found


def test_the_library_installs_little() -> None:
    """`pip install infold` installs msgspec and at most two more packages."""
    packages = set().union(*map(installed_with, STATED["dependencies"]))

    assert "msgspec" in packages
    assert len(packages) <= MOST_WITH_MSGSPEC
    assert {row["packages"] for row in rows() if row["extra"] == BARE} == {len(packages)}


def test_all_is_everything_but_frameworks() -> None:
    """The extra `all` names each extra that is not a framework, and Ray is left to those who ask for it."""
    (all_of_them,) = (Requirement(text) for text in STATED["optional-dependencies"]["all"])

    assert all_of_them.extras == set(extras_of(STATED)) - NEVER_IN_ALL
    assert set(extras_of(STATED)) >= FRAMEWORKS


def test_pythons_are_those_that_ran() -> None:
    """The classifiers name the Pythons on which everything passed, and no other."""
    named = {
        tuple(map(int, found.split("."))) for found in re.findall(r"Python :: (3\.\d+)", str(STATED["classifiers"]))
    }
    ran = {minor_of(row["python"]) for row in rows()}
    failed = {minor_of(row["python"]) for row in rows() if row["result"] != "passed" and row["extra"] not in FRAMEWORKS}

    assert named == ran - failed


def test_a_licence_is_read_in_three_ways() -> None:
    """A package states its licence as an expression, by name, or by a classifier; a whole text is not taken for a name."""
    mit = ["Topic :: Internet", "License :: OSI Approved :: MIT License"]

    assert licence_of("BSD-3-Clause", "MIT", mit) == "BSD-3-Clause"
    assert licence_of("", "Apache 2.0", mit) == "Apache 2.0"
    assert licence_of("", "Permission is hereby granted\nto you", mit) == "MIT"
    assert licence_of("", "Dual License", [*mit, "License :: OSI Approved :: BSD License"]) == "MIT, BSD"
    assert licence_of("", "", []) == "not stated"


def test_what_must_not_be_published_is_named() -> None:
    """A release with example addresses, without its heading in the changelog or with changes left over is refused."""
    stated = {"version": "1.2.0", "urls": {"Source": "https://infold.example/source"}}
    faults = release_faults(stated, "## Unreleased\n", " M README.md\n")

    assert [fault.partition(":")[0] for fault in faults] == ["pyproject.toml", "CHANGELOG.md", "git"]
    public = {"version": "1.2.0", "urls": {"Source": "https://code.test/infold"}}
    assert release_faults(public, "## Unreleased\n\n## 1.2.0 - 2027-01-31\n", "") == []


def test_direct_dependencies_are_listed_with_their_licences() -> None:
    """The page of licences has every package that an extra names, and what `all` installs is permissive, LGPL or MPL."""
    found = {row["name"]: row for row in json.loads((RESULTS / "licences.json").read_text("utf-8"))["rows"]}
    optional = {name: texts for name, texts in STATED["optional-dependencies"].items() if name in ran_extras()}
    named = {
        canonicalize_name(Requirement(text).name)
        for texts in (STATED["dependencies"], *optional.values())
        for text in texts
    }
    listed = {canonicalize_name(name) for name in found}

    assert named - {"infold"} - listed == set()
    assert [row for row in found.values() if "all" in row["extras"] and not KNOWN_LICENCE.search(row["licence"])] == []


def ran_extras() -> set[str]:
    """The extras that `make wheels` installed."""
    return {row["extra"] for row in rows() if row["result"] == "passed"}


def test_the_image_is_built_by_known_steps() -> None:
    """Each instruction of the Dockerfile can be carried out without Docker, and the last user is not root."""
    steps = instructions((DEPLOY / "Dockerfile").read_text("utf-8"))

    assert {name for name, _ in steps} <= KNOWN
    assert [rest for name, rest in steps if name == "USER"] == ["infold"]
    assert instructions("# no\nRUN a \\\n  b\n\nCMD c") == [("RUN", "a b"), ("CMD", "c")]


@pytest.mark.parametrize(
    "path", [*sorted(DEPLOY.iterdir()), PROJECT / "docs" / "guides" / "deploy.md"], ids=lambda path: path.name
)
def test_deployments_set_what_exists(path: Path) -> None:
    """Each variable of infold in a file for deployment is one that infold reads."""
    settings = (PROJECT / "docs" / "reference" / "settings.md").read_text("utf-8")
    named = {
        re.sub("_(OPENAI|ANTHROPIC)_", "_<PROVIDER>_", name)
        for name in re.findall(r"\bINFOLD_[A-Z_]+", path.read_text("utf-8"))
    }

    assert {name for name in named - SECRETS if f"`{name}`" not in settings} == set()
