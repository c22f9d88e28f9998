"""Gemini CLI chat records, as one document and as lines."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, Usage, results_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_pasted_files_are_not_the_users_words(read: Read) -> None:
    """What follows the displayed text in a user message was put there by the program."""
    message = read("gemini-cli.json").sessions[0].messages[0]

    assert [getattr(part, "synthetic", None) for part in message.parts] == [False, True, True]


def test_results_stand_with_their_status(read: Read) -> None:
    """A function response is the output, an error response an error."""
    results = results_of(read("gemini-cli.json").sessions[0].messages[2])

    assert [(result.output, result.status) for result in results] == [
        ("1 2 10 notes.txt", "completed"),
        ("not found", "error"),
    ]


def test_cached_tokens_are_taken_from_the_input(read: Read) -> None:
    """Gemini's input includes the cache; ours does not."""
    reply = read("gemini-cli.json").sessions[0].messages[1]

    assert isinstance(reply, AssistantMessage)
    assert reply.usage == Usage(input=200, output=20, reasoning=30, cache_read=300, total=550)


def test_a_message_written_again_replaces_itself(read: Read) -> None:
    """In the record by lines, the last version of a message counts."""
    session = read("gemini-cli.jsonl").sessions[0]

    assert session.id == "gem-2"
    assert [getattr(part, "text", "") for message in session.messages for part in message.parts] == [
        "Name an owl.",
        "Barn owl.",
    ]
