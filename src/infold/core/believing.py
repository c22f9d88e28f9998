"""Whether a provider's report can be true: some leave out what they read from their cache, or else count too little.

A report below all that the same text can be in tokens proves nothing about the room that is left. Frames, reasoning, media and
tools are no part of that proof, for an honest provider may leave them out or count them for less than we do.
"""

from infold.core.messages import Usage
from infold.core.tokens import Calibration, Size

LEAST_ESTIMATED = Calibration(prose=0.6, material=0.6, wide=0.4)
"""The least part of an estimate that a provider's count can be, where nothing is known of its vocabulary. For text in ASCII all
measured have at least 0.85 of o200k's tokens, and French, of all the text tried, is estimated furthest too high, by three
tenths; outside ASCII both are less sure."""


def can_be(reported_tokens: int, size: Size, least: Calibration) -> bool:
    """Whether text of that size can have so few tokens."""
    loose = max(least.prose, least.material, least.wide) * size.loose
    return reported_tokens >= least.apply(size) - loose


def is_believable(usage: Usage, sent: Size, answered: Size, least: Calibration) -> bool:
    """Whether a report can be of a request of that size, and with its answer of what stands in the window then."""
    counted = max(usage.prompt, usage.context - usage.output - usage.reasoning)
    return can_be(counted, sent, least) and can_be(usage.context, sent.plus(answered), least)
