"""What a fold keeps of a session."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.corpus import each_label

from infold.core.messages import Message, text_of
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.replay.facts import HistoryFact, without_summaries
from infold.replay.retention import (
    CUTS,
    Measurement,
    RecallProbe,
    decoys_of,
    find_invented,
    fold_log,
    measure_session,
    point_at,
    points_of,
)
from infold.testing.builders import calls, numbered, replies, result, user
from infold.transcripts.record import RecordedCompaction, RecordedSession
from infold.transcripts.registry import read_transcript

DATA = Path(__file__).parents[2] / "data" / "constraints"
LABELLED = sorted(DATA.glob("*.json"))


def steps(count: int) -> list[Message]:
    """Drafts of that many steps, each of which edits a file of its own and reports a figure."""
    drafts: list[Message] = []
    for number in range(count):
        edit = {"path": f"src/part{number}/module.py", "new_string": f"def function_{number}(): ..."}
        drafts += [
            replies(f"The parser now handles {1_000 + number} cases of part {number}. Commit a8f68ce has it."),
            calls("edit", arguments=json.dumps(edit)),
            result(1_600),
        ]
    return drafts


def recorded(count: int, **fields: object) -> RecordedSession:
    """A recorded session of that many steps."""
    drafts = [user("Build the parser. Never push to main."), *steps(count)]
    return replace(RecordedSession("s", tuple(numbered(drafts))), **fields)


@pytest.fixture(scope="module")
def measured() -> Measurement:
    """A session measured once for all that is asked of it."""
    return next(measure_session("file", recorded(60), (DECOY,)))


DECOY = HistoryFact("file", ("elsewhere/other.py",), ("edited",), "1.0", one_record=True)


@pytest.mark.slow
def test_every_number_of_folds_keeps_the_same(measured: Measurement) -> None:
    """k = 10 is the same history in ten folds: what one fold keeps, ten keep."""
    ways = [f"infold k={cuts}" for cuts in CUTS]

    assert all(len({way in scored.held for way in ways}) == 1 for scored in measured.facts)
    assert len({measured.tokens[way] for way in ways}) == 1


def test_the_rule_and_the_files_are_kept(measured: Measurement) -> None:
    """The gate and every changed file stand in the checkpoint, which keeps to its budget and invents nothing."""
    kept = [scored for scored in measured.facts if scored.fact.sets & {"gate", "modified"}]

    assert kept
    assert all("infold k=10" in scored.held for scored in kept)
    assert measured.tokens["infold k=10"] <= 0.04 * measured.head_tokens
    assert not any(measured.invented.values())


def test_controls_behave(measured: Measurement) -> None:
    """What the tail has is in view, what another session had is not, and nothing stale is."""
    tail = [scored for scored in measured.facts if "tail" in scored.fact.sets]
    decoys = [scored for scored in measured.facts if "decoy" in scored.fact.sets]

    assert tail
    assert all("infold k=1" in scored.held for scored in tail)
    assert decoys
    assert not any(scored.held for scored in decoys)
    assert not any(scored.stale for scored in measured.facts)


@pytest.mark.slow
def test_measuring_again_gives_the_same(measured: Measurement) -> None:
    """Two runs are equal to the byte."""
    assert next(measure_session("file", recorded(60), (DECOY,))) == measured


@pytest.mark.slow
def test_a_recorded_summary_is_measured_where_it_was_made() -> None:
    """A session with a known summary is stopped there, and the summary is one of the ways."""
    session = recorded(120, compactions=(RecordedCompaction(150, summary="We edited src/part1/module.py."),))
    found = list(measure_session("file", session))

    assert len(found) == 1
    assert "vendor summary" in found[0].tokens
    assert next(points_of(session)).end == 150


def test_a_short_session_is_not_measured() -> None:
    """What no window would fold has no point, and lends no decoys."""
    assert list(points_of(recorded(3))) == []
    assert decoys_of(recorded(3)) == ()


def test_decoys_are_facts_of_another_session() -> None:
    """A bounded number of facts, of kinds that can be looked for anywhere."""
    decoys = decoys_of(recorded(60))

    assert 0 < len(decoys) <= 40
    assert {fact.kind for fact in decoys} <= {"file", "number", "reference", "identifier"}


def test_one_huge_message_leaves_nothing_to_fold_stepwise() -> None:
    """Where a cut may not fall more often, fewer folds are made, and the last is where it should be."""
    messages = numbered(
        [user("Never push."), replies("some words of text " * 8_000), user("more"), replies("word " * 900)]
    )
    point = point_at(tuple(messages), len(messages))

    assert point is not None
    assert all(tuple(placed.message for placed in fold_log(point, cuts).live) == messages[2:] for cuts in (1, 10))


def test_recall_is_asked_twice_at_most() -> None:
    """A fact is brought back by its origin's words, or by the inner half of them; without words nothing is asked."""
    messages = numbered([user("the helper loadSettings reads it")])
    fact = HistoryFact("found", ("helper",), ("loadsettings",), "1.0", origin="the helper reads it")

    assert set(RecallProbe(messages).finds(fact)) == {"origin 1", "origin 2"}
    assert set(RecallProbe(messages).finds(replace(fact, answers=("other",)))) == set()
    number = HistoryFact("number", ("helper", "absent"), ("loadsettings",), "1.0", origin="helper")
    assert set(RecallProbe(messages).finds(number)) == set()


def test_an_invented_name_is_found() -> None:
    """Paths, numbers and names that the history never had are told; handles and counts of the fold are its own."""
    text = "- src/a.py: edited (12 times) [13.0]\n- … and 1,200 more\nsrc/b.py: 4097 load_config\n- x [1,000 characters in all]"

    assert find_invented(text, "src/a.py load_config") == ("src/b.py", "4097")


@pytest.mark.slow
@each_label()
def test_labelled_constraints_survive_ten_folds(label: dict[str, Any]) -> None:
    """B3: what was marked as a constraint in a session is in the view word for word after ten folds."""
    session = read_transcript(label["path"]).sessions[0]
    messages = without_summaries(session.messages, [compaction.summary for compaction in session.compactions])
    point = point_at(messages, len(messages))
    assert point is not None
    shown = " ".join(" ".join(map(text_of, view(fold_log(point, 10), INFOLD.summary))).split())

    assert [rule for rule in label["constraints"] if " ".join(rule.split()) not in shown] == []


@pytest.mark.parametrize("path", LABELLED, ids=lambda path: path.stem)
def test_labelled_words_survive_among_others(path: Path) -> None:
    """B2: the same words, each said once in a long session of other work, are in the view after ten folds."""
    label = json.loads(path.read_text("utf-8"))
    rules = [rule["text"] for rule in label["constraints"]]
    drafts = [draft for rule in rules for draft in (user(rule), *steps(25))]
    point = point_at(tuple(numbered(drafts)), len(drafts))
    assert point is not None
    shown = " ".join(" ".join(map(text_of, view(fold_log(point, 10), INFOLD.summary))).split())

    assert [rule for rule in rules if " ".join(rule.split()) not in shown] == []
