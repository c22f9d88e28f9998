"""What the judge says of a summary."""

import msgspec

from infold.core.verdict import Verdict


def test_a_verdict_with_text_is_acceptance() -> None:
    """B5: a text that was left standing is accepted, whatever was taken out of it; no text is a rejection."""
    assert Verdict("as it is").is_accepted
    assert Verdict("the rest", ("invented",), removed=("a line",), invented=("src/x.py",)).is_accepted
    assert not Verdict("", ("empty",)).is_accepted


def test_a_verdict_is_stored_as_it_is() -> None:
    """B5: a checkpoint keeps its verdict."""
    verdict = Verdict("the rest", ("invented",), removed=("a line",), invented=("src/x.py",))

    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
