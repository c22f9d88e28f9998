"""Document 003's compaction, case by case."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import CONTINUE_TEXT, CompactionResult, checkpoint_for, compact
from infold.core.cut import Cut
from infold.core.entries import Checkpoint, MessageEntry, Rejection
from infold.core.events import Compacted
from infold.core.gauge import PlanInputs, gauge
from infold.core.log import Log
from infold.core.messages import (
    AssistantMessage,
    Finish,
    Message,
    MessageId,
    ReasoningPart,
    TextPart,
    ToolResultPart,
    UserMessage,
    text_of,
)
from infold.core.plan import Fits, Fold, Stuck, Summarise, next_step
from infold.core.policy import preset
from infold.core.view import view
from infold.testing.builders import calls, numbered, replies, result, session, tokens_of_text, user

POLICY = preset("turn-window")
SITUATION = PlanInputs(POLICY, budget_for(Window(200_000), POLICY))
ABLE = replace(SITUATION, summariser=True)


def turns(number: int, *, tokens: int = 8_000, reasoning: int = 0) -> list[Message]:
    """Turns of that many tokens, some of them reasoning; each says which it is."""
    return [
        draft
        for n in range(1, number + 1)
        for draft in (
            user(f"{n:04}"),
            replies(tokens_of_text(tokens - reasoning - 1), reasoning=tokens_of_text(reasoning)),
        )
    ]


def grown(log: Log, *drafts: Message, prefix: str) -> Log:
    """The log with more messages."""
    return log.extend(MessageEntry(message) for message in numbered(drafts, prefix=prefix))


def summarised(log: Log, text: str) -> Log:
    """The log after a model wrote that summary."""
    step = next_step(log, ABLE)
    assert isinstance(step, Summarise)
    checkpoint, _ = checkpoint_for(log, step, ABLE, narrative=text)
    return log.append(checkpoint)


def said(log: Log) -> list[str]:
    """Which turns the view has."""
    return [
        text_of(message)
        for message in view(log, POLICY.summary)
        if isinstance(message, UserMessage) and text_of(message) != CONTINUE_TEXT
    ]


def fallen_back(log: Log) -> CompactionResult:
    """The log compacted where no model can summarise."""
    return compact(log, SITUATION)


def test_the_worked_case() -> None:
    """S4.5: 7 turns of 8k are 56k; turn 1 is summarised; 6 turns and the summary are over 32k; so 3 turns stay with it."""
    log = session(*turns(7), policy=POLICY)
    step = next_step(log, ABLE)

    assert gauge(log, SITUATION).count_tokens == 56_000
    assert isinstance(step, Summarise)
    assert step.cut == Cut(2, 2)
    after = summarised(log, tokens_of_text(500))
    assert said(after) == ["0005", "0006", "0007"]
    assert gauge(after, SITUATION).count_tokens <= 32_000
    opening = view(after, POLICY.summary)[0]
    assert isinstance(opening, AssistantMessage)
    assert text_of(opening).startswith("[COMPACTED_CONTEXT]\n")


def test_a_view_within_the_target_keeps_six_turns() -> None:
    """S4.5: where summary and six turns are within 32,000, all six stay."""
    log = session(*turns(1, tokens=30_000), *turns(6, tokens=5_000), policy=POLICY)

    assert len(said(summarised(log, tokens_of_text(500)))) == 6


@pytest.mark.parametrize(("summary_tokens", "kept"), [(1_990, 6), (2_000, 5)])
def test_the_target_is_met_to_the_token(summary_tokens: int, kept: int) -> None:
    """S4.5: exactly 32,000 is not over target, one more is; the prefix counts."""
    log = session(*turns(1, tokens=30_000), *turns(6, tokens=5_000), policy=POLICY)

    assert len(said(summarised(log, tokens_of_text(summary_tokens)))) == kept


def test_the_last_turn_stays_whatever_its_size() -> None:
    """S4.5: at least the newest turn is kept."""
    log = session(*turns(7, tokens=40_000), policy=POLICY)

    assert said(summarised(log, "text")) == ["0007"]


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("number", [0, 1, 6])
def test_nothing_old_is_not_compacted(number: int, finish: Finish) -> None:
    """S4.5: empty history or empty old part: not compacted, even when forced."""
    last = [replies(finish=finish)] if number else []
    log = session(*turns(number, tokens=9_000), *last, policy=POLICY)

    assert fallen_back(log).log is log


def test_a_summary_is_an_old_part() -> None:
    """S4.5: after a compaction the summary stands before the six turns, so six turns of 8k are compacted again."""
    folded = session(policy=POLICY).append(Checkpoint("[COMPACTED_CONTEXT]\ntext"))

    assert isinstance(next_step(grown(folded, *turns(7), prefix="next"), SITUATION), Fold)
    assert isinstance(next_step(grown(folded, *turns(6), prefix="next"), SITUATION), Fold)


# Where the summariser fails.


def test_a_failed_summariser_leaves_no_summary() -> None:
    """S4.5: mechanical cleaning alone: no summary, no reasoning, the newest whole turns within 32,000."""
    done = fallen_back(session(*turns(7, reasoning=10), policy=POLICY))
    messages = view(done.log, POLICY.summary)

    assert done.log.checkpoint is not None
    assert (done.log.checkpoint.text, done.log.checkpoint.cleaned) == ("", True)
    assert said(done.log) == ["0004", "0005", "0006", "0007"]
    assert not any(isinstance(part, ReasoningPart) for message in messages for part in message.parts)
    assert text_of(messages[0]) == "0004"


def test_cleaning_keeps_the_calls_of_the_kept_turns() -> None:
    """S4.5: document 003 removes them; without their results the model would do the work of the turn again."""
    work: list[Message] = [calls("bash"), result(output="kept"), replies("done", reasoning="hmm")]
    done = fallen_back(session(*turns(7), user("0008"), *work, policy=POLICY))
    parts = [part for message in view(done.log, POLICY.summary) for part in message.parts]

    assert done.log.checkpoint is not None
    assert done.log.checkpoint.cleaned
    assert [part.output for part in parts if isinstance(part, ToolResultPart)] == ["kept"]
    assert not any(isinstance(part, ReasoningPart) for part in parts)


def test_cleaning_comes_before_the_choice_of_turns() -> None:
    """S4.5: turns are chosen by what cleaning leaves of them: 6 turns of 8k with 6k reasoning each all fit into 32k."""
    done = fallen_back(session(*turns(7, reasoning=6_000), policy=POLICY))

    assert len(said(done.log)) >= 6


def test_what_cleaning_hid_is_not_counted() -> None:
    """S4.5, B9: the estimate of the cleaned history is that of the messages that are sent."""
    done = fallen_back(session(*turns(7, reasoning=6_000), policy=POLICY))
    shown = view(done.log, POLICY.summary)
    characters = sum(len(part.text) for message in shown for part in message.parts if isinstance(part, TextPart))

    assert gauge(done.log, SITUATION).count_tokens == -(-characters // 4)


def test_the_event_tells_how_many_messages_were_folded() -> None:
    """B22: turns that were dropped to meet the target are counted with the old part."""
    log = session(*turns(7), policy=POLICY)
    (event,) = fallen_back(log).events

    assert isinstance(event, Compacted)
    assert event.folded_messages == 6


def test_cleaning_is_undone_by_nothing_said_later() -> None:
    """S4.4: the cleaned tail stays as it is while the session goes on, and new reasoning is kept."""
    done = fallen_back(session(*turns(7, reasoning=10), policy=POLICY))
    thought = AssistantMessage(MessageId("later"), (ReasoningPart("hm"), TextPart("so")), finish="stop")
    messages = view(done.log.append(MessageEntry(thought)), POLICY.summary)

    assert [message.id for message in messages if any(isinstance(part, ReasoningPart) for part in message.parts)] == [
        "later"
    ]


# Beyond the provider's window.


NARROW = PlanInputs(POLICY, budget_for(Window(64_000), POLICY), bound=1.0)


def words(tokens: int) -> str:
    """Text of about that many tokens by the documents' rules and by infold's own."""
    return "the " * tokens


def long_turns(number: int, *, tokens: int) -> list[Message]:
    """Turns of that many tokens as a provider counts them."""
    return [one for n in range(1, number + 1) for one in (user(f"{n:04}"), replies(words(tokens)))]


@pytest.mark.parametrize(("number", "tokens", "kept"), [(5, 20_000, 1), (4, 20_000, 1), (6, 12_000, 2)])
def test_six_turns_beyond_the_window_are_a_safety_step(number: int, tokens: int, kept: int) -> None:
    """S1.0, B8: six turns or fewer that the provider would refuse are folded down to the turns within the target."""
    log = session(*long_turns(number, tokens=tokens), policy=POLICY)
    done = compact(log, NARROW)

    assert gauge(log, NARROW).upper_tokens > 64_000
    assert isinstance(done.final, Fits)
    assert [step.reason for step in done.steps if isinstance(step, Fold)] == ["safety"]
    assert said(done.log) == [f"{n:04}" for n in range(number - kept + 1, number + 1)]


def test_a_safety_step_keeps_a_turn_that_fits_the_window() -> None:
    """S1.0, S4.5: a last turn over the target that the provider takes stays whole."""
    done = compact(session(*long_turns(2, tokens=40_000), policy=POLICY), NARROW)

    assert isinstance(done.final, Fits)
    assert said(done.log) == ["0002"]


@pytest.mark.parametrize("summariser", [True, False])
def test_one_turn_beyond_the_window_is_cut_inside(summariser: bool) -> None:
    """S1.0, B8, B10: of one long turn of tool steps the newest stay; without a summary, code folds the prompt and the rest."""
    steps: list[Message] = [calls("bash"), result(output=words(3_000))]
    log = session(user("Port the parser."), *steps * 30, policy=POLICY)
    inputs = replace(NARROW, summariser=summariser)
    step = next_step(log, inputs)

    assert isinstance(step, Summarise if summariser else Fold)
    assert step.reason == "safety"
    checkpoint, _ = checkpoint_for(log, step, inputs, narrative="The parser is ported." if summariser else "")
    after = log.append(checkpoint)
    assert isinstance(next_step(after, inputs), Fits)
    assert checkpoint.text.startswith("[COMPACTED_CONTEXT]")
    assert summariser or "Port the parser." in checkpoint.text
    assert len(view(after, POLICY.summary)) > 10


def test_a_refused_request_of_six_turns_is_folded() -> None:
    """S1.0, B8: a provider's refusal below our own count folds turns too, under its own reason."""
    log = session(*long_turns(3, tokens=15_000), policy=POLICY).append(Rejection(45_000))
    step = next_step(log, NARROW)

    assert isinstance(step, Fold)
    assert step.reason == "overflow"


