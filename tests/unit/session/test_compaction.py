"""Compacting until the next request fits."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.entries import Checkpoint, Entry, MessageEntry, Verdict
from infold.core.events import Compacted, CompactionVetoed, Exceeded, PreparationDiscarded, SummaryRejected
from infold.core.gauge import PlanInputs, Rates
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import AssistantMessage, Message, ModelRef, Usage, UserMessage, text_of
from infold.core.policy import INFOLD, preset
from infold.core.summary_request import SEVEN_SECTIONS, Additions
from infold.core.view import view
from infold.errors import ModelError, StoreConflict, WindowExceeded
from infold.ports import KeepFrom, Supply, Veto
from infold.session.compaction import LOCK_PAUSE_SECONDS
from infold.session.summary import JudgedSummary, PreparedSummary, SummaryPlan, basis_of
from infold.testing.builders import calls, numbered, replies, result, user

from .compaction_fixture import Compactor, FakeHooks
from .long_sessions import TRIGGERED, URGENT, long_session, plan_inputs, step_of
from .session_fixture import GOOD, KEY


def compactor(steps: int, *answers: Answer | BaseException, hooks: FakeHooks | None = None) -> Compactor:
    """A long session in a store."""
    made = Compactor(*answers, hooks=hooks)
    made.add(long_session(steps))
    return made


def prepare_ahead(made: Compactor, summary: JudgedSummary, **changes: int) -> None:
    """Let a summary of the next head be there already."""
    log = long_session(URGENT)
    basis = basis_of(log, SummaryPlan(step_of(log, plan_inputs()), plan_inputs()))
    made.background.keep(PreparedSummary(replace(basis, **changes), summary))


def long_history(steps: int = 40) -> tuple[Message, ...]:
    """One request and many tool steps, far over a window of 16k."""
    drafts = (calls("bash", arguments='{"command": "make part"}'), result(4_000))
    return numbered((user("Port the parser. Never touch vendor/."), *(draft for _ in range(steps) for draft in drafts)))


# Summaries.


def test_a_judged_summary_becomes_the_checkpoint() -> None:
    """S3.1, B5, B25: request, summary and checkpoint are stored in order; the checkpoint knows verdict, price and author."""
    made = compactor(URGENT)
    done = made.run(plan_inputs())
    checkpoint = done.log.checkpoint

    assert checkpoint is not None
    assert (checkpoint.narrative, checkpoint.summariser, checkpoint.cost) == (GOOD, "scripted", 0.25)
    assert checkpoint.verdict is not None
    assert checkpoint.verdict.is_accepted
    assert GOOD in text_of(done.view[0])
    assert "Never touch vendor/." in text_of(done.view[0])
    assert [type(entry).__name__ for entry in made.store.entries[-2:]] == ["MessageEntry", "Checkpoint"]
    assert [event.summariser for event in made.events if isinstance(event, Compacted)] == ["scripted"]


@pytest.mark.parametrize(
    "bad",
    [
        Answer(""),
        Answer(GOOD, finish="length"),
        Answer(GOOD, calls_tools=True),
        Answer("Everything was moved to src/nowhere.py and lib/neverland.go as asked."),
        Answer(GOOD, finish="content-filter"),
        Answer("The parser was ported. " * 20_000),
        ModelError("scripted", "is down"),
    ],
)
def test_a_bad_summary_is_asked_for_again_then_folded(bad: Answer | ModelError) -> None:
    """B5, B10: whatever goes wrong twice, the deterministic fold takes over, the next prompt fits, and an event says why."""
    made = compactor(URGENT, bad, bad)
    done = made.run(plan_inputs())

    assert len(made.summariser.asked) == 2
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == ""
    assert "Never touch vendor/." in text_of(done.view[0])
    assert done.gauge.upper_tokens <= plan_inputs().budget.limit_tokens
    assert any(isinstance(event, SummaryRejected) for event in made.events)


def test_a_head_too_large_is_summarised_in_pieces() -> None:
    """B8: each request fits the summariser's own window, and the last answer stands for all."""
    made = Compactor()
    made.add(long_history())
    done = made.run(plan_inputs(window=64_000), summariser_tokens=4_000)
    asked = made.summariser.asked

    assert len(asked) > 3
    assert "<earlier-notes>" not in text_of(asked[0].messages[0])
    assert GOOD in text_of(asked[1].messages[0])
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == GOOD


