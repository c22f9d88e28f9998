"""Copilot CLI event logs."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, TextPart, Usage, is_signed, results_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_the_programs_additions_are_told_from_the_users_words(read: Read) -> None:
    """What the program put around the typed text is synthetic."""
    parts = read("copilot-cli.jsonl").sessions[0].messages[0].parts

    assert [(part.text.strip(), part.synthetic) for part in parts if isinstance(part, TextPart)] == [
        ("<current_datetime>now</current_datetime>", True),
        ("Why no honey?", False),
        ("<system_reminder>tables: none</system_reminder>", True),
    ]


def test_results_know_when_they_ran_and_how_they_ended(read: Read) -> None:
    """Start and completion give the times, a failure gives its message."""
    messages = read("copilot-cli.jsonl").sessions[0].messages
    first, second = [result for message in messages for result in results_of(message)]

    assert first.finished_ms == (first.started_ms or 0) + 1000
    assert (second.status, second.output, second.tool) == ("error", "no bees", "task")


def test_a_sub_agents_events_are_a_session(read: Read) -> None:
    """Events that name a parent call belong to that call's session."""
    main, agent = read("copilot-cli.jsonl").sessions

    assert (agent.id, agent.parent) == ("agent-b2", main.id)


def test_reply_and_compaction_keep_their_numbers(read: Read) -> None:
    """Output tokens, opaque reasoning and the tokens before a compaction are kept."""
    session = read("copilot-cli.jsonl").sessions[0]
    reply = session.messages[1]

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(output=50)
    assert is_signed(reply)
    assert [(c.tokens_before, c.summary) for c in session.compactions] == [(9000, "Looked for honey.")]
