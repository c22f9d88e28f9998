"""Law: what is stored is what is read: decode(encode(x)) == x for every entry."""

from hypothesis import given
from tests.support.strategies import histories, situations, titles

from infold.core.compact import simulate
from infold.core.entries import MessageEntry, Title, decode_entry, encode_entry
from infold.core.gauge import PlanInputs
from infold.core.messages import Message
from infold.testing.builders import log_of


@given(histories(), situations(), titles)
def test_every_entry_survives_storage(history: tuple[Message, ...], inputs: PlanInputs, title: Title) -> None:
    """B1: messages, titles, prunings, clippings and checkpoints come back from their stored form as they were."""
    entries = [MessageEntry(message) for message in history]
    made = [entry for one in simulate(log_of((), policy=inputs.policy), history, inputs) for entry in one.entries]

    for entry in (*entries, title, *made):
        assert decode_entry(encode_entry(entry)) == entry
