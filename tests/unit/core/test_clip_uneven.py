"""Clipping parts that are denser at their ends than on the whole."""

import pytest

from infold.core.clip import SMALLEST_CLIP_TOKENS, choose_clips
from infold.core.entries import Clipping
from infold.core.tokens import measure_part
from infold.testing.builders import calls, result, session, user

PLAIN, DENSE = "all went well here and there " * 400, "😀好0a9f" * 60


@pytest.mark.parametrize("text", [DENSE + PLAIN, PLAIN + DENSE, DENSE + PLAIN + DENSE])
@pytest.mark.parametrize("excess", [200, 2_000])
def test_what_is_left_is_within_what_is_allowed(text: str, excess: int) -> None:
    """B8: where the first guess leaves too much, less is left, until the part is as small as it has to be."""
    log = session(user(), calls("bash"), result(output=text))
    before = measure_part(log.live[2].message.parts[0], "features")
    (clip,) = choose_clips(log, excess_tokens=excess, own_tokens=excess)
    assert clip is not None
    after = measure_part(log.append(Clipping((clip,))).shown(log.live[2]).parts[0], "features")

    assert after <= max(before - excess, SMALLEST_CLIP_TOKENS)
