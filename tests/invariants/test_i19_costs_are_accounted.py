"""I19: what a compaction cost is told: every try, every piece, every iteration, whether anything came of it or not."""

import pytest
from msgspec.structs import replace

from infold import Session, SessionSettings
from infold.core.events import Event
from infold.core.judge import Answer, ModelAnswer
from infold.core.messages import AssistantMessage, Usage
from infold.formats.registry import ANTHROPIC_MESSAGES, OPENAI_CHAT
from infold.stores.memory import MemoryStore

from .scenes import GOOD_NOTES, Notetaker, compactions, conversation, each_preset, opened, written

PRICED = ModelAnswer(Answer(GOOD_NOTES), model="pilot-1", usage=Usage(input=900, output=40), cost=0.25, duration_ms=700)
EMPTY = replace(PRICED, answer=Answer(""))
CUT_OFF = replace(PRICED, answer=Answer(GOOD_NOTES, "length"))
LONG = conversation(40, tokens=12, reply_tokens=900)


@each_preset
@pytest.mark.parametrize(
    ("answers", "cost"),
    [((PRICED,), 0.25), ((EMPTY, PRICED), 0.5), ((EMPTY, CUT_OFF, PRICED), 0.5)],
    ids=["at once", "second try", "twice for nothing"],
)
def test_i19_every_try_is_counted(name: str, answers: tuple[ModelAnswer, ...], cost: float) -> None:
    """B22, S3.7: event and checkpoint have the sum of what was paid and how long it took, also for answers nobody used."""
    events: list[Event] = []
    session = opened(name, OPENAI_CHAT, window=64_000, notes=Notetaker(*answers), events=events)
    session.prepare_new(written(OPENAI_CHAT, LONG))
    session.compact()
    checkpoint = session.log.checkpoint

    assert checkpoint is not None
    assert (checkpoint.cost, checkpoint.duration_ms) == (cost, int(cost / 0.25 * 700))
    assert [(event.cost, event.duration_ms) for event in compactions(events)] == [(cost, checkpoint.duration_ms)]


def test_i19_every_piece_is_counted() -> None:
    """B8, B22: a head that is summarised in pieces costs what all its pieces cost."""
    notes, events = Notetaker(PRICED), list[Event]()
    told = SessionSettings(
        window=64_000, summariser=notes, summariser_tokens=16_000, format="openai-chat", on_event=events.append
    )
    session = Session(MemoryStore(), "s", told)
    session.prepare_new(written(OPENAI_CHAT, LONG))
    session.compact()

    assert len(notes.asked) >= 3
    assert [event.cost for event in compactions(events)] == [0.25 * len(notes.asked)]


def test_i19_a_piece_is_counted_though_the_next_failed() -> None:
    """B10, B22: where a later piece fails, what the earlier ones cost is told all the same."""
    events: list[Event] = []
    told = SessionSettings(
        window=64_000,
        summariser=Notetaker(PRICED, ConnectionError("down")),
        summariser_tokens=16_000,
        format="openai-chat",
        on_event=events.append,
    )
    session = Session(MemoryStore(), "s", told)
    session.prepare_new(written(OPENAI_CHAT, LONG))
    session.compact()

    assert [(event.cost, event.outcome) for event in compactions(events)] == [(0.25, "folded")]


def test_i19_usage_is_that_of_all_tries() -> None:
    """S3.6: beside the price of all tries stands the usage of all tries."""
    session = opened("opencode-1.1.57", OPENAI_CHAT, window=64_000, notes=Notetaker(EMPTY, PRICED))
    session.prepare_new(written(OPENAI_CHAT, LONG))
    session.compact()
    assert session.log.checkpoint is not None
    summary = session.log.checkpoint.summary

    assert summary is not None
    assert (summary.cost, summary.usage) == (0.5, Usage(input=1_800, output=80))


def test_i19_a_summary_message_tells_its_usage() -> None:
    """S3.6: where a document has the summary as a message, its price, usage and model are on it."""
    session = opened("opencode-1.1.57", OPENAI_CHAT, window=64_000, notes=Notetaker(PRICED))
    session.prepare_new(written(OPENAI_CHAT, LONG))
    session.compact()
    assert session.log.checkpoint is not None
    summary = session.log.checkpoint.summary

    assert isinstance(summary, AssistantMessage)
    assert (summary.cost, summary.usage) == (0.25, Usage(input=900, output=40))
    assert session.log.checkpoint.summariser == "pilot-1"


def test_i19_iterations_beneath_the_top_are_heard() -> None:
    """S1.3: where a provider ran several iterations for one reply, the window holds what the last of them held."""
    iteration = {"type": "message", "input_tokens": 800, "output_tokens": 20}
    compaction = {"type": "compaction", "input_tokens": 90_000, "output_tokens": 2_000}
    usage = ANTHROPIC_MESSAGES.usage(
        {"usage": {"input_tokens": 1_700, "output_tokens": 60, "iterations": [iteration, compaction, iteration]}}
    )

    assert usage is not None
    assert (usage.input, usage.output, usage.context) == (1_700, 60, 820)


@pytest.mark.parametrize("notes", [None, Notetaker(ConnectionError("down"))], ids=["nobody asked", "nobody answered"])
def test_i19_what_cost_nothing_says_so(notes: Notetaker | None) -> None:
    """B22: a fold by code alone is told to have cost nothing and to be nobody's words."""
    events: list[Event] = []
    session = opened("infold", OPENAI_CHAT, window=64_000, notes=notes, events=events)
    session.prepare_new(written(OPENAI_CHAT, LONG))
    session.compact()

    assert [(event.cost, event.summariser, event.outcome) for event in compactions(events)] == [(0.0, "", "folded")]