def test_an_older_summary_is_merged() -> None:
    """B3: the next summary is given the one before, and starts from it."""
    made = compactor(URGENT)
    made.run(plan_inputs())
    made.add(numbered([draft for _ in range(20) for draft in (calls("bash"), result(4_000))], prefix="more"))
    made.run(plan_inputs())

    assert GOOD in text_of(made.summariser.asked[-1].messages[-1])


def test_a_shared_prefix_is_used_where_it_is_cheaper() -> None:
    """B16: with cached prices known and room for it, the summary is asked for at the end of the request as it was last sent."""
    history = numbered(
        [
            user("Port the parser."),
            *(d for _ in range(30) for d in (calls("bash"), result(400))),
            replies("so far", usage=Usage(input=9_000, output=10)),
        ]
    )
    made = Compactor()
    made.add(history)
    inputs = replace(plan_inputs(window=64_000, manual=True), rates=Rates(1.25, 0.05))
    made.run(inputs, system="main prompt", shares_prefix=True)
    (request,) = made.summariser.asked

    assert request.shares_prefix
    assert request.system == "main prompt"
    assert request.messages[:-1] == history[:-1]


def test_a_manual_compaction_happens_once() -> None:
    """B20: a person's request is met by one compaction, however little there is."""
    made = Compactor()
    made.add(numbered([draft for _ in range(8) for draft in (user("do it"), replies("it is done " * 300))]))
    done = made.run(plan_inputs(window=64_000, manual=True))

    assert [event.reason for event in done.events if isinstance(event, Compacted)] == ["manual"]


def test_stuck_is_an_error_with_numbers() -> None:
    """B9: if system prompt and tools alone are too much, the error says so and an event is published."""
    made = Compactor()
    made.add(numbered((user(),)))
    with pytest.raises(WindowExceeded) as caught:
        made.run(PlanInputs(INFOLD, budget_for(Window(4_096), INFOLD), overhead_tokens=9_000))

    assert caught.value.overhead_tokens == 9_000
    assert isinstance(made.events[-1], Exceeded)


# Documents.


def documents(first: UserMessage | None = None) -> tuple[Compactor, PlanInputs]:
    """A session over the trigger of a document's preset."""
    policy = preset("opencode-1.1.23")
    steps = (d for _ in range(30) for d in (calls("bash"), result(3_000)))
    made = Compactor()
    made.add(numbered((first or user("Port it."), *steps, replies(usage=Usage(input=190_000)))))
    return made, PlanInputs(policy, budget_for(Window(200_000, output_tokens=32_000), policy), summariser=True)


def test_a_document_has_its_summary_message() -> None:
    """S3.6, S3.8: in a document preset the summary is an assistant message with its fields, and a continue message follows."""
    made, inputs = documents()
    done = made.run(inputs)
    asked, told, went_on = done.view

    assert isinstance(asked, UserMessage)
    assert isinstance(told, AssistantMessage)
    assert (told.summary, told.mode, told.agent, told.parent_id) == (True, "compaction", "compaction", asked.id)
    assert (told.usage, told.cost, told.created_ms, told.finish) == (Usage(input=10, output=5), 0.25, 7, "stop")
    assert isinstance(went_on, UserMessage)
    assert made.run(inputs).view == done.view


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o", ModelRef("azure", "gpt-4o")),
        ("claude-haiku-4-5", ModelRef("anthropic", "claude-haiku-4-5")),
        ("a function", ModelRef("azure", "gpt-4o")),
    ],
)
def test_a_summary_names_the_model_that_wrote_it(name: str, model: ModelRef) -> None:
    """S3.2, S3.6: the user's model, or another that was configured; an unknown name is not taken for one."""
    first = user("Port it.")
    assert isinstance(first, UserMessage)
    made, inputs = documents(replace(first, model=ModelRef("azure", "gpt-4o")))
    made.summariser = lambda _: ModelAnswer(Answer(GOOD), name)  # type: ignore[assignment] # any callable will do
    told = made.run(inputs).view[1]

    assert isinstance(told, AssistantMessage)
    assert told.model == model


# Plugins.


