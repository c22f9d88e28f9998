"""What models and stores receive is, byte for byte, what it was: requests, summary requests, checkpoints, entries, exports.

The digests are of the code before it was restructured, and go when that work is done. `INFOLD_GOLDEN_DUMP=folder` writes the
bytes of every case to files, so that two trees can be compared with `diff -r`; `python -m tests.golden.regenerate` writes the
digests again.
"""

from pathlib import Path

import pytest

from .groups import CORPUS, DUMP, committed_lines, computed_lines, corpus_groups, invented_groups

INVENTED = invented_groups()
OF_CORPUS = corpus_groups()
ABSENT = "the shared corpus is not here; set INFOLD_CORPUS"

pytestmark = [pytest.mark.golden, pytest.mark.slow]


@pytest.mark.parametrize("group", INVENTED)
def test_bytes_are_the_committed_ones(group: str, tmp_path: Path) -> None:
    """Each case over the invented transcripts has the digest and the length that are committed."""
    check(group, computed_lines(group, INVENTED[group](tmp_path)))


@pytest.mark.corpus
@pytest.mark.skipif(not OF_CORPUS, reason=ABSENT)
@pytest.mark.parametrize("group", OF_CORPUS or [str(CORPUS)])
def test_bytes_of_the_corpus_are_the_committed_ones(group: str, tmp_path: Path) -> None:
    """Each case over a real session has the digest and the length that are committed."""
    check(group, computed_lines(group, OF_CORPUS[group](tmp_path)))


def check(group: str, found: dict[str, str]) -> None:
    """Compare the lines of a group with the committed ones, and name the cases that differ."""
    wanted = committed_lines(group)
    differing = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    shown = "\n".join(
        f"  {name}: {wanted.get(name, 'no case')} became {found.get(name, 'no case')}" for name in differing
    )

    assert not differing, f"{len(differing)} cases differ:\n{shown}\nset {DUMP}=folder in both trees to see their bytes"
