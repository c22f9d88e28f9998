"""The head that a fold takes out of the view: what is known of it, what of that is told beside the tail, what it leaves open."""

from msgspec.structs import replace

from infold.core.cut import Cut
from infold.core.extract import extract
from infold.core.ledger import EMPTY_LEDGER, Ledger, Quote, merge
from infold.core.log import Log
from infold.core.messages import Message

MOST_UNANSWERED = 200


def callers_in(log: Log, cut: Cut) -> tuple[Message, ...]:
    """The caller's own messages before a cut."""
    return tuple(placed.message for placed in log.live[: cut.index] if not placed.is_own)


def ledger_of(log: Log, cut: Cut) -> Ledger:
    """What is known of everything before a cut, that of earlier folds included (B3)."""
    older = EMPTY_LEDGER
    if log.checkpoint is not None:
        older = log.checkpoint.ledger
        if log.checkpoint.narrative:
            told = Quote(str(log.checkpoint_sequence), log.checkpoint.narrative)
            older = merge(older, Ledger(narratives=(told,)))
    head = ((placed.sequence, placed.message) for placed in log.live[: cut.index])
    return merge(older, extract(head, log.pins, older))


def beside_tail(ledger: Ledger, log: Log, cut: Cut) -> Ledger:
    """The ledger as it may be told beside the kept tail: without what that has already settled, changed, ended or answered."""
    if not (ledger.todos or ledger.errors or ledger.jobs or ledger.questions):
        return ledger
    tail = ((placed.sequence, placed.message) for placed in log.live[cut.index :])
    later = merge(ledger, extract(tail, log.pins, ledger))
    return replace(
        ledger,
        todos=ledger.todos if later.todos == ledger.todos else (),
        errors=tuple(error for error in ledger.errors if error in later.errors),
        jobs=tuple(job for job in ledger.jobs if job in later.jobs),
        questions=tuple(question for question in ledger.questions if question in later.questions),
    )


def unanswered_in(log: Log, cut: Cut) -> dict[str, str]:
    """The newest calls without a result among what was or is folded; there may be any number of them."""
    before = {} if log.checkpoint is None else log.checkpoint.unanswered
    waiting = log.writable_spine().unanswered
    calls = [(call_id, before.get(call_id, "")) for call_id in sorted(log.carried)]
    calls += [
        (call.call_id, call.tool)
        for placed in log.live[: cut.index]
        for call in placed.calls
        if call.call_id in waiting
    ]
    return dict(calls[-MOST_UNANSWERED:])