@pytest.mark.parametrize(("steps", "urgent"), [(TRIGGERED, False), (URGENT, True)])
def test_a_veto_lets_the_request_go_out_as_it_stands(steps: int, urgent: bool) -> None:
    """S3.5, B22: nothing is stored and no model is asked; an event says why, and whether the request fits."""
    made = compactor(steps, hooks=FakeHooks(Veto("a deploy is running")))
    entries = made.store.entries
    done = made.run(plan_inputs())

    assert made.store.entries == entries
    assert made.summariser.asked == []
    assert len(done.view) == len(entries)
    assert done.events == (CompactionVetoed("s", "trigger", "a deploy is running", urgent),)
    assert made.events == list(done.events)


def test_plugins_are_told_what_is_to_happen() -> None:
    """S3.5: the occasion has the head, the first kept message, the sizes, the urgency and a person's focus."""
    hooks = FakeHooks(Veto("no"))
    compactor(URGENT, hooks=hooks).run(plan_inputs(), focus="the parser")
    log = long_session(URGENT)
    step, (occasion,) = step_of(log, plan_inputs()), hooks.occasions

    assert len(occasion.head) == step.cut.index
    assert (occasion.first_kept, occasion.reason, occasion.focus) == (step.cut.first_kept, "trigger", "the parser")
    assert occasion.is_urgent
    assert occasion.tokens_before > occasion.usable_tokens == plan_inputs().budget.usable_tokens


@pytest.mark.parametrize("summarises", [True, False])
def test_a_supplied_summary_is_used(summarises: bool) -> None:
    """S3.5: a plugin's own summary stands in the checkpoint under its name, and no model is needed or asked."""
    made = compactor(URGENT, hooks=FakeHooks(Supply(GOOD)))
    checkpoint = made.run(replace(plan_inputs(), summariser=summarises)).log.checkpoint

    assert checkpoint is not None
    assert (checkpoint.narrative, checkpoint.summariser, checkpoint.cost) == (GOOD, "plugin", 0.0)
    assert made.summariser.asked == []


@pytest.mark.parametrize("summary", ["", "All was moved to src/nowhere.py and lib/neverland.go.", "word " * 90_000])
def test_a_supplied_summary_is_judged(summary: str) -> None:
    """B5, B10: a plugin's summary is compared with the history like a model's; the fold by code takes its place."""
    done = compactor(URGENT, hooks=FakeHooks(Supply(summary))).run(plan_inputs())

    assert done.log.checkpoint is not None
    assert (done.log.checkpoint.narrative, done.log.checkpoint.summariser) == ("", "")
    assert any(isinstance(event, SummaryRejected) for event in done.events)
    assert "Never touch vendor/." in text_of(done.view[0])


@pytest.mark.parametrize(("sequence", "first_kept"), [(9, 9), (10, 9), (0, None), (999, 29)])
def test_a_plugin_moves_the_cut(sequence: int, first_kept: int | None) -> None:
    """B12, S3.5: the cut falls at the message named, or at the nearest legal one before; without one it stays."""
    made = compactor(URGENT, hooks=FakeHooks(KeepFrom(sequence)))
    own = step_of(long_session(URGENT), plan_inputs()).cut.first_kept
    made.run(plan_inputs())
    checkpoint = next(entry for entry in made.store.entries if isinstance(entry, Checkpoint))

    assert checkpoint.first_kept == (own if first_kept is None else first_kept)


def test_additions_reach_the_request() -> None:
    """S3.5, B20: contexts of plugins and a person's focus stand in the request to the summariser."""
    additions = Additions(contexts=(SEVEN_SECTIONS, "mind the licences"), focus="a plugin's")
    made = compactor(URGENT, hooks=FakeHooks(additions=additions))
    made.run(plan_inputs(), focus="the parser")
    asked = text_of(made.summariser.asked[0].messages[-1])

    assert SEVEN_SECTIONS in asked
    assert "mind the licences" in asked
    assert "Give particular room to this: the parser" in asked
    assert "a plugin's" not in asked


def test_a_replacement_replaces() -> None:
    """S3.5: a prompt of a plugin stands in place of ours; the record and a person's focus stay."""
    additions = Additions(contexts=("gone",), replacement="List the files only.")
    made = compactor(URGENT, hooks=FakeHooks(additions=additions))
    made.run(plan_inputs(), focus="the parser")
    asked = text_of(made.summariser.asked[0].messages[-1])

    assert "List the files only." in asked
    assert "Write notes" not in asked
    assert "gone" not in asked
    assert "<record>" in asked


