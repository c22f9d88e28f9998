"""Whether an act is worth what it costs: a cache that breaks, a model's call, somebody's time (B9, B16).

Only what a policy does by itself is weighed here. What a person asks for, and what a document has its preset do, is done; where a
request would not fit, whatever helps is done, though by code alone if it helps little.
"""

from infold.core.entries import Checkpoint, Reason
from infold.core.gauge import Situation, estimated_tokens
from infold.core.log import Log
from infold.core.policy import Policy

LEAST_GAIN_SHARE = 0.05
"""A fold that frees less of the usable window than this is not worth a broken cache, unless the request would not fit."""

LEAST_NEWS_SHARE = 0.1
"""What must have come, of the usable window, after a compaction that missed its target, before the next one and before a model is
asked again: twice the least gain."""


def is_too_soon(log: Log, situation: Situation) -> bool:
    """Whether the newest compaction missed its target and too little came since for another to do better (B9).

    Beside tools that fill most of a window every compaction ends near its trigger, and another would follow at once.
    """
    checkpoint = log.checkpoint
    if checkpoint is None or not _missed_target(checkpoint, situation):
        return False
    return _is_little(estimated_tokens(log, situation) - checkpoint.tokens_after, situation)


def is_worth_folding(head_tokens: int, summary_tokens: int, situation: Situation, reason: Reason) -> bool:
    """Whether to fold a head that large into a summary that large, although the request would fit as it is."""
    if reason == "manual" or _is_by_document(situation.policy):
        return True
    return head_tokens - summary_tokens >= LEAST_GAIN_SHARE * situation.budget.usable_tokens


def is_worth_asking(log: Log, news_tokens: int, situation: Situation, reason: Reason) -> bool:
    """Whether a model is asked for a summary of so much that none stands for yet.

    After a compaction that missed its target code folds what is little: else a model would be asked at almost every step (B9).
    """
    checkpoint = log.checkpoint
    if reason == "manual" or checkpoint is None or not _missed_target(checkpoint, situation):
        return True
    return not _is_little(news_tokens, situation)


def _missed_target(checkpoint: Checkpoint, situation: Situation) -> bool:
    return not _is_by_document(situation.policy) and checkpoint.tokens_after > situation.budget.target_tokens


def _is_little(tokens: int, situation: Situation) -> bool:
    return tokens < LEAST_NEWS_SHARE * situation.budget.usable_tokens


def _is_by_document(policy: Policy) -> bool:
    """Whether when to fold is as a document has it (S1.0)."""
    return policy.target is None or policy.tail.rule == "turns"
