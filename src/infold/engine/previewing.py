"""What a compaction would do, before anybody decides on it."""

from msgspec import Struct
from msgspec.structs import replace

from infold.core.compact import carry_out
from infold.core.cut import cut_before
from infold.core.gauge import Situation, estimated_tokens
from infold.core.log import Log
from infold.core.plan import Fold, NextStep, Prune, Shorten, fold_at, next_step
from infold.errors import UsageError


class Preview(Struct, frozen=True):
    """What a compaction would do: how many messages it folds, the tokens before and after, and the text by code alone.

    Where pruning is enough, nothing is folded and there is no text. Where a fold would be no smaller than what it stands for,
    nothing at all is done, and the tokens stay the same.
    """

    folded_messages: int
    first_kept: int | None
    tokens_before: int
    tokens_after: int
    text: str


def preview(log: Log, situation: Situation, up_to: int | None) -> Preview:
    """The first step of a compaction that a person asks for, by code alone; the log stays as it is.

    Raises `UsageError` where there is nothing to fold.
    """
    check_up_to(log, up_to)
    by_code = replace(situation, summariser=False)
    step = _step(log, by_code, up_to)
    if not isinstance(step, Prune | Shorten | Fold):
        raise UsageError("there is nothing to fold; record some messages first, or name a later one")
    after, before_tokens = carry_out(log, step, by_code).log, estimated_tokens(log, by_code)
    checkpoint = after.checkpoint if after.checkpoint_sequence != log.checkpoint_sequence else None
    if checkpoint is None:
        return Preview(0, None, before_tokens, estimated_tokens(after, by_code), "")
    if checkpoint.tokens_after >= checkpoint.tokens_before:
        return Preview(0, None, before_tokens, before_tokens, "")
    folded, after_tokens = log.length - after.length, estimated_tokens(after, by_code)
    return Preview(folded, checkpoint.first_kept, before_tokens, after_tokens, checkpoint.text)


def check_up_to(log: Log, up_to: int | None) -> None:
    """Raise `UsageError` for the number of a message that the session has not got."""
    if up_to is not None and up_to >= log.next_sequence > 0:
        raise UsageError(
            f"the session ends before message {up_to}; give the number of the first message to keep, as in its handle, at "
            f"most {log.next_sequence - 1}"
        )


def _step(log: Log, situation: Situation, up_to: int | None) -> NextStep | None:
    if up_to is None:
        return next_step(log, situation)
    cut = cut_before(log, up_to)
    return None if cut is None else fold_at(log, cut, situation, "manual")