def test_a_summary_is_not_shortened_while_turns_can_go() -> None:
    """S1.0: beyond the window, older turns go before the summary alone is summarised again."""
    folded = session(policy=POLICY).append(Checkpoint("[COMPACTED_CONTEXT]\n" + "text " * 2_000))
    step = next_step(grown(folded, *long_turns(5, tokens=20_000), prefix="next"), NARROW)

    assert isinstance(step, Fold)
    assert step.reason == "safety"
    assert step.cut.index == 8


def test_a_policy_of_turns_without_a_target_is_folded_too() -> None:
    """S1.0, B8: a policy of one's own that keeps turns whatever their size gets the same step."""
    policy = POLICY.but(target=None)
    inputs = PlanInputs(policy, budget_for(Window(64_000), policy), bound=1.0)

    assert isinstance(compact(session(*long_turns(5, tokens=20_000), policy=policy), inputs).final, Fits)


def test_one_message_beyond_the_window_stays() -> None:
    """B9: a single message that is larger than the window cannot be folded, and the plan says so."""
    assert isinstance(compact(session(user(words(80_000)), policy=POLICY), NARROW).final, Stuck)


def test_a_checkpoint_in_front_of_a_step_beyond_the_window_is_not_folded_for_ever() -> None:
    """B9: where neither the last step nor the user's words before it can become smaller, the plan ends."""
    inputs = replace(NARROW, budget=replace(NARROW.budget, limit_tokens=4_096))
    steps: list[Message] = [calls("bash"), result(output=words(50)), calls("bash"), result(output=words(6_000))]
    log = session(user("🙂 ünïcödé " * 200), *steps, policy=POLICY)
    done = compact(log, inputs)

    assert isinstance(done.final, Stuck)
    assert len(done.steps) <= 4


# How often.


def test_at_most_two_compactions_per_prompt() -> None:
    """S1.7, S5.3: forced again and again without a word of the user, the third is not made."""
    log = session(*turns(20, tokens=3_000), policy=POLICY)
    made = 0
    for attempt in range(4):
        more = (user("on", synthetic=True), *(replies(tokens_of_text(9_000)),) * 2, replies(finish="length"))
        log = grown(log, *more * 3, prefix=f"more{attempt}-")
        before = log.checkpoint
        log = fallen_back(log).log
        made += log.checkpoint is not before

    assert made == 2
    assert log.attempts == 2
    assert grown(log, user("a new prompt"), prefix="prompt").attempts == 0
