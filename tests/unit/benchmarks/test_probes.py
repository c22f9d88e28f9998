"""Questions about the past of folded sessions: how a view is scored, and what the questions must be."""

import json
import re
from collections import Counter
from itertools import count
from pathlib import Path

import msgspec
import pytest
from benchmarks.probes import (
    CLASSES,
    PROBES,
    STRETCH_CHARACTERS,
    Case,
    Probe,
    Question,
    by_class,
    fold,
    load_cases,
    measure,
    newest,
    points,
    read_summary,
    render,
    score,
    size_of,
    strays,
    summary_and_newest,
    tail_start,
    text_of,
)

from infold.core.messages import (
    AssistantMessage,
    Message,
    MessageId,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

_ids = count()


def _id() -> MessageId:
    return MessageId(f"m{next(_ids)}")


def user(text: str) -> tuple[Message, ...]:
    """A request."""
    return (UserMessage(_id(), (TextPart(text),)),)


def step(tool: str, output: str = "done", **arguments: str) -> tuple[Message, ...]:
    """A call and its result."""
    call_id = f"call-{next(_ids)}"
    call = AssistantMessage(_id(), (ToolCallPart(call_id, tool, json.dumps(arguments)),))
    return (call, ToolMessage(_id(), (ToolResultPart(call_id, tool, output),)))


HISTORY = (
    *user("Port the kite feed to the new parser. Never write to the archive folder."),
    *(
        message
        for number in range(30)
        for message in step("bash", "compiling, ok\n" * 40, command=f"make part{number}")
    ),
    *step("bash", "\x1b[31m3 failed\x1b[39m, 15 passed", command="make test"),
)
QUESTIONS = (
    Question("kites-constraints-1", "constraints", "Which folder is off limits?", (r"never write", r"archive folder")),
    Question("kites-state-1", "state", "What was the last test result?", (r"3 failed", r"15 passed")),
)
CASE = Case(
    Probe("kites.jsonl", len(HISTORY), QUESTIONS),
    HISTORY,
    "The kite feed was ported; the archive folder is off limits.",
)
FOREIGN = Case(Probe("boats.jsonl", 1, ()), user("Paint the boat. It has 15 passed inspections."), "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red kite, blue kite, green kite", 2),
        ("RED KITE, Blue Kite, green kite", 2),
        ("red kite and blue kite", 1),
        ("red kite", 0),
        ("", 0),
        (f"red kite {'x' * STRETCH_CHARACTERS} blue kite, green kite", 1),
        (f"red kite {'x' * STRETCH_CHARACTERS} blue kite {'x' * STRETCH_CHARACTERS} green kite", 0),
        (f"red kite, red kite {'x' * (STRETCH_CHARACTERS - 40)} blue kite, green kite", 2),
    ],
)
def test_points_need_all_patterns_in_one_stretch(text: str, expected: int) -> None:
    """All patterns close together are two points, at least half of them one, fewer none."""
    assert points(("red kite", "blue kite", "green kite"), text) == expected


def test_a_stretch_ends_after_its_last_character() -> None:
    """A pattern that begins within the stretch and ends beyond it is not in it."""
    gap = STRETCH_CHARACTERS - len("red") - len("blue")

    assert points(("red", "blue"), f"red{' ' * gap}blue") == 2
    assert points(("red", "blue"), f"red{' ' * (gap + 1)}blue") == 1


def test_one_pattern_has_no_half_points() -> None:
    """A key of one pattern is found or not."""
    assert [points(("kite",), text) for text in ("a kite", "a boat")] == [2, 0]


def test_text_has_arguments_and_results_without_colours() -> None:
    """Arguments are read as the texts they hold, results without colour codes."""
    text = text_of(step("bash", "\x1b[31mfailed\x1b[39m: 3", command='echo "a"\nmake'))

    assert text == 'bash\ncommand: echo "a"\nmake\n\nfailed: 3'


def test_a_tail_keeps_calls_with_their_results() -> None:
    """A tail begins at the call if there is room for the call and its result, otherwise behind them."""
    pair = step("bash", "out " * 100, command="make")
    history = (*user("Go."), *pair)

    assert tail_start(history, size_of(pair)) == 1
    assert tail_start(history, size_of(pair[1:])) == 3


@pytest.mark.slow
@pytest.mark.parametrize("size", [600, 1_200])
def test_views_have_the_size_asked_for(size: int) -> None:
    """No view is larger than asked for, and all are filled."""
    views = (
        fold(HISTORY, size),
        fold(HISTORY, size, summary=CASE.summary),
        newest(HISTORY, size),
        summary_and_newest(HISTORY, size, summary=CASE.summary),
    )

    assert all(0.5 * size < size_of(view) <= 1.03 * size for view in views)


@pytest.mark.slow
def test_a_view_is_scored_by_what_it_says() -> None:
    """The newest messages know the last result and not the rule, a fold both, the whole history everything."""
    names = ("newest", "infold", "whole history")
    measured = measure((CASE,), names)

    assert [list(one.points.values()) for one in measured.scored] == [[0, 2], [2, 2], [2, 2]]
    sums = by_class((CASE,), measured.scored)["newest"]
    assert {name: found for name, found in sums.items() if found} == {"state": 2, "total": 2}


def test_another_view_is_named_by_its_function() -> None:
    """A view of another module is scored under its own name."""
    measured = measure((CASE,), ("benchmarks.probes:whole",))

    assert [one.view for one in measured.scored] == ["benchmarks.probes:whole"]
    assert score(CASE, "x", HISTORY).points == measured.scored[0].points


def test_an_unknown_view_is_refused() -> None:
    """A name that is neither known nor a function ends the program."""
    with pytest.raises(SystemExit, match="Unknown view 'rubbish'"):
        measure((CASE,), ("rubbish",))


def test_doubtful_keys_are_reported() -> None:
    """Keys that another history satisfies, or that their own does not, are listed."""
    wrong = Question("kites-errors-1", "errors", "What broke?", ("the mast",))
    case = msgspec.structs.replace(CASE, probe=Probe("kites.jsonl", len(HISTORY), (*QUESTIONS, wrong)))
    text = render((case, FOREIGN), measure((case, FOREIGN), ("whole history",)))

    assert [(stray.question, stray.transcript, stray.points) for stray in strays((case, FOREIGN))] == [
        ("kites-state-1", "boats.jsonl", 1)
    ]
    assert "kites-errors-1: 0 of 2" in text
    assert "kites-state-1 in boats.jsonl: 1" in text


def test_there_are_a_hundred_questions() -> None:
    """Each of five sessions has twenty questions over all six classes, with keys that compile, and a summary."""
    paths = sorted(PROBES.glob("*.json"))
    probes = [msgspec.json.decode(path.read_bytes(), type=Probe) for path in paths]
    questions = [question for probe in probes for question in probe.questions]

    assert [len(probe.questions) for probe in probes] == [20] * 5
    assert len({question.id for question in questions}) == 100
    assert all({question.about for question in probe.questions} == set(CLASSES) for probe in probes)
    assert min(Counter(question.about for question in questions).values()) >= 15
    assert all(re.compile(pattern) for question in questions for pattern in question.key)
    assert all(question.key for question in questions)
    assert all(len(read_summary(path)) > 1_500 for path in paths)


def test_without_transcripts_there_are_no_cases(tmp_path: Path) -> None:
    """A folder without the transcripts gives nothing to ask about."""
    assert load_cases(tmp_path) == []
