"""Folding a head: hear the plugins, get notes, commit."""

import pytest
from msgspec.structs import replace

from infold.core.entries import Checkpoint
from infold.core.events import CompactionVetoed, SummaryRejected
from infold.core.messages import text_of
from infold.core.plan import Fold, fold_at
from infold.core.policy import preset
from infold.core.summary_request import SEVEN_SECTIONS, Additions
from infold.engine.call import Call
from infold.engine.effects import Guidance
from infold.engine.folding import plan_for
from infold.ports import Decision, KeepFrom, Occasion, Supply, Veto

from .scenes import TRIGGERED, URGENT, compacted, situation, step_of, stored
from .worlds import GOOD, Scripted


def decided(decision: Decision | None = None, additions: Additions = Additions()) -> Scripted:
    """A world in which plugins say that."""
    return Scripted(guidance=Guidance(additions, decision))


def hooked(*, focus: str = "") -> Call:
    """A request of a session that has plugins."""
    return Call((), situation(), additions=Additions(focus=focus), has_hooks=True)


# Plugins.


@pytest.mark.parametrize(("steps", "urgent"), [(TRIGGERED, False), (URGENT, True)])
def test_a_veto_lets_the_request_go_out_as_it_stands(steps: int, urgent: bool) -> None:
    """S3.5, B22: nothing is stored and nobody is asked; an event says why, and whether the request fits."""
    scripted = decided(Veto("a deploy is running"))
    log = stored(scripted, steps)
    entries = scripted.entries
    done = compacted(scripted, log, hooked())

    assert scripted.entries == entries
    assert scripted.asked == []
    assert done.log is log
    assert len(done.view) == log.length
    assert done.events == (CompactionVetoed("s", "trigger", "a deploy is running", urgent),)
    assert scripted.events == list(done.events)


def test_plugins_are_told_what_is_to_happen() -> None:
    """S3.5: the occasion has the head, the first kept message, the sizes, the urgency and a person's focus."""
    scripted = decided(Veto("no"))
    log = stored(scripted, URGENT)
    step = step_of(log, situation())
    compacted(scripted, log, hooked(focus="the parser"))
    (occasion,) = scripted.heard

    assert isinstance(occasion, Occasion)
    assert occasion.head == tuple(placed.message for placed in log.live[: step.cut.index])
    assert (occasion.first_kept, occasion.reason, occasion.focus) == (step.cut.first_kept, "trigger", "the parser")
    assert occasion.is_urgent
    assert occasion.tokens_before > occasion.usable_tokens == situation().budget.usable_tokens


def test_nobody_is_consulted_where_nobody_listens() -> None:
    """S3.5: a session without plugins neither asks nor tells any."""
    scripted = decided(Veto("never heard"))
    done = compacted(scripted, stored(scripted, URGENT), Call((), situation()))

    assert scripted.heard == []
    assert done.log.checkpoint is not None


def test_a_supplied_summary_is_used() -> None:
    """S3.5: a plugin's own summary stands in the checkpoint under its name, and no model is asked."""
    scripted = decided(Supply(GOOD))
    done = compacted(scripted, stored(scripted, URGENT), hooked())
    checkpoint = done.log.checkpoint

    assert checkpoint is not None
    assert (checkpoint.narrative, checkpoint.summariser, checkpoint.cost) == (GOOD, "plugin", 0.0)
    assert scripted.asked == []


@pytest.mark.parametrize("summary", ["", "All was moved to src/nowhere.py and lib/neverland.go.", "word " * 90_000])
def test_a_supplied_summary_is_judged(summary: str) -> None:
    """B5, B10: what a plugin brings is held against the history like a model's; the fold by code takes its place."""
    scripted = decided(Supply(summary))
    done = compacted(scripted, stored(scripted, URGENT), hooked())

    assert done.log.checkpoint is not None
    assert (done.log.checkpoint.narrative, done.log.checkpoint.summariser) == ("", "")
    assert any(isinstance(event, SummaryRejected) for event in done.events)
    assert "Never touch vendor/." in text_of(done.view[0])


