"""The deterministic fold."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infold.core.checkpoint_text import FOLDER_NOTE, OPENING, RECALL_HINT, CheckpointText, TextRoom, render_checkpoint
from infold.core.ledger import CommandFact, ErrorFact, FileFact, JobFact, Ledger, Quote, TodoFact
from infold.core.policy import EstimateRule
from infold.core.tokens import estimate

FULL = Ledger(
    first_request=Quote("0.0", "Build the parser.\nUse tabs."),
    latest_request=Quote("40.0", "Now write the docs."),
    requests=(Quote("0.0", "Build the parser.\nUse tabs."), Quote("8.0", "Rename it."), Quote("40.0", "Now write the docs.")),
    constraints=(Quote("0.0", "Use tabs."), Quote("8.0", "Never push."), Quote("9.0", "Only stdlib.")),
    files=(FileFact("src/a.py", "edited", 3, "5.0"), FileFact("b.md", "written", 1, "6.0"), FileFact("c.txt", "read", 0, "7.0")),
    commands=(CommandFact("make", "10.0", 2, "2 failed"), CommandFact("ls -la", "11.0")),
    errors=(ErrorFact("make", "fatal: no rule", "10.0"),),
    todos=(TodoFact("ship", "pending"),),
    decisions=(Quote("12.0", "We decided on sqlite."),),
    questions=(Quote("13.0", "Which port?"),),
    reports=(Quote("14.0", "Parser is done."),),
    jobs=(JobFact("npm run dev", "15.0"),),
)  # fmt: skip


def fold(ledger: Ledger, budget: int = 4_000, *, share: float = 0.6, recall: bool = False) -> CheckpointText:
    """A ledger folded into that many tokens."""
    return render_checkpoint(ledger, TextRoom(budget, int(budget * share)), rule="features", recall=recall)


few = settings(max_examples=25)
words = st.text(st.sampled_from("abcdef Ä你好。.\n/_-0123"), min_size=1, max_size=120).filter(str.strip)
handles = st.builds("{}.{}".format, st.integers(0, 999), st.integers(0, 9))
quotes = st.builds(Quote, handles, words)
files = st.builds(FileFact, words, st.sampled_from(["read", "edited"]), st.integers(0, 3), handles)
commands = st.builds(CommandFact, words, handles, st.none() | st.integers(0, 9))
ledgers = st.builds(
    Ledger,
    first_request=st.none() | st.builds(Quote, handles, words | words.map(lambda text: text * 30)),
    latest_request=st.none() | quotes,
    constraints=st.lists(quotes, max_size=20).map(tuple),
    files=st.lists(files, max_size=20).map(tuple),
    commands=st.lists(commands, max_size=20).map(tuple),
    reports=st.lists(quotes, max_size=9).map(tuple),
)  # fmt: skip


@few
@given(
    ledgers, st.integers(200, 3_000), st.floats(0, 0.8), st.sampled_from(["features", "round", "ceil"]), st.booleans()
)
def test_a_fold_is_within_its_budget(
    ledger: Ledger, budget: int, share: float, rule: EstimateRule, recall: bool
) -> None:
    """B10: whatever the ledger, the text has no more tokens than it may, by the session's own rule."""
    folded = render_checkpoint(ledger, TextRoom(budget, int(budget * share)), rule=rule, recall=recall)

    assert estimate(folded.text, rule) <= budget


def test_a_share_of_everything_still_leaves_room_for_headings() -> None:
    """B10: even where instructions may take the whole budget, the text is within it."""
    rules = tuple(Quote(f"{n}.0", f"never do {n}") for n in range(200))
    for budget in range(200, 400, 7):
        folded = fold(
            Ledger(constraints=rules, first_request=Quote("500.0", "go"), latest_request=Quote("501.0", "on")),
            budget,
            share=1.0,
        )
        assert estimate(folded.text, "features") <= budget


