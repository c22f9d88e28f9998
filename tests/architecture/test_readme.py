"""The README is short, plain and true: it uses no word that only insiders know, its example prints what it shows, what it names
exists, its results are the recorded ones. It is also the first page of the site."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from infold.cli.main import VERBS

from .sources import PROJECT
from .test_docs import blocks, examples, printed

README = (PROJECT / "README.md").read_text("utf-8")
OPENED = sorted(
    page
    for folder in ("guides", "guides/frameworks", "concepts")
    for page in (PROJECT / "docs" / folder).glob("*.md")
    if page.stem not in {"page", "replay"}
)
LONGEST_README = 100
LONGEST_EXAMPLE = 11
LONGEST_OUTPUT = 4


def _loaded() -> ModuleType:
    """The program beside the docs; `docs` is no package."""
    spec = spec_from_file_location("results_table", PROJECT / "docs" / "results_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _loaded()


def test_readme_is_short() -> None:
    """It has about 90 lines, and its example can be read at a glance."""
    (example,) = examples(README, code="python", output="text")

    assert len(README.splitlines()) < LONGEST_README
    assert len((example.shown or "").splitlines()) <= LONGEST_OUTPUT
    assert len([line for line in example.code.splitlines() if line.strip()]) <= LONGEST_EXAMPLE


def test_example_prints_what_is_shown() -> None:
    """The Python block runs and prints the block after it."""
    (example,) = examples(README, code="python", output="text")

    assert printed(example.code, {"__name__": "example"}) == example.shown


def test_named_verbs_and_targets_exist() -> None:
    """Each `infold` verb, `make` target and `python` file that it names is there."""
    targets = re.findall(r"^([a-z][a-z-]*):", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE)
    commands = named_commands(README)

    assert {"demo"} <= {word for program, word in commands if program == "infold"} <= set(VERBS)
    assert {"run", "test"} <= {word for program, word in commands if program == "make"} <= set(targets)
    assert [word for program, word in commands if program == "python" and not (PROJECT / word).exists()] == []


def test_results_are_fresh() -> None:
    """The tables are as `benchmarks/results` has them; `python docs/results_table.py --write` refreshes them."""
    for path, chosen in TABLE.TABLES:
        page = path.read_text("utf-8")
        assert TABLE.current(page, chosen=chosen) == page


def test_five_rows_are_shown() -> None:
    """The README has five rows of results and links to the page that has all of them."""
    assert README.count("| `python benchmarks/") == 5
    assert "(docs/concepts/measurements.md)" in README


def test_words_are_explained() -> None:
    """No sentence uses a word of the glossary without explaining it; the same holds for the page of first steps."""
    first_steps = (PROJECT / "docs" / "start.md").read_text("utf-8")

    assert unexplained(README) == []
    assert unexplained(first_steps) == []


@pytest.mark.parametrize("page", OPENED, ids=lambda page: page.stem)
def test_pages_open_in_plain_words(page: Path) -> None:
    """The first paragraph of a guide or concept says what the page is for, without a word that only the glossary explains."""
    paragraph = page.read_text("utf-8").split("\n\n")[1]

    assert not paragraph.startswith(("#", "```", "|", "!", "-"))
    assert unexplained(paragraph) == []


# The programs that read and write it.


def named_commands(page: str) -> set[tuple[str, str]]:
    """Program and first word of each command that a page names, in code within a line or in shell blocks."""
    shell = (line for block in blocks(page) if block.info == "sh" for line in block.text.splitlines())
    spans = re.findall(r"`([^`\n]+)`", page)
    found = (re.match(r"(infold|make|python) +([\w./-]+)", code) for code in (*shell, *spans))
    return {(match[1], match[2]) for match in found if match and not match[2].startswith("-")}


GLOSSARY = (PROJECT / "GLOSSARY.md").read_text("utf-8")
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[-|#])|\|")


def glossary_words() -> list[str]:
    """The words in the first column of the glossary."""
    rows = re.findall(r"^\| ([a-z][a-z, ]*) \|", GLOSSARY, re.MULTILINE)
    return [word.strip() for row in rows if row != "word" for word in row.split(",")]


def unexplained(page: str) -> list[tuple[str, str]]:
    """Each word of the glossary with the sentence that uses it unexplained.

    A sentence explains a word that it sets in italics and goes on to define, in brackets or after "is" or "are". Code is left
    out, what it prints is not.
    """
    shown = re.sub(r"^```(?!text|output)[^\n]*\n.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"<!--.*?-->|<[^>]*>|`[^`\n]*`|\]\([^)]*\)", " ", shown, flags=re.DOTALL)
    return [
        (word, " ".join(sentence.split()))
        for sentence in SENTENCE.split(prose)
        for word in glossary_words()
        if re.search(rf"\b{_forms(word)}\b", sentence, re.IGNORECASE) and not _explains(sentence, word)
    ]


def _forms(word: str) -> str:
    """A word, its plural, and as a verb its other forms."""
    last = re.escape(word[-1])
    return rf"{re.escape(word.rstrip('e'))}e?(?:s|d|ed|{last}ed|ing|{last}ing)?"


def _explains(sentence: str, word: str) -> bool:
    return re.search(rf"\*{_forms(word)}\*\s+(?:\(|is |are )", sentence, re.IGNORECASE) is not None


def test_unexplained_words_are_found() -> None:
    """A word counts in each of its forms and each sentence, unless it is explained there or stands in code."""
    page = (
        "The view is pruned.\n\nA *view* (what is sent) and a *fold* is a cut.\n\n`recall` it.\n```python\nhead\n```\n"
    )

    assert {"log", "checkpoint", "fail open", "stub", "pin"} <= set(glossary_words())
    assert [word for word, _ in unexplained(page)] == ["view", "prune", "cut"]


def test_commands_are_read_as_written() -> None:
    """Commands count in code, with or without what follows them; prose and options do not."""
    page = "infold keeps `infold demo --fast` and `infold --help`.\n```sh\nmake run  # it\npython a/b.py\n```\n"

    assert named_commands(page) == {("infold", "demo"), ("make", "run"), ("python", "a/b.py")}


def test_table_tolerates_what_is_missing(tmp_path: Path) -> None:
    """Without results the rows of the core say so, and the other rows are left out."""
    page = f"before\n{TABLE.BEGIN}\n{TABLE.END}\nafter"
    fresh = TABLE.current(page, tmp_path)

    assert fresh.count(TABLE.MISSING) == 4
    assert fresh.startswith("before\n")
    assert fresh.endswith("\nafter")
    assert TABLE.current(fresh, tmp_path) == fresh
    with pytest.raises(ValueError, match="lacks"):
        TABLE.current("no marks", tmp_path)


def test_table_shows_what_was_recorded(tmp_path: Path) -> None:
    """Figures of all four files appear, each with its command; a figure that a file lacks is called missing."""
    core = {
        "command": "python core",
        "machine": "a machine",
        "import": [{"cpu_ms": 61.5, "distributions": 2}],
        "sizes": [{"overflow_us": 0.5}, {"overflow_us": 0.7}],
        "folded": [{"ratio": 1.003}],
    }
    errors = {"passages": {"code": {"error": 3.6, "error_of_quarter": 15.2}}}
    formats = {"command": "python formats", "fit": {"ratio": 0.98}}
    figures = {"cost": 0.64, "over_window": 0, "broken_pairs": 0, "without_rule": 0}
    cell = {"history": "trajectory", "window_tokens": 60_000, "safe": True}
    peers = {
        "command": "python peers",
        "rows": [
            {**cell, "strategy": "infold", "figures": figures},
            {**cell, "strategy": "infold, no prices", "figures": {**figures, "cost": 0.87}},
            {**cell, "strategy": "inspect summary", "figures": {**figures, "cost": 0.86, "over_window": 3}},
        ],
    }
    records = {"core": core, "estimate_error": errors, "formats": formats, "peers": peers}
    for name, record in records.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(record), "utf-8")
    fresh = TABLE.current(f"{TABLE.BEGIN}{TABLE.END}", tmp_path)

    assert "| 61.5 ms CPU, 2 distributions | `python core` |" in fresh
    assert "| 0.7 µs at any length |" in fresh
    assert "| 1.00 times the CPU time |" in fresh
    assert fresh.count(TABLE.MISSING) == 1
    assert "| code 3.6 | `python benchmarks/estimate_error.py --write` |" in fresh
    assert "| 0.98 times | `python formats` |" in fresh
    assert "| 1 of 1 | `python peers` |" in fresh
    assert "by the window alone, as where no price is known | 0 of 1 | `python peers` |" in fresh
    assert "| 0.86, 3 calls over the window | `python peers` |" in fresh
    assert "Run on a machine." in fresh
