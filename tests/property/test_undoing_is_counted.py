"""Law: whatever is undone, a report speaks only for what was sent when it was made."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import histories

from infold.core.budget import Window, budget_for
from infold.core.compact import compact
from infold.core.entries import Checkpoint, Clipping, Entry, MessageEntry, Pruning, Restoration
from infold.core.gauge import PlanInputs, gauge
from infold.core.load import load
from infold.core.log import Log
from infold.core.messages import AssistantMessage, Message, SessionId, Usage
from infold.core.policy import INFOLD
from infold.core.view import view
from infold.testing.builders import log_of
from infold.testing.script import count_tokens

SESSION = SessionId("session")
OVERHEAD_TOKENS = 500
BOUND = 1.4


@given(histories(max_blocks=30), st.sampled_from((0.8, 1.0)), st.sampled_from((4_000, 9_000)), st.data())
def test_a_report_speaks_for_what_was_sent(
    history: tuple[Message, ...], factor: float, window: int, data: st.DataObject
) -> None:
    """B8, B20, I13: undone by appending or by reading anew, the proof is never below what a provider would count."""
    inputs = PlanInputs(INFOLD, budget_for(Window(window), INFOLD), OVERHEAD_TOKENS, BOUND)
    log, entries = log_of((), policy=INFOLD), list[Entry]()
    for message in history:
        log = _grown(log, entries, (MessageEntry(_reported(message, log, factor)),))
        log = _grown(log, entries, compact(log, inputs).entries)
        if data.draw(st.integers(0, 2)) == 0:
            log = _undone(log, entries, data)
        sent = view(log, INFOLD.summary)

        counted = factor * (count_tokens(sent) + OVERHEAD_TOKENS)
        upper = gauge(log, inputs).upper_tokens
        assert upper >= counted - 40 * len(sent) or upper > inputs.budget.limit_tokens


def _reported(message: Message, log: Log, factor: float) -> Message:
    """A reply with what its request was."""
    if not isinstance(message, AssistantMessage):
        return message
    sent = count_tokens(view(log, INFOLD.summary)) + OVERHEAD_TOKENS
    usage = Usage(input=int(factor * sent), output=int(factor * count_tokens((message,))))
    return replace(message, usage=usage, finish="stop")


def _grown(log: Log, entries: list[Entry], more: tuple[Entry, ...]) -> Log:
    entries += more
    return log.extend(more)


def _undone(log: Log, entries: list[Entry], data: st.DataObject) -> Log:
    """The session after a person undid something, as another process reads it."""
    gone = {entry.sequence for entry in entries if isinstance(entry, Restoration)}
    hiding = [
        number
        for number, entry in enumerate(entries)
        if number not in gone
        and (
            number == log.checkpoint_sequence
            if isinstance(entry, Checkpoint)
            else isinstance(entry, Pruning | Clipping)
        )
        and (isinstance(entry, Checkpoint) or any(one.is_hidden_by(number) for one in log.altered.values()))
    ]
    if not hiding:
        return log
    entries.append(Restoration(data.draw(st.sampled_from(hiding))))
    return load(SESSION, reversed(list(enumerate(entries))), log.rendering)