def test_plugins_hear_of_a_compaction_once_it_stands() -> None:
    """B25: plugins are told after the append, of the very checkpoint that is stored."""
    hooks = FakeHooks()
    made = compactor(URGENT, hooks=hooks)
    done = made.run(plan_inputs())

    assert hooks.checkpoints == [done.log.checkpoint]
    assert hooks.checkpoints[0] in made.store.entries


@pytest.mark.parametrize("may_continue", [True, False])
def test_a_plugin_can_keep_a_session_from_going_on(may_continue: bool) -> None:
    """B21, S3.8: if a plugin says no, a document's continue message is left out."""
    policy = preset("opencode-1.1.57")
    made = Compactor(hooks=FakeHooks(may_continue=may_continue))
    made.add(long_session(60, policy))
    done = made.run(plan_inputs(policy, window=48_000))

    assert done.log.checkpoint is not None
    assert any(message.id.startswith("continue-") for message in done.view) is may_continue


# The lock.


def test_a_request_that_fits_does_not_wait_for_the_lock() -> None:
    """B14, B18: while another process compacts, a request over its trigger alone goes out as it is."""
    made = compactor(TRIGGERED)
    entries = made.store.entries
    with made.store.hold(KEY):
        done = made.run(plan_inputs())

    assert (made.callbacks.pauses, made.summariser.asked, made.store.entries) == ([], [], entries)
    assert done.events == ()


@pytest.mark.parametrize(("steps", "manual"), [(URGENT, False), (8, True)])
def test_a_request_that_cannot_wait_starts_over_after_another_process(steps: int, manual: bool) -> None:
    """B14, B20: after another process has compacted, the session is another one; no summary is paid for twice."""
    made = compactor(steps)
    made.store.busy = 3
    with pytest.raises(StoreConflict):
        made.run(plan_inputs(manual=manual))

    assert made.callbacks.pauses == [LOCK_PAUSE_SECONDS] * 3
    assert made.summariser.asked == []
    with made.store.hold(KEY) as free:
        assert free


@pytest.mark.parametrize(("steps", "manual"), [(URGENT, False), (8, True)])
def test_patience_ends_in_a_fold_without_the_model(steps: int, manual: bool) -> None:
    """B10, B13, B20: a lock that is never given back is not waited for longer than the session is patient."""
    made = compactor(steps)
    with made.store.hold(KEY):
        done = made.run(plan_inputs(manual=manual), patience_seconds=3 * LOCK_PAUSE_SECONDS)

    assert 3 <= len(made.callbacks.pauses) <= 4
    assert made.summariser.asked == []
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == ""
    assert done.gauge.upper_tokens <= plan_inputs().budget.limit_tokens


@pytest.mark.parametrize("answers", [(), (ModelError("m", "is down"),) * 2])
def test_the_lock_is_free_after_a_compaction(answers: tuple[ModelError, ...]) -> None:
    """B13: whether the model answered or failed, the next process can compact."""
    made = compactor(URGENT, *answers)
    made.run(plan_inputs())
    with made.store.hold(KEY) as free:
        assert free


# Summaries that come late, or early.


def test_a_prepared_summary_is_used() -> None:
    """B18: a summary written ahead stands in the checkpoint, which says so; its request is stored too."""
    made = compactor(URGENT)
    summary = JudgedSummary("The parser was ported ahead of time with make.", None, "early", cost=0.5)
    prepare_ahead(made, summary)
    done = made.run(plan_inputs())
    checkpoint = done.log.checkpoint

    assert checkpoint is not None
    assert (checkpoint.narrative, checkpoint.ahead, checkpoint.cost) == (summary.text, True, 0.5)
    assert checkpoint.request is not None
    assert made.summariser.asked == []
    assert [event.ahead for event in done.events if isinstance(event, Compacted)] == [True]


def test_a_summary_of_another_head_is_discarded() -> None:
    """B18, B22: a summary of another head is discarded, an event has its cost, and the model is asked."""
    made = compactor(URGENT)
    prepare_ahead(made, JudgedSummary("old news", cost=0.5), checkpoint_sequence=77)
    done = made.run(plan_inputs())

    assert [event.cost for event in made.events if isinstance(event, PreparationDiscarded)] == [0.5]
    assert len(made.summariser.asked) == 1
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == GOOD


