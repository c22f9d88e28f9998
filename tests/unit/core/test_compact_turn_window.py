"""Document 003's compaction, case by case."""

import pytest
from msgspec.structs import replace

from infold.core.budget import Window, budget_for
from infold.core.compact import CONTINUE_TEXT, CompactionResult, checkpoint_for, compact
from infold.core.cut import Cut
from infold.core.entries import Checkpoint, MessageEntry
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
    UserMessage,
    text_of,
)
from infold.core.plan import Fold, Summarise, next_step
from infold.core.policy import preset
from infold.core.view import view
from infold.testing.builders import numbered, replies, session, tokens_of_text, user

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
