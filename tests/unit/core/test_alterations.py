"""How a message looks with some of its parts hidden."""

from infold.core.entries import Clip, Clipping, Handle, Pruning
from infold.core.logged_message import HiddenBy, Rendering, hidden_parts, hide_in_message, show_in_message
from infold.core.messages import Message, MessageId, ToolMessage, ToolResultPart

OUTPUT = "line of output\n" * 200
TWO: Message = ToolMessage(MessageId("m1"), (ToolResultPart("a", "bash", OUTPUT), ToolResultPart("b", "read", OUTPUT)))
CLIP = Clip(Handle("1.0"), 20, 10)


def test_an_entry_names_what_it_hides() -> None:
    """S2.8: a pruning hides whole parts, a clipping says how much of each stays."""
    assert list(hidden_parts(Pruning((Handle("1.0"),), 9))) == [("1.0", "")]
    assert list(hidden_parts(Clipping((CLIP,)))) == [("1.0", CLIP)]


def test_only_the_named_part_changes() -> None:
    """B1: hiding a part leaves the others, and the message itself, as they were."""
    altered = hide_in_message(TWO, 1, {0: ""}, by=5, before=None, rendering=Rendering())

    assert altered.message.parts[1] is TWO.parts[1]
    assert altered.message.parts[0] != TWO.parts[0]
    assert altered.hidden_by == {0: (HiddenBy(5, ""),)}
    assert altered.measured < hide_in_message(TWO, 1, {}, by=5, before=None, rendering=Rendering()).measured * 0.6


def test_undoing_one_of_two_shows_the_other() -> None:
    """B1: a part that two entries hid looks as the remaining one left it."""
    clipped = hide_in_message(TWO, 1, {0: CLIP}, by=5, before=None, rendering=Rendering())
    pruned = hide_in_message(TWO, 1, {0: ""}, by=6, before=clipped, rendering=Rendering())

    again = show_in_message(TWO, 1, pruned, by=6, rendering=Rendering())

    assert again == clipped
    assert pruned.is_hidden_by(5)
    assert not clipped.is_hidden_by(6)


def test_undoing_the_last_shows_the_message() -> None:
    """B1: with nothing hidden any more there is no alteration left."""
    pruned = hide_in_message(TWO, 1, {0: ""}, by=6, before=None, rendering=Rendering())

    assert show_in_message(TWO, 1, pruned, by=6, rendering=Rendering()) is None


def test_a_documents_rule_measures_what_is_shown() -> None:
    """S7.1: an altered message is measured by the session's own rule, and sized in tokens beside."""
    pruned = hide_in_message(TWO, 1, {0: "", 1: ""}, by=6, before=None, rendering=Rendering("round", "[gone]"))

    assert pruned.measured == 2 * len("[gone]")
    assert pruned.size.measure > 0
