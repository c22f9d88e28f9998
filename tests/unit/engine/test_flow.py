"""prepare and record, carried out against a scripted world."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.entries import Checkpoint, Entry, MessageEntry
from infold.core.events import Compacted, Exceeded, StubRepeated, SummaryRejected
from infold.core.gauge import Rates, Situation
from infold.core.judge import Answer, Told
from infold.core.log import Log
from infold.core.logged_message import Rendering
from infold.core.messages import AssistantMessage, Message, ModelRef, SessionId, Usage, UserMessage, text_of
from infold.core.policy import INFOLD, Policy, preset
from infold.core.view import view
from infold.engine.call import Call
from infold.engine.drive import drive
from infold.engine.flow import Prepared, prepare, record
from infold.errors import ModelError, WindowExceeded
from infold.testing.builders import calls, numbered, replies, result, user

from .worlds import GOOD, Scripted


def long_history(steps: int = 40) -> tuple[Message, ...]:
    """One request and many tool steps, far over a window of 16k."""
    drafts = (calls("bash", arguments='{"command": "make part"}'), result(4_000))
    return numbered((user("Port the parser. Never touch vendor/."), *(draft for _ in range(steps) for draft in drafts)))


def situation(
    policy: Policy = INFOLD, *, window: int = 16_000, summariser: bool = True, manual: bool = False
) -> Situation:
    """A policy in a window, with a model to summarise."""
    return Situation(policy, budget_for(Window(window), policy), 200, 1.0, summariser=summariser, manual=manual)


def prepared(scripted: Scripted, history: tuple[Message, ...], given: Situation) -> Prepared:
    """A session prepared from nothing."""
    log = Log(SessionId("s"), Rendering(given.policy.estimate, given.policy.stub))
    return ready(scripted, log, Call(history, given, now_ms=7))


def ready(scripted: Scripted, log: Log, call: Call) -> Prepared:
    """A session prepared where nobody else writes."""
    outcome = drive(prepare(log, call), scripted.world())
    assert isinstance(outcome, Prepared)
    return outcome


def test_a_judged_summary_becomes_the_checkpoint() -> None:
    """S3.1, B5, B25: request, summary and checkpoint are stored in order; the checkpoint knows verdict, price and author."""
    scripted = Scripted()
    done = prepared(scripted, long_history(), situation())
    checkpoint = done.log.checkpoint

    assert checkpoint is not None
    assert (checkpoint.narrative, checkpoint.summariser, checkpoint.cost) == (GOOD, "scripted", 0.25)
    assert checkpoint.verdict is not None
    assert checkpoint.verdict.is_accepted
    assert GOOD in text_of(done.view[0])
    assert "Never touch vendor/." in text_of(done.view[0])
    assert [type(entry).__name__ for entry in scripted.entries[-2:]] == ["MessageEntry", "Checkpoint"]
    assert isinstance(scripted.events[0], Compacted)
    assert scripted.events[0].summariser == "scripted"


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
    scripted = Scripted(bad, bad)
    done = prepared(scripted, long_history(), situation())

    assert len(scripted.asked) == 2
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == ""
    assert "Never touch vendor/." in text_of(done.view[0])
    assert done.gauge.upper_tokens <= situation().budget.limit_tokens
    assert any(isinstance(event, SummaryRejected) for event in scripted.events)


def test_one_bad_answer_is_forgiven() -> None:
    """B5: the second try is used if it is good, and what both cost is counted."""
    done = prepared(Scripted(Answer("")), long_history(), situation())

    assert done.log.checkpoint is not None
    assert (done.log.checkpoint.narrative, done.log.checkpoint.cost) == (GOOD, 0.5)


def test_a_head_too_large_is_summarised_in_pieces() -> None:
    """B8: each request fits the summariser's own window, and the last answer stands for all."""
    scripted = Scripted()
    log = Log(SessionId("s"))
    call = Call(long_history(), situation(window=64_000), summariser_tokens=4_000)
    done = ready(scripted, log, call)

    assert len(scripted.asked) > 3
    assert "<earlier-notes>" not in text_of(scripted.asked[0].messages[0])
    assert GOOD in text_of(scripted.asked[1].messages[0])
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.narrative == GOOD


def test_an_older_summary_is_merged() -> None:
    """B3: the next summary is given the one before, and starts from it."""
    scripted = Scripted()
    first = prepared(scripted, long_history(), situation())
    more = numbered([draft for _ in range(20) for draft in (calls("bash"), result(4_000))], prefix="more")
    ready(scripted, first.log, Call(more, situation()))

    assert GOOD in text_of(scripted.asked[-1].messages[-1])


@pytest.mark.parametrize("stop_after", range(1, 4))
def test_a_crash_between_effects_is_resumed(stop_after: int) -> None:
    """S3.1, B13: what was appended before a crash is read back, and the next prompt is prepared and fits."""

    class Crash(BaseException):
        """A process that ends."""

    scripted = Scripted()
    append = scripted.append

    def dying(entries: Sequence[Entry], expected: int) -> int:
        if scripted.entries and stop_after == 1:
            raise Crash
        done = append(entries, expected)
        if stop_after == 2 and isinstance(entries[-1], MessageEntry) and len(entries) == 1:
            raise Crash
        if stop_after == 3 and isinstance(entries[0], Checkpoint):
            raise Crash
        return done

    with pytest.raises(Crash):
        drive(prepare(Log(SessionId("s")), Call(long_history(), situation())), replace(scripted.world(), append=dying))
    resumed = ready(scripted, scripted.reread(), Call((), situation()))

    assert resumed.gauge.upper_tokens <= situation().budget.limit_tokens
    assert resumed.log.checkpoint is not None
    assert resumed.log.pending is None