@pytest.mark.parametrize("kind", [MessageEntry, Checkpoint])
def test_a_prepared_summary_outlives_a_conflict(kind: type[Entry]) -> None:
    """B14, B18: whichever append another writer prevents, the next attempt uses the summary and asks no model."""
    made = compactor(URGENT)
    prepare_ahead(made, JudgedSummary(GOOD, Verdict(GOOD), "early", cost=0.5))

    def prevent(entries: Sequence[Entry]) -> None:
        if isinstance(entries[0], kind):
            made.store.before = lambda _: None
            raise StoreConflict("s", expected=0, actual=1)

    made.store.before = prevent
    with pytest.raises(StoreConflict):
        made.run(plan_inputs())
    done = made.run(plan_inputs())

    assert made.summariser.asked == []
    assert done.log.checkpoint is not None
    assert (done.log.checkpoint.narrative, done.log.checkpoint.cost) == (GOOD, 0.5)


def test_a_summary_that_can_wait_is_wanted() -> None:
    """B18: over the trigger alone a session that defers sends its request, and says which summary it wants."""
    made = compactor(TRIGGERED)
    done = made.run(plan_inputs(), defers=True)

    assert done.wanted == SummaryPlan(step_of(done.log, plan_inputs()), plan_inputs())
    assert (made.summariser.asked, done.events) == ([], ())


@pytest.mark.parametrize(("steps", "manual"), [(URGENT, False), (TRIGGERED, True)])
def test_what_cannot_wait_is_asked_for(steps: int, manual: bool) -> None:
    """B18, B20: over the limit, or at a person's request, a session that defers compacts at once."""
    made = compactor(steps)
    done = made.run(plan_inputs(manual=manual), defers=True)

    assert len(made.summariser.asked) == 1
    assert done.log.checkpoint is not None


class Ended(BaseException):
    """The end of a process."""


@pytest.mark.parametrize(("manual", "reason"), [(False, "trigger"), (True, "manual")])
def test_a_leftover_request_is_carried_out(manual: bool, reason: str) -> None:
    """S3.1, B22: a compaction that was requested and not finished is finished by its own request, for its own reason."""
    made = compactor(8 if manual else URGENT, Ended())
    with pytest.raises(Ended):
        made.run(plan_inputs(manual=manual))
    done = made.run(plan_inputs())
    messages = (entry.message for entry in made.store.entries if isinstance(entry, MessageEntry))
    requests = [message for message in messages if message.id.startswith("compact-")]

    assert done.log.checkpoint is not None
    assert [done.log.checkpoint.request] == requests
    assert done.log.checkpoint.reason == reason


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", [MessageEntry, Checkpoint])
def test_a_crash_at_an_append_is_resumed(kind: type[Entry], late: bool) -> None:
    """S3.1, B13: whichever append a process ends at, the next one prepares a request that fits."""
    made = compactor(URGENT)

    def crash(entries: Sequence[Entry]) -> None:
        if isinstance(entries[0], kind):
            made.store.before = made.store.after = lambda _: None
            raise Ended

    if late:
        made.store.after = crash
    else:
        made.store.before = crash
    with pytest.raises(Ended):
        made.run(plan_inputs())
    resumed = made.run(plan_inputs())

    assert resumed.gauge.upper_tokens <= plan_inputs().budget.limit_tokens
    assert resumed.log.checkpoint is not None
    assert resumed.log.pending is None
    assert view(resumed.log, INFOLD.summary) == resumed.view


def test_a_fold_keeps_a_failed_summaries_pause() -> None:
    """B10: a fold for which no model was asked leaves the pause after failures as it is."""
    made = compactor(URGENT, ModelError("m", "is down"), ModelError("m", "is down"))
    first = made.run(plan_inputs()).log
    made.add(numbered([draft for _ in range(20) for draft in (calls("bash"), result(4_000))], prefix="more"))
    second = made.run(replace(plan_inputs(), summariser=False)).log

    assert first.checkpoint is not None
    assert second.checkpoint is not None
    assert second.checkpoint.failing == first.checkpoint.failing is not None
