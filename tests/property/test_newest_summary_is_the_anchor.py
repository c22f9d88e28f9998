"""Law: the newest checkpoint is the only one that speaks, and carries on what the older ones knew."""

from hypothesis import given, settings
from tests.support.play import play
from tests.support.strategies import histories, infold_situations

from infold.core.gauge import PlanInputs
from infold.core.messages import Message
from infold.testing.builders import log_of


@given(histories(max_blocks=40), infold_situations())
def test_a_view_has_one_checkpoint_and_it_comes_first(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B3: after any number of compactions exactly the newest checkpoint opens the view."""
    own = {message.id for message in history}
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        log = played.compaction.log
        made = [index for index, message in enumerate(played.request) if message.id.startswith("checkpoint-")]
        assert made == ([0] if log.checkpoint is not None else [])
        assert made == [] or played.request[0].id not in own


@given(histories(max_blocks=40), infold_situations())
def test_a_ledger_never_forgets_a_file(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B3, B4: a path known to one checkpoint is known to every later one, and its edits never become fewer."""
    known: dict[str, int] = {}
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        checkpoint = played.compaction.log.checkpoint
        if checkpoint is not None:
            edits = {fact.path: fact.edits for fact in checkpoint.ledger.files}
            assert all(edits.get(path, -1) >= count for path, count in known.items())
            known = edits


@settings(max_examples=80)
@given(histories(max_blocks=40), infold_situations())
def test_constraints_accumulate(history: tuple[Message, ...], inputs: PlanInputs) -> None:
    """B2, B3: a rule in one checkpoint's ledger is in every later one's."""
    known: set[str] = set()
    for played in play(log_of((), policy=inputs.policy), history, inputs):
        checkpoint = played.compaction.log.checkpoint
        if checkpoint is not None:
            rules = {quote.text for quote in checkpoint.ledger.constraints}
            assert known <= rules
            known = rules
