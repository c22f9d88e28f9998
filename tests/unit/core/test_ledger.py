"""Ledgers: facts that add up."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.ledger import (
    EMPTY_LEDGER,
    MOST_COMMANDS,
    MOST_ERRORS,
    MOST_FILES,
    MOST_QUOTES,
    CommandFact,
    ErrorFact,
    FileFact,
    FileOperation,
    JobFact,
    Ledger,
    Quote,
    TodoFact,
    ValueFact,
    is_check,
    later_operation,
    later_run,
    merge,
    note,
)

OPERATIONS: list[FileOperation] = ["read", "written", "edited", "deleted", "moved"]


def head(number: int) -> Ledger:
    """The ledger of one head of ten: a request, a rule, an edit of a shared file, a file of its own, a command."""
    at = f"{number}.0"
    return Ledger(
        first_request=Quote(at, f"request {number}"),
        latest_request=Quote(at, f"request {number}"),
        requests=(Quote(at, f"request {number}"),),
        constraints=(Quote(at, f"never do {number}"),),
        pinned=(Quote(at, f"pin {number}"),),
        files=(FileFact("shared.py", "edited", 2, at), FileFact(f"own{number}.py", "read", 0, at)),
        commands=(CommandFact("make", at, number, f"{number} failed"),),
    )


def test_ten_heads_lose_nothing() -> None:
    """B3: merging over ten heads keeps every constraint, request, pin and file, and adds up edits and runs."""
    whole = reduce(merge, map(head, range(10)), EMPTY_LEDGER)

    assert [quote.text for quote in whole.constraints] == [f"never do {number}" for number in range(10)]
    assert (len(whole.requests), len(whole.pinned)) == (10, 10)
    assert (whole.first_request, whole.latest_request) == (head(0).first_request, head(9).latest_request)
    assert {fact.path for fact in whole.files} == {"shared.py", *(f"own{number}.py" for number in range(10))}
    assert FileFact("shared.py", "edited", 20, "9.0") in whole.files
    assert whole.commands == (CommandFact("make", "9.0", 9, "9 failed", runs=10),)


def test_merging_again_says_nothing_twice() -> None:
    """B3: what two ledgers both quote stands once."""
    again = merge(head(1), Ledger(constraints=head(1).constraints, pinned=head(1).pinned))

    assert (again.constraints, again.pinned) == (head(1).constraints, head(1).pinned)


def test_an_empty_ledger_changes_nothing() -> None:
    """B3: a head without facts leaves what was known, and the first head is taken as it is."""
    assert merge(head(3), EMPTY_LEDGER) == merge(EMPTY_LEDGER, head(3)) == head(3)


def test_a_later_read_does_not_hide_an_edit() -> None:
    """B3: reading a file again leaves it marked as changed, with the handle of the change."""
    edited, read = FileFact("a.py", "edited", 1, "1.0"), FileFact("a.py", "read", 0, "2.0")

    assert later_operation(edited, read) == edited
    assert later_operation(read, edited) == edited
    assert later_operation(read, FileFact("a.py", "read", 0, "5.0")) == FileFact("a.py", "read", 0, "5.0")
    assert later_operation(edited, FileFact("a.py", "deleted", 1, "5.0")) == FileFact("a.py", "deleted", 2, "5.0")


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(OPERATIONS)), max_size=12), st.integers(0, 12))
def test_where_heads_part_does_not_matter(steps: list[tuple[str, FileOperation]], cut: int) -> None:
    """B3: a file's operation and edits are the same whether its history is folded in one head or in two."""

    def ledger_of(part: list[tuple[str, FileOperation]]) -> Ledger:
        facts: dict[str, FileFact] = {}
        for path, operation in part:
            note(facts, path, FileFact(path, operation, int(operation != "read"), "0.0"), later_operation)
        return Ledger(files=tuple(facts.values()))

    assert merge(ledger_of(steps[:cut]), ledger_of(steps[cut:])) == ledger_of(steps)


def test_the_newest_run_counts() -> None:
    """B4: of several runs the newest outcome is told, and how many there were."""
    failed, passed = CommandFact("make", "1.0", 1, "1 failed", 2), CommandFact("make", "5.0", 0)

    assert later_run(failed, passed) == CommandFact("make", "5.0", 0, "", 3)


def test_what_was_noted_last_stands_last() -> None:
    """A fact that is noted again moves to the end, so that the newest are kept."""
    older = Ledger(files=(FileFact("a", "read", 0, "1.0"), FileFact("b", "read", 0, "1.1")))
    merged = merge(older, Ledger(files=(FileFact("a", "read", 0, "2.0"),)))

    assert [fact.path for fact in merged.files] == ["b", "a"]


def test_settled_errors_go() -> None:
    """B4: an error whose origin succeeded or failed anew in a later head is no longer carried; others are."""
    older = Ledger(
        errors=(ErrorFact("make", "old", "1.0"), ErrorFact("a.py", "old", "2.0"), ErrorFact("b", "old", "3.0"))
    )
    newer = Ledger(settled=("make",), errors=(ErrorFact("a.py", "new", "9.0"),))

    assert merge(older, newer).errors == (ErrorFact("b", "old", "3.0"), ErrorFact("a.py", "new", "9.0"))
    assert merge(older, newer).settled == ()


