"""Simple rules to measure against."""

from infold.core.messages import Message, results_of
from infold.replay.policies import MASK, keep_newest, mask_results

from .recorded import work


def test_newest_messages_begin_where_a_request_may() -> None:
    """What is kept fits the room and never begins with a result whose call is gone."""
    messages = work(steps=6)
    tokens = [100] * len(messages)

    assert keep_newest(messages, tokens, 10_000) == messages
    assert keep_newest(messages, tokens, 450) == messages[-3:]
    assert keep_newest(messages, tokens, 0) == messages[-1:]
    assert keep_newest((), (), 0) == ()


def test_old_results_are_masked_and_new_ones_are_not() -> None:
    """The newest results stay, and so does one that no reply has seen; a masked message is made once."""
    messages = work(steps=6)[:-1]
    stubs: dict[int, Message] = {}
    masked = mask_results(messages, keep=2, stubs=stubs)
    outputs = [result.output for message in masked for result in results_of(message)]

    assert [output == MASK for output in outputs] == [True, True, True, False, False, False]
    assert mask_results(messages, keep=2, stubs=stubs)[2] is masked[2]
    assert [message.id for message in masked] == [message.id for message in messages]
