"""What a provider's rejections teach: a limit nobody had stated, and that our counts run low (B8, B11).

Reports of usage correct the estimate as they come (`tokens.Calibration`); a rejection is rarer and says more. One without a
number may be about something else than size. So it narrows no limit below what was accepted since the one before; what is
accepted later widens the limit again; and what a single one taught wears off, until a second one confirms it.
"""

from msgspec import Struct
from msgspec.structs import replace

SMALLEST_TOKENS = 512
"""The smallest limit that is believed: with less there is no room for a reply, and a request so small was refused for something
else than its size."""

UNTOLD_SHARE = 0.9
"""Where a provider refuses without a number, the limit is taken to be below the request by this much."""

LARGEST_FACTOR = 4.0
"""No provider counts more than four times what we do; a larger factor comes from a misread number."""

NEAR_SHARE = 0.5
"""A refusal without a number at this part of the limit that was believed, or above, is one for size: a provider's count may be
twice ours, where nothing is known of its vocabulary."""

WIDENING = 1.1
"""By how much each reply widens a limit that one refusal without a number taught: in seven replies it has doubled."""

LARGEST_TOKENS = 1_000_000_000
"""A limit that has worn off as far as this is none."""

BYTES_SHARE = 0.5
"""After a refusal for bytes, half of what was refused is the most that is sent."""

FORGETTING = 0.7
"""How much of a learned factor each later report of usage leaves, as for the margin it adds to."""


class Limits(Struct, frozen=True, omit_defaults=True):
    """What is known of a provider beyond what was stated.

    `tokens` is the most it takes, `is_told` whether it said so itself; `bytes` the most bytes of media in a request.
    `factor` is by how much its count exceeded ours, learned when `reports` reports had been heard. `accepted` is the most it took
    since it last refused, `refusals` how often it refused without a number. `binds_thinking`: it refused thinking because what
    stands before it had changed.
    """

    tokens: int | None = None
    is_told: bool = False
    bytes: int | None = None
    factor: float = 1.0
    reports: int = 0
    accepted: int = 0
    refusals: int = 0
    binds_thinking: bool = False

    def after_bytes(self, refused: int) -> "Limits":
        """What is known after so many bytes were refused."""
        most = max(1, int(refused * BYTES_SHARE))
        return replace(self, bytes=most if self.bytes is None else min(self.bytes, most))

    def after_reply(self, reported_tokens: int) -> "Limits":
        """What is known after a reply, with the tokens that it and its request were reported to have; 0 where none were."""
        accepted, tokens = max(self.accepted, reported_tokens), self.tokens
        if tokens is not None:
            widened = int(tokens * WIDENING) if self.refusals == 1 and not self.is_told else tokens
            tokens = max(widened, accepted)
        if (accepted, tokens) == (self.accepted, self.tokens):
            return self
        return replace(self, accepted=accepted, tokens=None if tokens and tokens > LARGEST_TOKENS else tokens)

    def after_tokens(
        self,
        *,
        estimated_tokens: int,
        reported_tokens: int | None,
        limit_tokens: int | None,
        reports: int,
        believed_tokens: int | None = None,
    ) -> "Limits":
        """What is known after a request of that estimate was refused, with the provider's own numbers where there are any.

        `believed_tokens` is the limit the request was held to; a refusal near it needs no second one to confirm it.
        """
        factor = 1.0 if not reported_tokens or not estimated_tokens else reported_tokens / estimated_tokens
        learned = replace(
            self, factor=min(LARGEST_FACTOR, max(1.0, factor, self.factor_after(reports))), reports=reports, accepted=0
        )
        if limit_tokens:
            return replace(learned, tokens=max(SMALLEST_TOKENS, limit_tokens), is_told=True)
        most = max(self.accepted, int(estimated_tokens * UNTOLD_SHARE))
        # A limit that was told is known: the request was refused for what was to be written beside it. One that fits any model
        # was refused for something else.
        if self.is_told or most < SMALLEST_TOKENS:
            return learned
        is_near = bool(believed_tokens) and estimated_tokens >= NEAR_SHARE * (believed_tokens or 0)
        return replace(
            learned,
            tokens=most if self.tokens is None else min(self.tokens, most),
            refusals=self.refusals + (2 if is_near else 1),
        )

    def factor_after(self, reports: int) -> float:
        """The factor as it still holds once so many reports have been heard in all."""
        return 1.0 + (self.factor - 1.0) * FORGETTING ** max(0, reports - self.reports)


NO_LIMITS = Limits()
