"""Every name of the source documents is on the page for people who know it, with a call that exists."""

import re
from typing import Any

import infold
from infold import Session
from infold.settings.schema import find_key

from .sources import PROJECT

PAGE = PROJECT / "docs" / "guides" / "coming-from-opencode.md"
NAMES = PROJECT / "tests" / "data" / "documents" / "names.txt"

CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"(infold|[A-Z][A-Za-z]+)\.([A-Za-z_]+)")
SETTING = re.compile(r"settings? ((?:`[a-z_.]+`(?: and )?)+)")


def rows() -> list[list[str]]:
    """Return the rows of the page's tables, each as its cells."""
    lines = PAGE.read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    return [row for row in cells if len(row) == 2 and not row[0].startswith(("---", "theirs", "you know"))]


def test_every_name_of_the_documents_is_on_the_page() -> None:
    """Each name of the committed list stands in the left column of a table."""
    wanted = [line.partition(" ")[2] for line in NAMES.read_text("utf-8").splitlines()]
    theirs = {name for row in rows() for name in CODE.findall(row[0])}

    assert len(wanted) > 100
    assert [name for name in wanted if name not in theirs] == []


def test_every_call_on_the_page_exists() -> None:
    """B45: each `infold.…`, and each attribute of a public class, that the right column names can be imported by that name."""
    calls = [found for row in rows() for name in CODE.findall(row[1]) if (found := CALL.fullmatch(name))]

    assert len(calls) > 60
    assert [found[0] for found in calls if not exists(found[1], found[2])] == []


def test_every_setting_on_the_page_exists() -> None:
    """Each setting that the right column names is one, or an alias of one."""
    named = [name for row in rows() for found in SETTING.finditer(row[1]) for name in CODE.findall(found[1])]

    assert len(named) > 5
    assert [name for name in named if find_key(name) is None] == []


def test_every_row_leads_somewhere() -> None:
    """Each row names a public call, a command or a policy's name."""
    led = (
        "infold",
        "Session",
        "Policy",
        "Window",
        "Additions",
        "SummaryRequest",
        "the setting",
        "INFOLD_",
        "policy=",
        "tools",
    )

    assert [row[0] for row in rows() if not any(word in row[1] for word in led)] == []


def exists(owner: str, name: str) -> bool:
    """Return whether a public class, or the package itself, has an attribute."""
    if owner == "infold":
        return name in infold.__all__
    thing: Any = getattr(infold, owner, None)
    return owner in infold.__all__ and hasattr(thing, name)


def test_what_does_not_exist_is_noticed() -> None:
    """A call that was renamed is not taken for one that exists."""
    assert exists("Session", "view")
    assert not exists("Session", "engine_view")
    assert not exists("infold", "engine")
    assert not exists("LogWriter", "append")
    assert Session.__name__ == "Session"
