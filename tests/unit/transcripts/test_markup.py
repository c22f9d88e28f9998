"""Finding marked stretches without paying twice for an opening."""

from infold.transcripts.values import fenced_command, split_at, without


def test_marked_stretches_are_told_from_the_rest() -> None:
    """Pieces come in order; an opening never closed is plain text."""
    pieces = [(piece.text, piece.inside) for piece in split_at("a<b>c</b>d<b>e", "<b>", "</b>")]

    assert pieces == [("a", False), ("c", True), ("d<b>e", False)]
    assert without("a<b>c</b>d", "<b>", "</b>") == "ad"


def test_many_openings_take_linear_time() -> None:
    """A hundred thousand openings that are never closed are one search."""
    hostile = "<b>" * 100_000

    assert without(hostile, "<b>", "</b>") == hostile


def test_the_first_closed_command_is_found() -> None:
    """Only a fence with a shell's name that is closed holds a command."""
    assert fenced_command("text\n```bash\nls\n```\n```bash\npwd\n```") == "ls"
    assert fenced_command("```python\nls\n```") is None
    assert fenced_command("```bash\nls") is None