def test_a_summary_can_be_supplied_where_there_is_no_model() -> None:
    """S3.5, B10: a plugin may be the only summariser there is."""
    scripted = decided(Supply(GOOD))
    call = Call((), replace(situation(), summariser=False), has_hooks=True)
    done = compacted(scripted, stored(scripted, URGENT), call)

    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == GOOD


@pytest.mark.parametrize(("sequence", "first_kept"), [(9, 9), (10, 9), (0, None), (999, 29)])
def test_a_plugin_moves_the_cut(sequence: int, first_kept: int | None) -> None:
    """B12, S3.5: the cut falls at the message named, or at the nearest legal one before; where none is, it stays."""
    scripted = decided(KeepFrom(sequence))
    log = stored(scripted, URGENT)
    own = step_of(log, situation()).cut.first_kept
    compacted(scripted, log, hooked())
    checkpoint = next(entry for entry in scripted.entries if isinstance(entry, Checkpoint))

    assert checkpoint.first_kept == (own if first_kept is None else first_kept)


def test_additions_reach_the_request() -> None:
    """S3.5, B20: contexts of plugins and a person's focus stand in what the summariser is asked."""
    scripted = decided(additions=Additions(contexts=(SEVEN_SECTIONS, "mind the licences"), focus="a plugin's"))
    compacted(scripted, stored(scripted, URGENT), hooked(focus="the parser"))
    asked = text_of(scripted.asked[0].messages[-1])

    assert SEVEN_SECTIONS in asked
    assert "mind the licences" in asked
    assert "Give particular room to this: the parser" in asked
    assert "a plugin's" not in asked


def test_a_replacement_replaces() -> None:
    """S3.5: a prompt of a plugin stands in place of ours; the record and a person's focus stay."""
    scripted = decided(additions=Additions(contexts=("gone",), replacement="List the files only."))
    compacted(scripted, stored(scripted, URGENT), hooked(focus="the parser"))
    asked = text_of(scripted.asked[0].messages[-1])

    assert "List the files only." in asked
    assert "Write notes" not in asked
    assert "gone" not in asked
    assert "<record>" in asked


def test_plugins_hear_of_a_compaction_once_it_stands() -> None:
    """B25: announcing comes after the append, with the very checkpoint that is stored."""
    scripted = decided()
    stored_then: list[int] = []
    world = replace(
        scripted.world(), announce=lambda checkpoint: stored_then.append(scripted.entries.index(checkpoint))
    )
    done = compacted(scripted, stored(scripted, URGENT), hooked(), world)

    assert len(stored_then) == 1
    assert scripted.entries[stored_then[0]] == done.log.checkpoint


@pytest.mark.parametrize("may_continue", [True, False])
def test_a_plugin_can_keep_a_session_from_going_on(may_continue: bool) -> None:
    """B21, S3.8: where a plugin says no, a document's continue message is left out."""
    policy = preset("opencode-1.1.57")
    scripted = Scripted(guidance=Guidance(may_continue=may_continue))
    log = stored(scripted, 60, policy)
    done = compacted(scripted, log, Call((), situation(policy, window=48_000), has_hooks=True))

    assert done.log.checkpoint is not None
    assert any(message.id.startswith("continue-") for message in done.view) is may_continue


def test_a_plan_has_what_the_summary_needs() -> None:
    """S3.4: the step is one for a model whoever planned it, and the focus is the person's, whatever plugins add."""
    log = stored(Scripted(), URGENT)
    cut = step_of(log, situation()).cut
    fold = fold_at(log, cut, replace(situation(), summariser=False), "manual")
    call = Call((), situation(), system="main", additions=Additions(focus="f"), summariser_tokens=9, shares_prefix=True)
    plan = plan_for(fold, situation(), call, Additions(contexts=("c",), focus="other"))

    assert isinstance(fold, Fold)
    assert (plan.step.cut, plan.step.reason) == (cut, "manual")
    assert plan.additions == Additions(contexts=("c",), focus="f")
    assert (plan.system, plan.summariser_tokens, plan.shares_prefix) == ("main", 9, True)
    assert plan_for(fold, situation(), call).additions == call.additions