@few
@given(ledgers)
def test_the_same_ledger_gives_the_same_text(ledger: Ledger) -> None:
    """B29: folding is deterministic, to the byte."""
    assert fold(ledger, 900) == fold(ledger, 900)


def test_everything_known_is_told_when_there_is_room() -> None:
    """B4: with room enough each fact of the ledger stands in the fold."""
    text = fold(FULL).text

    for fact in (
        "Build the parser.\nUse tabs.",
        "- Now write the docs.", "- Never push.", "- Only stdlib.", "- src/a.py: edited (3 times)",
        "- b.md: written", "- read: c.txt", "- `make` → exit 2 (2 failed)", "- make: fatal: no rule",
        "- [pending] ship", "- We decided on sqlite.", "- Which port?", "- Parser is done.", "- npm run dev", "- Rename it.",
    ):  # fmt: skip
        assert fact in text
    assert text.startswith(OPENING)
    assert "recall" not in text


def test_instructions_come_first_in_order() -> None:
    """B2: first request, latest request, then rules newest first, all before anything else, each once."""
    text = fold(FULL).text
    order = ["Build the parser.", "Now write the docs.", "Only stdlib.", "Never push.", "src/a.py"]

    assert [text.index(piece) for piece in order] == sorted(text.index(piece) for piece in order)
    assert text.count("Use tabs.") == text.count("Now write the docs.") == 1


@few
@given(st.lists(quotes, min_size=1, max_size=30, unique_by=lambda quote: quote.handle), st.integers(200, 2_000))
def test_a_rule_is_verbatim_or_reported(rules: list[Quote], budget: int) -> None:
    """B2: each instruction stands word for word, or its handle is among those that were stubbed."""
    folded = fold(Ledger(first_request=rules[0], constraints=tuple(rules[1:])), budget)

    assert all(rule.text in folded.text or rule.handle in folded.stubbed for rule in rules)


def test_what_does_not_fit_is_a_stub_of_one_line() -> None:
    """B2: an instruction too long for its share stays as one line that says how long it is, and is reported."""
    long = Quote("0.0", "Describe every module. " * 100)
    folded = fold(Ledger(first_request=long, latest_request=Quote("9.0", "Go.")), 300, share=0.5, recall=True)
    line = next(line for line in folded.text.splitlines() if line.startswith("- Describe"))

    assert folded.stubbed == ("0.0",)
    assert line.endswith("[2,300 characters in all; recall 0.0]")
    assert "- Go. [9.0]" in folded.text


def test_a_stub_names_recall_only_where_it_is_offered() -> None:
    """B6: without recall in the request a stubbed instruction names no handle."""
    folded = fold(Ledger(first_request=Quote("0.0", "Describe every module. " * 100)), 300, share=0.5)

    assert folded.stubbed == ("0.0",)
    assert "recall" not in folded.text


def test_rules_of_a_stubbed_request_still_stand() -> None:
    """B2: a rule inside a request that is too long to quote is kept on its own."""
    long = Quote("0.0", "Describe every module. " * 100 + "Never push.")
    folded = fold(Ledger(first_request=long, constraints=(Quote("0.0", "Never push."),)), 400, share=0.5)

    assert folded.stubbed == ("0.0",)
    assert "Never push." in folded.text


def test_where_nothing_fits_it_is_at_least_reported() -> None:
    """B2: in a budget too small for a stub the instruction is absent and its handle is told."""
    folded = fold(FULL, 60, share=0.05)

    assert folded.stubbed[:2] == ("0.0", "40.0")
    assert "Build the parser" not in folded.text


def test_pins_are_written_whatever_they_take() -> None:
    """B20: a pinned part stands in the fold whole, however small the budget."""
    folded = fold(Ledger(pinned=(Quote("3.0", "pinned " * 200),)), 50)

    assert "pinned " * 200 in folded.text


