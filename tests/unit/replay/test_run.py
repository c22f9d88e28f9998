"""From files to outcomes."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from infold.replay.outcome import BrokenFile, FileOutcome, ReplayPlan
from infold.replay.run import replay_file, replay_session

from .recorded import RULER, session, with_usage, work

DATA = Path(__file__).parents[2] / "data" / "transcripts"
PLAN = ReplayPlan(("infold", "none", "as-recorded"), (8_000, 0))


@pytest.mark.parametrize("name", ["claude-code.jsonl", "codex.jsonl", "pi.jsonl", "opencode.json", "tau.json"])
def test_transcript_is_replayed_under_every_policy(name: str) -> None:
    """Each session of a file has an outcome for each policy at each window."""
    found = replay_file(DATA / name, PLAN, RULER)

    assert isinstance(found, FileOutcome)
    assert [(o.window_tokens, o.policy) for o in found.outcomes] == [
        (w, p) for w in PLAN.windows for p in PLAN.policies
    ]
    assert all(outcome.calls > 0 for outcome in found.outcomes)


def test_two_runs_are_equal() -> None:
    """Nothing depends on chance, time or order."""
    first, second = (replay_file(DATA / "claude-code.jsonl", PLAN, RULER) for _ in range(2))

    assert first == second


def test_broken_file_is_reported(tmp_path: Path) -> None:
    """What cannot be read, or has nothing in it, is told with a reason and raises nothing."""
    (tmp_path / "broken.jsonl").write_text('{"type": "user", "mess')

    assert isinstance(replay_file(tmp_path / "broken.jsonl", PLAN, RULER), BrokenFile)
    missing = replay_file(tmp_path / "missing.jsonl", PLAN, RULER)
    assert isinstance(missing, BrokenFile)
    assert "missing.jsonl" in missing.path


def test_what_limits_the_numbers_is_said() -> None:
    """A session without usage, times, model or price says so, and so does a window that the overhead fills."""
    silent = session([replace(message, created_ms=None) for message in work()])
    told = replay_session(replace(silent, model=None), PLAN, RULER)
    large = replay_session(session(with_usage(work(), overhead=9_000)), replace(PLAN, model="claude-opus-4-6"), RULER)

    assert not told.priced
    assert any("give --model" in note for note in told.notes)
    assert any("no times" in note for note in told.notes)
    assert any("system prompt and tools alone" in note for note in large.notes)
    assert large.calibration is not None


def test_model_and_overhead_can_be_given() -> None:
    """A session is priced and limited as the model that is asked for, with the overhead that is asked for."""
    plan = replace(PLAN, model="gpt-5.4", overhead_tokens=1_234, caching=False)
    told = replay_session(session(with_usage(work())), plan, RULER)

    assert (told.model, told.priced, told.overhead_tokens) == ("gpt-5.4", True, 1_234)
    assert all(outcome.read_tokens == 0 for outcome in told.outcomes)


def test_lost_facts_are_charged_by_whoever_knows_them() -> None:
    """What charges them is made once for each session and asked at each call; the recorded course is not charged."""
    made = []

    def charge(recording: object) -> object:
        made.append(recording)
        return lambda *_: 100

    plan = replace(PLAN, model="claude-opus-4-6", windows=(64_000,))
    told = replay_session(session(work()), plan, RULER, refetch_for=charge)  # type: ignore[arg-type]  # a plain stand-in

    assert len(made) == 1
    for outcome in told.outcomes:
        charged = outcome.policy != "as-recorded"
        assert outcome.refetch_tokens == (100 * outcome.calls if charged else 0)
        assert (outcome.spend.refetch > 0) is charged
