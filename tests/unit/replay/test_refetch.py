"""What was lost and needed is fetched again."""

from infold.core.messages import Message
from infold.replay.calls import find_calls
from infold.replay.simulate import make_refetch
from infold.testing.builders import calls, numbered, replies, result, user
from infold.transcripts.record import RecordedSession

OUTPUT = "src/quay/berth.py defines load_berths and MooringPlan, commit 9f8e7d6c\n" * 10


def session(*drafts: Message) -> RecordedSession:
    """A recorded session of these messages."""
    return RecordedSession(
        id="s", messages=numbered(drafts), model=None, system="", tools="", compactions=(), parent=None
    )


def tokens_of(text: str) -> int:
    """A token for each word, which is easy to follow."""
    return len(text.split())


def test_a_lost_output_is_charged_once() -> None:
    """B16: however many of its names a reply uses, the output that held them is fetched again once."""
    recorded = session(
        user("go"), calls("read"), result(output=OUTPUT), replies("load_berths in src/quay/berth.py is right")
    )
    recording = find_calls(recorded)
    charge = make_refetch(recording, tokens_of)
    last = recording.calls[-1]

    assert charge(last, recorded.messages[:1]) == tokens_of(OUTPUT)
    assert charge(last, recorded.messages[:3]) == 0
    assert charge(recording.calls[0], recorded.messages[:1]) == 0


def test_a_checkpoint_that_names_it_costs_nothing() -> None:
    """B16: a fact that a summary kept need not be fetched."""
    recorded = session(user("go"), calls("read"), result(output=OUTPUT), replies("MooringPlan is the class"))
    recording = find_calls(recorded)
    kept = numbered((user("[Earlier] MooringPlan was read"),))

    assert make_refetch(recording, tokens_of)(recording.calls[-1], kept) == 0


def test_what_no_tool_told_is_never_charged() -> None:
    """B16: a name the user or the agent brought is not fetched from anywhere."""
    recorded = session(user("write make_plan"), calls("read"), result(output="nothing"), replies("make_plan it is"))
    recording = find_calls(recorded)

    assert make_refetch(recording, tokens_of)(recording.calls[-1], ()) == 0


def test_the_newest_telling_counts() -> None:
    """B16: what was read twice is fetched from where it stood last."""
    recorded = session(
        user("go"),
        calls("read"),
        result(output=OUTPUT),
        calls("grep"),
        result(output="load_berths"),
        replies("load_berths"),
    )
    recording = find_calls(recorded)

    assert make_refetch(recording, tokens_of)(recording.calls[-1], ()) == 1