def test_what_is_left_out_is_counted() -> None:
    """B10: a section that was cut short says how many files or lines it left out."""
    files = tuple(FileFact(f"dir/file{n}.py", "edited", 1, "0.0") for n in range(1_500))
    text = fold(Ledger(files=files), 400).text
    shown = len(re.findall(r"dir/file\d+", text))

    assert f"- … and {1_500 - shown:,} more" in text
    assert "file1499.py" in text


def test_handles_stand_where_recall_is_offered() -> None:
    """B6: with recall each fact is marked with the number it can be brought back by, and the text says how."""
    text = fold(FULL, recall=True).text

    assert RECALL_HINT.format(tool="recall") in text
    assert all(f"[{handle}]" in text for handle in ("0.0", "40.0", "5.0", "10.0", "12.0", "13.0", "15.0"))


@pytest.mark.parametrize("recall", [True, False])
@few
@given(ledger=ledgers, budget=st.integers(200, 2_000))
def test_nothing_is_invented(ledger: Ledger, budget: int, recall: bool) -> None:
    """B5: every word and number of a fold is the ledger's, but for headings, counts and the fold's own words."""
    known = " ".join(str(value) for value in _values(ledger))
    own = (
        fold(FULL, recall=recall).text
        + " characters in all recall and more times exit … read edited some shortened taken back ok Commands run"
    )
    for token in re.findall(
        r"[A-Za-z_./-]*[A-Za-z_][A-Za-z_./-]*|[0-9]+", _without_counts(fold(ledger, budget, recall=recall).text)
    ):
        assert token in known or token in own


def _values(ledger: Ledger) -> list[object]:
    facts = [
        ledger.first_request,
        ledger.latest_request,
        *ledger.constraints,
        *ledger.files,
        *ledger.commands,
        *ledger.reports,
    ]
    return [
        " ".join(str(getattr(fact, name)).split())
        for fact in facts
        if fact is not None
        for name in fact.__struct_fields__
    ]


def _without_counts(text: str) -> str:
    return re.sub(r"[\d,]+ (?=characters in all|more|times)", "", text)


def test_long_reports_are_excerpted_on_one_line() -> None:
    """B10: a report over several lines is told on one, shortened, and equal ones once."""
    report = "First line.\n" + "more " * 100
    text = fold(Ledger(reports=(Quote("1.0", report), Quote("2.0", report)))).text
    lines = [line for line in text.splitlines() if line.startswith("- First line. more")]

    assert len(lines) == 1
    assert lines[0].endswith(" more…")
    assert 235 < len(lines[0]) <= 242


def test_an_empty_ledger_is_its_opening() -> None:
    """B10: where nothing is known nothing is said."""
    assert fold(Ledger()) == CheckpointText(OPENING)


def test_room_that_one_section_leaves_goes_to_the_others() -> None:
    """B10: a ledger of commands alone fills its budget; shares bound a section only while others need the room."""
    commands = tuple(CommandFact(f"make target-{number} --with flags", f"{number}.0", 0) for number in range(300))
    text = fold(Ledger(commands=commands), 2_000).text

    assert 1_900 <= estimate(text, "features") <= 2_000


def test_a_shared_folder_is_said_once() -> None:
    """Paths below one folder are shown without it, and the text says where they are."""
    paths = [f"/srv/project/src/part/{number}.py" for number in range(5)]
    text = fold(Ledger(files=tuple(FileFact(path, "edited", 1, "1.0") for path in paths))).text

    assert text.count("/srv/project/src/") == 1
    assert FOLDER_NOTE.format(folder="/srv/project/src/") in text
    assert "- part/4.py: edited" in text


def test_a_large_pin_takes_no_room_from_the_rules() -> None:
    """B2, B20: pins are carried whole beside the budget; what the user laid down stands as if there were none."""
    pinned = Ledger(
        first_request=FULL.first_request,
        requests=FULL.requests,
        constraints=FULL.constraints,
        pinned=(Quote("2.0", "a line of the specification\n" * 2_000),),
    )
    folded = fold(pinned, 1_000)

    assert all(rule.text in folded.text for rule in FULL.constraints)
    assert folded.stubbed == ()