def test_a_manual_compaction_happens_once() -> None:
    """B20: a person's wish is met by one compaction, however little there is."""
    scripted = Scripted()
    history = numbered([draft for _ in range(8) for draft in (user("do it"), replies("it is done " * 300))])
    done = prepared(scripted, history, situation(window=64_000, manual=True))

    assert sum(isinstance(event, Compacted) for event in done.events) == 1
    assert done.log.checkpoint is not None
    assert done.log.checkpoint.reason == "manual"


def test_a_document_has_its_summary_message() -> None:
    """S3.6, S3.8: in a document preset the summary is an assistant message with its fields, and a continue message follows."""
    policy = preset("opencode-1.1.23")
    scripted = Scripted()
    history = numbered(
        (
            user("Port it."),
            *(d for _ in range(30) for d in (calls("bash"), result(3_000))),
            replies(usage=Usage(input=190_000)),
        )
    )
    given = Situation(policy, budget_for(Window(200_000, output_tokens=32_000), policy), summariser=True)
    done = prepared(scripted, history, given)
    asked, told, went_on = done.view

    assert isinstance(asked, UserMessage)
    assert isinstance(told, AssistantMessage)
    assert (told.summary, told.mode, told.agent, told.parent_id) == (True, "compaction", "compaction", asked.id)
    assert (told.usage, told.cost, told.created_ms, told.finish) == (Usage(input=10, output=5), 0.25, 7, "stop")
    assert isinstance(went_on, UserMessage)
    assert view(scripted.reread(policy), policy.summary) == done.view


@pytest.mark.parametrize(
    ("told_as", "model"),
    [
        ("gpt-4o", ModelRef("azure", "gpt-4o")),
        ("claude-haiku-4-5", ModelRef("anthropic", "claude-haiku-4-5")),
        ("a function", ModelRef("azure", "gpt-4o")),
    ],
)
def test_a_summary_names_the_model_that_wrote_it(told_as: str, model: ModelRef) -> None:
    """S3.2, S3.6: the user's model, or another that was configured; one nobody knows is not taken for one."""
    policy, scripted = preset("opencode-1.1.23"), Scripted()
    first = replace(user("Port it."), model=ModelRef("azure", "gpt-4o"))
    steps = (*(d for _ in range(30) for d in (calls("bash"), result(3_000))), replies(usage=Usage(input=190_000)))
    given = Situation(policy, budget_for(Window(200_000, output_tokens=32_000), policy), summariser=True)
    log = Log(SessionId("s"), Rendering(policy.estimate, policy.stub))
    world = replace(scripted.world(), ask=lambda _: Told(Answer(GOOD), told_as))
    done = drive(prepare(log, Call(numbered((first, *steps)), given)), world)
    assert isinstance(done, Prepared)
    told = done.view[1]

    assert isinstance(told, AssistantMessage)
    assert told.model == model


def test_stuck_is_an_error_with_numbers() -> None:
    """B9: where system prompt and tools alone are too much, the error says so and observers hear of it."""
    scripted = Scripted()
    given = Situation(INFOLD, budget_for(Window(4_096), INFOLD), overhead_tokens=9_000)

    with pytest.raises(WindowExceeded) as caught:
        prepared(scripted, numbered((user(),)), given)

    assert caught.value.overhead_tokens == 9_000
    assert isinstance(scripted.events[-1], Exceeded)


def test_nothing_new_appends_nothing() -> None:
    """B9: preparing a session that fits stores only what is new."""
    scripted = Scripted()
    done = prepared(scripted, numbered((user(),)), situation())
    ready(scripted, done.log, Call((), situation()))

    assert len(scripted.entries) == 1


@pytest.mark.parametrize(
    ("text", "flagged"), [("done", False), ("cat > a.py\n[pruned: 3,000 characters of read output]", True)]
)
def test_a_reply_that_repeats_a_stub_is_flagged(text: str, flagged: bool) -> None:
    """B24: text that carries a stub is reported, so that nobody writes it to a file."""
    scripted = Scripted()
    done = prepared(scripted, numbered((user(),)), situation())
    log = drive(record(done.log, numbered((replies(text),), prefix="r")), scripted.world())

    assert isinstance(log, Log)
    assert log.next_sequence == 2
    assert any(isinstance(event, StubRepeated) for event in scripted.events) is flagged


def test_a_shared_prefix_is_used_where_it_is_cheaper() -> None:
    """B16: with cached prices known and room for it, the summary is asked for at the end of the ordinary request."""

    scripted = Scripted()
    history = numbered(
        [
            user("Port the parser."),
            *(d for _ in range(30) for d in (calls("bash"), result(400))),
            replies("so far", usage=Usage(input=9_000, output=10)),
        ]
    )
    given = Situation(
        INFOLD,
        budget_for(Window(64_000), INFOLD),
        200,
        bound=1.0,
        summariser=True,
        manual=True,
        rates=Rates(1.25, 0.05),
    )
    ready(scripted, Log(SessionId("s")), Call(history, given, system="main prompt", shares_prefix=True))

    assert scripted.asked[0].shares_prefix
    assert scripted.asked[0].system == "main prompt"
    assert scripted.asked[0].messages[: len(history)] == history