def test_a_request_answers_the_question_before_it() -> None:
    """B4: a question is open until a later head holds a request of the user."""
    older = Ledger(questions=(Quote("1.0", "Which one?"),))
    silent, heard = Ledger(questions=(Quote("2.0", "And now?"),)), Ledger(latest_request=Quote("3.0", "the first"))

    assert [quote.text for quote in merge(older, silent).questions] == ["Which one?", "And now?"]
    assert merge(older, heard).questions == ()


def test_the_newest_todo_list_wins_and_jobs_are_carried() -> None:
    """B4: a later head's todo list replaces the older one; a head without one keeps it; jobs stay."""
    older = Ledger(todos=(TodoFact("a", "pending"),), jobs=(JobFact("serve", "1.0"),))
    newer = Ledger(todos=(TodoFact("a", "completed"),), jobs=(JobFact("watch", "2.0"),))

    assert merge(older, newer).todos == newer.todos
    assert merge(older, EMPTY_LEDGER).todos == older.todos
    assert merge(older, newer).jobs == (*older.jobs, *newer.jobs)


def test_a_ledger_is_bounded_and_keeps_the_newest() -> None:
    """A checkpoint carries a stated number of each kind; what is dropped is the oldest."""
    many = 1_200
    quotes = tuple(Quote(f"{n}.0", f"q{n}") for n in range(many))
    whole = merge(
        EMPTY_LEDGER,
        Ledger(
            requests=quotes,
            constraints=quotes,
            pinned=quotes,
            decisions=quotes,
            reports=quotes,
            files=tuple(FileFact(f"{n}.py", "read", 0, "0.0") for n in range(many)),
            commands=tuple(CommandFact(f"c{n}", "0.0") for n in range(many)),
            errors=tuple(ErrorFact(f"c{n}", "e", "0.0") for n in range(many)),
        ),
    )

    assert whole.constraints == quotes[-MOST_QUOTES:]
    assert (len(whole.requests), len(whole.files), len(whole.commands)) == (MOST_QUOTES, MOST_FILES, MOST_COMMANDS)
    assert len(whole.errors) == len(whole.decisions) == len(whole.reports) == MOST_ERRORS
    assert whole.pinned == quotes
    assert whole.forgotten == tuple(quote.handle for quote in quotes[:-MOST_QUOTES])


def test_what_was_forgotten_is_named_once() -> None:
    """B2: a rule beyond the most that are carried is named by the merge that dropped it, unless it was said again since."""
    quotes = tuple(Quote(f"{n}.0", f"q{n}") for n in range(MOST_QUOTES + 2))
    again = Quote("900.0", "q1")
    whole = merge(Ledger(constraints=quotes), Ledger(constraints=(again,)))

    assert whole.forgotten == ("0.0", "2.0")
    assert merge(whole, EMPTY_LEDGER).forgotten == ()
    assert merge(Ledger(requests=quotes[:MOST_QUOTES]), EMPTY_LEDGER).forgotten == ()


def test_the_newest_value_of_a_call_stands() -> None:
    """B53: a call that was made again has its newest value, last among those seen."""
    old = Ledger(values=(ValueFact("get(1)", "a", "1.0"), ValueFact("get(2)", "b", "2.0")))
    new = Ledger(values=(ValueFact("get(1)", "c", "9.0"),))

    assert merge(old, new).values == (ValueFact("get(2)", "b", "2.0"), ValueFact("get(1)", "c", "9.0"))


def test_an_older_error_that_was_settled_is_overcome() -> None:
    """B53: an error of an earlier fold that a later step settled is no longer open, and not forgotten."""
    failed = ErrorFact("make", "no rule", "1.0")
    merged = merge(Ledger(errors=(failed,)), Ledger(settled=("make",)))

    assert (merged.errors, merged.overcome) == ((), (failed,))


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (CommandFact("uv run pytest -q", "1.0", outcome="ok"), True),
        (CommandFact("ruff check .", "1.0", 0), True),
        (CommandFact("python tools/sync.py", "1.0", 1), True),
        (CommandFact("python tools/sync.py", "1.0", 0, "12 tests passed"), True),
        (CommandFact("python tools/sync.py", "1.0", 0), False),
        (CommandFact("git add tests/test_a.py", "1.0", 0), False),
        (CommandFact("echo 'make it'", "1.0", 0), False),
        (CommandFact("TASK=test python tools/sync.py", "1.0", 0), False),
        (CommandFact("python tools/sync.py 'run the tests and …", "1.0", 0), False),
    ],
)
def test_commands_that_check_something_are_known(fact: CommandFact, expected: bool) -> None:
    """B53: tests, linters and builds, what failed, and what printed counts."""
    assert is_check(fact) is expected


def test_findings_are_carried_on() -> None:
    """What an older head quoted stands before what a newer one does, each once, up to a bound."""
    old, young = Quote("1.0", "It is 4096."), Quote("2.0", "It is 8192.")

    assert merge(Ledger(findings=(old,)), Ledger(findings=(old, young))).findings == (old, young)
