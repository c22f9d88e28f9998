"""Every behaviour has a state, a place and a proof, and the page that lists them is up to date."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from infold.core.budget import Window, budget_for
from infold.core.policy import INFOLD

from .sources import PROJECT, modules

REFERENCE = PROJECT / "docs" / "reference"
STATED = (REFERENCE / "behaviour.toml").read_text("utf-8")
PAGE = (REFERENCE / "behaviour.md").read_text("utf-8")


def _loaded() -> ModuleType:
    """The program beside the docs; `docs` is no package."""
    spec = spec_from_file_location("behaviour_table", PROJECT / "docs" / "behaviour_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _loaded()
BEHAVIOURS = {behaviour.id: behaviour for behaviour in TABLE.read(STATED)}


@pytest.fixture(scope="module")
def proved() -> dict[str, list[str]]:
    """From each id to the test modules that name it."""
    found: dict[str, list[str]] = TABLE.proofs()
    return found


def test_every_id_is_stated_in_order() -> None:
    """The file has each id of each section, once, in the order of the sections, and no other."""
    assert list(BEHAVIOURS) == TABLE.expected_ids(STATED)


def test_states_are_known() -> None:
    """A behaviour is done or open, and has a title; what is open and partly there says what is."""
    for behaviour in BEHAVIOURS.values():
        assert behaviour.state in ("done", "open"), behaviour.id
        assert behaviour.title, behaviour.id
        assert behaviour.modules if behaviour.state == "done" else bool(behaviour.modules) == bool(behaviour.note)


def test_what_is_done_is_proved(proved: dict[str, list[str]]) -> None:
    """Each behaviour that is called done is named by a test."""
    assert [
        behaviour.id for behaviour in BEHAVIOURS.values() if behaviour.state == "done" and behaviour.id not in proved
    ] == []


def test_tests_name_known_ids(proved: dict[str, list[str]]) -> None:
    """No test names an id that does not exist."""
    assert {id_: names for id_, names in proved.items() if id_ not in BEHAVIOURS} == {}


def test_named_modules_exist() -> None:
    """Each module that is said to decide a behaviour is one of the package."""
    known = {source.name for source in modules()}
    named = {module for behaviour in BEHAVIOURS.values() for module in behaviour.modules}

    assert [module for module in sorted(named) if f"infold.{module}" not in known] == []


def test_page_tells_of_every_id() -> None:
    """The page says of each id, above the table, what infold does."""
    prose = PAGE.partition("\n## State\n")[0]
    told = re.findall(r"^- \*\*([SB][\d.]+)\*\*", prose, re.MULTILINE)

    assert told == list(BEHAVIOURS)


def test_tables_are_up_to_date() -> None:
    """S1.8: the page's tables are as code, file and tests have it; `python docs/behaviour_table.py --write` refreshes them."""
    assert TABLE.current(PAGE) == PAGE


def test_page_has_the_numbers_of_the_code() -> None:
    """S1.8: trigger and target stand on the page with their reasons, as shares and in tokens."""
    trigger, target = INFOLD.trigger, INFOLD.target
    assert target is not None
    budget = budget_for(Window(200_000), INFOLD)

    assert f"| trigger | {trigger.value:.0%}".replace("%", " % |") in PAGE
    assert f"| target | {target.value:.0%}".replace("%", " % |") in PAGE
    assert f"| {budget.usable_tokens:,} | {budget.trigger_tokens:,} | {budget.target_tokens:,} |" in PAGE


# The program that writes the table.


@pytest.mark.parametrize(
    ("docstring", "ids"),
    [
        ("S2.6: a fact.", {"S2.6"}),
        ("S1.4, S1.5: a fact.", {"S1.4", "S1.5"}),
        ("A fact (B12), and another of S2.10.", {"B12", "S2.10"}),
        ("Base64, UTF-8, AB12, S2.6x and S3 are no ids.", set()),
    ],
)
def test_ids_are_read_as_words(docstring: str, ids: set[str]) -> None:
    """An id is named where it stands as a word, alone or in a list."""
    assert TABLE.named_ids(f'def test_it():\n    """{docstring}"""\n') == ids


def test_only_tests_name_ids() -> None:
    """What a builder or a module says is no proof; what a method of a test class says is one."""
    source = '"""B1."""\ndef build():\n    """B2."""\nclass TestIt:\n    """B3."""\n    def test_it(self):\n        """B4."""\n'

    assert TABLE.named_ids(source) == {"B4"}


def test_table_stands_between_its_marks() -> None:
    """Only what is between the marks of its name changes; a page without them is an error."""
    mark = "<!-- {} state: written by docs/behaviour_table.py -->"
    page = f"before\n{mark.format('begin')}\nold\n{mark.format('end')}\nafter"
    rows = TABLE.state_table([TABLE.Behaviour("B1", "title", "done", ("core.log",), "note")], {"B1": ["unit/core/log"]})
    fresh = TABLE.refreshed(page, "state", rows)

    assert fresh.startswith("before\n")
    assert fresh.endswith("\nafter")
    assert "| B1 | title | done | `core.log` | `unit/core/log` | note |" in fresh
    assert "old" not in fresh
    assert TABLE.refreshed(fresh, "state", rows) == fresh
    with pytest.raises(ValueError, match="lacks"):
        TABLE.refreshed(page, "numbers", rows)


def test_proofs_gather_all_modules() -> None:
    """An id has every test module that names it, in order."""
    source = 'def test_it():\n    """B1, B2: fact."""'

    assert TABLE.proofs([("b", source), ("a", source), ("c", "")]) == {"B1": ["a", "b"], "B2": ["a", "b"]}
