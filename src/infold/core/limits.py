"""What a provider's rejections teach: a limit nobody had stated, and that our counts run low (B8, B11).

Reports of usage correct the estimate as they come (`tokens.Calibration`); a rejection is rarer and says more.
"""

from msgspec import Struct

__all__ = ["Limits", "NO_LIMITS"]

SMALLEST_TOKENS = 512
"""The smallest limit that is believed: with less there is no room for a reply, and a request so small was refused for something
else than its size."""

UNTOLD_SHARE = 0.9
"""Where a provider refuses without a number, the limit is taken to be below the request by this much."""

LARGEST_FACTOR = 4.0
"""No provider counts more than four times what we do; a larger factor comes from a misread number."""

BYTES_SHARE = 0.5
"""After a refusal for bytes, half of what was refused is the most that is sent."""

FORGETTING = 0.7
"""How much of a learned factor each later report of usage leaves, as for the margin it adds to."""


class Limits(Struct, frozen=True, omit_defaults=True):
    """What is known of a provider beyond what was stated.

    `tokens` is the most it takes, `is_told` whether it said so itself; `bytes` the most bytes of media in a request.
    `factor` is by how much its count exceeded ours, learned when `reports` reports had been heard.
    """

    tokens: int | None = None
    is_told: bool = False
    bytes: int | None = None
    factor: float = 1.0
    reports: int = 0

    def after_bytes(self, refused: int) -> "Limits":
        """What is known after so many bytes were refused."""
        most = max(1, int(refused * BYTES_SHARE))
        return Limits(
            self.tokens, self.is_told, most if self.bytes is None else min(self.bytes, most), self.factor, self.reports
        )

    def after_tokens(
        self, *, estimated_tokens: int, reported_tokens: int | None, limit_tokens: int | None, reports: int
    ) -> "Limits":
        """What is known after a request of that estimate was refused, with the provider's own numbers where there are any."""
        factor = 1.0 if not reported_tokens or not estimated_tokens else reported_tokens / estimated_tokens
        return Limits(
            tokens=max(SMALLEST_TOKENS, limit_tokens) if limit_tokens else self._untold(estimated_tokens),
            is_told=bool(limit_tokens) or self.is_told,
            bytes=self.bytes,
            factor=min(LARGEST_FACTOR, max(1.0, factor, self.factor_after(reports))),
            reports=reports,
        )

    def factor_after(self, reports: int) -> float:
        """The factor as it still holds once so many reports have been heard in all."""
        return 1.0 + (self.factor - 1.0) * FORGETTING ** max(0, reports - self.reports)

    def _untold(self, estimated_tokens: int) -> int | None:
        if self.is_told:  # the limit is known; the request was refused for what was to be written beside it
            return self.tokens
        most = int(estimated_tokens * UNTOLD_SHARE)
        if most < SMALLEST_TOKENS:
            return self.tokens
        return most if self.tokens is None else min(self.tokens, most)


NO_LIMITS = Limits()
