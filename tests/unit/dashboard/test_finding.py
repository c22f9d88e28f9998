"""What recall brought back, as passages."""

from infold.dashboard.finding import Passage, passages
from infold.session.recall import recall
from infold.testing.builders import calls, result, user

from .desks import KEY, stored


def test_passages_are_told_apart_by_their_handles() -> None:
    """Each begins with its handle and title; words of recall's own have none."""
    answer = "[2.0] bash ls\nharbour.txt\n\nquay.txt\n\n[0.0]\nlook\n\n[also found in 7.1; ask for a handle to read its part]"

    assert passages(answer) == (
        Passage("2.0", "bash ls", "harbour.txt\n\nquay.txt"),
        Passage("0.0", "", "look"),
        Passage("", "", "[also found in 7.1; ask for a handle to read its part]"),
    )
    assert passages("[2.0] x\nlook\n\n[passages only; ask for a handle to read its part]")[0].text == "look"
    assert passages("[2.0] x\n[passages only; ask for a handle to read its part]\n\nlook")[0].text.endswith("look")
    assert passages("") == ()


def test_what_recall_says_is_understood() -> None:
    """B6: an answer of the engine's own comes apart into the parts it names; that nothing was found is a remark."""
    store = stored(user("where is the harbour key?"), calls("bash"), result(output="harbour key: quay-4711"))

    assert {passage.handle for passage in passages(recall(store, KEY, "harbour key"))} == {"0.0", "2.0"}
    assert [passage.handle for passage in passages(recall(store, KEY, "submarine"))] == [""]
