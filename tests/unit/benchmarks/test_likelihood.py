"""Views of one size, what of the continuation is scored, and the arithmetic of the tables."""

import argparse
import gzip
import json
import math
from pathlib import Path

import pytest
from benchmarks.likelihood import (
    CLEARED,
    LARGEST_MISS,
    NEXT_TOKENS,
    Case,
    Cut,
    Message,
    Ruler,
    Span,
    Variant,
    View,
    Viewed,
    case_of,
    continuation,
    facts_of,
    fit_room,
    load_package,
    marks_of,
    moved_tail,
    parse_variant,
    read_cases,
    render,
    views_of,
)
from benchmarks.likelihood_table import FULL, INFOLD, JOINED, TAIL, TOGETHER, Score, compare, render_table, resample

RULER = Ruler(lambda text: [ord(character) for character in text], lambda ids: "".join(map(chr, ids)))
"""Counts characters, so that no vocabulary is needed."""


def said(role: str, text: str) -> Message:
    """A message without calls."""
    return {"role": role, "content": text}


def step(number: int, *, result: str = "") -> list[Message]:
    """A reply with a call, and its result."""
    arguments = json.dumps({"command": f"make kite_{number} --into build/part{number}.log"})
    call = {"id": f"call-{number}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    reply = {"role": "assistant", "content": f"Part {number} is next, then its tail.", "tool_calls": [call]}
    output = result or f"compiling part {number}\n" + f"wing {number}: 3 warnings, see src/kite_{number}.py\n" * 12
    return [reply, {"role": "tool", "tool_call_id": f"call-{number}", "content": output}]


SYSTEM = said("system", "You build kites.")
SESSION = [
    SYSTEM,
    said("user", "Build all kites. Never write to the folder archive/old."),
    *(message for number in range(60) for message in step(number)),
]
TAIL_FROM, CUT = 82, 90


def case(*, size: int, foreign: list[Message] | None = None) -> Case:
    """The invented session, cut at the 90th message with a tail of eight."""
    strangers = [message for number in range(100, 160) for message in step(number)]
    cut = Cut("kites.jsonl", CUT, TAIL_FROM, size)
    return case_of(SESSION, cut, number=3, places=[20, 85, CUT], foreign=foreign or strangers)


@pytest.mark.slow
@pytest.mark.parametrize("size", [6_500, 8_000])
def test_views_have_the_size_asked_for(size: int) -> None:
    """Folds, the default one and a variant, and the controls have the size within 3 per cent, and end with the tail as it is."""
    variants = [Variant(INFOLD), Variant("steps", {"steps_share": 0.6})]

    views = views_of(case(size=size), variants, RULER)

    assert views.keys() > {INFOLD, "steps", "random steps + tail", "another session's steps + tail"}
    for name, view in views.items():
        assert view.fits, name
        assert view.tokens == RULER.size(view.messages)
        assert view.messages[-8:] == SESSION[TAIL_FROM:CUT]
        assert name in (TAIL, FULL) or abs(view.tokens - size) <= LARGEST_MISS * size
    assert views[INFOLD].messages != views["steps"].messages


def test_a_view_of_another_size_is_marked() -> None:
    """A size that the tail alone exceeds is reached by no control, and their views are marked."""
    views = views_of(case(size=1_000), [], RULER)

    assert [name for name, view in views.items() if view.fits] == [TAIL, FULL]


def test_steps_are_cleared_unless_all_of_them_fit() -> None:
    """Old steps lose their results; with room for all, results keep a beginning, so that the view has its size."""
    small = views_of(case(size=7_000), [], RULER)["cleared steps + tail"]
    large = views_of(case(size=20_000), [], RULER)["cleared steps + tail"]
    results = [message["content"] for message in large.messages[:-8] if message["role"] == "tool"]

    assert {message["content"] for message in small.messages[:-8] if message["role"] == "tool"} == {CLEARED}
    assert large.fits
    assert len(results) == 40
    assert all(result.startswith("compiling part") for result in results)


def test_random_steps_are_in_order_and_foreign_ones_from_elsewhere() -> None:
    """Controls keep the order of the session; those of another session have none of this one."""
    views = views_of(case(size=7_000), [], RULER)
    places = [
        SESSION.index(message)
        for message in views["random steps + tail"].messages
        if message["role"] == "assistant"  # replies are not shortened
    ]
    foreign = [m for m in views["another session's steps + tail"].messages[:-8] if m["role"] == "assistant"]

    assert places == sorted(places)
    assert places[-5] - places[0] > len(places)
    assert foreign
    assert not [message for message in foreign if message in SESSION]


def test_room_is_found_where_a_fold_takes_less_than_it_has() -> None:
    """The search meets a size although the view uses a part of its room, in lumps."""
    tried: list[int] = []

    def view_with(room: int) -> list[Message]:
        tried.append(room)
        return [said("user", "x" * (50 * (room * 7 // 10 // 50)))]

    found = fit_room(view_with, RULER.size, size=5_000, guess=5_000)

    assert abs(RULER.size(found) - 5_000) <= 50
    assert len(tried) < 10


def test_room_search_ends_where_no_room_helps() -> None:
    """A view that cannot have the size ends the search with the nearest one."""
    found = fit_room(lambda room: [said("user", "x" * min(room, 1_000))], RULER.size, size=5_000, guess=3_000)

    assert RULER.size(found) == 1_004


@pytest.mark.parametrize(("missed", "place"), [(300, 84), (-1_500, 78), (0, 82)])
def test_tail_moves_by_whole_steps(missed: int, place: int) -> None:
    """A tail loses steps until it is smaller by what is too much, and gains those that fit into what is missing."""
    assert moved_tail(SESSION[:CUT], TAIL_FROM, missed, RULER) == place


def test_continuation_is_short_and_its_results_too() -> None:
    """What happened next ends before its largest size, and a long result is shortened."""
    found = continuation([said("assistant", "ok"), *step(1, result="y" * 2_000), *step(2, result="z" * 9_000)], RULER)

    assert len(found[2]["content"]) == 700
    assert RULER.size(found) <= NEXT_TOKENS


def test_decoy_begins_far_from_the_cut() -> None:
    """A decoy is taken from another cut of the session that is more than 20 messages away."""
    assert case(size=7_000).decoy == SESSION[20:]


def test_variants_are_parsed() -> None:
    """A variant has a name and values of the right types; no values mean the default policy."""
    assert parse_variant("steps 0.8:steps_share=0.8, ledger=false") == Variant(
        "steps 0.8", {"steps_share": 0.8, "ledger": False}
    )
    assert parse_variant("plain") == Variant("plain")


@pytest.mark.parametrize(
    ("text", "problem"), [("x:shares=1", "steps_share"), ("x:steps_share=much", "steps_share=much: Expected `float`")]
)
def test_unknown_variant_is_refused(text: str, problem: str) -> None:
    """An unknown field is answered with the known ones, a wrong value with what was expected."""
    with pytest.raises(argparse.ArgumentTypeError, match=problem):
        parse_variant(text)


def test_missing_package_is_named() -> None:
    """Without a heavy package, the error names what to install."""
    with pytest.raises(SystemExit, match="pip install kite-vocabulary"):
        load_package("kite_vocabulary", "kite-vocabulary")


def test_cases_are_read_from_a_folder(tmp_path: Path) -> None:
    """Cases come from sessions and cuts by session, with messages of the next sessions."""
    rows = [{"id": name, "messages": [said("user", name), *step(1)]} for name in ("a", "b", "c")]
    lines = gzip.compress("\n".join(map(json.dumps, rows)).encode())
    (tmp_path / "sessions.jsonl.gz").write_bytes(lines)
    cuts = [
        {"id": "b", "cut": 2, "tail_from": 1, "size": 900, "history": 4},
        {"id": "a", "cut": 1, "tail_from": 1, "size": 9},
    ]
    (tmp_path / "cuts.json").write_text(json.dumps(cuts))

    ((found,),) = read_cases(tmp_path, "b")

    assert (found.head, found.tail, found.next) == (rows[1]["messages"][:1], step(1)[:1], step(1)[1:])
    assert [message["content"] for message in found.foreign if message["role"] == "user"] == ["c", "a"]


def test_prose_calls_and_facts_are_marked() -> None:
    """Scored are the assistant's words and calls; a fact counts where a call names it first, unless it was shown before."""
    reply, result = step(7, result="wrote build/part7.log")
    rendered = render([said("user", "go on"), reply, result, *step(7)], {"kite_7", "build/part7.log"})
    marked = {mark: [rendered.text[s.start : s.end] for s in rendered.spans if s.mark == mark] for mark in (1, 2, 3)}

    assert marked[1] == ["Part 7 is next, then its tail."] * 2
    assert marked[2][0].startswith('\n<tool_call>\n{"name": "bash", "arguments": {"command": "make kite_7')
    assert marked[3] == ["kite_7", "build/part7.log"]
    assert "<|im_start|>user\n<tool_response>\nwrote build/part7.log\n</tool_response><|im_end|>" in rendered.text


def test_facts_shown_in_a_result_are_not_scored_after_it() -> None:
    """A name that a result showed first can be copied from there, so it is no fact any more."""
    _, result = step(8, result="see kite_9")
    rendered = render([result, *step(9)], {"kite_9"})

    assert [span.mark for span in rendered.spans] == [1, 2]


def test_facts_are_telling_names_of_the_history() -> None:
    """Facts are paths, identifiers and numbers with letters that the full history has and the tail lacks."""
    full = [said("user", "plain words, src/kite.py, tailOnly, wing_42, 12345, 1.25.3, -----")]
    views = {FULL: View(1, True, full), TAIL: View(1, True, [said("user", "tailOnly")])}

    assert facts_of(Viewed("kites@1", 1, views, [])) == {"src/kite.py", "wing_42"}


def test_tokens_are_marked_by_their_place() -> None:
    """A token counts if it lies in a span; the higher class wins, and a fact may have one character before it."""
    offsets = [(0, 2), (2, 5), (5, 9), (9, 12), (12, 14)]

    assert marks_of(offsets, [Span(2, 12, 2), Span(6, 9, 3)]) == [0, 2, 3, 2, 0]
    assert marks_of(offsets, [Span(3, 12, 2)]) == [0, 0, 2, 2, 0]


def score(cut: str, view: str, bits: tuple[float, float, float], *, n: int = 10, fits: bool = True) -> Score:
    """A score with so many bits per token of prose, of calls without facts, and of facts."""
    text, calls, facts = (one * n * math.log(2) for one in bits)
    return Score(cut, view, 100, (text, calls, facts), (n, n, n), fits)


SCORES = [
    *(
        score("a@1", *row)
        for row in ((TAIL, (3, 2, 4)), (FULL, (1, 0, 0)), (INFOLD, (2, 1, 3)), ("other", (1.5, 1, 1)))
    ),
    *(score("b@5", *row, n=30) for row in ((TAIL, (3, 2, 4)), (FULL, (1, 0, 0)), (INFOLD, (2, 1, 3)))),
    score("b@5", "other", (0, 0, 0), n=30, fits=False),
]


def test_bits_and_shares_are_those_of_the_sums() -> None:
    """Facts are part of the calls; a share is the gain over the tail in per cent of that of the full history."""
    (group,) = compare(SCORES, [INFOLD])
    rows = {row.view: row for row in group.rows}

    assert (group.cuts, group.sessions) == (2, 2)
    assert list(rows) == [FULL, TAIL, INFOLD, "other"]
    assert rows[INFOLD].bits == pytest.approx({"text": 2, "calls": 2, "facts": 3})
    assert rows[INFOLD].share["text"].value == pytest.approx(50)
    assert rows[INFOLD].share["calls"].value == pytest.approx(100 / 3)
    assert rows[INFOLD].share["facts"].value == pytest.approx(25)
    assert rows["other"].cuts == 1


def test_differences_are_paired_and_add_up() -> None:
    """A difference is over the cuts where both views have the size, and that of prose and calls is the sum of the two."""
    (group,) = compare(SCORES, [INFOLD])
    tail, other = group.differences

    assert (tail.view, tail.cuts, other.view, other.cuts) == (TAIL, 2, "other", 1)
    assert {name: found.value for name, found in other.bits.items()} == pytest.approx(
        {"text": -0.5, "calls": -1, "facts": -2, TOGETHER: -1.5}
    )


def test_bounds_come_from_sessions_and_not_from_cuts() -> None:
    """Cuts of one session are drawn together: with a single session the bounds are the value itself."""
    one = resample({"a@1": [1.0, 10], "a@2": [9.0, 10]}, lambda tally: tally[0] / tally[1])
    two = resample({"a@1": [1.0, 10], "b@2": [9.0, 10]}, lambda tally: tally[0] / tally[1])

    assert (one.low, one.value, one.high) == (0.5, 0.5, 0.5)
    assert (two.low, two.value, two.high) == (0.1, 0.5, 0.9)


def test_joined_dialogues_and_decoys_are_apart() -> None:
    """Each kind of sessions and of continuations is a group with its own cuts, and the table shows all of them."""
    ids = ("a@1", "a@1~decoy", "tau-bench/x#1@4", "tau2-bench/y#1@4~decoy")
    groups = compare([score(one, view, (1, 1, 1)) for one in ids for view in (TAIL, FULL, INFOLD)], [INFOLD])
    text = render_table(groups)

    assert [group.name.partition(":")[0] for group in groups] == ["sessions", "sessions", JOINED, JOINED]
    assert [group.cuts for group in groups] == [1, 1, 1, 1]
    assert f"  {TAIL} minus {INFOLD}, 1 cuts: text +0.000 [+0.000, +0.000]" in text
