"""DeerFlow replays."""

from collections.abc import Callable

from infold.core.messages import AssistantMessage, calls_of, results_of, text_of
from infold.transcripts.record import Transcript

Read = Callable[[str], Transcript]


def test_pieces_are_put_together(read: Read) -> None:
    """Text and arguments that came in pieces are whole again, and calls of one message stay apart."""
    messages = read("sse-replay.txt").sessions[0].messages

    assert [(c.call_id, c.tool, c.arguments) for m in messages for c in calls_of(m)] == [
        ("d1", "web_search", '{"q": "钟"}'),
        ("d2", "crawl", "{}"),
    ]
    assert text_of(messages[-1]) == "因为有人敲。"


def test_results_follow_and_agents_are_named(read: Read) -> None:
    """Each result answers its call; the reply says which agent gave it."""
    messages = read("sse-replay.txt").sessions[0].messages
    last = messages[-1]

    assert [(r.call_id, r.output) for m in messages for r in results_of(m)] == [("d1", "青铜"), ("d2", "page")]
    assert isinstance(last, AssistantMessage)
    assert (last.agent, last.finish) == ("reporter", "stop")


def test_a_cut_off_event_is_noted(read: Read) -> None:
    """The unfinished last event is told, not raised."""
    assert [skip.count for skip in read("sse-replay.txt").skipped] == [1]
